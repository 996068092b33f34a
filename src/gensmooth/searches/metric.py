r"""A full metric, for few parameters.

Directions are F z with z normal, so that they have the covariance :math:`C = F F^\top`. It is
learned as that of CMA-ES is (Hansen & Ostermeier, 2001; Hansen, 2016, with negative weights), from
the path p of past steps and from all points :math:`y_i = F z_i` of a step by their rank,

.. math:: C \leftarrow \Bigl(1 - c_1 - c_\mu\sum_i v_i\Bigr) C + c_1\, p p^\top
          + c_\mu \sum_i v_i\, y_i y_i^\top .

The better half has the weights of the step. Those of the worse half are negative: they shorten
directions that led up, the y of each having the length that d/‖z‖² gives it. Mirrored points need
them more than others do: both ends of a pair have the same :math:`y y^\top`, so that the better
half alone tells half as much as it would of independent points.

F is the Cholesky factor (Krause, Arbonès & Igel, 2016): the only lower triangular one, so that the
coordinates z keep their meaning while C changes slowly. Sums run in one order, whereas LAPACK's
depend on the machine's threads.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAST = 1e-14  # a variance given all others, over the variance: no direction is lost for ever


def chosen(y: Array, z: Array, weights: NDArray[np.float64], doubts: NDArray[np.float64]) -> Array:
    """Σ v y yᵀ over a step's points.

    Args:
        y: The points, one per row, in units of σ and of the parameters.
        z: The same as F sees them, y = F z.
        weights: Of the better half, 0 for the others.
        doubts: Of the worse half, negative.
    """
    long2 = np.maximum(np.square(z).sum(axis=1), 1e-300)
    own = (weights + doubts * np.minimum(z.shape[1] / long2, 1e6))[:, None] * y
    return np.stack([(own * y[:, j, None]).sum(axis=0) for j in range(y.shape[1])])


def learned(
    factor: Array, path: Array, points: Array, *, one: float, many: float, total: float
) -> Array:
    """F after a step.

    Args:
        factor: F before it.
        path: The path of past steps, in units of the parameters.
        points: What :func:`chosen` gives.
        one: c₁.
        many: c_μ.
        total: What the weights of the points add up to.
    """
    after = (1 - one - many * total) * covariance(factor)
    return cholesky(after + one * path[:, None] * path + many * points)


def covariance(factor: Array) -> Array:
    """F Fᵀ."""
    return (factor[:, None, :] * factor[None, :, :]).sum(axis=-1)


def cholesky(matrix: Array) -> Array:
    """The lower triangular F with F Fᵀ = the matrix, which rounding may have left indefinite."""
    d = len(matrix)
    factor = np.zeros_like(matrix)
    for j in range(d):
        column = matrix[j:, j] - (factor[j:, :j] * factor[j, :j]).sum(axis=1)
        least = max(_LEAST * float(matrix[j, j]), 1e-300)
        factor[j:, j] = column / math.sqrt(max(float(column[0]), least))
        factor[j, j] = math.sqrt(max(float(column[0]), least))
    return factor


def apply(factor: Array, vector: Array) -> Array:
    """F z."""
    return (factor * vector).sum(axis=1)


def solve(factor: Array, rows: Array) -> Array:
    """The z with F z = y, for every row y."""
    found = np.zeros_like(rows)
    for j in range(rows.shape[1]):
        known = (found[:, :j] * factor[j, :j]).sum(axis=1)
        found[:, j] = (rows[:, j] - known) / factor[j, j]
    return found
