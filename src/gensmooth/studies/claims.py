"""From samples to verdicts: the two kinds of sentence that the paper writes.

*a is lower than b* is judged by paired one-sided t-tests, *a and b do not differ* by equivalence
tests (TOST) within a stated margin; a sentence about several cases is a family, corrected by
Holm's method. A sentence holds when every case (half of them, if it says "often") is shown, does
not hold when the opposite is shown in so many cases that it cannot, and is undecided otherwise:
that is a statement about n, not about the world.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gensmooth.studies.spec import ClaimRow, Verdict
from gensmooth.studies.statistics import compare, equivalence, holm

LEVEL = 0.05


class Contrast(NamedTuple):
    """Two samples over the same seeds.

    Attributes:
        label: Which case this is.
        a: One sample, lower is better, and
        b: the other.
    """

    label: str
    a: Sequence[float]
    b: Sequence[float]


def lower(
    name: str,
    place: str,
    claim: str,
    contrasts: Sequence[Contrast],
    what: str,
    *,
    share: float = 1.0,
) -> ClaimRow:
    """Judge "a is lower than b" in a share of the cases; scores are compared as logarithms.

    The share is 1 for a sentence about every case and ½ for one that says "often".
    """
    found = [compare(c.a, c.b, log=True) for c in contrasts]
    shown = holm([f.p_less for f in found])
    refuted = holm([f.p_greater for f in found])
    number = len(found)
    for_it, against = (sum(p < LEVEL for p in family) for family in (shown, refuted))
    verdict: Verdict = "undecided"
    if number and for_it >= share * number:
        verdict = "holds"
    elif against > (1 - share) * number:
        verdict = "does not hold"
    evidence = f"shown in {for_it} of {number}, the opposite in {against}. " + "; ".join(
        f"{c.label}: ratio {_ratio(f.effect)} [{_ratio(f.low)}, {_ratio(f.high)}], "
        f"d={f.standardized:.1f}, p={p:.2g}, n={f.n}"
        for c, f, p in zip(contrasts, found, shown, strict=True)
    )
    statistic = (
        f"{what}, ratio with 95 % interval; one-sided paired t-test of logarithms, Holm over "
        f"{len(contrasts)} case(s), Cohen's d"
    )
    return ClaimRow(name, place, claim, statistic, evidence, verdict)


def same(
    name: str,
    place: str,
    claim: str,
    contrasts: Sequence[Contrast],
    what: str,
    *,
    margin: float = 1.1,
) -> ClaimRow:
    """Judge "a and b do not differ in any case", up to a factor of ``margin``."""
    limit = math.log(margin)
    found = [compare(c.a, c.b, log=True) for c in contrasts]
    shown = holm([equivalence(c.a, c.b, margin=limit, log=True) for c in contrasts])
    within = sum(p < LEVEL for p in shown)
    apart = sum(f.low > limit or f.high < -limit for f in found)
    verdict: Verdict = "undecided"
    if found and within == len(found):
        verdict = "holds"
    elif apart:
        verdict = "does not hold"
    evidence = f"shown in {within} of {len(found)}, refuted in {apart}. " + "; ".join(
        f"{c.label}: ratio {_ratio(f.effect)} [{_ratio(f.low)}, {_ratio(f.high)}], "
        f"TOST p={p:.2g}, n={f.n}"
        for c, f, p in zip(contrasts, found, shown, strict=True)
    )
    statistic = (
        f"{what}, ratio with 95 % interval; equivalence within a factor of {margin:g} (two "
        f"one-sided paired t-tests of logarithms, Holm over {len(contrasts)} case(s)); refuted "
        "when an interval lies wholly outside"
    )
    return ClaimRow(name, place, claim, statistic, evidence, verdict)


def counted(
    name: str, place: str, claim: str, *, found: Sequence[str], wanted: int, of: int, what: str
) -> ClaimRow:
    """Judge "so many of these cases", literally."""
    evidence = f"{len(found)} of {of}: {', '.join(found) if found else 'none'}"
    verdict: Verdict = "holds" if len(found) == wanted else "does not hold"
    return ClaimRow(name, place, claim, what, evidence, verdict)


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean; infinite for an empty series (of a run that diverged at once)."""
    if len(values) == 0:
        return math.inf
    return float(np.exp(np.mean(np.log(np.asarray(values, float)))))


def _ratio(log_effect: float) -> str:
    return f"{math.exp(log_effect):.3g}" if log_effect < 700 else "inf"
