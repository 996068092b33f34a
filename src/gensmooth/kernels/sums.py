"""Sums in a fixed order; in a BLAS library, order and last bits depend on the number of threads."""

import numpy as np
from numba import njit

from gensmooth.kernels.memory import clear, part
from gensmooth.streams import TILE


@njit(inline="always")
def total(values):
    """Return the sum of a few numbers, from the first to the last."""
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


@njit(nogil=True, error_model="numpy")
def tile_dot(a, b, start, count, lanes):
    """Return Σ a_i b_i over a tile: 32 interleaved float64 sums, which are then added in order."""
    clear(lanes, len(lanes))
    whole = count - count % 32
    for i in range(start, start + whole, 32):
        for j in range(32):
            lanes[j] += np.float64(a[i + j]) * np.float64(b[i + j])
    for j in range(count - whole):
        lanes[j] += np.float64(a[start + whole + j]) * np.float64(b[start + whole + j])
    return total(lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def dot(a, b):
    """Return Σ a_i b_i, summed in a fixed order in float64."""
    lanes = np.empty(32, np.float64)
    result = 0.0
    for start in range(0, len(a), TILE):
        result += tile_dot(a, b, start, min(TILE, len(a) - start), lanes)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def survey(values, largest):
    """Return the index of the smallest (or largest) finite value, and the largest magnitude."""
    best, extent = 0, 0.0
    bound = np.inf
    for i in range(len(values)):
        v = -values[i] if largest else values[i]
        if abs(v) < np.inf:
            extent = max(extent, abs(v))
            if v < bound:
                best, bound = i, v
        else:
            extent = np.inf
    return best, extent


@njit(cache=True, nogil=True, error_model="numpy")
def totals(weights, out, squares):
    """Return ``‖out‖²`` and ``Σ_l weights[l]² ‖ε_l‖²``, after :func:`combine`."""
    squared = 0.0
    for index in range(len(weights)):
        length2 = 0.0
        for tile in range(len(squares)):
            length2 += squares[tile, index]
        squared += weights[index] ** 2 * length2
    return dot(out, out), squared


@njit(cache=True, nogil=True, error_model="numpy")
def advance(x, change, out):
    """Set ``out = x + change``; return ‖out‖² and ‖out − x‖², summed in a fixed order."""
    lanes = np.zeros((2, 16))
    whole = len(x) - len(x) % 16
    for i in range(0, whole, 16):
        for j in range(16):
            now = x[i + j] + change[i + j]
            out[i + j] = now
            lanes[0, j] += np.float64(now) * np.float64(now)
            lanes[1, j] += (np.float64(now) - np.float64(x[i + j])) ** 2
    for i in range(whole, len(x)):
        now = x[i] + change[i]
        out[i] = now
        lanes[0, i - whole] += np.float64(now) * np.float64(now)
        lanes[1, i - whole] += (np.float64(now) - np.float64(x[i])) ** 2
    return total(lanes[0]), total(lanes[1])


@njit(cache=True, nogil=True, error_model="numpy")
def dots(rows, b, out):
    """``out[m] = row m · b`` in float64, as 16 interleaved sums per tile, four rows at once.

    ``rows`` holds the addresses of vectors with the length and dtype of ``b``.
    """
    last = len(rows) - 1
    lanes = np.empty((4, 16))
    clear(out, len(rows))
    for m in range(0, len(rows), 4):
        for start in range(0, len(b), TILE):
            stop = min(start + TILE, len(b))
            v = b[start:stop]
            r0, r1 = part(rows[m], start, stop, b), part(rows[min(m + 1, last)], start, stop, b)
            r2 = part(rows[min(m + 2, last)], start, stop, b)
            r3 = part(rows[min(m + 3, last)], start, stop, b)
            for q in range(4):
                clear(lanes[q], lanes.shape[1])
            whole = len(v) - len(v) % 16
            for i in range(0, whole, 16):
                for j in range(16):
                    w = np.float64(v[i + j])
                    lanes[0, j] += w * np.float64(r0[i + j])
                    lanes[1, j] += w * np.float64(r1[i + j])
                    lanes[2, j] += w * np.float64(r2[i + j])
                    lanes[3, j] += w * np.float64(r3[i + j])
            for j in range(len(v) - whole):
                w = np.float64(v[whole + j])
                lanes[0, j] += w * np.float64(r0[whole + j])
                lanes[1, j] += w * np.float64(r1[whole + j])
                lanes[2, j] += w * np.float64(r2[whole + j])
                lanes[3, j] += w * np.float64(r3[whole + j])
            for q in range(min(4, len(rows) - m)):
                result = 0.0
                for j in range(4):
                    result += (lanes[q, j] + lanes[q, j + 4]) + (lanes[q, j + 8] + lanes[q, j + 12])
                out[m + q] += result
