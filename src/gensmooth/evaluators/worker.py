"""What workers are sent, and what they do with it.

Once per session: the search and the objective. Once per step: x and, for directions with a state,
the newest estimate. A worker asks its own search for the batch and makes its own points, so an
evaluation costs two integers there and one number back, whatever the dimension.
"""

import json
import os
import pickle
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

import gensmooth.evaluators.transport as wire
from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators.base import Failure
from gensmooth.evaluators.objective import Objective, end_fork
from gensmooth.evaluators.transport import Channel, SharedMemory, read_file
from gensmooth.search import Search, SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]


# --- what is sent ------------------------------------------------------------------------------


class Step(NamedTuple):
    """What a worker is sent once per step, beside x and the directions' state.

    Attributes:
        number: The step's number.
        seed: The run's seed.
        plan: The evaluations, where they are not those that the search itself plans.
        purpose: What their noise is for.
        context: What the objective is handed beside each point.
    """

    number: int
    seed: int
    plan: Plan | None
    purpose: Purpose = Purpose.SAMPLE
    context: NDArray[np.float64] | None = None


class Answer(NamedTuple):
    """What a worker sends back for an assignment.

    Attributes:
        values: Of its evaluations; rows that begin with them, for an objective with extras.
        failures: Those that gave no value.
        seconds: How long it took.
    """

    values: NDArray[np.float64]
    failures: list[Failure]
    seconds: float


# --- what a worker does with it ----------------------------------------------------------------


@final
class Worker:
    """A worker's side of a session, whatever kind of worker it is."""

    def __init__(self, search: Search, objective: Objective) -> None:
        self._search = search
        self._objective = objective
        self._directions: tuple[Any, ...] = ()
        self._batch: Batch | None = None

    def step(
        self,
        step: Step,
        x: Array,
        *,
        estimate: Array | None = None,
        directions: Mapping[str, Array] | None = None,
    ) -> None:
        """Begin a step.

        Args:
            step: Which.
            x: The parameters.
            estimate: What the last step found, for directions with a state; or
            directions: the whole of that state, for a worker that has missed an estimate.
        """
        family = self._search.directions
        if directions is not None:
            self._directions = family.unpack(directions, x.size, x.dtype)
        elif estimate is not None:
            self._directions = family.update(self._directions, estimate)
        state = SearchState(x, step.number, 0, step.seed, None, self._directions)
        batch = self._search.ask(state)
        plan = batch.plan
        if step.plan is not None:
            # Copies: arrays that were received are read-only, and Numba would compile for them.
            plan = Plan(*(part.copy() for part in step.plan.arrays))
        if step.plan is not None or step.purpose != batch.purpose:
            batch = batch.planned(plan, step.purpose)
        self._batch = batch if step.context is None else batch.given(step.context)

    def load_kernels(self) -> None:
        """Make a point, which loads the kernels."""
        assert self._batch is not None
        self._batch.point(0)

    def evaluate(self, start: int, stop: int, begin: Callable[[int], None] | None = None) -> Answer:
        """The values of evaluations ``start … stop``; ``begin`` is called before each."""
        assert self._batch is not None
        began = time.perf_counter()
        values, failures = self._objective.values(self._batch, start, stop, begin=begin)
        light = [failure.picklable() for failure in failures]
        return Answer(values, light, time.perf_counter() - began)


# --- a worker process --------------------------------------------------------------------------


def main(
    channel: int, lifeline: int, memory: int, payload: int, state: int, slots: int, slot: int
) -> None:
    """Serve the parent until it hangs up.

    Args:
        channel: Descriptor of the socket for messages.
        lifeline: Descriptor of a socket that closes when the parent ends.
        memory: Descriptor of the shared memory.
        payload: Descriptor of a file with the search and the objective, pickled.
        state: Descriptor of a file with the whole of the directions' state, pickled.
        slots: How many slots the shared memory has.
        slot: Which of them is this worker's.
    """
    _die_with_parent(lifeline)
    talk = Channel(socket.socket(fileno=channel))
    process = _WorkerProcess(talk, SharedMemory(memory, slots), slot, payload, state)
    talk.send(wire.HELLO)
    while True:
        try:
            for code, body in talk.receive():
                process.handle(code, body)
                process.end_forks()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _die_with_parent(lifeline: int) -> None:
    """Have the kernel end this process, and any it has started, when the parent is gone.

    The parent's end of the lifeline closes with it, and the kernel sends a signal: SIGKILL on
    Linux, which works inside a C call that never returns and cannot be ignored; elsewhere SIGIO.
    (Linux's own signal at a parent's death comes when the *thread* ends that started us.)
    """
    import fcntl  # not on Windows, where this module can be imported and not run

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # gone before we were listening
        os._exit(1)


