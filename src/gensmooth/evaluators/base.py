"""The evaluator interface, its errors, and the meaning of ``workers=``.

An evaluator opens a session for a search and an objective. A session lasts for a whole run:
workers start once and receive the search and the objective once. At each step they receive only
what has changed. To write a custom evaluator, implement :class:`Evaluator` and :class:`Session`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.searches import Search, SearchState, StepInfo

if TYPE_CHECKING:
    from gensmooth.evaluators.objective import Objective


class Evaluated(NamedTuple):
    """The values of a batch.

    Attributes:
        values: In the order of the batch; NaN for an evaluation that failed and was dropped.
        faults: The number of faults of each kind, such as ``{"exception": 2, "timeout": 1}``.
        extras: The additional numbers returned by an objective with ``extras``, one row per
            evaluation.
    """

    values: NDArray[np.float64]
    faults: Mapping[str, int]
    extras: NDArray[np.float64] | None = None


class Session(Protocol):
    """An evaluator in use by a run, with its workers running."""

    @property
    def workers(self) -> int:
        """The number of workers that are ready."""
        ...

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """Evaluate ``batch``, which ``search.ask(state)`` returned."""
        ...


class Evaluator(Protocol):
    """Where and how the objective is called."""

    def session(self, search: Search, objective: "Objective") -> AbstractContextManager[Session]:
        """Start workers for a run; leaving the context stops them."""
        ...


# --- errors ------------------------------------------------------------------------------------


class EvaluationError(RuntimeError):
    """An evaluation failed.

    The objective raised an exception, returned something other than a finite number, timed out, or
    lost its worker.

    Attributes:
        step: The step in which the evaluation failed.
        index: The evaluation's index within the step, or ``None`` if no single evaluation failed.
        kind: ``"exception"``, ``"timeout"``, ``"died"``, ``"worker"``, ``"non-finite"``, or
            ``"return"`` for a return value that is not a number.
        traceback: The objective's traceback as text; empty if there is none.
        result: The run's result up to the failure; ``None`` outside a run.
    """

    def __init__(
        self,
        message: str,
        *,
        step: int,
        index: int | None,
        kind: str = "exception",
        traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.step = step
        self.index = index
        self.kind = kind
        self.traceback = traceback
        self.result: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), str(self), self.__dict__)


class WorkerError(EvaluationError):
    """Workers could not start, keep dying, or cannot receive the objective."""

    def __init__(self, message: str, *, step: int = -1) -> None:
        super().__init__(message, step=step, index=None, kind="worker")


def tell(
    search: Search,
    state: SearchState,
    batch: Batch,
    values: NDArray[np.float64],
    errors: NDArray[np.float64] | None = None,
    *,
    explain: Callable[[ValueError], str] = str,
) -> tuple[SearchState, StepInfo]:
    """Call ``search.tell`` and turn errors caused by non-finite values into evaluation errors.

    ``explain`` converts the search's error to the error message.

    Raises:
        EvaluationError: If the search rejects the values and some of them are not finite.
        ValueError: If the search rejects the values and all of them are finite.
    """
    try:
        return search.tell(state, batch, values, errors)
    except ValueError as error:
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            raise
        raise EvaluationError(
            explain(error), step=batch.step, index=int(bad[0]), kind="non-finite"
        ) from None


def _rebuilt(kind: type[EvaluationError], message: str, state: dict[str, Any]) -> EvaluationError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


@final
@dataclass(frozen=True)
class Failure:
    """A failed evaluation.

    Attributes:
        index: The evaluation's index; the first of its block for a vectorised objective.
        kind: ``"exception"``, ``"timeout"``, ``"died"``, ``"non-finite"`` or ``"return"``.
        what: What happened, phrased so that ", at evaluation 3 …" can follow.
        traceback: The traceback as text.
        cause: The exception, if it was raised in this process.
    """

    index: int
    kind: str
    what: str
    traceback: str = ""
    cause: BaseException | None = None

    def picklable(self) -> "Failure":
        """Return a copy without the exception, which may not be picklable."""
        return replace(self, cause=None)

    def error(self, batch: Batch, tries: int = 1) -> EvaluationError:
        """Return the error that ends the run."""
        hint = f" All {tries} attempts failed." if tries > 1 else ""
        if self.kind != "return":  # a bug, which is never dropped
            hint += " on_failure='drop' would leave its direction out."
        error = EvaluationError(
            f"{self.what}, at {batch.describe(self.index)}.{hint}",
            step=batch.step,
            index=self.index,
            kind=self.kind,
            traceback=self.traceback,
        )
        if self.cause is not None:
            error.__cause__ = self.cause
        elif self.traceback:
            error.__cause__ = _InWorker(self.traceback)
        return error


class _InWorker(Exception):  # noqa: N818 (shown as the cause; its text is a worker's traceback)
    def __str__(self) -> str:
        return f"in a worker:\n\n{self.args[0].rstrip()}"


# --- workers= ----------------------------------------------------------------------------------


_RETRIES = 2  # with on_failure="retry", by default


def retries_of(on_failure: str, retries: int | None, workers: Any = 1) -> int:
    """Return how often a failed evaluation is tried again.

    Args:
        on_failure: ``"raise"``, ``"drop"`` or ``"retry"``.
        retries: The user's number, only with ``"retry"``; 2 by default.
        workers: As in :func:`as_evaluator`; an evaluator has its own number.

    >>> retries_of("raise", None), retries_of("retry", None), retries_of("retry", 5)
    (0, 2, 5)
    >>> retries_of("drop", 3)
    Traceback (most recent call last):
    ValueError: `retries` is for on_failure='retry', but `on_failure` is 'drop': pass ...
    """
    checks.one_of("on_failure", on_failure, ("raise", "drop", "retry"))
    if on_failure != "retry":
        if retries is not None:
            raise ValueError(
                f"`retries` is for on_failure='retry', but `on_failure` is {on_failure!r}: pass "
                "on_failure='retry', or omit `retries`."
            )
        return 0
    if retries is not None:
        return checks.count("retries", retries)
    if getattr(workers, "retries", None) == 0:
        raise ValueError(
            "`on_failure` is 'retry', but `workers` is an evaluator that does not retry: pass "
            f"`retries` to it, as in {type(workers).__name__}(..., retries={_RETRIES})."
        )
    return 0 if hasattr(workers, "session") else _RETRIES


def as_evaluator(workers: Any = 1, *, timeout: float | None = None, retries: int = 0) -> Evaluator:
    """Return the evaluator that ``workers=`` specifies: SciPy's convention, plus our evaluators.

    Args:
        workers: 1 evaluates in this process, one point at a time; n uses n processes; −1 uses one
            process per core. A map-like callable, such as ``executor.map``, is called with a
            function and a list of work items. An evaluator is returned unchanged.
        timeout: The time limit for one evaluation, in seconds. Requires worker processes.
        retries: How often a failed evaluation is retried, with the same seeds.

    >>> as_evaluator(1)
    Serial(retries=0)
    >>> as_evaluator(1, timeout=5)
    Traceback (most recent call last):
    ValueError: `timeout` needs a worker process that can be stopped, ...
    """
    timeout = checks.optional(checks.positive, "timeout", timeout)
    if not isinstance(workers, type) and hasattr(workers, "session"):
        if timeout is not None or checks.count("retries", retries, 0):
            raise ValueError(
                "`timeout` and `retries` cannot be passed along with an evaluator: set them on the "
                f"evaluator itself, {type(workers).__name__}(...), if it supports them."
            )
        return cast(Evaluator, workers)
    if callable(workers) and not hasattr(workers, "session"):
        _refuse_timeout(timeout, "a map-like callable manages its own workers")
        from gensmooth.evaluators.maplike import MapLike

        return MapLike(cast(Callable[..., Iterable[Any]], workers), retries=retries)
    if not checks.is_whole(workers):
        raise TypeError(
            "`workers` must be a number, a map-like callable such as executor.map, or an evaluator "
            f"such as gs.evaluators.Processes(4), but is {checks.shown(workers)}."
        )
    number = int(workers)
    if number == 1:
        _refuse_timeout(timeout, "workers=1 evaluates in this process")
        from gensmooth.evaluators.serial import Serial

        return Serial(retries=retries)
    if number < 1 and number != -1:
        raise ValueError(f"`workers` must be at least 1, or -1 for all cores, but is {number}.")
    from gensmooth.evaluators.processes import Processes

    count = checks.count("workers", number) if number > 0 else cores()
    return Processes(count, timeout=timeout, retries=retries)


def cores() -> int:
    """The number of CPU cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _refuse_timeout(timeout: float | None, why: str) -> None:
    if timeout is not None:
        raise ValueError(
            f"`timeout` needs a worker process that can be stopped, but {why}. To stop evaluations "
            f"that hang, pass workers=gs.evaluators.Processes(1, timeout={timeout:g}), or use more "
            "workers."
        )
