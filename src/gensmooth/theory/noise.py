r"""How much of what a step sees is noise, and how far that should shorten its estimate.

A few values measured twice give the variance of the noise; the differences that the step makes
anyway give signal and noise together. Their ratio, the noise share, has no unit: it needs neither
the scale of the objective nor the spacing.

Derivations, and how the default uses them: `docs/pilot.md`.
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
    r"""What independent noise of the values adds to the mean square of a slope, ν.

    .. math:: \nu = \frac{s^2}{2c^2} \text{ for } \frac{f(\theta + c\epsilon)
              - f(\theta - c\epsilon)}{2c}, \qquad
              \nu = \frac{2s^2}{c^2} \text{ for } \frac{f(\theta + c\epsilon) - f(\theta)}c .

    So :math:`E D_l^2 = aG + \nu`, and :math:`(\overline{D^2} - \hat\nu)/a` is an unbiased estimate
    of :math:`G = \|\nabla F\|^2`. To the mean square of the gradient's estimate the noise adds
    :math:`\frac{da}L\nu`, also where all forward differences use one and the same value at θ.

    Args:
        value_variance: s², of one value.
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
    r"""The share of the noise in the differences of a step's mirrored pairs, estimated.

    With :math:`\delta_l = \frac12(f(\theta + c\epsilon_l) - f(\theta - c\epsilon_l))` and noise of
    variance s² in every value,

    .. math:: \varphi = \frac{s^2/2}{E\delta^2}, \qquad
              \hat\varphi = \frac{L - 2}L\cdot\frac{\hat s^2/2}{\frac1L\sum_l\delta_l^2} .

    The factor makes up for the mean of a reciprocal: where the :math:`\delta_l` are normal
    (Gaussian directions, or many coins, and normal noise), :math:`\frac1L\sum\delta_l^2` is
    :math:`E\delta^2\chi^2_L/L`, and :math:`E[L/\chi_L^2] = L/(L-2)`. With an independent
    :math:`\hat s^2` the estimate is then unbiased. If instead :math:`\hat s^2 = \frac12(v' - v)^2`
    from a second value v' at one of the step's own points, v has its part in one of the
    :math:`\delta_l` (correlation :math:`-\frac12\sqrt\varphi`), and

    .. math:: E\hat\varphi = \varphi\Bigl(1 - \frac\varphi{2L}\Bigr) ,

    and the same for the mean over several such points. One or two pairs have no mean of a
    reciprocal; the factor is then :math:`1/L`.

    Average shares over steps, not their numerators and denominators: where values fall by orders
    of magnitude, averages of these remember nothing but the first steps.

    Args:
        value_variance: :math:`\hat s^2`, the variance of the noise of one value: half the mean of
            the squared differences of values measured twice.
        half_difference2: :math:`\frac1L\sum_l\delta_l^2`.
        num_pairs: L.

    Returns:
        The estimate, which may exceed 1; 0 where there is no noise, and infinite where there is
        nothing else and the differences happen to be 0.

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
        share: φ, as an estimate also above 1, where ρ is infinite.

    Example:
        >>> noise_to_signal(0.5), noise_to_signal(0.75), noise_to_signal(1.2)
        (1.0, 3.0, inf)
    """
    phi = checks.number("share", share)
    if not phi >= 0:
        raise ValueError(f"`share` must not be negative, but is {phi}.")
    return phi / (1.0 - phi) if phi < 1 else math.inf


def noisy_scale(moments: Moments, share: float) -> float:
    r"""The factor for an estimate whose slopes have the noise share φ: the whole MSE's minimum.

    The best multiple of any estimate is :math:`w^* = \langle\nabla F, E\hat g\rangle/E\|\hat g\|^2
    = aG/E\|\hat g\|^2`. With noise ν in the mean square of a slope (`slope_noise`),
    :math:`E\|\hat g\|^2 = bG + \frac{da}L\nu` and :math:`\varphi = \nu/(aG + \nu)`, so

    .. math:: w^* = \frac a{b + \frac{da^2}L\rho}, \qquad \rho = \frac\varphi{1 - \varphi} :

    neither the gradient, nor the variance, nor the spacing need to be known, only their share. It
    is `optimal_scale_whole` with ``scale="estimate"`` for independent samples, and `optimal_scale`
    at φ = 0. It leaves the relative MSE :math:`1 - aw^*`.

    With an *estimated* share the factor errs too. At d = 50, L = 10 it beats the noise-blind a/b
    from ρ = 1 on even if one step and one repeated value are all there is, and at ρ = 0.3 with the
    mean of ten steps' shares; one step's share then loses 0.4 % of the MSE, and 9 % at d = 20,
    L = 40, where there is less to gain. At ρ = 10 one step's share leaves 1.6 G (blind: 2.3 G),
    ten steps' 1.1 G: where noise drowns the slopes, more of them are needed, not a better factor.

    Args:
        moments: The directions, from `gensmooth.theory.families`.
        share: φ, e.g. from `noise_share`; from 1 on the factor is 0.

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
