"""Kernels for adaptive distributions: second moments, a diagonal metric, a full matrix.

Like the kernels in :mod:`gensmooth.kernels.laws`, they read directions tile by tile and sum in a
fixed order.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.laws import fill_tile
from gensmooth.kernels.memory import clear, copy
from gensmooth.kernels.sums import total
from gensmooth.streams import TILE


@njit(cache=True, nogil=True, error_model="numpy")
def moments(law, first_tile, last_tile, weights, out, squares):
    """``out = Σ_l weights[l] ε_l`` and ``squares = Σ_l weights[l] ε_l²``, entry by entry."""
    dim = len(out)
    z = np.empty(TILE, out.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        first, second = out[start : start + count], squares[start : start + count]
        clear(first, count)
        clear(second, count)
        for index in range(len(weights)):
            w = out.dtype.type(weights[index])
            if w == 0:
                continue
            fill_tile(law, z, index, tile, start, count)
            for i in range(count):
                weighted = w * z[i]
                first[i] = first[i] + weighted
                second[i] = second[i] + weighted * z[i]


@njit(cache=True, nogil=True, error_model="numpy")
def stretch(law, first_tile, last_tile, x, scale, directions, spacings, out):
    """``out[r] = x + scale · (spacings[r] · ε_{directions[r]})``, entry by entry."""
    dim = len(x)
    z = np.empty(TILE, x.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        center, size = x[start : start + count], scale[start : start + count]
        last = -1
        for r in range(out.shape[0]):
            if directions[r] != last:
                last = directions[r]
                fill_tile(law, z, last, tile, start, count)
            target, c = out[r, start : start + count], x.dtype.type(spacings[r])
            for i in range(count):
                target[i] = (c * z[i]) * size[i] + center[i]


@njit(cache=True, nogil=True, error_model="numpy")
def rescale(center, sigma, first, second, rate, half_rate, away, x, scale):
    """``x = center + rate · sigma · first``, ``scale = sigma · exp(half_rate · (second − away))``.

    Returns the squared lengths of ``x``, ``x − center`` and ``first``, and the smallest and the
    largest scale.
    """
    lanes = np.zeros((3, 8))
    low, high = np.inf, 0.0
    for i in range(len(x)):
        x[i] = center[i] + rate * sigma[i] * first[i]
        scale[i] = sigma[i] * np.exp(half_rate * (second[i] - away))
        low, high = min(low, scale[i]), max(high, scale[i])
        lane = i & 7
        lanes[0, lane] += np.float64(x[i]) ** 2
        lanes[1, lane] += (np.float64(x[i]) - np.float64(center[i])) ** 2
        lanes[2, lane] += np.float64(first[i]) ** 2
    return total(lanes[0]), total(lanes[1]), total(lanes[2]), low, high


@njit(cache=True, nogil=True, error_model="numpy")
def times_transposed(rows, matrix, out):
    """``out = rows @ matrix.T``: row by row, each entry a sum in a fixed order."""
    lanes = np.empty(8)
    dim = matrix.shape[1]
    whole = dim - dim % 8
    for i in range(matrix.shape[0]):
        column = matrix[i]
        for r in range(rows.shape[0]):
            row = rows[r]
            clear(lanes, len(lanes))
            for j in range(0, whole, 8):
                for k in range(8):
                    lanes[k] += row[j + k] * column[j + k]
            result = 0.0
            for j in range(whole, dim):
                result += row[j] * column[j]
            for k in range(8):
                result += lanes[k]
            out[r, i] = result


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(matrix, factor, left, right, out):
    """``out = factor · (matrix + Σ_k left[k] right[k]ᵀ)``, in the order of k."""
    for i in range(matrix.shape[0]):
        target = out[i]
        copy(matrix[i], target)
        for k in range(left.shape[0]):
            a, row = left[k, i], right[k]
            for j in range(matrix.shape[1]):
                target[j] += a * row[j]
        for j in range(matrix.shape[1]):
            target[j] *= factor
