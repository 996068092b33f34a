"""Plain words for what can go wrong in an evaluation."""

from dataclasses import dataclass, replace
from typing import Any, final

from gensmooth.batch import Batch


class EvaluationError(RuntimeError):
    """An evaluation failed: the objective raised, returned no number, hung, or lost its worker.

    Attributes:
        step: The step it happened in.
        index: Which evaluation of the step.
        kind: ``"exception"``, ``"timeout"``, ``"died"``, or ``"return"`` for a value that is no
            number.
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


@final
@dataclass(frozen=True)
class Failure:
    """An evaluation that gave no value.

    Attributes:
        index: The evaluation; the first of its block for a vectorised objective.
        kind: ``"exception"``, ``"timeout"``, ``"died"`` or ``"return"``.
        what: What happened, in words that "at evaluation 3 …" can follow.
        traceback: Where, as text.
        cause: The exception itself, where it was raised in this process.
    """

    index: int
    kind: str
    what: str
    traceback: str = ""
    cause: BaseException | None = None

    def to_travel(self) -> "Failure":
        """Without the exception, which may not pickle."""
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


def _rebuilt(kind: type[EvaluationError], message: str, state: dict[str, Any]) -> EvaluationError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error
