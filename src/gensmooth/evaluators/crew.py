"""A crew: workers of one kind (processes, Ray actors), and how to talk to them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gensmooth.evaluators.faults import Units
from gensmooth.evaluators.travel import Array, Report, Step


@dataclass(eq=False)
class Member:
    """A worker, as its crew sees it.

    Attributes:
        ready: It has the search and the objective.
        turn: The last step it was told of, in the session's counting.
        version: The version of the directions' state that it holds.
        telling: It has been told something and has not yet said that it took it in.
        units: What it is to do: first what it is working on, then what it finds next without
            having to wait for us.
    """

    ready: bool = False
    turn: int = -1
    version: int = -1
    telling: bool = False
    units: list[Units] = field(default_factory=list[Units])


M = TypeVar("M", bound=Member)


class Ready(NamedTuple):
    """A worker has the search and the objective."""


class Told(NamedTuple):
    """A worker has taken in what it was told."""


class Refused(NamedTuple):
    """A worker cannot take the objective."""

    why: str


@dataclass(frozen=True)
class Gone:
    """A worker is no more, and no longer of the crew.

    Attributes:
        why: Words that follow "A worker ".
        received: Whether it had begun on the first of its units.
        index: The evaluation that it was at, where that is known.
        by_itself: Whether nobody else ended it.
    """

    why: str
    received: bool
    index: int | None = None
    by_itself: bool = True


Event = Ready | Told | Refused | Gone | Report


class Crew(ABC, Generic[M]):
    """Workers of one kind.

    Attributes:
        size: How many there should be.
        members: Those there are, also those still starting.
        grain: Seconds of work that are worth a message.
        start_timeout: Seconds to wait for a first worker.
        one_by_one: Hand out single units, because it cannot tell which of several is running.
    """

    size: int
    members: list[M]
    grain: float
    start_timeout: float
    one_by_one: bool = False

    @abstractmethod
    def open(self, bag: bytes) -> None:
        """Begin a session; ``bag`` has its search and objective, pickled."""

    @abstractmethod
    def shut(self) -> None:
        """End a session; workers stay."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""

    @abstractmethod
    def hire(self) -> None:
        """Start workers up to ``size``; return at once."""

    @abstractmethod
    def publish(self, x: Array, estimate: Array | None) -> None:
        """Put a step's data where workers can read it."""

    @abstractmethod
    def tell(self, member: M, step: Step, news: "Array | dict[str, Array] | None") -> bool:
        """Tell a worker of a step: with an estimate, or all of the directions' state.

        Returns:
            Whether it will say :class:`Told`, and must be given no work before.
        """

    @abstractmethod
    def assign(self, member: M, start: int, stop: int) -> None:
        """Give a worker evaluations to do."""

    @abstractmethod
    def listen(self, timeout: float) -> list[tuple[M, Event]]:
        """What workers say, within ``timeout`` seconds."""

    @abstractmethod
    def current(self, member: M) -> tuple[int, float] | None:
        """Which evaluation a worker is at, and since when (``time.monotonic``)."""

    @abstractmethod
    def dismiss(self, member: M) -> None:
        """Stop a worker at once, whatever it is doing."""

    def hint(self) -> str:
        """Words on why nobody starts."""
        return ""
