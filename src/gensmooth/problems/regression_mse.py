r"""The exact mean squared error of an estimate on linear regression, and the paper's Lemma.

An estimate on N points is :math:`A\hat g + \frac c{2L}\sum_l\epsilon_l(\epsilon_l^\top\bar
H\epsilon_l)` with the points' mean gradient :math:`\hat g` and mean Hessian :math:`\bar H`. Both
terms are uncorrelated, so the MSE is a sum of three: the directions' error, the noise, and what
the spacing adds. As the law of x does not change under rotations, and as products of different
directions vanish, the last one is known for every family of directions whose lengths are.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions import (
    Bernoulli,
    Directions,
    Gaussian,
    NoClosedForm,
    Orthogonal,
    OrthogonalBernoulli,
    Shrunk,
    Sphere,
)
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
    case = _Case(dim, num_directions, num_samples, spacing)
    return without._replace(spacing=_spacing_mse(directions, case))


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


# --- what a finite spacing adds -----------------------------------------------------------------


class _Case(NamedTuple):
    dim: int
    num_directions: int
    num_samples: int
    spacing: float


@singledispatch
def _spacing_mse(directions: Directions, case: _Case) -> float:  # noqa: ARG001
    raise NoClosedForm(f"{directions!r} has no closed form for its error at a finite spacing.")


@_spacing_mse.register
def _(directions: Gaussian, case: _Case) -> float:  # noqa: ARG001
    return _independent_entries(case, variance=1.0, kurtosis=3.0, sixth=15.0)


@_spacing_mse.register
def _(directions: Bernoulli, case: _Case) -> float:
    if directions.p != 0.5:
        raise NoClosedForm("Coins that are not fair have no closed form at a finite spacing.")
    variance = (0.5 / directions.divisor) ** 2
    return _independent_entries(case, variance=variance, kurtosis=1.0, sixth=1.0)


@_spacing_mse.register
def _(directions: Sphere, case: _Case) -> float:  # noqa: ARG001
    return _rotated(case, theory.quadratic_spacing_mse_sphere)


@_spacing_mse.register
def _(directions: Orthogonal, case: _Case) -> float:
    if directions.lengths == "equal":
        return _rotated(case, theory.quadratic_spacing_mse_sphere)
    return _rotated(case, theory.quadratic_spacing_mse_gram_schmidt)


@_spacing_mse.register
def _(directions: Shrunk, case: _Case) -> float:
    factor = directions.resolve(case.dim, case.num_directions).factor
    assert factor is not None
    power = 3 if directions.scale == "direction" else 2
    return factor**power * _spacing_mse(directions.base, case)


@_spacing_mse.register
def _(directions: OrthogonalBernoulli, case: _Case) -> float:  # noqa: ARG001
    """A row is a row of coins, and its own random sign makes the products of two rows vanish."""
    return _independent_entries(case, variance=1.0, kurtosis=1.0, sixth=1.0)


def _independent_entries(case: _Case, *, variance: float, kurtosis: float, sixth: float) -> float:
    squares = hessian_squares(case.dim, case.num_samples)
    return theory.quadratic_spacing_mse(
        case.dim,
        case.num_directions,
        spacing=case.spacing,
        trace2=squares.trace2,
        frobenius2=squares.frobenius2,
        diagonal2=squares.diagonal2,
        variance=variance,
        kurtosis=kurtosis,
        sixth=sixth,
    )


def _rotated(case: _Case, formula: Callable[..., float]) -> float:
    squares = hessian_squares(case.dim, case.num_samples)
    return formula(
        case.dim,
        case.num_directions,
        spacing=case.spacing,
        trace2=squares.trace2,
        frobenius2=squares.frobenius2,
    )
