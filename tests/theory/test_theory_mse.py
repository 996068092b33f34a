"""The whole MSE of literal estimators in the three sample modes, and twins that must be rejected.

The noise of the `Objective` is quadratic in θ and its values, gradients and Hessians are
correlated, so the formulas of order c⁰ are completed by the exact finite-spacing term of
`quadratic_spacing_mse` and hold at a spacing that is not small.
"""

import numpy as np
import pytest

import theory_literal as literal
from gensmooth import theory

MODES = ("paired", "shared", "independent")
ESTIMATORS = ("forward", "antithetic", "one-point")
C, N = 0.4, 2
LINEAR = literal.Objective(
    gradient=np.array([1.0, -0.5, 0.3, 0.8, -0.2]),
    noise=np.array([2.0, 0.5, 4.0, 1.0, 0.1]),
    value_variance=0.6,
    value=0.7,
)
FAMILIES = {
    "gaussian": (literal.gaussian, theory.iid(5, 4)),
    "bernoulli": (literal.bernoulli, theory.iid(5, 4, kurtosis=1)),
    "sphere": (literal.sphere, theory.sphere(5, 4)),
    "orthogonal": (literal.orthogonal, theory.orthogonal(5, 4)),
    "orthogonal, L > d": (literal.orthogonal, theory.orthogonal(5, 7)),
    "gram-schmidt": (literal.gram_schmidt, theory.gram_schmidt(5, 4)),
    "hadamard": (literal.hadamard, theory.hadamard(5, 4)),
}


def _predicted(moments: theory.Moments, objective: literal.Objective, samples, estimator):
    return theory.mse_terms(
        moments,
        gradient_norm2=float(objective.gradient @ objective.gradient),
        noise_trace=float(objective.noise.sum()),
        num_samples=N,
        samples=samples,
        estimator=estimator,
        spacing=C,
        value_variance=objective.value_variance,
        value=objective.value,
    )


def _errors(sampler: literal.Sampler, moments, objective, samples, estimator, reps=25_000):
    rng = np.random.default_rng(3)
    eps = sampler(rng, reps, moments.num_directions, moments.dim)
    return literal.squared_errors(
        rng, eps, objective, samples=samples, estimator=estimator, num_samples=N, spacing=C
    )


