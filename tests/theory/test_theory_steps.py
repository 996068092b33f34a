"""Products of successive estimates and the probe along their mean, by literal descent."""

import math

import numpy as np
import pytest

import theory_literal as literal
from gensmooth import theory

D, L = 6, 3
SAMPLERS = {
    "gaussian": (literal.gaussian, theory.iid(D, L)),
    "coins": (literal.bernoulli, theory.iid(D, L, kurtosis=1.0)),
    "orthogonal": (literal.orthogonal, theory.orthogonal(D, L)),
    "gram-schmidt": (literal.gram_schmidt, theory.gram_schmidt(D, L)),  # a < 1
}
SPACING, VALUE_VARIANCE = 0.5, 0.3


START = np.array([1.0, -0.5, 0.3, 0.8, -0.2, 0.6])


def descend(rng, sampler, hessian, *, rate: float, steps: int, reps: int, start=START):
    """The estimates of a descent on ½xᵀHx from noisy values, (steps, replicates, d)."""
    x = np.broadcast_to(start, (reps, D))
    estimates = []
    for _ in range(steps):
        eps = sampler(rng, reps, L, D)
        values = [
            0.5 * ((x[:, None] + side * eps) @ hessian * (x[:, None] + side * eps)).sum(-1)
            + np.sqrt(VALUE_VARIANCE) * rng.standard_normal((reps, L))
            for side in (SPACING, -SPACING)
        ]
        slopes = (values[0] - values[1]) / (2 * SPACING)
        g = (slopes[:, :, None] * eps).mean(1)
        estimates.append(g)
        x = x - rate * g
    return np.array(estimates)


def known(moments: theory.Moments, curvature: float) -> tuple[float, float]:
    """G and E‖ĝ‖² at the start of `descend` on an isotropic quadratic."""
    G = float(curvature**2 * START @ START)
    terms = theory.mse_terms(
        moments,
        gradient_norm2=G,
        samples="independent",
        estimator="antithetic",
        spacing=SPACING,
        value_variance=VALUE_VARIANCE,
    )
    return G, terms.second + terms.value_noise


@pytest.mark.parametrize("family", SAMPLERS)
@pytest.mark.parametrize("times", [0.5, 1.0, 2.0])
def test_the_product_of_estimates_has_its_law_at_every_lag(family: str, times: float):
    sampler, moments = SAMPLERS[family]
    curvature = 2.0
    G, second = known(moments, curvature)
    at = {"curvature": curvature, "mean": moments.mean}
    rate = times * theory.greedy_learning_rate(G, second, **at)
    g = descend(
        np.random.default_rng(10), sampler, curvature * np.eye(D), rate=rate, steps=5, reps=60_000
    )
    for lag in (1, 2, 4):
        products = (g[0] * g[lag]).sum(-1)
        law = theory.lagged_product(G, second, learning_rate=rate, lag=lag, **at)
        assert abs(literal.z_score(products, law)) < 4
        assert law == pytest.approx(0, abs=1e-12) if times == 1 else law * (1 - times) > 0
        # The twin: the squared length of the gradient in the place of that of the estimate. (At
        # twice the greedy step both have faded to nothing by lag 4.)
        wrong = theory.lagged_product(G, G, learning_rate=rate, lag=lag, **at)
        assert lag == 4 or abs(literal.z_score(products, wrong)) > 6


def test_the_product_fades_with_the_lag():
    sampler, moments = SAMPLERS["coins"]
    G, second = known(moments, 1.0)
    rate = 0.4 * theory.greedy_learning_rate(G, second, curvature=1.0)
    g = descend(np.random.default_rng(11), sampler, np.eye(D), rate=rate, steps=13, reps=100_000)
    products = (g[0] * g[12]).sum(-1)
    at = {"learning_rate": rate, "curvature": 1.0}
    assert abs(literal.z_score(products, theory.lagged_product(G, second, lag=12, **at))) < 4
    assert abs(literal.z_score(products, theory.lagged_product(G, second, lag=1, **at))) > 6


def test_the_greedy_step_lowers_the_value_most():
    sampler, moments = SAMPLERS["gaussian"]
    G, second = known(moments, 1.0)
    best = theory.greedy_learning_rate(G, second, curvature=1.0)
    g = descend(np.random.default_rng(12), sampler, np.eye(D), rate=0, steps=1, reps=60_000)[0]

    def values(rate: float) -> literal.Array:
        return 0.5 * ((START - rate * g) ** 2).sum(-1)

    for times in (0.5, 1.6):
        assert literal.z_score(values(times * best) - values(best), 0.0) > 6
    # The twin: the step that would be best for the gradient itself.
    noise_free = theory.greedy_learning_rate(G, G, curvature=1.0)
    assert literal.z_score(values(noise_free) - values(best), 0.0) > 6


def test_the_greedy_step_is_the_best_factor_of_the_whole_error():
    """On ½‖x‖² a step of η = 1 along the gradient is perfect, and ηĝ is an estimate of it."""
    for _, moments in SAMPLERS.values():
        G, second = known(moments, 1.0)
        share = theory.slope_noise(VALUE_VARIANCE, spacing=SPACING)
        share /= moments.mean * G + share
        rate = theory.greedy_learning_rate(G, second, curvature=1.0, mean=moments.mean)
        assert rate == pytest.approx(theory.noisy_scale(moments, share))


