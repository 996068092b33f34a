"""Sessions with workers: assign units to free workers, place values by index, replace lost workers.

Worker processes and Ray actors share this dispatcher; each implements a :class:`WorkerPool`. The
order in which workers answer does not affect the results.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated, EvaluationError, Failure, WorkerError
from gensmooth.evaluators.faults import BatchResults, FaultPolicy, Queue, Units
from gensmooth.evaluators.objective import Objective, check_flat
from gensmooth.evaluators.worker import Answer, Array, Step
from gensmooth.searches import Search, SearchState

_FAILED_STARTS = 3  # after this many in a row, the cause is assumed to be permanent
_LAST_ANSWERS = 5.0  # seconds
_CHECK = 0.5  # seconds between checks for silent workers
_LONGEST = 365 * 86_400.0  # the longest wait in seconds, in effect unlimited
_SHORT_IN_MESSAGES = 100  # evaluations shorter than this many messages are handed out ahead


# --- workers as a pool sees them ---------------------------------------------------------------


@dataclass(eq=False)
class WorkerHandle:
    """The dispatcher's record of a worker.

    Attributes:
        ready: Whether it has the search and the objective.
        step: The last step sent to it, as counted by the session.
        version: The version of the directions' state that it holds.
        awaited: Whether it was sent a step and has not yet confirmed it.
        units: Its assigned units: the one it is working on, then any handed out ahead.
        proven: Whether it has ever been ready, in this session or another.
        heard: When it last sent a message, was seen working, or was sent a request.
        ahead: The evaluation it was running when an earlier answer was still missing, and when
            this was noticed.
        cpu_seconds: The CPU time it had used at the last call of :func:`is_process_computing`.
    """

    ready: bool = False
    step: int = -1
    version: int = -1
    awaited: bool = False
    units: list[Units] = field(default_factory=list[Units])
    proven: bool = False
    heard: float = field(default_factory=time.monotonic)
    ahead: tuple[tuple[int, float], float] | None = None
    cpu_seconds: float = -1.0


W = TypeVar("W", bound=WorkerHandle)


class Ready(NamedTuple):
    """A worker has the search and the objective."""


class StepReceived(NamedTuple):
    """A worker has received a step."""


class Refused(NamedTuple):
    """A worker cannot unpickle the objective."""

    why: str


class Lost(NamedTuple):
    """A worker is gone and has been removed from its pool.

    Attributes:
        why: What happened, phrased to follow "A worker ".
        began: Whether it had begun the first of its units.
        evaluation: The evaluation it was running, if known.
        by_itself: Whether the worker ended without being killed.
    """

    why: str
    began: bool
    evaluation: int | None = None
    by_itself: bool = True


Event = Ready | StepReceived | Refused | Lost | Answer


class WorkerPool(ABC, Generic[W]):
    """Workers of one kind, and how to communicate with them.

    Attributes:
        size: The intended number of workers.
        workers: The current workers, including those that are still starting.
        message_worth: The least seconds of work that justify a message.
        start_timeout: Seconds to wait for the first worker.
        one_by_one: Whether to hand out single units, because the pool cannot see which of several
            is running.
    """

    size: int
    workers: list[W]
    message_worth: float
    start_timeout: float
    one_by_one: bool = False

    @abstractmethod
    def open_session(self, payload: bytes) -> None:
        """Begin a session; ``payload`` is the pickled search and objective."""

    @abstractmethod
    def close_session(self) -> None:
        """End the session; the workers keep running."""

    @abstractmethod
    def close(self) -> None:
        """Stop all workers."""

    @abstractmethod
    def start_workers(self) -> None:
        """Start workers until there are ``size``, without waiting for them."""

    @abstractmethod
    def publish(self, x: Array, estimate: Array | None) -> None:
        """Make a step's data available to the workers."""

    @abstractmethod
    def send_step(self, worker: W, step: Step, change: "Array | dict[str, Array] | None") -> bool:
        """Send a step to a worker, with the newest estimate or the whole state of the directions.

        Returns:
            Whether the worker will confirm with :class:`StepReceived`. It must not be assigned
            work before that.
        """

    @abstractmethod
    def assign(self, worker: W, start: int, stop: int) -> None:
        """Assign evaluations ``start … stop`` to a worker."""

    @abstractmethod
    def receive(self, timeout: float) -> list[tuple[W, Event]]:
        """Wait up to ``timeout`` seconds for events from workers."""

    @abstractmethod
    def running(self, worker: W) -> tuple[int, float] | None:
        """The evaluation that a worker is running, and when it began (``time.monotonic``)."""

    @abstractmethod
    def silence(self, worker: W) -> float | None:
        """How many seconds a worker may be silent outside the objective; ``None``: no limit."""

    def is_computing(self, worker: W) -> bool:
        """Whether the worker has used CPU time since the last call."""
        return False

    @abstractmethod
    def stop(self, worker: W) -> None:
        """Stop a worker immediately, whatever it is doing."""

    def hint(self) -> str:
        """A sentence to add to errors about workers that do not start."""
        return ""


