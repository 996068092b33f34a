"""Our methods in Nevergrad's own benchmark loop, beside its SPSA, TBPSA and CMA.

    python -m benchmarks.nevergrad_loop --out docs/results/benchmarks-nevergrad.json
    python -m benchmarks.nevergrad_loop --page docs/results/benchmarks-nevergrad.json

Nevergrad makes the functions (rotated, translated), seeds and runs each experiment, and computes
the noise-free loss of the optimiser's recommendation. Our methods were not tuned on these
functions.
"""

import argparse
import json
import platform
import statistics
import sys
import time
import types
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import nevergrad as ng
from nevergrad.functions import ArtificialFunction

import gensmooth.nevergrad  # noqa: F401 (registers)

# Nevergrad's package of benchmarks imports all of its experiments, and so OpenCV and PyTorch. Its
# loop, one module of that package, needs neither, apart from seeding PyTorch. So import it alone.
package = types.ModuleType("nevergrad.benchmark")
package.__path__ = [str(Path(ng.__file__).parent / "benchmark")]
sys.modules["nevergrad.benchmark"] = package
loop = import_module("nevergrad.benchmark.xpbase")
if not hasattr(loop, "torch"):
    loop.torch = types.SimpleNamespace(manual_seed=lambda seed: None)  # noqa: ARG005

OURS = ["GensmoothAuto", "GensmoothBES", "GensmoothBESShrinkage"]
THEIRS = ["SPSA", "TBPSA", "CMA"]
FUNCTIONS = ["sphere", "ellipsoid", "rosenbrock", "rastrigin", "hm"]
NOISES = [0.0, 1.0]
PAGE = Path("docs/integrations.md")
MARKS = ("<!-- nevergrad begin -->\n", "<!-- nevergrad end -->")


def measure(dim: int, budget: int, seeds: int, workers: int) -> list[dict]:
    """One row for each function, noise and optimiser: the losses over the seeds."""
    rows = []
    for name in FUNCTIONS:
        for noise in NOISES:
            for optimizer in OURS + THEIRS:
                began, losses = time.process_time(), []
                for seed in range(seeds):
                    function = ArtificialFunction(
                        name, dim, rotation=True, translation_factor=1.0, noise_level=noise
                    )
                    experiment = loop.Experiment(
                        function, optimizer, budget, num_workers=workers, seed=1000 + seed
                    )
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        done = experiment.run()
                    assert not done.get("error"), done
                    losses.append(float(done["loss"]))
                rows.append(
                    {
                        "function": name,
                        "noise": noise,
                        "optimizer": optimizer,
                        "losses": losses,
                        "seconds": time.process_time() - began,
                    }
                )
                print(name, noise, optimizer, f"{statistics.median(losses):.3g}", flush=True)
    return rows


def table(results: dict) -> str:
    """Median losses, and the mean rank of each optimiser over functions and noises."""
    names = OURS + THEIRS
    cases: dict[tuple, dict[str, list[float]]] = {}
    for row in results["rows"]:
        cases.setdefault((row["function"], row["noise"]), {})[row["optimizer"]] = row["losses"]
    lines = [f"| function | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    ranks: dict[str, list[float]] = {name: [] for name in names}
    for (function, noise), losses in cases.items():
        cells = [f"{statistics.median(losses[name]):.2g}" for name in names]
        best = min(names, key=lambda name: statistics.median(losses[name]))
        cells[names.index(best)] = f"**{cells[names.index(best)]}**"
        what = f"{function}, noise {noise:g}" if noise else function
        lines.append(f"| {what} | {' | '.join(cells)} |")
        order = [statistics.median(losses[name]) for name in names]
        for name, value in zip(names, order, strict=True):
            better = sum(other < value for other in order)
            equal = sum(other == value for other in order)
            ranks[name].append(better + (equal + 1) / 2)
    mean = [f"{statistics.mean(ranks[name]):.2f}" for name in names]
    lines.append(f"| mean rank of {len(names)} | {' | '.join(mean)} |")
    how = results["how"]
    lines += [
        "",
        f"Noise-free loss of the recommended point, median of {how['seeds']} seeds, d = "
        f"{how['dim']}, budget {how['budget']}, {how['workers']} worker; the smallest in bold. "
        f"Ranks are those of the medians, 1 is best. Measured with "
        f"`{results['command']}`; Python {results['python']}, nevergrad {results['nevergrad']}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if options.page is not None:
        text = PAGE.read_text()
        before, _, rest = text.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        results = json.loads(options.page.read_text())
        PAGE.write_text(f"{before}{MARKS[0]}{table(results)}{MARKS[1]}{after}")
        return
    assert all(name in ng.optimizers.registry for name in OURS + THEIRS)
    results = {
        "how": {
            "dim": options.dim,
            "budget": options.budget,
            "seeds": options.seeds,
            "workers": options.workers,
        },
        "command": f"python -m benchmarks.nevergrad_loop --out {options.out}",
        "python": platform.python_version(),
        "nevergrad": version("nevergrad"),
        "rows": measure(options.dim, options.budget, options.seeds, options.workers),
    }
    print(table(results))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
