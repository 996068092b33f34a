"""A session on workers: units go to whoever is free, values are placed by index, losses made good.

Worker processes and Ray actors share this dispatcher; what differs between them is a
:class:`WorkerPool`. The order in which workers answer changes nothing.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated, EvaluationError, Failure, WorkerError
from gensmooth.evaluators.faults import (
    BatchResults,
    FaultPolicy,
    Queue,
    Units,
)
from gensmooth.evaluators.objective import Objective, check_flat
from gensmooth.evaluators.worker import Answer, Array, Step
from gensmooth.search import Search, SearchState

_FAILED_STARTS = 3  # in a row, and it is no accident
_LAST_ANSWERS = 5.0  # seconds
_CHECK = 0.5  # seconds between looks at whether a worker is silent
_LONGEST = 365 * 86_400.0  # seconds that anything is waited for: as good as for ever
_SHORT = 100  # an evaluation shorter than this many messages: waiting for the next would be felt


# --- workers as a pool sees them ---------------------------------------------------------------


@dataclass(eq=False)
class WorkerHandle:
    """A worker, as seen from the run.

    Attributes:
        ready: It has the search and the objective.
        step: The last step that it was sent, in the session's own count.
        version: The version of the directions' state that it holds.
        awaited: It was sent a step and has not yet said that it received it.
        units: What it is to do: first what it is working on, then what it will find next without
            having to wait for us.
        proven: It has been ready before, in this session or another.
        heard: When it last said something, was seen working, or was sent something to answer.
        ahead: The evaluation that it was seen at before it had answered an earlier one, and when.
    """

    ready: bool = False
    step: int = -1
    version: int = -1
    awaited: bool = False
    units: list[Units] = field(default_factory=list[Units])
    proven: bool = False
    heard: float = field(default_factory=time.monotonic)
    ahead: tuple[tuple[int, float], float] | None = None


W = TypeVar("W", bound=WorkerHandle)


class Ready(NamedTuple):
    """A worker has the search and the objective."""


class StepReceived(NamedTuple):
    """A worker has received a step."""


class Refused(NamedTuple):
    """A worker cannot unpickle the objective."""

    why: str


class Lost(NamedTuple):
    """A worker is gone, and no longer in its pool.

    Attributes:
        why: Words that follow "A worker ".
        began: Whether it had begun the first of its units.
        evaluation: The one that it was running, where that is known.
        by_itself: Whether nobody else ended it.
    """

    why: str
    began: bool
    evaluation: int | None = None
    by_itself: bool = True


Event = Ready | StepReceived | Refused | Lost | Answer


class WorkerPool(ABC, Generic[W]):
    """Workers of one kind, and how to talk to them.

    Attributes:
        size: How many workers there should be.
        workers: Those there are, including those that are still starting.
        message_worth: Seconds of work that are worth a message.
        start_timeout: Seconds to wait for a first worker.
        one_by_one: Hand out single units, because it cannot be seen which of several is running.
    """

    size: int
    workers: list[W]
    message_worth: float
    start_timeout: float
    one_by_one: bool = False

    @abstractmethod
    def open_session(self, payload: bytes) -> None:
        """Begin a session; ``payload`` has its search and objective, pickled."""

    @abstractmethod
    def close_session(self) -> None:
        """End a session; workers stay."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""

    @abstractmethod
    def start_workers(self) -> None:
        """Start workers until there are ``size``; return at once."""

    @abstractmethod
    def publish(self, x: Array, estimate: Array | None) -> None:
        """Put a step's data where workers can read it."""

    @abstractmethod
    def send_step(self, worker: W, step: Step, change: "Array | dict[str, Array] | None") -> bool:
        """Send a step to a worker, with an estimate or with all of the directions' state.

        Returns:
            Whether it will say :class:`StepReceived`, and must be given no work before.
        """

    @abstractmethod
    def assign(self, worker: W, start: int, stop: int) -> None:
        """Give a worker evaluations to do."""

    @abstractmethod
    def receive(self, timeout: float) -> list[tuple[W, Event]]:
        """What workers say, within ``timeout`` seconds."""

    @abstractmethod
    def running(self, worker: W) -> tuple[int, float] | None:
        """Which evaluation a worker is running, and since when (``time.monotonic``)."""

    @abstractmethod
    def silence(self, worker: W) -> float | None:
        """Seconds that a worker may leave us without an answer outside of the objective.

        ``None``: as long as it likes, because it may have good reason.
        """

    def is_computing(self, worker: W) -> bool:  # noqa: ARG002
        """Whether a worker is seen to have computed since this was last asked."""
        return False

    @abstractmethod
    def stop(self, worker: W) -> None:
        """Stop a worker at once, whatever it is doing."""

    def hint(self) -> str:
        """Words on why no worker starts."""
        return ""


