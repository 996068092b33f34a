r"""Optimal shrinkage in closed form.

`optimal_scale` in `gensmooth.theory.moments` is the factor for any family if nothing is known about
the objective. This module has its special cases from the paper, their comparison, and the factor
that minimises the total MSE if the gradient and the noise of the objective are known.
"""

import math
from typing import Literal, NamedTuple

from gensmooth import checks
from gensmooth.theory.mse import MseTerms

ScaleTarget = Literal["directions", "estimate"]


class EntryMoments(NamedTuple):
    """Variance and kurtosis (fourth standardised moment) of one entry of a direction."""

    variance: float
    kurtosis: float


class BernoulliParameters(NamedTuple):
    """The parameters of the entry distribution (B_p − p)/m."""

    p: float
    m: float


def optimal_variance(dim: int, num_directions: int, *, kurtosis: float = 3.0) -> float:
    r"""The variance of i.i.d. entries that minimises eq. `msepart1`, for any kurtosis.

    .. math:: \sigma^{2*} = \frac{L}{L + d + k - 2}, \qquad
              \text{relative MSE} = 1 - \sigma^{2*} .

    Theorem `thm:gsshrinkage` is the case k = 3, Theorem `thm:bsshrinkage` the case k = 1. Assumes
    i.i.d. entries of mean zero and spacing → 0; gradient noise is ignored.

    Args:
        dim: d.
        num_directions: L.
        kurtosis: k ≥ 1, the fourth standardised moment of an entry (3 for a Gaussian).

    Example:
        >>> optimal_variance(99, 25)
        0.2
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    return L / (L + d + checks.kurtosis(kurtosis) - 2.0)


def bernoulli_moments(p: float, m: float) -> EntryMoments:
    r"""Return the variance and kurtosis of the paper's entries (B_p − p)/m.

    .. math:: \sigma^2 = \frac{p(1-p)}{m^2}, \qquad
              k = 3 + \frac{1 - 6p(1-p)}{p(1-p)} = \frac1{p(1-p)} - 3 .

    Args:
        p: The probability of 1, strictly between 0 and 1.
        m: The divisor, positive.

    Example:
        >>> bernoulli_moments(0.5, 0.5)
        EntryMoments(variance=1.0, kurtosis=1.0)
    """
    p = checks.share("p", p)
    spread = p * (1.0 - p)
    m = checks.moderate("m", checks.positive("m", m), 1e-75)
    return EntryMoments(spread / m**2, 1.0 / spread - 3.0)


def bernoulli_optimum(dim: int, num_directions: int) -> BernoulliParameters:
    r"""The p and m that minimise eq. `bsminimize` (Theorem `thm:bsshrinkage`), for every L and d.

    .. math:: p^* = \tfrac12, \qquad m^* = \sqrt{\frac{L + d - 1}{4L}} .

    The paper's proof assumes L + d > 5, which is not necessary. For any p, the divisor m can set
    any variance; the best variance gives the relative MSE :math:`1 - L/(L + d + k - 2)`, which
    increases with k. At p = ½, k has its minimum, 1. No distribution has k < 1, so no other i.i.d.
    entries do better.

    Args:
        dim: d.
        num_directions: L.

    Example:
        >>> bernoulli_optimum(61, 20)
        BernoulliParameters(p=0.5, m=1.0)
    """
    return BernoulliParameters(
        0.5, 0.5 / math.sqrt(optimal_variance(dim, num_directions, kurtosis=1.0))
    )


def gs_vs_bes_shrinkage(
    dim: int,
    num_directions: int,
    *,
    gradient_norm2: float,
    noise_trace: float,
    num_samples: int = 1,
    samples: Literal["paired", "shared"] = "paired",
) -> float:
    r"""The MSE of GS-shrinkage minus that of BeS-shrinkage (Appendix `sec:gsvsbsshrinkage`).

    .. math:: \frac{2L}{(L+d-1)(L+d+1)} \Bigl(\|\nabla F\|^2
              + \kappa\,\frac{tr\,Var_\xi[\nabla f]}{N}\Bigr),
              \qquad \kappa = \frac{L^2 - 2L + 2 - (d+1)^2}{(L+d-1)(L+d+1)}

    for paired samples, as in the paper, and :math:`\kappa = -1` for shared ones. It is positive if
    BeS-shrinkage is better. Assumes i.i.d. entries, spacing → 0, and the forward or antithetic
    estimator.

    Args:
        dim: d.
        num_directions: L.
        gradient_norm2: :math:`\|\nabla F\|^2`.
        noise_trace: :math:`tr\,Var_\xi[\nabla f]`.
        num_samples: N.
        samples: ``"paired"`` or ``"shared"``.

    Example:
        >>> gs_vs_bes_shrinkage(100, 20, gradient_norm2=1.0, noise_trace=0.0) > 0
        True
        >>> gs_vs_bes_shrinkage(100, 20, gradient_norm2=0.0, noise_trace=1.0) > 0
        False
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    G = checks.nonnegative("gradient_norm2", gradient_norm2)
    noise = checks.nonnegative("noise_trace", noise_trace) / checks.count(
        "num_samples", num_samples
    )
    return 2.0 * L / ((L + d) ** 2 - 1) * (G + _noise_weight(d, L, samples) * noise)


