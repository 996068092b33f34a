"""Judges a point by fresh values of the objective, or by a score without noise.

Every method is judged in the same way: at the point that it recommends, by the same number of
values that no search has seen, with the same samples for the same seed.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.evaluators import Objective
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

    def __init__(self, x: Array, seed: int) -> None:
        self._x, self._seed = x, seed
        self.dim = x.size
        self.context: NDArray[np.float64] | None = None

    def point(self, index: int) -> Array:  # noqa: ARG002
        return self._x.copy()

    def block(self, start: int, stop: int) -> Array:
        return np.repeat(self._x[np.newaxis], stop - start, axis=0)

    def rng(self, index: int) -> np.random.Generator:
        return streams.generator(self._seed, Purpose.TEST, step=0, index=index)


def judge(objective: Objective, x: Array, *, seed: int, values: int, score: Score | None) -> Judged:
    """Judge a point.

    Args:
        objective: The objective, and how it is called.
        x: The point.
        seed: The seed of the samples.
        values: How many values to take.
        score: The score to take instead, if there is one.

    Raises:
        ValueError: If the objective fails there, or the score is not a number.
    """
    if score is not None:
        try:
            value = float(score(x.copy()))
        except Exception as error:
            words = f"The score raised {type(error).__name__}: {error}"
            raise ValueError(words) from error
        if math.isnan(value):
            raise ValueError("The score is not a number (nan).")
        return Judged(value)
    taken, failures = objective.values(_RepeatedPoint(x, seed), 0, values, go_on=False)
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
