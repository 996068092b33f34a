"""Laws that the network example uses: how wide to look, how far to go."""

import numpy as np
import pytest
from examples.network_theory.landscape import greedy_rate, hessian_squares, widest_spacing

from gensmooth import theory

D, L, N = 6, 3, 4


@pytest.fixture(scope="module")
def quadratic():
    rng = np.random.default_rng(0)
    root, gradient = rng.standard_normal((D, D)), rng.standard_normal(D)
    spread = np.diag(rng.uniform(1, 4, D))  # the root of V
    H = root @ root.T
    facts = {
        "dim": D,
        "gradient_norm2": gradient @ gradient,
        "noise_trace": np.square(spread).sum(),
        "trace": H.trace(),
        "trace_error": 0.0,
        "frobenius2": np.square(H).sum(),
        "diagonal2": np.square(H.diagonal()).sum(),
        "along": gradient @ H @ gradient,
        "noise_along": (H @ spread @ spread).trace(),
    }
    return H, gradient, spread, facts


def test_the_greedy_rate_is_that_of_literal_estimates_and_not_of_a_twin(quadratic):
    H, gradient, spread, facts = quadratic
    rng, reps = np.random.default_rng(1), 100_000
    batch = gradient + rng.standard_normal((reps, D)) @ spread / np.sqrt(N)
    eps = rng.standard_normal((reps, L, D))
    estimates = np.einsum("rld,rl->rd", eps, np.einsum("rld,rd->rl", eps, batch)) / L
    curved = np.einsum("rd,de,re->r", estimates, H, estimates)

    def z_score(rate):
        predicted = facts["gradient_norm2"] / rate  # E ĝᵀHĝ
        return (curved.mean() - predicted) / (curved.std(ddof=1) / np.sqrt(reps))

    assert abs(z_score(greedy_rate(facts, L, N))) < 4
    assert abs(z_score(greedy_rate(facts | {"noise_along": 0.0}, L, N))) > 6
    assert abs(z_score(greedy_rate(facts, L, N) * L / (L + 1))) > 6


def test_where_the_loss_bends_downwards_no_rate_is_greedy(quadratic):
    facts = quadratic[3]
    assert greedy_rate(facts | {"trace": -1e3}, L, N) is None


def test_at_the_widest_spacing_a_quadratic_doubles_the_error(quadratic):
    facts = quadratic[3]
    c = widest_spacing(facts, L)
    added = theory.quadratic_spacing_mse(
        D, L, spacing=c, **hessian_squares(facts), kurtosis=1.0, sixth=1.0
    )
    lemma = theory.relative_mse(theory.iid(D, L, kurtosis=1.0)) * facts["gradient_norm2"]
    assert added == pytest.approx(lemma)


def test_estimated_squares_are_those_of_some_matrix():
    facts = {"dim": 4, "trace": 1.0, "trace_error": 2.0, "frobenius2": 0.5, "diagonal2": -1.0}
    assert hessian_squares(facts) == {"trace2": 0.0, "frobenius2": 0.5, "diagonal2": 0.0}
    facts = {"dim": 4, "trace": 4.0, "trace_error": 0.0, "frobenius2": 0.5, "diagonal2": 1.0}
    assert hessian_squares(facts) == {"trace2": 16.0, "frobenius2": 4.0, "diagonal2": 4.0}
