"""Judge sentences by the numbers of runs.

A study produces a table with one row per run (:class:`Scores`). A sentence is a list of cases, each
of which compares two samples over the same seeds:

- *a is better than b* (:func:`better`): a one-sided test. If the sentence says "by a large margin"
  or "competitive", the difference is tested against a positive or a negative margin.
- *a and b are alike* (:func:`alike`): an equivalence test within a stated margin, refuted by a
  two-sided test of a difference beyond it.
- *one of these is better than b* (:class:`AnyOf`): the smallest p-value times the number of
  candidates (Bonferroni); refuted if every candidate is refuted.
- *a is better than each of these* (:class:`AllOf`): the largest p-value, since all must be shown;
  refuted by the smallest p-value against one rival, times the number of rivals.

The p-values of a sentence are corrected by Holm's method, separately for showing and for refuting
it; there is no correction across sentences. A sentence holds if enough of its cases are shown. It
does not hold if the opposite is shown in so many cases that too few are left. Otherwise it is
undecided: more seeds may decide it. A case that has not been run counts neither way.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from gensmooth.lab.experiments.statistics import PairedTest, apart, compare, equivalence, holm
from gensmooth.lab.report.tables import ClaimRow, Table, Verdict

LEVEL = 0.05

# How many cases a sentence is about: every one; more than half; half or more; at least one.
How = Literal["all", "most", "often", "some"]
Sample = Sequence[float] | None  # one number per seed; None where it has not been run

_QUANTITY: Mapping[How, str] = {
    "all": "all",
    "most": "more than half",
    "often": "at least half",
    "some": "at least one",
}


class Scores(NamedTuple):
    """The numbers that claims are judged by.

    Attributes:
        rows: One flat row per run: ``method``, ``seed``, the entries of its setting, and numbers
            by name.
    """

    rows: Sequence[Mapping[str, Any]] = ()

    def sample(self, name: str, **where: Any) -> list[float] | None:
        """Return a number of each matching run in the order of seeds; ``None`` if there is none.

        >>> rows = [{"method": "gs", "seed": seed, "loss": 0.5 + seed} for seed in (2, 1)]
        >>> Scores(rows).sample("loss", method="gs")
        [1.5, 2.5]
        """
        rows = [
            row
            for row in self.rows
            if name in row and all(row.get(key) == value for key, value in where.items())
        ]
        ordered = sorted(rows, key=lambda row: row.get("seed", 0))
        return [float(row[name]) for row in ordered] or None

    def values(self, *keys: str) -> list[tuple[Any, ...]]:
        """Return the distinct settings, in the order of the rows."""
        return list(dict.fromkeys(tuple(row.get(key) for key in keys) for row in self.rows))

    def table(self, study: str) -> Table:
        """Return a table of the report, ``runs-STUDY.csv``."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        rows = [[row.get(name, "") for name in columns] for row in self.rows]
        return Table(f"runs-{study}", "The numbers of each run that claims use", columns, rows)

    @classmethod
    def read(cls, rows: Sequence[Mapping[str, str]]) -> "Scores":
        """Read the rows of that file; what looks like a number becomes one."""
        return cls([{k: _value(v) for k, v in row.items() if v != ""} for row in rows])


class Sentence(NamedTuple):
    """A sentence of the paper.

    Attributes:
        id: A short name, such as ``"linreg-mse-smaller"``.
        place: Its place in the paper.
        claim: The claim, in our words.
    """

    id: str
    place: str
    claim: str


class Case(NamedTuple):
    """Two samples over the same seeds.

    Attributes:
        label: Which case this is.
        a: One sample; ``None`` if it has not been run.
        b: The other sample.
    """

    label: str
    a: Sample
    b: Sample


class AnyOf(NamedTuple):
    """Several cases of which one suffices.

    Attributes:
        cases: The candidates, each against the same rival.
    """

    cases: Sequence[Case]


class AllOf(NamedTuple):
    """Several cases all of which are needed: one candidate against the best of several rivals.

    Attributes:
        cases: The rivals, each against the same candidate.
    """

    cases: Sequence[Case]


