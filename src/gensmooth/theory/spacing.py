r"""The exact contribution of a finite spacing to the MSE on a quadratic function.

On :math:`F(\theta + \delta) = F + g^\top\delta + \frac12\delta^\top H\delta`, the
forward-difference estimate with spacing c is

.. math:: \hat g = A g + \frac{c}{2L} \sum_l \epsilon_l\,(\epsilon_l^\top H \epsilon_l) .

For directions that are symmetric under a change of sign, the second term has mean zero and is
uncorrelated with the first, so it adds its mean square to the MSE:

.. math:: \frac{c^2}{4L}\, E\bigl[\|\epsilon\|^2 (\epsilon^\top H\epsilon)^2\bigr]

for independent or orthogonal directions, and for directions that each have a random sign. The bias
does not change. The antithetic estimator is exact on quadratics, so it has no such term.

If the Hessian is random, with paired or shared samples, the same formulas hold with these
expectations for the mean Hessian over the N samples:
:math:`E(tr\,\bar H)^2`, :math:`E\|\bar H\|_F^2` and :math:`E\sum_j \bar H_{jj}^2`.
"""

from typing import NamedTuple

from gensmooth import checks


class HessianSquares(NamedTuple):
    r"""The sums of squares of a Hessian that the formulas below use.

    Attributes:
        trace2: :math:`(tr H)^2`.
        frobenius2: :math:`\|H\|_F^2`, the sum of the squares of all entries.
        diagonal2: :math:`\sum_j H_{jj}^2`.
    """

    trace2: float
    frobenius2: float
    diagonal2: float


def quadratic_spacing_mse(
    dim: int,
    num_directions: int,
    *,
    spacing: float,
    trace2: float,
    frobenius2: float,
    diagonal2: float,
    variance: float = 1.0,
    kurtosis: float = 3.0,
    sixth: float = 15.0,
) -> float:
    r"""The extra MSE of the forward difference for i.i.d. symmetric entries.

    With variance v, kurtosis k and sixth standardised moment κ₆,

    .. math:: \frac{c^2v^3}{4L} \Bigl[ (d - 2 + 2k) T + K \sum_j H_{jj}^2 \Bigr] ,
              \qquad T = (tr H)^2 + 2\|H\|_F^2 ,
              \qquad K = \kappa_6 + (d - 1)k - 3(d - 2 + 2k) .

    The brackets are :math:`(d + 4)T` for Gaussian entries (k = 3, κ₆ = 15) and
    :math:`d(T - 2\sum_j H_{jj}^2)` for fair Bernoulli entries (k = κ₆ = 1), independent or as rows
    of `hadamard`. Assumes a quadratic function; exact at every spacing.

    Args:
        dim: d.
        num_directions: L.
        spacing: c > 0.
        trace2: :math:`(tr H)^2`.
        frobenius2: :math:`\|H\|_F^2`, the sum of the squares of all entries.
        diagonal2: :math:`\sum_j H_{jj}^2`.
        variance: v > 0.
        kurtosis: k ≥ 1.
        sixth: κ₆ ≥ k².

    Raises:
        ValueError: If a number is out of range, or no matrix has these three sums of squares.

    Example:
        H = I in four dimensions, Gaussian and fair Bernoulli entries:

        >>> identity = dict(trace2=16.0, frobenius2=4.0, diagonal2=4.0)
        >>> quadratic_spacing_mse(4, 2, spacing=0.5, **identity)
        6.0
        >>> quadratic_spacing_mse(4, 2, spacing=0.5, **identity, kurtosis=1.0, sixth=1.0)
        2.0
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    c, v = _sizes(spacing, variance)
    k = checks.moderate("kurtosis", checks.kurtosis(kurtosis))
    checks.at_least("sixth", sixth, k**2, "kurtosis², by Cauchy–Schwarz")
    checks.nonnegative("trace2", trace2)
    checks.at_least("diagonal2", diagonal2, trace2 / d, "trace2 / dim, by Cauchy–Schwarz")
    checks.at_least("frobenius2", frobenius2, diagonal2, "diagonal2, which is a part of it")
    pairs = d - 2 + 2 * k  # Σ_a E[z_a² z_i² z_j²] for i ≠ j
    same = sixth + (d - 1) * k  # Σ_a E[z_a² z_i⁴]
    fourth = pairs * (trace2 + 2 * frobenius2) + (same - 3 * pairs) * diagonal2
    return c**2 * v**3 / (4 * L) * fourth


def quadratic_spacing_mse_sphere(
    dim: int,
    num_directions: int,
    *,
    spacing: float,
    trace2: float,
    frobenius2: float,
    variance: float = 1.0,
) -> float:
    r"""The extra MSE of the forward difference for directions of length √(vd) on the sphere.

    .. math:: \frac{c^2v^3}{4L}\,\frac{d^2}{d + 2} \bigl((tr H)^2 + 2\|H\|_F^2\bigr)

    for independent uniform directions and for exactly orthogonal, uniformly rotated ones (also with
    L > d). Assumes a quadratic function; exact at every spacing.

    Args:
        dim: d.
        num_directions: L.
        spacing: c > 0.
        trace2: :math:`(tr H)^2`.
        frobenius2: :math:`\|H\|_F^2`.
        variance: v > 0, the squared length divided by d.

    Example:
        >>> quadratic_spacing_mse_sphere(4, 2, spacing=0.5, trace2=16.0, frobenius2=4.0)
        2.0
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    return _rotated(d, L, spacing, trace2, frobenius2, variance, mean_length6=float(d) ** 3)


