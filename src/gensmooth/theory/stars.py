r"""STARS: the spacing that balances noise and smoothness.

Chen and Wild, "Randomized derivative-free optimization of noisy convex functions" (2015). A forward
difference along a Gaussian u, :math:`s = \frac{\tilde f(x + \mu u) - \tilde f(x)}{\mu}\,u`, of a
function whose gradient is :math:`L_1`-Lipschitz deviates from :math:`(\nabla f^T u)\,u` by

.. math:: E\|s - (\nabla f^T u)u\|^2 \le \frac{\mu^2 L_1^2}{4}\,E\|u\|^6
          + \frac{2\sigma_a^2}{\mu^2}\,E\|u\|^2 ,

where the first term follows from :math:`|f(x + \mu u) - f(x) - \mu\nabla f^T u| \le
\frac{L_1}2\mu^2\|u\|^2`, and the second from two values of variance :math:`\sigma_a^2`. With
:math:`E\|u\|^2 = n` and :math:`E\|u\|^6 \le (n + 6)^3` the bound is smallest at
:func:`stars_spacing`.
"""

from typing import Literal

from gensmooth import checks

NoiseKind = Literal["additive", "multiplicative"]


def stars_spacing(
    dim: int, *, smoothness: float, noise: float, kind: NoiseKind = "additive", value: float = 1.0
) -> float:
    r"""The spacing μ of STARS.

    For additive noise, :math:`\tilde f = f + \xi` with :math:`\mathrm{Var}\,\xi = \sigma_a^2`, and
    for multiplicative noise, :math:`\tilde f = f\,(1 + \xi)` with :math:`\mathrm{Var}\,\xi =
    \sigma_r^2`, it is

    .. math:: \mu = \Bigl(\frac{8\,\sigma_a^2\,n}{L_1^2\,(n + 6)^3}\Bigr)^{1/4}, \qquad
              \mu = \Bigl(\frac{16\,\sigma_r^2 f(x)^2\,n}{L_1^2(1 + 3\sigma_r^2)(n + 6)^3}
              \Bigr)^{1/4} .

    In the multiplicative case, :math:`f(x + \mu u)^2 \le 3\bigl(f^2 + \mu^2(\nabla f^T u)^2 +
    \frac{L_1^2}4\mu^4\|u\|^4\bigr)`. The noise term becomes :math:`4\sigma_r^2f^2/\mu^2`, the first
    term is multiplied by :math:`1 + 3\sigma_r^2`, and what remains does not depend on μ.

    Args:
        dim: n, the number of parameters.
        smoothness: :math:`L_1 > 0`, the Lipschitz constant of the gradient.
        noise: :math:`\sigma_a` or :math:`\sigma_r`, positive.
        kind: ``"additive"`` or ``"multiplicative"``.
        value: f(x), for multiplicative noise.

    Example:
        >>> round(stars_spacing(10, smoothness=2.0, noise=0.1), 5)
        0.08359
    """
    n = checks.count("dim", dim)
    L1 = checks.positive("smoothness", smoothness)
    s = checks.positive("noise", noise)
    checks.one_of("kind", kind, ("additive", "multiplicative"))
    if kind == "additive":
        return (8.0 * s**2 * n / (L1**2 * (n + 6.0) ** 3)) ** 0.25
    f = abs(checks.finite("value", value))
    return (16.0 * s**2 * f**2 * n / (L1**2 * (1.0 + 3.0 * s**2) * (n + 6.0) ** 3)) ** 0.25


def stars_step(dim: int, *, smoothness: float) -> float:
    r"""The step :math:`h = 1/(4 L_1 (n + 4))` of STARS.

    Args:
        dim: n, the number of parameters.
        smoothness: :math:`L_1 > 0`, the Lipschitz constant of the gradient.

    Example:
        >>> stars_step(6, smoothness=0.25)
        0.1
    """
    return 1.0 / (4.0 * checks.positive("smoothness", smoothness) * (checks.count("dim", dim) + 4))
