"""Judges a point by fresh values of the objective, or by a score without noise.

Every method is judged in the same way: at the point that it recommends, by the same number of
values that no search has seen, with the same samples for the same seed.
"""

import math
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.evaluators import Objective
from gensmooth.runs.journal import Journal, JournalEntry
from gensmooth.streams import Purpose

Array = NDArray[Any]
Score = Callable[[Array], float]


class Judged(NamedTuple):
    """The judgement of a point.

    Attributes:
        value: The score, or the mean of the values.
        error: The standard error of the mean; ``None`` for a score.
        exact: Whether all values were equal; ``None`` if there is only one.
    """

    value: float
    error: float | None = None
    exact: bool | None = None


class _RepeatedPoint:
    """A batch that repeats one point, with samples that no search uses."""

    step = 0

    def __init__(self, x: Array, seed: int, times: int) -> None:
        self._x, self._seed, self._times = x, seed, times
        self.dim = x.size
        self.context: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return self._times

    def checksum(self) -> int:
        return zlib.crc32(self._x.tobytes(), self._seed & 0xFFFFFFFF)

    def point(self, index: int) -> Array:  # noqa: ARG002
        return self._x.copy()

    def block(self, start: int, stop: int) -> Array:
        return np.repeat(self._x[np.newaxis], stop - start, axis=0)

    def rng(self, index: int) -> np.random.Generator:
        return streams.generator(self._seed, Purpose.TEST, step=0, index=index)


def judge(
    objective: Objective,
    x: Array,
    *,
    seed: int,
    values: int,
    score: Score | None,
    journal: Journal | None = None,
) -> Judged:
    """Judge a point.

    Args:
        objective: The objective, and how it is called.
        x: The point.
        seed: The seed of the samples.
        values: How many values to take.
        score: The score to take instead, if there is one.
        journal: Where values and scores are recorded, so that a process that is killed loses none.

    Raises:
        ValueError: If the objective fails there, or the score is not a number.
    """
    point, columns = _RepeatedPoint(x, seed, values), objective.columns
    if score is not None:
        point, columns = _RepeatedPoint(x, seed, 1), 0
    entry = None if journal is None else journal.open(point, columns)
    if score is not None:
        return Judged(_scored(score, x, entry))
    taken, first = objective.blank(values), 0
    if entry is not None and not entry.is_empty:
        taken[:], rows = entry.values, objective.block_rows(x.size)
        first = values if entry.known.all() else int(entry.known.argmin()) // rows * rows
    record = None if entry is None else entry.put
    taken[first:], failures = objective.values(point, first, values, go_on=False, record=record)
    if failures:
        raise ValueError(f"{failures[0].what}, at the point to be judged.") from failures[0].cause
    drawn = taken[:, 0] if taken.ndim > 1 else taken
    if not np.isfinite(drawn).all():
        raise ValueError("The objective is not finite at the point to be judged.")
    if values == 1:
        return Judged(float(drawn[0]))
    error = float(drawn.std(ddof=1)) / math.sqrt(values)
    exact = bool((drawn == drawn[0]).all())
    return Judged(float(drawn[0] if exact else drawn.mean()), 0.0 if exact else error, exact)


def _scored(score: Score, x: Array, entry: JournalEntry | None) -> float:
    if entry is not None and not entry.is_empty and entry.known[0]:
        return float(entry.values[0])
    began = time.perf_counter()
    try:
        value = float(score(x.copy()))
    except Exception as error:
        raise ValueError(f"The score raised {type(error).__name__}: {error}") from error
    if math.isnan(value):
        raise ValueError("The score is not a number (nan).")
    if entry is not None:
        entry.put(0, np.array([value]), time.perf_counter() - began)
    return value
