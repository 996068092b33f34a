# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""The policy's forward pass and the observations' moments, compiled: what a step needs of us.

Sums may be reordered by the compiler (``reassoc``), which fixes their order once for a CPU type;
NaN and infinity keep their meaning.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gensmooth.rl.normalize import Scaling
from gensmooth.rl.policies import Policy

_SUMS = {"reassoc", "contract", "nsz"}


class Actor(NamedTuple):
    """A policy as the compiled code sees it, with room to work in: one for each thread.

    Attributes:
        sizes: Entries of each layer, from the observation to the action.
        biases: Whether layers have biases.
        mean: What is subtracted from an observation.
        inverse: What it is multiplied with then.
        odd: Room for layers 1, 3, ….
        even: Room for layers 0, 2, …; layer 0 is the standardised observation.
    """

    sizes: np.ndarray
    biases: bool
    mean: np.ndarray
    inverse: np.ndarray
    even: np.ndarray
    odd: np.ndarray


def actor(policy: Policy, scaling: Scaling) -> Actor:
    """A policy with its scaling, for one thread."""
    width = max(policy.sizes)
    sizes = np.array(policy.sizes, np.int64)
    return Actor(
        sizes, policy.biases, scaling.mean, scaling.inverse, np.empty(width), np.empty(width)
    )


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _layer(parameters, start, inputs, columns, outputs, rows):
    for j in range(rows):
        total = 0.0
        row = start + j * columns
        for i in range(columns):
            total += parameters[row + i] * inputs[i]
        outputs[j] = total


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def act(actor, parameters, observation, action):
    """Fill ``action`` with what the policy does at an observation (or the scores, if discrete)."""
    even, odd = actor.even, actor.odd
    for i in range(len(observation)):
        even[i] = (observation[i] - actor.mean[i]) * actor.inverse[i]
    start = 0
    last = len(actor.sizes) - 2
    for k in range(last + 1):
        columns, rows = actor.sizes[k], actor.sizes[k + 1]
        inputs = even if k % 2 == 0 else odd
        outputs = action if k == last else (odd if k % 2 == 0 else even)
        _layer(parameters, start, inputs, columns, outputs, rows)
        start += rows * columns
        if actor.biases:
            for j in range(rows):
                outputs[j] += parameters[start + j]
            start += rows
        if k < last:
            for j in range(rows):
                outputs[j] = np.tanh(outputs[j])


@njit(nogil=True, error_model="numpy")
def accumulate(count, observation, mean, m2):
    """Add an observation to mean and sum of squares of ``count`` others (Welford 1962).

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
def copy(source, target):
    """Copy numbers; as a loop it compiles in a tenth of the time of a slice assignment."""
    for i in range(len(source)):
        target[i] = source[i]


@njit(nogil=True)
def all_finite(values):
    """Whether all entries are."""
    fine = True
    for i in range(len(values)):
        fine = fine and np.isfinite(values[i])
    return fine
