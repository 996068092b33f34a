"""Run the episodes of several trainings as one batch.

A GPU takes as long for a dozen episodes as for a thousand. Several trainings of one environment,
each in its own thread, are *members* of a :class:`Gathering`. When all of them wait for episodes,
these run as one batch. No training knows about the others. Between batches they run one after
another (:class:`Turns`), because threads that compete for the interpreter's lock are slower than
one.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments.base import EnvironmentInfo, Episodes, split, task_entries
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

_REMEMBERED = 512  # the number of iterations and tests whose starts are kept, over all seeds


class Grouped(NamedTuple):
    """Episodes of policies of one shape whose observations are scaled differently.

    Attributes:
        parameters: Shape (B, P).
        starts: Shape (B, S).
        scalings: One for each group.
        groups: The group of each episode, shape (B,).
    """

    parameters: Array
    starts: Array
    scalings: Sequence[Scaling]
    groups: NDArray[np.int64]


class GroupSimulator(Protocol):
    """A simulator that runs episodes of several trainings at a time."""

    @property
    def info(self) -> EnvironmentInfo:
        """The sizes, horizon and other facts of the environment."""
        ...

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        ...

    def rollout_grouped(
        self, policy: Policy, grouped: Grouped, *, observe: bool = False
    ) -> Episodes:
        """Run episodes of several groups side by side."""
        ...


@final
class Turns:
    """Lets one thread run at a time, in the order in which they started to wait.

    Threads that compete for the interpreter's lock lose milliseconds whenever one of them releases
    it for an array operation or a random draw, because another then keeps it for a whole switch
    interval. Threads that take turns do not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None  # a thread's id, or 0 while a thread is being woken
        self._queue: deque[threading.Lock] = deque()

    def mine(self) -> bool:
        """Return whether it is this thread's turn."""
        return self._holder == threading.get_ident()

    def take(self) -> None:
        """Wait for a turn."""
        gate = closed()
        self.admit(gate)
        self.wait(gate)

    def admit(self, gate: threading.Lock) -> None:
        """Queue the thread that waits at this gate for a turn."""
        with self._lock:
            self._queue.append(gate)
            if self._holder is None:
                self._next()

    def wait(self, gate: threading.Lock) -> None:
        """Wait at a gate until it is this thread's turn; the gate may be admitted later."""
        gate.acquire()
        self._holder = threading.get_ident()

    def withdraw(self, gate: threading.Lock) -> None:
        """Remove a gate at which no thread waits any more."""
        with self._lock:
            if gate in self._queue:
                self._queue.remove(gate)
            elif not gate.locked():  # its turn had already come
                self._next()

    def give(self) -> None:
        """End this thread's turn."""
        with self._lock:
            self._next()

    def _next(self) -> None:
        self._holder = None
        if self._queue:
            self._holder = 0
            self._queue.popleft().release()


def closed() -> threading.Lock:
    """Return a closed gate, at which a thread can wait."""
    gate = threading.Lock()
    gate.acquire()
    return gate


# All gatherings of the process share the turns: they share one interpreter, and a GPU is no faster
# with two batches at a time.
_TURNS = Turns()


class _Request:
    """The episodes that one member waits for."""

    def __init__(self, policy: Policy, x: Array, scaling: Scaling, starts: Array) -> None:
        self.policy, self.x, self.scaling, self.starts = policy, x, scaling, starts
        self.gate = closed()
        self.episodes: Episodes | None = None
        self.error: BaseException | None = None


