"""From the numbers of runs to verdicts on sentences.

A study leaves a table with one row per run (:class:`Scores`); a sentence is a list of cases, each
of which compares two samples over the same seeds:

- *a is better than b* (:func:`better`): a one-sided test, of a difference beyond a margin where the
  sentence says "by a large margin" (positive) or "competitive" (negative);
- *a and b are alike* (:func:`alike`): an equivalence test within a stated margin, refuted by a
  two-sided test of a difference beyond it;
- *one of these is better than b* (:class:`AnyOf`): the smallest of the p-values times their number,
  so that picking the best costs what it must; refuted when every one of them is;
- *a is better than each of these* (:class:`AllOf`): the largest of the p-values, since all must be
  shown; refuted by the smallest p-value against one of them, times their number.

A sentence is one family: p-values are corrected by Holm's method, for showing it and for refuting
it. It holds when as many cases as it speaks of are shown, does not hold when the opposite is shown
in so many that it cannot, and is undecided otherwise: that is a statement about n, not about the
world. A case that has not been run counts neither way. Nothing is corrected across sentences.
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
        rows: One flat row per run: what it is (``method``, ``seed``, the entries that make its
            setting), and numbers by name.
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
        place: Where the paper says it.
        claim: What it says, in our words.
    """

    id: str
    place: str
    claim: str


class Case(NamedTuple):
    """Two samples over the same seeds.

    Attributes:
        label: Which case this is.
        a: One sample, and
        b: the other; ``None`` if it has not been run.
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
    """What is compared, and how.

    Attributes:
        what: In words.
        better: Whether a low or a high number is good. A run that diverged has the worst.
        ratio: Whether numbers are positive and compared by their ratio (as logarithms); by their
            difference otherwise.
        unit: What a difference of 1 is, such as ``"of the reference range"``.
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
    """Judge "a is better than b", in so many of the cases, by more than a margin.

    Args:
        sentence: The sentence.
        cases: Its cases.
        measure: What is compared.
        how: In how many cases; a number is at least so many.
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
        measure: What is compared.
        margin: A factor (for ratios) or a difference; what is smaller does not matter. With 1
            (for differences 0) the sentence is "not significantly different", which a test can
            refute, and cannot show.
        why: Why this margin, in words.
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


def readings(sentence: Sentence, rows: Mapping[str, ClaimRow]) -> ClaimRow:
    """Judge a sentence that can be read in several ways, or scored by several measures.

    It has the verdict that all readings agree on. If they disagree, it depends on the reading; if
    one of them has not been run, it is "not run".

    Args:
        sentence: The sentence.
        rows: Its verdict under each reading, by the words of the reading; the main one first.
    """
    verdicts = {row.verdict for row in rows.values()}
    first: Verdict = next(iter(rows.values())).verdict
    if verdicts == {first}:
        return _joined(sentence, rows, first)
    one_is_missing = "not run" in verdicts
    return _joined(sentence, rows, "not run" if one_is_missing else "depends on the reading")


def together(sentence: Sentence, parts: Mapping[str, ClaimRow]) -> ClaimRow:
    """Judge a sentence that says several things: it holds if each of them does."""
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
    sentence: Sentence, *, found: Sequence[str], wanted: int, of: int, what: str
) -> ClaimRow:
    """Judge "in at least so many of these cases" where each case is certain, as in a formula."""
    evidence = f"{len(found)} of {of}: {', '.join(found) if found else 'none'}"
    verdict: Verdict = "holds" if len(found) >= wanted else "does not hold"
    return ClaimRow(*sentence, what, evidence, verdict)


def percent(value: float, *, sign: bool = False) -> str:
    """Return a share in percent.

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
    needed = how if isinstance(how, int) else _needed(how, number)
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
        f"{measure.what}; {words}, Holm over {_times(len(run), 'case')}; {effects} with 95 % "
        f"interval; to be shown in {quantity} of {number}"
    )
    return ClaimRow(*sentence, statistic, evidence, verdict)


def _needed(how: How, number: int) -> int:
    return {"all": number, "most": number // 2 + 1, "often": (number + 1) // 2, "some": 1}[how]


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


def _times(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
