"""A lower bound on the time of a rollout: the same physics calls with the same controls alone."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numba import njit

from gensmooth.physics.mujoco_calls import call, physics, take
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy


class Work(NamedTuple):
    """A batch of episodes: starts, policies, recorded controls and lengths."""

    policy: Policy
    parameters: np.ndarray
    scaling: Scaling
    starts: np.ndarray
    controls: np.ndarray
    lengths: np.ndarray

    @property
    def steps(self) -> int:
        """The total number of environment steps."""
        return int(self.lengths.sum())


def record(
    simulator: CompiledSimulator,
    policy: Policy,
    parameters: np.ndarray,
    scaling: Scaling,
    starts: Any,
) -> Work:
    """Run the episodes once and record the controls."""
    horizon = simulator.info.horizon
    trace = simulator.trace(policy, parameters, scaling, starts, steps=horizon)
    return Work(policy, parameters, scaling, starts, trace.actions, trace.episodes.lengths)


@njit(nogil=True)
def _replay(physics, qpos, qvel, ctrl, starts, controls, lengths, frames, forces, queue):
    while True:
        episode = take(queue)
        if episode >= len(lengths):
            break
        call(physics.reset, physics)
        for i in range(len(qpos)):
            qpos[i] = starts[episode, i]
        for i in range(len(qvel)):
            qvel[i] = starts[episode, len(qpos) + i]
        call(physics.forward, physics)
        for t in range(lengths[episode]):
            for i in range(len(ctrl)):
                ctrl[i] = controls[episode, t, i]
            for _ in range(frames):
                call(physics.step, physics)
            if forces:
                call(physics.forces, physics)


class Floor:
    """Replays of a batch on some threads, by compiled code and from Python.

    Args:
        model: The ``MjModel``.
        work: The episodes.
        frames: Physics steps in a step of the environment.
        forces: Whether the observation needs ``mj_rnePostConstraint``.
        threads: The number of threads.
    """

    def __init__(self, model: Any, work: Work, frames: int, forces: bool, threads: int) -> None:
        self._model, self._work, self._frames, self._forces = model, work, frames, forces
        self._data = [mujoco.MjData(model) for _ in range(threads)]

    def compiled(self) -> None:
        """Replay by Numba, without the interpreter's lock."""
        queue = np.zeros(1, np.int64)
        work = self._work

        def run(data: Any) -> None:
            state = data.qpos, data.qvel, data.ctrl
            episodes = work.starts, work.controls, work.lengths
            _replay(
                physics(self._model, data), *state, *episodes, self._frames, self._forces, queue
            )

        self._in_threads(run)

    def python(self) -> None:
        """Replay by Python's ``mj_step`` with ``nstep``, which releases the lock."""
        episodes = iter(range(len(self._work.lengths)))
        model, work = self._model, self._work

        def run(data: Any) -> None:
            ctrl, places = data.ctrl, [model.nq, model.nq + model.nv]
            for episode in episodes:
                mujoco.mj_resetData(model, data)
                data.qpos[:], data.qvel[:], _ = np.split(work.starts[episode], places)
                mujoco.mj_forward(model, data)
                for control in work.controls[episode, : work.lengths[episode]]:
                    ctrl[:] = control
                    mujoco.mj_step(model, data, self._frames)
                    if self._forces:
                        mujoco.mj_rnePostConstraint(model, data)

        self._in_threads(run)

    def _in_threads(self, run: Callable[[Any], None]) -> None:
        threads = [threading.Thread(target=run, args=(data,)) for data in self._data]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
