"""Linear regression's closed forms against Monte Carlo, each with a twin that must fail."""

from functools import cache

import numpy as np
import pytest

import gensmooth as gs
import problems_literal as literal
from cases import FAMILIES
from gensmooth.directions import Address
from gensmooth.lab.paper.linreg import kernels as regression_kernels
from gensmooth.problems import regression

DIM = 6
THETA = np.array([0.3, -1.2, 0.8, 2.0, -0.4, 1.1])


@cache
def _data(number=400_000):
    return regression.draw_data(number, dim=DIM, seed=21)


def test_the_gradient_of_the_literal_model():
    # E(Qγ) by Monte Carlo over V and γ, along a direction and as a sum.
    p = literal.points(np.random.default_rng(8), 60_000, 3)
    moment = np.einsum("nij,nj,nkj,nk->ni", p.rotation, p.gamma, p.rotation, p.gamma)
    expected = 1 + 1 / 9
    assert regression.minimizer(3) == pytest.approx(expected)
    assert abs(literal.z_score(moment.sum(axis=1), 3 * expected)) < 4
    assert abs(literal.z_score(moment[:, 1], expected)) < 4
    assert abs(literal.z_score(moment.sum(axis=1), 3.0)) > 8  # the twin: E(Q) E(γ)


def test_the_gradient_of_our_data():
    data = _data()
    gradients = data.x * (data.x @ THETA - data.y)[:, None]
    exact = regression.gradient(THETA)
    for j in range(DIM):
        assert abs(literal.z_score(gradients[:, j], exact[j])) < 4
    along = gradients.sum(axis=1)
    assert abs(literal.z_score(along, exact.sum())) < 4
    assert abs(literal.z_score(along, (THETA - 1).sum())) > 6


def test_the_gradient_is_that_of_the_objective():
    step = 1e-5 * np.eye(DIM)
    slopes = [
        (regression.objective(THETA + s) - regression.objective(THETA - s)) / 2e-5 for s in step
    ]
    np.testing.assert_allclose(slopes, regression.gradient(THETA), rtol=1e-8)


def test_the_objective():
    data = _data()
    loss = 0.5 * (data.y - data.x @ THETA) ** 2
    exact = regression.objective(THETA)
    assert abs(literal.z_score(loss, exact)) < 4
    assert abs(literal.z_score(loss, exact - 0.5)) > 8  # without E σ²/2
    assert regression_kernels.loss(*data, THETA) == pytest.approx(loss.mean(), rel=1e-12)


@pytest.mark.parametrize("theta", [THETA, np.zeros(DIM), np.full(DIM, 1 + 1 / 18), 3 * THETA])
def test_the_trace_of_the_noise(theta):
    data = _data()
    gradients = data.x * (data.x @ theta - data.y)[:, None]
    squares = ((gradients - regression.gradient(theta)) ** 2).sum(axis=1)
    exact = regression.noise_trace(theta)
    assert abs(literal.z_score(squares, exact)) < 4
    # The twin takes γ as its mean: E‖∇f‖² = (d + 3)‖θ − 1‖² + d.
    away = theta - 1
    twin = (DIM + 3) * away @ away + DIM - ((theta - regression.minimizer(DIM)) ** 2).sum()
    assert abs(literal.z_score(squares, twin)) > 8


def test_the_trace_of_the_noise_of_the_literal_model():
    p = literal.points(np.random.default_rng(2), 100_000, 3)
    theta = np.array([2.0, -1.0, 0.5])
    gradients = p.x * (p.x @ theta - p.y)[:, None]
    squares = ((gradients - regression.gradient(theta)) ** 2).sum(axis=1)
    assert abs(literal.z_score(squares, regression.noise_trace(theta))) < 4


