"""Tests that can decide at five seeds: paired t-tests, Holm's correction, equivalence (TOST).

Seeds are shared between methods (same data, same start), so differences are paired. Scores that
are positive and vary over orders of magnitude are compared as logarithms: an effect is then a
ratio. A rank test is never used: at n = 5 its smallest two-sided p-value is 1/16.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class Comparison(NamedTuple):
    """A paired comparison of two samples, a against b.

    Attributes:
        n: Pairs with both scores finite.
        effect: The mean difference a − b (of logarithms: ``exp(effect)`` is the ratio).
        low: Lower end of its 95 % confidence interval, and
        high: upper end.
        standardized: Cohen's d of the differences.
        p_less: One-sided p-value for a < b, and
        p_greater: for a > b.
    """

    n: int
    effect: float
    low: float
    high: float
    standardized: float
    p_less: float
    p_greater: float

    @property
    def p_different(self) -> float:
        """Two-sided p-value."""
        return min(1.0, 2 * min(self.p_less, self.p_greater))


def compare(a: Sequence[float], b: Sequence[float], *, log: bool = False) -> Comparison:
    """Paired t-test of two samples over the same seeds.

    A pair in which one score is infinite (a run diverged) cannot be averaged: it is left out of
    the effect, but a difference of divergence in *every* pair decides the comparison.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    both = np.isfinite(first) & np.isfinite(second)
    if not both.any():
        finite_a, finite_b = bool(np.isfinite(first).all()), bool(np.isfinite(second).all())
        sign = math.nan if finite_a == finite_b else (-math.inf if finite_a else math.inf)
        p_less = 0.0 if sign < 0 else 1.0
        return Comparison(0, sign, sign, sign, sign, p_less, 0.0 if sign > 0 else 1.0)
    first, second = first[both], second[both]
    difference = np.log(first) - np.log(second) if log else first - second
    n = len(difference)
    mean = float(difference.mean())
    if n < 2:
        return Comparison(n, mean, -math.inf, math.inf, math.nan, 1.0, 1.0)
    deviation = float(difference.std(ddof=1))
    if deviation == 0.0:
        p_less, p_greater = float(mean >= 0), float(mean <= 0)
        return Comparison(n, mean, mean, mean, math.copysign(math.inf, mean), p_less, p_greater)
    error = deviation / math.sqrt(n)
    t = mean / error
    margin = _t_quantile(0.975, n - 1) * error
    p_less, p_greater = _t_below(t, n - 1), _t_below(-t, n - 1)
    return Comparison(n, mean, mean - margin, mean + margin, mean / deviation, p_less, p_greater)


def equivalence(
    a: Sequence[float], b: Sequence[float], *, margin: float, log: bool = False
) -> float:
    """The p-value of two one-sided tests: small means |a − b| < margin is shown.

    Args:
        a: One sample, and
        b: the other, over the same seeds.
        margin: Differences below this do not matter (of logarithms: ``log(1.1)`` is 10 %).
        log: Compare logarithms.
    """
    found = compare(a, b, log=log)
    if found.n < 2:
        return 1.0
    if found.low == found.high:
        return 0.0 if abs(found.effect) < margin else 1.0
    error = (found.high - found.low) / 2 / _t_quantile(0.975, found.n - 1)
    above = _t_below(-(found.effect + margin) / error, found.n - 1)
    below = _t_below((found.effect - margin) / error, found.n - 1)
    return max(above, below)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: each may be compared with the level of the whole family.

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


def _t_below(t: float, freedom: int) -> float:
    """Student's distribution function."""
    special: Any = import_module("scipy.special")
    return float(special.stdtr(freedom, t))


def _t_quantile(p: float, freedom: int) -> float:
    """Student's quantile function."""
    special: Any = import_module("scipy.special")
    return float(special.stdtrit(freedom, p))
