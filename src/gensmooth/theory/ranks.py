r"""Rank-based steps: their weights, and their length under random selection.

Step-size control by path length compares the path of the last steps with that of a random walk.
This module computes the constants of that test for mirrored pairs. How the default method uses
them: `docs/pilot.md`.
"""

import math
from collections.abc import Iterable

from gensmooth import checks


def rank_weights(num_values: int) -> tuple[float, ...]:
    r"""Return logarithmic weights by rank, best first; the worse half has weight zero.

    .. math:: w_i \propto \max\Bigl(\log\frac{n+1}2 - \log i,\; 0\Bigr), \qquad \sum_i w_i = 1 .

    They depend only on the order of the values, so an increasing transformation of the objective
    changes nothing.

    Args:
        num_values: n ≥ 2; twice the number of directions for mirrored pairs.

    Example:
        >>> [round(w, 3) for w in rank_weights(6)]
        [0.637, 0.285, 0.078, 0.0, 0.0, 0.0]
    """
    n = checks.count("num_values", num_values, 2)
    raw = [max(math.log((n + 1) / 2) - math.log(rank), 0.0) for rank in range(1, n + 1)]
    total = math.fsum(raw)
    return tuple(w / total for w in raw)


def effective(weights: Iterable[float]) -> float:
    r"""The effective number of weights that sum to 1, :math:`\mu = 1/\sum_i w_i^2`.

    The weighted mean of independent values has the variance of a plain mean of μ values. For
    non-negative weights, μ lies between 1 (a single weight) and n (all equal). For `rank_weights`
    with large n, it is about :math:`n/4`.

    Args:
        weights: Any weights that sum to 1.

    Example:
        >>> round(effective(rank_weights(6)), 6), effective([0.25] * 4)
        (2.028611, 4.0)
    """
    return 1.0 / math.fsum(w * w for w in _weights(weights))


def mirrored_neutral(weights: Iterable[float]) -> float:
    r"""The factor M for which a random step of mirrored pairs has mean squared length :math:`d/M`.

    The points of a step are L mirrored pairs :math:`\pm z_l` with :math:`E\|z_l\|^2 = d`; the point
    of rank i has the weight :math:`w_i`, i = 1, …, λ = 2L. Under random selection, where every
    order of the λ points is equally likely whatever the directions are,

    .. math:: E\Bigl\|\sum_i w_i s_i z_i\Bigr\|^2 = \frac dM, \qquad
              \frac1M = \frac{\lambda W_2 - W_1^2}{\lambda - 1}, \qquad
              W_1 = \sum_i w_i,\; W_2 = \sum_i w_i^2 .

    *Proof.* Let a and b be the ranks of :math:`+z_l` and :math:`-z_l`, and
    :math:`\Delta_l = w_a - w_b`. The step is :math:`\sum_l \Delta_l z_l`. Exchanging the two ranks
    of one pair preserves the law of the order and flips the sign of one :math:`\Delta_l`, so
    :math:`E\Delta_l\Delta_m = 0` for l ≠ m. Ranks and directions are independent, so the mean
    squared length is :math:`\sum_l E\Delta_l^2\,E\|z_l\|^2 = L\,d\,E\Delta^2`. The ranks of a pair
    are two draws without replacement from λ, so
    :math:`E\Delta^2 = \frac2\lambda W_2 - \frac2{\lambda(\lambda-1)}(W_1^2 - W_2)
    = \frac2\lambda\cdot\frac{\lambda W_2 - W_1^2}{\lambda-1}`, and L = λ/2. ∎

    The result depends on the directions only through :math:`E\|z\|^2 = d`, so it is the same for
    Gaussian entries, coins, points of the sphere, and exactly orthogonal or Hadamard rows. It
    differs from `effective`, which applies to λ independent points:

    .. math:: \frac M\mu = \frac{\lambda - 1}{\lambda - \mu} \qquad (W_1 = 1) ,

    because weights on both points of a pair cancel. For `rank_weights`, this ratio is 1 at L = 1,
    1.26 at L = 3, 1.35 at L = 10, and tends to 4/3. With μ in place of M, a random walk would look
    13 or 14 % shorter than it is, and the step size would shrink when it should stay the same.

    Args:
        weights: One weight per rank: an even number, with any sum, not all equal.

    Example:
        >>> weights = rank_weights(6)
        >>> round(mirrored_neutral(weights), 6)
        2.554033
        >>> round(mirrored_neutral(weights) / effective(weights), 3)
        1.259
    """
    w = _weights(weights)
    n = len(w)
    if n % 2:
        raise ValueError(
            f"`weights` must have an even length, two per mirrored pair, but has length {n}."
        )
    # Σ (w − mean)² = W2 − W1²/λ, computed so that equal weights give exactly zero.
    mean = math.fsum(w) / n
    spread = math.fsum((x - mean) ** 2 for x in w)
    if not spread > 1e-24 * math.fsum(x * x for x in w):
        raise ValueError("`weights` must not all be equal: mirrored points would cancel.")
    return (n - 1) / (n * spread)


def _weights(weights: Iterable[float]) -> tuple[float, ...]:
    """Return the weights if they are finite and not all zero."""
    w = tuple(checks.finite("weights", x) for x in weights)
    if not any(w):
        raise ValueError("`weights` must not be empty or all zero.")
    return w
