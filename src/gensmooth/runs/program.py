"""What can be run: a program.

A program is an initial state, one step, a reason to stop, and its state to and from plain arrays
and JSON. Minimising, training and a study's long run are programs, and so is whatever you write
yourself; :func:`~gensmooth.runs.run` gives each of them Ctrl-C and SIGTERM, a folder, checkpoints,
metrics, resuming and trackers, and knows none of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from numpy.typing import NDArray

from gensmooth.observe.observers import Seen, Start
from gensmooth.runs.stopping import End

S = TypeVar("S")  # the state
R = TypeVar("R")  # what a reader wants to know of a step
T = TypeVar("T")  # what a run gives

Array = NDArray[Any]


class Program(ABC, Generic[S, R, T]):
    """What can be run. A program does not change while it runs: what does is its state.

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
        kind: What ``config.json`` calls such a program.
        noun: What messages call one.
        resumed_by: The function that goes on with one under other limits, if there is one.
        compared: The names of its settings that make it the same run, as
            :func:`~gensmooth.runs.config.differences` takes them; by default all of them.
        limits: What may change when it is resumed: a NamedTuple of plain values that has a method
            ``from_json``, or ``None``.
        limits_name: What its settings and checkpoints call its limits.
        reasons: The reasons it may end for; by default any.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "run"
    resumed_by: ClassVar[str | None] = None
    compared: ClassVar[Mapping[str, str | None] | None] = None
    limits_name: ClassVar[str] = "limits"
    reasons: ClassVar[Sequence[str]] = ()
    limits: Any = None

    # --- what it does

    @abstractmethod
    def init(self) -> S:
        """The state before the first step."""

    def session(self) -> AbstractContextManager[Any]:
        """What its steps work with, such as workers; open while it runs."""
        return nullcontext()

    @abstractmethod
    def step(self, state: S, session: Any) -> tuple[S, R]:
        """The state after one more step, and a record of the step.

        It may be left by an exception or an interrupt at any time, so it must not change ``state``.
        """

    @abstractmethod
    def stop(self, state: S, last: R | None) -> End | None:
        """Why to stop here, or ``None`` to make another step.

        Args:
            state: The state.
            last: The record of the step just made; ``None`` when none was made since the run began
                or was resumed.
        """

    def finish(self, state: S, end: End, session: Any) -> End:  # noqa: ARG002
        """What is left to do after the last step; gives the end, perhaps with more in it."""
        return end

    @abstractmethod
    def result(self, state: S, records: Sequence[R], end: End | None) -> T:
        """What came of it so far; ``end`` is ``None`` when it was interrupted."""

    # --- how it is written down

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """What it is, as plain JSON for ``config.json``; arrays too large for it into ``large``."""
        return {}

    @abstractmethod
    def pack(self, state: S) -> tuple[dict[str, Any], dict[str, Array]]:
        """A state as plain JSON and arrays."""

    def largest(self) -> int | None:
        """The most numbers that an array of a state may have; ``None`` if that cannot be told.

        A checkpoint that claims more is refused before memory is taken for it.
        """
        return None

    @abstractmethod
    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> S:
        """The state that was packed; ``meta["step"]`` is how many steps led to it.

        Raises:
            ValueError: When it does not fit; so do ``TypeError`` and ``LookupError`` say.
        """

    def write_record(self, record: R) -> Mapping[str, Any]:
        """A record as plain JSON, for ``metrics.jsonl``; by default records are that already."""
        assert isinstance(record, Mapping), "a record that is not plain JSON must be written"
        return record  # type: ignore[return-value]

    def read_record(self, found: dict[str, Any]) -> R:
        """The record that was written."""
        return found  # type: ignore[return-value]

    def write_files(self, folder: Path, state: S, records: Sequence[R], *, saved: bool) -> None:
        """Write files of its own, after each step and (``saved``) after each checkpoint."""

    # --- what observers see

    def faults(self, record: R) -> Mapping[str, int]:
        """What went wrong in a step, by kind."""
        return getattr(record, "faults", {})

    def start(self, state: S, start: Start) -> Start:  # noqa: ARG002
        """What observers are told at the start; what every run knows is in ``start`` already."""
        return start

    def seen(self, state: S, records: Sequence[R], session: Any) -> Seen | None:  # noqa: ARG002
        """What observers are told of the last step; ``None``: nothing."""
        return None

    def summary(self, result: T) -> dict[str, Any]:  # noqa: ARG002
        """What observers are told at the end: at least ``status``, ``message`` and ``success``."""
        return {}
