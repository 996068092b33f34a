# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Orthogonal bases in a fixed order of operations: Gram–Schmidt of rows, and Guided ES's basis.

Everything here is a few dozen rows of length d, so the work is the inner products; those run in
the order of :func:`gensmooth.kernels.sums.dot` and do not depend on a BLAS or its threads.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.sums import dot

_PANEL = 512  # entries of all rows that are worked on together; 20 rows of it fit the L1/L2 cache


@njit(nogil=True, error_model="numpy")
def _gram(rows):
    """The lower triangle of rows · rowsᵀ (and a little beyond it).

    Four products at a time, each in 16 interleaved sums of the rows' own precision that are
    folded side by side; sums of panels are in float64.
    """
    number, dim = rows.shape
    padded = (number + 3) // 4 * 4
    gram = np.zeros((number, padded))
    panel = np.zeros((padded, _PANEL), rows.dtype)
    a, b = np.empty(16, rows.dtype), np.empty(16, rows.dtype)
    c, d = np.empty(16, rows.dtype), np.empty(16, rows.dtype)
    for start in range(0, dim, _PANEL):
        count = min(_PANEL, dim - start)
        panel[:number, :count] = rows[:, start : start + count]
        panel[:, count:] = 0
        steps = (count + 15) // 16
        for i in range(number):
            for j in range(0, i + 1, 4):
                a[:] = 0
                b[:] = 0
                c[:] = 0
                d[:] = 0
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
    """The lower triangle C of gram = C Cᵀ; its diagonal holds the residual lengths."""
    n = len(gram)
    c = np.zeros((n, n))
    for j in range(n):
        # Column by column: the inner loop then runs over rows, and vectorises.
        column = gram[:, j].copy()
        for m in range(j):
            w, other = c[m, j], c[m]
            for i in range(j, n):
                column[i] -= w * other[i]
        root = np.sqrt(column[j])
        for i in range(j, n):
            c[j, i] = column[i] / root
    return c.T.copy()


@njit(nogil=True, error_model="numpy")
def _solve_lower(c, lengths, rows):
    """In place: rows ← diag(lengths) · C⁻¹ · rows by forward substitution."""
    number, dim = rows.shape
    panel = np.empty((number, _PANEL), rows.dtype)
    for start in range(0, dim, _PANEL):
        count = min(_PANEL, dim - start)
        panel[:, :count] = rows[:, start : start + count]
        for i in range(number):
            for j in range(i):
                w = c[i, j]
                for k in range(count):
                    panel[i, k] = panel[i, k] - w * panel[j, k]
            w = 1 / c[i, i]
            for k in range(count):
                panel[i, k] = w * panel[i, k]
        for i in range(number):
            w = lengths[i]
            for k in range(count):
                rows[i, start + k] = w * panel[i, k]


@njit(nogil=True, error_model="numpy")
def _modified_gram_schmidt(rows, lengths):
    """Unit orthogonal rows in place, each projected twice ("twice is enough", Kahan)."""
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
    """Orthogonalise rows in place, in their order; False if they are numerically dependent.

    ``length > 0`` gives every row that length; ``length == 0`` leaves row k the length of its
    residual, as plain Gram–Schmidt does. Few rows (n ≤ d/4, so well-conditioned: cond ≤ 3 for
    Gaussian rows) go by Cholesky of the Gram matrix, which reads the rows twice; more rows by
    modified Gram–Schmidt, which is stable for any conditioning.
    """
    number, dim = rows.shape
    if 4 * number <= dim:
        c = _cholesky(_gram(rows))
        lengths = np.full(number, np.float64(length)) if length > 0 else np.diag(c).copy()
        _solve_lower(c.astype(rows.dtype), lengths.astype(rows.dtype), rows)
        return bool(np.all(np.diag(c) > 0))
    lengths = np.empty(number)
    if not _modified_gram_schmidt(rows, lengths):
        return False
    for i in range(number):
        rows[i] *= rows.dtype.type(length if length > 0 else lengths[i])
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def guiding_coefficients(gram, normals, cutoff):
    """Coefficients that turn normals into points of the span of the history.

    With gram = G Gᵀ for a history G of k rows, a pivoted Cholesky factor of the history's
    correlation matrix gives an orthonormal basis U of its span without forming it: if C is the
    factor of the rows kept, U = Gᵀ D C⁻ᵀ, so U z = Gᵀ (D C⁻ᵀ z). Rows that are zero, or within
    a relative ``cutoff`` (squared sine of the angle) of the span of those kept, are left out:
    the span is the same and nothing is divided by almost zero.

    Args:
        gram: (k, k) inner products of the history's rows.
        normals: (L, k), replaced by the coefficients of each direction in the history.
        cutoff: Smallest squared sine that counts as a new dimension.

    Returns:
        The rank: how many columns U has.
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
    factor = np.empty((rank, rank))  # row m: the coordinates of the m-th row kept
    for m in range(rank):
        for j in range(rank):
            factor[m, j] = c[j, kept[m]]
    rest = np.empty(k)
    for r in range(len(normals)):
        # Solve Cᵀ y = z from the last coordinate up.
        rest[:] = normals[r]
        normals[r] = 0.0
        for j in range(rank - 1, -1, -1):
            row = factor[j]
            y = rest[j] / row[j]
            for m in range(j):
                rest[m] -= y * row[m]
            normals[r, kept[j]] = y * inverse_length[kept[j]]
    return rank
