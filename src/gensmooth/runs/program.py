"""Programs: anything that can be run.

A program provides an initial state, one step, the reason to stop, and the conversion of its state
to and from plain arrays and JSON. Minimising, training and a study's long runs are programs, and
you can write your own. For any program, :func:`~gensmooth.runs.run` handles Ctrl-C and SIGTERM, the
run's folder, checkpoints, metrics, resuming and trackers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from numpy.typing import NDArray

from gensmooth.observe.observers import Start, StepData
from gensmooth.runs.journal import Journal
from gensmooth.runs.stopping import End

S = TypeVar("S")  # the state
R = TypeVar("R")  # the record of a step
T = TypeVar("T")  # the result of a run

Array = NDArray[Any]


class Program(ABC, Generic[S, R, T]):
    """Something that can be run. A program itself does not change during a run; its state does.

    >>> class Countdown(Program[int, dict[str, int], int]):
    ...     kind = "countdown"
    ...     def init(self):
    ...         return 10
    ...     def step(self, state, session):
    ...         return state - 1, {"left": state - 1}
    ...     def stop(self, state, last):
    ...         return End("lift-off") if state == 0 else None
    ...     def pack(self, state):
    ...         return {"left": state}, {}
    ...     def unpack(self, meta, arrays):
    ...         return meta["left"]
    ...     def result(self, state, records, end):
    ...         return len(records)
    >>> from gensmooth.runs import run
    >>> run(Countdown(), folder=getfixture("tmp_path") / "countdown")
    10

    Attributes:
        kind: The name of this kind of program in ``config.json``.
        noun: The noun for such a program in messages.
        unit: The plural noun for its evaluations in messages.
        resumed_by: The function that continues a run with other limits, if there is one; shown in
            messages.
        compared: The settings that identify a run, in the form that
            :func:`~gensmooth.runs.config.differences` takes; by default all.
        limits: The limits, which may change on resume: a NamedTuple of plain values with a method
            ``from_json``, or ``None``.
        limits_name: The name of the limits in the settings and in checkpoints.
        reasons: The possible reasons to end; by default any.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "run"
    unit: ClassVar[str] = "evaluations"
    resumed_by: ClassVar[str | None] = None
    compared: ClassVar[Mapping[str, str | None] | None] = None
    limits_name: ClassVar[str] = "limits"
    reasons: ClassVar[Sequence[str]] = ()
    limits: Any = None

    # --- the computation

    @abstractmethod
    def init(self) -> S:
        """Return the state before the first step."""

    def session(self, journal: Journal | None) -> AbstractContextManager[Any]:  # noqa: ARG002
        """A context for the resources that steps use, such as workers; open during the run.

        Args:
            journal: Where the values of evaluations are recorded as they arrive, so that a run that
                is killed does not compute them again; ``None`` if nothing is stored. Pass it to
                :class:`gensmooth.evaluators.Objective`.
        """
        return nullcontext()

    @abstractmethod
    def step(self, state: S, session: Any) -> tuple[S, R]:
        """Return the state after one more step, and a record of the step.

        An exception or an interrupt may end it at any point, so it must not change ``state``.
        """

    @abstractmethod
    def stop(self, state: S, last: R | None) -> End | None:
        """Return the reason to stop, or ``None`` to continue.

        Args:
            state: The state.
            last: The record of the last step; ``None`` if there was none since the run began or
                was resumed.
        """

    def finish(self, state: S, end: End, session: Any) -> End:  # noqa: ARG002
        """Do any work that remains after the last step; return ``end``, with data added if any."""
        return end

    @abstractmethod
    def result(self, state: S, records: Sequence[R], end: End) -> T:
        """Return the result so far.

        Args:
            state: The state.
            records: The records of the steps.
            end: How the run ended. If it was stopped before its end, the reason is one of
                ``gensmooth.runs.STOPPED``.
        """

    # --- storage

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """Describe the program in plain JSON for ``config.json``; store big arrays in ``large``."""
        return {}

    @abstractmethod
    def pack(self, state: S) -> tuple[dict[str, Any], dict[str, Array]]:
        """Convert a state to plain JSON and arrays."""

    def largest(self) -> int | None:
        """The largest size of an array in a state; ``None`` if unknown.

        A checkpoint with a larger array is rejected before memory is allocated for it.
        """
        return None

    @abstractmethod
    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> S:
        """Restore a packed state; ``meta["step"]`` is the number of steps completed.

        Raises:
            ValueError: If the data is invalid; ``TypeError`` or ``LookupError`` may also be raised.
        """

    def read_end(self, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the data that :meth:`finish` added, read from a file.

        Raises:
            ValueError: If it is invalid.
        """
        return more

    def write_record(self, record: R) -> Mapping[str, Any]:
        """Convert a record to plain JSON for ``metrics.jsonl``; by default it is already JSON."""
        assert isinstance(record, Mapping), "implement `write_record`: a record is not a mapping"
        return record  # type: ignore[return-value]

    def read_record(self, stored: dict[str, Any]) -> R:
        """Restore a record from the JSON that :meth:`write_record` returned."""
        return stored  # type: ignore[return-value]

    def write_files(self, folder: Path, state: S, records: Sequence[R], *, saved: bool) -> None:
        """Write additional files: after each step, and (``saved``) before each checkpoint."""

    # --- data for observers

    def faults(self, record: R) -> Mapping[str, int]:
        """The number of faults in a step, by kind."""
        return getattr(record, "faults", {})

    def what_ends_it(self) -> str:
        """Return what ends a run without limits, as a warning at its beginning."""
        return "There is no limit: the run goes on until you press Ctrl-C."

    def start(self, state: S, start: Start) -> Start:  # noqa: ARG002
        """Return the observers' data at the start; ``start`` has the data common to all runs."""
        return start

    def step_data(
        self,
        state: S,  # noqa: ARG002
        records: Sequence[R],  # noqa: ARG002
        session: Any,  # noqa: ARG002
    ) -> StepData | None:
        """Return the observers' data about the last step; ``None`` to skip them."""
        return None

    def summary(self, result: T) -> dict[str, Any]:  # noqa: ARG002
        """Return the observers' data at the end: ``reason``, ``message``, ``success`` and more."""
        return {}
