"""Dispatch: units go to whoever is free, results are placed by index, losses are made good.

The order in which workers answer changes nothing.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, final

from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated
from gensmooth.evaluators.crew import Crew, Gone, M, Ready, Refused, Told
from gensmooth.evaluators.errors import EvaluationError, Failure, WorkerError
from gensmooth.evaluators.faults import Ledger, Policy, Queue
from gensmooth.evaluators.objective import Objective
from gensmooth.evaluators.travel import Array, Itinerary, Report, Step, luggage
from gensmooth.search import RandomSearch, SearchState

_FAILED_STARTS = 3  # in a row, and it is no accident
_LAST_WORDS = 5.0  # seconds
_SHORT = 100  # grains: an evaluation so short that waiting for the next would be felt


@contextmanager
def at_work(
    held: Crew[M] | None,
    start: Callable[[], Crew[M]],
    search: RandomSearch,
    objective: Objective,
    *,
    timeout: float | None,
    retries: int,
) -> Generator["CrewSession[M]"]:
    """A session of a crew that is held for several, or else of one started for it alone."""
    bag = luggage(search, objective)  # what cannot travel is refused before anybody starts
    crew = start() if held is None else held
    try:
        crew.open(bag)
        session = CrewSession(crew, search, objective, timeout=timeout, retries=retries)
        yield session
        session.rest()
    finally:
        if crew is held:
            crew.shut()
        else:
            crew.close()


@final
class CrewSession(Generic[M]):
    """A run's use of a crew."""

    def __init__(
        self,
        crew: Crew[M],
        search: RandomSearch,
        objective: Objective,
        *,
        timeout: float | None,
        retries: int,
    ) -> None:
        self._crew = crew
        self._objective = objective
        self._timeout = timeout
        self._policy = Policy(search, retries)
        self._itinerary = Itinerary(search)
        self._step: Step | None = None
        self._turn = 0
        self._seconds: float | None = None  # a unit's time, a running mean
        self._failed_starts = 0
        self._hire_after = 0.0
        self._losses = 0  # workers lost since the last that finished something
        for member in crew.members:
            member.turn = member.version = -1

    @property
    def workers(self) -> int:
        """How many are alive."""
        return sum(member.ready for member in self._crew.members)

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """See :class:`~gensmooth.evaluators.Session`."""
        try:
            return self._evaluate(state, batch)
        except EvaluationError as error:
            error.step = batch.step
            for member in [m for m in self._crew.members if m.units or m.telling]:
                self._crew.dismiss(member)
            raise
        except BaseException:  # Ctrl-C: trust no worker's state
            for member in list(self._crew.members):
                self._crew.dismiss(member)
            raise

    def _evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        crew = self._crew
        ledger = Ledger(self._policy, self._objective, batch)
        queue = Queue(ledger.units)
        while any(member.telling for member in crew.members):  # may still read the last step's data
            self._hear(ledger, queue)
        self._turn += 1
        self._step = self._itinerary.begin(state, batch)
        crew.publish(state.x, self._itinerary.estimate)
        if self._itinerary.stateful:  # who misses an estimate needs all of them
            for member in crew.members:
                if member.ready:
                    self._tell(member)
        waiting_since = time.monotonic()
        while ledger.open:
            if time.monotonic() > self._hire_after:
                crew.hire()
            self._assign(ledger, queue)
            self._hear(ledger, queue)
            if any(member.ready for member in crew.members):
                waiting_since = time.monotonic()
            elif time.monotonic() - waiting_since > crew.start_timeout:
                raise WorkerError(
                    f"No worker has started within {crew.start_timeout:g} s.{crew.hint()}"
                )
        return ledger.evaluated()

    def rest(self) -> None:
        """Let workers take in what they were told last, so that they can stay for another run."""
        end = time.monotonic() + _LAST_WORDS
        while any(member.telling for member in self._crew.members) and time.monotonic() < end:
            for member, event in self._crew.listen(0.1):
                member.ready = member.ready or isinstance(event, Ready)
                member.telling = member.telling and not isinstance(event, Told)

    def _tell(self, member: M) -> None:
        assert self._step is not None
        route = self._itinerary
        news: Array | dict[str, Array] | None = None
        if route.stateful and member.version != route.version:
            follows = route.estimate is not None and member.version == route.version - 1
            news = route.estimate if follows else route.whole()
        member.turn, member.version = self._turn, route.version
        member.telling = self._crew.tell(member, self._step, news)

    def _assign(self, ledger: Ledger, queue: Queue) -> None:
        for depth in range(self._ahead(queue.left) + 1):
            for member in self._crew.members:
                if not queue.left:
                    return
                if not member.ready or member.telling or len(member.units) != depth:
                    continue
                if member.turn != self._turn:
                    self._tell(member)
                    if member.telling:
                        continue
                units = queue.take(self._portion(queue.left))
                assert units is not None
                member.units.append(units)
                self._crew.assign(member, *ledger.span(units))

    def _ahead(self, left: int) -> bool:
        """Whether to hand out work ahead: evaluations are short, and there are many left."""
        if self._crew.one_by_one or self._seconds is None:
            return False
        return self._seconds < _SHORT * self._crew.grain and left > 3 * self.workers

    def _portion(self, left: int) -> int:
        """How many units make a message worthwhile, and yet leave something for the others."""
        if self._crew.one_by_one or self._seconds is None:
            return 1
        worth = self._crew.grain / max(self._seconds, 1e-9)
        share = left / (2 * max(self.workers, 1))
        return max(1, int(min(10 * worth, max(worth, share))))

    def _hear(self, ledger: Ledger, queue: Queue) -> None:
        for member, event in self._crew.listen(self._patience()):
            match event:
                case Report(values, failures, seconds):
                    units = member.units.pop(0)
                    self._losses = 0
                    each = seconds / (units[1] - units[0])
                    self._seconds = each if self._seconds is None else (self._seconds + each) / 2
                    queue.put(ledger.settle(units, values, failures))
                case Told():
                    member.telling = False
                case Ready():
                    member.ready = True
                    self._failed_starts = 0
                case Refused(why):
                    raise WorkerError(f"A worker cannot take the objective. {why}")
                case Gone():
                    self._lose(member, event, ledger, queue)
        if self._timeout is not None:
            self._stop_overdue(self._timeout, ledger, queue)

    def _patience(self) -> float:
        """Seconds to listen: at most until somebody's time is up."""
        if self._timeout is None:
            return 1.0
        now = time.monotonic()
        waits = [1.0]
        for member in self._crew.members:
            if member.units:
                current = self._crew.current(member)
                waits.append(self._timeout - (now - current[1] if current else 0.0))
        return max(min(waits), 0.001)

    def _stop_overdue(self, timeout: float, ledger: Ledger, queue: Queue) -> None:
        now = time.monotonic()
        for member in list(self._crew.members):
            current = self._crew.current(member) if member.units else None
            if current is None or now - current[1] <= timeout:
                continue
            start, stop = ledger.span(member.units[0])
            if not start <= current[0] < stop:  # it is further than we have heard
                continue
            time.sleep(0.001)  # it may be between two evaluations, writing down where it is
            if self._crew.current(member) != current:
                continue
            self._crew.dismiss(member)
            what = f"The objective took longer than the time-out of {timeout:g} s"
            self._blame(member, Failure(current[0], "timeout", what), ledger, queue)

    def _lose(self, member: M, gone: Gone, ledger: Ledger, queue: Queue) -> None:
        """A worker is gone; what it was at is somebody else's, or nobody's."""
        words = f"A worker {gone.why}"
        self._losses += 1
        self._failed_starts += gone.by_itself and not member.ready
        if self._failed_starts >= _FAILED_STARTS and self.workers:  # they do it alone for a while
            again = min(5.0 * 2.0 ** (self._failed_starts - _FAILED_STARTS), 300.0)
            self._hire_after = time.monotonic() + again
        elif self._failed_starts >= _FAILED_STARTS:
            raise WorkerError(f"Workers cannot start: the last one {gone.why}.{self._crew.hint()}")
        elif self._losses > 10 + 2 * self._crew.size:
            raise WorkerError(f"Workers keep dying: the last one {gone.why}.{self._crew.hint()}")
        if not member.units or not gone.received:
            ledger.event("died", words)
            queue.put(member.units)
            return
        first, last = member.units[0]
        if gone.index is None and last - first > 1:  # who did it? Each by itself, then
            ledger.event("died", words)
            queue.put([(unit, unit + 1) for unit in range(first, last)] + member.units[1:])
        else:
            index = first * ledger.rows if gone.index is None else gone.index
            self._blame(member, Failure(index, "died", words), ledger, queue)

    def _blame(self, member: M, failure: Failure, ledger: Ledger, queue: Queue) -> None:
        """One evaluation failed with its worker; the others it had are done again."""
        (first, last), *later = member.units
        unit = failure.index // ledger.rows
        rest = [(first, unit), (unit + 1, last), *later]
        queue.put([part for part in rest if part[0] < part[1]])
        if ledger.fault(failure):
            queue.put([(unit, unit + 1)])
