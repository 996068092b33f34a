"""BeS: Bernoulli smoothing, directions whose entries are coins."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from gensmooth import checks, theory
from gensmooth.directions.base import Directions, NoClosedForm, State, register
from gensmooth.directions.draw import Address, Draw, quantiles, signs
from gensmooth.directions.shrinkage import shrunk


@final
@dataclass(frozen=True)
class Bernoulli(Directions):
    r"""Entries :math:`(B_p - p)/m`, where :math:`B_p` is 1 with probability p, else 0: BeS.

    Args:
        p: The probability of 1. At ½, the kurtosis is 1, the smallest of any distribution.
        m: The divisor; by default, the standard deviation of :math:`B_p`, which makes the variance
            1.

    >>> Bernoulli().kurtosis(dim=100, num_directions=20)
    1.0
    """

    p: float = 0.5
    m: float | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self, p=checks.share("p", self.p), m=checks.optional(checks.positive, "m", self.m)
        )
        checks.optional(checks.moderate, "m", self.m, least=1e-75)

    @cached_property
    def divisor(self) -> float:
        """m, with its default filled in."""
        return math.sqrt(self.p * (1 - self.p)) if self.m is None else self.m

    @property
    def same_law_each_step(self) -> bool:
        """True for fair coins, which the kernels generate."""
        return self.p == 0.5

    def draw(self, state: State, at: Address) -> Draw:
        """See :meth:`Directions.draw`."""
        if self.p == 0.5:
            return signs(at, 0.5 / self.divisor)
        return quantiles(at, lambda u: np.where(u < self.p, 1 - self.p, -self.p), 1 / self.divisor)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        entry = theory.bernoulli_moments(self.p, self.divisor)
        return theory.iid(dim, num_directions, variance=entry.variance, kurtosis=entry.kurtosis)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return p(1−p)/m²."""
        return self.p * (1 - self.p) / self.divisor**2

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 3 + (1 − 6p(1−p)) / (p(1−p))."""
        return theory.bernoulli_moments(self.p, self.divisor).kurtosis

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`; all even standardised moments are 1."""
        if self.p != 0.5:
            raise NoClosedForm("Biased coins have no closed-form error at a finite spacing.")
        return theory.quadratic_spacing_mse(
            dim,
            num_directions,
            spacing=spacing,
            **hessian._asdict(),
            variance=(0.5 / self.divisor) ** 2,
            kurtosis=1.0,
            sixth=1.0,
        )


register("bes", Bernoulli, title="BeS", distribution="±1, fair coin", in_paper=True, place=1)
register(
    "bes-shrinkage",
    lambda: shrunk(Bernoulli()),
    title="BeS-shrinkage",
    distribution="±√v*, fair coin",
    in_paper=True,
    place=3,
)
