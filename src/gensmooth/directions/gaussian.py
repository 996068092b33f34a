"""GS: Gaussian smoothing, directions with independent standard normal entries."""

from dataclasses import dataclass
from typing import final

from gensmooth import theory
from gensmooth.directions.base import Directions, State, register
from gensmooth.directions.draw import Address, KernelDraw, normals
from gensmooth.directions.shrinkage import shrunk


@final
@dataclass(frozen=True)
class Gaussian(Directions):
    """Standard normal entries: Gaussian smoothing (GS).

    >>> Gaussian().kurtosis(dim=100, num_directions=20)
    3.0
    """

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        return normals(at)  # ε_lj ~ N(0, 1)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.iid(dim, num_directions, kurtosis=3.0)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return 1."""
        return 1.0

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 3."""
        return 3.0

    @property
    def same_law_each_step(self) -> bool:
        """True."""
        return True

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`; E z⁶ = 15."""
        return theory.quadratic_spacing_mse(
            dim, num_directions, spacing=spacing, **hessian._asdict(), kurtosis=3.0, sixth=15.0
        )


register("gs", Gaussian, title="GS", distribution="N(0, 1)", in_paper=True, place=0)
register(
    "gs-shrinkage",
    lambda: shrunk(Gaussian()),
    title="GS-shrinkage",
    distribution="N(0, v*)",
    in_paper=True,
    place=2,
)
