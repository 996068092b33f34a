r"""Tests of the step size, based on successive estimates.

If an estimate points in the same direction as the previous ones, the steps are too short; if it
points back, they are too long. `lagged_product` is the exact law on a quadratic. The `probe_*`
functions describe a more sensitive test: one more evaluation, along the mean of past estimates.

Derivations, and how the default method uses them: `docs/pilot.md`.
"""

import math
from collections.abc import Iterable

from gensmooth import checks
from gensmooth.theory.moments import Moments


def greedy_learning_rate(
    gradient_norm2: float, estimate_norm2: float, *, curvature: float, mean: float = 1.0
) -> float:
    r"""The learning rate that lowers an isotropic quadratic the most in one step.

    With Hessian μI and :math:`E\hat g = a\nabla F`, the mean change of the value in a step is
    :math:`-\eta aG + \frac{\eta^2\mu}2E\|\hat g\|^2`, which is smallest at

    .. math:: \eta^* = \frac{aG}{\mu\,E\|\hat g\|^2} .

    Without noise, :math:`E\|\hat g\|^2 = bG`, so :math:`\mu\eta^* = a/b` is the shrinkage
    factor of the directions (`optimal_scale`), whatever the gradient.

    Args:
        gradient_norm2: :math:`G = \|\nabla F\|^2`.
        estimate_norm2: :math:`E\|\hat g\|^2 > 0`, noise included.
        curvature: μ > 0.
        mean: a, `Moments.mean`; 1 for an unbiased estimate.

    Example:
        >>> from gensmooth.theory import iid
        >>> greedy_learning_rate(1.0, iid(99, 25, kurtosis=3).second, curvature=2.0)
        0.1
    """
    G = checks.nonnegative("gradient_norm2", gradient_norm2)
    second = checks.positive("estimate_norm2", estimate_norm2)
    return checks.finite("mean", mean) * G / (checks.positive("curvature", curvature) * second)


def lagged_product(
    gradient_norm2: float,
    estimate_norm2: float,
    *,
    learning_rate: float,
    curvature: float,
    lag: int = 1,
    mean: float = 1.0,
) -> float:
    r"""The mean inner product of two estimates k steps apart, on an isotropic quadratic.

    .. math:: E\langle\hat g_t, \hat g_{t+k}\rangle
              = a\,(1 - a\eta\mu)^{k-1}\bigl(aG - \eta\mu\,E\|\hat g_t\|^2\bigr) .

    *Proof.* The gradient moves by :math:`\gamma_{t+1} = \gamma_t - \eta\mu\hat g_t`. Given
    everything up to step t, each further step multiplies its mean by :math:`1 - a\eta\mu`, and the
    mean of the last estimate is a times the gradient. So the mean product is
    :math:`a(1 - a\eta\mu)^{k-1}E\langle\hat g_t, \gamma_t - \eta\mu\hat g_t\rangle`. ∎

    If :math:`a\eta\mu < 1`, the sign is that of :math:`\eta^* - \eta` at every lag, where
    :math:`\eta^*` is the `greedy_learning_rate`; at :math:`\eta^*`, **all** products are zero. On a
    quadratic with another Hessian H, the product at lag 1 is
    :math:`a(aG - \eta E[\hat g^\top H\hat g])`, which is still zero at the greedy step. At longer
    lags it is not: steep directions decay first, so a long window suggests a shorter step than the
    greedy one while the gradient lies in steep directions, and a longer one once it lies in flat
    directions.

    The noise may have any size and may depend on the point, provided that the mean of an estimate,
    given its point, is a times the gradient.

    Args:
        gradient_norm2: :math:`G = \|\nabla F\|^2` at the earlier point.
        estimate_norm2: :math:`E\|\hat g_t\|^2` there, noise included.
        learning_rate: η of all steps between the two estimates.
        curvature: μ > 0.
        lag: k ≥ 1.
        mean: a, `Moments.mean`.

    Example:
        >>> at = dict(gradient_norm2=1.0, estimate_norm2=5.0, curvature=1.0)
        >>> [lagged_product(**at, learning_rate=eta) for eta in (0.1, 0.2, 0.3)]
        [0.5, 0.0, -0.5]
    """
    G = checks.nonnegative("gradient_norm2", gradient_norm2)
    second = checks.nonnegative("estimate_norm2", estimate_norm2)
    rate = checks.nonnegative("learning_rate", learning_rate)
    step = rate * checks.positive("curvature", curvature)
    k, a = checks.count("lag", lag), checks.finite("mean", mean)
    return a * (1.0 - a * step) ** (k - 1) * (a * G - step * second)