P = TypeVar("P", bound=WorkerPool[Any])


def pickled(thing: object, name: str) -> bytes:
    """Pickled by cloudpickle, so that lambdas and functions of a notebook can be sent too."""
    cloudpickle: Any = import_module("cloudpickle")
    try:
        return cloudpickle.dumps(thing)
    except Exception as error:
        raise WorkerError(
            f"{name} cannot be sent to another process: {error}. Make what cannot travel (locks, "
            "open files, connections) inside the function, or evaluate in this process: workers=1 "
            "or gs.evaluators.Threads."
        ) from error


class PoolEvaluator(ABC, Generic[P]):
    """What :class:`Processes` and :class:`Ray` share.

    Used as it is, workers live as long as a run; used as a context, for as many runs as you like.
    """

    def __init__(self, timeout: float | None, retries: int, start_timeout: float) -> None:
        timeout = checks.optional(checks.positive, "timeout", timeout)
        self.timeout = None if timeout is None else min(timeout, _LONGEST)
        self.retries = checks.count("retries", retries, 0)
        self.start_timeout = min(checks.positive("start_timeout", start_timeout), _LONGEST)
        self._pool: P | None = None

    @abstractmethod
    def _new_pool(self) -> P: ...

    def __enter__(self) -> Self:
        if self._pool is not None:
            raise RuntimeError(f"{self!r} is already in use as a context.")
        self._pool = self._new_pool()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    @contextmanager
    def session(self, search: Search, objective: Objective) -> Generator["WorkerSession[Any]"]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        payload = pickled(
            (search.for_workers(), objective), "The objective"
        )  # refused before any is started
        kept = self._pool
        pool = self._new_pool() if kept is None else kept
        policy = FaultPolicy(search.on_failure, self.retries)
        try:
            pool.open_session(payload)
            session = WorkerSession(pool, search, objective, policy, self.timeout)
            yield session
            session.finish()
        finally:
            if pool is kept:
                pool.close_session()
            else:
                pool.close()


# --- the dispatcher ----------------------------------------------------------------------------


