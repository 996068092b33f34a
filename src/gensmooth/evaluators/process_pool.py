"""A pool of worker processes: started, talked to, watched, stopped."""

import json
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.evaluators import process_worker as wire
from gensmooth.evaluators.board import Board, anonymous_file, write
from gensmooth.evaluators.channel import Channel
from gensmooth.evaluators.crew import Crew, Event, Gone, Member, Ready, Refused, Told
from gensmooth.evaluators.errors import Failure, WorkerError
from gensmooth.evaluators.travel import Array, Report, Step

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from gensmooth.evaluators.process_worker import main; main(*map(int, sys.argv[2:]))"
)
_FAREWELL = 2.0  # seconds that an idle worker has to end by itself


class Traffic(NamedTuple):
    """Bytes to and from all workers of a pool, present and past."""

    sent: int
    received: int


@dataclass(eq=False)
class ProcessMember(Member):
    """A worker process."""

    process: "subprocess.Popen[bytes]" = field(kw_only=True)
    channel: Channel = field(kw_only=True)
    lifeline: socket.socket = field(kw_only=True)
    slot: int = field(kw_only=True)
    greeted: bool = False
    opening: bool = False
    layout: tuple[str, tuple[int, ...]] | None = None
    assignments: int = 0


@final
class ProcessPool(Crew[ProcessMember]):
    """Worker processes that share a board with us."""

    grain = 2e-4

    def __init__(self, size: int, environment: dict[str, str], start_timeout: float) -> None:
        self.size = size
        self.start_timeout = start_timeout
        self.members: list[ProcessMember] = []
        self._environment = environment
        self._owner = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._files = [anonymous_file() for _ in range(3)]
        self._board = Board(self._files[0], size)
        self._board.reserve(0)
        self._layout: tuple[str, tuple[int, ...]] = ("<f8", ())
        self._session = 0
        self._bag: bytes | None = None
        self._state_size = 0
        self._past = Traffic(0, 0)

    @property
    def traffic(self) -> Traffic:
        """Bytes to and from all workers, present and past."""
        sent = self._past.sent + sum(m.channel.sent for m in self.members)
        return Traffic(sent, self._past.received + sum(m.channel.received for m in self.members))

    def open(self, bag: bytes) -> None:
        """Begin a session."""
        if self._bag is not None:
            raise RuntimeError("These processes are already at work for another run.")
        late = any(member.opening for member in self.members)  # and may still read the last bag
        start = os.fstat(self._files[1]).st_size if late else 0
        os.ftruncate(self._files[1], start)
        write(self._files[1], bag, start)
        self._session += 1
        self._bag = wire.OPENING.pack(self._session, start, len(bag))
        for member in self.members:
            if member.greeted:
                self._send_bag(member, self._bag)
        self.hire()

    def shut(self) -> None:
        """End a session; workers stay, and forget the objective."""
        self._bag = None
        for member in [m for m in self.members if m.units or m.telling]:
            self.dismiss(member)
        for member in self.members:
            self._send(member, wire.CLOSE)
        os.ftruncate(self._files[2], 0)

    def close(self) -> None:
        """End all workers."""
        if self._owner != os.getpid():  # we are a fork: they are not our children
            return
        idle = [m for m in self.members if m.greeted and not m.units and not m.telling]
        try:
            for member in idle:
                member.channel.hang_up()
            for member in [m for m in self.members if m not in idle]:
                self.dismiss(member)
            end = time.monotonic() + _FAREWELL
            for member in idle:
                with suppress(subprocess.TimeoutExpired):
                    member.process.wait(max(end - time.monotonic(), 0.01))
        finally:
            for member in list(self.members):
                self.dismiss(member)
            self._selector.close()
            self._board.close()
            for fd in self._files:
                os.close(fd)
            self._files = []

    def hire(self) -> None:
        """See :meth:`Crew.hire`."""
        taken = {member.slot for member in self.members}
        for slot in range(self.size) if len(taken) < self.size else ():
            if slot not in taken:
                self._start(slot)

    def _start(self, slot: int) -> None:
        self._board.begin(slot, -1, 0.0)
        self._board.receive(slot, 0)
        ours, theirs = socket.socketpair()
        lifeline, their_lifeline = socket.socketpair()
        fds = [theirs.fileno(), their_lifeline.fileno(), *self._files]
        paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore
        numbers = map(str, [*fds, self.size, slot])
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(paths), *numbers],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                process_group=0,  # out of the terminal's reach; stopped with all its children
            )
        except OSError as error:
            ours.close()
            lifeline.close()
            raise WorkerError(f"A worker process cannot be started: {error}.") from error
        finally:
            theirs.close()
            their_lifeline.close()
        channel = Channel(ours)
        member = ProcessMember(process=process, channel=channel, lifeline=lifeline, slot=slot)
        self.members.append(member)
        self._selector.register(channel, selectors.EVENT_READ, member)

    def publish(self, x: Array, estimate: Array | None) -> None:
        """See :meth:`Crew.publish`."""
        self._layout = (x.dtype.str, x.shape)
        self._board.reserve(x.nbytes)
        self._board.x(x.dtype, x.size)[:] = x.reshape(-1)
        if estimate is not None:
            self._board.estimate(x.dtype, x.size)[:] = estimate
        self._state_size = 0

    def tell(
        self, member: ProcessMember, step: Step, news: Array | dict[str, Array] | None
    ) -> bool:
        """See :meth:`Crew.tell`."""
        if member.layout != self._layout:
            member.layout = self._layout
            self._send(member, wire.LAYOUT, json.dumps(self._layout).encode())
        kind = wire.NOTHING
        if isinstance(news, dict):
            kind = wire.WHOLE
            if not self._state_size:  # once a step: others may be reading it
                state = pickle.dumps(news)
                write(self._files[2], state)
                self._state_size = len(state)
        elif news is not None:
            kind = wire.ESTIMATE
        plan = b"" if step.plan is None else np.stack(step.plan.arrays).tobytes()
        planned = 0 if step.plan is None else len(step.plan)
        context = b"" if step.context is None else step.context.tobytes()
        told = wire.TELLING.pack(
            step.number, step.seed, kind, self._state_size, step.purpose, planned
        )
        self._send(member, wire.TELL, told + plan + context)
        return kind != wire.NOTHING

    def assign(self, member: ProcessMember, start: int, stop: int) -> None:
        """See :meth:`Crew.assign`."""
        member.assignments += 1
        self._send(member, wire.EVALUATE, wire.ASSIGNMENT.pack(member.assignments, start, stop))

    def listen(self, timeout: float) -> list[tuple[ProcessMember, Event]]:
        """See :meth:`Crew.listen`."""
        events: list[tuple[ProcessMember, Event]] = []
        ready = self._selector.select(timeout)
        for key, _ in ready:
            member: ProcessMember = key.data
            try:
                for code, payload in member.channel.read():
                    event = self._event(member, code, payload)
                    if event is not None:
                        events.append((member, event))
            except EOFError:
                events.append((member, self._gone(member)))
        if not ready:  # a child of a dead worker may hold its socket open: no end of file, then
            dead = [m for m in self.members if m.process.poll() is not None]
            speaking = [key.data for key, _ in self._selector.select(0)] if dead else []
            events += [(m, self._gone(m)) for m in dead if m not in speaking]
        return events

    def _event(self, member: ProcessMember, code: bytes, payload: bytes) -> Event | None:
        if code == wire.VALUES:
            _, seconds, rows, columns = wire.RESULT.unpack_from(payload)
            values: NDArray[np.float64] = np.frombuffer(
                payload, np.float64, rows * (columns or 1), wire.RESULT.size
            )
            if columns:
                values = values.reshape(rows, columns)
            rest = payload[wire.RESULT.size + values.nbytes :]
            failures = [Failure(**entry) for entry in json.loads(rest)] if rest else []
            return Report(values, failures, seconds)
        if code == wire.TOLD:
            return Told()
        if code == wire.HELLO:
            member.greeted = True
            if self._bag is not None:
                self._send_bag(member, self._bag)
            return None
        (session,) = wire.SESSION.unpack_from(payload)
        if session != self._session:
            return None
        member.opening = False
        if code == wire.READY:
            return Ready()
        return Refused(f"In the worker:\n\n{payload[wire.SESSION.size :].decode()}")

    def _send_bag(self, member: ProcessMember, bag: bytes) -> None:
        member.ready, member.opening = False, True
        self._send(member, wire.OPEN, bag)

    def _gone(self, member: ProcessMember) -> Gone:
        first = member.assignments - len(member.units) + 1
        received = self._board.received(member.slot) >= first
        index = self._board.progress(member.slot)[0]
        try:
            code = member.process.wait(1.0)
        except subprocess.TimeoutExpired:
            code = 0
        self.dismiss(member)
        at = index if received and index >= 0 else None
        return Gone(_why(code), received, at, by_itself=code != -signal.SIGKILL)

    def current(self, member: ProcessMember) -> tuple[int, float] | None:
        """See :meth:`Crew.current`."""
        index, began = self._board.progress(member.slot)
        return (index, began) if index >= 0 else None

    def dismiss(self, member: ProcessMember) -> None:
        """See :meth:`Crew.dismiss`."""
        if member not in self.members:
            return
        with suppress(ProcessLookupError, PermissionError):  # it has left nobody behind
            os.killpg(member.process.pid, signal.SIGKILL)
        self.members.remove(member)
        self._selector.unregister(member.channel)
        sent, received = self._past
        self._past = Traffic(sent + member.channel.sent, received + member.channel.received)
        member.channel.close()
        member.lifeline.close()
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel, it ends in its own time
            member.process.wait(5.0)

    def hint(self) -> str:
        """See :meth:`Crew.hint`."""
        return " What it had to say is on the error stream."

    def _send(self, member: ProcessMember, code: bytes, payload: bytes = b"") -> None:
        with suppress(OSError):  # it is gone, which `listen` will find out
            member.channel.send(code, payload)


def _why(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed by SIGKILL (by hand, or by the system for want of memory)"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
