"""Optimal scales are minima, the closed forms agree with the generic ones, and twins fail."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import theory_literal as literal
from gensmooth import theory

sizes = st.integers(1, 500)
kurtoses = st.floats(1, 50)
amounts = st.floats(0.01, 100)
families = st.sampled_from(
    [theory.iid, theory.sphere, theory.orthogonal, theory.gram_schmidt, theory.hadamard]
)


@given(family=families, d=sizes, L=sizes, other=st.floats(0, 3))
def test_the_optimal_scale_is_a_minimum(family, d, L, other):
    moments = family(d, L)
    best = theory.relative_mse(moments.scaled(theory.optimal_scale(moments)))
    assert best <= theory.relative_mse(moments.scaled(other)) + 1e-12
    assert best == pytest.approx(1 - moments.mean**2 / moments.second, abs=1e-12)


@given(family=families, d=sizes, L=sizes)
def test_no_family_beats_the_information_limit(family, d, L):
    moments = family(d, L)
    best = theory.relative_mse(moments.scaled(theory.optimal_scale(moments)))
    assert best >= theory.information_limit(d, L) - 1e-12
    exact = theory.orthogonal(d, min(d, L))
    attained = theory.relative_mse(exact.scaled(theory.optimal_scale(exact)))
    assert attained == pytest.approx(theory.information_limit(d, L), abs=1e-12)


@given(d=sizes, L=sizes, kurtosis=kurtoses)
def test_the_optimal_variance_is_the_optimal_scale(d, L, kurtosis):
    moments = theory.iid(d, L, kurtosis=kurtosis)
    v = theory.optimal_variance(d, L, kurtosis=kurtosis)
    assert v == pytest.approx(theory.optimal_scale(moments))
    at = theory.iid(d, L, variance=v, kurtosis=kurtosis)
    assert theory.relative_mse(at) == pytest.approx(1 - v, abs=1e-12)
    better = theory.optimal_variance(d, L, kurtosis=1.0)
    assert 1 - better <= 1 - v  # BeS-shrinkage is the best of all i.i.d. entries


@given(d=st.integers(1, 8), L=st.integers(1, 8), p=st.floats(0.01, 0.99), m=st.floats(0.1, 10))
def test_the_bernoulli_optimum_needs_no_minimal_size(d, L, p, m):
    def error(p: float, m: float) -> float:
        entry = theory.bernoulli_moments(p, m)
        return theory.relative_mse(
            theory.iid(d, L, variance=entry.variance, kurtosis=entry.kurtosis)
        )

    best = theory.bernoulli_optimum(d, L)
    assert best.p == 0.5
    assert best.m == pytest.approx(math.sqrt((L + d - 1) / (4 * L)))
    assert error(*best) <= error(p, m) + 1e-12


@pytest.mark.parametrize(("p", "m"), [(0.5, 0.5), (0.2, 0.5), (0.7, 1.3)])
def test_bernoulli_moments_are_those_of_the_two_point_law(p: float, m: float):
    points, weights = np.array([-p / m, (1 - p) / m]), np.array([1 - p, p])
    variance = float(weights @ points**2)
    assert theory.bernoulli_moments(p, m) == pytest.approx(
        (variance, float(weights @ points**4) / variance**2)
    )


# The whole MSE.


@st.composite
def whole_terms(draw) -> theory.MseTerms:
    moments = draw(families)(draw(sizes), draw(sizes))
    return theory.mse_terms(
        moments,
        gradient_norm2=draw(st.floats(0, 100)),
        noise_trace=draw(st.floats(0, 100)),
        num_samples=draw(st.integers(1, 20)),
        samples=draw(st.sampled_from(["paired", "shared", "independent"])),
        estimator=draw(st.sampled_from(["forward", "antithetic", "one-point"])),
        spacing=draw(st.floats(0.01, 1)),
        value_variance=draw(st.floats(0, 10)),
        value=draw(st.floats(-1, 1)),
    )


@given(terms=whole_terms(), other=st.floats(0, 2))
def test_the_whole_optimum_is_a_minimum(terms: theory.MseTerms, other: float):
    v = theory.optimal_scale_whole(terms, scale="directions")
    w = theory.optimal_scale_whole(terms, scale="estimate")
    slack = 1e-9 * (1 + terms.total)
    best_directions = terms.scaled_directions(v).total
    best_estimate = terms.scaled_estimate(w).total
    assert best_directions <= terms.scaled_directions(other).total + slack
    assert best_estimate <= terms.scaled_estimate(other).total + slack
    assert best_directions <= terms.gradient_norm2 + slack
    if terms.signal <= terms.second + terms.gradient_noise:
        assert best_estimate <= best_directions + slack


@given(d=sizes, L=sizes, G=amounts, V=amounts, N=st.integers(1, 50))
def test_the_whole_optimum_of_shared_samples_is_a_product(d, L, G, V, N):
    moments = theory.iid(d, L)
    terms = theory.mse_terms(
        moments, gradient_norm2=G, noise_trace=V, num_samples=N, samples="shared"
    )
    expected = theory.optimal_scale(moments) * G / (G + V / N)
    assert theory.optimal_scale_whole(terms) == pytest.approx(expected)


@given(terms=whole_terms(), v=st.floats(0, 2))
def test_scaling_the_terms_is_scaling_the_moments(terms, v):
    # The same through the moments, for a family whose terms are rebuilt from scratch.
    moments = theory.hadamard(5, 3)
    known = {
        "gradient_norm2": terms.gradient_norm2,
        "noise_trace": 2.0,
        "estimator": "one-point",
        "spacing": 0.3,
        "value_variance": 0.5,
        "value": 0.7,
        "laplacian": -0.4,
        "value_laplacian_covariance": 0.2,
    }
    for samples in ("paired", "shared", "independent"):
        direct = theory.mse_terms(moments.scaled(v), samples=samples, **known)
        scaled = theory.mse_terms(moments, samples=samples, **known).scaled_directions(v)
        assert direct == pytest.approx(scaled, abs=1e-12)


def test_scaling_the_estimate_keeps_the_spacing_of_the_noise():
    """Literal values: v in the directions divides the value noise by v, in the estimate by v²."""
    v, c, L, d = 0.3, 0.5, 3, 4
    objective = literal.Objective(
        gradient=np.array([1.0, 0.5, -0.3, 0.2]), noise=np.ones(d), value_variance=0.2
    )
    G = float(objective.gradient @ objective.gradient)
    rng = np.random.default_rng(5)
    eps = literal.bernoulli(rng, 60_000, L, d)
    terms = theory.mse_terms(
        theory.sphere(d, L),
        gradient_norm2=G,
        noise_trace=float(d),
        samples="independent",
        spacing=c,
        value_variance=0.2,
    )
    shorter = literal.squared_errors(
        rng,
        np.sqrt(v) * eps,
        objective,
        samples="independent",
        estimator="forward",
        num_samples=1,
        spacing=c,
    )
    # v × the estimate with ε is the estimate with √v ε at the spacing c/√v.
    smaller = literal.squared_errors(
        rng,
        np.sqrt(v) * eps,
        objective,
        samples="independent",
        estimator="forward",
        num_samples=1,
        spacing=c / np.sqrt(v),
    )
    assert abs(literal.z_score(shorter, terms.scaled_directions(v).total)) < 4
    assert abs(literal.z_score(shorter, terms.scaled_estimate(v).total)) > 6
    assert abs(literal.z_score(smaller, terms.scaled_estimate(v).total)) < 4
    assert abs(literal.z_score(smaller, terms.scaled_directions(v).total)) > 6


def test_values_drowned_in_noise_call_for_no_directions_but_a_small_estimate():
    terms = theory.mse_terms(
        theory.sphere(10, 2),
        gradient_norm2=1.0,
        samples="independent",
        spacing=0.01,
        value_variance=1.0,
    )
    assert theory.optimal_scale_whole(terms) == 0.0
    w = theory.optimal_scale_whole(terms, scale="estimate")
    assert 0 < terms.scaled_estimate(w).total < 1.0


def test_an_expansion_without_a_minimum_is_refused():
    terms = theory.mse_terms(
        theory.sphere(10, 2),
        gradient_norm2=1.0,
        estimator="one-point",
        spacing=1.0,
        value_variance=0.0,
        value=-1.0,
        laplacian=100.0,
    )
    with pytest.raises(ValueError, match="must have a positive quadratic coefficient"):
        theory.optimal_scale_whole(terms)


# GS-shrinkage or BeS-shrinkage?


def _shrunk(d: int, L: int, kurtosis: float) -> theory.Moments:
    return theory.iid(
        d, L, variance=theory.optimal_variance(d, L, kurtosis=kurtosis), kurtosis=kurtosis
    )


@given(
    d=sizes,
    L=sizes,
    G=amounts,
    V=amounts,
    N=st.integers(1, 50),
    samples=st.sampled_from(["paired", "shared"]),
)
def test_the_appendix_is_the_difference_of_the_two_errors(d, L, G, V, N, samples):
    known = {"gradient_norm2": G, "noise_trace": V, "num_samples": N, "samples": samples}
    gs, bes = (theory.mse(_shrunk(d, L, k), **known) for k in (3.0, 1.0))
    difference = theory.gs_vs_bes_shrinkage(d, L, **known)
    assert difference == pytest.approx(gs - bes, rel=1e-6, abs=1e-9 * (gs + bes))

    threshold = theory.gs_vs_bes_threshold(d, L, noise_trace=V, num_samples=N, samples=samples)
    assume(abs(G - threshold) > 1e-9 * (G + V))
    assert (difference > 0) == (threshold < G)
    assert (threshold > 0) == (samples == "shared" or d + 1 >= L)


def test_the_comparison_with_literal_directions():
    d, L, N, V = 6, 3, 2, np.array([3.0, 1.0, 2.0, 0.5, 2.5, 1.0])
    g = np.array([0.6, -0.2, 0.1, 0.3, 0.0, -0.4])
    objective = literal.Objective(gradient=g, noise=V)
    known = {"gradient_norm2": float(g @ g), "noise_trace": float(V.sum()), "num_samples": N}
    rng = np.random.default_rng(6)
    for samples, twin in (("paired", "shared"), ("shared", "paired")):
        gs, bes = (
            literal.squared_errors(
                rng,
                np.sqrt(theory.optimal_variance(d, L, kurtosis=k)) * sampler(rng, 120_000, L, d),
                objective,
                samples=samples,
                estimator="forward",
                num_samples=N,
                spacing=0.1,
            )
            for sampler, k in ((literal.gaussian, 3.0), (literal.bernoulli, 1.0))
        )
        expected = theory.gs_vs_bes_shrinkage(d, L, samples=samples, **known)
        assert abs(literal.z_score(gs - bes, expected)) < 4
        wrong = theory.gs_vs_bes_shrinkage(d, L, samples=twin, **known)
        assert abs(literal.z_score(gs - bes, wrong)) > 6


def test_scaling_the_estimate_is_never_worse_unless_a_term_is_negative():
    """aG ≤ Q decides, not a = 1: a negative curvature can make scaling the directions better."""

    def best(terms: theory.MseTerms) -> tuple[float, float]:
        v = theory.optimal_scale_whole(terms, scale="directions")
        w = theory.optimal_scale_whole(terms, scale="estimate")
        return terms.scaled_directions(v).total, terms.scaled_estimate(w).total

    terms = theory.mse_terms(
        theory.orthogonal(5, 4), gradient_norm2=1.0, estimator="one-point", spacing=0.53,
        value_variance=0.0, value=0.3, laplacian=-1.47,
    )  # fmt: skip
    directions, estimate = best(terms)
    assert terms.signal == 1.0 > terms.second + terms.curvature  # a = 1, but aG > Q
    assert 0 < directions < estimate
    directions, estimate = best(terms._replace(curvature=0.0))
    assert directions >= estimate
