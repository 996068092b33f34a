r"""STARS (Chen & Wild, 2015): Gaussian directions whose spacing follows from noise and smoothness.

With ``spacing=1`` the points are x + μu and the estimate is
:math:`\frac{\tilde f(x + \mu u) - \tilde f(x)}{\mu}\,u`, u ~ N(0, I), μ by
:func:`gensmooth.theory.stars_spacing`: directions are μ times as long, and the estimate is divided
by μ². STARS itself has one direction per step, forward differences and steps of
:func:`gensmooth.theory.stars_step`: ``method="stars"`` puts them together.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final, get_args

import numpy as np

from gensmooth import checks, theory
from gensmooth.directions.base import Directions, NoClosedForm, State
from gensmooth.directions.draw import Address, KernelDraw, normals


class StarsState(NamedTuple):
    """What multiplicative noise makes of the spacing: the last value at x."""

    value: float


@final
@dataclass(frozen=True)
class Stars(Directions):
    """Gaussian directions at the distance μ that minimises a bound on the error; spacing 1.

    Args:
        smoothness: L₁, the Lipschitz constant of the gradient.
        noise: The standard deviation of a value: of ξ in f + ξ, or in f (1 + ξ).
        noise_kind: ``"additive"``, or ``"multiplicative"``: μ then follows the objective's value.
            Since all evaluations of a step are made together, it is the value of the step before.
        value: f at the start, for multiplicative noise: what the first step's μ follows.

    >>> round(Stars(2.0, 0.1).variance(dim=10, num_directions=1) ** 0.5, 5)  # μ
    0.08359
    """

    smoothness: float
    noise: float
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
                "`value` must not be 0 with multiplicative noise: a value of 0 has no noise, and "
                "the spacing would be 0."
            )

    @property
    def usual_spacing(self) -> float:
        """One: the directions have the length that is wanted."""
        return 1.0

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:  # noqa: ARG002
        """Before the first step the value is what was given."""
        return StarsState(self.value) if self.noise_kind == "multiplicative" else ()

    def observe(self, state: State, value: float) -> State:
        """Remember the value, which the next spacing follows; one of 0 would leave none."""
        if not isinstance(state, StarsState) or value == 0 or not np.isfinite(value):
            return state
        return StarsState(float(value))

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        mu = self.distance(state, at.dim)
        return normals(at).rescaled(length=mu, factor=1 / mu**2)

    def distance(self, state: State, dim: int) -> float:
        """μ of the next step."""
        value = state.value if isinstance(state, StarsState) else self.value
        return theory.stars_spacing(
            dim, smoothness=self.smoothness, noise=self.noise, kind=self.noise_kind, value=value
        )

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """Those of GS: what μ does to the directions is undone in the estimate."""
        return theory.iid(dim, num_directions, kurtosis=3.0)

    def variance(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """μ², where it does not change."""
        if self.noise_kind == "multiplicative":
            raise NoClosedForm("With multiplicative noise the spacing follows the values.")
        return self.distance((), dim) ** 2

    def gain(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """One."""
        return 1.0

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """Three."""
        return 3.0