def quadratic_spacing_mse_gram_schmidt(
    dim: int,
    num_directions: int,
    *,
    spacing: float,
    trace2: float,
    frobenius2: float,
    variance: float = 1.0,
) -> float:
    r"""The extra MSE of the forward difference for the paper's Gram–Schmidt rows.

    The same as on the sphere, but the squared lengths of the rows are :math:`\chi^2_m`,
    m = d, d − 1, …:

    .. math:: \frac{c^2v^3}{4L}\,\frac{(tr H)^2 + 2\|H\|_F^2}{d(d + 2)}\,
              \frac1L\sum_l m_l(m_l + 2)(m_l + 4) .

    Assumes a quadratic function; exact at every spacing. If L > d, the rows form independent groups
    of d.

    Args:
        dim: d.
        num_directions: L.
        spacing: c > 0.
        trace2: :math:`(tr H)^2`.
        frobenius2: :math:`\|H\|_F^2`.
        variance: v > 0, the variance of the Gaussian entries before Gram–Schmidt.

    Example:
        One row is a Gaussian direction:

        >>> quadratic_spacing_mse_gram_schmidt(4, 1, spacing=0.5, trace2=16.0, frobenius2=4.0)
        12.0
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    full, rest = divmod(L, d)
    total = full * _sum_length6(d, d) + _sum_length6(d, rest)
    return _rotated(d, L, spacing, trace2, frobenius2, variance, mean_length6=total / L)


def _sum_length6(d: int, n: int) -> int:
    """Return Σ m(m+2)(m+4) over m = d−n+1, …, d, the sum of E r⁶ over the first n rows."""

    def up_to(m: int) -> int:  # Σ m³ + 6m² + 8m
        return (m * (m + 1) // 2) ** 2 + m * (m + 1) * (2 * m + 1) + 4 * m * (m + 1)

    return up_to(d) - up_to(d - n)


def _sizes(spacing: float, variance: float) -> tuple[float, float]:
    c, v = checks.positive("spacing", spacing), checks.positive("variance", variance)
    return checks.moderate("spacing", c), checks.moderate("variance", v)


def _rotated(
    d: int,
    L: int,
    spacing: float,
    trace2: float,
    frobenius2: float,
    variance: float,
    *,
    mean_length6: float,
) -> float:
    """Return the extra MSE for directions r·u with u uniform on the unit sphere."""
    c, v = _sizes(spacing, variance)
    checks.nonnegative("trace2", trace2)
    checks.at_least("frobenius2", frobenius2, trace2 / d, "trace2 / dim, by Cauchy–Schwarz")
    # E(uᵀHu)² = ((tr H)² + 2‖H‖²) / (d(d+2))
    curvature2 = (trace2 + 2 * frobenius2) / (d * (d + 2))
    return c**2 * v**3 / (4 * L) * mean_length6 * curvature2
