"""Paired tests that can decide with five seeds, and count a diverged run as the worst outcome.

Numbers here are losses: lower is better, and +∞ is a run that diverged. Seeds are shared between
methods (same data, same start), so differences are paired.

- Where every number is finite: paired t-tests. (A rank test cannot reach 5 % after Holm's
  correction at n = 5: its smallest one-sided p-value is 1/32.)
- Where a run diverged, differences have no mean. Then both samples are replaced by their ranks
  among all 2n numbers (ties, such as the diverged runs, share their mean rank), and the paired
  t-test is made on the ranks: Conover and Iman's rank transformation. A diverged run is worse than
  every finite one, however large, and no pair is left out.
- "Alike" (two one-sided tests within a margin) is never shown if, for some seed, one method
  diverged and the other did not.
- Holm's method corrects the p-values of one claim, for showing and for refuting it.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class PairedTest(NamedTuple):
    """A paired comparison of two samples of losses, a against b.

    Attributes:
        n: Pairs.
        effect: The mean difference a − b over the pairs in which both are finite; NaN if there
            are none.
        low: The lower end of its 95 % confidence interval.
        high: The upper end.
        standardized: Cohen's d of these differences.
        diverged: The number of diverged runs of a and of b. If there are any, the p-values are
            those of the test on ranks.
        p_less: One-sided p-value for a < b.
        p_greater: One-sided p-value for a > b.
    """

    n: int
    effect: float
    low: float
    high: float
    standardized: float
    diverged: tuple[int, int]
    p_less: float
    p_greater: float


def compare(a: Sequence[float], b: Sequence[float], *, by: float = 0.0) -> PairedTest:
    """Test whether a is lower, or higher, than b + ``by``.

    Args:
        a: One sample; +∞ for a run that diverged.
        b: The other, over the same seeds.
        by: The difference that is tested against.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lost = (int(np.isinf(first).sum()), int(np.isinf(second).sum()))
    both = np.isfinite(first) & np.isfinite(second)
    difference = first[both] - second[both]
    effect, low, high, standardized = _interval(difference)
    if any(lost):
        ranks = _ranks(np.concatenate([first, second + by]))
        p_less, p_greater = _t_test(ranks[: len(first)] - ranks[len(first) :])
    else:
        p_less, p_greater = _t_test(difference - by)
    return PairedTest(len(first), effect, low, high, standardized, lost, p_less, p_greater)


def equivalence(a: Sequence[float], b: Sequence[float], *, margin: float) -> float:
    """Return the p-value of two one-sided tests: small means that |a − b| < margin is shown."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if (np.isinf(first) != np.isinf(second)).any():
        return 1.0
    both = np.isfinite(first)
    difference = first[both] - second[both]
    if len(difference) < 2:
        return 1.0
    return max(_t_test(difference - margin)[0], _t_test(difference + margin)[1])


def apart(a: Sequence[float], b: Sequence[float], *, margin: float) -> float:
    """Return the two-sided p-value for |a − b| > margin: small means that a and b are not alike."""
    above, below = compare(a, b, by=margin).p_greater, compare(a, b, by=-margin).p_less
    return min(1.0, 2.0 * min(above, below))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, to compare with the level of the whole family.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def interval(values: Sequence[float] | Floats) -> tuple[float, float, float]:
    """Return the mean of some numbers, and its 95 % confidence interval (Student's t).

    >>> [round(end, 2) for end in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    mean, low, high, _ = _interval(np.asarray(values, np.float64))
    return mean, low, high


def _interval(difference: Floats) -> tuple[float, float, float, float]:
    """Return the mean, the 95 % interval and Cohen's d."""
    n = len(difference)
    mean = float(difference.mean()) if n else math.nan
    if n < 2:
        return mean, -math.inf, math.inf, math.nan
    deviation = float(difference.std(ddof=1))
    if deviation == 0.0:
        return mean, mean, mean, math.copysign(math.inf, mean) if mean else 0.0
    margin = _special().stdtrit(n - 1, 0.975) * deviation / math.sqrt(n)
    return mean, mean - float(margin), mean + float(margin), mean / deviation


def _t_test(difference: Floats) -> tuple[float, float]:
    """Return the one-sided p-values for a mean below zero and above zero."""
    n = len(difference)
    if n < 2:
        return 1.0, 1.0
    mean, deviation = float(difference.mean()), float(difference.std(ddof=1))
    if deviation == 0.0:
        return float(mean >= 0), float(mean <= 0)
    t = mean / (deviation / math.sqrt(n))
    below: Any = _special().stdtr
    return float(below(n - 1, t)), float(below(n - 1, -t))


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def _special() -> Any:
    return import_module("scipy.special")
