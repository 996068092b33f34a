"""The pilot's metric: full for few parameters, and blind to noise."""

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
import theory_literal as literal
from gensmooth.directions.composed import MixedDraw
from gensmooth.directions.draw import Address, normals
from gensmooth.searches import evolution, metric

D = 4


def factor_of(seed: int, d: int = D) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((2 * d, d))
    return np.linalg.cholesky(rows.T @ rows)


def ellipsoid(d: int, condition: float) -> np.ndarray:
    """The Hessian of a rotated ellipsoid."""
    turn = scipy.stats.ortho_group.rvs(d, random_state=1)
    return turn @ np.diag(condition ** np.linspace(0, 1, d)) @ turn.T


# --- algebra -------------------------------------------------------------------------------------


def test_the_factor_is_choleskys():
    f = factor_of(0)
    np.testing.assert_allclose(metric.covariance(f), f @ f.T, rtol=1e-13)
    np.testing.assert_allclose(metric.cholesky(f @ f.T), f, rtol=1e-10, atol=1e-12)
    z = np.random.default_rng(1).standard_normal((7, D))
    np.testing.assert_allclose(metric.solve(f, z @ f.T), z, rtol=1e-10)
    np.testing.assert_allclose(metric.apply(f, z[0]), f @ z[0], rtol=1e-13)


def test_a_matrix_that_rounding_left_indefinite_still_has_directions():
    f = metric.cholesky(np.ones((3, 3)) - 1e-17 * np.eye(3))
    assert (f.diagonal() > 0).all()
    assert np.isfinite(f).all()


def test_mixed_directions_are_the_same_however_they_are_asked_for():
    f, x = factor_of(2), np.linspace(-1, 1, D)
    base = normals(Address(3, 1, 6, D, np.dtype(np.float64)))
    draw = MixedDraw(base, f)
    np.testing.assert_allclose(draw.block(), base.block() @ f.T, rtol=1e-12)
    rows, spacings = np.array([4, 0, 5]), np.array([0.5, -0.5, 2.0])
    together = draw.perturb(x, rows, spacings, np.empty((3, D)))
    for index, (row, spacing) in enumerate(zip(rows, spacings, strict=True)):
        alone = draw.perturb(x, np.array([row]), np.array([spacing]), np.empty((1, D)))
        assert alone[0].tobytes() == together[index].tobytes()
    np.testing.assert_allclose(together, x + spacings[:, None] * draw.block()[rows], rtol=1e-12)
    weights = np.arange(6.0)
    np.testing.assert_allclose(draw.combine(weights)[0], weights @ draw.block(), rtol=1e-12)


# --- what it learns ------------------------------------------------------------------------------


def test_ranks_that_know_nothing_leave_the_covariance_as_it_is():
    """On average: E Σ v y yᵀ = (1 − negative_total) C. Without that total it would shrink."""
    k, f, rng = evolution.constants(D, 5), factor_of(4), np.random.default_rng(5)
    seen = []
    for _ in range(4000):
        z = np.repeat(rng.standard_normal((5, D)), 2, axis=0)
        z[1::2] *= -1
        order = rng.permutation(10)
        points = metric.weighted_squares(z @ f.T, z, k.weights[order], k.negative_weights[order])
        inside = np.linalg.solve(f, np.linalg.solve(f, points).T)
        seen.append((np.trace(inside) / D, inside[1, 0]))
    size, mixed = np.array(seen).T
    assert abs(literal.z_score(size, 1 - k.negative_total)) < 4
    assert abs(literal.z_score(mixed, 0.0)) < 4
    assert abs(literal.z_score(size, 1.0)) > 20


