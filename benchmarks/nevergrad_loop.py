"""Our methods in Nevergrad's own benchmark loop, beside its SPSA, TBPSA and CMA.

python -m benchmarks.nevergrad_loop --out docs/results/benchmarks-nevergrad.json

Nevergrad makes the functions (rotated, translated), seeds and runs each experiment, and computes
the noise-free loss of the optimiser's recommendation. Our methods were not tuned on these
functions.
"""

import argparse
import sys
import types
import warnings
from importlib import import_module
from pathlib import Path

import nevergrad as ng
import numpy as np
from nevergrad.functions import ArtificialFunction

import gensmooth.nevergrad  # noqa: F401 (registers)
from benchmarks.record import Row, commit, save, show
from benchmarks.timing import spread

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


def measure(dim: int, budget: int, seeds: int, workers: int) -> list[Row]:
    """One row for each function, noise and optimiser: the losses over the seeds."""
    rows: list[Row] = []
    for name in FUNCTIONS:
        for noise in NOISES:
            where = f"{name}, noise {noise:g}" if noise else name
            for optimizer in OURS + THEIRS:
                losses: list[float] = []
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
                rows.append(Row(f"{where}: {optimizer}", spread(np.array(losses)), "loss"))
                print(*rows[-1].cells()[:2], flush=True)
    return rows


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nevergrad_loop", description=__doc__
    )
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    assert all(name in ng.optimizers.registry for name in OURS + THEIRS)
    before = commit()
    rows = measure(options.dim, options.budget, options.seeds, options.workers)
    show(rows, "Noise-free loss of the recommended point")
    if options.out:
        command = " ".join(["python -m benchmarks.nevergrad_loop", *sys.argv[1:]])
        save(options.out, {"nevergrad": rows}, command, ["gensmooth", "nevergrad", "cma"], before)


if __name__ == "__main__":
    main()
