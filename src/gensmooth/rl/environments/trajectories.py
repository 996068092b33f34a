# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Whole trajectories, compiled: reset, observe, act, step, until the episode ends.

The loop is written once. An environment brings three functions, and the loop is compiled for them:

* ``begin(world, start)``: put the simulation, just reset, where the row ``start`` says;
* ``observe(world, out)``: fill an observation;
* ``step(world, action) -> (reward, bonus, ended, success)``: one step; ``bonus`` is the part of
  the reward that is survival bonus, ``ended`` and ``success`` are true or false.

They are module-level functions under :func:`numba.extending.register_jitable`, so that a name
stands for them in the key of the disk cache. ``world`` is a NamedTuple of the environment's own,
with a field ``physics`` (:class:`gensmooth.rl.environments.native.Physics`).
"""

import inspect
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gensmooth.rl.environments import acting, native
from gensmooth.rl.environments.acting import accumulate, act
from gensmooth.rl.environments.native import call, take


class Results(NamedTuple):
    """Where the loop puts what it found: one row an episode.

    Attributes:
        returns: Sums of rewards.
        bonuses: Sums of survival bonuses.
        lengths: Steps.
        successes: 1.0 where a step was a success.
        counts: Observations in the moments.
        means: Their means; no rows where moments are not wanted.
        m2: Their sums of squared deviations.
    """

    returns: np.ndarray
    bonuses: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    m2: np.ndarray


class Recording(NamedTuple):
    """Where the loop writes down each step; no rows where nobody wants to know.

    Attributes:
        observations: Shape (B, T + 1, n), with the one after the last step.
        actions: Shape (B, T, m).
        rewards: Shape (B, T).
        ended: Shape (B, T).
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


Function = Callable[..., Any]


@cache
def compiled(begin: Function, observe: Function, step: Function) -> Any:
    """The loop for an environment; compiled at its first call, or taken from the disk cache."""
    stamp = _stamp(begin, observe, step)

    @njit(nogil=True, cache=True, error_model="numpy")
    def run(world, actor, parameters, starts, horizon, queue, results, recording):
        """Run episodes that no other thread has taken, until none is left."""
        if stamp == 0:
            return
        episodes = len(parameters)
        physics = world.physics
        observation = np.empty(len(actor.mean))
        action = np.empty(actor.sizes[-1])
        mean, m2 = np.empty(len(observation)), np.empty(len(observation))
        moments, record = len(results.means) > 0, len(recording.rewards) > 0
        while True:
            episode = take(queue)
            if episode >= episodes:
                break
            call(physics.reset, physics)
            begin(world, starts[episode])
            observe(world, observation)
            mean[:] = 0.0
            m2[:] = 0.0
            total, bonuses, success, length = 0.0, 0.0, False, 0
            fine = True
            while length < horizon:
                if moments:
                    accumulate(length + 1, observation, mean, m2)
                act(actor, parameters[episode], observation, action)
                if record:
                    recording.observations[episode, length] = observation
                    recording.actions[episode, length] = action
                reward, bonus, ended, reached = step(world, action)
                observe(world, observation)
                if record:
                    recording.observations[episode, length + 1] = observation
                    recording.rewards[episode, length] = reward
                    recording.ended[episode, length] = ended
                total += reward
                bonuses += bonus
                success = success or reached
                length += 1
                for number in physics.warnings:
                    fine = fine and number == 0
                if ended or not fine:
                    break
            # What happened in the last step, MuJoCo would notice only in the next one.
            fine = fine and np.isfinite(total) and np.isfinite(observation).all()
            results.returns[episode] = total if fine else np.nan
            results.bonuses[episode] = bonuses if fine else np.nan
            results.lengths[episode] = length
            results.successes[episode] = success
            if moments:
                results.counts[episode] = length if fine else 0
                results.means[episode] = mean
                results.m2[episode] = m2

    return run


def _stamp(*functions: Function) -> int:
    """A number that changes with the sources; Numba's cache looks at this very file alone."""
    files = {inspect.getsourcefile(function) or "" for function in functions}
    files |= {acting.__file__, native.__file__}
    return 1 + zlib.crc32(b"".join(Path(file).read_bytes() for file in sorted(files)))
