"""STARS: its spacing and step against their bound, a literal loop, and a search's identities."""

import math

import numpy as np
import pytest

import gensmooth as gs
import theory_literal as literal
from gensmooth import theory


def bowl(x):
    return float(x @ x) + 1.0


def noisy(x, rng):
    return bowl(x) + 0.1 * rng.standard_normal()


# --- the formulas ----


def _bound(mu, n, L1, s, kind, f):
    sixth = (n + 6) ** 3
    if kind == "additive":
        return mu**2 * L1**2 / 4 * sixth + 2 * s**2 * n / mu**2
    return mu**2 * L1**2 / 4 * (1 + 3 * s**2) * sixth + 4 * s**2 * f**2 * n / mu**2


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_the_spacing_minimises_the_papers_bound(kind):
    for n, L1, s, f in ((1, 1.0, 0.1, 2.0), (30, 4.0, 0.01, -7.0), (1000, 0.2, 3.0, 0.5)):
        mu = theory.stars_spacing(n, smoothness=L1, noise=s, kind=kind, value=f)
        least = _bound(mu, n, L1, s, kind, f)
        for other in (0.99 * mu, 1.01 * mu):
            assert _bound(other, n, L1, s, kind, f) > least


def test_the_error_of_a_difference_is_below_the_bound_and_larger_at_other_spacings():
    """On a quadratic with H = L₁ I the bound is nearly attained: E‖u‖⁶ = n(n+2)(n+4)."""
    n, L1, s, reps = 5, 2.0, 0.05, 200_000
    rng = np.random.default_rng(0)
    u = rng.standard_normal((reps, n))
    r2 = (u**2).sum(1)
    e = rng.standard_normal((2, reps)) * s

    def error(mu):  # s − (∇f·u)u, f = L₁/2 ‖x‖²
        return ((L1 / 2 * mu * r2 + (e[0] - e[1]) / mu) ** 2) * r2

    mu = theory.stars_spacing(n, smoothness=L1, noise=s)
    exact = mu**2 * L1**2 / 4 * n * (n + 2) * (n + 4) + 2 * s**2 * n / mu**2
    assert abs(literal.z_score(error(mu), exact)) < 4
    assert exact < _bound(mu, n, L1, s, "additive", 0.0)
    for other in (mu / 3, 3 * mu):
        difference = error(other) - error(mu)
        assert difference.mean() / (difference.std() / math.sqrt(reps)) > 6


def test_the_step_is_the_papers():
    assert theory.stars_step(16, smoothness=0.5) == 1 / (4 * 0.5 * 20)


# --- the search ----


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_a_search_is_the_papers_loop(kind):
    n, L1, s, f0 = 7, 2.0, 0.1, 8.0
    family = gs.Stars(L1, s, noise_kind=kind, value=f0)
    h = theory.stars_step(n, smoothness=L1)
    search = gs.RandomSearch(family, num_directions=1, spacing=1.0, optimizer=gs.sgd(h))
    state = search.init(np.ones(n), seed=4)
    x, value = np.ones(n), f0
    for step in range(30):
        batch = search.ask(state)
        at = gs.directions.Address(4, step, 1, n, np.dtype(float))
        u = gs.Gaussian().draw((), at).block()[0]
        mu = theory.stars_spacing(n, smoothness=L1, noise=s, kind=kind, value=value)
        here, there = bowl(x), bowl(x + mu * u)
        state, _ = search.tell(state, batch, [bowl(point) for point in batch.points()])
        x = x - h * (there - here) / mu * u
        value = here
        np.testing.assert_allclose(state.x, x, rtol=1e-9)
    assert bowl(x) < 0.5 * bowl(np.ones(n))


def test_the_method_by_its_name_is_the_family_with_its_numbers():
    n, L1 = 6, 2.0
    h = theory.stars_step(n, smoothness=L1)
    options = {"samples": "independent", "budget": 400, "seed": 1}
    named = gs.minimize(noisy, np.ones(n), method="stars", noise=0.1, learning_rate=h, **options)
    parts = gs.minimize(
        noisy,
        np.ones(n),
        directions=gs.Stars(1 / (4 * h * (n + 4)), 0.1),
        num_directions=1,
        optimizer=gs.sgd(h),
        noise=0.1,
        **options,
    )
    assert np.array_equal(named.x, parts.x)
    assert named.fun < noisy(np.ones(n), np.random.default_rng(0))


def test_what_stars_cannot_do_without_is_named():
    with pytest.raises(ValueError, match="needs `noise`"):
        gs.minimize(bowl, np.ones(3), method="stars", learning_rate=0.1)
    with pytest.raises(ValueError, match="stars_step"):
        gs.minimize(bowl, np.ones(3), method="stars", noise=0.1)
    with pytest.raises(ValueError, match="`spacing` cannot be used with method='stars'"):
        gs.minimize(bowl, np.ones(3), method="stars", noise=0.1, learning_rate=0.1, spacing=0.1)
    with pytest.raises(ValueError, match="`value` must not be 0"):
        gs.Stars(1.0, 0.1, noise_kind="multiplicative", value=0.0)
    with pytest.raises(ValueError, match="`noise_kind` must be"):
        gs.Stars(1.0, 0.1, noise_kind="both")


def test_a_value_of_zero_leaves_the_spacing():
    family = gs.Stars(1.0, 0.1, noise_kind="multiplicative", value=2.0)
    state = family.init(3, np.dtype(float))
    assert family.observe(state, 0.0) == state
    assert family.observe(state, math.nan) == state
    assert family.observe(state, -3.0).value == -3.0


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_serial_processes_and_resume_are_the_same_bit_for_bit(kind, tmp_path):
    options = {
        "directions": gs.Stars(2.0, 0.1, noise_kind=kind, value=5.0),
        "num_directions": 2,
        "seed": 3,
    }
    options |= {"optimizer": gs.sgd(0.01), "budget": 200}
    alone = gs.minimize(bowl, np.ones(5), **options)
    assert np.array_equal(alone.x, gs.minimize(bowl, np.ones(5), workers=2, **options).x)
    gs.minimize(bowl, np.ones(5), max_steps=10, folder=tmp_path / "run", **options)
    assert np.array_equal(alone.x, gs.resume(tmp_path / "run", bowl, max_steps=10**6).x)
