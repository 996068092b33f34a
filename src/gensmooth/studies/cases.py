"""Verdicts on sentences about returns, of whose cases some may not have been run.

Returns may be negative, so they are compared by differences, and environments have units of their
own, so differences are in units of each setting's range. *a is above b* and *a is competitive with
b* are one-sided paired t-tests (of a difference above 0, or above minus a margin), *a and b are
alike* is an equivalence test (TOST); a sentence is a family, corrected by Holm's method. A case
that has not been run counts neither way: a verdict is given when the others decide it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gensmooth.studies.claims import LEVEL
from gensmooth.studies.spec import ClaimRow, Verdict
from gensmooth.studies.statistics import Comparison, compare, equivalence, holm

# How many cases a sentence is about: every one; more than half; half or more; at least one.
How = Literal["all", "most", "often", "some"]


class Case(NamedTuple):
    """Two samples over the same seeds, higher is better, in units of the setting's range.

    Attributes:
        label: Which case this is.
        a: One sample, and
        b: the other; ``None`` for both if they have not been run.
    """

    label: str
    a: Sequence[float] | None
    b: Sequence[float] | None


class Sentence(NamedTuple):
    """A sentence of the paper.

    Attributes:
        name: A short name.
        place: Where the paper says it.
        claim: What it says, in our words.
    """

    name: str
    place: str
    claim: str


def above(
    sentence: Sentence, cases: Sequence[Case], what: str, *, how: How = "all", by: float = 0.0
) -> ClaimRow:
    """Judge "a is above b by more than ``by``"; a negative ``by`` is "a is competitive with b"."""
    run = [case for case in cases if case.a is not None and case.b is not None]
    found = [_compare(case) for case in run]
    shifted = [_compare(case, by) for case in run]
    shown = holm([f.p_greater for f in shifted])
    refuted = holm([f.p_less for f in shifted])
    test = "one-sided paired t-test"
    if by:
        test += f" of a difference above {_percent(by)} of the range"
    return _row(sentence, cases, run, found, (shown, refuted), how, f"{what}; {test}")


def alike(sentence: Sentence, cases: Sequence[Case], what: str, *, margin: float) -> ClaimRow:
    """Judge "a and b are alike in every case", up to a margin.

    A case is refuted when the interval of the difference lies wholly outside of the margin.
    """
    run = [case for case in cases if case.a is not None and case.b is not None]
    found = [_compare(case) for case in run]
    shown = holm([equivalence(case.a or (), case.b or (), margin=margin) for case in run])
    refuted = [0.0 if f.low > margin or f.high < -margin else 1.0 for f in found]
    test = f"equivalence within {_percent(margin)} of the range (two one-sided paired t-tests)"
    return _row(sentence, cases, run, found, (shown, refuted), "all", f"{what}; {test}")


def _compare(case: Case, by: float = 0.0) -> Comparison:
    """The difference a − b − by. As losses, so that a run that diverged is the worst of all."""
    return compare([-v for v in case.b or ()], [by - v for v in case.a or ()])


def _row(
    sentence: Sentence,
    cases: Sequence[Case],
    run: Sequence[Case],
    found: Sequence[Comparison],
    tests: tuple[Sequence[float], Sequence[float]],
    how: How,
    what: str,
) -> ClaimRow:
    shown, refuted = tests
    for_it, against = (sum(p < LEVEL for p in family) for family in tests)
    number = len(cases)
    needed = {"all": number, "most": number // 2 + 1, "often": (number + 1) // 2, "some": 1}[how]
    verdict: Verdict = "undecided"
    if number and for_it >= needed:
        verdict = "holds"
    elif against > number - needed:
        verdict = "does not hold"
    elif len(run) < number:
        verdict = "not run"
    missing = number - len(run)
    evidence = "none of its cases has been run"
    if run:
        evidence = f"shown in {for_it} of {number}, the opposite in {against}"
        evidence += f", {missing} not run. " if missing else ". "
        evidence += "; ".join(
            f"{case.label}: {_percent(f.effect, sign=True)} [{_percent(f.low, sign=True)}, "
            f"{_percent(f.high, sign=True)}], d={f.standardized:.1f}, p={min(yes, 1.0):.2g}"
            f"{' (opposite)' if no < LEVEL else ''}, n={f.n}"
            for case, f, yes, no in zip(run, found, shown, refuted, strict=True)
        )
    quantity = {
        "all": "all",
        "most": "more than half",
        "often": "at least half",
        "some": "at least one",
    }[how]
    statistic = (
        f"{what}, Holm over the cases that have been run; differences in percent of the range of "
        f"the setting's mean curves, with 95 % interval; to be shown in {quantity} of {number}"
    )
    return ClaimRow(*sentence, statistic, evidence, verdict)


def _percent(value: float, *, sign: bool = False) -> str:
    return f"{100 * value:{'+' if sign else ''}.3g} %".replace("-", "−")
