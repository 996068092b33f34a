r"""STARS (Chen & Wild, 2015): Gaussian directions whose spacing follows from noise and smoothness.

With ``spacing=1``, the points are x + μu and the estimate is :math:`\frac{\tilde f(x + \mu u) -
\tilde f(x)}{\mu}\,u`, where u ~ N(0, I) and μ is :func:`gensmooth.theory.stars_spacing`. To this
end, the directions are multiplied by μ and the estimate is divided by μ². STARS itself uses one
direction per step, forward differences and the step size :func:`gensmooth.theory.stars_step`;
``method="stars"`` combines them.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, final, get_args

import numpy as np

from gensmooth import checks, theory
from gensmooth.directions.base import Directions, NoClosedForm, State
from gensmooth.directions.draw import Address, KernelDraw, normals


class StarsState(NamedTuple):
    """The last value at x, on which the spacing depends under multiplicative noise."""

    value: float


@final
@dataclass(frozen=True)
class Stars(Directions):
    """Gaussian directions times the μ that minimises a bound on the error; use spacing 1.

    Args:
        smoothness: L₁, the Lipschitz constant of the gradient.
        noise: The standard deviation of ξ in f + ξ (additive) or f (1 + ξ) (multiplicative).
        noise_kind: ``"additive"`` or ``"multiplicative"``. If it is multiplicative, μ depends on
            the value of the objective. The previous step's value is used, because all points of a
            step are chosen before any of them is evaluated.
        value: f at the start, which determines the first step's μ under multiplicative noise.

    >>> round(Stars(2.0, 0.1).variance(dim=10, num_directions=1) ** 0.5, 5)  # μ
    0.08359
    """

    smoothness: float
    noise: float
    _: KW_ONLY
    noise_kind: theory.NoiseKind = "additive"
    value: float = 1.0

    def __post_init__(self) -> None:
        checks.settle(
            self,
            smoothness=checks.positive("smoothness", self.smoothness),
            noise=checks.positive("noise", self.noise),
            value=checks.finite("value", self.value),
        )
        checks.one_of("noise_kind", self.noise_kind, get_args(theory.NoiseKind))
        if self.noise_kind == "multiplicative" and self.value == 0:
            raise ValueError(
                "`value` must not be 0 with multiplicative noise, because the spacing would be 0: "
                "pass the size of a typical value."
            )

    @property
    def usual_spacing(self) -> float:
        """1, because the directions already have the required length."""
        return 1.0

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:
        """Return the initial state, with the ``value`` passed by the user."""
        return StarsState(self.value) if self.noise_kind == "multiplicative" else ()

    def observe(self, state: State, value: float) -> State:
        """Store the value for the next spacing; a value of 0 is ignored."""
        if not isinstance(state, StarsState) or value == 0 or not np.isfinite(value):
            return state
        return StarsState(float(value))

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        mu = self.distance(state, at.dim)
        return normals(at).rescaled(length=mu, factor=1 / mu**2)

    def distance(self, state: State, dim: int) -> float:
        """Return μ of the next step."""
        value = state.value if isinstance(state, StarsState) else self.value
        return theory.stars_spacing(
            dim, smoothness=self.smoothness, noise=self.noise, kind=self.noise_kind, value=value
        )

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """Return the moments of GS: the estimate cancels the factor μ of the directions."""
        return theory.iid(dim, num_directions, kurtosis=3.0)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return μ² for additive noise."""
        if self.noise_kind == "multiplicative":
            raise NoClosedForm("With multiplicative noise, the spacing depends on the values.")
        return self.distance((), dim) ** 2

    def gain(self, dim: int, num_directions: int) -> float:
        """Return 1."""
        return 1.0

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 3."""
        return 3.0
