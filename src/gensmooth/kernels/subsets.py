"""Random subsets of the coordinates, generated from their address."""

import numpy as np
from numba import njit

from gensmooth.kernels.philox import philox

_ONE = np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def choose(key, index, size, dim):
    """Choose ``size`` of ``dim`` coordinates without replacement; return them in increasing order.

    Floyd's algorithm (Bentley & Floyd, "A sample of brilliance", CACM 1987): for j = dim − size,
    …, dim − 1, take a uniform t ≤ j, or j itself if t has been taken already. Every subset is
    equally likely, up to a relative error of dim / 2^52 because t is computed from 52 random bits.
    While it runs, it needs one bit per coordinate.
    """
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    words = np.zeros((dim + 63) // 64, np.uint64)
    spare = 0.0
    for i in range(size):
        if i % 2 == 0:
            a, b, c, d = philox(np.uint64(i // 2), np.uint64(index), c2, c3, k0, k1)
            left = ((a << np.uint64(32)) | b) >> np.uint64(12)
            right = ((c << np.uint64(32)) | d) >> np.uint64(12)
            u, spare = np.float64(np.int64(left)) * 2.0**-52, np.float64(np.int64(right)) * 2.0**-52
        else:
            u = spare
        j = dim - size + i
        t = np.int64(u * (j + 1))
        if words[t >> 6] >> np.uint64(t & 63) & _ONE:
            t = j
        words[t >> 6] |= _ONE << np.uint64(t & 63)
    chosen = np.empty(size, np.int64)
    at = 0
    for w in range(len(words)):
        word = words[w]
        if word == np.uint64(0):
            continue
        for k in range(64):
            if word >> np.uint64(k) & _ONE:
                chosen[at] = 64 * w + k
                at += 1
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def scatter(rows, at, out):
    """``out[r, at] = rows[r]``."""
    for r in range(rows.shape[0]):
        for i in range(len(at)):
            out[r, at[i]] = rows[r, i]


@njit(cache=True, nogil=True, error_model="numpy")
def accumulate(row, weight, at, out):
    """``out[at] += weight · row``."""
    w = out.dtype.type(weight)
    for i in range(len(at)):
        out[at[i]] = out[at[i]] + w * row[i]
