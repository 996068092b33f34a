"""Orthogonal bases, computed in a fixed order: Gram–Schmidt of rows, and the basis of Guided ES.

The inputs are a few dozen rows of length d, so the inner products dominate. They are summed in a
fixed order that does not depend on a BLAS library or its threads.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.memory import clear, copy
from gensmooth.kernels.sums import dot

_PANEL = 512  # entries of each row processed together; 20 such rows fit in the L1/L2 cache


@njit(nogil=True, error_model="numpy")
def _gram(rows):
    """Compute the lower triangle of rows · rowsᵀ (and a few entries beyond it).

    Four products are computed at a time, each as 16 interleaved sums in the precision of the rows.
    The sums of the panels are added in float64.
    """
    number, dim = rows.shape
    padded = (number + 3) // 4 * 4
    gram = np.zeros((number, padded))
    panel = np.zeros((padded, _PANEL), rows.dtype)
    a, b = np.empty(16, rows.dtype), np.empty(16, rows.dtype)
    c, d = np.empty(16, rows.dtype), np.empty(16, rows.dtype)
    for start in range(0, dim, _PANEL):
        count = min(_PANEL, dim - start)
        for i in range(number):
            copy(rows[i, start : start + count], panel[i, :count])
            clear(panel[i, count:], _PANEL - count)
        steps = (count + 15) // 16
        for i in range(number):
            for j in range(0, i + 1, 4):
                for m in range(16):
                    a[m] = b[m] = c[m] = d[m] = 0
                for k in range(steps):
                    for m in range(16):
                        v = panel[i, 16 * k + m]
                        a[m] += v * panel[j, 16 * k + m]
                        b[m] += v * panel[j + 1, 16 * k + m]
                        c[m] += v * panel[j + 2, 16 * k + m]
                        d[m] += v * panel[j + 3, 16 * k + m]
                for m in range(8):
                    a[m] += a[m + 8]
                    b[m] += b[m + 8]
                    c[m] += c[m + 8]
                    d[m] += d[m + 8]
                for m in range(4):
                    gram[i, j] += np.float64(a[m] + a[m + 4])
                    gram[i, j + 1] += np.float64(b[m] + b[m + 4])
                    gram[i, j + 2] += np.float64(c[m] + c[m + 4])
                    gram[i, j + 3] += np.float64(d[m] + d[m + 4])
    return gram


@njit(nogil=True, error_model="numpy")
def _cholesky(gram):
    """Return the lower triangle C of gram = C Cᵀ; its diagonal holds the residual lengths."""
    n = len(gram)
    c = np.zeros((n, n))
    for j in range(n):
        # By columns, so that the inner loop runs over rows and vectorises.
        column = np.empty(n)
        for i in range(n):
            column[i] = gram[i, j]
        for m in range(j):
            w, other = c[m, j], c[m]
            for i in range(j, n):
                column[i] -= w * other[i]
        root = np.sqrt(column[j])
        for i in range(j, n):
            c[j, i] = column[i] / root
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            lower[i, j] = c[j, i]
    return lower


@njit(nogil=True, error_model="numpy")
def _solve_lower(c, lengths, rows):
    """Compute rows ← diag(lengths) · C⁻¹ · rows in place, by forward substitution."""
    number, dim = rows.shape
    panel = np.empty((number, _PANEL), rows.dtype)
    for start in range(0, dim, _PANEL):
        count = min(_PANEL, dim - start)
        for i in range(number):
            copy(rows[i, start : start + count], panel[i, :count])
            for j in range(i):
                w = rows.dtype.type(c[i, j])
                for k in range(count):
                    panel[i, k] = panel[i, k] - w * panel[j, k]
            w = 1 / rows.dtype.type(c[i, i])
            for k in range(count):
                panel[i, k] = w * panel[i, k]
        for i in range(number):
            w = rows.dtype.type(lengths[i])
            for k in range(count):
                rows[i, start + k] = w * panel[i, k]


@njit(nogil=True, error_model="numpy")
def _modified_gram_schmidt(rows, lengths):
    """Orthonormalise rows in place, projecting each one twice ("twice is enough", Kahan)."""
    for i in range(len(rows)):
        row = rows[i]
        before = np.sqrt(dot(row, row))
        for _ in range(2):
            for j in range(i):
                other = rows[j]
                w = rows.dtype.type(dot(row, other))
                for k in range(len(row)):
                    row[k] = row[k] - w * other[k]
        lengths[i] = np.sqrt(dot(row, row))
        if not lengths[i] > 1e-12 * before:
            return False
        w = rows.dtype.type(1.0 / lengths[i])
        for k in range(len(row)):
            row[k] = w * row[k]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def gram_schmidt(rows, length):
    """Orthogonalise rows in place, in order; return False if they are numerically dependent.

    ``length > 0`` gives every row that length; ``length == 0`` keeps the length of each row's
    residual, as in plain Gram–Schmidt. With few rows (n ≤ d/4, where Gaussian rows have a condition
    number of at most 3), it uses the Cholesky factor of the Gram matrix, which reads the rows
    twice. Otherwise, it uses modified Gram–Schmidt, which is stable for any conditioning.
    """
    number, dim = rows.shape
    lengths = np.empty(number)
    if 4 * number <= dim:
        c = _cholesky(_gram(rows))
        independent = True
        for i in range(number):
            lengths[i] = length if length > 0 else c[i, i]
            independent = independent and c[i, i] > 0
        _solve_lower(c, lengths, rows)
        return independent
    if not _modified_gram_schmidt(rows, lengths):
        return False
    for i in range(number):
        w = rows.dtype.type(length if length > 0 else lengths[i])
        for k in range(dim):
            rows[i, k] = rows[i, k] * w
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def guiding_coefficients(gram, normals, cutoff):
    """Convert normals to the coefficients of points in the span of the history.

    With gram = G Gᵀ for a history G of k rows, a pivoted Cholesky factor of the history's
    correlation matrix gives an orthonormal basis U of its span without forming it: if C is the
    factor of the selected rows, U = Gᵀ D C⁻ᵀ, so U z = Gᵀ (D C⁻ᵀ z). A row is left out if it is
    zero, or if the squared sine of its angle to the span of the selected rows is at most
    ``cutoff``. This keeps the span (up to the cutoff) and avoids divisions by numbers close to
    zero.

    Args:
        gram: (k, k), the inner products of the history's rows.
        normals: (L, k), replaced by the coefficients of each direction in the history.
        cutoff: The largest squared sine that does not count as a new dimension.

    Returns:
        The rank, which is the number of columns of U.
    """
    k = len(gram)
    inverse_length = np.zeros(k)
    residual = np.zeros(k)
    for i in range(k):
        if gram[i, i] > 0.0:
            inverse_length[i] = 1.0 / np.sqrt(gram[i, i])
            residual[i] = 1.0
    kept = np.zeros(k, np.int64)
    c = np.zeros((k, k))  # c[m, i]: coordinate m of (normalised) history row i in the basis
    rank = 0
    for _ in range(k):
        pivot = np.argmax(residual)
        if residual[pivot] <= cutoff:
            break
        column = c[rank]
        for i in range(k):
            column[i] = gram[pivot, i] * inverse_length[i] * inverse_length[pivot]
        for m in range(rank):
            w, other = c[m, pivot], c[m]
            for i in range(k):
                column[i] -= w * other[i]
        w = 1.0 / np.sqrt(residual[pivot])
        for i in range(k):
            column[i] *= w
            residual[i] = max(0.0, residual[i] - column[i] ** 2)
        column[pivot] = np.sqrt(1.0 / w**2)
        residual[pivot] = 0.0
        kept[rank] = pivot
        rank += 1
    factor = np.empty((rank, rank))  # row m: the coordinates of the m-th selected row
    for m in range(rank):
        for j in range(rank):
            factor[m, j] = c[j, kept[m]]
    rest = np.empty(k)
    for r in range(len(normals)):
        # Solve Cᵀ y = z by back substitution.
        copy(normals[r], rest)
        clear(normals[r], k)
        for j in range(rank - 1, -1, -1):
            row = factor[j]
            y = rest[j] / row[j]
            for m in range(j):
                rest[m] -= y * row[m]
            normals[r, kept[j]] = y * inverse_length[kept[j]]
    return rank
