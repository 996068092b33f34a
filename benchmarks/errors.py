"""The error of estimates: in a learned subspace, and shrunk by an estimated noise share.

python -m benchmarks.errors --out docs/results/benchmarks-errors.json

It takes half a minute. The experiments themselves are in tests/helpers/estimate_trials.py, which
tests use with other seeds.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import gensmooth as gs
from benchmarks.record import Row, commit, save, show
from benchmarks.timing import Spread

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from estimate_trials import Trial, cosines

SEEDS = range(2000, 2012)
DIM, RATE = 60, 2e-4  # Guided ES has directions of length 1 instead of √d, so its rate is d times
FAMILIES = {
    "`gs.Learned(3)`": (gs.Learned(3), RATE),
    "`gs.Learned()`": (gs.Learned(), RATE),
    "`gs.Guided(history=3)`": (gs.Guided(history=3), RATE * DIM),
    "`gs.Guided(history=10)`": (gs.Guided(history=10), RATE * DIM),
    "`gs.Guided(history=50)`, as in Gao and Sener": (gs.Guided(history=50), RATE * DIM),
    "`gs.Gaussian()`": (gs.Gaussian(), RATE),
}
CASES = ((50, 10, 0.3), (50, 10, 1.0), (50, 10, 3.0), (50, 10, 10.0), (20, 40, 0.3))


def mean(samples: np.ndarray) -> Spread:
    """The mean, and one standard error below and above it."""
    centre, error = samples.mean(), samples.std(ddof=1) / np.sqrt(len(samples))
    return Spread(float(centre), float(centre - error), float(centre + error))


def learned() -> list[Row]:
    """cos² between estimate and gradient, for directions with and without a memory."""
    return [
        Row(name, mean(np.array([cosines(family, seed, rate, d=DIM) for seed in SEEDS])), "cos²")
        for name, (family, rate) in FAMILIES.items()
    ]


def shrunk() -> list[Row]:
    """The MSE of shrunk noisy estimates, over the squared norm of the gradient."""
    rows: list[Row] = []
    for dim, number, ratio in CASES:
        one, ten = (
            Trial(seed, d=dim, L=number, ratio=ratio, repeats=1, steps=steps)
            for seed, steps in ((50, 1), (51, 10))
        )
        errors = {
            "noise ignored": one.blind,
            "share from 1 step": one.estimated,
            "share from 10 steps": ten.estimated,
            "share known": one.known,
        }
        where = f"d = {dim}, L = {number}, ρ = {ratio:g}"
        rows += [Row(f"{where}: {how}", mean(error), "G") for how, error in errors.items()]
    return rows


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.errors", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    before = commit()
    groups = {"learned": learned(), "shrunk": shrunk()}
    show([row for rows in groups.values() for row in rows], "Errors of estimates")
    if options.out:
        command = " ".join(["python -m benchmarks.errors", *sys.argv[1:]])
        save(options.out, groups, command, ["gensmooth", "numpy"], before)


if __name__ == "__main__":
    main()
