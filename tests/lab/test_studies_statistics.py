"""The tests behind the verdicts, against SciPy, and verdicts that a wrong sample would change."""

import math

import numpy as np
import pytest
import scipy.stats

from gensmooth.lab import (
    AllOf,
    AnyOf,
    Case,
    Measure,
    RunRecord,
    Scores,
    Sentence,
    alike,
    better,
    counted,
)
from gensmooth.lab.experiments.grid import choose
from gensmooth.lab.experiments.statistics import apart, compare, equivalence, holm

RNG = np.random.default_rng(8)
A, B = RNG.normal(0.0, 0.3, 5), RNG.normal(0.2, 0.3, 5)
INF = math.inf


@pytest.mark.parametrize("by", [0.0, 0.05, -0.3])
def test_compare_is_the_paired_t_test(by):
    found = compare(A, B, by=by)
    for name, p in (("less", found.p_less), ("greater", found.p_greater)):
        test = scipy.stats.ttest_1samp(A - B, by, alternative=name)
        assert p == pytest.approx(test.pvalue, rel=1e-12)
    interval = scipy.stats.ttest_rel(A, B).confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    # the twin: an unpaired test is another number
    unpaired = scipy.stats.ttest_ind(A, B + by, alternative="less").pvalue
    assert found.p_less != pytest.approx(unpaired, rel=1e-3)


def test_equivalence_is_two_one_sided_tests():
    for margin in (0.05, 0.5, 2.0):
        above = scipy.stats.ttest_1samp(A - B, -margin, alternative="greater").pvalue
        below = scipy.stats.ttest_1samp(A - B, margin, alternative="less").pvalue
        assert equivalence(A, B, margin=margin) == pytest.approx(max(above, below), rel=1e-10)
        sides = [scipy.stats.ttest_1samp(A - B, margin, alternative="greater").pvalue]
        sides.append(scipy.stats.ttest_1samp(A - B, -margin, alternative="less").pvalue)
        assert apart(A, B, margin=margin) == pytest.approx(min(1, 2 * min(sides)), rel=1e-10)
    assert apart(A, B, margin=0.0) == pytest.approx(scipy.stats.ttest_rel(A, B).pvalue, rel=1e-10)


def test_the_tests_have_their_level_and_power():
    """Over many samples of five: 5 % false alarms, and real effects are mostly found."""
    rng = np.random.default_rng(1)
    trials = 4000
    null = [compare(*rng.normal(size=(2, 5))).p_less < 0.05 for _ in range(trials)]
    z = (np.mean(null) - 0.05) / math.sqrt(0.05 * 0.95 / trials)
    assert abs(z) < 4
    real = [compare(rng.normal(-2, 1, 5), rng.normal(0, 1, 5)).p_less < 0.05 for _ in range(500)]
    assert np.mean(real) > 0.7
    # a rank test could not reach 5 % two-sided at n = 5 however large the effect
    assert scipy.stats.wilcoxon(np.arange(1, 6.0)).pvalue > 0.05


def test_holm_controls_the_family():
    rng = np.random.default_rng(2)
    hits = [min(holm(rng.uniform(size=9).tolist())) < 0.05 for _ in range(4000)]
    expected = 1 - (1 - 0.05 / 9) ** 9
    z = (np.mean(hits) - expected) / math.sqrt(expected * (1 - expected) / 4000)
    assert abs(z) < 4
    uncorrected = [rng.uniform(size=9).min() < 0.05 for _ in range(1000)]
    assert np.mean(uncorrected) > 0.3


# --- diverged runs -------------------------------------------------------------------------------


def test_a_diverged_run_is_the_worst_outcome():
    assert compare(A, [INF] * 5).p_less < 0.01
    assert compare([INF] * 5, A).p_greater < 0.01
    assert compare([INF] * 5, [INF] * 5).p_less == 1.0
    mixed = compare([*A[:4], INF], B)
    assert (mixed.n, mixed.diverged) == (5, (1, 0))
    # ranks among all ten numbers, the diverged one last, then the paired t-test
    ranks = scipy.stats.rankdata([*A[:4], 1e9, *B])
    test = scipy.stats.ttest_rel(ranks[:5], ranks[5:], alternative="less")
    assert mixed.p_less == pytest.approx(test.pvalue, rel=1e-12)


def test_three_good_runs_do_not_make_up_for_seventeen_lost_ones():
    """Left out, the lost ones would leave three pairs, which "hold"."""
    good, other = [1.0, 1.1, 0.9], np.linspace(2.0, 3.0, 20).tolist()
    lost = [*good, *[INF] * 17]
    assert compare(np.log(good), np.log(other[:3])).p_less < 0.05  # what it would be
    assert judge_better(lost, other) == "does not hold"
    assert judge_better(other, lost) == "holds"
    assert judge_better([*[1.0, 1.1] * 9, 1.0, INF], other) == "holds"  # one in twenty does not


