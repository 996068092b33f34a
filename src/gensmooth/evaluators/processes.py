"""Worker processes on this machine: started once, sent little data, replaced when they die."""

import json
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, final
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

import gensmooth.evaluators.transport as wire
from gensmooth import checks
from gensmooth.evaluators.base import Failure, WorkerError
from gensmooth.evaluators.session import (
    CPU_CLOCK,
    Event,
    Lost,
    PoolEvaluator,
    Ready,
    Refused,
    StepReceived,
    WorkerHandle,
    WorkerPool,
    is_process_computing,
)
from gensmooth.evaluators.transport import Channel, SharedMemory, anonymous_files, write_file
from gensmooth.evaluators.worker import Answer, Array, Step

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from gensmooth.evaluators.worker import main; main(*map(int, sys.argv[2:]))"
)
_EXIT_SECONDS = 2.0  # time for an idle worker to exit
_SILENCE = 10.0  # seconds that a worker may be silent and idle outside the objective


class Traffic(NamedTuple):
    """Bytes sent to and received from all workers of a pool, current and former."""

    sent: int
    received: int


@final
class Processes(PoolEvaluator["ProcessPool"]):
    """Evaluates in worker processes on this machine.

    Workers are fresh interpreters (safe with threads, no ``if __name__ == "__main__"`` needed).
    They receive the objective once, read x from shared memory, and create their own points. A
    worker that dies is replaced. One that exceeds ``timeout`` is stopped, with all its children.

    By default, the workers live as long as a run. As a context manager, the evaluator keeps them
    for several runs::

        with Processes(4) as pool:
            for seed in range(10):
                gs.minimize(fun, x0, workers=pool, seed=seed)

    Args:
        num_workers: The number of processes.
        timeout: The time limit in seconds for one evaluation (one block, for a vectorised
            objective).
        retries: How often a failed evaluation is retried, with the same seeds.
        environment: Environment variables for the workers, such as ``{"OMP_NUM_THREADS": "1"}``.
        start_timeout: The time limit in seconds for the first worker to start and for a worker to
            load the objective once another worker has done so.
    """

    def __init__(
        self,
        num_workers: int,
        *,
        timeout: float | None = None,
        retries: int = 0,
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(timeout, retries, start_timeout)
        if os.name != "posix":
            raise OSError(
                "gs.evaluators.Processes needs Linux or macOS. On this system, use "
                "gs.evaluators.Threads, or workers=executor.map with a "
                "concurrent.futures.ProcessPoolExecutor."
            )
        self.num_workers = checks.count("num_workers", num_workers)
        self.environment: dict[str, str] = (
            {} if environment is None else _checked_environment(environment)
        )

    def __repr__(self) -> str:
        return f"Processes({self.num_workers}, timeout={self.timeout}, retries={self.retries})"

    @property
    def traffic(self) -> Traffic:
        """Bytes sent to and received from the workers; available inside a ``with`` block."""
        if self._pool is None:
            raise RuntimeError("`traffic` is available only inside `with Processes(...) as pool:`.")
        return self._pool.traffic

    @property
    def pids(self) -> list[int]:
        """The workers' process ids inside a ``with`` block; otherwise an empty list."""
        return [] if self._pool is None else [w.process.pid for w in self._pool.workers]

    def _new_pool(self) -> "ProcessPool":
        return ProcessPool(self.num_workers, self.environment, self.start_timeout)


@dataclass(eq=False)
class ProcessHandle(WorkerHandle):
    """A worker process."""

    process: "subprocess.Popen[bytes]" = field(kw_only=True)
    channel: Channel = field(kw_only=True)
    lifeline: socket.socket = field(kw_only=True)
    slot: int = field(kw_only=True)
    greeted: bool = False  # it has started and can receive messages
    opening: bool = False  # it may be reading the payload
    layout: tuple[str, tuple[int, ...]] | None = None  # the dtype and shape of x last sent to it
    assignments: int = 0
    expected: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # number, rows
    deaf: bool = False  # it does not read its messages


@final
class ProcessPool(WorkerPool[ProcessHandle]):
    """Worker processes that share memory with this process."""

    message_worth = 2e-4

    def __init__(self, size: int, environment: dict[str, str], start_timeout: float) -> None:
        self.size = size
        self.start_timeout = start_timeout
        self.workers: list[ProcessHandle] = []
        self._environment = environment
        self._owner = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._memory_fd, self._payload_fd, self._state_fd = anonymous_files(3)
        self._memory = SharedMemory(self._memory_fd, size)
        self._memory.reserve(0)
        self._layout: tuple[str, tuple[int, ...]] = ("<f8", ())
        self._session = 0
        self._opening: bytes | None = None  # the message that opens the session
        self._state_size = 0
        self._former_traffic = Traffic(0, 0)
        _pools.add(self)

    @property
    def traffic(self) -> Traffic:
        """Bytes sent to and received from all workers, current and former."""
        sent = self._former_traffic.sent + sum(w.channel.sent for w in self.workers)
        return Traffic(
            sent, self._former_traffic.received + sum(w.channel.received for w in self.workers)
        )

    def open_session(self, payload: bytes) -> None:
        """See :meth:`WorkerPool.open_session`."""
        if self._opening is not None:
            raise RuntimeError(
                "These worker processes are already in use by another run. Wait for it to end, or "
                "create another gs.evaluators.Processes."
            )
        reading = any(worker.opening for worker in self.workers)  # possibly the previous payload
        start = os.fstat(self._payload_fd).st_size if reading else 0
        os.ftruncate(self._payload_fd, start)
        write_file(self._payload_fd, payload, start)
        self._session += 1
        self._opening = wire.OPENING.pack(self._session, start, len(payload))
        for worker in self.workers:
            if worker.greeted:
                self._send_opening(worker, self._opening)
        self.start_workers()

    def close_session(self) -> None:
        """End the session; the workers keep running and discard the objective."""
        self._opening = None
        for worker in [w for w in self.workers if w.units or w.awaited]:
            self.stop(worker)
        for worker in self.workers:
            self._send(worker, wire.CLOSE)
        os.ftruncate(self._state_fd, 0)

    def close(self) -> None:
        """Stop all workers."""
        if self._owner != os.getpid():  # in a forked child, which does not own the workers
            return
        idle = [w for w in self.workers if w.greeted and not w.units and not w.awaited]
        try:
            for worker in idle:
                worker.channel.hang_up()
            for worker in [w for w in self.workers if w not in idle]:
                self.stop(worker)
            end = time.monotonic() + _EXIT_SECONDS
            for worker in idle:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(max(end - time.monotonic(), 0.01))
        finally:
            for worker in list(self.workers):
                self.stop(worker)
            self._selector.close()
            self._memory.close()
            for fd in (self._memory_fd, self._payload_fd, self._state_fd):
                os.close(fd)

    def start_workers(self) -> None:
        """See :meth:`WorkerPool.start_workers`."""
        taken = {worker.slot for worker in self.workers}
        for slot in range(self.size) if len(taken) < self.size else ():
            if slot not in taken:
                self._start(slot)

    def _start(self, slot: int) -> None:
        ours, theirs = socket.socketpair()
        lifeline, their_lifeline = socket.socketpair()
        files = self._memory_fd, self._payload_fd, self._state_fd
        fds = [theirs.fileno(), their_lifeline.fileno(), *files]
        paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore
        numbers = map(str, [*fds, self.size, slot])
        self._memory.clear(slot)
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(paths), *numbers],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                process_group=0,  # no signals from the terminal; stopped with all its children
            )
        except OSError as error:
            ours.close()
            lifeline.close()
            raise WorkerError(f"A worker process cannot be started: {error}.") from error
        finally:
            theirs.close()
            their_lifeline.close()
        # Limits how long a send waits for a worker that does not read. `settimeout` would cost a
        # second system call per message.
        limit = struct.pack("ll", int(self.start_timeout), int(self.start_timeout % 1 * 1e6))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        channel = Channel(ours)
        worker = ProcessHandle(process=process, channel=channel, lifeline=lifeline, slot=slot)
        self.workers.append(worker)
        self._selector.register(channel, selectors.EVENT_READ, worker)

    def publish(self, x: Array, estimate: Array | None) -> None:
        """See :meth:`WorkerPool.publish`."""
        self._layout = (x.dtype.str, x.shape)
        self._memory.reserve(x.nbytes)
        self._memory.x(x.dtype, x.size)[:] = x.reshape(-1)
        if estimate is not None:
            self._memory.estimate(x.dtype, x.size)[:] = estimate
        self._state_size = 0

    def send_step(
        self, worker: ProcessHandle, step: Step, change: Array | dict[str, Array] | None
    ) -> bool:
        """See :meth:`WorkerPool.send_step`."""
        if worker.layout != self._layout:
            worker.layout = self._layout
            self._send(worker, wire.LAYOUT, json.dumps(self._layout).encode())
        form = wire.NO_STATE
        if isinstance(change, dict):
            form = wire.WHOLE_STATE
            if not self._state_size:  # written once per step: other workers may be reading it
                state = pickle.dumps(change)
                write_file(self._state_fd, state)
                self._state_size = len(state)
        elif change is not None:
            form = wire.NEWEST_ESTIMATE
        plan = b"" if step.plan is None else np.stack(step.plan.arrays).tobytes()
        planned = 0 if step.plan is None else len(step.plan)
        context = b"" if step.context is None else step.context.tobytes()
        head = wire.STEPPING.pack(
            step.number, step.seed, form, self._state_size, step.purpose, planned
        )
        self._send(worker, wire.STEP, head + plan + context)
        return form != wire.NO_STATE

    def assign(self, worker: ProcessHandle, start: int, stop: int) -> None:
        """See :meth:`WorkerPool.assign`."""
        worker.assignments += 1
        worker.expected.append((worker.assignments, stop - start))
        self._send(worker, wire.EVALUATE, wire.ASSIGNMENT.pack(worker.assignments, start, stop))

    def receive(self, timeout: float) -> list[tuple[ProcessHandle, Event]]:
        """See :meth:`WorkerPool.receive`."""
        events: list[tuple[ProcessHandle, Event]] = []
        readable = self._selector.select(timeout)
        for key, _ in readable:
            worker: ProcessHandle = key.data
            try:
                for code, body in worker.channel.receive():
                    event = self._event(worker, code, body)
                    if event is not None:
                        events.append((worker, event))
            except EOFError:
                events.append((worker, self._lost(worker)))
            except (ValueError, KeyError, TypeError, IndexError, struct.error):
                events.append((worker, self._lost(worker, "sent an invalid message")))
        if not readable:  # a child of a dead worker may hold its socket open: no end of file
            dead = [w for w in self.workers if w.process.poll() is not None]
            speaking = [key.data for key, _ in self._selector.select(0)] if dead else []
            events += [(w, self._lost(w)) for w in dead if w not in speaking]
        return events

    def _event(self, worker: ProcessHandle, code: bytes, body: bytes) -> Event | None:
        if code == wire.VALUES:
            number, seconds, rows, columns = wire.RESULT.unpack_from(body)
            if (number, rows) != worker.expected[0]:
                raise ValueError("the answer does not match the assignment")
            worker.expected.pop(0)
            values: NDArray[np.float64] = np.frombuffer(
                body, np.float64, rows * (columns or 1), wire.RESULT.size
            )
            if columns:
                values = values.reshape(rows, columns)
            rest = body[wire.RESULT.size + values.nbytes :]
            failures = [Failure(**entry) for entry in json.loads(rest)] if rest else []
            return Answer(values, failures, seconds)
        if code == wire.STEP_RECEIVED:
            return StepReceived()
        if code == wire.HELLO and not worker.greeted:
            worker.greeted = True
            if self._opening is not None:
                self._send_opening(worker, self._opening)
            return None
        if code not in (wire.READY, wire.REFUSED):
            raise ValueError("not a message that a worker sends")
        (session,) = wire.SESSION.unpack_from(body)
        if session != self._session:
            return None
        worker.opening = False
        if code == wire.READY:
            return Ready()
        return Refused(f"In the worker:\n\n{body[wire.SESSION.size :].decode()}")

    def _send_opening(self, worker: ProcessHandle, opening: bytes) -> None:
        worker.ready, worker.opening, worker.heard = False, True, time.monotonic()
        self._send(worker, wire.OPEN, opening)

    def _lost(self, worker: ProcessHandle, why: str = "") -> Lost:
        first = worker.expected[0][0] if worker.expected else worker.assignments + 1
        began = self._memory.received(worker.slot) >= first
        index = self._memory.running(worker.slot)[0]
        code: int | None = None
        if worker.deaf:
            why = "did not read its messages"
        elif not why:
            with suppress(subprocess.TimeoutExpired):
                code = worker.process.wait(1.0)
        self.stop(worker)
        at = index if began and index >= 0 else None
        return Lost(why or _exit_reason(code), began, at, by_itself=code != -signal.SIGKILL)

    def running(self, worker: ProcessHandle) -> tuple[int, float] | None:
        """See :meth:`WorkerPool.running`."""
        index, began = self._memory.running(worker.slot)
        return (index, began) if index >= 0 else None

    def silence(self, worker: ProcessHandle) -> float | None:
        """See :meth:`WorkerPool.silence`."""
        if worker.greeted and not worker.ready:  # unpickling may run any code, and may wait
            others = any(other.ready for other in self.workers)
            return self.start_timeout if worker.proven or others else None
        return min(_SILENCE, self.start_timeout) if CPU_CLOCK else self.start_timeout

    def is_computing(self, worker: ProcessHandle) -> bool:
        """See :meth:`WorkerPool.is_computing`."""
        return CPU_CLOCK and is_process_computing(worker, worker.process.pid)

    def stop(self, worker: ProcessHandle) -> None:
        """See :meth:`WorkerPool.stop`."""
        if worker not in self.workers:
            return
        with suppress(ProcessLookupError, PermissionError):  # no process is left in the group
            os.killpg(worker.process.pid, signal.SIGKILL)
        self.workers.remove(worker)
        self._selector.unregister(worker.channel)
        sent, received = self._former_traffic
        self._former_traffic = Traffic(
            sent + worker.channel.sent, received + worker.channel.received
        )
        worker.channel.close()
        worker.lifeline.close()
        with suppress(subprocess.TimeoutExpired):  # blocked in the kernel; it will end later
            worker.process.wait(5.0)

    def hint(self) -> str:
        """See :meth:`WorkerPool.hint`."""
        return " Its output is on standard error."

    def _send(self, worker: ProcessHandle, code: bytes, body: bytes = b"") -> None:
        try:
            worker.channel.send(code, body)
        except BlockingIOError:  # it has not read for too long; `receive` will see an end of file
            worker.deaf = True
            worker.channel.hang_up()
        except OSError:  # the process is gone, which `receive` will detect
            pass


_pools: "WeakSet[ProcessPool]" = WeakSet()


def _close_sockets() -> None:
    """Close a forked child's copies of the lifelines, which would keep the workers alive."""
    for pool in _pools:
        for worker in pool.workers:
            worker.lifeline.close()
            worker.channel.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_sockets)


def _checked_environment(environment: object) -> dict[str, str]:
    variables = checks.mapping("environment", environment)
    if not all(isinstance(value, str) for value in variables.values()):
        raise TypeError(
            f"`environment` must have string values, but is {checks.shown(environment)}."
        )
    if any("=" in name or "\0" in name + value for name, value in variables.items()):
        raise ValueError(
            "`environment` must have names without '=', and names and values without null "
            f"characters, but is {checks.shown(environment)}."
        )
    return variables


def _exit_reason(code: int | None) -> str:
    if code is None:
        return "closed its connection"
    if code == -signal.SIGKILL:
        return "was killed by SIGKILL (by a user, or by the system because memory ran out)"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
