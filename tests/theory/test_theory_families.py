"""The moments of every family against literal directions, and twins that must be rejected."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import theory_literal as literal
from gensmooth import theory

REPS = 60_000


class Case(NamedTuple):
    name: str
    sampler: literal.Sampler
    moments: theory.Moments
    twin: theory.Moments  # a wrong formula …
    differs: str  # … and the number by which the data must tell


def _one_group(d: int, L: int) -> theory.Moments:
    """The formula of one orthogonal group used beyond d, its group term forgotten."""
    return theory.orthogonal(d, d)._replace(second=d / L, num_directions=L)


def _full_length(d: int, L: int) -> theory.Moments:
    """Gram–Schmidt rows as if each kept the χ²_d law of a Gaussian's squared length."""
    n = min(d, L)
    rows = theory.Moments(1.0, (d + 2) / n, float(d + 2), d, n)
    left = theory.Moments(1.0, (d + 2) / (L - n), float(d + 2), d, L - n) if n < L else None
    return theory.combine([rows, left]) if left else rows


HADAMARD = theory.hadamard(5, 4)

CASES = [
    Case("gaussian", literal.gaussian, theory.iid(5, 3), theory.iid(5, 3, kurtosis=1), "second"),
    Case(
        "bernoulli",
        literal.bernoulli,
        theory.iid(5, 3, kurtosis=1),
        theory.iid(5, 3, kurtosis=3),
        "second",
    ),
    Case(
        "bernoulli, p = 0.2",
        literal.skewed_bernoulli,
        theory.iid(5, 3, variance=0.64, kurtosis=3.25),
        theory.iid(5, 3, variance=0.64, kurtosis=1.0),
        "second",
    ),
    Case(
        "uniform",
        literal.uniform,
        theory.iid(2, 4, kurtosis=1.8),
        theory.iid(2, 4, kurtosis=3.0),
        "second",
    ),
    Case(
        "laplace",
        literal.laplace,
        theory.iid(4, 2, kurtosis=6.0),
        theory.iid(4, 2, kurtosis=3.0),
        "second",
    ),
    Case(
        "three points",
        literal.three_point,
        theory.iid(3, 1, kurtosis=4.0),
        theory.iid(3, 1, kurtosis=3.0),
        "own",
    ),
    Case("sphere", literal.sphere, theory.sphere(5, 3), theory.iid(5, 3), "second"),
    Case("sphere, own", literal.sphere, theory.sphere(5, 3), theory.iid(5, 3), "own"),
    Case("sphere, L > d", literal.sphere, theory.sphere(2, 5), theory.iid(2, 5), "second"),
    Case("orthogonal", literal.orthogonal, theory.orthogonal(5, 3), theory.sphere(5, 3), "second"),
    Case(
        "orthogonal, 4 + 2",
        literal.orthogonal,
        theory.orthogonal(4, 6),
        theory.sphere(4, 6),
        "second",
    ),
    Case(
        "orthogonal, 3 + 3 + 2",
        literal.orthogonal,
        theory.orthogonal(3, 8),
        _one_group(3, 8),
        "second",
    ),
    Case(
        "gram-schmidt",
        literal.gram_schmidt,
        theory.gram_schmidt(5, 4),
        theory.orthogonal(5, 4),
        "mean",
    ),
    Case(
        "gram-schmidt, average",
        literal.gram_schmidt,
        theory.gram_schmidt(5, 4),
        theory.orthogonal(5, 4),
        "average",
    ),
    Case(
        "gram-schmidt, lengths",
        literal.gram_schmidt,
        theory.gram_schmidt(5, 4),
        _full_length(5, 4),
        "second",
    ),
    Case(
        "gram-schmidt, own",
        literal.gram_schmidt,
        theory.gram_schmidt(5, 5),
        theory.orthogonal(5, 5),
        "own",
    ),
    Case(
        "gram-schmidt, 3 + 2",
        literal.gram_schmidt,
        theory.gram_schmidt(3, 5),
        _full_length(3, 5),
        "second",
    ),
    Case("hadamard", literal.hadamard, HADAMARD, theory.orthogonal(5, 4), "second"),
    Case("hadamard, i.i.d.", literal.hadamard, HADAMARD, theory.sphere(5, 4), "second"),
    Case("hadamard, d = D", literal.hadamard, theory.hadamard(4, 3), theory.sphere(4, 3), "second"),
    Case(
        "hadamard, 4 + 2",
        literal.hadamard,
        theory.hadamard(3, 6),
        theory.sphere(3, 6),
        "second",
    ),
    Case("hadamard, d = 1", literal.hadamard, theory.hadamard(1, 3), theory.iid(1, 3), "second"),
]


