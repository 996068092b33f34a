r"""Shrinkage: scale any directions by what minimises the error of the estimate.

If :math:`A = \frac1L \sum \epsilon\epsilon^T` has :math:`E A = a I` and :math:`E A^2 = b I`, then
directions scaled by :math:`\sqrt v` have relative error :math:`1 - 2va + v^2 b`, smallest at
:math:`v^* = a/b`. For i.i.d. entries that is the paper's :math:`L/(L+d+k-2)`: GS-shrinkage is
``shrunk(Gaussian())``, BeS-shrinkage ``shrunk(Bernoulli())``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, theory
from gensmooth.directions.base import Arrays, Directions, Shape, State, check_directions
from gensmooth.directions.draw import Address, Draw

Scale = Literal["direction", "estimate"]


@final
@dataclass(frozen=True)
class Shrunk(Directions):
    """Directions scaled by the factor of smallest error; made by :func:`shrunk`.

    Attributes:
        base: What is scaled.
        scale: ``"direction"`` multiplies the directions by √v, as in the paper (which also
            multiplies the distance of the evaluations by √v); ``"estimate"`` multiplies the
            estimate by v and leaves the evaluations where they were.
        factor: v, filled in by :meth:`resolve`.
    """

    base: Directions
    scale: Scale = "direction"
    factor: float | None = None

    def __post_init__(self) -> None:
        checks.one_of("scale", self.scale, get_args(Scale))
        checks.settle(
            self,
            base=check_directions(self.base),
            factor=checks.optional(checks.positive, "factor", self.factor),
        )

    @property
    def same_law_each_step(self) -> bool:
        """As that of what is scaled."""
        return self.base.same_law_each_step

    @property
    def usual_spacing(self) -> float:
        """As that of what is scaled."""
        return self.base.usual_spacing

    def draw(self, state: State, at: Address) -> Draw:
        """See :meth:`Directions.draw`."""
        v = self.shrinkage(at.dim, at.num_directions)
        draw = self.base.draw(state, at)
        if self.scale == "direction":
            return draw.rescaled(length=math.sqrt(v))
        return draw.rescaled(factor=v)

    def shrinkage(self, dim: int, num_directions: int) -> float:
        """v* = a/b of what is scaled, unless it is filled in."""
        if self.factor is not None:
            return self.factor
        return theory.optimal_scale(self.base.moments(dim, num_directions))

    def resolve(self, dim: int, num_directions: int) -> "Shrunk":
        """Fill in v."""
        base = self.base.resolve(dim, num_directions)
        return replace(self, base=base, factor=self.shrinkage(dim, num_directions))

    def shaped(self, shape: Shape | tuple[Shape, ...]) -> "Shrunk":
        """That of what is scaled."""
        return replace(self, base=self.base.shaped(shape))

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`; they are the same whichever is scaled."""
        v = self.shrinkage(dim, num_directions)
        return self.base.moments(dim, num_directions).scaled(v)

    def variance(self, dim: int, num_directions: int) -> float:
        """That of what is scaled, times v where the directions are."""
        v = self.shrinkage(dim, num_directions) if self.scale == "direction" else 1.0
        return v * self.base.variance(dim, num_directions)

    def gain(self, dim: int, num_directions: int) -> float:
        """That of what is scaled, times v."""
        return self.shrinkage(dim, num_directions) * self.base.gain(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """That of what is scaled."""
        return self.base.kurtosis(dim, num_directions)

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`: of the sixth degree in the directions."""
        power = 3 if self.scale == "direction" else 2
        base = self.base.quadratic_spacing_mse(
            dim, num_directions, spacing=spacing, hessian=hessian
        )
        return self.shrinkage(dim, num_directions) ** power * base

    # --- the state is that of what is scaled -----------------------------------------------------

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:
        """See :meth:`Directions.init`."""
        return self.base.init(dim, dtype)

    def update(self, state: State, gradient: NDArray[Any]) -> State:
        """See :meth:`Directions.update`."""
        return self.base.update(state, gradient)

    def observe(self, state: State, value: float) -> State:
        """See :meth:`Directions.observe`."""
        return self.base.observe(state, value)

    def latest_gradient(self, before: State, after: State) -> NDArray[Any] | None:
        """See :meth:`Directions.latest_gradient`."""
        return self.base.latest_gradient(before, after)

    def pack(self, state: State) -> Arrays:
        """See :meth:`Directions.pack`."""
        return self.base.pack(state)

    def unpack(self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]) -> State:
        """See :meth:`Directions.unpack`."""
        return self.base.unpack(arrays, dim, dtype)


def shrunk(directions: Directions, *, scale: Scale = "direction") -> Shrunk:
    """Shrink directions to the size that minimises the error of the estimate.

    Args:
        directions: Any family whose error has a closed form.
        scale: Whether the directions are scaled, as in the paper, or the estimate. As the spacing
            goes to zero the two agree. Under noise that does not vanish with the spacing,
            scaling the directions moves the evaluations closer together and so amplifies it;
            scaling the estimate does not.

    Raises:
        NoClosedForm: For a family that has none, such as Guided.

    >>> from gensmooth.directions.gaussian import Gaussian
    >>> shrunk(Gaussian()).resolve(dim=100, num_directions=20).factor  # 20 / (20 + 100 + 1)
    0.165...
    """
    made = Shrunk(directions, scale)
    made.base.moments(1, 1)  # refuses here, before a run has begun
    return made
