"""The user's objective, and plain words for what can go wrong in it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch

_BLOCK = 4_194_304  # numbers in a block of points handed to a vectorised objective


class EvaluationError(RuntimeError):
    """The objective raised, or returned something that is not a number.

    Attributes:
        step: The step it happened in.
        index: Which evaluation of the step.
        result: What the run had found until then; ``None`` outside of a run.
    """

    def __init__(self, message: str, *, step: int, index: int) -> None:
        super().__init__(message)
        self.step = step
        self.index = index
        self.result: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _evaluation_error, (str(self), self.step, self.index, self.result)


@final
@dataclass(frozen=True)
class Objective:
    """A function to evaluate, and how it wants to be called.

    Attributes:
        fun: ``fun(x)``, or ``fun(x, rng)`` when sampled; with ``vectorized``, ``fun(X)`` or
            ``fun(X, rngs)`` on points stacked along a first axis.
        sampled: Whether it takes a generator.
        vectorized: Whether it takes blocks of points.
        keep_going: Under ``on_failure="drop"``: an exception counts as NaN.
    """

    fun: Callable[..., Any]
    sampled: bool = False
    vectorized: bool = False
    keep_going: bool = False

    def __post_init__(self) -> None:
        if not callable(self.fun):
            raise TypeError(f"`fun` must be a function, but is {self.fun!r}.")

    def block_rows(self, dim: int) -> int:
        """How many points a vectorised objective gets at once; depends on d alone."""
        return max(1, _BLOCK // dim)

    def value(self, x: NDArray[Any], rng: np.random.Generator | None, where: "Where") -> float:
        """The value at one point."""
        try:
            value = self.fun(x, rng) if self.sampled else self.fun(x)
        except Exception as error:
            if self.keep_going:
                return float("nan")
            raise where.error(f"raised {type(error).__name__}: {error}") from error
        number = where.number(value)
        if not (self.keep_going or math.isfinite(number)):
            raise where.error(_not_finite(number))
        return number

    def values(
        self, points: NDArray[Any], rngs: list[np.random.Generator] | None, where: "Where"
    ) -> NDArray[np.float64]:
        """The values at a block of points."""
        try:
            found = self.fun(points, rngs) if self.sampled else self.fun(points)
        except Exception as error:
            if self.keep_going:
                return np.full(len(points), np.nan)
            raise where.error(f"raised {type(error).__name__}: {error}") from error
        try:
            if np.iscomplexobj(found):
                raise TypeError
            values = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            raise where.error(f"must return numbers, but returned {_show(found)}") from None
        if values.shape != (len(points),):
            raise where.error(
                f"is vectorised and must return {len(points)} values for {len(points)} points, "
                f"but returned an array of shape {values.shape}"
            )
        if not (self.keep_going or np.isfinite(values).all()):
            first = int(np.argmin(np.isfinite(values)))
            raise Where(where.batch, where.index + first).error(_not_finite(values[first]))
        return values


@final
@dataclass(frozen=True)
class Where:
    """Which evaluation an error message speaks of."""

    batch: Batch
    index: int

    def error(self, what: str) -> EvaluationError:
        """An error that says where."""
        words = self.batch.describe(self.index)
        return EvaluationError(
            f"The objective {what}, at {words}.", step=self.batch.step, index=self.index
        )

    def number(self, value: Any) -> float:
        """A float, or an error that says what came instead."""
        if isinstance(value, float):  # the common case, NumPy's float64 included
            return value
        if value is None:
            raise self.error("returned None: does it end without `return`?")
        try:
            if isinstance(value, str | bytes) or np.iscomplexobj(value):
                raise TypeError
            array: NDArray[np.float64] = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise self.error(f"must return a number, but returned {_show(value)}") from None
        if array.size != 1:
            raise self.error(
                f"must return one number, but returned an array of shape {array.shape} "
                "(for many points a call, pass vectorized=True)"
            )
        return float(array.reshape(-1)[0])


def _evaluation_error(message: str, step: int, index: int, result: Any) -> EvaluationError:
    error = EvaluationError(message, step=step, index=index)
    error.result = result
    return error


def _not_finite(value: float) -> str:
    return f"returned {value} (on_failure='drop' would leave its direction out)"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