@final
class _WorkerProcess:
    """Does what each message says."""

    def __init__(
        self, channel: Channel, memory: SharedMemory, slot: int, payload: int, state: int
    ) -> None:
        self.channel = channel
        self.memory = memory
        self.slot = slot
        self.payload = payload
        self.state = state
        self.pid = os.getpid()
        self.worker: Worker | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self.shape: tuple[int, ...] = ()

    def end_forks(self) -> None:
        """End here if we are a fork, made by what came with the objective: the talk is not ours."""
        if os.getpid() != self.pid:
            end_fork()

    def send(self, code: bytes, body: bytes = b"") -> None:
        self.end_forks()
        self.channel.send(code, body)

    def handle(self, code: bytes, body: bytes) -> None:
        if code == wire.EVALUATE:
            self.evaluate(*wire.ASSIGNMENT.unpack(body))
        elif code == wire.STEP:
            self.step(body)
        elif code == wire.LAYOUT:
            name, shape = json.loads(body)
            self.dtype, self.shape = np.dtype(name), tuple(shape)
            self.memory.map(int(np.prod(self.shape)) * self.dtype.itemsize)
        elif code == wire.OPEN:
            self.open(*wire.OPENING.unpack(body))
        elif code == wire.CLOSE:
            self.worker = None

    def open(self, session: int, start: int, size: int) -> None:
        number = wire.SESSION.pack(session)
        try:
            self.worker = Worker(*pickle.loads(read_file(self.payload, start, size)))
        except BaseException:
            text = traceback.format_exc()[-10_000:]
            self.send(wire.REFUSED, number + text.encode("utf-8", "replace"))
        else:
            self.send(wire.READY, number)

    def step(self, body: bytes) -> None:
        assert self.worker is not None
        number, seed, form, length, purpose, planned = wire.STEPPING.unpack_from(body)
        used = wire.STEPPING.size
        plan = context = None
        if planned:
            plan = Plan(*np.frombuffer(body, np.int64, 3 * planned, used).reshape(3, planned))
        if len(body) > (used := used + 3 * 8 * planned):
            context = np.frombuffer(body, np.float64, offset=used)
        size = int(np.prod(self.shape))
        x = self.memory.x(self.dtype, size).reshape(self.shape)
        estimate = whole = None
        if form == wire.NEWEST_ESTIMATE:
            estimate = self.memory.estimate(self.dtype, size).copy()
        elif form == wire.WHOLE_STATE:
            whole = pickle.loads(read_file(self.state, 0, length))
        if form != wire.NO_STATE:  # we have our copies; the parent may write the next ones
            self.send(wire.STEP_RECEIVED)
        step = Step(number, seed, plan, Purpose(purpose), context)
        self.worker.step(step, x, estimate=estimate, directions=whole)

    def evaluate(self, number: int, start: int, stop: int) -> None:
        assert self.worker is not None
        self.memory.set_received(self.slot, number)
        answer = self.worker.evaluate(start, stop, self.begin)
        self.memory.set_running(self.slot, -1, 0.0)
        values, failures, seconds = answer
        columns = values.shape[1] if values.ndim > 1 else 0
        body = wire.RESULT.pack(number, seconds, stop - start, columns) + values.tobytes()
        if failures:
            body += json.dumps([asdict(failure) for failure in failures]).encode()
        self.send(wire.VALUES, body)

    def begin(self, index: int) -> None:
        self.memory.set_running(self.slot, index, time.monotonic())
