"""Orthogonal BeS: rows of a randomised Hadamard matrix, orthogonal without Gram–Schmidt."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions.base import Directions, State, register
from gensmooth.directions.draw import Address, KernelDraw, signs
from gensmooth.directions.shrinkage import shrunk
from gensmooth.streams import Purpose


@final
@dataclass(frozen=True)
class OrthogonalBernoulli(Directions):
    """Rows of a randomised Hadamard matrix: entries ±1, stored as bits, without a QR decomposition.

    Let D be the smallest power of two ≥ d. L distinct rows of the Hadamard matrix of order D are
    drawn and truncated to d columns. Each column and each row is multiplied by a random sign. More
    than D rows form groups of D, each with its own column signs. The rows are exactly orthogonal if
    d = D, and nearly orthogonal otherwise.

    The sign of a row does not change ε εᵀ, but it makes different directions uncorrelated,
    E[ε_l ε_mᵀ] = 0. Without it, all rows would have the same sign in the first column, which is
    constant, and ``OnePoint("others")`` would be biased.

    >>> OrthogonalBernoulli().kurtosis(dim=100, num_directions=20)
    1.0
    """

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        L, order = at.num_directions, 1 << (at.dim - 1).bit_length()
        group = np.arange(L) // order
        rows, row_signs = np.concatenate(
            [
                _distinct_rows(at, order, min(order, L - g * order), g)
                for g in range(int(group[-1]) + 1)
            ],
            axis=1,
        )
        columns = signs(at, purpose=Purpose.SIGNS)
        return columns.changed(
            scale=row_signs.astype(at.dtype), stream=group.astype(np.uint64), row=rows
        )

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.hadamard(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 1, because the entries are ±1."""
        return 1.0

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`.

        Each row consists of coins, and its random sign removes the products of two rows.
        """
        return theory.quadratic_spacing_mse(
            dim, num_directions, spacing=spacing, **hessian._asdict(), kurtosis=1.0, sixth=1.0
        )


def _distinct_rows(at: Address, order: int, count: int, group: int) -> NDArray[np.int64]:
    """Draw ``count`` of ``range(order)`` without replacement, and a fair sign for each.

    This is a sparse Fisher–Yates shuffle. A row and its sign come from one random integer, so they
    do not change when ``count`` grows.
    """
    rng = at.generator(Purpose.ROWS, index=group)
    picks = rng.integers(2 * np.arange(count), 2 * order)  # pick i ~ U{i, …, order−1}, and a bit
    moved: dict[int, int] = {}
    rows: list[int] = []
    for i, pick in enumerate(map(int, picks >> 1)):
        rows.append(moved.get(pick, pick))
        moved[pick] = moved.get(i, i)
    return np.array([rows, 1 - 2 * (picks & 1)], np.int64)


register(
    "orthogonal-bes",
    OrthogonalBernoulli,
    title="Orthogonal BeS",
    distribution="Hadamard × random signs",
    place=8,
)
register(
    "orthogonal-bes-shrinkage",
    lambda: shrunk(OrthogonalBernoulli()),
    title="Orthogonal-BeS-shrinkage",
    distribution="Hadamard × signs, shrunk",
    place=11,
)
