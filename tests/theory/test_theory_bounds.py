"""The information limit and the convergence bound, against what they speak about."""

import numpy as np
import pytest

import theory_literal as literal
from gensmooth import theory


@pytest.mark.parametrize(("d", "L"), [(6, 2), (6, 5), (3, 1)])
def test_the_projection_attains_the_information_limit(d: int, L: int):
    """The posterior mean under an isotropic prior, by least squares on literal derivatives."""
    rng = np.random.default_rng(7)
    eps = literal.gaussian(rng, 40_000, L, d)
    g = literal.sphere(rng, 40_000, 1, d)[:, 0]
    derivatives = (eps @ g[:, :, None])[:, :, 0]
    gram = eps @ np.swapaxes(eps, 1, 2)
    weights = np.linalg.solve(gram, derivatives[:, :, None])[:, :, 0]
    estimate = (weights[:, :, None] * eps).sum(1)
    relative = ((estimate - g) ** 2).sum(-1) / d
    assert abs(literal.z_score(relative, theory.information_limit(d, L))) < 4
    assert abs(literal.z_score(relative, theory.information_limit(d, L + 1))) > 6
    # No multiple of the projection does better.
    for factor in (0.9, 1.1):
        other = ((factor * estimate - g) ** 2).sum(-1) / d
        assert other.mean() > relative.mean()


def test_with_d_directions_nothing_is_missing():
    assert theory.information_limit(5, 5) == 0.0
    assert theory.information_limit(5, 50) == 0.0


def test_sgd_keeps_the_bound_and_needs_its_mse():
    """F = ½μ‖θ‖² from its minimum, so Δ = 0 and only the noise moves θ: half of the bound."""
    mu, T, d, M = 2.0, 900, 5, 3.0
    eta = theory.convergence_learning_rate(smoothness=mu, steps=T)
    rng = np.random.default_rng(8)
    theta, total = np.zeros((400, d)), np.zeros(400)
    for _ in range(T):
        gradient = mu * theta
        total += (gradient**2).sum(-1)
        theta -= eta * (gradient + np.sqrt(M / d) * rng.standard_normal(theta.shape))
    average = total / T
    bound = theory.convergence_bound(M, 0.0, smoothness=mu, bound=0.0, steps=T)
    assert bound == pytest.approx(M / np.sqrt(T))
    assert 0.4 * bound < average.mean() < bound
    without = theory.convergence_bound(0.0, 0.0, smoothness=mu, bound=0.0, steps=T)
    assert literal.z_score(average, without) > 6


@pytest.mark.parametrize("B", [0.0, 0.3])
def test_descent_keeps_the_bound_and_needs_its_range(B: float):
    """No noise, an estimate (1 − B)∇F, and a gap F(θ⁰) − inf F = 2Δ."""
    mu, T, gap = 2.0, 400, 1.5
    eta = theory.convergence_learning_rate(smoothness=mu, steps=T)
    theta = np.sqrt(2 * gap / mu)
    M = (B * mu * theta) ** 2
    total = 0.0
    for _ in range(T):
        total += (mu * theta) ** 2
        theta -= eta * (1 - B) * mu * theta
    bound = theory.convergence_bound(M, -B, smoothness=mu, bound=gap / 2, steps=T)
    assert bound is not None
    assert total / T < bound
    if B == 0.0:  # with Δ in place of 4Δ it would fail
        assert total / T > (gap / 2) * mu / np.sqrt(T)


def test_the_bound_does_not_apply_to_a_bias_of_a_half():
    known = {"smoothness": 1.0, "bound": 1.0, "steps": 10}
    assert theory.convergence_bound(1.0, 0.49, **known) is not None
    for B in (0.5, -0.5, 0.9, 1.5):
        assert theory.convergence_bound(1.0, B, **known) is None


def test_where_shrinkage_has_a_bound():
    for L, applies in ((101, False), (102, True)):
        shrunk = theory.iid(100, L, variance=theory.optimal_variance(100, L))
        bound = theory.convergence_bound(
            1.0, theory.relative_bias(shrunk), smoothness=1.0, bound=1.0, steps=10
        )
        assert (bound is not None) == applies
