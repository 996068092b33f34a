r"""Shrinkage: scale directions by the factor that minimises the error of the estimate.

If :math:`A = \frac1L \sum \epsilon\epsilon^T` has :math:`E A = a I` and :math:`E A^2 = b I`, then
directions scaled by :math:`\sqrt v` have the relative error :math:`1 - 2va + v^2 b`, which is
smallest at :math:`v^* = a/b`. For i.i.d. entries, this is the paper's :math:`L/(L+d+k-2)`:
GS-shrinkage is ``shrunk(Gaussian())``, and BeS-shrinkage is ``shrunk(Bernoulli())``.
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
    """Directions scaled to minimise the error of the estimate; create them with :func:`shrunk`.

    Attributes:
        base: The family that is scaled.
        scale: ``"direction"`` multiplies the directions by √v, as in the paper, and so also the
            distance of the evaluations from x. ``"estimate"`` multiplies the estimate by v and does
            not move the evaluations.
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
        """Whether the base family has this property."""
        return self.base.same_law_each_step

    @property
    def usual_spacing(self) -> float:
        """The base family's default spacing."""
        return self.base.usual_spacing

    def draw(self, state: State, at: Address) -> Draw:
        """See :meth:`Directions.draw`."""
        v = self.shrinkage(at.dim, at.num_directions)
        draw = self.base.draw(state, at)
        if self.scale == "direction":
            return draw.rescaled(length=math.sqrt(v))
        return draw.rescaled(factor=v)

    def shrinkage(self, dim: int, num_directions: int) -> float:
        """Return v, or v* = a/b of the base family if it is not filled in."""
        if self.factor is not None:
            return self.factor
        return theory.optimal_scale(self.base.moments(dim, num_directions))

    def resolve(self, dim: int, num_directions: int) -> "Shrunk":
        """Fill in v."""
        base = self.base.resolve(dim, num_directions)
        return replace(self, base=base, factor=self.shrinkage(dim, num_directions))

    def shaped(self, shape: Shape | tuple[Shape, ...]) -> "Shrunk":
        """Pass the shape to the base family."""
        return replace(self, base=self.base.shaped(shape))

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`; they do not depend on ``scale``."""
        v = self.shrinkage(dim, num_directions)
        return self.base.moments(dim, num_directions).scaled(v)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return the base family's variance, times v if the directions are scaled."""
        v = self.shrinkage(dim, num_directions) if self.scale == "direction" else 1.0
        return v * self.base.variance(dim, num_directions)

    def gain(self, dim: int, num_directions: int) -> float:
        """Return the base family's gain times v."""
        return self.shrinkage(dim, num_directions) * self.base.gain(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return the base family's kurtosis."""
        return self.base.kurtosis(dim, num_directions)

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`; directions enter it to the sixth power."""
        power = 3 if self.scale == "direction" else 2
        base = self.base.quadratic_spacing_mse(
            dim, num_directions, spacing=spacing, hessian=hessian
        )
        return self.shrinkage(dim, num_directions) ** power * base

    # --- the state is that of the base family ----------------------------------------------------

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
    """Scale directions by the factor that minimises the error of the estimate.

    Args:
        directions: Any family whose error has a closed form.
        scale: Whether to scale the ``"direction"``, as in the paper, or the ``"estimate"``. The two
            agree as the spacing goes to zero. Scaling the directions moves the evaluations closer
            together, which amplifies noise that does not vanish with the spacing. Scaling the
            estimate does not.

    Raises:
        NoClosedForm: If the error of the family has no closed form, as for Guided.

    >>> from gensmooth.directions.gaussian import Gaussian
    >>> shrunk(Gaussian()).resolve(dim=100, num_directions=20).factor  # 20 / (20 + 100 + 1)
    0.165...
    """
    shrunken = Shrunk(directions, scale)
    shrunken.base.moments(1, 1)  # raises NoClosedForm now rather than in a run
    return shrunken
