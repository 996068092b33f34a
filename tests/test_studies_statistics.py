"""The tests behind the verdicts, against SciPy, and verdicts that a wrong sample would change."""

import math

import numpy as np
import pytest
import scipy.stats

from gensmooth.studies.claims import Contrast, counted, geometric_mean, lower, same
from gensmooth.studies.grid import choose
from gensmooth.studies.spec import Record
from gensmooth.studies.statistics import compare, equivalence, holm

RNG = np.random.default_rng(8)
A, B = RNG.lognormal(0.0, 0.3, 5), RNG.lognormal(0.2, 0.3, 5)


@pytest.mark.parametrize("log", [False, True])
def test_compare_is_the_paired_t_test(log):
    a, b = (np.log(A), np.log(B)) if log else (A, B)
    found = compare(A, B, log=log)
    for name, p in (("less", found.p_less), ("greater", found.p_greater)):
        assert p == pytest.approx(scipy.stats.ttest_rel(a, b, alternative=name).pvalue, rel=1e-12)
    assert found.p_different == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-12)
    interval = scipy.stats.ttest_rel(a, b).confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    # the twin: an unpaired test is another number
    assert found.p_different != pytest.approx(scipy.stats.ttest_ind(a, b).pvalue, rel=1e-3)


def test_equivalence_is_two_one_sided_tests():
    difference = np.log(A) - np.log(B)
    for margin in (0.05, 0.5, 2.0):
        above = scipy.stats.ttest_1samp(difference, -margin, alternative="greater").pvalue
        below = scipy.stats.ttest_1samp(difference, margin, alternative="less").pvalue
        found = equivalence(A, B, margin=margin, log=True)
        assert found == pytest.approx(max(above, below), rel=1e-10)


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


def test_divergence_decides_only_when_it_is_everywhere():
    inf = [math.inf] * 5
    assert compare(A, inf).p_less == 0.0
    assert compare(inf, A).p_greater == 0.0
    assert compare(inf, inf).p_less == 1.0
    mixed = [*A[:4], math.inf]
    assert compare(mixed, B).n == 4


def test_verdicts():
    low, high = [1.0, 1.1, 0.9, 1.05, 0.95], [2.0, 2.3, 1.9, 2.2, 2.0]
    assert lower("x", "", "", [Contrast("", low, high)], "").verdict == "holds"
    assert lower("x", "", "", [Contrast("", high, low)], "").verdict == "does not hold"
    both = [Contrast("", low, high), Contrast("", high, low)]
    assert lower("x", "", "", both, "").verdict == "does not hold"
    assert lower("x", "", "", both, "", share=0.5).verdict == "holds"
    mixed = [1.5, 0.7, 1.2, 0.8, 1.1]
    assert lower("x", "", "", [Contrast("", mixed, low)], "").verdict == "undecided"
    near = [v * 1.001 for v in low]
    assert same("x", "", "", [Contrast("", low, near)], "").verdict == "holds"
    assert same("x", "", "", [Contrast("", low, high)], "").verdict == "does not hold"
    assert same("x", "", "", [Contrast("", mixed, low)], "").verdict == "undecided"
    assert counted("x", "", "", found=["a"], wanted=1, of=2, what="").verdict == "holds"
    assert counted("x", "", "", found=["a"], wanted=2, of=2, what="").verdict == "does not hold"


def test_geometric_mean():
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)
    assert geometric_mean([]) == math.inf


def record(c, rate, final):
    config = {"spacing": c, "learning_rate": rate, "group": "g"}
    return Record(config, {}, final, not math.isfinite(final), 0.0)


def test_the_grid_search_takes_the_best_mean_and_shuns_divergence():
    records = [
        record(0.1, 0.1, 0.0), record(0.1, 0.1, math.inf),  # best once, diverged once
        record(0.1, 0.01, 2.0), record(0.1, 0.01, 4.0),
        record(0.01, 0.01, 3.5), record(0.01, 0.01, 3.0),
    ]  # fmt: skip
    assert choose(records, lambda c: c["group"]) == {"g": ((0.1, 0.01), 3.0)}
    assert choose(records[:2], lambda c: c["group"]) == {"g": (None, math.inf)}
