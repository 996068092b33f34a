r"""The share of noise in a step's differences, and the best scale of a noisy estimate.

A few values measured twice give the variance of the noise. The differences that a step computes
anyway give the variance of signal plus noise. Their ratio, the noise share, is dimensionless: it
depends neither on the scale of the objective nor on the spacing.

Derivations, and how the default method uses them: `docs/pilot.md`.
"""

import math
from typing import Literal

from gensmooth import checks
from gensmooth.theory.moments import Moments
from gensmooth.theory.mse import check_estimator


def slope_noise(
    value_variance: float,
    *,
    spacing: float,
    estimator: Literal["forward", "antithetic"] = "antithetic",
) -> float:
    r"""The contribution ν of independent value noise to the mean square of a slope.

    .. math:: \nu = \frac{s^2}{2c^2} \text{ for } \frac{f(\theta + c\epsilon)
              - f(\theta - c\epsilon)}{2c}, \qquad
              \nu = \frac{2s^2}{c^2} \text{ for } \frac{f(\theta + c\epsilon) - f(\theta)}c .

    So :math:`E D_l^2 = aG + \nu`, and :math:`(\overline{D^2} - \hat\nu)/a` is an unbiased estimate
    of :math:`G = \|\nabla F\|^2`. The noise adds :math:`\frac{da}L\nu` to the mean square of the
    gradient estimate, even if all forward differences share one value at θ.

    Args:
        value_variance: s², the variance of one value.
        spacing: c.
        estimator: ``"antithetic"`` or ``"forward"``.

    Example:
        >>> slope_noise(2.0, spacing=0.5), slope_noise(2.0, spacing=0.5, estimator="forward")
        (4.0, 16.0)
    """
    check_estimator(estimator, ("forward", "antithetic"))
    c = checks.moderate("spacing", checks.positive("spacing", spacing), 1e-75)
    s2 = checks.nonnegative("value_variance", value_variance)
    return (0.5 if estimator == "antithetic" else 2.0) * s2 / c**2


def noise_share(value_variance: float, half_difference2: float, *, num_pairs: int) -> float:
    r"""Estimate the share of noise in the differences of a step's mirrored pairs.

    With :math:`\delta_l = \frac12(f(\theta + c\epsilon_l) - f(\theta - c\epsilon_l))` and noise of
    variance s² in every value,

    .. math:: \varphi = \frac{s^2/2}{E\delta^2}, \qquad
              \hat\varphi = \frac{L - 2}L\cdot\frac{\hat s^2/2}{\frac1L\sum_l\delta_l^2} .

    The factor corrects for the mean of a reciprocal: if the :math:`\delta_l` are normal (Gaussian
    directions, or many coins, and normal noise), :math:`\frac1L\sum\delta_l^2` is
    :math:`E\delta^2\chi^2_L/L`, and :math:`E[L/\chi_L^2] = L/(L-2)`. With an independent
    :math:`\hat s^2`, the estimate is then unbiased. If instead :math:`\hat s^2 = \frac12(v' -
    v)^2`, with a second value v' at one of the step's own points, v also enters one of the
    :math:`\delta_l` (correlation :math:`-\frac12\sqrt\varphi`), and

    .. math:: E\hat\varphi = \varphi\Bigl(1 - \frac\varphi{2L}\Bigr) ,

    and likewise for the mean over several such points. With one or two pairs, the mean of the
    reciprocal does not exist; the factor is then :math:`1/L`.

    Average the shares over steps, not their numerators and denominators: if values fall by orders
    of magnitude, the first steps would dominate those averages.

    Args:
        value_variance: :math:`\hat s^2`, the variance of the noise of one value: half the mean of
            the squared differences of values measured twice.
        half_difference2: :math:`\frac1L\sum_l\delta_l^2`.
        num_pairs: L.

    Returns:
        The estimate, which may exceed 1. It is 0 if there is no noise, and infinite if there is
        noise but all differences are 0.

    Example:
        >>> noise_share(1.0, 2.0, num_pairs=10)
        0.2
    """
    s2 = checks.nonnegative("value_variance", value_variance)
    square = checks.nonnegative("half_difference2", half_difference2)
    L = checks.count("num_pairs", num_pairs)
    if s2 == 0:
        return 0.0
    if square == 0:
        return math.inf
    return max(L - 2, 1) / L * (s2 / 2.0 / square)


def noise_to_signal(share: float) -> float:
    r"""The ratio :math:`\rho = \varphi/(1 - \varphi)` of noise to signal in a step's differences.

    Args:
        share: φ. An estimate may be 1 or more, for which ρ is infinite.

    Example:
        >>> noise_to_signal(0.5), noise_to_signal(0.75), noise_to_signal(1.2)
        (1.0, 3.0, inf)
    """
    phi = checks.number("share", share)
    if not phi >= 0:
        raise ValueError(f"`share` must not be negative, but is {phi}.")
    return phi / (1.0 - phi) if phi < 1 else math.inf


def noisy_scale(moments: Moments, share: float) -> float:
    r"""The factor of an estimate with noise share φ that minimises the total MSE.

    The best multiple of any estimate is :math:`w^* = \langle\nabla F, E\hat g\rangle/E\|\hat g\|^2
    = aG/E\|\hat g\|^2`. With noise ν in the mean square of a slope (`slope_noise`),
    :math:`E\|\hat g\|^2 = bG + \frac{da}L\nu` and :math:`\varphi = \nu/(aG + \nu)`, so

    .. math:: w^* = \frac a{b + \frac{da^2}L\rho}, \qquad \rho = \frac\varphi{1 - \varphi} .

    This requires only the share, not the gradient, the variance or the spacing. It equals
    `optimal_scale_whole` with ``scale="estimate"`` for independent samples, and `optimal_scale` at
    φ = 0. The resulting relative MSE is :math:`1 - aw^*`.

    An *estimated* share adds an error. The comparison is with a/b, the factor that ignores noise.
    At d = 50, L = 10 and ρ ≥ 1, w* is better even with the share from one step and one repeated
    value. At ρ = 0.3, it is better with the mean share of ten steps; with the share of one step,
    the MSE is 0.4 % larger, and 9 % larger at d = 20, L = 40, where there is less to gain. At
    ρ = 10, the MSE is 1.6 G with the share of one step, 1.1 G with that of ten steps, and 2.3 G
    with a/b: if noise dominates the slopes, use more directions rather than a better factor.

    Args:
        moments: The directions, from `gensmooth.theory.families`.
        share: φ, for example from `noise_share`. If it is 1 or more, the factor is 0.

    Example:
        >>> from gensmooth.theory import iid
        >>> coins = iid(91, 10, kurtosis=1)
        >>> noisy_scale(coins, 0.0), round(noisy_scale(coins, 0.5), 4)
        (0.1, 0.0524)
    """
    rho = noise_to_signal(share)
    a, b, _, d, L = moments
    second = checks.positive("moments.second", b)
    return a / (second + d * a**2 / L * rho)
