"""Zeroth-order training of large models: its cost relative to the forward passes.

    python -m benchmarks.torch_gpu --out docs/results/benchmarks-torch-gpu.json
    python -m benchmarks.torch_gpu --device cpu --sizes 100m --out ...   # one thread, float32

Each row is a ratio of times that are measured in turns. Every new row is printed and written to the
file at once. On a GPU the Triton kernels are first compared with the Numba kernels.
"""

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import gensmooth as gs
from benchmarks import torch_decoder, torch_mezo
from gensmooth.models import Law, Stream
from gensmooth.streams import Purpose, key_and_counter
from gensmooth.torch import cpu
from gensmooth.torch.tensors import Chosen, backend, law_code, perturb

CPU_BARS = {"perturb coin": 2.0}
BARS = {
    "perturb coin": 1.2,
    "perturb normal": 2.0,
    "step antithetic L=1": 1.15,
    "update coin L=32": 4.0,
    "extra memory": 1.01,
    "drift bits": 0,
}


class Record:
    """Rows, which are printed and written at once."""

    def __init__(self, path: Path | None, seconds: float, bars: dict[str, float]) -> None:
        self.path = path
        self._bars = bars
        self.rows: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    @property
    def late(self) -> bool:
        return self.elapsed > self._seconds

    def add(self, what: str, **values: Any) -> None:
        bar = self._bars.get(what)
        row = {"what": what, **values, "at_s": round(self.elapsed, 1)}
        if bar is not None and values.get("ratio") is not None:
            row |= {"bar": bar, "ok": bool(values["ratio"] <= bar)}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        if self.path is not None:
            text = json.dumps({"facts": self.facts, "rows": self.rows}, indent=1)
            self.path.write_text(text + "\n")


# --- the same numbers on both devices ------------------------------------------------------------