def gs_vs_bes_threshold(
    dim: int,
    num_directions: int,
    *,
    noise_trace: float,
    num_samples: int = 1,
    samples: Literal["paired", "shared"] = "paired",
) -> float:
    r"""The :math:`\|\nabla F\|^2` above which BeS-shrinkage has the smaller MSE.

    It is :math:`-\kappa\,tr\,Var_\xi[\nabla f]/N` with κ as in `gs_vs_bes_shrinkage`, or 0 if
    BeS-shrinkage is better at every gradient, which for paired samples holds exactly if L > d + 1.
    With shared samples, the two are equal at :math:`\|\nabla F\|^2 = tr\,Var_\xi[\nabla f]/N`.

    Args:
        dim: d.
        num_directions: L.
        noise_trace: :math:`tr\,Var_\xi[\nabla f]`.
        num_samples: N.
        samples: ``"paired"`` or ``"shared"``.

    Example:
        >>> gs_vs_bes_threshold(100, 20, noise_trace=5.0, num_samples=5, samples="shared")
        1.0
        >>> gs_vs_bes_threshold(10, 12, noise_trace=5.0)
        0.0
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    noise = checks.nonnegative("noise_trace", noise_trace) / checks.count(
        "num_samples", num_samples
    )
    return max(0.0, -_noise_weight(d, L, samples) * noise)


def optimal_scale_whole(terms: MseTerms, *, scale: ScaleTarget = "directions") -> float:
    r"""The factor that minimises the total MSE if its terms are known.

    Let Q be the sum of the terms that are quadratic in the variance (`second`, `gradient_noise`,
    `curvature`), and C the sum of those that are linear (`value_noise`, `offset`). Scaling the
    directions by :math:`\sqrt v` gives :math:`G - 2aGv + Cv + Qv^2`, scaling the
    estimate by w gives :math:`G - 2aGw + (Q + C)w^2`, hence

    .. math:: v^* = \max\Bigl(0, \frac{aG - C/2}{Q}\Bigr), \qquad w^* = \frac{aG}{Q + C} .

    :math:`v^* = 0` means that noise dominates the values at this spacing: no scale of the
    directions beats an estimate of zero. Scaling the estimate always beats it, and is at least as
    good as scaling the directions if :math:`aG \le Q`. With a = 1, this holds if the gradient noise
    and the curvature are not negative (only the curvature of the one-point estimator and the noise
    of independent samples can be). For shared samples,
    :math:`v^* = \frac ab\,\frac{G}{G + tr V/N}`.

    Args:
        terms: The result of `mse_terms` for the directions before scaling.
        scale: What to scale: the ``"directions"`` by √v, or the ``"estimate"`` by w.

    Returns:
        :math:`v^*` or :math:`w^*`.

    Raises:
        ValueError: If a negative curvature leaves the expansion without a minimum.

    Example:
        >>> from gensmooth.theory import iid, mse_terms
        >>> terms = mse_terms(iid(99, 20), gradient_norm2=1.0, noise_trace=2.0, samples="shared")
        >>> round(optimal_scale_whole(terms), 6)  # 1/6 · 1/3
        0.055556
    """
    checks.one_of("scale", scale, ("directions", "estimate"))
    square = terms.second + terms.gradient_noise + terms.curvature
    linear = terms.value_noise + terms.offset
    if scale == "estimate":
        signal, square = terms.signal, square + linear
    else:
        signal = terms.signal - linear / 2.0
    if square < 0 or (square == 0 and signal > 0):
        raise ValueError(
            f"`terms` must have a positive quadratic coefficient, but it is {square}: the "
            "curvature is so negative that the MSE has no minimum at this order of expansion."
        )
    return signal / square if signal > 0 else 0.0


def _noise_weight(d: int, L: int, samples: str) -> float:
    """Return κ of `gs_vs_bes_shrinkage`."""
    checks.one_of("samples", samples, ("paired", "shared"))
    if samples == "shared":
        return -1.0
    return (L**2 - 2 * L + 2 - (d + 1) ** 2) / ((L + d) ** 2 - 1)