@pytest.mark.parametrize(
    ("start", "sign"), [(START, -1), (np.array([0.0, 0.0, 0.0, 0.0, 10.0, 20.0]), 1)]
)
def test_on_other_quadratics_lag_one_marks_the_greedy_step_and_longer_lags_do_not(start, sign):
    """Gradients in steep directions, then in flat ones: a long window is less greedy, both ways."""
    hessian = np.diag([5.0, 2.0, 1.0, 0.5, 0.2, 0.1])
    sampler, _ = SAMPLERS["coins"]
    how = {"reps": 200_000, "start": start}
    trial = descend(np.random.default_rng(13), sampler, hessian, rate=0, steps=1, **how)[0]
    gamma = hessian @ start
    greedy = gamma @ gamma / (trial @ hessian * trial).sum(-1).mean()
    g = descend(np.random.default_rng(14), sampler, hessian, rate=greedy, steps=6, **how)
    assert abs(literal.z_score((g[0] * g[1]).sum(-1), 0.0)) < 4
    assert sign * literal.z_score((g[0] * g[5]).sum(-1), 0.0) > 6


# The probe.


def scores(rng, sampler, reps: int, L: int, d: int) -> literal.Array:
    """`probe_score` for gradients of random orientation and size, p fixed."""
    gradient = rng.standard_normal((reps, d))
    gradient *= np.exp(rng.standard_normal((reps, 1))) / np.linalg.norm(
        gradient, axis=1, keepdims=True
    )
    p = np.sqrt(d) * np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    slopes = np.einsum("rld,rd->rl", sampler(rng, reps, L, d), gradient)
    return np.array([theory.probe_score(s, D) for s, D in zip(gradient @ p, slopes, strict=True)])


@pytest.mark.parametrize("d", [5, 20])
def test_a_probe_that_owes_the_gradient_nothing_has_a_known_variance(d: int):
    L = 12
    found = scores(np.random.default_rng(20), literal.gaussian, 60_000, L, d)
    assert abs(literal.z_score(found, 0.0)) < 4
    assert abs(literal.z_score(found**2, theory.probe_variance(L))) < 4
    assert abs(literal.z_score(found**2, 1.0)) > 6  # the twin: as if the scale were known


def test_coins_have_nearly_the_same_variance():
    found = scores(np.random.default_rng(21), literal.bernoulli, 60_000, 12, 40)
    assert (found**2).mean() == pytest.approx(theory.probe_variance(12), rel=0.03)


@pytest.mark.parametrize("family", ["gaussian", "coins", "orthogonal", "gram-schmidt"])
def test_the_gain_of_the_probe_over_the_product(family: str):
    sampler, moments = SAMPLERS[family]
    rng = np.random.default_rng(22)
    gradient = literal.sphere(rng, 100_000, 1, D)[:, 0] / np.sqrt(D)  # G = 1
    p = np.sqrt(D) * np.eye(D)[0]
    eps = sampler(rng, len(gradient), L, D)
    estimate = (np.einsum("rld,rd->rl", eps, gradient)[:, :, None] * eps).mean(1)
    product, probe = estimate @ p / moments.mean, gradient @ p
    gain = theory.probe_gain(moments)
    assert abs(literal.z_score(product * probe, 1.0)) < 4  # the same signal
    assert abs(literal.z_score(product**2 - gain**2 * probe**2, 0.0)) < 4
    # The twin: √(d/L), exact for orthogonal rows only, and else its limit for few directions.
    if family != "orthogonal":
        assert abs(literal.z_score(product**2 - D / L * probe**2, 0.0)) > 6
    assert theory.probe_gain(theory.iid(10_000, 20)) == pytest.approx(math.sqrt(500), rel=2e-3)


@pytest.mark.parametrize(("times", "sign"), [(0.3, 1), (1.0, 0), (2.0, -1)])
def test_the_probe_along_the_mean_of_past_estimates_has_the_sign_of_the_error(times, sign):
    """Descent on ½‖x‖² with coins, no noise: the greedy rate is a/b at every point."""
    d, L, reps, memory = 30, 5, 300, 0.05
    rate = times * theory.optimal_scale(theory.iid(d, L, kurtosis=1.0))
    rng = np.random.default_rng(23)
    x, mean = rng.standard_normal((reps, d)), np.zeros((reps, d))
    found = []
    for step in range(60):
        eps = literal.bernoulli(rng, reps, L, d)
        slopes = np.einsum("rld,rd->rl", eps, x)
        if step >= 20:
            p = np.sqrt(d) * mean / np.linalg.norm(mean, axis=1, keepdims=True)
            scale = np.sqrt((slopes**2).mean(1))
            found.append((x * p).sum(-1) / scale)
        g = (slopes[:, :, None] * eps).mean(1)
        mean = (1 - memory) * mean + memory * g
        x = x - rate * g
    per_run = np.mean(found, axis=0)
    if sign:
        assert sign * literal.z_score(per_run, 0.0) > 6
    else:
        assert abs(per_run.mean()) < 0.15


def test_scores_of_flat_functions():
    assert theory.probe_score(0.0, [0.0, 0.0]) == 0.0
    assert theory.probe_score(-1.0, [0.0, 0.0]) == -math.inf
    assert theory.probe_score(1e-200, [1e-200]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.probe_score(1.0, []), "`slopes`"),
        (lambda: theory.probe_variance(2), "`num_directions` must be a whole number of at least 3"),
        (lambda: theory.greedy_learning_rate(1.0, 0.0, curvature=1.0), "`estimate_norm2` must be"),
        (
            lambda: theory.lagged_product(1, 1, learning_rate=1, curvature=1, lag=0),
            "`lag` must be a whole number of at least 1",
        ),
    ],
)
def test_bad_numbers(call, message: str):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
