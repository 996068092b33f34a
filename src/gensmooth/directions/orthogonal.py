r"""Orthogonal directions, with the smallest error that L directional derivatives allow.

With exactly orthogonal rows of length √d, the estimate is d/L times the projection of the gradient
onto their span. It is unbiased and has the relative error d/L − 1, compared with (d+1)/L for
independent Gaussians. (With shrinkage, it attains :func:`gensmooth.theory.information_limit`.)
"""

import math
from dataclasses import dataclass
from typing import Literal, final, get_args

from gensmooth import checks, kernels, theory
from gensmooth.directions.base import Directions, State, register, rotated_kurtosis
from gensmooth.directions.draw import Address, KernelDraw, dense, normals
from gensmooth.directions.shrinkage import shrunk

Lengths = Literal["equal", "residual"]


@final
@dataclass(frozen=True)
class Orthogonal(Directions):
    """Gaussian rows orthogonalised by Gram–Schmidt; more than d rows form groups of d.

    Args:
        lengths: ``"equal"`` gives every row the length √d. ``"residual"``, the paper's Orthogonal
            ES, keeps the lengths after Gram–Schmidt: row k loses k − 1 of its d degrees of freedom,
            so the estimate is biased towards zero.

    >>> Orthogonal().moments(dim=100, num_directions=20).second
    5.0
    """

    lengths: Lengths = "equal"

    def __post_init__(self) -> None:
        checks.one_of("lengths", self.lengths, get_args(Lengths))

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        block = normals(at).block()
        length = math.sqrt(at.dim) if self.lengths == "equal" else 0.0
        for start in range(0, at.num_directions, at.dim):
            if not kernels.on_bases().gram_schmidt(block[start : start + at.dim], length):
                raise FloatingPointError(
                    f"{at.num_directions} Gaussian rows of length {at.dim} are numerically "
                    f"dependent in {at.dtype.name} (seed {at.seed}, step {at.step}): use float64, "
                    "fewer directions or another seed."
                )
        return dense(block)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        family = theory.orthogonal if self.lengths == "equal" else theory.gram_schmidt
        return family(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 3d / (d + 2) for equal lengths, else the kurtosis of the mixture of all rows."""
        return rotated_kurtosis(self.moments(dim, num_directions))

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`."""
        formula = theory.quadratic_spacing_mse_gram_schmidt
        if self.lengths == "equal":
            formula = theory.quadratic_spacing_mse_sphere
        squares = {"trace2": hessian.trace2, "frobenius2": hessian.frobenius2}
        return formula(dim, num_directions, spacing=spacing, **squares)


register(
    "orthogonal-es",
    lambda: Orthogonal("residual"),
    title="Orthogonal ES",
    distribution="Gram–Schmidt of N(0, I)",
    in_paper=True,
    place=4,
)
register(
    "orthogonal", Orthogonal, title="Orthogonal", distribution="orthogonal, length √d", place=7
)
register(
    "orthogonal-shrinkage",
    lambda: shrunk(Orthogonal()),
    title="Orthogonal-shrinkage",
    distribution="orthogonal, shrunk",
    place=10,
)
