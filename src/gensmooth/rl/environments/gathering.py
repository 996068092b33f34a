"""Many trainings, one batch of worlds: episodes that several threads ask for run side by side.

A GPU takes as long for a dozen episodes as for a thousand. Trainings of one environment, each in a
thread of its own, are *members* of a :class:`Gathering`; when all of them wait for their episodes,
these run as one batch. No training knows of the others.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments.base import Episodes, Info, split
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

# One batch at a time, whatever the environment: a GPU is no faster with two.
_DEVICE = threading.Lock()


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


class _Request:
    """The episodes that one member waits for."""

    def __init__(self, policy: Policy, x: Array, scaling: Scaling, starts: Array) -> None:
        self.policy, self.x, self.scaling, self.starts = policy, x, scaling, starts
        self.found: Episodes | None = None
        self.error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.found is not None or self.error is not None


@final
class Gathering:
    """A simulator for several threads at a time; see the module.

    Args:
        simulator: Runs the episodes.
    """

    def __init__(self, simulator: GroupSimulator) -> None:
        self._simulator = simulator
        self._changed = threading.Condition()
        self._waiting: list[_Request] = []
        self._members = 0
        self._stopped = False

    @property
    def info(self) -> Info:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._simulator.info

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._simulator.starts(rngs)

    @contextmanager
    def member(self) -> Generator[None]:
        """While a thread is a member, batches wait for it."""
        with self._changed:
            self._members += 1
        try:
            yield
        finally:
            with self._changed:
                self._members -= 1
                ready = self._take()
            self._run(ready)

    def stop(self) -> None:
        """Let every member that waits for episodes, now or later, be interrupted."""
        with self._changed:
            self._stopped = True
            for request in self._waiting:
                request.error = KeyboardInterrupt()
            self._waiting.clear()
            self._changed.notify_all()

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
        request = _Request(policy, parameters, scaling, starts)
        with self._changed:
            if self._stopped:
                raise KeyboardInterrupt
            self._waiting.append(request)
            ready = self._take()
        self._run(ready)
        with self._changed:
            self._changed.wait_for(lambda: request.done)
        if request.error is not None:
            raise request.error
        assert request.found is not None
        return request.found

    def _take(self) -> list[_Request]:
        """What waits, if nobody else is still to come."""
        if not self._waiting or len(self._waiting) < self._members:
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
                with _DEVICE:
                    found = self._simulator.rollout_grouped(policy, _together(alike), observe=True)
                parts = split(found, [len(each.x) for each in alike])
            except BaseException as error:
                with self._changed:
                    for each in alike:
                        each.error = error
                    self._changed.notify_all()
                continue
            with self._changed:
                for each, part in zip(alike, parts, strict=True):
                    each.found = part
                self._changed.notify_all()


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