P = TypeVar("P", bound=WorkerPool[Any])


def pickled(thing: object, name: str) -> bytes:
    """Pickle with cloudpickle, which also handles lambdas and functions defined in a notebook."""
    cloudpickle: Any = import_module("cloudpickle")
    try:
        return cloudpickle.dumps(thing)
    except Exception as error:
        raise WorkerError(
            f"{name} cannot be sent to another process: {error}. Create objects that cannot be "
            "pickled (locks, open files, connections) inside the function, or evaluate in this "
            "process with workers=1 or gs.evaluators.Threads."
        ) from error


class PoolEvaluator(ABC, Generic[P]):
    """The common base of :class:`Processes` and :class:`Ray`.

    By default, the workers live as long as a run. As a context manager, the evaluator keeps them
    for several runs.
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
            raise RuntimeError(
                f"{self!r} is already in use in another `with` block. Create another evaluator."
            )
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
        payload = pickled((search.for_workers(), objective), "The objective")  # before any start
        shared_pool = self._pool
        pool = self._new_pool() if shared_pool is None else shared_pool
        policy = FaultPolicy(search.on_failure, self.retries)
        try:
            pool.open_session(payload)
            session = WorkerSession(pool, search, objective, policy, self.timeout)
            yield session
            session.finish()
        finally:
            if pool is shared_pool:
                pool.close_session()
            else:
                pool.close()


# --- the dispatcher ----------------------------------------------------------------------------


@final
class WorkerSession(Generic[W]):
    """A session that evaluates batches with a pool of workers."""

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
        self._seconds: float | None = None  # per unit, a running mean
        self._failed_starts = 0
        self._start_after = 0.0
        self._losses = 0  # workers lost since a worker last answered
        # Units that a lost worker held when it is not known which of them it was running.
        self._suspects: set[int] = set()
        self._waiting_since = 0.0  # since when no worker has been available
        self._check_after = 0.0  # time of the next check for silent workers
        for worker in pool.workers:
            worker.step = worker.version = -1

    @property
    def workers(self) -> int:
        """The number of workers that are ready."""
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
        except BaseException:  # such as Ctrl-C: the state of the workers is unknown
            for worker in list(self._pool.workers):
                self._pool.stop(worker)
            raise

    def _evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        pool = self._pool
        check_flat(batch)
        results = BatchResults(self._policy, self._objective, batch)
        queue = Queue(results.todo)
        while any(worker.awaited for worker in pool.workers):  # may be reading the last step's data
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
                    f"No worker started within {pool.start_timeout:g} s.{pool.hint()}"
                )
        return results.evaluated()

    def finish(self) -> None:
        """Wait for workers to confirm their last step, so that they can serve another run."""
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
        for depth in range(self._hands_out_ahead(queue.left) + 1):
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

    def _hands_out_ahead(self, left: int) -> bool:
        """Whether to hand out work ahead, because evaluations are short and many are left."""
        if self._pool.one_by_one or self._seconds is None or self._suspects:
            return False
        return (
            self._seconds < _SHORT_IN_MESSAGES * self._pool.message_worth
            and left > 3 * self.workers
        )

    def _portion(self, left: int) -> int:
        """How many units to assign: enough to justify a message, leaving work for the others."""
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
                    per_unit = seconds / (units[1] - units[0])
                    self._seconds = (
                        per_unit if self._seconds is None else (self._seconds + per_unit) / 2
                    )
                    queue.put(results.add(units, values, failures, seconds))
                case StepReceived():
                    worker.awaited = False
                case Ready():
                    worker.ready = worker.proven = True
                    self._failed_starts = 0
                case Refused(why):
                    raise WorkerError(f"A worker cannot load the objective. {why}")
                case Lost():
                    self._lose(worker, event, results, queue)
        if self._timeout is not None:
            self._stop_overdue(self._timeout, results, queue)
        if not events or now > self._check_after:
            self._check_after = now + _CHECK
            self._stop_silent(results, queue)

    def _patience(self) -> float:
        """Seconds to wait for a message: at most until the next evaluation times out."""
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
                # Either its answer is still on the way, or it was lost. This process may itself
                # have been suspended, so wait a little longer for the answer from now on.
                if worker.ahead is None or worker.ahead[0] != running:
                    worker.ahead = running, now
                elif now - max(running[1] + timeout, worker.ahead[1]) > _CHECK:
                    self._pool.stop(worker)
                    self._lose(worker, Lost("did not answer", began=False), results, queue)
                continue
            time.sleep(0.001)  # it may be between two evaluations, updating its status
            if self._pool.running(worker) != running:
                continue
            self._pool.stop(worker)
            what = f"The objective took longer than the time-out of {timeout:g} s"
            self._fail(worker, Failure(running[0], "timeout", what), results, queue)

    def _stop_silent(self, results: BatchResults, queue: Queue) -> None:
        """Stop workers that owe an answer but neither send one nor compute, such as frozen ones."""
        now = time.monotonic()
        for worker in list(self._pool.workers):
            if worker.ready and not worker.units and not worker.awaited:  # it owes no answer
                continue
            running = self._pool.running(worker) if worker.units else None
            if running and _is_in(running[0], results.span(worker.units[0])):
                continue  # inside the objective: only the time-out applies
            limit = self._pool.silence(worker)
            if limit is None or self._pool.is_computing(worker):
                worker.heard = now
            elif now - worker.heard > limit:
                self._pool.stop(worker)
                lost = Lost(f"did not answer for {limit:g} s", began=False, by_itself=False)
                self._lose(worker, lost, results, queue)

    def _lose(self, worker: W, lost: Lost, results: BatchResults, queue: Queue) -> None:
        """Reassign a lost worker's units and record the failure of the one that it was running."""
        message = f"A worker {lost.why}"
        self._losses += 1
        if worker.proven:
            self._waiting_since = time.monotonic()  # for the one that replaces it
        self._failed_starts += lost.by_itself and not worker.ready
        if self._failed_starts >= _FAILED_STARTS and self.workers:  # use the others for a while
            again = min(5.0 * 2.0 ** (self._failed_starts - _FAILED_STARTS), 300.0)
            self._start_after = time.monotonic() + again
        elif self._failed_starts >= _FAILED_STARTS:
            raise WorkerError(f"Workers cannot start: the last one {lost.why}.{self._pool.hint()}")
        elif self._losses > 10 + 2 * self._pool.size:
            raise WorkerError(f"Workers keep dying: the last one {lost.why}.{self._pool.hint()}")
        if not worker.units or not lost.began:
            results.count("died", message)
            queue.put(worker.units)
            return
        first = worker.units[0][0]
        held = [unit for units in worker.units for unit in range(*units)]
        if lost.evaluation is None and len(held) > 1:
            # It is unknown which unit the worker was running; even the first may be complete, with
            # its answer lost. Each unit is evaluated again soon, alone on its worker.
            results.count("died", message)
            self._suspects.update(held)
            queue.put_first(held)
        else:
            index = first * results.rows if lost.evaluation is None else lost.evaluation
            self._fail(worker, Failure(index, "died", message), results, queue)

    def _fail(self, worker: W, failure: Failure, results: BatchResults, queue: Queue) -> None:
        """Record a failure that ended a worker, and requeue the worker's other units."""
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
    """Decides how much of the directions' state each worker needs, from the version it holds.

    A worker with the previous version needs the newest estimate. One with an older version, or
    none, needs the whole state.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._state: tuple[Any, ...] = ()
        self.version = 0
        self.estimate: Array | None = None

    def begin(self, state: SearchState, batch: Batch) -> Step:
        """Begin a step and return the part that all workers receive."""
        now = state.sent
        if now is not self._state and (now or self._state):
            wire = self._search.wire
            self.estimate = wire.latest_gradient(self._state, now) if self._state else None
            self._state = now
            # Without an estimate, no worker can update from the previous version: skip a number.
            self.version += 1 if self.estimate is not None else 2
        plan = None if batch.planned_by_search else batch.plan
        return Step(batch.step, batch.seed, plan, batch.purpose, batch.context)

    @property
    def stateful(self) -> bool:
        """Whether the directions have a state."""
        return bool(self._state)

    def change_since(self, version: int) -> "Array | dict[str, Array] | None":
        """What a worker with this version needs: nothing, the newest estimate, or everything."""
        if not self._state or version == self.version:
            return None
        if self.estimate is not None and version == self.version - 1:
            return self.estimate
        return self._search.wire.pack(self._state)


# --- processes on this machine -----------------------------------------------------------------

CPU_CLOCK = sys.platform == "linux"  # whether the CPU time of another process can be read


def is_process_computing(worker: WorkerHandle, pid: int) -> bool:
    """Whether a worker's process on this machine has used CPU time since the last call.

    On a busy machine, the kernel's count may not advance for a long time. A process that waits for
    a processor or a disk therefore counts as computing too; one that sleeps or is stopped does not.
    """
    before, worker.cpu_seconds = worker.cpu_seconds, -1.0
    with suppress(OSError):  # the process is gone
        if CPU_CLOCK:  # the clock id of another process, as clock_getcpuclockid(3) computes it
            worker.cpu_seconds = time.clock_gettime((~pid << 3) | 2)
    return worker.cpu_seconds > before or process_state(pid) in ("R", "D")


def process_state(pid: int) -> str:
    """The letter for the state of a process on Linux: R, S, D, T, Z, ...; see proc(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]