@pytest.mark.parametrize(("n", "share"), [(5, 0.2), (5, 0.5), (20, 0.1), (20, 0.5)])
def test_the_rank_test_has_its_level_too(n, share):
    rng = np.random.default_rng(3)
    hits = []
    while len(hits) < 3000:
        a, b = rng.normal(size=(2, n)) + rng.normal(size=n)
        a[rng.random(n) < share] = INF
        b[rng.random(n) < share] = INF
        if np.isinf([a, b]).any():
            hits.append(compare(a, b).p_less < 0.05)
    z = (np.mean(hits) - 0.05) / math.sqrt(0.05 * 0.95 / len(hits))
    assert z < 4


def test_what_diverges_is_not_alike_to_what_does_not():
    close = [1.0, 1.1, 0.9, 1.05, 0.95]
    near = [v * 1.001 for v in close]
    assert judge_alike(close, near) == "holds"
    assert judge_alike([*close[:4], INF], near) != "holds"
    assert judge_alike([*close[:4], INF], [*near[:4], INF]) == "holds"  # both, on the same seed
    assert judge_alike([INF] * 5, near) == "does not hold"


# --- verdicts ------------------------------------------------------------------------------------

SENTENCE = Sentence("x", "", "")
RATIO = Measure("w")
HIGHER = Measure("w", better="higher", ratio=False, unit="of the range")


def judge_better(a, b, measure=RATIO, **options):
    return better(SENTENCE, [Case("", a, b)], measure, **options).verdict


def judge_alike(a, b, margin=1.1, measure=RATIO):
    return alike(SENTENCE, [Case("", a, b)], measure, margin=margin).verdict


def test_verdicts():
    low, high = [1.0, 1.1, 0.9, 1.05, 0.95], [2.0, 2.3, 1.9, 2.2, 2.0]
    assert judge_better(low, high) == "holds"
    assert judge_better(high, low) == "does not hold"
    assert judge_better(high, low, HIGHER) == "holds"
    both = [Case("", low, high), Case("", high, low)]
    assert better(SENTENCE, both, RATIO).verdict == "does not hold"
    assert better(SENTENCE, both, RATIO, how="often").verdict == "holds"
    mixed = [1.5, 0.7, 1.2, 0.8, 1.1]
    assert judge_better(mixed, low) == "undecided"
    near = [v * 1.001 for v in low]
    assert judge_alike(low, near) == "holds"
    assert judge_alike(low, high) == "does not hold"
    assert judge_alike(mixed, low) == "undecided"
    assert judge_alike(low, high, 1.0) == "does not hold"  # significantly different
    assert judge_alike(mixed, low, 1.0) == "undecided"
    assert counted(SENTENCE, found=["a"], wanted=1, of=2, what="").verdict == "holds"
    assert counted(SENTENCE, found=["a"], wanted=2, of=2, what="").verdict == "does not hold"


def test_margins():
    low, high = [1.0, 1.1, 0.9, 1.05, 0.95], [2.0, 2.1, 1.9, 2.05, 1.95]
    assert judge_better(high, low, HIGHER, by=0.5) == "holds"
    assert judge_better(high, low, HIGHER, by=1.5) == "does not hold"
    near = [v - 0.05 + 0.01 * i for i, v in enumerate(low)]
    assert judge_better(near, low, HIGHER, by=-0.2) == "holds"  # competitive
    assert judge_better(near, low, HIGHER) != "holds"
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.1, 0.1, 5), rng.normal(0.0, 0.1, 5)
    for by in (0.05, -0.1):
        p = scipy.stats.ttest_1samp(a - b, by, alternative="greater").pvalue
        row = better(SENTENCE, [Case("c", a.tolist(), b.tolist())], HIGHER, by=by)
        assert f"p={p:.2g}," in row.evidence or f"p={p:.2g} (" in row.evidence


def test_cases_that_have_not_been_run():
    missing = Case("m", None, None)
    strong = [Case(str(i), [1.0, 1.1, 1.2], [0.0, 0.2, 0.1]) for i in range(2)]
    assert better(SENTENCE, [*strong, missing], HIGHER, how="most").verdict == "holds"
    assert better(SENTENCE, [*strong, missing, missing], HIGHER, how="most").verdict == "not run"
    assert better(SENTENCE, [*strong, missing, missing], HIGHER, how="often").verdict == "holds"
    assert better(SENTENCE, [strong[0], missing], HIGHER, how="some").verdict == "holds"
    against = Case("c", strong[0].b, strong[0].a)
    assert better(SENTENCE, [against, missing], HIGHER).verdict == "does not hold"


def test_refuting_that_samples_are_alike_is_corrected():
    """Twenty true sentences "alike up to nothing": in 5 %, not in 64 %, one is refuted."""
    rng = np.random.default_rng(5)
    refuted, uncorrected = [], []
    for _ in range(400):
        cases = [Case("", *rng.normal(size=(2, 8)).tolist()) for _ in range(20)]
        row = alike(SENTENCE, cases, HIGHER, margin=0.0)
        refuted.append(row.verdict == "does not hold")
        uncorrected.append(min(apart(c.a, c.b, margin=0.0) for c in cases) < 0.05)
    z = (np.mean(refuted) - 0.05) / math.sqrt(0.05 * 0.95 / 400)
    assert z < 3
    assert np.mean(uncorrected) > 0.5


