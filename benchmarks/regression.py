"""Speed of the studies' runs: linear regression against literal sampling, the noisy benchmark.

    python -m benchmarks.regression [--quick] [--out FILE.json]

Literal sampling draws a special orthogonal matrix V for every data point, as in eq.
``linregmodel``; it is measured on a slice of a run's points and scaled up. Three ways to draw x
given V are shown, the plain one and two faster ones. BLAS has one thread: with two, SciPy's draw
takes about twice as long on matrices of this size.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import special_ortho_group

from benchmarks.record import Row, save, show
from benchmarks.timing import FULL, QUICK, Effort, interleave, spread
from gensmooth.directions import named
from gensmooth.problems import noisy, regression

DIM, L, N, ITERATIONS = 100, 20, 50, 1000
SLICE = 10  # literal points in a measurement
Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
METHODS = ("bes-shrinkage", "gs")


def numpys(rng: np.random.Generator, rotation: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """x ~ N(0, Q) by NumPy's default method."""
    return rng.multivariate_normal(np.zeros(DIM), (rotation * gamma) @ rotation.T)


def cholesky(rng: np.random.Generator, rotation: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """x ~ N(0, Q) by the fastest of NumPy's methods."""
    covariance = (rotation * gamma) @ rotation.T
    return rng.multivariate_normal(np.zeros(DIM), covariance, method="cholesky")


def rotated(rng: np.random.Generator, rotation: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """x = V (√γ ∘ z): Q is never formed."""
    return rotation @ (np.sqrt(gamma) * rng.standard_normal(DIM))


# Ways to draw x given V, and the bars.
LITERAL = {
    "x ~ N(0, Q)": (numpys, 1000.0),
    "x ~ N(0, Q) by Cholesky": (cholesky, None),
    "x = V(√γ ∘ z)": (rotated, None),
}


def literal_points(draw: Draw, rng: np.random.Generator) -> float:
    """Draw data points literally; returns the sum of their targets."""
    y = 0.0
    for _ in range(SLICE):
        gamma = rng.uniform(0, 2, DIM)
        rotation = special_ortho_group.rvs(DIM, random_state=rng)
        x = draw(rng, rotation, gamma)
        y += gamma @ x + np.sqrt(rng.uniform(0, 2)) * rng.standard_normal()
    return y


def one_run(name: str) -> regression.RunResult:
    """An entire run: data, estimates, steps, errors, and a test in each round."""
    return regression.run(
        named(name),
        spacing=0.01,
        learning_rate=0.01,
        seed=1,
        num_directions=L,
        num_samples=N,
        dim=DIM,
        rounds=ITERATIONS // 10,
    )


def linear_regression(effort: Effort) -> list[Row]:
    """The time of sampling a run's points literally, divided by the time of the entire run."""
    rng = np.random.default_rng(0)
    runs = {name: partial(one_run, name) for name in METHODS}
    literal = {way: partial(literal_points, draw, rng) for way, (draw, _) in LITERAL.items()}
    times = interleave({**runs, **literal}, effort)
    slices = ITERATIONS * N / SLICE
    rows: list[Row] = []
    for name in METHODS:
        what = f"run, {name}, d = {DIM}, L = {L}, N = {N}, {ITERATIONS} iterations"
        for way, (_, bar) in LITERAL.items():
            faster = spread(times[way] * slices / times[name])
            unit = f"× faster than its points from special orthogonal V, {way}"
            rows.append(Row(what, faster, unit, bar, at_least=True))
        rows.append(Row(what, spread(1e3 * times[name]), "ms"))
    return rows


def one_noisy_run(objective: str, name: str, dim: int, num_directions: int) -> noisy.RunResult:
    """An entire run of the noisy benchmark."""
    return noisy.run(
        objective,
        named(name),
        spacing=0.1,
        learning_rate=1e-6,
        seed=1,
        num_directions=num_directions,
        dim=dim,
    )


def noisy_benchmark(effort: Effort) -> list[Row]:
    """The time of a run of the noisy benchmark in milliseconds."""
    rows: list[Row] = []
    for dim, number in ((10, 1), (100, 10), (100, 100)):
        competitors = {
            f"{objective}, {name}": partial(one_noisy_run, objective, name, dim, number)
            for objective in ("sphere", "hm")
            for name in ("gs", "bes", "orthogonal-es", "guided-es")
        }
        times = interleave(competitors, effort._replace(repeats=min(effort.repeats, 5)))
        rows += [
            Row(f"noisy run, {what}, d = {dim}, L = {number}", spread(1e3 * seconds), "ms")
            for what, seconds in times.items()
        ]
    return rows


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    groups = {"regression": linear_regression(effort), "noisy": noisy_benchmark(effort)}
    rows = [row for group in groups.values() for row in group]
    show(rows, "Runs of the studies, one thread")
    if options.out:
        command = " ".join(["python -m benchmarks.regression", *sys.argv[1:]])
        save(options.out, groups, command, ["gensmooth", "numpy", "numba", "scipy"])
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
