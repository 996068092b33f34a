"""Ranks of a step's values. There are so few that NumPy's call overhead would dominate."""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def share_out(values, weights, out):
    """Set ``out[i]`` to the weight of value i by rank, smallest first; ties share their weights."""
    order = np.argsort(values, kind="mergesort")
    start, number = 0, len(values)
    while start < number:
        stop, total = start, 0.0
        while stop < number and values[order[stop]] == values[order[start]]:
            total += weights[stop]
            stop += 1
        mean = total / (stop - start) if stop - start > 1 else weights[start]
        for place in range(start, stop):
            out[order[place]] = mean
        start = stop


@njit(cache=True, nogil=True, error_model="numpy")
def mean_of_finite(values):
    """Return the mean of the finite values, or NaN if there are none."""
    total, used = 0.0, 0
    for value in values:
        if math.isfinite(value):
            total += value
            used += 1
    return total / used if used else np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def _whole(values):
    """Return the pairs whose two values are finite."""
    pairs = np.empty(len(values) // 2, np.int64)
    used = 0
    for pair in range(len(pairs)):
        if math.isfinite(values[2 * pair]) and math.isfinite(values[2 * pair + 1]):
            pairs[used] = pair
            used += 1
    return pairs[:used]


@njit(cache=True, nogil=True, error_model="numpy")
def centered_ranks(values, delta):
    """Fill ``delta`` for :class:`~gensmooth.estimators.CenteredRanks`; return the values' mean."""
    pairs = _whole(values)
    number = 2 * len(pairs)
    kept, utility, weights = np.empty(number), np.empty(number), np.empty(number)
    delta[:] = np.nan
    for i in range(len(pairs)):
        kept[2 * i], kept[2 * i + 1] = values[2 * pairs[i]], values[2 * pairs[i] + 1]
    for i in range(number):
        weights[i] = 0.5 - i / (number - 1)
    share_out(kept, weights, utility)
    for i in range(len(pairs)):
        delta[pairs[i]] = 0.5 * (utility[2 * i + 1] - utility[2 * i])
    return mean_of_finite(values)


@njit(cache=True, nogil=True, error_model="numpy")
def best_pairs(values, wanted, delta):
    """Fill ``delta`` for :class:`~gensmooth.estimators.BestPairs`; return the values' mean."""
    pairs = _whole(values)
    used = len(pairs)
    b = used if wanted == 0 else min(wanted, used)
    delta[:] = np.nan
    best = np.empty(used)
    for i in range(used):
        delta[pairs[i]] = 0.0
        best[i] = min(values[2 * pairs[i]], values[2 * pairs[i] + 1])
    order = np.argsort(best, kind="mergesort")[:b]
    mean, square = 0.0, 0.0
    for i in order:
        mean += values[2 * pairs[i]] + values[2 * pairs[i] + 1]
    mean /= max(2 * b, 1)
    for i in order:
        square += (values[2 * pairs[i]] - mean) ** 2 + (values[2 * pairs[i] + 1] - mean) ** 2
    deviation = math.sqrt(square / max(2 * b, 1))
    if deviation > 0:
        unit = 0.5 * used / (b * deviation)
        for i in order:
            delta[pairs[i]] = unit * (values[2 * pairs[i]] - values[2 * pairs[i] + 1])
    return mean_of_finite(values)
