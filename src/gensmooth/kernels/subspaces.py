"""Principal subspaces, computed in a fixed order: a small eigenproblem and recombined rows."""

import numpy as np
from numba import njit

from gensmooth.kernels.memory import clear, part
from gensmooth.streams import TILE


@njit(cache=True, nogil=True, error_model="numpy")
def eigen(matrix):
    """Return the eigenvalues of a symmetric matrix, largest first, and its eigenvectors as rows.

    It uses cyclic Jacobi rotations, which are as accurate as LAPACK for matrices of a few dozen
    rows and give the same bits with any BLAS library.
    """
    n = len(matrix)
    a, v = np.empty((n, n)), np.zeros((n, n))
    for p in range(n):
        v[p, p] = 1.0
        for q in range(n):
            a[p, q] = matrix[p, q]
    for _ in range(60):
        off, trace = 0.0, 0.0
        for p in range(n):
            trace += a[p, p]
            for q in range(p):
                off += a[p, q] ** 2
        if off <= 1e-30 * trace**2:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if a[p, q] == 0.0:
                    continue
                theta = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                t = (1.0 if theta >= 0 else -1.0) / (abs(theta) + np.sqrt(theta**2 + 1.0))
                c = 1.0 / np.sqrt(t**2 + 1.0)
                s = t * c
                for i in range(n):
                    x, y = a[i, p], a[i, q]
                    a[i, p], a[i, q] = c * x - s * y, s * x + c * y
                for i in range(n):
                    x, y = a[p, i], a[q, i]
                    a[p, i], a[q, i] = c * x - s * y, s * x + c * y
                    x, y = v[p, i], v[q, i]
                    v[p, i], v[q, i] = c * x - s * y, s * x + c * y
    order = np.empty(n, np.int64)
    for i in range(n):  # insertion sort, stable: there are a few dozen values
        place = i
        while place > 0 and a[order[place - 1], order[place - 1]] < a[i, i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    values, vectors = np.empty(n), np.empty((n, n))
    for i in range(n):
        values[i] = a[order[i], order[i]]
        for j in range(n):
            vectors[i, j] = v[order[i], j]
    return values, vectors


@njit(cache=True, nogil=True, error_model="numpy")
def recombine(coefficients, rows, out):
    """``out[r] = Σ_m coefficients[r, m] · row m``, in the order of m; ``rows`` holds addresses."""
    for start in range(0, out.shape[1], TILE):
        stop = min(start + TILE, out.shape[1])
        for r in range(out.shape[0]):
            here = out[r, start:stop]
            clear(here, stop - start)
            for m in range(len(rows)):
                w, row = out.dtype.type(coefficients[r, m]), part(rows[m], start, stop, out)
                for i in range(stop - start):
                    here[i] = here[i] + w * row[i]