def _z(errors: literal.Array, moments, objective, samples, estimator) -> float:
    return literal.z_score(errors, _predicted(moments, objective, samples, estimator).total)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("samples", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_mode_and_estimator(family: str, samples: str, estimator: str):
    sampler, moments = FAMILIES[family]
    errors = _errors(sampler, moments, LINEAR, samples, estimator)
    assert abs(_z(errors, moments, LINEAR, samples, estimator)) < 4


def test_the_lemma_is_rejected_for_shared_samples_and_the_shared_term_for_paired_ones():
    for family in ("gaussian", "bernoulli"):
        sampler, moments = FAMILIES[family]
        for truth, twin in (("shared", "paired"), ("paired", "shared")):
            errors = _errors(sampler, moments, LINEAR, truth, "forward", reps=100_000)
            assert abs(_z(errors, moments, LINEAR, truth, "forward")) < 4
            assert abs(_z(errors, moments, LINEAR, twin, "forward")) > 6


def test_the_wrong_kurtosis_is_rejected_with_noise():
    for truth, twin in ((3, 1), (1, 3)):
        sampler = literal.gaussian if truth == 3 else literal.bernoulli
        for samples in MODES:
            wrong = theory.iid(5, 4, kurtosis=twin)
            errors = _errors(sampler, wrong, LINEAR, samples, "forward")
            assert abs(_z(errors, wrong, LINEAR, samples, "forward")) > 6


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_independent_samples_need_the_noise_of_the_values(estimator: str):
    sampler, moments = FAMILIES["bernoulli"]
    errors = _errors(sampler, moments, LINEAR, "independent", estimator)
    terms = _predicted(moments, LINEAR, "independent", estimator)
    assert abs(literal.z_score(errors, terms.total - terms.value_noise)) > 6
    assert abs(literal.z_score(errors, terms.total - terms.gradient_noise)) > 6


def test_the_antithetic_estimator_does_not_have_the_forward_noise_of_independent_samples():
    sampler, moments = FAMILIES["bernoulli"]
    for truth, twin in (("forward", "antithetic"), ("antithetic", "forward")):
        errors = _errors(sampler, moments, LINEAR, "independent", truth)
        assert abs(_z(errors, moments, LINEAR, "independent", twin)) > 6


def test_the_one_point_estimator_needs_the_value_and_the_signs_of_hadamard_rows():
    sampler, moments = FAMILIES["hadamard"]
    for samples in MODES:
        errors = _errors(sampler, moments, LINEAR, samples, "one-point")
        terms = _predicted(moments, LINEAR, samples, "one-point")
        assert abs(literal.z_score(errors, terms.total - terms.offset)) > 6
        # The twin: rows that lean towards each other make the average longer.
        longer = literal.lean(moments.num_directions, moments.dim) / moments.average_norm2
        shared = terms.value_noise if samples == "shared" else 0.0
        assert abs(literal.z_score(errors, terms.total + longer * (terms.offset + shared))) > 6


# Curvature. The directions are Bernoulli, whose spacing term is known for every Hessian.

HESSIAN = np.array([[1.0, 0.4, 0.0], [0.4, -0.3, 0.2], [0.0, 0.2, 0.8]])
TWIST = np.array([[0.9, -0.5, 0.1], [-0.5, 0.6, 0.0], [0.1, 0.0, 0.4]])
CURVED = literal.Objective(
    gradient=np.array([1.0, -0.5, 0.3]),
    noise=np.array([1.0, 0.5, 2.0]),
    value_variance=0.3,
    value=-0.8,
    hessian=HESSIAN,
    twist=TWIST,
    twist2=4.0,
    correlation=0.9,
)
COVARIANCE = 0.9 * np.sqrt(0.3 * 4.0) * float(np.trace(TWIST))  # Cov(f, Δf)


def _spacing_term(moments: theory.Moments, hessian: literal.Array) -> float:
    return theory.quadratic_spacing_mse(
        moments.dim,
        moments.num_directions,
        spacing=C,
        trace2=float(np.trace(hessian)) ** 2,
        frobenius2=float((hessian**2).sum()),
        diagonal2=float((np.diag(hessian) ** 2).sum()),
        kurtosis=1.0,
        sixth=1.0,
    )


def _curved(moments, samples, estimator, *, laplacian: float, covariance: float) -> float:
    predicted = theory.mse(
        moments,
        gradient_norm2=float(CURVED.gradient @ CURVED.gradient),
        noise_trace=float(CURVED.noise.sum()),
        num_samples=N,
        samples=samples,
        estimator=estimator,
        spacing=C,
        value_variance=CURVED.value_variance,
        value=CURVED.value,
        laplacian=laplacian,
        value_laplacian_covariance=covariance,
    )
    mean = _spacing_term(moments, HESSIAN)
    noise = _spacing_term(moments, TWIST) * CURVED.twist2 / N
    if estimator == "antithetic":  # even terms cancel, unless each point has its own
        return predicted + (noise / 2 if samples == "independent" else 0.0)
    return predicted + mean + noise


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("samples", MODES)
def test_curved_noise_at_a_finite_spacing(samples: str, estimator: str):
    moments = theory.iid(3, 3, kurtosis=1)
    errors = _errors(literal.bernoulli, moments, CURVED, samples, estimator, reps=100_000)
    laplacian = float(np.trace(HESSIAN))

    right = _curved(moments, samples, estimator, laplacian=laplacian, covariance=COVARIANCE)
    assert abs(literal.z_score(errors, right)) < 4
    if samples == "independent" or estimator == "one-point":
        flat = _curved(moments, samples, estimator, laplacian=laplacian, covariance=0.0)
        assert abs(literal.z_score(errors, flat)) > 6
    if estimator == "one-point":
        flat = _curved(moments, samples, estimator, laplacian=0.0, covariance=COVARIANCE)
        assert abs(literal.z_score(errors, flat)) > 6


def test_the_one_point_curvature_term_of_hadamard_rows():
    # With H = hI and entries ±1 the curvature only raises the value by ½c²hd.
    sampler, moments = FAMILIES["hadamard"]
    h, d = 1.5, moments.dim
    objective = LINEAR._replace(hessian=h * np.eye(d), noise=np.zeros(d), value_variance=0.0)
    errors = _errors(sampler, moments, objective, "shared", "one-point", reps=50_000)

    terms = theory.mse_terms(
        moments,
        gradient_norm2=float(objective.gradient @ objective.gradient),
        samples="shared",
        estimator="one-point",
        spacing=C,
        value_variance=0.0,
        value=objective.value,
        laplacian=h * d,
    )
    expected = terms.total + (C * h * d / 2) ** 2 * moments.average_norm2
    assert abs(literal.z_score(errors, expected)) < 4
    assert abs(literal.z_score(errors, expected - terms.curvature)) > 6
    lean = literal.lean(moments.num_directions, d) * (objective.value / C + C * h * d / 2) ** 2
    assert abs(literal.z_score(errors, expected + lean)) > 6  # rows without their signs


def test_orthogonal_directions_do_not_mind_shared_samples():
    moments = theory.orthogonal(8, 5)
    both = [
        theory.mse(moments, gradient_norm2=1.0, noise_trace=3.0, samples=samples)
        for samples in ("paired", "shared")
    ]
    assert both[0] == pytest.approx(both[1])


def test_the_displays_of_the_paper():
    d, L, N_, G, V = 30, 7, 3, 1.3, 2.1
    gs = (d + 1) / L * G + (d + 2) / (L * N_) * V
    bes = (d - 1) / L * G + d / (L * N_) * V
    for kurtosis, display in ((3.0, gs), (1.0, bes)):
        moments = theory.iid(d, L, kurtosis=kurtosis)
        got = theory.mse(moments, gradient_norm2=G, noise_trace=V, num_samples=N_)
        assert got == pytest.approx(display)
