r"""Orthogonal directions: L of them tell all that L directional derivatives can.

With exactly orthogonal rows of length √d the estimate is d/L times the projection of the gradient
on their span: unbiased, with relative error d/L − 1, against (d+1)/L for independent Gaussians.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels, theory
from gensmooth.directions.base import Directions, State
from gensmooth.directions.draw import KernelDraw, SignDraw, dense, normals, signs, stream_key
from gensmooth.streams import Purpose, generator

Lengths = Literal["equal", "residual"]


@final
@dataclass(frozen=True)
class Orthogonal(Directions):
    """Gaussian rows made orthogonal by Gram–Schmidt; more than d of them in groups of d.

    Args:
        lengths: ``"equal"`` gives every row the length √d; ``"residual"`` is the paper's
            Orthogonal ES, whose rows keep the length that Gram–Schmidt leaves them (row k loses
            k − 1 of its d degrees of freedom, so the estimate is biased towards zero).

    >>> Orthogonal().moments(dim=100, num_directions=20).second
    5.0
    """

    lengths: Lengths = "equal"

    def __post_init__(self) -> None:
        if self.lengths not in get_args(Lengths):
            raise ValueError(f"`lengths` must be 'equal' or 'residual', but is {self.lengths!r}.")

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        key = stream_key(seed, Purpose.DIRECTION, step)
        block = normals(key, num_directions, dim, dtype).block()
        length = math.sqrt(dim) if self.lengths == "equal" else 0.0
        for start in range(0, num_directions, dim):
            if not kernels.on_bases().gram_schmidt(block[start : start + dim], length):
                raise FloatingPointError(
                    f"{num_directions} Gaussian rows of length {dim} came out numerically "
                    f"dependent in {np.dtype(dtype).name} (seed {seed}, step {step}): use float64, "
                    "fewer directions or another seed."
                )
        return dense(block, dim)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        family = theory.orthogonal if self.lengths == "equal" else theory.gram_schmidt
        return family(dim, num_directions)


@final
@dataclass(frozen=True)
class OrthogonalBernoulli(Directions):
    """Rows of a randomised Hadamard matrix: entries ±1, one sign bit a coordinate, no QR.

    With D the smallest power of two ≥ d, L distinct rows of the Hadamard matrix of order D are
    drawn, cut to d columns, and multiplied by d random signs, one a column, and by another random
    sign each; more than D of them in groups of D, each with its own columns' signs. The rows are
    exactly orthogonal when d = D, nearly so otherwise.

    The sign of a row changes nothing in ε εᵀ, but makes different directions uncorrelated,
    E[ε_l ε_mᵀ] = 0: without it, all rows would share the sign of the matrix's first column, which
    is constant, and ``OnePoint("others")`` would be biased.

    >>> OrthogonalBernoulli().kurtosis(dim=100, num_directions=20)
    1.0
    """

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> SignDraw:
        """See :meth:`Directions.draw`."""
        order = 1 << (dim - 1).bit_length()
        group = np.arange(num_directions) // order
        rows, row_signs = np.concatenate(
            [
                _distinct_rows(order, min(order, num_directions - g * order), seed, step, g)
                for g in range(int(group[-1]) + 1)
            ],
            axis=1,
        )
        key = stream_key(seed, Purpose.SIGNS, step)
        plain = signs(key, num_directions, dim, dtype)
        law = plain.law._replace(
            scale=row_signs.astype(dtype), stream=group.astype(np.uint64), row=rows
        )
        return SignDraw(law, dim)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.hadamard(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """One: the entries are ±1."""
        return 1.0


def _distinct_rows(order: int, count: int, seed: int, step: int, group: int) -> NDArray[np.int64]:
    """``count`` of ``range(order)`` without replacement, and below them a fair sign for each.

    Fisher–Yates on the few that move. A row and its sign come from one random integer, so they
    stay what they are when ``count`` grows.
    """
    rng = generator(seed, Purpose.ROWS, step=step, index=group)
    picks = rng.integers(2 * np.arange(count), 2 * order)  # pick i ~ U{i, …, order−1}, and a bit
    moved: dict[int, int] = {}
    rows: list[int] = []
    for i, pick in enumerate(map(int, picks >> 1)):
        rows.append(moved.get(pick, pick))
        moved[pick] = moved.get(i, i)
    return np.array([rows, 1 - 2 * (picks & 1)], np.int64)
