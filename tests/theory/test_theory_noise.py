"""The noise share and the shrinkage it asks for, from literal noisy values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import theory_literal as literal
from estimate_trials import Trial
from gensmooth import theory


def pairs(rng, reps: int, L: int, share: float) -> tuple[literal.Array, literal.Array]:
    """Values at ±z of a linear function, (replicates, 2, L), and at +z again; noise variance 1."""
    slope = math.sqrt(0.5 * (1 - share) / share)  # E δ² = slope² + ½
    z = slope * rng.standard_normal((reps, L))  # along the gradient, for Gaussian directions
    values = np.stack([z, -z], axis=1) + rng.standard_normal((reps, 2, L))
    return values, z + rng.standard_normal((reps, L))


def shares(variance: literal.Array, delta: literal.Array) -> literal.Array:
    squares = (delta**2).mean(1)
    L = delta.shape[1]
    return np.array(
        [theory.noise_share(s2, q, num_pairs=L) for s2, q in zip(variance, squares, strict=True)]
    )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_is_unbiased_where_the_noise_is_measured_apart(share: float):
    L = 8
    rng = np.random.default_rng(30)
    values, _ = pairs(rng, 40_000, L, share)
    delta = (values[:, 0] - values[:, 1]) / 2
    apart = rng.standard_normal((len(values), 2))
    found = shares((apart[:, 0] - apart[:, 1]) ** 2 / 2, delta)
    assert abs(literal.z_score(found, share)) < 4
    assert abs(literal.z_score(found * L / (L - 2), share)) > 6  # the twin: no correction


@pytest.mark.parametrize("repeats", [1, 3])
def test_repeating_the_steps_own_points_biases_the_share_by_a_known_factor(repeats: int):
    L, share = 6, 0.8
    values, again = pairs(np.random.default_rng(31), 100_000, L, share)
    delta = (values[:, 0] - values[:, 1]) / 2
    variance = ((again - values[:, 0]) ** 2)[:, :repeats].mean(1) / 2
    found = shares(variance, delta)
    assert abs(literal.z_score(found, share * (1 - share / (2 * L)))) < 4
    assert abs(literal.z_score(found, share)) > 6  # the twin: as if measured apart


def test_shares_are_averaged_and_not_their_parts():
    """Values that fall tenfold every 20 steps, and a noise share that falls from 0.9 to 0.1."""
    steps, memory = 200, 0.05
    rng = np.random.default_rng(32)
    mean_share = variance = square = 0.0
    for t in range(steps):
        share = 0.9 if t < steps // 2 else 0.1
        size = 10.0 ** (-t / 20)
        values = size * pairs(rng, 1, 20, share)[0]
        noise = size * rng.standard_normal(2)
        s2, d2 = (noise[0] - noise[1]) ** 2 / 2, (((values[:, 0] - values[:, 1]) / 2) ** 2).mean()
        a = max(memory, 1 / (t + 1))
        mean_share += a * (theory.noise_share(s2, d2, num_pairs=20) - mean_share)
        variance, square = variance + a * (s2 - variance), square + a * (d2 - square)
    assert mean_share == pytest.approx(0.1, abs=0.08)
    assert theory.noise_share(variance, square, num_pairs=20) > 0.3  # still the early steps'
    assert theory.noise_share(variance, d2, num_pairs=20) > 10  # an old numerator alone: absurd


# The best factor.

families = st.sampled_from(
    [theory.iid, theory.sphere, theory.orthogonal, theory.gram_schmidt, theory.hadamard]
)


@given(
    family=families,
    d=st.integers(1, 300),
    L=st.integers(1, 300),
    G=st.floats(0.01, 100),
    s2=st.floats(0, 100),
    c=st.floats(0.01, 10),
    estimator=st.sampled_from(["forward", "antithetic"]),
)
def test_the_factor_of_a_share_is_the_minimum_of_the_whole_error(family, d, L, G, s2, c, estimator):
    moments = family(d, L)
    terms = theory.mse_terms(
        moments,
        gradient_norm2=G,
        samples="independent",
        estimator=estimator,
        spacing=c,
        value_variance=s2,
    )
    noise = theory.slope_noise(s2, spacing=c, estimator=estimator)
    assert terms.value_noise == pytest.approx(d * moments.mean / L * noise)
    share = noise / (moments.mean * G + noise)
    w = theory.noisy_scale(moments, share)
    # 1 − φ loses digits as φ → 1
    assert w == pytest.approx(theory.optimal_scale_whole(terms, scale="estimate"), rel=1e-5)
    assert theory.noisy_scale(moments, 0.0) == pytest.approx(theory.optimal_scale(moments))
    assert theory.noisy_scale(moments, 1.0) == 0.0


@pytest.mark.parametrize("estimator", ["antithetic", "forward"])
def test_the_whole_error_by_literal_values(estimator: str):
    trial = Trial(40, ratio=2.0, repeats=1, steps=1, estimator=estimator)
    w = theory.noisy_scale(trial.moments, trial.true_share)
    assert abs(literal.z_score(trial.known, 1 - w)) < 4
    assert abs(literal.z_score(trial.slope_squares, 1 + 2.0)) < 4  # E D² = G + ν
    # The twins: what the noise-blind factor would leave if there were no noise, and the noise of
    # the other estimator.
    assert abs(literal.z_score(trial.blind, 1 - theory.optimal_scale(trial.moments))) > 6
    other = 0.25 if estimator == "forward" else 4.0
    wrong = theory.noisy_scale(trial.moments, 2 * other / (1 + 2 * other))
    assert abs(literal.z_score(trial.known, 1 - wrong)) > 6


@pytest.mark.parametrize("estimator", ["antithetic", "forward"])
@pytest.mark.parametrize(
    ("ratio", "repeats", "steps"),
    [(1.0, 1, 1), (3.0, 1, 1), (10.0, 1, 1), (10.0, 1, 10), (0.3, 4, 10), (3.0, 1, 10)],
)
def test_the_estimated_share_beats_the_blind_factor(estimator, ratio, repeats, steps):
    trial = Trial(41, ratio=ratio, repeats=repeats, steps=steps, estimator=estimator)
    assert literal.z_score(trial.blind - trial.estimated, 0.0) > 6
    assert trial.known.mean() < trial.estimated.mean()


def test_drowned_slopes_need_more_slopes_and_not_a_better_factor():
    """At ρ = 10 even the estimated factor leaves more than the estimate zero, whose error is 1."""
    one, ten = (Trial(45, ratio=10.0, repeats=1, steps=steps) for steps in (1, 10))
    assert one.blind.mean() == pytest.approx(2.3, abs=0.1)
    assert one.estimated.mean() == pytest.approx(1.6, abs=0.1)
    assert ten.estimated.mean() == pytest.approx(1.15, abs=0.05)
    assert literal.z_score(ten.estimated, 1.0) > 6
    assert literal.z_score(ten.known, 1.0) < -6


def test_where_the_estimated_share_does_not_pay():
    """Little noise, and one step's share for all there is: the blind factor is the better one."""
    for seed, most, how in ((42, 0.01, {}), (43, 0.15, {"d": 20, "L": 40})):
        trial = Trial(seed, ratio=0.3, repeats=1, steps=1, **how)
        loss = (trial.estimated.mean() - trial.blind.mean()) / trial.blind.mean()
        assert literal.z_score(trial.estimated - trial.blind, 0.0) > 6
        assert loss < most
    exact = Trial(44, ratio=0.0, repeats=1, steps=1)
    np.testing.assert_allclose(exact.estimated, exact.blind, rtol=1e-12)


def test_shares_at_their_ends():
    assert theory.noise_share(0.0, 0.0, num_pairs=3) == 0.0
    assert theory.noise_share(1.0, 0.0, num_pairs=3) == math.inf
    assert theory.noise_share(1.0, 1.0, num_pairs=2) == 0.25
    assert theory.noise_to_signal(math.inf) == math.inf
    assert theory.noisy_scale(theory.iid(5, 3), 2.0) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.noise_share(-1.0, 1.0, num_pairs=3), "`value_variance` must not be neg"),
        (lambda: theory.noise_share(1.0, math.nan, num_pairs=3), "`half_difference2` must not"),
        (lambda: theory.noise_share(1.0, 1.0, num_pairs=0), "`num_pairs` must be"),
        (lambda: theory.noise_to_signal(-0.1), "`share` must not be negative, but is -0.1."),
        (lambda: theory.noise_to_signal(math.nan), "`share` must not be negative, but is nan."),
        (lambda: theory.slope_noise(1.0, spacing=0.0), "`spacing` must be positive"),
        (lambda: theory.slope_noise(1.0, spacing=1.0, estimator="one-point"), "'forward', 'anti"),
    ],
)
def test_bad_numbers(call, message: str):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
