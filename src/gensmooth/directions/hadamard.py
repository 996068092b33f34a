"""Orthogonal BeS: rows of a randomised Hadamard matrix, orthogonal coins without Gram–Schmidt."""

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
    """Rows of a randomised Hadamard matrix: entries ±1, one sign bit per coordinate, no QR.

    With D the smallest power of two ≥ d, L distinct rows of the Hadamard matrix of order D are
    drawn, cut to d columns, and multiplied by d random signs, one per column, and by another random
    sign each; more than D of them in groups of D, each with its own columns' signs. The rows are
    exactly orthogonal when d = D, nearly so otherwise.

    The sign of a row changes nothing in ε εᵀ, but makes different directions uncorrelated,
    E[ε_l ε_mᵀ] = 0: without it, all rows would share the sign of the matrix's first column, which
    is constant, and ``OnePoint("others")`` would be biased.

    >>> OrthogonalBernoulli().kurtosis(dim=100, num_directions=20)
    1.0
    """

    def draw(self, state: State, at: Address) -> KernelDraw:  # noqa: ARG002
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

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """One: the entries are ±1."""
        return 1.0

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`.

        A row is a row of coins, and its own random sign makes the products of two rows vanish.
        """
        return theory.quadratic_spacing_mse(
            dim,
            num_directions,
            spacing=spacing,
            **hessian._asdict(),
            kurtosis=1.0,
            sixth=1.0,
        )


def _distinct_rows(at: Address, order: int, count: int, group: int) -> NDArray[np.int64]:
    """``count`` of ``range(order)`` without replacement, and below them a fair sign for each.

    Fisher–Yates on the few that move. A row and its sign come from one random integer, so they
    stay what they are when ``count`` grows.
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
