r"""A full metric, for up to 200 parameters.

Directions are F z with z normal, so their covariance is :math:`C = F F^\top`. C is learned as in
CMA-ES with negative weights (Hansen & Ostermeier, 2001; Hansen, 2016), from the path p of past
steps and from the points :math:`y_i = F z_i` of a step, weighted by rank:

.. math:: C \leftarrow \Bigl(1 - c_1 - c_\mu\sum_i v_i\Bigr) C + c_1\, p p^\top
          + c_\mu \sum_i v_i\, y_i y_i^\top .

The better half has the weights of the step. The weights of the worse half are negative: they
shorten the directions that led to worse values. Each is multiplied by d/‖z‖², which removes the
effect of the length of z. Mirrored points need negative weights more than independent points do:
both ends of a pair have the same :math:`y y^\top`, so the better half alone carries half the
information.

F is the Cholesky factor of C (Krause, Arbonès & Igel, 2016). It is unique, so the coordinates z
keep their meaning while C changes slowly. It is computed once every d evaluations, so that its
cost per evaluation is O(d²), the same as that of a point. Sums run in a fixed order, whereas
LAPACK's order depends on the number of threads.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Smallest conditional variance of a coordinate, relative to its variance. It exceeds the rounding
# error, so that C stays positive definite and no direction is lost.
_MIN_VARIANCE = 1e-14


def weighted_squares(
    y: Array, z: Array, weights: NDArray[np.float64], negative_weights: NDArray[np.float64]
) -> Array:
    """Return Σ v y yᵀ over the points of a step.

    Args:
        y: The points, one per row, in units of σ and of the parameters.
        z: The same points in the coordinates of F, y = F z.
        weights: The weights of the better half; 0 for the others.
        negative_weights: The weights of the worse half; 0 for the others.
    """
    length2 = np.maximum(np.square(z).sum(axis=1), 1e-300)
    weighted = (weights + negative_weights * np.minimum(z.shape[1] / length2, 1e6))[:, None] * y
    return np.einsum("ij,ik->jk", weighted, y)


def updated(
    before: Array, path: Array, points: Array, *, one: float, many: float, total: float
) -> Array:
    """Return C after a step.

    Args:
        before: C before the step.
        path: p, in units of the parameters.
        points: The result of :func:`weighted_squares`.
        one: c₁.
        many: c_μ.
        total: Σ v.
    """
    return (1 - one - many * total) * before + one * path[:, None] * path + many * points


def factored(matrix: Array) -> tuple[Array, Array]:
    """Return C and its factor F; C is replaced by F Fᵀ where it is not positive definite."""
    factor = cholesky(matrix)
    restored, diagonal = np.square(factor).sum(axis=1), matrix.diagonal()
    close = (restored == diagonal) | (np.abs(restored - diagonal) <= 1e-9 * diagonal)
    return matrix if close.all() else covariance(factor), factor


def covariance(factor: Array) -> Array:
    """Return F Fᵀ."""
    return np.einsum("ik,jk->ij", factor, factor)


def cholesky(matrix: Array) -> Array:
    """Return the lower triangular F with F Fᵀ = matrix; the matrix may be slightly indefinite."""
    d = len(matrix)
    factor = np.zeros_like(matrix)
    for j in range(d):
        column = matrix[j:, j] - (factor[j:, :j] * factor[j, :j]).sum(axis=1)
        least = max(_MIN_VARIANCE * float(matrix[j, j]), 1e-300)
        deviation = math.sqrt(max(float(column[0]), least))
        factor[j:, j] = column / deviation
        factor[j, j] = deviation
    return factor


def apply(factor: Array, vector: Array) -> Array:
    """Return F z."""
    return (factor * vector).sum(axis=1)


def solve(factor: Array, rows: Array) -> Array:
    """Return the z with F z = y, for every row y."""
    z = np.zeros_like(rows)
    for j in range(rows.shape[1]):
        known = (z[:, :j] * factor[j, :j]).sum(axis=1)
        z[:, j] = (rows[:, j] - known) / factor[j, j]
    return z
