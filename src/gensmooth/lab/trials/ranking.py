"""Ranks methods: mean ranks, paired intervals, and a verdict in words on every pair.

Seeds are shared, so differences are paired. If all values are positive, they are compared by their
ratio (t-tests of logarithms), otherwise by their difference. A run that failed or diverged counts
as the worst, and its pairs are tested by ranks. P-values are two-sided and corrected by Holm's
method over all pairs, because the best method is picked after the fact; intervals are 95 % each.
The tests are those of :mod:`gensmooth.lab.experiments.statistics`.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gensmooth.lab.experiments.statistics import compare, holm, interval
from gensmooth.lab.experiments.verdicts import LEVEL


class Standing(NamedTuple):
    """A method's final values.

    Attributes:
        label: The method.
        values: One for each seed, with the user's sign; infinite if the run failed.
        mean: The mean of the finite values (geometric if ratios are compared); NaN if there are
            none.
        low: The lower end of its 95 % interval.
        high: The upper end.
        rank: Its rank among the methods, averaged over seeds; 1 is the best.
        failed: The number of runs that failed or diverged.
    """

    label: str
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    rank: float
    failed: int


class Versus(NamedTuple):
    """Two methods, seed by seed; ``a`` is the one that ranks higher.

    Attributes:
        a: One method.
        b: The other.
        wins: The number of seeds in which a ends better than b.
        seeds: The number of seeds.
        ratio: Whether effect and interval are ratios a / b; otherwise differences a − b.
        effect: The effect over the seeds in which both have a value.
        low: The lower end of its 95 % interval.
        high: The upper end.
        p: The two-sided p-value, corrected for the number of pairs.
        decided: Whether p is below 5 %.
        words: The verdict.
    """

    a: str
    b: str
    wins: int
    seeds: int
    ratio: bool
    effect: float
    low: float
    high: float
    p: float
    decided: bool
    words: str


def by_ratio(values: Mapping[str, Sequence[float]], *, maximize: bool = False) -> bool:
    """Return whether values are compared by their ratio: if all of them are positive."""
    finite = [value for each in values.values() for value in each if math.isfinite(value)]
    return not maximize and bool(finite) and min(finite) > 0


def standings(values: Mapping[str, Sequence[float]], *, maximize: bool = False) -> list[Standing]:
    """Return the methods, the best first.

    Args:
        values: The final values of each method, one for each seed; not finite if the run failed.
        maximize: Whether high values are good.
    """
    ratio = by_ratio(values, maximize=maximize)
    table = np.array([_losses(each, ratio, maximize) for each in values.values()])
    ranks = _ranks(table)
    ranked: list[Standing] = []
    for row, rank, (label, finals) in zip(table, ranks, values.items(), strict=True):
        finite = row[np.isfinite(row)]
        middle, low, high = interval(finite)
        ends = [_value(end, ratio, maximize) for end in (middle, low, high)]
        failed = len(row) - len(finite)
        low, high = min(ends[1:]), max(ends[1:])
        mean_rank = float(rank.mean())
        ranked.append(Standing(label, tuple(finals), ends[0], low, high, mean_rank, failed))
    sign = -1 if maximize else 1
    return sorted(ranked, key=lambda each: (each.rank, math.isnan(each.mean), sign * each.mean))


def pairs(values: Mapping[str, Sequence[float]], *, maximize: bool = False) -> list[Versus]:
    """Return every pair of methods, those that rank highest first."""
    ratio = by_ratio(values, maximize=maximize)
    order = [each.label for each in standings(values, maximize=maximize)]
    losses = {label: _losses(values[label], ratio, maximize) for label in order}
    chosen = list(combinations(order, 2))
    tests = [compare(losses[a], losses[b]) for a, b in chosen]
    corrected = holm([min(1.0, 2 * min(test.p_less, test.p_greater)) for test in tests])
    verdicts: list[Versus] = []
    for (a, b), test, p in zip(chosen, tests, corrected, strict=True):
        ends = [_value(end, ratio, maximize) for end in (test.effect, test.low, test.high)]
        wins = sum(x < y for x, y in zip(losses[a], losses[b], strict=True))
        decided = p < LEVEL
        low, high = min(ends[1:]), max(ends[1:])
        pair = Versus(a, b, wins, test.n, ratio, ends[0], low, high, p, decided, "")
        verdicts.append(pair._replace(words=_words(pair, len(tests), test.diverged, maximize)))
    return verdicts


def _words(pair: Versus, tests: int, failed: tuple[int, int], maximize: bool) -> str:
    a, b, n = pair.a, pair.b, pair.seeds
    side = "above" if maximize else "below"
    lost = [
        f"{label} failed in {'all' if count == n else f'{count} of'} {n} runs"
        for label, count in zip((a, b), failed, strict=True)
        if count
    ]
    if n in failed:
        return "; ".join(lost) + "."
    number = f"{'ratio' if pair.ratio else 'difference'} {shown(pair.effect)}"
    if n > 1:
        number += f" [{shown(pair.low)}, {shown(pair.high)}]"
    if lost:
        number += f" where both have a value; {'; '.join(lost)}"
    if n == 1:
        return f"{a} ends {side} {b} with the only seed, {number}: one seed decides nothing."
    p = f"p = {shown(pair.p)}" + (f", corrected for {tests} pairs" if tests > 1 else "")
    found = f"{a} {side} {b} in {pair.wins} of {n}"
    if pair.decided:
        return f"{found} seeds, {number}, {p}."
    return f"{a} and {b} cannot be told apart with {n} seeds: {found}, {number}, {p}."


def shown(value: float) -> str:
    """Return a number in a sentence.

    >>> shown(0.70712), shown(-3.0), shown(1e-12)
    ('0.707', '−3', '1e−12')
    """
    return f"{value:.3g}".replace("-", "−")


def _losses(values: Sequence[float], ratio: bool, maximize: bool) -> list[float]:
    """Convert values to losses: lower is better, +∞ is a run that failed."""
    signed = [-value if maximize else value for value in values]
    logs = [math.log(value) if ratio and math.isfinite(value) else value for value in signed]
    return [value if math.isfinite(value) else math.inf for value in logs]


def _value(loss: float, ratio: bool, maximize: bool) -> float:
    if ratio:
        return math.inf if loss > 700 else math.exp(loss)
    return -loss if maximize else loss


def _ranks(table: np.ndarray) -> np.ndarray:
    """Rank the methods for each seed; equal values get the mean of their ranks."""
    below = (table[:, None, :] > table[None, :, :]).sum(axis=1)
    same = (table[:, None, :] == table[None, :, :]).sum(axis=1)
    return below + (same + 1) / 2