def _z_scores(eps: literal.Array, moments: theory.Moments, g: literal.Array) -> dict[str, float]:
    """z of each claimed number, for one vector g: the claims hold for every g."""
    slopes = eps @ g
    estimate = (slopes[:, :, None] * eps).mean(1)
    own = ((eps**2).sum(-1) * slopes**2).mean(1)
    average = (eps.mean(1) ** 2).sum(-1)
    g2 = float(g @ g)
    return {
        "mean": literal.z_score(estimate @ g, moments.mean * g2),
        "second": literal.z_score((estimate**2).sum(-1), moments.second * g2),
        "own": literal.z_score(own, moments.fourth * g2),
        "average": literal.z_score(average, moments.average_norm2),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_moments_hold_and_their_twin_is_rejected(case: Case):
    rng = np.random.default_rng(1)
    d, L = case.moments.dim, case.moments.num_directions
    eps = case.sampler(rng, REPS, L, d)
    first, generic = np.eye(d)[0], np.arange(1.0, d + 1) * (-1.0) ** np.arange(d)
    for g in (first, generic):
        scores = _z_scores(eps, case.moments, g)
        assert all(abs(z) < 4 for z in scores.values()), scores
        assert abs(_z_scores(eps, case.twin, g)[case.differs]) > 6


@pytest.mark.parametrize(("d", "L"), [(5, 4), (3, 6), (3, 11)])
def test_signed_hadamard_rows_do_not_lean_towards_each_other(d: int, L: int):
    eps = literal.hadamard(np.random.default_rng(6), REPS, L, d)
    average = (eps.mean(1) ** 2).sum(-1)
    expected = theory.hadamard(d, L).average_norm2
    assert abs(literal.z_score(average, expected)) < 4
    assert abs(literal.z_score(average, expected + literal.lean(L, d))) > 6


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bias_and_relative_mse_of_the_scaled_directions(case: Case):
    rng = np.random.default_rng(2)
    d, L = case.moments.dim, case.moments.num_directions
    v = theory.optimal_scale(case.moments)
    eps = np.sqrt(v) * case.sampler(rng, REPS, L, d)
    g = np.linspace(1.0, 2.0, d)
    estimate = ((eps @ g)[:, :, None] * eps).mean(1)
    shrunk = case.moments.scaled(v)
    bias = literal.z_score((estimate - g) @ g, theory.relative_bias(shrunk) * (g @ g))
    error = literal.z_score(((estimate - g) ** 2).sum(-1), theory.relative_mse(shrunk) * (g @ g))
    assert abs(bias) < 4
    assert abs(error) < 4


# Identities between families.

sizes = st.integers(1, 300)


@given(exponent=st.integers(0, 9), data=st.data())
def test_hadamard_is_orthogonal_when_the_dimension_is_a_power_of_two(exponent: int, data):
    d = 2**exponent
    L = data.draw(st.integers(1, 3 * d))
    assert theory.hadamard(d, L) == pytest.approx(theory.orthogonal(d, L))


@given(d=sizes, L=sizes, kurtosis=st.floats(1, 50), variance=st.floats(0.01, 10))
def test_independent_directions_are_groups_of_one(d, L, kurtosis, variance):
    one = theory.iid(d, 1, kurtosis=kurtosis, variance=variance)
    many = theory.iid(d, L, kurtosis=kurtosis, variance=variance)
    assert theory.combine([one] * L) == pytest.approx(many)
    assert theory.sphere(d, L) == theory.iid(d, L, kurtosis=1.0)


@given(d=sizes, L=sizes)
def test_gram_schmidt_sums_match_their_definition(d: int, L: int):
    rows = [d - (k % d) for k in range(L)]
    moments = theory.gram_schmidt(d, L)
    assert moments.mean == pytest.approx(sum(rows) / (L * d))
    assert moments.fourth == pytest.approx(sum(m * (m + 2) for m in rows) / (L * d))
    n = min(d, L)
    assert theory.gram_schmidt(d, n).mean == pytest.approx(1 - (n - 1) / (2 * d))


@given(d=sizes, L=sizes)
def test_families_are_ordered_by_their_error(d: int, L: int):
    if d >= L:
        best = theory.relative_mse(theory.orthogonal(d, L))
        assert best <= theory.relative_mse(theory.hadamard(d, L)) + 1e-12
    for family in (theory.orthogonal, theory.hadamard):
        error = theory.relative_mse(family(d, L))
        assert error <= theory.relative_mse(theory.sphere(d, L)) + 1e-12
    assert theory.relative_mse(theory.sphere(d, L)) < theory.relative_mse(theory.iid(d, L))


def test_measured_relative_errors_at_the_sizes_of_the_experiments():
    assert theory.relative_mse(theory.orthogonal(128, 64)) == 1.0
    assert theory.relative_mse(theory.hadamard(102, 20)) == pytest.approx(4.29, abs=0.005)
    assert theory.relative_mse(theory.orthogonal(102, 20)) == pytest.approx(4.1)


def test_beyond_d_directions_hadamard_rows_can_beat_groups_of_orthogonal_ones():
    # Seven of the eight rows of order 8 are nearer to a tight frame of R⁵ than 5 + 2 rows are.
    assert theory.relative_mse(theory.hadamard(5, 7)) < theory.relative_mse(theory.orthogonal(5, 7))


def test_whole_groups_of_orthogonal_directions_are_exact():
    for L in (7, 14, 21):
        assert theory.relative_mse(theory.orthogonal(7, L)) == pytest.approx(0.0, abs=1e-15)