class Measure(NamedTuple):
    """The quantity that is compared.

    Attributes:
        what: Its description.
        better: Whether a low or a high number is good. A run that diverged has the worst number.
        ratio: Whether numbers are positive and compared by their ratio (as logarithms); otherwise
            by their difference.
        unit: The unit of differences, such as ``"of the reference range"``.
    """

    what: str
    better: Literal["lower", "higher"] = "lower"
    ratio: bool = True
    unit: str = ""

    def losses(self, sample: Sample) -> list[float]:
        """Return losses: lower is better, and +∞ is a run that diverged."""
        values = [float(v) for v in sample or ()]
        if self.ratio:
            values = [math.log(max(v, 5e-324)) for v in values]
        return values if self.better == "lower" else [-v for v in values]

    def size(self, value: float) -> float:
        """Return a margin (a factor, or a difference) in the units of losses."""
        return math.log(value) if self.ratio else value

    def shown(self, test: PairedTest) -> str:
        """Return an effect with its interval, with the sign of the original numbers."""
        sign = 1.0 if self.better == "lower" else -1.0
        ends = sorted((sign * test.low, sign * test.high))
        text = f"{self._number(sign * test.effect)} [{', '.join(map(self._number, ends))}]"
        text = f"ratio {text}" if self.ratio else text
        if any(test.diverged):
            pairs = "" if math.isnan(test.effect) else f"{text} where neither did, "
            a, b = test.diverged
            return f"{a} and {b} of {test.n} runs diverged, {pairs}by ranks"
        return f"{text}, d={sign * test.standardized:.1f}"

    def _number(self, value: float) -> str:
        if self.ratio:
            return f"{math.exp(value):.3g}" if value < 700 else "inf"
        return percent(value, sign=True)


def better(
    sentence: Sentence,
    cases: Sequence[Case | AnyOf | AllOf],
    measure: Measure,
    *,
    how: How | int = "all",
    by: float | None = None,
) -> ClaimRow:
    """Judge "a is better than b by more than a margin", in all or a number of cases.

    Args:
        sentence: The sentence.
        cases: Its cases.
        measure: The quantity that is compared.
        how: In how many cases it must be shown; a number means at least that many.
        by: The margin: a difference, negative for "competitive"; or, for ratios, a factor.
    """
    margin = 0.0 if by is None else measure.size(by)

    def test(case: Case) -> _Tested:
        a, b = measure.losses(case.a), measure.losses(case.b)
        tested = compare(a, b, by=-margin)
        return _Tested(case.label, compare(a, b), tested.p_less, tested.p_greater)

    words = "one-sided paired t-test" + (" of logarithms" if measure.ratio else "")
    if by is not None:
        amount = f"a factor of {by:g}" if measure.ratio else f"{percent(by)} {measure.unit}"
        words += f" of an advantage above {amount}"
    return _row(sentence, cases, test, measure, how, words)


def alike(
    sentence: Sentence, cases: Sequence[Case], measure: Measure, *, margin: float, why: str = ""
) -> ClaimRow:
    """Judge "a and b are alike in every case", up to a margin.

    Args:
        sentence: The sentence.
        cases: Its cases.
        measure: The quantity that is compared.
        margin: A factor (for ratios) or a difference; smaller differences do not matter. With 1
            (for differences 0) the sentence is "not significantly different", which a test can
            refute, but not show.
        why: The reason for this margin, in words.
    """
    limit = measure.size(margin)

    def test(case: Case) -> _Tested:
        a, b = measure.losses(case.a), measure.losses(case.b)
        shown, refuted = equivalence(a, b, margin=limit), apart(a, b, margin=limit)
        return _Tested(case.label, compare(a, b), shown, refuted)

    logarithms = " of logarithms" if measure.ratio else ""
    amount = f"a factor of {margin:g}" if measure.ratio else f"{percent(margin)} {measure.unit}"
    words = (
        f"equivalence within {amount}{f' ({why})' if why else ''}, two one-sided paired "
        f"t-tests{logarithms}; refuted two-sided"
    )
    if limit == 0.0:
        words = f"two-sided paired t-test{logarithms}, which can refute it and cannot show it"
    return _row(sentence, cases, test, measure, "all", words)


def not_different(
    sentence: Sentence, cases: Sequence[Case], measure: Measure, *, margin: float, why: str
) -> ClaimRow:
    """Judge "not significantly different" in both of its readings.

    With enough seeds, even a small difference is significant. So one reading allows a margin, and
    the other takes the words literally, with the seeds at hand.
    """
    amount = f"a factor of {margin:g}" if measure.ratio else f"{percent(margin)} {measure.unit}"
    return readings(
        sentence,
        {
            f"they differ by less than {amount}": alike(
                sentence, cases, measure, margin=margin, why=why
            ),
            "no difference is significant with these seeds": alike(
                sentence, cases, measure, margin=1.0 if measure.ratio else 0.0
            ),
        },
    )


def readings(sentence: Sentence, rows: Mapping[str, ClaimRow]) -> ClaimRow:
    """Judge a sentence that can be read in several ways, or scored by several measures.

    If all readings agree, their verdict is the sentence's. If one of them has not been run, it is
    "not run"; if they disagree, it is "depends on the reading".

    Args:
        sentence: The sentence.
        rows: Its verdict under each reading, by the words of the reading; the main one first.
    """
    verdicts: set[Verdict] = {row.verdict for row in rows.values()}
    verdict: Verdict = "not run" if "not run" in verdicts else "depends on the reading"
    return _joined(sentence, rows, verdicts.pop() if len(verdicts) == 1 else verdict)


