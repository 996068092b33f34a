"""Blocks of directions against NumPy's Gaussians of the same shape, float32, L = 20.

Both sides fill a buffer that is reused; our time includes the draw (its keys, and for Orthogonal
and Guided its linear algebra). In the rows "as a new array" both sides allocate.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np

import gensmooth as gs
from benchmarks.record import Row
from benchmarks.timing import Competitors, Effort, interleave, ratio
from gensmooth.directions import Address

L = 20
FLOAT = np.dtype(np.float32)


def bernoulli(effort: Effort) -> list[Row]:
    """Signs, in a twentieth of the time of NumPy's normals and twice that of filling the memory."""
    rows = []
    for dim in (10_000, 1_000_000):
        block = np.empty((L, dim), FLOAT)
        times = interleave(
            {
                "ours": _filler(gs.Bernoulli(), dim, block),
                "NumPy": _numpy_filler(block),
                "fill": partial(block.fill, 1.0),
                **_allocating(gs.Bernoulli(), dim),
            },
            effort,
        )
        what = f"Bernoulli block, d = {dim:,}"
        rows += [
            Row(what, ratio(times, "ours", "NumPy"), "× NumPy standard_normal", 0.05),
            Row(what, ratio(times, "ours", "fill"), "× ndarray.fill", 2),
            Row(f"{what}, as a new array", ratio(times, "ours, new", "NumPy, new"), "× NumPy"),
        ]
    return rows


def gaussian(effort: Effort) -> list[Row]:
    """Normals."""
    rows = []
    for dim in (10_000, 1_000_000):
        block = np.empty((L, dim), FLOAT)
        times = interleave(
            {
                "ours": _filler(gs.Gaussian(), dim, block),
                "NumPy": _numpy_filler(block),
                **_allocating(gs.Gaussian(), dim),
            },
            effort,
        )
        what = f"Gaussian block, d = {dim:,}"
        rows += [
            Row(what, ratio(times, "ours", "NumPy"), "× NumPy standard_normal", 0.35),
            Row(f"{what}, as a new array", ratio(times, "ours, new", "NumPy, new"), "× NumPy"),
        ]
    return rows


def orthogonal(effort: Effort) -> list[Row]:
    """Exactly orthogonal rows, against Gaussian rows that are not orthogonal."""
    rows = []
    for dim in (102, 1_000, 10_000):
        block = np.empty((L, dim), FLOAT)
        times = interleave(
            {"ours": _filler(gs.Orthogonal(), dim, block), "NumPy": _numpy_filler(block)}, effort
        )
        times_numpy = ratio(times, "ours", "NumPy")
        what = f"Orthogonal block, d = {dim:,}"
        rows.append(Row(what, times_numpy, "× NumPy standard_normal", 1.5))
    return rows


def guided(effort: Effort) -> list[Row]:
    """Guided ES with a full history, against Gaussian rows without one."""
    rows = []
    for dim in (102, 10_000, 100_000, 1_000_000):
        block = np.empty((L, dim), FLOAT)
        directions = gs.Guided(history=50)
        rng = np.random.default_rng(1)
        # More estimates than the history holds, so that it always has full rank.
        estimates = [rng.standard_normal(dim, FLOAT) for _ in range(60)]
        state = directions.init(dim, FLOAT)
        for estimate in estimates:
            state = directions.update(state, estimate)
        fill = _filler(directions, dim, block, state)
        times = interleave(
            {
                "ours": fill,
                "ours + update": _updating(directions, dim, block, state, estimates),
                "NumPy": _numpy_filler(block),
            },
            effort,
        )
        what, bar = f"Guided block, history 50, d = {dim:,}", 4 if dim < 10_000 else 1
        rows += [
            Row(what, ratio(times, "ours", "NumPy"), "× NumPy standard_normal", bar),
            Row(
                f"{what}, and a new estimate in the history",
                ratio(times, "ours + update", "NumPy"),
                "× NumPy standard_normal",
                bar,
            ),
        ]
    return rows


def _draws(directions: gs.Directions, dim: int, state: Any = ()) -> Callable[[], Any]:
    """A function whose calls draw the directions of successive steps."""
    steps = count()
    return lambda: directions.draw(state, Address(0, next(steps), L, dim, FLOAT))


def _fill(draw: Any, block: np.ndarray) -> None:
    from gensmooth.kernels import laws
    from gensmooth.streams import TILE

    laws.fill(draw.law, 0, -(-block.shape[1] // TILE), block)


def _filler(
    directions: gs.Directions, dim: int, block: np.ndarray, state: Any = ()
) -> Callable[[], None]:
    draw = _draws(directions, dim, state)
    return lambda: _fill(draw(), block)


def _updating(
    directions: gs.Guided, dim: int, block: np.ndarray, state: Any, estimates: list[np.ndarray]
) -> Callable[[], None]:
    """A step of Guided ES: add an estimate to the history, draw, fill."""
    steps = count()

    def call() -> None:
        nonlocal state
        step = next(steps)
        state = directions.update(state, estimates[step % len(estimates)])
        draw = directions.draw(state, Address(0, step, L, dim, FLOAT))
        _fill(draw, block)

    return call


def _numpy_filler(block: np.ndarray) -> Callable[[], object]:
    return partial(np.random.default_rng(0).standard_normal, out=block, dtype=np.float32)


def _allocating(directions: gs.Directions, dim: int) -> Competitors:
    draw = _draws(directions, dim)
    rng = np.random.default_rng(0)
    return {
        "ours, new": lambda: draw().block(),
        "NumPy, new": lambda: rng.standard_normal((L, dim), dtype=np.float32),
    }