def probe_score(slope: float, slopes: Iterable[float]) -> float:
    r"""The slope along a probe direction, relative to the slopes along random directions.

    .. math:: T = \frac{D_p}{\sqrt{\frac1L\sum_l D_l^2}}, \qquad
              D_p = \frac{f(\theta + cp) - f(\theta)}c, \quad \|p\|^2 = d .

    Let p be the mean of past estimates, scaled to the length of a random direction. A positive
    score then means that the steps can be longer, and a negative one that they are too long. If the
    orientation of the gradient is independent of p, the score has mean 0 and variance
    `probe_variance`, for any size of the gradient and any d, so it can be used as a z-score.

    Args:
        slope: :math:`D_p`.
        slopes: :math:`D_1, \dots, D_L` along the random directions of the same step.

    Returns:
        The score. It is 0 if all slopes are 0, and infinite if only the random slopes are 0.

    Example:
        >>> probe_score(3.0, [2.0, -2.0, 2.0, -2.0])
        1.5
    """
    random_slopes = [checks.finite("slopes", value) for value in slopes]
    checks.count("the number of `slopes`", len(random_slopes))
    slope = checks.finite("slope", slope)
    scale = math.hypot(*random_slopes) / math.sqrt(len(random_slopes))
    if scale == 0:
        return math.copysign(math.inf, slope) if slope else 0.0
    return slope / scale


def probe_variance(num_directions: int) -> float:
    r"""The variance of `probe_score` if the gradient's orientation is independent of the probe.

    .. math:: E T = 0, \qquad E T^2 = \frac L{L - 2} \quad (L > 2) .

    *Proof* for Gaussian directions. Let the gradient be :math:`\sqrt G u` with u uniform on the
    unit sphere. Given u, the :math:`D_l` are independent :math:`N(0, G)`, a law that does not
    depend on u, so :math:`\frac1L\sum D_l^2 = G\chi^2_L/L` is independent of :math:`D_p = \sqrt
    G\,p^\top u`. With :math:`E(p^\top u)^2 = \|p\|^2/d = 1` and :math:`E[L/\chi^2_L] = L/(L-2)` the
    claim follows. ∎ (As d grows, T approaches Student's t with L degrees of freedom.) Coins and
    other entries differ by :math:`O(1/d)`. With samples shared by all points of the step, nothing
    changes: G is then the squared norm of *their* gradient.

    Args:
        num_directions: L > 2.

    Example:
        >>> probe_variance(10), probe_variance(102)
        (1.25, 1.02)
    """
    L = checks.count("num_directions", num_directions, 3)
    return L / (L - 2)


def probe_gain(moments: Moments) -> float:
    r"""The gain in signal-to-noise ratio of a probe along p over :math:`\langle\hat g, p\rangle`.

    Both measure :math:`\langle\nabla F, p\rangle`: the probe with one evaluation, the product with
    the L evaluations of the estimate. If the orientation of the gradient is uniform, the probe has
    the mean square :math:`G`. The product has the mean square :math:`E\,p^\top A\nabla F\nabla
    F^\top Ap = \frac Gd\,p^\top E[A^2]p = bG`, and its signal is a times that of the probe. So the
    probe's signal-to-noise ratio is larger by the factor

    .. math:: \frac{\sqrt b}a, \qquad \text{for i.i.d. entries } \sqrt{1 + \frac{d + k - 2}L}
              \approx \sqrt{d/L} \text{ for } L \ll d,

    and exactly :math:`\sqrt{d/L}` for orthogonal directions. This equals the gain from averaging
    :math:`b/a^2` independent products.

    Args:
        moments: The directions of the estimate, from `gensmooth.theory.families`.

    Example:
        >>> from gensmooth.theory import iid, orthogonal
        >>> probe_gain(orthogonal(100, 4)), round(probe_gain(iid(100, 4, kurtosis=1)), 2)
        (5.0, 5.07)
    """
    return math.sqrt(moments.second) / checks.positive("moments.mean", moments.mean)
