# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""The compiled loop of a trajectory: reset, observe, act, step, until the episode ends.

The loop is written once and compiled for the three functions of each environment
(:mod:`gensmooth.physics.environment`).
"""

import inspect
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gensmooth.kernels.memory import copy
from gensmooth.physics.environment import Function
from gensmooth.physics.mujoco_calls import call, take
from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy

# The compiler may reorder a layer's sums, so their order is fixed for each type of CPU. NaN and
# infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}


class CompiledPolicy(NamedTuple):
    """A policy for compiled code, with the working memory of one thread.

    Attributes:
        sizes: The size of each layer, from the observation to the action.
        biases: Whether layers have biases.
        mean: The mean that is subtracted from an observation.
        inverse: The factor by which the difference is multiplied.
        even: Memory for layers 0, 2, …; layer 0 is the standardised observation.
        odd: Memory for layers 1, 3, ….
    """

    sizes: np.ndarray
    biases: bool
    mean: np.ndarray
    inverse: np.ndarray
    even: np.ndarray
    odd: np.ndarray


class TrajectoryResults(NamedTuple):
    """The arrays in which the loop stores its results, one row per episode.

    Attributes:
        returns: Sums of rewards.
        bonuses: Sums of survival bonuses.
        lengths: Steps.
        successes: 1.0 if a step was a success.
        counts: Observations in the moments.
        means: Their means; no rows if moments are not requested.
        m2: Their sums of squared deviations; no rows if moments are not requested.
    """

    returns: np.ndarray
    bonuses: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    m2: np.ndarray


class Recording(NamedTuple):
    """The arrays in which the loop records every step; no rows if steps are not requested.

    Attributes:
        observations: Shape (B, T + 1, n), including the one after the last step.
        actions: Shape (B, T, m).
        rewards: Shape (B, T).
        ended: Whether the episode ended in a step, shape (B, T).
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


def compiled_policy(policy: Policy, scaling: Scaling) -> CompiledPolicy:
    """Return a policy with its scaling, for one thread."""
    width = max(policy.sizes)
    sizes = np.array(policy.sizes, np.int64)
    return CompiledPolicy(
        sizes, policy.biases, scaling.mean, scaling.inverse, np.empty(width), np.empty(width)
    )


@cache
def compile_loop(begin: Function, observe: Function, step: Function) -> Any:
    """Return an environment's loop, compiled at its first call or read from the disk cache."""

    def run(state, policy, parameters, starts, horizon, queue, results, recording):
        """Run episodes that no other thread has taken, until none is left."""
        physics = state.physics
        observation, action = np.empty(len(policy.mean)), np.empty(policy.sizes[-1])
        mean, m2 = np.empty(len(policy.mean)), np.empty(len(policy.mean))
        moments, record = len(results.means) > 0, len(recording.rewards) > 0
        while True:
            episode = take(queue)
            if episode >= len(parameters):
                break
            call(physics.reset, physics)
            begin(state, starts[episode])
            observe(state, observation)
            total, bonuses, success, length = 0.0, 0.0, False, 0
            fine = True
            while length < horizon and fine:
                fine = all_finite(observation)  # tanh would hide an infinite value
                if moments:
                    accumulate(length, observation, mean, m2)
                act(policy, parameters[episode], observation, action)
                if record:
                    copy(observation, recording.observations[episode, length])
                    copy(action, recording.actions[episode, length])
                reward, bonus, ended, reached = step(state, action)
                observe(state, observation)
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
            # MuJoCo notices a failure only in the step after it, so check the last step here.
            fine = fine and np.isfinite(total) and all_finite(observation)
            results.returns[episode] = total if fine else np.nan
            results.bonuses[episode] = bonuses if fine else np.nan
            results.lengths[episode] = length
            results.successes[episode] = success
            if moments:
                results.counts[episode] = length if fine else 0
                copy(mean, results.means[episode])
                copy(m2, results.m2[episode])

    # Numba names its cache files after this function. It checks only this source file to see
    # whether they are out of date, and it cannot read them after a class has been renamed. So the
    # name contains a hash of all source files that matter.
    run.__qualname__ = f"{step.__name__}_{_source_hash(begin, observe, step, run):08x}"
    return njit(nogil=True, cache=True, error_model="numpy")(run)


def _source_hash(*functions: Function) -> int:
    """Return a number that changes with the source files of functions and of all that they call."""
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
            todo += [cell.cell_contents for cell in function.__closure__ or ()]
    return zlib.crc32(b"".join(Path(file).read_bytes() for file in sorted(files)))


# --- the policy's forward pass and the observations' moments ------------------------------------


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _layer(parameters, start, inputs, columns, outputs, rows):
    for j in range(rows):
        total = 0.0
        row = start + j * columns
        for i in range(columns):
            total += parameters[row + i] * inputs[i]
        outputs[j] = total


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def act(policy, parameters, observation, action):
    """Compute the policy's action at an observation (its scores if actions are discrete)."""
    even, odd = policy.even, policy.odd
    for i in range(len(observation)):
        even[i] = (observation[i] - policy.mean[i]) * policy.inverse[i]
    start = 0
    last = len(policy.sizes) - 2
    for k in range(last + 1):
        columns, rows = policy.sizes[k], policy.sizes[k + 1]
        inputs = even if k % 2 == 0 else odd
        outputs = action if k == last else (odd if k % 2 == 0 else even)
        _layer(parameters, start, inputs, columns, outputs, rows)
        start += rows * columns
        if policy.biases:
            for j in range(rows):
                outputs[j] += parameters[start + j]
            start += rows
        if k < last:
            for j in range(rows):
                outputs[j] = np.tanh(outputs[j])


@njit(nogil=True, error_model="numpy")
def accumulate(count, observation, mean, m2):
    """Add an observation to the mean and sum of squares of ``count`` others (Welford, 1962).

    A coordinate that does not vary keeps m2 = 0 exactly.
    """
    if count == 0:
        copy(observation, mean)
        for i in range(len(m2)):
            m2[i] = 0.0
        return
    weight = 1.0 / (count + 1)
    for i in range(len(observation)):
        delta = observation[i] - mean[i]
        mean[i] += delta * weight
        m2[i] += delta * (observation[i] - mean[i])


@njit(nogil=True)
def all_finite(values):
    """Return whether all entries are finite."""
    fine = True
    for i in range(len(values)):
        fine = fine and np.isfinite(values[i])
    return fine
