"""What an evaluator is, what it may raise, and which one ``workers=`` means.

An evaluator opens a session on a search and an objective. A session lives as long as a run:
workers are started once, are sent the search and the objective once, and per step only what has
changed. To add an evaluator of your own, implement :class:`Evaluator` and :class:`Session`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.search import Search, SearchState, StepInfo

if TYPE_CHECKING:
    from gensmooth.evaluators.objective import Objective


class Evaluated(NamedTuple):
    """The values of a batch.

    Attributes:
        values: In the order of the batch; NaN for an evaluation that failed and was dropped.
        faults: How many faults of each kind there were, such as ``{"exception": 2, "timeout": 1}``.
        extras: What an objective with ``extras`` returned beside its values, one row per
            evaluation.
    """

    values: NDArray[np.float64]
    faults: Mapping[str, int]
    extras: NDArray[np.float64] | None = None


class Session(Protocol):
    """A run's use of an evaluator: its workers are running."""

    @property
    def workers(self) -> int:
        """How many workers are ready."""
        ...

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """The values of ``batch``, which was asked from ``state``."""
        ...


class Evaluator(Protocol):
    """Where and how the objective is called."""

    def session(self, search: Search, objective: "Objective") -> AbstractContextManager[Session]:
        """Start workers for a run; leaving the context stops them."""
        ...


# --- errors ------------------------------------------------------------------------------------


class EvaluationError(RuntimeError):
    """An evaluation failed: the objective raised, returned no number, hung, or lost its worker.

    Attributes:
        step: The step in which it happened.
        index: Which evaluation of the step.
        kind: ``"exception"``, ``"timeout"``, ``"died"``, or ``"return"`` for a value that is not
            a number.
        traceback: Where in the objective it happened, as text; empty when there is none.
        result: What the run had found until then; ``None`` outside of a run.
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
    """Workers could not start, keep dying, or cannot be sent the objective."""

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
    """``search.tell``; that too few directions are left is an :class:`EvaluationError`.

    Args:
        search: The search.
        state: Its state.
        batch: The batch that was evaluated.
        values: Its values.
        errors: Their standard errors, where they are known.
        explain: The message, from the search's error.
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
    """An evaluation that gave no value.

    Attributes:
        index: The evaluation; the first of its block for a vectorised objective.
        kind: ``"exception"``, ``"timeout"``, ``"died"`` or ``"return"``.
        what: What happened, worded so that ", at evaluation 3 …" can follow.
        traceback: Where, as text.
        cause: The exception itself, if it was raised in this process.
    """

    index: int
    kind: str
    what: str
    traceback: str = ""
    cause: BaseException | None = None

    def picklable(self) -> "Failure":
        """The same without the exception, which may not pickle."""
        return replace(self, cause=None)

    def error(self, batch: Batch, tries: int = 1) -> EvaluationError:
        """The error that ends a run."""
        again = f" The last of {tries} tries." if tries > 1 else ""
        error = EvaluationError(
            f"{self.what}, at {batch.describe(self.index)}.{again}",
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


def as_evaluator(workers: Any = 1, *, timeout: float | None = None, retries: int = 0) -> Evaluator:
    """The evaluator that ``workers=`` asks for: SciPy's convention, plus our evaluators.

    Args:
        workers: 1 evaluates in this process, one point after the other; n in n processes; −1 in
            one process per core; a map-like callable, such as ``executor.map``, is called with a
            function and work items; an evaluator is taken as it is.
        timeout: Seconds that one evaluation may take, where there is a process to stop.
        retries: How often a failed evaluation is tried again, with the same seeds.

    >>> as_evaluator(1)
    Serial(retries=0)
    >>> as_evaluator(1, timeout=5)
    Traceback (most recent call last):
    ValueError: `timeout` needs a process to stop, ...
    """
    timeout = checks.optional(checks.positive, "timeout", timeout)
    if not isinstance(workers, type) and hasattr(workers, "session"):
        if timeout is not None or checks.count("retries", retries, 0):
            raise ValueError(
                f"`workers` is an evaluator: give `timeout` and `retries` to it, as in "
                f"{type(workers).__name__}(..., timeout=…, retries=…)."
            )
        return cast(Evaluator, workers)
    if callable(workers) and not hasattr(workers, "session"):
        _refuse_timeout(timeout, "a map-like callable has its own workers")
        from gensmooth.evaluators.maplike import MapLike

        return MapLike(cast(Callable[..., Iterable[Any]], workers), retries=retries)
    if isinstance(workers, bool) or not isinstance(workers, Integral):
        raise TypeError(
            "`workers` must be a number, a map-like callable such as executor.map, or an evaluator "
            f"such as gs.evaluators.Processes(4), but is {checks.shown(workers)}."
        )
    number = int(workers)
    if number == 1:
        _refuse_timeout(timeout, "workers=1 evaluates in this one")
        from gensmooth.evaluators.serial import Serial

        return Serial(retries=retries)
    if number < 1 and number != -1:
        raise ValueError(f"`workers` must be at least 1, or -1 for all cores, but is {number}.")
    from gensmooth.evaluators.processes import Processes

    count = checks.count("workers", number) if number > 0 else cores()
    return Processes(count, timeout=timeout, retries=retries)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _refuse_timeout(timeout: float | None, why: str) -> None:
    if timeout is not None:
        raise ValueError(
            f"`timeout` needs a process to stop, and {why}. To stop an evaluation that hangs, use "
            f"workers=gs.evaluators.Processes(1, timeout={timeout:g}), or more workers."
        )
