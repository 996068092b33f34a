"""What a finite spacing adds on a quadratic: literal forward differences, and twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import theory_literal as literal
from gensmooth import theory

C = 0.7
HESSIAN = np.array([[2.0, 0.7, 0.0], [0.7, -1.0, 0.5], [0.0, 0.5, 1.5]])
TRACE2, FROBENIUS2 = float(np.trace(HESSIAN)) ** 2, float((HESSIAN**2).sum())
DIAGONAL2 = float((np.diag(HESSIAN) ** 2).sum())
OBJECTIVE = literal.Objective(
    gradient=np.array([0.4, -0.2, 0.1]), noise=np.zeros(3), hessian=HESSIAN
)


def _iid(L: int, kurtosis: float, sixth: float) -> float:
    return theory.quadratic_spacing_mse(
        3,
        L,
        spacing=C,
        trace2=TRACE2,
        frobenius2=FROBENIUS2,
        diagonal2=DIAGONAL2,
        kurtosis=kurtosis,
        sixth=sixth,
    )


def _rotated(formula, L: int) -> float:
    return formula(3, L, spacing=C, trace2=TRACE2, frobenius2=FROBENIUS2)


SPHERE, ROWS = theory.quadratic_spacing_mse_sphere, theory.quadratic_spacing_mse_gram_schmidt
CASES = {
    "gaussian": (literal.gaussian, theory.iid(3, 2), _iid(2, 3, 15), _iid(2, 3, 9)),
    "bernoulli": (
        literal.bernoulli,
        theory.iid(3, 2, kurtosis=1),
        _iid(2, 1, 1),
        _rotated(SPHERE, 2),
    ),
    "uniform": (
        literal.uniform,
        theory.iid(3, 2, kurtosis=1.8),
        _iid(2, 1.8, 27 / 7),
        _iid(2, 1.8, 15),
    ),
    "three points": (
        literal.three_point,
        theory.iid(3, 2, kurtosis=4),
        _iid(2, 4, 16),
        _iid(2, 3, 16),
    ),
    "sphere": (literal.sphere, theory.sphere(3, 2), _rotated(SPHERE, 2), _iid(2, 1, 1)),
    "orthogonal": (literal.orthogonal, theory.orthogonal(3, 2), _rotated(SPHERE, 2), _iid(2, 1, 1)),
    "orthogonal, 3 + 2": (
        literal.orthogonal,
        theory.orthogonal(3, 5),
        _rotated(SPHERE, 5),
        _iid(5, 1, 1),
    ),
    "hadamard": (literal.hadamard, theory.hadamard(3, 3), _iid(3, 1, 1), _rotated(SPHERE, 3)),
    "hadamard, 4 + 2": (
        literal.hadamard,
        theory.hadamard(3, 6),
        _iid(6, 1, 1),
        _rotated(SPHERE, 6),
    ),
    "gram-schmidt": (
        literal.gram_schmidt,
        theory.gram_schmidt(3, 3),
        _rotated(ROWS, 3),
        _iid(3, 3, 15),
    ),
    "gram-schmidt, 3 + 2": (
        literal.gram_schmidt,
        theory.gram_schmidt(3, 5),
        _rotated(ROWS, 5),
        _rotated(SPHERE, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_extra_error_of_the_forward_difference(name: str):
    sampler, moments, extra, twin = CASES[name]
    rng = np.random.default_rng(4)
    eps = sampler(rng, 150_000, moments.num_directions, 3)
    G = float(OBJECTIVE.gradient @ OBJECTIVE.gradient)
    for estimator, more in (("forward", extra), ("antithetic", 0.0)):
        errors = literal.squared_errors(
            rng,
            eps,
            OBJECTIVE,
            samples="shared",
            estimator=estimator,
            num_samples=1,
            spacing=C,
        )
        limit = theory.mse(moments, gradient_norm2=G)
        assert abs(literal.z_score(errors, limit + more)) < 4
        assert abs(literal.z_score(errors, limit + (twin if more else extra))) > 6


@given(
    d=st.integers(1, 50),
    L=st.integers(1, 50),
    v=st.floats(0.1, 3),
    c=st.floats(0.01, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_two_special_cases_of_the_paper_families(d, L, v, c, seed):
    H = np.random.default_rng(seed).standard_normal((d, d))
    H = H + H.T
    t2, f2, d2 = float(np.trace(H)) ** 2, float((H**2).sum()), float((np.diag(H) ** 2).sum())
    known = {"spacing": c, "trace2": t2, "frobenius2": f2, "variance": v}
    gaussian = theory.quadratic_spacing_mse(d, L, **known, diagonal2=d2)
    bernoulli = theory.quadratic_spacing_mse(d, L, **known, diagonal2=d2, kurtosis=1, sixth=1)
    unit = c**2 * v**3 / (4 * L)
    assert gaussian == pytest.approx(unit * (d + 4) * (t2 + 2 * f2))
    assert bernoulli == pytest.approx(unit * d * (t2 + 2 * (f2 - d2)))
    one_row = theory.quadratic_spacing_mse_gram_schmidt(d, 1, **known)
    assert one_row == pytest.approx(L * gaussian)


@given(d=st.integers(1, 40), L=st.integers(1, 100))
def test_gram_schmidt_sums_match_their_definition(d: int, L: int):
    rows = [d - (k % d) for k in range(L)]
    sixth = sum(m * (m + 2) * (m + 4) for m in rows) / L
    known = {"spacing": 2.0, "trace2": 1.0, "frobenius2": 1.0}
    expected = sixth * 3.0 / (d * (d + 2)) / L
    assert theory.quadratic_spacing_mse_gram_schmidt(d, L, **known) == pytest.approx(expected)
