"""The time of a step of the default search, compared with BeS with as many evaluations.

    python -m benchmarks.pilot [--dim 1000000] [--steps 5]

The objective is a single entry of x, so the time is that of the search. Steps of the two alternate,
and the fastest of each counts, so that other load on the machine affects both alike.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

import gensmooth as gs


def step_of(search: gs.RandomSearch | gs.Pilot, x0: np.ndarray) -> Callable[[], tuple[float, int]]:
    """A function that makes one step, and returns its seconds and evaluations."""
    state = search.init(x0, seed=0)

    def step() -> tuple[float, int]:
        nonlocal state
        began = time.perf_counter()
        batch = search.ask(state)
        values = [float(x[0]) for x in batch.points()]
        state, _ = search.tell(state, batch, values)
        return time.perf_counter() - began, len(values)

    return step


def main() -> None:
    """Print seconds per evaluation, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=1_000_000, help="parameters; default: 1000000")
    parser.add_argument("--steps", type=int, default=5, help="steps of each; default: 5")
    options = parser.parse_args()
    x0 = np.zeros(options.dim)
    number = 4 + int(3 * math.log(options.dim))
    steps = {
        "bes": step_of(
            gs.RandomSearch(
                gs.Bernoulli(), num_directions=number, spacing=0.1, optimizer=gs.adam(0.1)
            ),
            x0,
        ),
        "pilot": step_of(gs.Pilot(budget=10**6, samples="independent"), x0),
    }
    costs: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.steps + 1):  # the first one compiles
        for name, step in steps.items():
            seconds, evaluations = step()
            costs[name].append(seconds / evaluations)
    best = {name: min(seconds[1:]) for name, seconds in costs.items()}
    for name, seconds in best.items():
        print(f"{name:6s} {1e3 * seconds:.3f} ms per evaluation")
    print(f"pilot / bes at d = {options.dim}: {best['pilot'] / best['bes']:.2f}")


if __name__ == "__main__":
    main()
