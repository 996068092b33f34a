"""The time of a step with each family of directions, and the bookkeeping in a small step.

A step is ask, all points one by one, tell: 10 pairs in float32. It is compared with a step of BeS
at the same d. Guided ES has a full history of 50 estimates, LMRS a learned subspace of 10
dimensions.
"""

import math
from collections.abc import Callable

import numpy as np

import gensmooth as gs
from benchmarks import rivals
from benchmarks.record import Row
from benchmarks.timing import Effort, interleave, ratio, spread

PAIRS = 10


def families(effort: Effort) -> list[Row]:
    """Every family compared with BeS at d = 1e4 and 1e6; the bookkeeping at d = 100 in µs."""
    rows = []
    for dim in (10_000, 1_000_000):
        side = math.isqrt(dim)
        made = {
            "BeS": gs.Bernoulli(),
            "Sparse BeS, k = d/10": gs.Sparse(),
            "Block BeS, k = d/10": gs.Sparse(subset="step"),
            "Block BeS, k = d/1000": gs.Sparse(share=0.001, subset="step"),
            "Low rank 1": gs.LowRank(shape=(side, side)),
            "GS": gs.Gaussian(),
            "LMRS, 10 dimensions": gs.Learned(),
            "Guided ES, history 50": gs.Guided(),
        }
        steps = {name: _step(family, dim) for name, family in made.items()}
        repeats = effort.repeats if dim < 1_000_000 else max(5, effort.repeats // 3)
        times = interleave(steps, effort._replace(repeats=repeats))
        for name in list(made)[1:]:
            bar = 8 if name.startswith("Guided") and dim == 1_000_000 else None
            what = f"{name}: a step, d = {dim:,}"
            rows.append(Row(what, ratio(times, name, "BeS"), "× BeS's step", bar))
    return [*rows, *_bookkeeping(effort)]


def _step(family: gs.Directions, dim: int) -> Callable[[], None]:
    search = gs.RandomSearch(
        family,
        num_directions=PAIRS,
        spacing=rivals.SPACING,
        estimator=gs.Antithetic(),
        optimizer=gs.sgd(rivals.RATE),
    )
    state = search.init(np.zeros(dim, np.float32), seed=0)
    values = np.random.default_rng(0).standard_normal(2 * PAIRS)

    def step() -> None:
        nonlocal state
        batch = search.ask(state)
        for _ in batch.points():
            pass
        state, _ = search.tell(state, batch, values)

    for _ in range(51):  # until a history is full
        step()
    return step


def _bookkeeping(effort: Effort) -> list[Row]:
    """A step of BeS, 21 evaluations at d = 100, less the calls of its four kernels."""
    from gensmooth.kernels import signs, sums

    search = gs.RandomSearch(
        gs.Bernoulli(), num_directions=20, spacing=rivals.SPACING, optimizer=gs.sgd(rivals.RATE)
    )
    state = search.init(np.zeros(100, np.float32), seed=0)
    values = np.random.default_rng(0).standard_normal(21)
    batch = search.ask(state)
    law, x, delta = batch.draw.law, state.x, values[1:] - values[0]
    points, vector = np.empty((21, 100), np.float32), np.empty(100, np.float32)
    spacings = np.concatenate([[0.0], np.full(20, rivals.SPACING)])

    def step() -> None:
        nonlocal state
        batch = search.ask(state)
        for _ in batch.points():
            pass
        state, _ = search.tell(state, batch, values)

    def kernels() -> None:
        signs.perturb(*law, 0, 1, x, batch.plan.direction, spacings, points)
        sums.survey(values, False)
        signs.estimate(*law, delta, 0.5, vector)
        sums.advance(x, vector, vector)

    times = interleave({"step": step, "kernels": kernels}, effort)
    what = "BeS, 21 evaluations, d = 100"
    return [
        Row(f"{what}: a step", spread(1e6 * times["step"]), "µs"),
        Row(
            f"{what}: a step less its kernels",
            spread(1e6 * (times["step"] - times["kernels"])),
            "µs",
            12,
        ),
    ]
