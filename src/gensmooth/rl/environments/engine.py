"""The compiled simulator: a MuJoCo model, an environment's functions, threads over trajectories."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments import library
from gensmooth.rl.environments.acting import actor
from gensmooth.rl.environments.base import Episodes, Info, Request, check, thread_count
from gensmooth.rl.environments.native import Physics
from gensmooth.rl.environments.trajectories import Recording, Results, compiled
from gensmooth.rl.normalize import Moments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Task:
    """What makes an environment on MuJoCo; see :mod:`gensmooth.rl.environments.trajectories`.

    Attributes:
        info: What is known of it.
        model: Makes its ``MjModel``.
        world: ``world(model, data, physics)``: the NamedTuple that the functions get. It holds
            views of the arrays of ``data``, and is made once for each thread.
        start: ``start(model, rng)``: a row that says where an episode starts.
        begin: ``begin(world, start)``, compiled.
        observe: ``observe(world, out)``, compiled.
        step: ``step(world, action)``, compiled.
    """

    info: Info
    model: Callable[[], Any]
    world: Callable[[Any, Any, Physics], Any]
    start: Callable[[Any, np.random.Generator], Array]
    begin: Callable[..., Any]
    observe: Callable[..., Any]
    step: Callable[..., Any]


class Trace(NamedTuple):
    """The first steps of a batch of episodes, as they were; what lies beyond ``lengths`` is NaN.

    Attributes:
        observations: Shape (B, T + 1, n), with the one after the last step.
        actions: Shape (B, T, m).
        rewards: Shape (B, T).
        ended: Whether the episode ended in a step, shape (B, T).
        episodes: The sums.
    """

    observations: Array
    actions: Array
    rewards: Array
    ended: NDArray[np.bool_]
    episodes: Episodes


class _Slot(NamedTuple):
    """One simulation: its MjData, and the world that looks into it."""

    data: Any
    world: Any


@final
class Compiled:
    """Runs trajectories of a task outside the interpreter's lock, threaded over trajectories.

    Each thread has an ``MjData`` of its own and takes the next trajectory that nobody has taken;
    each trajectory begins with ``mj_resetData``. So results are bit-identical for any number of
    threads.

    Args:
        task: The environment.
        remake: What a process that gets this simulator calls to make it anew: a module-level
            function and its arguments.
    """

    def __init__(self, task: Task, remake: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
        self._task = task
        self._remake = remake
        self._model = task.model()
        self._slots: list[_Slot] = []  # those that no rollout is using now
        self._start_size = len(task.start(self._model, np.random.default_rng(0)))
        self._run = compiled(task.begin, task.observe, task.step)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    @property
    def info(self) -> Info:
        """What is known of the environment."""
        return self._task.info

    @property
    def model(self) -> Any:
        """The ``MjModel``; read, do not change."""
        return self._model

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a start from each generator, shape (B, S)."""
        starts = np.empty((len(rngs), self._start_size))
        for row, rng in zip(starts, rngs, strict=True):
            row[:] = self._task.start(self._model, rng)
        return starts

    def rollout(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        observe: bool = False,
        threads: int | None = None,
    ) -> Episodes:
        """Run one episode from each start; see :class:`~.base.Simulator`."""
        request = check(self.info, self._start_size, policy, parameters, scaling, starts)
        recording = self._recording(0, 0)
        return self._roll(policy, request, self.info.horizon, recording, observe, threads)

    def trace(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        steps: int,
        threads: int | None = None,
    ) -> Trace:
        """Run the first ``steps`` steps of each episode and write them all down."""
        request = check(self.info, self._start_size, policy, parameters, scaling, starts)
        recording = self._recording(len(starts), steps)
        episodes = self._roll(policy, request, steps, recording, True, threads)
        return Trace(*recording, episodes)

    def _recording(self, episodes: int, steps: int) -> Recording:
        n, m = self.info.observation_size, self.info.action_size
        return Recording(
            np.full((episodes, steps + 1, n), np.nan),
            np.full((episodes, steps, m), np.nan),
            np.full((episodes, steps), np.nan),
            np.zeros((episodes, steps), np.bool_),
        )

    def _roll(
        self,
        policy: Policy,
        request: Request,
        horizon: int,
        recording: Recording,
        observe: bool,
        threads: int | None,
    ) -> Episodes:
        number, n = len(request.parameters), self.info.observation_size
        rows = number if observe else 0
        results = Results(
            *(np.empty(number), np.empty(number), np.empty(number, np.int64), np.empty(number)),
            *(np.zeros(rows, np.int64), np.empty((rows, n)), np.empty((rows, n))),
        )
        queue = np.zeros(1, np.int64)

        def work(slot: _Slot) -> None:
            hand = actor(policy, request.scaling)
            self._run(
                slot.world,
                hand,
                request.parameters,
                request.starts,
                horizon,
                queue,
                results,
                recording,
            )

        self._announce()
        slots = [self._slot() for _ in range(thread_count(threads, number))]
        try:
            with library.quiet():
                _together([lambda slot=slot: work(slot) for slot in slots], queue, number)
        finally:
            self._slots.extend(slots)
        return Episodes(
            results.returns,
            results.bonuses,
            results.lengths,
            Moments(results.counts, results.means, results.m2) if observe else None,
            results.successes if self.info.goal else None,
        )

    def _announce(self) -> None:
        """On a terminal, say so if the next seconds go into compiling."""
        if self._run.signatures or not sys.stderr.isatty():
            return
        files = Path(self._run.stats.cache_path)
        if not any(files.glob(f"*.{self._run.py_func.__qualname__}-*.nbi")):
            print(
                f"gensmooth: compiling {self.info.name}, once on this machine, some seconds…",
                file=sys.stderr,
            )

    def _slot(self) -> _Slot:
        try:
            return self._slots.pop()
        except IndexError:
            data = library.load().MjData(self._model)
            physics = library.physics(self._model, data)
            return _Slot(data, self._task.world(self._model, data, physics))


def _together(calls: list[Callable[[], None]], queue: NDArray[np.int64], stop: int) -> None:
    """Run calls at the same time, each in a thread of its own, and wait for them.

    The caller's thread only waits, so that it can be interrupted; then the queue is declared
    empty, and the threads end with the trajectory that they are at.
    """
    failures: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)

    running = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in running:
        thread.start()
    try:
        for thread in running:
            thread.join()
    except BaseException:
        queue[0] = stop
        for thread in running:
            thread.join()
        raise
    if failures:
        raise failures[0]