@final
class Gathering:
    """A simulator that several threads share; see the module.

    From its first episodes on, a member runs only in its turn. The turn ends when the member asks
    for more episodes. It must not wait for another member in any other way.

    Args:
        simulator: Runs the episodes.
    """

    def __init__(self, simulator: GroupSimulator) -> None:
        self._simulator = simulator
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._members: set[int] = set()  # threads
        self._starts: dict[Hashable, Array] = {}
        self._stopped = False

    @property
    def info(self) -> EnvironmentInfo:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._simulator.info

    @property
    def task_entries(self) -> int:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return task_entries(self._simulator)

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._simulator.starts(rngs)

    def remembered(self, address: Hashable, draw: Callable[[], Array]) -> Array:
        """Return the starts at an address; they are drawn once for all trainings with one seed."""
        starts = self._starts.get(address)
        if starts is None:
            if len(self._starts) >= _REMEMBERED:
                self._starts.clear()
            starts = self._starts[address] = draw()
            starts.flags.writeable = False
        return starts

    @contextmanager
    def member(self) -> Generator[None]:
        """Make this thread a member: batches wait for it."""
        me = threading.get_ident()
        with self._lock:
            self._members.add(me)
        try:
            yield
        finally:
            if not _TURNS.mine():
                _TURNS.take()
            with self._lock:
                self._members.discard(me)
                ready = self._take()
            self._run(ready)
            _TURNS.give()

    def stop(self) -> None:
        """Interrupt every member that waits for episodes, now or later."""
        with self._lock:
            self._stopped = True
            stopped, self._waiting = self._waiting, []
        for request in stopped:
            request.error = KeyboardInterrupt()
            _TURNS.admit(request.gate)

    def rollout(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        observe: bool = False,  # noqa: ARG002 (moments are always computed)
        threads: int | None = None,  # noqa: ARG002
    ) -> Episodes:
        """Run one episode from each start, in one batch with those of the other members."""
        if not _TURNS.mine():
            _TURNS.take()
        request = _Request(policy, parameters, scaling, starts)
        try:
            self._ask(request)
        finally:
            if _TURNS.mine() and threading.get_ident() not in self._members:
                _TURNS.give()
        if request.error is not None:
            raise request.error
        assert request.episodes is not None
        return request.episodes

    def _ask(self, request: _Request) -> None:
        """Wait until a request is answered; the last member to ask runs the batch itself."""
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            self._waiting.append(request)
            ready = self._take()
        self._run(ready)
        if not ready:
            _TURNS.give()
            try:
                _TURNS.wait(request.gate)
            except BaseException:
                with self._lock:
                    if request in self._waiting:
                        self._waiting.remove(request)
                _TURNS.withdraw(request.gate)
                raise
        else:
            _TURNS.withdraw(request.gate)

    def _take(self) -> list[_Request]:
        """Take all waiting requests, if every member has one; otherwise none."""
        if not self._waiting or len(self._waiting) < len(self._members):
            return []
        ready, self._waiting = self._waiting, []
        return ready

    def _run(self, requests: Sequence[_Request]) -> None:
        """Run the episodes of these requests; policies of one shape run together."""
        shapes: dict[Policy, list[_Request]] = {}
        for request in requests:
            shapes.setdefault(request.policy, []).append(request)
        for policy, group in shapes.items():
            try:
                episodes = self._simulator.rollout_grouped(policy, _grouped(group), observe=True)
                parts = split(episodes, [len(request.x) for request in group])
            except BaseException as error:
                for request in group:
                    request.error = error
                continue
            for request, part in zip(group, parts, strict=True):
                request.episodes = part
        for request in requests:
            _TURNS.admit(request.gate)


def _grouped(requests: Sequence[_Request]) -> Grouped:
    return Grouped(
        np.concatenate([request.x for request in requests]),
        np.concatenate([request.starts for request in requests]),
        [request.scaling for request in requests],
        np.repeat(np.arange(len(requests)), [len(request.x) for request in requests]),
    )


_shared: dict[Hashable, Gathering] = {}
_sharing = threading.Lock()


def gathering(key: Hashable, make: Callable[[], Any]) -> Gathering:
    """Return the gathering of this process under a key; it is made on first use."""
    with _sharing:
        if key not in _shared:
            _shared[key] = Gathering(make())
        return _shared[key]


def stop_all() -> None:
    """Interrupt the members of all gatherings of this process, and forget the gatherings."""
    with _sharing:
        for shared in _shared.values():
            shared.stop()
        _shared.clear()
