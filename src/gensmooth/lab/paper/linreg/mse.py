r"""Linear regression in closed form: objective, gradient, noise, and the error of an estimate.

The data are those of eq. ``linregmodel``, a new (γ, σ², V) for every point. Given γ, x has a
uniform direction and :math:`r^2 = \|x\|^2` has the moments :math:`E r^2 = \sum\gamma_j` and
:math:`E r^4 = 2\sum\gamma_j^2 + (\sum\gamma_j)^2`; the first half of this file follows from these
and the moments :math:`2^k/(k+1)` of U(0, 2).

An estimate on N points is :math:`A\hat g + \frac c{2L}\sum_l\epsilon_l(\epsilon_l^\top\bar
H\epsilon_l)` with the points' mean gradient :math:`\hat g` and mean Hessian :math:`\bar H`. Both
terms are uncorrelated, so the MSE is a sum of three: the error of the directions, the noise, and
the contribution of the spacing. The distribution of x is invariant under rotations, and products of
different directions vanish, so the last term is known for every family whose lengths are known.
Derivations: ``docs/problems.md``.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions import Directions
from gensmooth.theory import HessianSquares

Array = NDArray[np.float64]
Estimator = Literal["forward", "antithetic"]
SampleMode = Literal["shared", "paired"]


def minimizer(dim: int) -> float:
    """μ = 1 + 1/(3d): every entry of E(Qγ), which is where F is smallest."""
    return 1.0 + 1.0 / (3.0 * dim)


def objective(theta: Array) -> float:
    r"""Return the expected loss :math:`F(\theta) = E(y - \theta^\top x)^2/2`.

    .. math:: F(\theta) = \tfrac12\Bigl(\|\theta\|^2 - 2\mu\sum\theta_j + \tfrac{4d+5}3\Bigr)

    >>> round(objective(np.full(100, minimizer(100))), 4)
    17.1661
    """
    d = len(theta)
    linear = 2.0 * minimizer(d) * float(theta.sum())
    return 0.5 * (float(theta @ theta) - linear + (4.0 * d + 5.0) / 3.0)


def gradient(theta: Array) -> Array:
    r"""∇F(θ) = θ − μ·1, as E Q = I and E(Qγ) = μ·1."""
    return theta - minimizer(len(theta))


def noise_trace(theta: Array) -> float:
    r"""Return the trace of Var[∇f(θ, ξ)] for one data point, ∇f = x xᵀ(θ − γ) − x ε.

    .. math:: E\|\nabla f\|^2 = (d+3)\|\theta\|^2
              - 2\Bigl(d + \tfrac{11}3 + \tfrac4{3d}\Bigr)\sum\theta_j
              + \tfrac43d^2 + \tfrac{19}3d + \tfrac{44}{15},

    less :math:`\|\nabla F\|^2`.
    """
    return noise_trace_of(len(theta), float(theta.sum()), float(theta @ theta))


def noise_trace_of(dim: int, total: float, length2: float) -> float:
    """:func:`noise_trace` from Σθ and ‖θ‖², in which it is linear."""
    d, mu = float(dim), minimizer(dim)
    second = (d + 3.0) * length2 - 2.0 * (d + 11.0 / 3.0 + 4.0 / (3.0 * d)) * total
    second += 4.0 / 3.0 * d**2 + 19.0 / 3.0 * d + 44.0 / 15.0
    return second - (length2 - 2.0 * mu * total + d * mu**2)


def hessian_squares(dim: int, num_samples: int) -> HessianSquares:
    r""":math:`E(tr\bar H)^2`, :math:`E\|\bar H\|_F^2`, :math:`E\sum\bar H_{jj}^2` over N points.

    >>> hessian_squares(dim=100, num_samples=50).trace2
    10006.0
    """
    d, N = float(dim), num_samples
    return HessianSquares(
        trace2=d**2 + 3.0 * d / N,
        frobenius2=d + d * (d + 2.0) / N,
        diagonal2=d + d * (2.0 * d + 7.0) / ((d + 2.0) * N),
    )


# --- the error of an estimate -------------------------------------------------------------------


class Prediction(NamedTuple):
    r"""The MSE of an estimate as a function of θ: gradient · ‖∇F‖² + noise · tr Var + spacing."""

    gradient: float
    noise: float
    spacing: float

    def at(self, gradient_norm2: float, noise_trace: float) -> float:
        """Return the MSE where the gradient and the noise have these sizes."""
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
    """Return the exact MSE, which depends on how samples are shared and on the spacing.

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
    """Return the Lemma's MSE (``thm:fdempmse``): samples per direction, spacing → 0."""
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
    predicted = prediction(
        directions,
        dim=len(theta),
        num_directions=num_directions,
        num_samples=num_samples,
        spacing=spacing,
        samples=samples,
        estimator=estimator,
    )
    return predicted.at(_norm2(gradient(theta)), noise_trace(theta))


def lemma_mse(
    directions: Directions, theta: Array, *, num_directions: int, num_samples: int
) -> float:
    """:func:`lemma` at θ."""
    dim = len(theta)
    predicted = lemma(directions, dim=dim, num_directions=num_directions, num_samples=num_samples)
    return predicted.at(_norm2(gradient(theta)), noise_trace(theta))


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
