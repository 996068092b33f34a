"""Rank weights and the neutral length of mirrored pairs, by literal ranks of literal noise."""

import math

import numpy as np
import pytest

import theory_literal as literal
from gensmooth import theory

FAMILIES = [
    literal.gaussian,
    literal.bernoulli,
    literal.sphere,
    literal.orthogonal,
    literal.hadamard,
    literal.laplace,
]


def blind_steps(rng, sampler, weights, reps: int, d: int) -> literal.Array:
    """Σ w s z of mirrored pairs whose values are pure noise, (replicates, d)."""
    L = len(weights) // 2
    z = sampler(rng, reps, L, d)
    values = rng.standard_normal((reps, 2 * L))
    ranks = np.argsort(np.argsort(values, axis=1), axis=1)
    w = np.asarray(weights)[ranks]
    points = np.concatenate([z, -z], axis=1)
    return (w[:, :, None] * points).sum(1)


@pytest.mark.parametrize("n", [2, 3, 6, 13, 40, 1001])
def test_rank_weights_are_those_of_their_definition(n: int):
    w = np.array(theory.rank_weights(n))
    raw = np.maximum(np.log((n + 1) / 2) - np.log(np.arange(1, n + 1)), 0)
    np.testing.assert_allclose(w, raw / raw.sum(), rtol=1e-12)
    assert w.sum() == pytest.approx(1)
    assert np.all(np.diff(w) <= 0)
    assert np.count_nonzero(w) == n // 2  # the better half
    assert theory.effective(w) == pytest.approx(1 / (w @ w))


def test_many_rank_weights_count_as_a_quarter():
    w = theory.rank_weights(200_000)
    assert theory.effective(w) / 200_000 == pytest.approx(1 / 4, rel=1e-3)
    assert theory.mirrored_neutral(w) / theory.effective(w) == pytest.approx(4 / 3, rel=1e-3)


@pytest.mark.parametrize("L", [1, 2, 3, 6, 10, 50])
def test_the_neutral_factor_is_that_of_two_draws_without_replacement(L: int):
    n, w = 2 * L, theory.rank_weights(2 * L)
    pairs = [(a - b) ** 2 for i, a in enumerate(w) for j, b in enumerate(w) if i != j]
    assert 1 / theory.mirrored_neutral(w) == pytest.approx(L * math.fsum(pairs) / len(pairs))
    squares = math.fsum(x * x for x in w)
    shown = L * (2 * squares / n - 2 * (1 - squares) / (n * (n - 1)))
    assert 1 / theory.mirrored_neutral(w) == pytest.approx(shown)
    mu = theory.effective(w)
    assert theory.mirrored_neutral(w) == pytest.approx(mu * (n - 1) / (n - mu))


@pytest.mark.parametrize("sampler", FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("L", [3, 10])
def test_the_neutral_length_is_the_same_for_every_family(sampler, L: int):
    d, w = 12, theory.rank_weights(2 * L)
    rng = np.random.default_rng(L)
    squares = (blind_steps(rng, sampler, w, 20_000, d) ** 2).sum(-1)
    assert abs(literal.z_score(squares, d / theory.mirrored_neutral(w))) < 4
    # The twin: λ independent points, as if mirrored ones did not cancel.
    assert abs(literal.z_score(squares, d / theory.effective(w))) > 6


def test_the_usual_factor_belongs_to_independent_points():
    d, L = 12, 6
    w = np.array(theory.rank_weights(2 * L))
    steps = np.einsum("i,rid->rd", w, literal.gaussian(np.random.default_rng(1), 20_000, 2 * L, d))
    squares = (steps**2).sum(-1)
    assert abs(literal.z_score(squares, d / theory.effective(w))) < 4
    assert abs(literal.z_score(squares, d / theory.mirrored_neutral(w))) > 6


def test_the_neutral_factor_takes_weights_of_any_sum_and_sign():
    d, w = 8, [0.7, 0.3, 0.0, -0.1, -0.2, -0.4]
    rng = np.random.default_rng(2)
    squares = (blind_steps(rng, literal.bernoulli, w, 20_000, d) ** 2).sum(-1)
    assert abs(literal.z_score(squares, d / theory.mirrored_neutral(w))) < 4
    W2 = sum(x * x for x in w)
    assert abs(literal.z_score(squares, d * (6 * W2 - 1) / 5)) > 6  # as if the sum were 1


def path_lengths(factor: float, weights, *, d: int, steps: int, reps: int) -> literal.Array:
    """‖p‖² of cumulative paths that follow no gradient, begun at their stationary length."""
    rng = np.random.default_rng(3)
    c = 0.3
    path = rng.standard_normal((reps, d))
    for _ in range(steps):
        step = blind_steps(rng, literal.bernoulli, weights, reps, d)
        path = (1 - c) * path + math.sqrt(c * (2 - c) * factor) * step
    return (path**2).sum(-1)


def test_a_path_that_follows_nothing_keeps_its_length():
    d, w = 10, theory.rank_weights(12)
    how = {"d": d, "steps": 20, "reps": 4_000}
    neutral = path_lengths(theory.mirrored_neutral(w), w, **how)
    assert abs(literal.z_score(neutral, d)) < 4
    # The twin: with the usual factor it looks shorter than a random walk, by 1 − √(μ/M) = 13 %.
    usual = path_lengths(theory.effective(w), w, **how)
    assert literal.z_score(usual, d) < -6
    shorter = d * theory.effective(w) / theory.mirrored_neutral(w)
    assert abs(literal.z_score(usual, shorter)) < 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.rank_weights(1), "`num_values` must be a whole number of at least 2"),
        (lambda: theory.effective([]), "`weights` must not be empty or all zero"),
        (lambda: theory.effective([0.0, 0.0]), "`weights` must not be empty or all zero"),
        (lambda: theory.effective([math.nan]), "`weights` must be finite"),
        (lambda: theory.mirrored_neutral([0.5, 0.3, 0.2]), "`weights` must have an even length"),
        (lambda: theory.mirrored_neutral([0.1] * 10), "`weights` must not all be equal"),
    ],
)
def test_bad_weights(call, message: str):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
