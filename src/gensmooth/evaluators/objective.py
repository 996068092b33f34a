"""The user's objective: how it is called, and how its return values and errors are handled."""

import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Failure
from gensmooth.runs.journal import SLOW, Journal

Array = NDArray[Any]

_MAX_BLOCK_NUMBERS = 4_194_304  # in a block of points for a vectorised objective
_MAX_ONE_BLOCK = 65_536  # numbers: points that have no more in total are created as one block
_CALL_HINTS = {
    False: "it is called with x, and `args` if there are any; if it takes a generator, "
    "fun(x, rng), pass samples='independent', 'shared' or 'paired'",
    True: "with `samples` it is called as fun(x, rng), and must draw its noise from that generator",
}
_PACKAGE_FOLDER = str(Path(__file__).parents[1]) + os.sep
_MAX_TRACEBACK = 16_384  # characters that are kept


class Points(Protocol):
    """The points to evaluate: a batch, or the part of a batch that was sent to a worker."""

    @property
    def dim(self) -> int:
        """The number of parameters, d."""
        ...

    def point(self, index: int) -> Array:
        """The point at which evaluation ``index`` takes place."""
        ...

    def block(self, start: int, stop: int) -> Array:
        """The points of evaluations ``start … stop``."""
        ...

    def rng(self, index: int) -> np.random.Generator:
        """The random generator for evaluation ``index``."""
        ...

    @property
    def context(self) -> NDArray[np.float64] | None:
        """The additional argument passed to the objective with each point, if any."""
        ...