@final
class WorkerSession(Generic[W]):
    """A run's use of a pool of workers."""

    def __init__(
        self,
        pool: WorkerPool[W],
        search: Search,
        objective: Objective,
        policy: FaultPolicy,
        timeout: float | None,
    ) -> None:
        self._pool = pool
        self._objective = objective
        self._timeout = timeout
        self._policy = policy
        self._directions = _DirectionsState(search)
        self._step: Step | None = None
        self._steps = 0
        self._seconds: float | None = None  # that a unit takes, a running mean
        self._failed_starts = 0
        self._start_after = 0.0
        self._losses = 0  # workers lost since the last that finished something
        # Units of which one, it is not known which, ended a worker.
        self._suspects: set[int] = set()
        self._waiting_since = 0.0  # for a first worker
        self._check_after = 0.0  # whether any worker is silent
        for worker in pool.workers:
            worker.step = worker.version = -1

    @property
    def workers(self) -> int:
        """How many are ready."""
        return sum(worker.ready for worker in self._pool.workers)

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """See :class:`~gensmooth.evaluators.Session`."""
        try:
            return self._evaluate(state, batch)
        except EvaluationError as error:
            error.step = batch.step
            for worker in [w for w in self._pool.workers if w.units or w.awaited]:
                self._pool.stop(worker)
            raise
        except BaseException:  # Ctrl-C: trust no worker's state
            for worker in list(self._pool.workers):
                self._pool.stop(worker)
            raise

    def _evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        pool = self._pool
        check_flat(batch)
        results = BatchResults(self._policy, self._objective, batch)
        queue = Queue(results.units)
        while any(worker.awaited for worker in pool.workers):  # may still read the last step's data
            self._receive(results, queue)
        self._steps += 1
        self._suspects.clear()
        self._step = self._directions.begin(state, batch)
        pool.publish(state.x, self._directions.estimate)
        if self._directions.stateful:  # a worker that misses an estimate needs the whole state
            for worker in pool.workers:
                if worker.ready:
                    self._send_step(worker)
        self._waiting_since = time.monotonic()
        while results.missing:
            if time.monotonic() > self._start_after:
                pool.start_workers()
            self._assign(results, queue)
            self._receive(results, queue)
            if any(worker.proven for worker in pool.workers):
                self._waiting_since = time.monotonic()
            elif time.monotonic() - self._waiting_since > pool.start_timeout:
                raise WorkerError(
                    f"No worker has started within {pool.start_timeout:g} s.{pool.hint()}"
                )
        return results.evaluated()

    def finish(self) -> None:
        """Let workers receive what they were sent last, so that they can stay for another run."""
        end = time.monotonic() + _LAST_ANSWERS
        while any(worker.awaited for worker in self._pool.workers) and time.monotonic() < end:
            for worker, event in self._pool.receive(0.1):
                if isinstance(event, Ready):
                    worker.ready = worker.proven = True
                worker.awaited = worker.awaited and not isinstance(event, StepReceived)

    def _send_step(self, worker: W) -> None:
        assert self._step is not None
        change = self._directions.change_since(worker.version)
        worker.step, worker.version = self._steps, self._directions.version
        worker.heard = time.monotonic()
        worker.awaited = self._pool.send_step(worker, self._step, change)

    def _assign(self, results: BatchResults, queue: Queue) -> None:
        for depth in range(self._ahead(queue.left) + 1):
            for worker in self._pool.workers:
                if not queue.left:
                    return
                if not worker.ready or worker.awaited or len(worker.units) != depth:
                    continue
                if worker.step != self._steps:
                    self._send_step(worker)
                    if worker.awaited:
                        continue
                units = queue.take(self._portion(queue.left))
                assert units is not None
                worker.units.append(units)
                worker.heard = time.monotonic()
                self._pool.assign(worker, *results.span(units))

    def _ahead(self, left: int) -> bool:
        """Whether to hand out work ahead: evaluations are short, and there are many left."""
        if self._pool.one_by_one or self._seconds is None or self._suspects:
            return False
        return self._seconds < _SHORT * self._pool.message_worth and left > 3 * self.workers

    def _portion(self, left: int) -> int:
        """How many units make a message worthwhile, and yet leave something for the others."""
        if self._pool.one_by_one or self._seconds is None or self._suspects:
            return 1
        worth = self._pool.message_worth / max(self._seconds, 1e-9)
        share = left / (2 * max(self.workers, 1))
        return max(1, int(min(10 * worth, max(worth, share))))

    def _receive(self, results: BatchResults, queue: Queue) -> None:
        events = self._pool.receive(self._patience())
        now = time.monotonic()
        for worker, event in events:
            worker.heard = now
            match event:
                case Answer(values, failures, seconds):
                    units = worker.units.pop(0)
                    self._losses = 0
                    self._suspects.difference_update(range(*units))
                    each = seconds / (units[1] - units[0])
                    self._seconds = each if self._seconds is None else (self._seconds + each) / 2
                    queue.put(results.add(units, values, failures))
                case StepReceived():
                    worker.awaited = False
                case Ready():
                    worker.ready = worker.proven = True
                    self._failed_starts = 0
                case Refused(why):
                    raise WorkerError(f"A worker cannot take the objective. {why}")
                case Lost():
                    self._lose(worker, event, results, queue)
        if self._timeout is not None:
            self._stop_overdue(self._timeout, results, queue)
        if not events or now > self._check_after:
            self._check_after = now + _CHECK
            self._stop_silent(results, queue)

    def _patience(self) -> float:
        """Seconds to wait for a message: at most until the time of some evaluation is up."""
        if self._timeout is None:
            return 1.0
        now = time.monotonic()
        waits = [1.0]
        for worker in self._pool.workers:
            if worker.units:
                running = self._pool.running(worker)
                waits.append(self._timeout - (now - running[1] if running else 0.0))
        return max(min(waits), 0.001)

    def _stop_overdue(self, timeout: float, results: BatchResults, queue: Queue) -> None:
        now = time.monotonic()
        for worker in list(self._pool.workers):
            running = self._pool.running(worker) if worker.units else None
            if running is None or now - running[1] <= timeout:
                continue
            if not _is_in(running[0], results.span(worker.units[0])):
                # It is further than we have heard; or else its answer has got lost. It is we who
                # may have stood still: so it counts from when we see it, and listen meanwhile.
                if worker.ahead is None or worker.ahead[0] != running:
                    worker.ahead = running, now
                elif now - max(running[1] + timeout, worker.ahead[1]) > _CHECK:
                    self._pool.stop(worker)
                    self._lose(worker, Lost("did not answer", began=False), results, queue)
                continue
            time.sleep(0.001)  # it may be between two evaluations, writing down where it is
            if self._pool.running(worker) != running:
                continue
            self._pool.stop(worker)
            what = f"The objective took longer than the time-out of {timeout:g} s"
            self._fail(worker, Failure(running[0], "timeout", what), results, queue)

    def _stop_silent(self, results: BatchResults, queue: Queue) -> None:
        """Replace workers that owe us an answer and neither give one nor evaluate: frozen, say."""
        now = time.monotonic()
        for worker in list(self._pool.workers):
            if worker.ready and not worker.units and not worker.awaited:  # it owes us nothing
                continue
            running = self._pool.running(worker) if worker.units else None
            if running and _is_in(running[0], results.span(worker.units[0])):
                continue  # in the objective: the time-out's business
            limit = self._pool.silence(worker)
            if limit is None or self._pool.is_computing(worker):
                worker.heard = now
            elif now - worker.heard > limit:
                self._pool.stop(worker)
                lost = Lost(f"did not answer for {limit:g} s", began=False, by_itself=False)
                self._lose(worker, lost, results, queue)

    def _lose(self, worker: W, lost: Lost, results: BatchResults, queue: Queue) -> None:
        """A worker is gone: give its work to others, and charge the evaluation that it was at."""
        words = f"A worker {lost.why}"
        self._losses += 1
        if worker.proven:
            self._waiting_since = time.monotonic()  # for the one that replaces it
        self._failed_starts += lost.by_itself and not worker.ready
        if self._failed_starts >= _FAILED_STARTS and self.workers:  # go on without it for a while
            again = min(5.0 * 2.0 ** (self._failed_starts - _FAILED_STARTS), 300.0)
            self._start_after = time.monotonic() + again
        elif self._failed_starts >= _FAILED_STARTS:
            raise WorkerError(f"Workers cannot start: the last one {lost.why}.{self._pool.hint()}")
        elif self._losses > 10 + 2 * self._pool.size:
            raise WorkerError(f"Workers keep dying: the last one {lost.why}.{self._pool.hint()}")
        if not worker.units or not lost.began:
            results.count("died", words)
            queue.put(worker.units)
            return
        first = worker.units[0][0]
        held = [unit for units in worker.units for unit in range(*units)]
        if lost.evaluation is None and len(held) > 1:
            # Which one was it? Even the first may have been done, its answer lost on the way. Each
            # is done again by itself, and soon, with nothing else at the same worker.
            results.count("died", words)
            self._suspects.update(held)
            queue.put_first(held)
        else:
            index = first * results.rows if lost.evaluation is None else lost.evaluation
            self._fail(worker, Failure(index, "died", words), results, queue)

    def _fail(self, worker: W, failure: Failure, results: BatchResults, queue: Queue) -> None:
        """One evaluation failed with its worker; the others that it had are done again."""
        (first, last), *later = worker.units
        unit = failure.index // results.rows
        self._suspects.discard(unit)
        rest = [(first, unit), (unit + 1, last), *later]
        queue.put([part for part in rest if part[0] < part[1]])
        if results.add_failure(failure):
            queue.put([(unit, unit + 1)])