def test_picking_the_best_of_three_costs_what_it_must():
    """Three methods no better than the rival: one of them seems so in 5 % at most, not in 10 %."""
    rng = np.random.default_rng(6)
    shown, picked = [], []
    for _ in range(2000):
        rival = rng.normal(size=5).tolist()
        ours = [Case("", rng.normal(size=5).tolist(), rival) for _ in range(3)]
        shown.append(better(SENTENCE, [AnyOf(ours)], HIGHER).verdict == "holds")
        best = max(ours, key=lambda case: np.mean(case.a))
        picked.append(better(SENTENCE, [best], HIGHER).verdict == "holds")
    z = (np.mean(shown) - 0.05) / math.sqrt(0.05 * 0.95 / 2000)
    assert z < 3
    assert np.mean(picked) > 0.08
    # one that is better suffices, and only if all are worse is it refuted
    good, bad = [2.0, 2.1, 1.9, 2.05, 1.95], [0.0, 0.1, -0.1, 0.05, -0.05]
    rival = [1.0, 1.1, 0.9, 1.0, 1.0]
    one = [Case("", bad, rival), Case("", good, rival)]
    assert better(SENTENCE, [AnyOf(one)], HIGHER).verdict == "holds"
    assert better(SENTENCE, [AnyOf([one[0]] * 2)], HIGHER).verdict == "does not hold"
    assert better(SENTENCE, [AnyOf([one[0], Case("", rival, rival)])], HIGHER).verdict == (
        "undecided"
    )


def test_the_best_of_three_rivals_is_not_picked_and_costs_nothing():
    """No better than the best of three: shown in 5 % at most; one of them only, in far more."""
    rng = np.random.default_rng(7)
    shown, first, refuted = [], [], []
    for _ in range(2000):
        ours = rng.normal(size=8).tolist()
        rivals = [Case("", ours, rng.normal(m, 1, size=8).tolist()) for m in (0.0, -1.0, -2.0)]
        shown.append(better(SENTENCE, [AllOf(rivals)], HIGHER).verdict == "holds")
        first.append(better(SENTENCE, rivals[1:2], HIGHER).verdict == "holds")
        same = [Case("", ours, rng.normal(size=8).tolist()) for _ in range(3)]
        refuted.append(better(SENTENCE, [AllOf(same)], HIGHER).verdict == "does not hold")
    for found in (shown, refuted):
        assert (np.mean(found) - 0.05) / math.sqrt(0.05 * 0.95 / 2000) < 3
    assert np.mean(first) > 0.3
    good, bad = [2.0, 2.1, 1.9, 2.05, 1.95], [0.0, 0.1, -0.1, 0.05, -0.05]
    ours = [1.0, 1.1, 0.9, 1.0, 1.0]
    both = [Case("bad", ours, bad), Case("good", ours, good)]
    assert better(SENTENCE, [AllOf(both[:1])], HIGHER).verdict == "holds"
    row = better(SENTENCE, [AllOf(both)], HIGHER)
    assert row.verdict == "does not hold"
    assert "good, the closest of 2" in row.evidence
    assert "largest p of the rivals" in row.statistic
    missing = AllOf([both[0], Case("", ours, None)])
    assert better(SENTENCE, [missing], HIGHER).verdict == "not run"


def test_in_at_least_so_many():
    strong = Case("s", [1.0, 1.1, 1.2], [0.0, 0.2, 0.1])
    against = Case("c", strong.b, strong.a)
    row = better(SENTENCE, [strong, strong, against], HIGHER, how=2)
    assert row.verdict == "holds"
    assert "to be shown in at least 2 of 3" in row.statistic
    assert better(SENTENCE, [strong, against, against], HIGHER, how=2).verdict == "does not hold"


def test_scores_survive_their_file():
    rows = [
        {"method": "gs", "seed": 2, "loss": 0.1 + 0.2, "name": "a, b"},
        {"method": "gs", "seed": 1, "loss": INF, "only": 1},
    ]
    table = Scores(rows).table("mine")
    text = [
        {
            k: repr(v) if isinstance(v, float) else str(v)
            for k, v in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    again = Scores.read(text)
    assert again.sample("loss", method="gs") == [INF, 0.1 + 0.2]
    assert again.rows == rows
    assert again.sample("loss", method="bes") is None


def record(c, rate, final):
    config = {"spacing": c, "learning_rate": rate, "group": "g"}
    return RunRecord(config, {}, final, not math.isfinite(final), 0.0)


def test_the_grid_search_takes_the_best_mean_and_shuns_divergence():
    records = [
        record(0.1, 0.1, 0.0), record(0.1, 0.1, math.inf),  # best once, diverged once
        record(0.1, 0.01, 2.0), record(0.1, 0.01, 4.0),
        record(0.01, 0.01, 3.5), record(0.01, 0.01, 3.0),
    ]  # fmt: skip
    assert choose(records, lambda c: c["group"]) == {"g": ((0.1, 0.01), 3.0)}
    assert choose(records[:2], lambda c: c["group"]) == {"g": (None, math.inf)}