@final
@dataclass(frozen=True)
class Objective:
    """A function to evaluate, and how to call it.

    Attributes:
        fun: ``fun(x)``, or ``fun(x, rng)`` if sampled; with ``vectorized``, ``fun(X)`` or
            ``fun(X, rngs)`` on points stacked along a new first axis.
        sampled: Whether it takes a generator.
        vectorized: Whether it takes blocks of points; an integer sets the number of points per
            block.
        extras: How many additional numbers it returns for each point, after the value.
        journal: Where values are recorded, in the process of the run only: a pickled objective has
            none.

    If the batch has a context (:meth:`gensmooth.batch.Batch.with_context`), it is passed as the
    last argument.
    """

    fun: Callable[..., Any]
    sampled: bool = False
    vectorized: bool | int = False
    extras: int = 0
    journal: Journal | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Objective, (self.fun, self.sampled, self.vectorized, self.extras)

    def __post_init__(self) -> None:
        checks.function("fun", self.fun)
        vectorized: object = self.vectorized
        block: bool | int
        if not checks.is_whole(vectorized):
            block = checks.flag("vectorized", vectorized)
        else:
            block = checks.count("vectorized", vectorized, 0)
        checks.settle(self, vectorized=block)

    def blank(self, evaluations: int) -> NDArray[np.float64]:
        """An array of NaN for the values, or for rows of a value and its extras."""
        shape = (evaluations, 1 + self.extras) if self.extras else evaluations
        return np.full(shape, np.nan)

    def block_rows(self, dim: int) -> int:
        """The number of points per call.

        It never depends on the workers, because the size of a block can change the last bits of
        its values.
        """
        if self.vectorized is True:
            return max(1, _MAX_BLOCK_NUMBERS // dim)
        return int(self.vectorized) or 1

    def value(self, batch: Batch, index: int) -> float:
        """Evaluate one point of a batch. A custom evaluator needs only this method.

        Raises:
            EvaluationError: If the objective raises or returns something other than a number.
        """
        if self.journal is not None and self.journal.has_stored:
            entry = self.journal.open(batch, self.columns)
            if not entry.is_empty and entry.known[index]:
                return float(entry.values[index].flat[0])
        began = time.perf_counter()
        values, failures = self.values(batch, index, index + 1)
        if failures:
            raise failures[0].error(batch)
        seconds = time.perf_counter() - began
        if self.journal is not None and seconds >= SLOW:
            self.journal.open(batch, self.columns).put(index, values, seconds)
        return float(values.flat[0])

    @property
    def columns(self) -> int:
        """The numbers per evaluation; 0 if there is only the value."""
        return 1 + self.extras if self.extras else 0

    def values(
        self,
        batch: Points,
        start: int,
        stop: int,
        *,
        begin: Callable[[int], None] | None = None,
        go_on: bool = True,
        record: Callable[[int, NDArray[np.float64], float], None] | None = None,
    ) -> tuple[NDArray[np.float64], list[Failure]]:
        """Perform evaluations ``start … stop``.

        Args:
            batch: The batch.
            start: The first evaluation; for a vectorised objective, the first of a block.
            stop: One past the last evaluation.
            begin: Called with the evaluation's index before each call of the objective.
            go_on: Whether to continue after an exception or an invalid block.
            record: Called with the first index and the values of some evaluations, and the seconds
                that they took: at once for an evaluation that took 10 ms or more, for quicker ones
                together.

        Returns:
            The values, NaN where an evaluation failed, and the failures.

        An objective may fork, but the child must end inside the objective. If the child leaves it
        by ``return``, ``sys.exit`` or an exception, the child is ended here. Otherwise two
        processes would continue the run.
        """
        if isinstance(batch, Batch) and batch.tree is not None:
            of_arrays = replace(self, fun=batch.tree.objective(self.fun))
            return of_arrays.values(
                batch.flat(), start, stop, begin=begin, go_on=go_on, record=record
            )
        pid, forks = os.getpid(), _forks
        values = self.blank(stop - start)
        failures: list[Failure] = []
        clock, recorded, due = time.perf_counter, start, math.inf
        if record is not None:
            due = clock() + SLOW
        if self.vectorized:
            rows = self.block_rows(batch.dim)
            for first in range(start, stop, rows):
                last = min(first + rows, stop)
                block = self._block(batch, first, last, begin)
                if not isinstance(block, Failure):
                    values[first - start : last - start] = block
                    if record is not None and clock() >= due:
                        now = clock()
                        record(recorded, values[recorded - start : last - start], now - due + SLOW)
                        recorded, due = last, now + SLOW
                    continue
                failures.append(block)
                if not go_on:
                    break
            return values, failures
        fun, sampled = self.fun, self.sampled
        context = () if batch.context is None else (batch.context,)
        for index, point in enumerate(_points(batch, start, stop), start):
            rng = batch.rng(index) if sampled else None
            if begin is not None:
                begin(index)
            try:
                value = fun(point, rng, *context) if sampled else fun(point, *context)
            except BaseException as error:
                if _forks != forks:
                    end_fork(error)
                if not isinstance(error, Exception | SystemExit):
                    raise
                failures.append(_raised(index, error, self.sampled))
                if not go_on:
                    break
                continue
            if _forks != forks:
                end_fork()
            if not isinstance(value, float) or self.extras:  # np.float64 is a float: the usual case
                value = self._row(index, value) if self.extras else _number(index, value)
                if isinstance(value, Failure):
                    failures.append(value)
                    break
            values[index - start] = value
            if record is not None and clock() >= due:
                now = clock()
                record(recorded, values[recorded - start : index + 1 - start], now - due + SLOW)
                recorded, due = index + 1, now + SLOW
        if os.getpid() != pid:  # forked by a C library, which Python's fork hook does not see
            end_fork()
        return values, failures

    def _block(
        self, batch: Points, start: int, stop: int, begin: Callable[[int], None] | None
    ) -> NDArray[np.float64] | Failure:
        points = batch.block(start, stop)
        rngs = [batch.rng(i) for i in range(start, stop)] if self.sampled else None
        if begin is not None:
            begin(start)
        context = () if batch.context is None else (batch.context,)
        pid = os.getpid()
        try:
            returned = self.fun(points, *([rngs] if self.sampled else []), *context)
        except BaseException as error:
            if os.getpid() != pid:
                end_fork(error)
            if not isinstance(error, Exception | SystemExit):
                raise
            return _raised(start, error, self.sampled)
        if os.getpid() != pid:
            end_fork()
        try:
            values = _floats(returned)
        except Exception as error:
            what = f"The objective must return numbers, but returned {_show(returned, error)}"
            return Failure(start, "return", what)
        expected = (stop - start, 1 + self.extras) if self.extras else (stop - start,)
        if values.shape != expected:
            each = f"rows of {1 + self.extras} numbers" if self.extras else "values"
            what = (
                f"The objective is vectorised and must return {stop - start} {each} for "
                f"{stop - start} points, but returned an array of shape {values.shape}"
            )
            return Failure(start, "return", what)
        return values

    def _row(self, index: int, returned: Any) -> NDArray[np.float64] | Failure:
        """Convert a return value to a row of a value and its extras, or to a failure."""
        why: Exception | None = None
        try:
            row = _floats(returned)
            if row.shape == (1 + self.extras,):
                return row
        except Exception as error:
            why = error
        what = (
            f"The objective must return {1 + self.extras} numbers, a value and extras="
            f"{self.extras} more, but returned {_show(returned, why)}"
        )
        return Failure(index, "return", what)


_forks = 0  # incremented in each forked child; reading it is cheaper than os.getpid()


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def end_fork(error: BaseException | None = None) -> NoReturn:
    """End this process, a child that the objective forked and that has returned from it.

    It ends immediately, because exit handlers, buffers and locks belong to the parent process.
    """
    code = 1
    with suppress(BaseException):
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = (error.code or 0) & 0xFF
        elif error is not None:
            traceback.print_exception(error)
        else:
            print(
                "gensmooth: the objective forked and the child process returned from it, so the "
                "child has been ended. End the child inside the objective with os._exit.",
                file=sys.stderr,
                flush=True,
            )
    os._exit(code)


def check_flat(batch: Batch) -> None:
    """Reject structured points where workers create the points, because they create arrays."""
    if batch.tree is not None:
        raise ValueError(
            "Workers create points as arrays, but this search has structured parameters. Start it "
            "from the array of `flat, tree = gs.Tree.of(x0)`, and open the session with "
            "Objective(tree.objective(fun))."
        )


def _points(batch: Points, start: int, stop: int) -> Iterator[Array]:
    if isinstance(batch, Batch) and (start, stop) == (0, len(batch)):
        return batch.points()
    if (stop - start) * batch.dim <= _MAX_ONE_BLOCK:
        block = batch.block(start, stop)
        return (block[row, ...] for row in range(len(block)))
    return (batch.point(index) for index in range(start, stop))


def _raised(index: int, error: BaseException, sampled: bool) -> Failure:
    trace = sys.exc_info()[2]  # not error.__traceback__, which a user's class may override
    trace = user_trace = trace.tb_next if trace else None  # the first frame is ours
    while user_trace and user_trace.tb_frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        user_trace = user_trace.tb_next  # skip our other frames too: show users their own code
    trace = user_trace or trace
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except KeyboardInterrupt:
        raise
    except BaseException:  # formatting may call the exception's own code, which may raise
        text = "".join(traceback.format_tb(trace))
    what = f"The objective raised {_kind(error)}: {_text(error, str)[:_MAX_TRACEBACK]}"
    if isinstance(error, TypeError) and user_trace is None and "argument" in what:
        what += f" ({_CALL_HINTS[sampled]})"  # the call itself failed: the arguments do not match
    return Failure(index, "exception", what, text[-_MAX_TRACEBACK:], error)


def _number(index: int, value: Any) -> float | Failure:
    """Convert a return value to a float, or to a failure."""
    if value is None:
        what = "The objective returned None (does it end without `return`?)"
        return Failure(index, "return", what)
    try:
        array = _floats(value)
    except Exception as error:
        what = f"The objective must return a number, but returned {_show(value, error)}"
        return Failure(index, "return", what)
    if array.size != 1:
        what = (
            f"The objective must return one number, but returned an array of shape {array.shape} "
            "(for many points per call, pass vectorized=True)"
        )
        return Failure(index, "return", what)
    return float(array.reshape(-1)[0])


def _floats(returned: Any) -> NDArray[np.float64]:
    """Convert a return value to floats; the user's object may raise any exception."""
    returned = np.ma.filled(returned, np.nan) if np.ma.isMA(returned) else returned
    try:
        return np.asarray(checks.reals("fun", returned), np.float64)
    except TypeError as error:
        raise error.__cause__ or error from None


def _show(value: Any, why: Exception | None = None) -> str:
    """The value's repr and, unless the reason is obvious, why it is not a number."""
    text = _text(value, repr)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    if why is None or isinstance(why, TypeError | ValueError):
        return text
    return f"{text} ({_kind(why)}: {_text(why, str)[:_MAX_TRACEBACK]})"


def _text(value: Any, convert: Callable[[Any], str]) -> str:
    try:
        return convert(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an object that cannot be shown must not hide what happened
        return f"a {_kind(value)} that cannot be shown as text"


def _kind(value: Any) -> str:
    """The name of the value's class, even if its metaclass overrides ``__name__``."""
    return type.__dict__["__name__"].__get__(type(value))
