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

from gensmooth.rl.environments.acting import accumulate, act, all_finite, copy
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

    def run(world, actor, parameters, starts, horizon, queue, results, recording):
        """Run episodes that no other thread has taken, until none is left."""
        physics = world.physics
        observation, action = np.empty(len(actor.mean)), np.empty(actor.sizes[-1])
        mean, m2 = np.empty(len(actor.mean)), np.empty(len(actor.mean))
        moments, record = len(results.means) > 0, len(recording.rewards) > 0
        while True:
            episode = take(queue)
            if episode >= len(parameters):
                break
            call(physics.reset, physics)
            begin(world, starts[episode])
            observe(world, observation)
            total, bonuses, success, length = 0.0, 0.0, False, 0
            fine = True
            while length < horizon and fine:
                if moments:
                    accumulate(length, observation, mean, m2)
                act(actor, parameters[episode], observation, action)
                if record:
                    copy(observation, recording.observations[episode, length])
                    copy(action, recording.actions[episode, length])
                reward, bonus, ended, reached = step(world, action)
                observe(world, observation)
                if record:
                    copy(observation, recording.observations[episode, length + 1])
                    recording.rewards[episode, length] = reward
                    recording.ended[episode, length] = ended
                total += reward
                bonuses += bonus
                success = success or reached
                length += 1
                for number in physics.warnings:
                    fine = fine and number == 0
                if ended:
                    break
            # What went wrong in the last step, MuJoCo would notice only in the next one.
            fine = fine and np.isfinite(total) and all_finite(observation)
            results.returns[episode] = total if fine else np.nan
            results.bonuses[episode] = bonuses if fine else np.nan
            results.lengths[episode] = length
            results.successes[episode] = success
            if moments:
                results.counts[episode] = length if fine else 0
                copy(mean, results.means[episode])
                copy(m2, results.m2[episode])

    # Numba names the files of its disk cache by this, looks at no other source file than this one
    # to see whether they are out of date, and cannot read them when a class was renamed.
    run.__qualname__ = f"{step.__name__}_{_stamp(begin, observe, step, run):08x}"
    return njit(nogil=True, cache=True, error_model="numpy")(run)


def _stamp(*functions: Function) -> int:
    """A number that changes with the sources of functions and of all that they call by name."""
    files: set[str] = set()
    seen: set[Any] = set()
    todo: list[Any] = list(functions)
    while todo:
        function: Any = todo.pop()
        function = getattr(function, "py_func", function)
        if inspect.isfunction(function) and function not in seen:
            seen.add(function)
            files.add(function.__code__.co_filename)
            todo += [function.__globals__.get(name) for name in function.__code__.co_names]
    return zlib.crc32(b"".join(Path(file).read_bytes() for file in sorted(files)))
