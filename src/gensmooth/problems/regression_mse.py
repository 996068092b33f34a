r"""The exact mean squared error of an estimate on linear regression, and the paper's Lemma.

An estimate on N points is :math:`A\hat g + \frac c{2L}\sum_l\epsilon_l(\epsilon_l^\top\bar
H\epsilon_l)` with the points' mean gradient :math:`\hat g` and mean Hessian :math:`\bar H`. Both
terms are uncorrelated, so the MSE is a sum of three: the directions' error, the noise, and what
the spacing adds. As the law of x does not change under rotations, and as products of different
directions vanish, the last one is known for every family of directions whose lengths are.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions import Directions
from gensmooth.problems.regression_theory import gradient, hessian_squares, noise_trace

Array = NDArray[np.float64]
Estimator = Literal["forward", "antithetic"]
SampleMode = Literal["shared", "paired"]


class Prediction(NamedTuple):
    r"""The MSE of an estimate as a function of θ: gradient · ‖∇F‖² + noise · tr Var + spacing."""

    gradient: float
    noise: float
    spacing: float

    def at(self, gradient_norm2: float, noise_trace: float) -> float:
        """The MSE where the gradient and the noise have these sizes."""
        return self.gradient * gradient_norm2 + self.noise * noise_trace + self.spacing


def prediction(
    directions: Directions,
    *,
    dim: int,
    num_directions: int,
    num_samples: int,
    spacing: float,
    samples: SampleMode = "shared",
    estimator: Estimator = "forward",
) -> Prediction:
    """The exact MSE: who shares the samples and the finite spacing are accounted for.

    Raises:
        NoClosedForm: For directions whose error has none.
    """
    without = _without_spacing(directions, dim, num_directions, num_samples, samples)
    if estimator == "antithetic":
        return without  # exact on quadratics
    squares = hessian_squares(dim, num_samples)
    extra = directions.quadratic_spacing_mse(dim, num_directions, spacing=spacing, hessian=squares)
    return without._replace(spacing=extra)


def lemma(directions: Directions, *, dim: int, num_directions: int, num_samples: int) -> Prediction:
    """The paper's Lemma (``thm:fdempmse``): own samples for each direction, spacing → 0."""
    return _without_spacing(directions, dim, num_directions, num_samples, "paired")


def predicted_mse(
    directions: Directions,
    theta: Array,
    *,
    num_directions: int,
    num_samples: int,
    spacing: float,
    samples: SampleMode = "shared",
    estimator: Estimator = "forward",
) -> float:
    """:func:`prediction` at θ."""
    found = prediction(
        directions,
        dim=len(theta),
        num_directions=num_directions,
        num_samples=num_samples,
        spacing=spacing,
        samples=samples,
        estimator=estimator,
    )
    return found.at(_norm2(gradient(theta)), noise_trace(theta))


def lemma_mse(
    directions: Directions, theta: Array, *, num_directions: int, num_samples: int
) -> float:
    """:func:`lemma` at θ."""
    found = lemma(
        directions, dim=len(theta), num_directions=num_directions, num_samples=num_samples
    )
    return found.at(_norm2(gradient(theta)), noise_trace(theta))


def _without_spacing(
    directions: Directions, dim: int, num_directions: int, num_samples: int, samples: SampleMode
) -> Prediction:
    moments = directions.resolve(dim, num_directions).moments(dim, num_directions)
    noise = theory.mse(
        moments, gradient_norm2=0.0, noise_trace=1.0, num_samples=num_samples, samples=samples
    )
    return Prediction(theory.relative_mse(moments), noise, 0.0)


def _norm2(v: Array) -> float:
    return float(v @ v)
