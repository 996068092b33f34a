"""The user's objective: how it is called, and what may come of a call."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Failure

Array = NDArray[Any]

_BLOCK = 4_194_304  # numbers in a block of points handed to a vectorised objective
_SMALL = 65_536  # numbers; points of fewer in all are made together
_CALLED = {
    False: "it is called with x, and `args` if there are any; one whose noise comes from a "
    "generator, fun(x, rng), needs samples='independent', 'shared' or 'paired'",
    True: "with `samples` it is called as fun(x, rng), and draws its noise from that generator",
}
_OURS = str(Path(__file__).parents[1]) + os.sep
_LONGEST = 16_384  # characters of a traceback that are kept


class Points(Protocol):
    """What an objective is evaluated on: a batch, or the part of one that was sent here."""

    @property
    def dim(self) -> int:
        """The number of parameters, d."""
        ...

    def point(self, index: int) -> Array:
        """The point of one evaluation."""
        ...

    def block(self, start: int, stop: int) -> Array:
        """The points of evaluations ``start … stop``."""
        ...

    def rng(self, index: int) -> np.random.Generator:
        """The generator of one evaluation."""
        ...

    @property
    def context(self) -> NDArray[np.float64] | None:
        """What the objective is handed beside each point, if anything."""
        ...


@final
@dataclass(frozen=True)
class Objective:
    """A function to evaluate, and how it wants to be called.

    Attributes:
        fun: ``fun(x)``, or ``fun(x, rng)`` when sampled; with ``vectorized``, ``fun(X)`` or
            ``fun(X, rngs)`` on points stacked along a first axis.
        sampled: Whether it takes a generator.
        vectorized: Whether it takes blocks of points; a number is how many points a block has.
        extras: How many more numbers it returns for each point, after the value.

    For a batch with a context (:meth:`gensmooth.batch.Batch.given`) the context is a last argument.
    """

    fun: Callable[..., Any]
    sampled: bool = False
    vectorized: bool | int = False
    extras: int = 0

    def __post_init__(self) -> None:
        checks.function("fun", self.fun)
        given: object = self.vectorized
        block: bool | int
        if isinstance(given, bool) or not isinstance(given, Integral):
            block = checks.flag("vectorized", given)
        else:
            block = checks.count("vectorized", given, 0)
        checks.settle(self, vectorized=block)

    def blank(self, evaluations: int) -> NDArray[np.float64]:
        """Room for the numbers of some evaluations: the values, or rows that begin with them."""
        shape = (evaluations, 1 + self.extras) if self.extras else evaluations
        return np.full(shape, np.nan)

    def block_rows(self, dim: int) -> int:
        """How many points one call evaluates: never depends on the workers.

        A block's size can change the last bits of its values.
        """
        if self.vectorized is True:
            return max(1, _BLOCK // dim)
        return int(self.vectorized) or 1

    def value(self, batch: Batch, index: int) -> float:
        """The value of one evaluation of a batch: all that an evaluator of your own needs.

        Raises:
            EvaluationError: When the objective raises or returns something else.
        """
        values, failures = self.values(batch, index, index + 1)
        if failures:
            raise failures[0].error(batch)
        return float(values.flat[0])

    def values(
        self,
        batch: Points,
        start: int,
        stop: int,
        *,
        begin: Callable[[int], None] | None = None,
        go_on: bool = True,
    ) -> tuple[NDArray[np.float64], list[Failure]]:
        """The values of evaluations ``start … stop``, NaN where one failed, and the failures.

        Args:
            batch: The batch.
            start: The first evaluation, of a whole block when vectorised.
            stop: One after the last.
            begin: Called before each call of the objective, with the evaluation's index.
            go_on: Whether to go on after a failure.

        An objective may fork. The child's place is inside of the objective: if it comes out, by
        ``return``, ``sys.exit`` or an exception, it ends here, or there would be two optimisers.
        """
        if isinstance(batch, Batch) and batch.tree is not None:
            of_arrays = replace(self, fun=batch.tree.objective(self.fun))
            return of_arrays.values(batch.flat(), start, stop, begin=begin, go_on=go_on)
        pid, forks = os.getpid(), _forks
        values = self.blank(stop - start)
        failures: list[Failure] = []
        if self.vectorized:
            rows = self.block_rows(batch.dim)
            for first in range(start, stop, rows):
                last = min(first + rows, stop)
                found = self._block(batch, first, last, begin)
                if not isinstance(found, Failure):
                    values[first - start : last - start] = found
                    continue
                failures.append(found)
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
            if not isinstance(value, float) or self.extras:  # float64 is a float: the common case
                value = self._row(index, value) if self.extras else _number(index, value)
                if isinstance(value, Failure):
                    failures.append(value)
                    break
            values[index - start] = value
        if os.getpid() != pid:  # forked by a C library, unseen by Python
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
            found = self.fun(points, *([rngs] if self.sampled else []), *context)
        except BaseException as error:
            if os.getpid() != pid:
                end_fork(error)
            if not isinstance(error, Exception | SystemExit):
                raise
            return _raised(start, error, self.sampled)
        if os.getpid() != pid:
            end_fork()
        try:
            values = _floats(found)
        except Exception as error:
            what = f"The objective must return numbers, but returned {_show(found, error)}"
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

    def _row(self, index: int, found: Any) -> NDArray[np.float64] | Failure:
        """A value and its extras, or what is wrong with what came instead."""
        why: Exception | None = None
        try:
            row = _floats(found)
            if row.shape == (1 + self.extras,):
                return row
        except Exception as error:
            why = error
        what = (
            f"The objective must return {1 + self.extras} numbers, a value and extras="
            f"{self.extras} more, but returned {_show(found, why)}"
        )
        return Failure(index, "return", what)


_forks = 0  # counts in each child, and costs less to look at than the process's number


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def end_fork(error: BaseException | None = None) -> NoReturn:
    """End this process, a fork made by the objective that has come out of it.

    At once: handlers of exit, buffers and locks belong to the process that it was forked from.
    """
    code = 1
    with suppress(BaseException):
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = (error.code or 0) & 0xFF
        elif error is not None:
            traceback.print_exception(error)
        else:
            print(
                "gensmooth: the objective forked, and the child returned from it: it is ended. Let "
                "the child end by itself (os._exit) inside of the objective.",
                file=sys.stderr,
                flush=True,
            )
    os._exit(code)


def check_flat(batch: Batch) -> None:
    """Refuse structures where points are made far away: the objective travels there, once."""
    if batch.tree is not None:
        raise ValueError(
            "Workers make points as arrays, but these are structures: start from the array of "
            "`flat, tree = gs.Tree.of(x0)`, and give the session Objective(tree.objective(fun))."
        )


def _points(batch: Points, start: int, stop: int) -> Iterator[Array]:
    if isinstance(batch, Batch) and (start, stop) == (0, len(batch)):
        return batch.points()
    if (stop - start) * batch.dim <= _SMALL:
        block = batch.block(start, stop)
        return (block[row, ...] for row in range(len(block)))
    return (batch.point(index) for index in range(start, stop))


def _raised(index: int, error: BaseException, sampled: bool) -> Failure:
    trace = sys.exc_info()[2]  # not the exception's own: a user's class may do anything there
    trace = theirs = trace.tb_next if trace else None  # the first frame is ours
    while theirs and theirs.tb_frame.f_code.co_filename.startswith(_OURS):
        theirs = theirs.tb_next  # so may be the next: readers want their own
    trace = theirs or trace
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except KeyboardInterrupt:
        raise
    except BaseException:  # its notes, cause or position may raise in their turn
        text = "".join(traceback.format_tb(trace))
    what = f"The objective raised {_kind(error)}: {_text(error, str)[:_LONGEST]}"
    if isinstance(error, TypeError) and theirs is None and "argument" in what:
        what += f" ({_CALLED[sampled]})"  # it was never entered
    return Failure(index, "exception", what, text[-_LONGEST:], error)


def _number(index: int, value: Any) -> float | Failure:
    """A float, or what is wrong with what came instead."""
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


def _floats(found: Any) -> NDArray[np.float64]:
    """What an objective returned, as floats; the user's object may raise anything."""
    found = np.ma.filled(found, np.nan) if np.ma.isMA(found) else found
    try:
        return np.asarray(checks.reals("fun", found), np.float64)
    except TypeError as error:
        raise error.__cause__ or error from None


def _show(value: Any, why: Exception | None = None) -> str:
    """What came instead of a number and, where that is not plain, why it is none."""
    text = _text(value, repr)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    if why is None or isinstance(why, TypeError | ValueError):
        return text
    return f"{text} ({_kind(why)}: {_text(why, str)[:_LONGEST]})"


def _text(value: Any, words: Callable[[Any], str]) -> str:
    try:
        return words(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an object that cannot be shown must not hide what happened
        return f"a {_kind(value)} without words"


def _kind(value: Any) -> str:
    """The name of its class, whatever the class of that makes of it."""
    return type.__dict__["__name__"].__get__(type(value))