def compare(record: Record, device: str) -> None:
    """The Triton kernels against the Numba ones, bit by bit."""
    from gensmooth.torch import gpu

    key = key_and_counter(0xDEADBEEFCAFEBABE, Purpose.DIRECTION, 2**33 + 5)
    generator = torch.Generator().manual_seed(0)
    for law, name in ((0, "coin"), (1, "normal")):
        worst, unequal, entries = 0.0, 0, 0
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            for size in (100, 65536, 2**20 + 7):
                w = torch.randn(size, generator=generator).to(dtype)
                chosen = (torch.rand(-(-size // 2048), generator=generator) < 0.5).to(torch.uint8)
                many = list(range(33)), np.linspace(-0.3, 0.2, 33).tolist()
                for indices, amounts, keep, tiles in (
                    ([3], [1e-3], 1.0, None),
                    ([2**31 + 1], [-0.5], 1.0, None),
                    (*many, 0.9, None),
                    ([1, 2], [0.1, 0.2], 1.0, chosen),
                ):
                    here, there = torch.empty_like(w), torch.empty_like(w, device=device)
                    far = None if tiles is None else tiles.to(device)
                    cpu.move(key, law, tiles, w, indices, amounts, keep, here)
                    gpu.move(key, law, far, w.to(device), indices, amounts, keep, there)
                    difference = (here.double() - there.cpu().double()).abs()
                    worst = max(worst, float(difference.max()))
                    unequal += int((here != there.cpu()).sum())
                    entries += size
        record.add(f"equal to Numba, {name}", unequal=unequal, of=entries, largest=worst)
    left, right = torch.randn(5, 70, generator=generator), torch.randn(5, 900, generator=generator)
    w = torch.randn(70 * 900, generator=generator)
    here, there = torch.empty_like(w), torch.empty_like(w, device=device)
    cpu.add_products(left, right, w, 0.9, here)
    gpu.add_products(left.to(device), right.to(device), w.to(device), 0.9, there)
    unequal = int((here != there.cpu()).sum())
    cpu.follow(w, here, -0.1, 0.9, here)
    gpu.follow(w.to(device), there, -0.1, 0.9, there)
    unequal += int((here != there.cpu()).sum())
    record.add("equal to Numba, low rank and momentum", unequal=unequal, of=2 * w.numel())


# --- times ---------------------------------------------------------------------------------------


def take_turns(
    calls: dict[str, Callable[[], Any]], device: str, repeats: int
) -> dict[str, list[float]]:
    """Seconds of each call, all of them in each repeat."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(_seconds(call, device))
    return times


def _seconds(call: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def recorded(call: Callable[[], Any], device: str) -> Callable[[], Any]:
    """The same work as a CUDA graph: the device's time, without Python's."""
    if device != "cuda":
        return call
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def ratios(times: dict[str, list[float]], name: str, base: str) -> dict[str, float]:
    found = sorted(a / b for a, b in zip(times[name], times[base], strict=True))
    return {
        "ratio": round(statistics.median(found), 4),
        "low": round(found[len(found) // 4], 4),
        "high": round(found[-1 - len(found) // 4], 4),
        "ms": round(1e3 * statistics.median(times[name]), 3),
        "base_ms": round(1e3 * statistics.median(times[base]), 3),
    }


def passes(record: Record, model: nn.Module, size: str, device: str, repeats: int) -> None:
    """A pass over all parameters: a copy, a perturbation, an update."""
    parameters = [w.data for w in model.parameters()]
    largest = max(parameters, key=lambda w: w.numel())
    scratch = torch.empty_like(largest).view(-1)
    places = [(w, scratch[: w.numel()].view(w.shape)) for w in parameters]
    streams = {
        name: [Stream(seed, Law(name)) for seed in range(len(parameters))]
        for name in ("coin", "normal")
    }
    chosen = Chosen()
    weights = np.linspace(-1e-6, 1e-6, 32).tolist()
    groups: list[list[tuple[int, torch.Tensor, torch.Tensor]]] = [[]]
    end = 0
    for i, w in enumerate(parameters):
        if end + w.numel() > scratch.numel():
            groups.append([])
            end = 0
        groups[-1].append((i, w, scratch[end : end + w.numel()].view(w.shape)))
        end += -(-w.numel() // 256) * 256

    def copy() -> None:
        for w, out in places:
            out.copy_(w)

    def copy_together() -> None:
        for group in groups:
            torch._foreach_copy_([out for _, _, out in group], [w for _, w, _ in group])

    def shifted(law: str) -> Callable[[], None]:
        """As layers do it: together as far as the room of the largest goes."""
        on, prepared = backend(parameters[0].device), []
        for group in groups:
            words = [streams[law][i].key(1)[:2] for i, _, _ in group]
            owns, outs = [w for _, w, _ in group], [out for _, _, out in group]
            prepared.append(on.prepare(words, law_code(law), owns, outs))
        step_words = streams[law][0].key(1)[2:]

        def call() -> None:
            for each in prepared:
                on.move_many(each, step_words, 0, 1e-3)

        return call

    def updated(law: str) -> Callable[[], None]:
        def call() -> None:
            for w, stream in zip(parameters, streams[law], strict=True):
                perturb(
                    w, w, stream=stream, step=1, directions=range(32), amounts=weights,
                    chosen=chosen,
                )  # fmt: skip

        return call

    quick: dict[str, Callable[[], None]] = {
        "copy": copy,
        "coin": shifted("coin"),
        "normal": shifted("normal"),
    }
    if device == "cuda":
        quick["foreach"] = copy_together
    times = take_turns({n: recorded(c, device) for n, c in quick.items()}, device, repeats)
    for law in ("coin", "normal"):
        record.add(f"perturb {law}", size=size, **ratios(times, law, "copy"))
    if device == "cuda":
        record.add("copy by foreach", size=size, **ratios(times, "foreach", "copy"))
        for law in ("coin", "normal"):
            found = ratios(times, law, "foreach")
            record.add(f"perturb {law}, over a copy by foreach", size=size, **found)
        times = take_turns(quick, device, repeats)
        for law in ("coin", "normal"):
            found = ratios(times, law, "copy")
            record.add(f"perturb {law}, launched from Python", size=size, **found)
    slow = {"copy": copy, "coin": updated("coin")}
    times = take_turns({n: recorded(c, device) for n, c in slow.items()}, device, repeats // 2 + 1)
    record.add("update coin L=32", size=size, **ratios(times, "coin", "copy"))
    if device == "cuda":
        slow = {"copy": copy, "normal": updated("normal")}
        times = take_turns({n: recorded(c, device) for n, c in slow.items()}, device, 3)
        record.add("update normal L=32", size=size, **ratios(times, "normal", "copy"))


def steps(record: Record, model: nn.Module, size: str, device: str, repeats: int) -> None:
    """A whole step beside the two forward passes in it, MeZO's beside that, and memory."""
    words = torch_decoder.batch(size, device)

    def closure() -> torch.Tensor:
        with torch.no_grad():
            return torch_decoder.loss(model, words)

    closure()
    peak = 0
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        closure()
        peak = torch.cuda.max_memory_allocated()
        record.add("inference memory", size=size, parameters_gb=_gb(before), peak_gb=_gb(peak))
    opt = gs.torch.ZerothOrder(
        model, lr=1e-9, spacing=1e-3, num_directions=1, estimator="antithetic", seed=0
    )
    opt.step(closure)
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        opt.step(closure)
        extra = torch.cuda.max_memory_allocated() - peak
        layer = max(w.numel() * w.element_size() for w in model.parameters())
        record.add(
            "extra memory",
            size=size,
            ratio=round(extra / layer, 4),
            extra_gb=_gb(extra),
            largest_layer_gb=_gb(layer),
        )

    def twice() -> float:
        return closure().item() + closure().item()

    for law, name in (("bes", "step antithetic L=1"), ("gs", "step antithetic L=1, normal")):
        made = gs.torch.ZerothOrder(  # a step of full cost that hardly moves anything
            model, lr=1e-12, spacing=1e-3, estimator="antithetic", method=law, seed=0
        )
        calls = {"two forwards": twice, "step": partial(made.step, closure)}
        times = take_turns(calls, device, repeats)
        record.add(name, size=size, **ratios(times, "step", "two forwards"))
    calls = {
        "two forwards": twice,
        "MeZO": lambda: torch_mezo.step(model, closure, 1, 1e-12, 1e-3),
    }
    times = take_turns(calls, device, repeats)
    record.add("step of MeZO", size=size, **ratios(times, "MeZO", "two forwards"))


def drift(record: Record, device: str, evaluations: int) -> None:
    """How many bits of the parameters differ after many evaluations."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        model = torch_decoder.build("tiny", device, dtype)
        words = torch_decoder.batch("tiny", device, rows=1, length=8)
        before = [w.detach().clone() for w in model.parameters()]
        opt = gs.torch.ZerothOrder(
            model, lr=1e-6, num_directions=1000, estimator="one-point", seed=0
        )
        done, wanted = 0, evaluations if dtype == torch.bfloat16 else evaluations // 10
        while done < wanted and not record.late:
            with opt._layers.attached():
                for l in range(500):  # noqa: E741
                    with opt.perturbed(direction=l, side=1):
                        model(words)
                    done += 1
        bits = _bits(before, model)
        record.add("drift bits", type=str(dtype), ratio=bits["entries"], evaluations=done, **bits)
        if dtype != torch.bfloat16:
            continue
        opt = gs.torch.ZerothOrder(
            model, lr=1e-6, num_directions=1000, estimator="one-point", mode="in-place", seed=0
        )
        for l in range(1000):  # noqa: E741
            with opt.perturbed(direction=l, side=1):
                pass
        record.add("drift in place", type=str(dtype), evaluations=1000, **_bits(before, model))
        for w, old in zip(model.parameters(), before, strict=True):
            w.data.copy_(old)
        for seed in range(1000):
            torch_mezo.shift(model, seed, 1e-3)
            torch_mezo.shift(model, seed, -1e-3)
        record.add("drift of MeZO", type=str(dtype), evaluations=1000, **_bits(before, model))


def _bits(before: list[torch.Tensor], model: nn.Module) -> dict[str, Any]:
    entries, total, square, size = 0, 0, 0.0, 0.0
    for old, w in zip(before, (w.data for w in model.parameters()), strict=True):
        entries += int((old != w).sum())
        total += w.numel()
        square += float((old.double() - w.double()).square().sum())
        size += float(old.double().square().sum())
    return {"entries": entries, "of": total, "relative_rms": (square / size) ** 0.5}


def tune(record: Record, device: str) -> None:
    """Other sizes of programs, on one large parameter."""
    from gensmooth.torch import gpu

    w = torch.randn(14336 * 8192, device=device).to(torch.bfloat16)
    out = torch.empty_like(w)
    chosen = Chosen()
    many = np.linspace(-1e-6, 1e-6, 32).tolist()
    cases = [
        ("PAIRS", "coin", [1e-3], [{"TILES": n, "num_warps": n} for n in (1, 2, 4, 8)]),
        ("PAIRS", "coin", [1e-3], [{"TILES": 2 * n, "num_warps": n} for n in (2, 4)]),
        ("COINS", "coin", many, [{"WORDS": 32 * n, "num_warps": n} for n in (1, 2, 4)]),
        (
            "FOURS",
            "normal",
            [1e-3],
            [
                {"THREADS": 32 * warps, "ROUNDS": rounds, "num_warps": warps}
                for warps in (2, 4, 8)
                for rounds in (1, 4, 8)
            ],
        ),
        ("NORMALS", "normal", many, _options("BLOCKS", (4, 8, 16), (2, 4))),
    ]
    for name, law, amounts, options in cases:
        kept = getattr(gpu, name)
        for option in options:
            if record.late:
                break
            setattr(gpu, name, option)
            stream = Stream(1, Law(law))

            def call(stream: Stream = stream, amounts: list[float] = amounts) -> None:
                perturb(
                    w, out, stream=stream, step=1, directions=range(len(amounts)),
                    amounts=amounts, chosen=chosen,
                )  # fmt: skip

            times = take_turns({"copy": lambda: out.copy_(w), "ours": call}, device, 15)
            record.add(f"tune {name}", option=option, **ratios(times, "ours", "copy"))
        setattr(gpu, name, kept)


def _options(name: str, sizes: tuple[int, ...], warps: tuple[int, ...]) -> list[dict[str, int]]:
    return [{name: size, "num_warps": each} for size in sizes for each in warps]


def _gb(size: int) -> float:
    return round(size / 1e9, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--sizes", default="1b,8b")
    parser.add_argument("--seconds", type=float, default=200.0, help="begin no new row after this")
    parser.add_argument("--evaluations", type=int, default=10_000)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--skip", default="", help="of compare and drift, what is left out")
    options = parser.parse_args()
    device = options.device
    record = Record(options.out, options.seconds, BARS if device == "cuda" else CPU_BARS)
    on_gpu = device == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    record.facts = {
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if on_gpu:
        import triton

        record.facts["triton"] = triton.__version__
        if "compare" not in options.skip.split(","):
            compare(record, device)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    for size in options.sizes.split(","):
        if record.late:
            break
        model = torch_decoder.build(size, device, dtype)
        number = sum(w.numel() for w in model.parameters())
        record.add("parameters", size=size, number=number)
        passes(record, model, size, device, 20 if on_gpu else 5)
        if on_gpu and not record.late:
            steps(record, model, size, device, 16)
        del model
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()
    if on_gpu and options.tune and not record.late:
        tune(record, device)
    if on_gpu and not record.late and "drift" not in options.skip.split(","):
        drift(record, device, options.evaluations)
    record.add("end", seconds=round(record.elapsed, 1))


if __name__ == "__main__":
    main()