def together(sentence: Sentence, parts: Mapping[str, ClaimRow]) -> ClaimRow:
    """Judge a sentence with several parts: it holds if each of them does."""
    verdicts = {part.verdict for part in parts.values()}
    order: tuple[Verdict, ...] = (
        "does not hold",
        "not run",
        "depends on the reading",
        "undecided",
        "holds",
    )
    return _joined(sentence, parts, next(v for v in order if v in verdicts))


def _joined(sentence: Sentence, rows: Mapping[str, ClaimRow], verdict: Verdict) -> ClaimRow:
    evidence = "; ".join(f"{words}: {row.verdict} ({row.evidence})" for words, row in rows.items())
    statistic = "; ".join(dict.fromkeys(row.statistic for row in rows.values()))
    return ClaimRow(*sentence, statistic, evidence, verdict)


def counted(
    sentence: Sentence, *, found: Sequence[str], of: int, what: str, wanted: int | None = None
) -> ClaimRow:
    """Judge a claim about formulas: it holds if ``wanted`` cases (by default all) were found."""
    evidence = f"{len(found)} of {of}: {', '.join(found) if found else 'none'}"
    verdict: Verdict = "holds" if len(found) >= (wanted or of) else "does not hold"
    return ClaimRow(*sentence, what, evidence, verdict)


def percent(value: float, *, sign: bool = False) -> str:
    """Format a fraction in percent.

    >>> percent(-0.1), percent(0.25, sign=True)
    ('−10 %', '+25 %')
    """
    return f"{100 * value:{'+' if sign else ''}.3g} %".replace("-", "−")


class _Tested(NamedTuple):
    """A case that has been run: its effect, and the p-values for and against it."""

    label: str
    test: PairedTest
    shown: float
    refuted: float


def _row(
    sentence: Sentence,
    cases: Sequence[Case | AnyOf | AllOf],
    test: Callable[[Case], _Tested],
    measure: Measure,
    how: How | int,
    words: str,
) -> ClaimRow:
    run = [case for case in cases if _has_run(case)]
    tested = [_test(case, test) for case in run]
    shown, refuted = holm([t.shown for t in tested]), holm([t.refuted for t in tested])
    for_it, against = (sum(p < LEVEL for p in family) for family in (shown, refuted))
    number, missing = len(cases), len(cases) - len(run)
    needed = how
    if not isinstance(needed, int):
        shares = {"all": number, "most": number // 2 + 1, "often": (number + 1) // 2, "some": 1}
        needed = shares[needed]
    verdict: Verdict = "undecided"
    if number and for_it >= needed:
        verdict = "holds"
    elif against > number - needed:
        verdict = "does not hold"
    elif missing or not number:
        verdict = "not run"
    evidence = "none of its cases has been run"
    if run:
        evidence = f"shown in {for_it} of {number}, the opposite in {against}"
        evidence += f", {missing} not run. " if missing else ". "
        evidence += "; ".join(
            f"{t.label}: {measure.shown(t.test)}, p={yes:.2g}"
            f"{f' (opposite: p={no:.2g})' if no < LEVEL else ''}, n={t.test.n}"
            for t, yes, no in zip(tested, shown, refuted, strict=True)
        )
    effects = "ratios" if measure.ratio else f"differences in percent {measure.unit}"
    if any(isinstance(case, AnyOf) for case in cases):
        words += ", smallest p of the candidates times their number"
    if any(isinstance(case, AllOf) for case in cases):
        words += ", largest p of the rivals"
    quantity = f"at least {how}" if isinstance(how, int) else _QUANTITY[how]
    statistic = (
        f"{measure.what}; {words}, Holm over {how_many(len(run), 'case')}; {effects} with 95 % "
        f"interval; to be shown in {quantity} of {number}"
    )
    return ClaimRow(*sentence, statistic, evidence, verdict)


def _has_run(case: Case | AnyOf | AllOf) -> bool:
    cases = [case] if isinstance(case, Case) else case.cases
    return all(c.a is not None and c.b is not None for c in cases)


def _test(case: Case | AnyOf | AllOf, test: Callable[[Case], _Tested]) -> _Tested:
    if isinstance(case, Case):
        return test(case)
    candidates = [test(c) for c in case.cases]
    if isinstance(case, AllOf):
        closest = max(candidates, key=lambda t: t.shown)
        return _Tested(
            f"{closest.label}, the closest of {len(candidates)}",
            closest.test,
            closest.shown,  # better than each: every one must be shown
            min(1.0, len(candidates) * min(t.refuted for t in candidates)),  # one is better: enough
        )
    best = min(candidates, key=lambda t: t.shown)
    return _Tested(
        f"{best.label}, the best of {len(candidates)}",
        best.test,
        min(1.0, len(candidates) * best.shown),  # at least one is better: Bonferroni
        max(t.refuted for t in candidates),  # none is: every one must be refuted
    )


def how_many(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> how_many(1, "seed"), how_many(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