@pytest.mark.parametrize("number", [1, 4])
def test_the_squares_of_the_mean_hessian(number):
    x = _data().x.reshape(-1, number, DIM)
    hessians = np.einsum("rni,rnj->rij", x, x) / number
    trace2 = np.trace(hessians, axis1=1, axis2=2) ** 2
    frobenius2 = (hessians**2).sum(axis=(1, 2))
    diagonal2 = (np.diagonal(hessians, axis1=1, axis2=2) ** 2).sum(axis=1)
    exact = regression.hessian_squares(DIM, number)
    for sample, value in zip((trace2, frobenius2, diagonal2), exact, strict=True):
        assert abs(literal.z_score(sample, value)) < 4
    # The twin: standard normal x, whose E‖x‖⁴ is d(d+2).
    assert abs(literal.z_score(trace2, DIM**2 + 2 * DIM / number)) > 8


def test_the_mean_hessian_is_isotropic():
    exact = regression.hessian_squares(DIM, 7)
    assert exact.diagonal2 == pytest.approx((exact.trace2 + 2 * exact.frobenius2) / (DIM + 2))


# --- the error of an estimate ------------------------------------------------------------------

SIZE = {"num_directions": 4, "num_samples": 2}
PREDICTED = {
    "gaussian": gs.Gaussian(),
    "bernoulli": gs.Bernoulli(),
    "bernoulli, m = 0.7": gs.Bernoulli(m=0.7),
    "sphere": gs.Sphere(),
    "orthogonal": gs.Orthogonal(),
    "orthogonal, residual": gs.Orthogonal("residual"),
    "orthogonal bernoulli": gs.OrthogonalBernoulli(),
    "shrunk gaussian": gs.shrunk(gs.Gaussian()),
    "shrunk bernoulli, estimate": gs.shrunk(gs.Bernoulli(), scale="estimate"),
    "shrunk orthogonal bernoulli": gs.shrunk(gs.OrthogonalBernoulli()),
}


def _errors(directions, *, spacing, number=6000, antithetic=False, num_directions=4):
    """‖estimate − ∇F‖² of independent estimates at the same θ."""
    family = directions.resolve(DIM, num_directions)
    state = family.init(DIM, np.dtype(float))
    exact, found, errors = regression.gradient(THETA), np.empty(DIM), np.empty(number)
    for step in range(number):
        draw = family.draw(
            state,
            Address(
                seed=9, step=step, num_directions=num_directions, dim=DIM, dtype=np.dtype(float)
            ),
        )
        data = regression.draw_data(SIZE["num_samples"], dim=DIM, seed=9, step=step)
        regression_kernels.estimate(
            draw.block(), draw.factor, *data, THETA, spacing, antithetic, found
        )
        errors[step] = ((found - exact) ** 2).sum()
    return errors


@pytest.mark.parametrize("name", PREDICTED)
def test_the_predicted_error_is_the_measured_one(name):
    directions, spacing = PREDICTED[name], 2.0
    errors = _errors(directions, spacing=spacing)
    exact = regression.predicted_mse(directions, THETA, spacing=spacing, **SIZE)
    assert abs(literal.z_score(errors, exact)) < 4
    # Twins: the Lemma, and the exact formula without what the spacing adds.
    assert abs(literal.z_score(errors, regression.lemma_mse(directions, THETA, **SIZE))) > 6
    small = regression.predicted_mse(directions, THETA, spacing=1e-9, **SIZE)
    assert abs(literal.z_score(errors, small)) > 6


def test_more_hadamard_rows_than_the_matrix_has():
    directions, size = gs.OrthogonalBernoulli(), {"num_directions": 11, "num_samples": 2}
    errors = _errors(directions, spacing=0.3, num_directions=11, number=20_000)
    exact = regression.predicted_mse(directions, THETA, spacing=0.3, **size)
    assert abs(literal.z_score(errors, exact)) < 4
    # The twin takes the rows for independent.
    twin = regression.predicted_mse(gs.Bernoulli(), THETA, spacing=0.3, **size)
    assert abs(literal.z_score(errors, twin)) > 6


