"""ask + tell against other libraries: the time to make all points of a step and use all values.

    python -m benchmarks.peers [--quick] [--out FILE.json]

Each is compared with gensmooth at the same d, number of evaluations, pairing and precision.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gensmooth as gs
from benchmarks import rivals
from benchmarks.record import Row, commit, save, show
from benchmarks.timing import FULL, QUICK, Competitors, Effort, Times, interleave, spread

PACKAGES = ["evosax", "jax", "evotorch", "torch", "pypop7", "cma", "nevergrad"]
BARS = {100: 5, 10_000: 10, 1_000_000: 10}
SKIPPED = "skipped: d × d covariance"
FASTEST = "ask + tell: the fastest of them"
_FORWARD = partial(rivals.ours, "bes", gs.ForwardDifference(), 20)  # 21 evaluations
_PAIRS = partial(rivals.ours, "bes", gs.Antithetic(), 10)  # 20 evaluations
OURS: dict[str, Callable[[int], rivals.Step]] = {
    "ours: BeS, 21 evaluations, float32": partial(_FORWARD, "float32"),
    "ours: BeS, 21 evaluations, float64": partial(_FORWARD, "float64"),
    "ours: BeS, 10 pairs, float32": partial(_PAIRS, "float32"),
    "ours: BeS, 10 pairs, float64": partial(_PAIRS, "float64"),
    "ours: Guided, 10 pairs, float32": partial(
        rivals.ours, "guided-es", gs.Antithetic(), 10, "float32"
    ),
}
_FORWARD_32, _FORWARD_64, _PAIRS_32, _PAIRS_64, _GUIDED = OURS


class Peer(NamedTuple):
    """The method of another library that is closest to one of ours.

    Attributes:
        name: The method.
        package: The package that must be installed.
        ours: Our method that it is compared with.
        make: Returns a function that makes a step.
        largest: The largest d that is measured; a full covariance has d² entries.
    """

    name: str
    package: str
    ours: str
    make: Callable[[int], rivals.Step]
    largest: int = 1_000_000


PEERS = [
    Peer("evosax Open_ES", "evosax", _FORWARD_32, partial(rivals.evosax_open_es, antithetic=False)),
    Peer(
        "evosax Open_ES, antithetic",
        "evosax",
        _PAIRS_32,
        partial(rivals.evosax_open_es, antithetic=True),
    ),
    Peer("evosax GuidedES, history 50", "evosax", _GUIDED, rivals.evosax_guided_es),
    Peer("EvoTorch SNES", "evotorch", _FORWARD_32, rivals.evotorch_snes),
    Peer("EvoTorch PGPE", "evotorch", _FORWARD_32, partial(rivals.evotorch_pgpe, antithetic=False)),
    Peer(
        "EvoTorch PGPE, antithetic",
        "evotorch",
        _PAIRS_32,
        partial(rivals.evotorch_pgpe, antithetic=True),
    ),
    Peer("PyPop7 GS", "pypop7", _FORWARD_64, partial(rivals.pypop7, name="GS")),
    Peer("PyPop7 BES", "pypop7", _FORWARD_64, partial(rivals.pypop7, name="BES")),
    Peer("pycma CMA-ES", "cma", _FORWARD_64, partial(rivals.pycma, diagonal=False), 100),
    Peer("pycma CMA-ES, diagonal", "cma", _FORWARD_64, partial(rivals.pycma, diagonal=True)),
    Peer(
        "Nevergrad (1+1)",
        "nevergrad",
        _FORWARD_64,
        partial(rivals.nevergrad, name="OnePlusOne", number=21),
    ),
    Peer(
        "Nevergrad SPSA", "nevergrad", _PAIRS_64, partial(rivals.nevergrad, name="SPSA", number=20)
    ),
]


def peers(effort: Effort) -> list[Row]:
    """How many times faster we are, against each peer and against the fastest."""
    rows = []
    for dim, bar in BARS.items():
        steps, missing = _set_up(dim)
        repeats = effort.repeats if dim < 1_000_000 else max(5, effort.repeats // 4)
        times = interleave(steps, effort._replace(repeats=repeats))
        rows += _rows(dim, bar, times, missing)
    return rows


def _set_up(dim: int) -> tuple[Competitors, dict[str, str]]:
    """The steps of all methods, and why some are missing."""
    steps = {name: make(dim) for name, make in OURS.items()}
    missing = {}
    for peer in PEERS:
        if dim > peer.largest:
            missing[peer.name] = SKIPPED
            continue
        print(f"  d = {dim:,}: {peer.name} …", file=sys.stderr, flush=True)
        try:
            steps[peer.name] = peer.make(dim)
            steps[peer.name]()
        except ModuleNotFoundError:
            missing[peer.name] = "not installed"
        except Exception as error:  # an error in a peer must not end the benchmark
            steps.pop(peer.name, None)
            missing[peer.name] = f"fails: {type(error).__name__}: {error}"[:100]
    return steps, missing


def _rows(dim: int, bar: float, times: Times, missing: dict[str, str]) -> list[Row]:
    rows = [Row(f"{name}, d = {dim:,}", spread(1e6 * times[name]), "µs a step") for name in OURS]
    ratios = {p.name: spread(times[p.name] / times[p.ours]) for p in PEERS if p.name in times}
    for peer in PEERS:
        what, note = f"{peer.name}, d = {dim:,}", missing.get(peer.name, peer.ours)
        rows.append(Row(what, ratios.get(peer.name), "× our time", note=note))
    # The bar is for the rivals of BeS; Guided ES, compared with Guided ES, is only shown.
    rivals_of_bes = [p.name for p in PEERS if p.name in ratios and p.ours != _GUIDED]
    best = min(rivals_of_bes, key=lambda name: ratios[name].median, default=None)
    row = Row(
        f"{FASTEST}, d = {dim:,}",
        ratios[best] if best else None,
        "× our time",
        bar,
        at_least=True,
        note=best or "none is installed",
    )
    if row.ok and any(why != SKIPPED for why in missing.values()):
        # A missing rival could be the fastest, so the bar is neither reached nor missed.
        row = replace(row, bar=None, note=f"{best}, but some are missing")
    rows.append(row)
    return rows


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    before = commit()
    rows = peers(QUICK if options.quick else FULL)
    show(rows, "ask + tell: time of other libraries over ours, one thread")
    if options.out:
        command = " ".join(["python -m benchmarks.peers", *sys.argv[1:]])
        packages = ["gensmooth", "numpy", "numba", *PACKAGES]
        save(options.out, {"peers": rows}, command, packages, before)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