def _is_in(index: int, span: tuple[int, int]) -> bool:
    return span[0] <= index < span[1]


@final
class _DirectionsState:
    """What each worker must be sent of the directions' state, by the version that it holds.

    A worker that holds the version before this one needs the newest estimate; one that holds an
    older one, or none, needs the whole state.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._state: tuple[Any, ...] = ()
        self.version = 0
        self.estimate: Array | None = None

    def begin(self, state: SearchState, batch: Batch) -> Step:
        """Take up a step; returns what all workers are sent of it."""
        now = state.directions
        if now is not self._state and (now or self._state):
            family = self._search.directions
            self.estimate = family.latest_gradient(self._state, now) if self._state else None
            self._state = now
            # Without an estimate that leads here, no worker holds the version before: skip one.
            self.version += 1 if self.estimate is not None else 2
        plan = None if batch.own else batch.plan
        return Step(batch.step, batch.seed, plan, batch.purpose, batch.context)

    @property
    def stateful(self) -> bool:
        """Whether the directions have a state."""
        return bool(self._state)

    def change_since(self, version: int) -> "Array | dict[str, Array] | None":
        """What a worker needs that holds this version: nothing, the estimate, or everything."""
        if not self._state or version == self.version:
            return None
        if self.estimate is not None and version == self.version - 1:
            return self.estimate
        return self._search.directions.pack(self._state)