def test_the_signs_of_hadamard_rows_part_them_at_a_finite_spacing():
    directions, spacing = gs.OrthogonalBernoulli(), 4.0
    size = {"num_directions": 8, "num_samples": 2}
    errors = _errors(directions, spacing=spacing, num_directions=8, number=12_000)
    exact = regression.predicted_mse(directions, THETA, spacing=spacing, **size)
    assert abs(literal.z_score(errors, exact)) < 4
    # The twin: rows without signs, each pair adding E[t (α d² + β t²)], t = ε_lᵀε_m. Six of the
    # eight columns of a row other than the first sum to −2 once, 2 twice and 0 four times.
    alpha, beta = 1 + 1 / (8 * 2), 2 * 9 / (8 * 2)
    t = np.array([-2, 2, 2, 0, 0, 0, 0])
    pair = (t * (alpha * DIM**2 + beta * t**2)).mean()
    twin = exact + spacing**2 / (4 * 8**2) * 8 * 7 * pair
    assert abs(literal.z_score(errors, twin)) > 6


def test_antithetic_differences_know_no_spacing():
    errors = _errors(gs.Gaussian(), spacing=3.0, antithetic=True)
    exact = regression.predicted_mse(
        gs.Gaussian(), THETA, spacing=3.0, estimator="antithetic", **SIZE
    )
    assert abs(literal.z_score(errors, exact)) < 4
    forward = regression.predicted_mse(gs.Gaussian(), THETA, spacing=3.0, **SIZE)
    assert abs(literal.z_score(errors, forward)) > 8


@pytest.mark.parametrize("name", ["gaussian", "orthogonal bernoulli"])
def test_paired_samples(name):
    directions, spacing, number = PREDICTED[name], 0.5, 40_000
    data = regression.draw_data(number * 8, dim=DIM, seed=77)
    x, y = data.x.reshape(number, 4, 2, DIM), data.y.reshape(number, 4, 2)
    blocks = np.empty((number, 4, DIM))
    for step in range(number):
        blocks[step] = directions.draw(
            (), Address(seed=5, step=step, num_directions=4, dim=DIM, dtype=np.dtype(float))
        ).block()
    e, a = y - x @ THETA, np.einsum("rlni,rli->rln", x, blocks)
    delta = (0.5 * (e - spacing * a) ** 2 - 0.5 * e**2).mean(axis=2)
    estimates = np.einsum("rl,rli->ri", delta, blocks) / (4 * spacing)
    errors = ((estimates - regression.gradient(THETA)) ** 2).sum(axis=1)
    paired = regression.predicted_mse(directions, THETA, spacing=spacing, samples="paired", **SIZE)
    assert abs(literal.z_score(errors, paired)) < 4
    shared = regression.predicted_mse(directions, THETA, spacing=spacing, **SIZE)
    assert abs(literal.z_score(errors, shared)) > 6


def test_the_spacing_term_follows_from_the_lengths_alone():
    # By rotation invariance it is c²/(4L) E‖ε‖⁶ E(uᵀH̄u)² for independent directions.
    curvature2 = regression.hessian_squares(DIM, 3).diagonal2 / DIM
    d, c = DIM, 0.3
    for directions, length6 in (
        (gs.Gaussian(), d * (d + 2) * (d + 4)),
        (gs.Bernoulli(), d**3),
        (gs.Sphere(), d**3),
    ):
        found = regression.prediction(
            directions, dim=d, num_directions=5, num_samples=3, spacing=c
        ).spacing
        assert found == pytest.approx(c**2 / 20 * length6 * curvature2)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_full_hadamard_rows_are_orthogonal_rows(dim):
    size = {"dim": dim, "num_directions": dim, "num_samples": 3, "spacing": 0.5}
    a = regression.prediction(gs.OrthogonalBernoulli(), **size)
    b = regression.prediction(gs.Orthogonal(), **size)
    assert a == pytest.approx(b)


@pytest.mark.parametrize("name", ["guided", "laplace", "bernoulli, p = 0.2", "shrunk laplace"])
def test_no_closed_form_is_said(name):
    with pytest.raises(gs.NoClosedForm):
        regression.predicted_mse(FAMILIES[name], THETA, spacing=0.1, **SIZE)