def test_it_learns_a_rotated_ellipsoid():
    """The directions' covariance comes to be the inverse Hessian, which no diagonal can be."""
    d, hessian = 5, ellipsoid(5, 1e4)
    pilot = gs.Pilot(budget=4000, samples="independent", x_scale=1.0)  # no quasi-Newton phase
    state = pilot.init(np.full(d, 3.0), seed=0)
    while state.evaluations < 2000:
        batch = pilot.ask(state)
        values = [float(x @ hessian @ x) for x in batch.points()]
        state, _ = pilot.tell(state, batch, values)
    found = state.sent.scale
    evened = np.linalg.cond(found.T @ hessian @ found)
    assert evened < 30 < 1e4
    assert float(state.x @ hessian @ state.x) < 1e-6


def test_more_parameters_have_one_scale_each():
    for d, shape in ((200, (200, 200)), (201, (201,))):
        assert gs.MirroredES(budget=1000).init(np.ones(d), seed=0).sent.scale.shape == shape
    for d, shape in ((10, (10, 10)), (11, (11,))):  # noise teaches few scales faster
        pilot = gs.Pilot(budget=1000, samples="independent")
        assert pilot.init(np.ones(d), seed=0).sent.scale.shape == shape


def test_the_factor_is_computed_once_in_d_evaluations():
    """Between two computations, C goes on learning and F stays."""
    d, budget = 30, 600
    pilot = gs.MirroredES(budget=budget)
    state, seen = pilot.init(np.ones(d), seed=3), []
    while state.evaluations + pilot.next_evaluations(state) <= budget:
        batch = pilot.ask(state)
        values = [float((np.arange(1, d + 1) * x**2).sum()) for x in batch.points()]
        state, _ = pilot.tell(state, batch, values)
        seen.append((state.sent.scale.tobytes(), state.kept.memory.covariance.tobytes()))
    factors, covariances = zip(*seen, strict=True)
    assert len(set(covariances)) == len(seen)
    pairs = evolution.default_pairs(d)
    assert len(seen) // (d // (2 * pairs)) - 1 <= len(set(factors)) - 1 < len(seen) / 1.5


def test_bounds_and_a_full_metric_agree_where_bounds_are_far_away():
    """Within bounds points are taken as they were evaluated, without them as they were drawn."""

    def end(bounds):
        pilot = gs.Pilot(budget=1000, samples="independent", x_scale=1.0, bounds=bounds)
        state = pilot.init(np.full(3, 3.0), seed=0)
        for _ in range(30):
            batch = pilot.ask(state)
            values = [float((x * [1, 5, 9] * x).sum()) for x in batch.points()]
            state, _ = pilot.tell(state, batch, values)
        return state.x, state.sent.scale

    for one, other in zip(end(None), end((-1e3, 1e3)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


# --- and what noise does not teach it ------------------------------------------------------------


@pytest.mark.parametrize("full", [True, False])
def test_steps_ordered_by_noise_teach_nothing(full):
    def spread(share):
        rng = np.random.default_rng(6)
        begun = evolution.initial_evolution(D, np.dtype(np.float64), learns_metric=True, pairs=4)
        now, f = begun._replace(noise_share=share), np.eye(D) if full else None
        k = evolution.constants(D, 4)
        for _ in range(200):
            z = np.repeat(rng.standard_normal((4, D)), 2, axis=0)
            z[1::2] *= -1
            order = rng.permutation(8)
            w = k.weights[order]
            squares = (w[:, None] * z**2).sum(axis=0)
            if f is not None:
                squares = metric.weighted_squares(z @ f.T, z, w, k.negative_weights[order])
            now, f = evolution.adapt(now, w @ z, squares, pairs=4, all_equal=False, factor=f)
        return float(now.variances.max() / now.variances.min())

    assert spread(1.0) == pytest.approx(1.0, abs=1e-12)
    assert spread(0.0) > 3  # as if every step taught something


def test_additive_noise_does_not_stop_it():
    """What a drifting metric and a spacing that fell below the noise did: 0.08 and no better."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        res = gs.minimize(
            lambda x, rng=rng: float(((x - 1) ** 2).sum() + rng.standard_normal()),
            np.full(5, 3.0),
            budget=10_000,
            seed=seed,
        )
        errors.append(float(((res.x - 1) ** 2).sum()))
    assert np.median(errors) < 0.03
