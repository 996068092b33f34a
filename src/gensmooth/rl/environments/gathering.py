"""Many trainings, one batch of worlds: episodes that several threads ask for run side by side.

A GPU takes as long for a dozen episodes as for a thousand. Trainings of one environment, each in a
thread of its own, are *members* of a :class:`Gathering`; when all of them wait for their episodes,
these run as one batch. No training knows of the others. Between batches they run one after another
(:class:`Turns`), since threads that compete for the interpreter's lock are slower than one.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments.base import Episodes, Info, split, task_entries
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

_REMEMBERED = 512  # iterations and tests whose starts are kept, over all seeds


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
    def info(self) -> Info:
        """What is known of the environment."""
        ...

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        ...

    def rollout_grouped(self, policy: Policy, given: Grouped, *, observe: bool = False) -> Episodes:
        """Run episodes of several groups side by side."""
        ...


@final
class Turns:
    """One thread at a time; who waits is woken alone, in the order of waiting.

    Threads that compete for the interpreter's lock lose milliseconds whenever one lets go of it,
    for an array operation or a draw: the others keep it for a switch interval. Threads that take
    turns do not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None  # a thread, or 0: one that is just being woken
        self._queue: deque[threading.Lock] = deque()

    def mine(self) -> bool:
        """Whether it is this thread's turn."""
        return self._holder == threading.get_ident()

    def take(self) -> None:
        """Wait for a turn."""
        gate = closed()
        self.admit(gate)
        self.wait(gate)

    def admit(self, gate: threading.Lock) -> None:
        """Whoever waits at this gate is to have a turn."""
        with self._lock:
            self._queue.append(gate)
            if self._holder is None:
                self._next()

    def wait(self, gate: threading.Lock) -> None:
        """Wait at a gate that is admitted, now or later, until it is this thread's turn."""
        gate.acquire()
        self._holder = threading.get_ident()

    def withdraw(self, gate: threading.Lock) -> None:
        """Nobody waits at this gate any more."""
        with self._lock:
            if gate in self._queue:
                self._queue.remove(gate)
            elif not gate.locked():  # it was its turn
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
    """A gate at which a thread waits."""
    gate = threading.Lock()
    gate.acquire()
    return gate


# For all gatherings of the process: they share one interpreter, and a GPU is no faster with two
# batches at a time.
_TURNS = Turns()


class _Request:
    """The episodes that one member waits for."""

    def __init__(self, policy: Policy, x: Array, scaling: Scaling, starts: Array) -> None:
        self.policy, self.x, self.scaling, self.starts = policy, x, scaling, starts
        self.gate = closed()
        self.found: Episodes | None = None
        self.error: BaseException | None = None


@final
class Gathering:
    """A simulator for several threads at a time; see the module.

    From its first episodes on, a member runs only in its turn, which ends when it asks for more:
    it must not wait for another member in any other way.

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
    def info(self) -> Info:
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
        """The starts of an address, drawn once: trainings of one seed start in the same places."""
        found = self._starts.get(address)
        if found is None:
            if len(self._starts) >= _REMEMBERED:
                self._starts.clear()
            found = self._starts[address] = draw()
            found.flags.writeable = False
        return found

    @contextmanager
    def member(self) -> Generator[None]:
        """While a thread is a member, batches wait for it."""
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
        """Let every member that waits for episodes, now or later, be interrupted."""
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
        observe: bool = False,  # noqa: ARG002 (moments are there in any case)
        threads: int | None = None,  # noqa: ARG002
    ) -> Episodes:
        """Run one episode from each start, together with those of the other members."""
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
        assert request.found is not None
        return request.found

    def _ask(self, request: _Request) -> None:
        """Wait until a request is answered, by this thread if nobody else is still to come."""
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
        """What waits, if nobody else is still to come."""
        if not self._waiting or len(self._waiting) < len(self._members):
            return []
        ready, self._waiting = self._waiting, []
        return ready

    def _run(self, requests: Sequence[_Request]) -> None:
        """Run the episodes of all these, those of one shape of policies together."""
        shapes: dict[Policy, list[_Request]] = {}
        for request in requests:
            shapes.setdefault(request.policy, []).append(request)
        for policy, alike in shapes.items():
            try:
                found = self._simulator.rollout_grouped(policy, _together(alike), observe=True)
                parts = split(found, [len(each.x) for each in alike])
            except BaseException as error:
                for each in alike:
                    each.error = error
                continue
            for each, part in zip(alike, parts, strict=True):
                each.found = part
        for request in requests:
            _TURNS.admit(request.gate)


def _together(requests: Sequence[_Request]) -> Grouped:
    return Grouped(
        np.concatenate([each.x for each in requests]),
        np.concatenate([each.starts for each in requests]),
        [each.scaling for each in requests],
        np.repeat(np.arange(len(requests)), [len(each.x) for each in requests]),
    )


_shared: dict[Hashable, Gathering] = {}
_sharing = threading.Lock()


def gathering(key: Hashable, make: Callable[[], Any]) -> Gathering:
    """The gathering of this process under a key, made when it is first asked for."""
    with _sharing:
        if key not in _shared:
            _shared[key] = Gathering(make())
        return _shared[key]


def stop_all() -> None:
    """Interrupt the members of all gatherings of this process, which are then forgotten."""
    with _sharing:
        for each in _shared.values():
            each.stop()
        _shared.clear()
