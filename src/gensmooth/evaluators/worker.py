"""The worker's side of a session: the data it receives, and how it evaluates.

A worker receives the search and the objective once per session. Once per step it receives x and,
for directions with a state, the newest estimate. It asks its own search for the batch and creates
its own points, so an assignment is a few integers and each evaluation returns one number,
whatever the dimension.
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
from gensmooth.searches import Search, SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]


# --- messages ----------------------------------------------------------------------------------


class Step(NamedTuple):
    """The data that a worker receives once per step, in addition to x and the directions' state.

    Attributes:
        number: The step's number.
        seed: The run's seed.
        plan: The evaluations, if they differ from those that the search plans.
        purpose: The purpose of their random samples.
        context: The additional argument passed to the objective with each point.
    """

    number: int
    seed: int
    plan: Plan | None
    purpose: Purpose = Purpose.SAMPLE
    context: NDArray[np.float64] | None = None


class Answer(NamedTuple):
    """A worker's answer to an assignment.

    Attributes:
        values: The values; for an objective with extras, rows that begin with the value.
        failures: The evaluations that failed.
        seconds: The time taken.
    """

    values: NDArray[np.float64]
    failures: list[Failure]
    seconds: float


# --- evaluation --------------------------------------------------------------------------------


@final
class Worker:
    """Evaluates assignments; the same for every kind of worker."""

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
            step: The step.
            x: The parameters.
            estimate: The previous step's gradient estimate, if the directions have a state.
            directions: The whole state, for a worker that has missed an estimate.
        """
        wire = self._search.wire
        if directions is not None:
            self._directions = wire.unpack(directions, x.size, x.dtype)
        elif estimate is not None:
            self._directions = wire.update(self._directions, estimate)
        state = SearchState(x, step.number, 0, step.seed, None, self._directions)
        batch = self._search.ask(state)
        plan = batch.plan
        if step.plan is not None:
            # Copies: received arrays are read-only, for which Numba would compile again.
            plan = Plan(*(part.copy() for part in step.plan.arrays))
        if step.plan is not None or step.purpose != batch.purpose:
            batch = batch.planned(plan, step.purpose)
        self._batch = batch if step.context is None else batch.with_context(step.context)

    def load_kernels(self) -> None:
        """Create one point, which loads the kernels."""
        assert self._batch is not None
        self._batch.point(0)

    def evaluate(self, start: int, stop: int, begin: Callable[[int], None] | None = None) -> Answer:
        """Perform evaluations ``start … stop``; ``begin`` is called before each."""
        assert self._batch is not None
        began = time.perf_counter()
        values, failures = self._objective.values(self._batch, start, stop, begin=begin)
        picklable = [failure.picklable() for failure in failures]
        return Answer(values, picklable, time.perf_counter() - began)


# --- a worker process --------------------------------------------------------------------------


def main(
    channel: int, lifeline: int, memory: int, payload: int, state: int, slots: int, slot: int
) -> None:
    """Serve the parent until it closes the connection.

    Args:
        channel: The descriptor of the socket for messages.
        lifeline: The descriptor of a socket that closes when the parent ends.
        memory: The descriptor of the shared memory.
        payload: The descriptor of a file with the pickled search and objective.
        state: The descriptor of a file with the whole state of the directions, pickled.
        slots: The number of slots in the shared memory.
        slot: This worker's slot.
    """
    _die_with_parent(lifeline)
    connection = Channel(socket.socket(fileno=channel))
    process = _WorkerProcess(connection, SharedMemory(memory, slots), slot, payload, state)
    connection.send(wire.HELLO)
    while True:
        try:
            for code, body in connection.receive():
                process.handle(code, body)
                process.end_forks()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _die_with_parent(lifeline: int) -> None:
    """Ask the kernel to end this process and its children when the parent ends.

    When the parent's end of the lifeline closes, the kernel sends a signal. On Linux this is
    SIGKILL, which also works inside a C call that never returns and cannot be ignored; elsewhere
    it is SIGIO. (Linux's own parent-death signal is sent when the *thread* that started this
    process ends.)
    """
    import fcntl  # here, so that the module can be imported on Windows

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # the parent ended before the signal was set up
        os._exit(1)


@final
class _WorkerProcess:
    """Handles the parent's messages."""

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
        """End this process if the objective's code forked it: the channel belongs to the worker."""
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
        if form != wire.NO_STATE:  # copied, so the parent may now overwrite it
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
