"""The compiled simulator: runs an environment's functions on MuJoCo, threaded over episodes."""

import re
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.mujoco_calls import load_mujoco, physics, quiet
from gensmooth.rl.environments.base import (
    EnvironmentInfo,
    Episodes,
    Request,
    UnsupportedEnvironmentError,
    check,
    thread_count,
)
from gensmooth.rl.environments.trajectory import (
    Recording,
    TrajectoryResults,
    compile_loop,
    compiled_policy,
)
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]


class Trace(NamedTuple):
    """A record of the first steps of a batch of episodes; NaN beyond an episode's length.

    Attributes:
        observations: Shape (B, T + 1, n), including the one after the last step.
        actions: Shape (B, T, m).
        rewards: Shape (B, T).
        ended: Whether the episode ended in a step, shape (B, T).
        episodes: The results of the episodes.
    """

    observations: Array
    actions: Array
    rewards: Array
    ended: NDArray[np.bool_]
    episodes: Episodes


class _Simulation(NamedTuple):
    """An MjData, and the state whose arrays are views of it."""

    data: Any
    state: Any


class ModelSimulator:
    """What all simulators of a compiled environment share: its model and its starts.

    Args:
        environment: The environment.
        device: Where its trajectories run.
        remake: How another process makes this simulator: a module-level function and its arguments.
    """

    def __init__(
        self,
        environment: CompiledEnvironment,
        device: str,
        remake: tuple[Callable[..., Any], tuple[Any, ...]],
    ) -> None:
        self._environment = environment
        self.info = EnvironmentInfo(
            environment.name,
            environment.observation_size,
            environment.action_size,
            environment.horizon,
            environment.survival_bonus,
            fast=True,
            goal=environment.goal,
            device=device,
        )
        self._remake = remake
        self._model = environment.model()
        self._start_size = len(environment.start(self._model, np.random.default_rng(0)))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    @property
    def model(self) -> Any:
        """The ``MjModel``; do not modify it."""
        return self._model

    @property
    def task_entries(self) -> int:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._environment.task_entries

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a start from each generator, shape (B, S)."""
        return self._environment.starts(self._model, rngs, self._start_size)


@final
class CompiledSimulator(ModelSimulator):
    """Runs trajectories outside the interpreter's lock, threaded over trajectories.

    Each thread has its own ``MjData`` and takes the next trajectory that no other thread has taken.
    Each trajectory begins with ``mj_resetData``. Results are therefore bit-identical for any number
    of threads.

    Args:
        environment: The environment.
        remake: See :class:`ModelSimulator`.
    """

    def __init__(
        self, environment: CompiledEnvironment, remake: tuple[Callable[..., Any], tuple[Any, ...]]
    ) -> None:
        super().__init__(environment, "cpu", remake)
        self._idle: list[_Simulation] = []  # simulations that no rollout is using
        self._run = compile_loop(environment.begin, environment.observe, environment.step)

    def on_device(self, device: str) -> Any:
        """Make the simulator of the same environment on a GPU (or on ``"warp-cpu"``)."""
        warp: Any = import_module("gensmooth.rl.environments.warp")
        remake = (_remake_on_device, (*self._remake, device))
        return warp.WarpSimulator(self._environment, device, remake)

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
        return self._run_all(policy, request, self.info.horizon, recording, observe, threads)

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
        """Run the first ``steps`` steps of each episode and record all of them."""
        request = check(self.info, self._start_size, policy, parameters, scaling, starts)
        recording = self._recording(len(starts), steps)
        episodes = self._run_all(policy, request, steps, recording, True, threads)
        return Trace(*recording, episodes)

    def simulation(self) -> Any:
        """Return a simulation that no rollout is using: its ``data`` and its ``state``."""
        try:
            return self._idle.pop()
        except IndexError:
            data = load_mujoco().MjData(self._model)
            state = self._environment.state(self._model, data, physics(self._model, data))
            return _Simulation(data, state)

    def _recording(self, episodes: int, steps: int) -> Recording:
        n, m = self.info.observation_size, self.info.action_size
        return Recording(
            np.full((episodes, steps + 1, n), np.nan),
            np.full((episodes, steps, m), np.nan),
            np.full((episodes, steps), np.nan),
            np.zeros((episodes, steps), np.bool_),
        )

    def _run_all(
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
        results = TrajectoryResults(
            returns=np.empty(number),
            bonuses=np.empty(number),
            lengths=np.empty(number, np.int64),
            successes=np.empty(number),
            counts=np.zeros(rows, np.int64),
            means=np.empty((rows, n)),
            m2=np.empty((rows, n)),
        )
        queue = np.zeros(1, np.int64)

        def work(simulation: _Simulation) -> None:
            self._run(
                simulation.state,
                compiled_policy(policy, request.scaling),
                request.parameters,
                request.starts,
                horizon,
                queue,
                results,
                recording,
            )

        self._announce_compilation()
        simulations = [self.simulation() for _ in range(thread_count(threads, number))]
        try:
            with quiet():
                _run_threads([lambda s=s: work(s) for s in simulations], queue, number)
        except NumbaError as error:
            raise UnsupportedEnvironmentError(
                f"{self.info.name} cannot be compiled for the CPU: Numba, which supports a part of "
                f"Python and NumPy, does not support what {_where(error)} does."
            ) from error
        finally:
            self._idle.extend(simulations)
        return Episodes(
            results.returns,
            results.bonuses,
            results.lengths,
            EpisodeMoments(results.counts, results.means, results.m2) if observe else None,
            results.successes if self.info.goal else None,
        )

    def _announce_compilation(self) -> None:
        """Print a line on a terminal if compiling will take a few seconds."""
        if self._run.signatures or not getattr(sys.stderr, "isatty", bool)():
            return
        files = Path(self._run.stats.cache_path)
        if not any(files.glob(f"*.{self._run.py_func.__qualname__}-*.nbi")):
            print(
                f"gensmooth: compiling {self.info.name}, only once on this machine; this takes "
                "a few seconds…",
                file=sys.stderr,
            )


def _where(error: NumbaError) -> str:
    """Return the innermost line of the user's code that Numba rejects; Numba names it first."""
    places = re.findall(r"typing of .* at (\S.*?\.py) \((\d+)\)", str(error))
    outside = [place for place in places if "site-packages" not in place[0]]
    return (
        f"{Path(outside[0][0]).name}, line {outside[0][1]}," if outside else "one of its functions"
    )


def _remake_on_device(make: Callable[..., Any], arguments: tuple[Any, ...], device: str) -> Any:
    return make(*arguments).on_device(device)


def _run_threads(calls: list[Callable[[], None]], queue: NDArray[np.int64], stop: int) -> None:
    """Run calls at the same time, each in its own thread, and wait for them.

    The caller's thread only waits, so that it can be interrupted. On an interrupt, the next
    trajectory in the ``queue`` becomes ``stop``, their number. So each thread ends after its
    current one.
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
