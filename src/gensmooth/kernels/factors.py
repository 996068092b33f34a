"""Directions that are products of factors, computed row by row without storing the matrices.

The parameters are a sequence of parts. A part of shape (m, n) and rank r has the entries E_ij = Σ_q
A_iq B_jq, summed in the order of q. ``factors[l]`` holds the m rows of A, followed by the r rows of
Bᵀ. For a vector (r = 0), it holds the entries themselves.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.memory import clear, copy


@njit(nogil=True, error_model="numpy")
def _row(factor, part, i, z):
    """Write row ``i`` of one part of a direction to ``z``."""
    rows, columns, rank, first = part[0], part[1], part[2], part[3]
    if rank == 0:
        at = first + i * columns
        for j in range(columns):
            z[j] = factor[at + j]
        return
    left, right = first + i * rank, first + rows * rank
    a, b = factor[left], factor[right : right + columns]
    for j in range(columns):
        z[j] = a * b[j]
    for q in range(1, rank):
        a, b = factor[left + q], factor[right + q * columns : right + (q + 1) * columns]
        for j in range(columns):
            z[j] = z[j] + a * b[j]


@njit(inline="always")
def _widest(parts):
    """Return the largest number of columns."""
    most = 0
    for p in range(len(parts)):
        most = max(most, parts[p, 1])
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def fill(factors, parts, out):
    """``out[l] = ε_l``."""
    for index in range(len(factors)):
        for p in range(len(parts)):
            columns, at = parts[p, 1], parts[p, 4]
            for i in range(parts[p, 0]):
                here = out[index, at + i * columns : at + (i + 1) * columns]
                _row(factors[index], parts[p], i, here)


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(factors, parts, x, directions, spacings, out):
    """``out[r] = x + spacings[r] · ε_{directions[r]}`` for each row of ``out``."""
    z = np.empty(_widest(parts), x.dtype)
    for p in range(len(parts)):
        columns = parts[p, 1]
        for i in range(parts[p, 0]):
            at = parts[p, 4] + i * columns
            center = x[at : at + columns]
            last = -1
            for r in range(out.shape[0]):
                target, c = out[r, at : at + columns], x.dtype.type(spacings[r])
                if c == 0:
                    copy(center, target)
                    continue
                if directions[r] != last:
                    last = directions[r]
                    _row(factors[last], parts[p], i, z)
                for j in range(columns):
                    target[j] = center[j] + c * z[j]


@njit(cache=True, nogil=True, error_model="numpy")
def combine(factors, parts, weights, out, squares):
    """``out = Σ_l weights[l] ε_l`` and ``squares[l] = ‖ε_l‖²``, summed row by row in order."""
    z = np.empty(_widest(parts), out.dtype)
    clear(squares, len(squares))
    for p in range(len(parts)):
        columns = parts[p, 1]
        for i in range(parts[p, 0]):
            at = parts[p, 4] + i * columns
            total = out[at : at + columns]
            clear(total, columns)
            for index in range(len(weights)):
                w = out.dtype.type(weights[index])
                _row(factors[index], parts[p], i, z)
                length2 = 0.0
                for j in range(columns):
                    total[j] = total[j] + w * z[j]
                    length2 += np.float64(z[j]) * np.float64(z[j])
                squares[index] += length2
