"""Gradient estimates through the library's own path: their mean, error, noise and layout.

On functions that are linear in x for each sample the formulas of `gensmooth.theory` are exact at
every spacing, so what the library estimates must meet them to Monte Carlo error, and the formula
with a slip in it must not.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs
import theory_literal as literal
from cases import CLOSED, DTYPES, FAMILIES, twin_of
from gensmooth import estimators, theory
from gensmooth.estimators import SAMPLE_MODES, plan
from gensmooth.searches import evolution

G = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
G2 = float(G @ G)
ESTIMATORS = {
    "forward": gs.ForwardDifference(),
    "antithetic": gs.Antithetic(),
    "one-point": gs.OnePoint(),
}


def estimates(
    search: gs.RandomSearch,
    values: Callable[[gs.searches.protocol.Batch, np.ndarray], np.ndarray],
    *,
    reps: int,
    x: np.ndarray,
) -> list[gs.GradientEstimate]:
    """Estimates at x of many steps, which are independent replicates."""
    state = search.init(x, seed=11)
    found = []
    for step in range(reps):
        batch = search.ask(state._replace(step=step))
        found.append(search.estimate(batch, values(batch, batch.block(0, len(batch)))))
    return found


def linear(_, points: np.ndarray) -> np.ndarray:
    return 0.7 + points.astype(np.float64) @ G


def gradients(found: list[gs.GradientEstimate]) -> np.ndarray:
    return np.array([estimate.gradient for estimate in found], np.float64)


# --- mean and error without noise --------------------------------------------------------------


def _z(found: np.ndarray, moments: theory.Moments) -> tuple[float, float]:
    """z of the mean along g and of the mean squared error."""
    mean = literal.z_score(found @ G, moments.mean * G2)
    error = literal.z_score(((found - G) ** 2).sum(1), theory.relative_mse(moments) * G2)
    return mean, error


@pytest.mark.parametrize("estimator", ["forward", "antithetic"])
@pytest.mark.parametrize("name", CLOSED)
def test_mean_and_error_are_those_of_the_theory_and_not_of_its_twin(name, estimator):
    L, d = 3, 5
    search = gs.RandomSearch(
        FAMILIES[name], num_directions=L, spacing=0.5, estimator=ESTIMATORS[estimator]
    )
    found = gradients(estimates(search, linear, reps=2500, x=np.ones(d)))
    moments = FAMILIES[name].moments(d, L)
    assert np.abs(_z(found, moments)).max() < 4
    assert np.abs(_z(found, twin_of(name, d, L))).max() > 6
    # The mean is a multiple of g in every coordinate, not along g alone.
    z = [literal.z_score(found[:, i], moments.mean * G[i]) for i in range(d)]
    assert np.abs(z).max() < 4


@pytest.mark.parametrize(
    "name", ["gaussian", "orthogonal", "orthogonal, residual", "orthogonal bernoulli"]
)
def test_more_directions_than_dimensions(name):
    L, d = 12, 5
    search = gs.RandomSearch(FAMILIES[name], num_directions=L, spacing=0.5)
    found = gradients(estimates(search, linear, reps=2500, x=np.ones(d)))
    assert np.abs(_z(found, FAMILIES[name].moments(d, L))).max() < 4
    assert np.abs(_z(found, twin_of(name, d, L))).max() > 6


@pytest.mark.parametrize("variance", [0.25, 4.0])
def test_a_forward_difference_scales_with_the_variance_of_its_directions(variance):
    # E = σ²∇F: divided once by the spacing, not by σ² (off by σ⁻²), nor multiplied again (σ⁴).
    directions = gs.Bernoulli(m=0.5 / math.sqrt(variance))
    search = gs.RandomSearch(directions, num_directions=4, spacing=0.1)
    found = gradients(estimates(search, linear, reps=2000, x=np.zeros(5)))
    assert abs(literal.z_score(found @ G, variance * G2)) < 4
    for twin in (1.0, variance**2, math.sqrt(variance)):
        assert abs(literal.z_score(found @ G, twin * G2)) > 6


def _guided_state(search: gs.RandomSearch, history: np.ndarray) -> gs.SearchState:
    state = search.init(np.zeros(history.shape[1]), seed=11)
    for row in history:
        state = state._replace(sent=search.wire.update(state.sent, row))
    return state


@pytest.mark.parametrize("history", [1, 2, 4])
def test_the_guided_estimate_has_mean_sigma_g_whatever_the_population(history):
    d, alpha = 5, 0.4
    rows = np.random.default_rng(history).standard_normal((history, d))
    u, _ = np.linalg.qr(rows.T)
    mean = (alpha / d * np.eye(d) + (1 - alpha) / history * (u @ u.T)) @ G
    for L in (2, 50):
        search = gs.RandomSearch(gs.Guided(alpha, history), num_directions=L, spacing=0.1)
        state = _guided_state(search, rows)
        found = []
        for step in range(2000):
            batch = search.ask(state._replace(step=step))
            values = linear(batch, batch.block(0, len(batch)))
            found.append(search.estimate(batch, values).gradient)
        found = np.array(found)
        assert np.abs([literal.z_score(found[:, i], mean[i]) for i in range(d)]).max() < 4
        assert abs(literal.z_score(found @ G, L * mean @ G)) > 6  # a sum instead of a mean
        assert abs(literal.z_score(found @ G, G2)) > 6  # rescaled to ∇F


def test_an_antithetic_estimate_is_exact_on_quadratics_at_any_spacing():
    # δ_l/c = ε_l·∇F exactly: with d orthogonal rows of length √d the estimate is the gradient.
    rng = np.random.default_rng(0)
    hessian, x = rng.standard_normal((6, 6)), rng.standard_normal(6)
    found = gs.gradient(
        lambda x: x @ hessian @ x, x, method="orthogonal", num_directions=6, spacing=30.0,
        estimator=gs.Antithetic(), seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(found.gradient, (hessian + hessian.T) @ x, rtol=1e-10)
    forward = gs.gradient(
        lambda x: x @ hessian @ x, x, method="orthogonal", num_directions=6, spacing=30.0, seed=0
    )
    assert np.linalg.norm(forward.gradient - found.gradient) > 1  # it has a term of order c


# --- noise: the three sample modes -------------------------------------------------------------

# The noise is larger than the gradient H, so that each mode's formula stands out.

H, NOISE, VALUE_VARIANCE, C, N = G / 4, np.array([2.0, 0.5, 4.0, 1.0, 0.1]), 6.0, 0.4, 2
H2 = float(H @ H)


def noisy(batch: gs.searches.protocol.Batch, points: np.ndarray) -> np.ndarray:
    """f(x, ξ) = 0.7 + h·x + u + n·x: Var f = 6 at x = 0, Var ∇f = diag(NOISE)."""
    draws = np.array([rng.standard_normal(6) for rng in batch.rngs()])
    noise = math.sqrt(VALUE_VARIANCE) * draws[:, 0]
    return 0.7 + noise + (points * (H + np.sqrt(NOISE) * draws[:, 1:])).sum(1)


def _predicted(moments, samples, estimator) -> float:
    return theory.mse(
        moments,
        gradient_norm2=H2,
        noise_trace=float(NOISE.sum()),
        num_samples=N,
        samples=samples,
        estimator=estimator,
        spacing=C,
        value_variance=VALUE_VARIANCE,
        value=0.7,
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("samples", SAMPLE_MODES)
@pytest.mark.parametrize("name", ["gaussian", "orthogonal bernoulli"])
def test_the_error_with_noise_is_that_of_its_sample_mode_and_of_no_other(name, samples, estimator):
    L, d = 4, 5
    search = gs.RandomSearch(
        FAMILIES[name],
        num_directions=L,
        spacing=C,
        estimator=ESTIMATORS[estimator],
        samples=samples,
        num_samples=N,
    )
    found = gradients(estimates(search, noisy, reps=2500, x=np.zeros(d)))
    errors = ((found - H) ** 2).sum(1)
    moments = FAMILIES[name].moments(d, L)
    assert abs(literal.z_score(errors, _predicted(moments, samples, estimator))) < 4
    assert np.abs([literal.z_score(found[:, i], H[i]) for i in range(d)]).max() < 4
    if estimator != "one-point":  # whose paired samples are independent ones
        for twin in set(SAMPLE_MODES) - {samples}:
            assert abs(literal.z_score(errors, _predicted(moments, twin, estimator))) > 6


def _sample_ids(estimator: str, samples: str | None, L=3, N=2) -> np.ndarray:
    """The sample numbers of a plan by (point, sample)."""
    return plan(ESTIMATORS[estimator], L, N, samples).sample.reshape(-1, N)


def test_shared_samples_are_the_same_at_every_point():
    for estimator in ESTIMATORS:
        ids = _sample_ids(estimator, "shared")
        assert np.array_equal(ids, np.tile([0, 1], (len(ids), 1)))


def test_paired_samples_are_shared_by_the_points_of_a_direction_alone():
    for estimator in ("forward", "antithetic"):
        ids = _sample_ids(estimator, "paired").reshape(3, 2, 2)  # direction, side, sample
        assert np.array_equal(ids[:, 0], ids[:, 1])
        assert len(np.unique(ids[:, 0])) == 6


def test_independent_samples_are_never_shared():
    for estimator in ESTIMATORS:
        ids = _sample_ids(estimator, "independent")
        assert len(np.unique(ids)) == ids.size


@pytest.mark.parametrize("samples", SAMPLE_MODES)
def test_generators_follow_the_sample_numbers(samples):
    search = gs.RandomSearch(
        gs.Gaussian(), num_directions=3, spacing=0.1, samples=samples, num_samples=2
    )
    state = search.init(np.zeros(2), seed=4)
    batch, later = search.ask(state), search.ask(state._replace(step=1))
    numbers = search.plan.sample
    first = [rng.random() for rng in batch.rngs()]
    for i, j in np.ndindex(len(first), len(first)):
        assert (first[i] == first[j]) == (numbers[i] == numbers[j])
    assert [batch.rng(i).random() for i in range(len(batch))] == first
    assert not set(first) & {rng.random() for rng in later.rngs()}  # a new step, new samples


# --- one-point ---------------------------------------------------------------------------------


def _one_point(baseline, value: float, name="gaussian", reps=4000, c=0.5, L=4) -> np.ndarray:
    search = gs.RandomSearch(
        FAMILIES[name], num_directions=L, spacing=c, estimator=gs.OnePoint(baseline)
    )
    return gradients(
        estimates(search, lambda _, points: value + points @ G, reps=reps, x=np.zeros(5))
    )


def test_a_baseline_is_a_constant_taken_off_the_objective():
    np.testing.assert_allclose(_one_point(3.0, 5.0, reps=20), _one_point(None, 2.0, reps=20))
    np.testing.assert_allclose(
        _one_point("others", 5.0, reps=20), _one_point("others", -2.0, reps=20), atol=1e-12
    )


@pytest.mark.parametrize("baseline", [None, 0.5, "others"])
@pytest.mark.parametrize(
    "name",
    ["gaussian", "bernoulli, p = 0.2", "sphere", "orthogonal", "orthogonal, residual",
     "orthogonal bernoulli"],
)  # fmt: skip
def test_a_baseline_keeps_the_mean(name, baseline):
    found = _one_point(baseline, 0.9, name)
    mean = FAMILIES[name].moments(5, 4).mean
    assert np.abs([literal.z_score(found[:, i], mean * G[i]) for i in range(5)]).max() < 4
    # The twin: the mean of all values, its own included, takes 1/L of the estimate away.
    assert abs(literal.z_score(found @ G, (1 - 1 / 4) * mean * G2)) > 4.5


def test_the_values_of_the_others_say_nothing_of_a_hadamard_row():
    found = _one_point("others", 0.9, "orthogonal bernoulli")[:, 0]
    assert abs(literal.z_score(found, G[0])) < 4
    # The twin: rows without signs agree in column 0, E ε_l ε_mᵀ = diag(1, −1/7, …), so the
    # others' mean takes all of that coordinate away.
    assert abs(literal.z_score(found, 0.0)) > 6


def test_the_error_of_a_baseline_is_that_of_the_theory():
    for baseline, value in ((None, 0.9), (0.5, 0.4)):
        errors = ((_one_point(baseline, 0.9) - G) ** 2).sum(1)
        expected, twin = (
            theory.mse(
                theory.iid(5, 4), gradient_norm2=G2, estimator="one-point", spacing=0.5,
                value_variance=0.0, value=v,
            )
            for v in (value, value + 0.9)
        )  # fmt: skip
        assert abs(literal.z_score(errors, expected)) < 4
        assert abs(literal.z_score(errors, twin)) > 6


def test_the_mean_of_the_others_is_what_it_says():
    values = np.array([3.0, -1.0, 7.0, 2.0])
    delta, value = gs.OnePoint("others").differences(values, 4, None)
    expected = [values[i] - np.delete(values, i).mean() for i in range(4)]
    np.testing.assert_allclose(delta, expected)
    assert value == values.mean()
    with pytest.raises(ValueError, match="needs at least 2 directions, but there is 1"):
        gs.OnePoint("others").evaluations(1)


def test_without_one_value_the_others_are_compared_with_the_rest():
    values = np.array([3.0, math.nan, 7.0, 2.0])
    delta, value = gs.OnePoint("others").differences(values, 4, None)
    np.testing.assert_allclose(delta, [3 - 4.5, math.nan, 7 - 2.5, 2 - 5])
    assert value == 4


# --- layout ------------------------------------------------------------------------------------


class Count(NamedTuple):
    estimator: str
    samples: str | None
    per_direction: int
    extra: int


@pytest.mark.parametrize(
    "case",
    [
        Count("one-point", None, 1, 0),
        Count("one-point", "shared", 1, 0),
        Count("one-point", "independent", 1, 0),
        Count("forward", None, 1, 1),
        Count("forward", "shared", 1, 1),
        Count("forward", "paired", 2, 0),
        Count("forward", "independent", 2, 0),
        Count("antithetic", None, 2, 0),
        Count("antithetic", "shared", 2, 0),
        Count("antithetic", "paired", 2, 0),
        Count("antithetic", "independent", 2, 0),
    ],
    ids=str,
)
def test_how_many_evaluations_a_step_needs(case):
    for L in (1, 2, 20):
        for n in (1, 3) if case.samples else (1,):
            estimator = ESTIMATORS[case.estimator]
            expected = (case.per_direction * L + case.extra) * n
            assert estimator.evaluations(L, num_samples=n, samples=case.samples) == expected
            calls = []
            found = gs.gradient(
                lambda x, rng=None: calls.append((x, rng)) or x.sum(),  # noqa: B023
                np.zeros(3), estimator=estimator, num_directions=L, samples=case.samples,
                num_samples=n, seed=0,
            )  # fmt: skip
            assert len(calls) == found.evaluations == expected
            assert all((rng is None) == (case.samples is None) for _, rng in calls)


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(FAMILIES)),
    estimator=st.sampled_from(list(ESTIMATORS)),
    samples=st.sampled_from([None, *SAMPLE_MODES]),
    dtype=st.sampled_from(DTYPES),
    L=st.integers(1, 6),
    shape=st.lists(st.integers(1, 4), max_size=3),
    seed=st.integers(0, 2**64 - 1),
)
def test_points_lie_where_the_plan_says(name, estimator, samples, dtype, L, shape, seed):
    search = gs.RandomSearch(
        FAMILIES[name],
        num_directions=L,
        spacing=0.3,
        estimator=ESTIMATORS[estimator],
        samples=samples,
    )
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    batch = search.ask(search.init(x, seed=seed))
    eps, (direction, side, _) = batch.draw.block(), search.plan
    points = list(batch.points())
    assert len(points) == len(batch) == len(direction)
    for point, l, s in zip(points, direction, side, strict=True):  # noqa: E741
        assert (point.shape, point.dtype) == (x.shape, dtype)
        expected = x.reshape(-1) + dtype(0.3 * s) * eps[l]
        assert np.array_equal(np.reshape(point, -1), expected)


def test_the_value_of_an_estimate_is_the_objective_at_the_centre_or_around_it():
    values = iter([10.0, 1.0, 2.0, 4.0, 8.0])
    found = gs.gradient(lambda _: next(values), np.zeros(2), num_directions=4, seed=0)
    assert found.value == 10
    values = iter([10.0, 1.0, 2.0, 4.0])
    found = gs.gradient(
        lambda _: next(values), np.zeros(2), num_directions=2, estimator=gs.Antithetic(), seed=0
    )
    assert found.value == 17 / 4


@settings(max_examples=60)
@given(
    name=st.sampled_from(list(FAMILIES)),
    estimator=st.sampled_from(list(ESTIMATORS)),
    samples=st.sampled_from([None, *SAMPLE_MODES]),
    L=st.integers(1, 5),
    N=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_an_estimate_is_the_mean_of_differences_times_directions(
    name, estimator, samples, L, N, seed
):
    """Literally, (1/cL) Σ δ_l ε_l, for any values: looked up by direction and side."""
    N = 1 if samples is None else N
    search = gs.RandomSearch(
        FAMILIES[name],
        num_directions=L,
        spacing=0.3,
        estimator=ESTIMATORS[estimator],
        samples=samples,
        num_samples=N,
    )
    batch = search.ask(search.init(np.arange(5.0), seed=2))
    values = np.random.default_rng(seed).standard_normal(len(batch))
    direction, side, _ = search.plan

    def mean(at: int, s: int) -> float:
        here = (side == s) & (direction == at)
        return values[here if here.any() else side == s].mean()  # the centre may be shared

    literally = {
        "one-point": lambda at: mean(at, 1),
        "forward": lambda at: mean(at, 1) - mean(at, 0),
        "antithetic": lambda at: (mean(at, 1) - mean(at, -1)) / 2,
    }[estimator]
    delta = [literally(index) for index in range(L)]
    expected = batch.draw.factor * (np.array(delta) @ batch.draw.block()) / (0.3 * L)
    found = search.estimate(batch, values)
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-9, atol=1e-9)


def test_gradient_is_the_estimate_of_a_search_bit_for_bit():
    for name, directions in FAMILIES.items():
        for samples in (None, *SAMPLE_MODES):
            arguments = {"num_directions": 3, "spacing": 0.2, "samples": samples}

            def fun(x, rng=None):
                return math.sin(x @ G) + (0.0 if rng is None else rng.standard_normal())

            one = gs.gradient(fun, np.ones(5), directions=directions, seed=8, **arguments)
            search = gs.RandomSearch(directions, **arguments)
            batch = search.ask(search.init(np.ones(5), seed=8))
            rngs = batch.rngs() if samples else [None] * len(batch)
            values = [fun(p, rng) for p, rng in zip(batch.points(), rngs, strict=True)]
            other = search.estimate(batch, values)
            assert np.array_equal(one.gradient, other.gradient), name
            assert one[1:] == other[1:]


# --- standard error ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "sphere", "shrunk gaussian"])
def test_the_squared_standard_error_is_unbiased_for_independent_directions(name):
    L, d = 4, 5
    search = gs.RandomSearch(FAMILIES[name], num_directions=L, spacing=0.5)
    found = estimates(search, linear, reps=4000, x=np.zeros(d))
    squared = np.array([estimate.standard_error**2 for estimate in found])
    moments = FAMILIES[name].moments(d, L)
    variance = (moments.second - moments.mean**2) * G2  # tr Cov of Ag
    assert abs(literal.z_score(squared, variance)) < 4
    assert abs(literal.z_score(squared, variance * (L - 1) / L)) > 6  # divided by L, not L − 1
    spread = gradients(found) - moments.mean * G
    assert abs(literal.z_score((spread**2).sum(1) - squared, 0)) < 4


def test_the_standard_error_counts_the_noise():
    search = gs.RandomSearch(
        gs.Gaussian(), num_directions=4, spacing=C, samples="paired", num_samples=N
    )
    found = estimates(search, noisy, reps=4000, x=np.zeros(5))
    squared = np.array([estimate.standard_error**2 for estimate in found])
    variance = _predicted(theory.iid(5, 4), "paired", "forward")  # unbiased, so MSE = variance
    assert abs(literal.z_score(squared, variance)) < 4
    assert abs(literal.z_score(squared, theory.relative_mse(theory.iid(5, 4)) * H2)) > 6


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", ["gaussian", "shrunk bernoulli, estimate"])
def test_the_standard_error_counts_the_noise_that_all_directions_share(name, estimator):
    L, d = 30, 5
    search = gs.RandomSearch(
        FAMILIES[name],
        num_directions=L,
        spacing=C,
        estimator=ESTIMATORS[estimator],
        samples="shared",
        num_samples=N,
    )
    found = estimates(search, noisy, reps=3000, x=np.zeros(d))
    squared = np.array([estimate.standard_error**2 for estimate in found])
    moments = FAMILIES[name].moments(d, L)
    if name == "gaussian":  # unbiased, so MSE = variance
        assert abs(literal.z_score(squared, _predicted(moments, "shared", estimator))) < 4
    spread = gradients(found) - moments.mean * H
    assert abs(literal.z_score((spread**2).sum(1) - squared, 0)) < 4
    # The twin: the scatter of the directions alone misses a² tr Var[∇f] / N.
    missing = moments.mean**2 * NOISE.sum() / N
    assert abs(literal.z_score((spread**2).sum(1) - squared + missing, 0)) > 6


def test_the_standard_error_with_shared_samples_at_many_directions():
    # Here the directions agree on the gradient of the samples, and only the samples err.
    d, L = 9, 200
    search = gs.RandomSearch(
        gs.Gaussian(), num_directions=L, spacing=0.1, samples="shared", num_samples=4
    )

    def values(batch, points):
        return (points * np.array([rng.standard_normal(d) for rng in batch.rngs()])).sum(1)

    found = estimates(search, values, reps=800, x=np.zeros(d))
    squared = np.array([estimate.standard_error**2 for estimate in found])
    exact = theory.mse(
        theory.iid(d, L), gradient_norm2=0.0, noise_trace=d, num_samples=4, samples="shared"
    )
    assert abs(literal.z_score(squared, exact)) < 4
    assert abs(literal.z_score(squared, exact - d / 4)) > 6  # the scatter of the directions alone


def test_one_shared_sample_has_no_standard_error():
    found = gs.gradient(
        lambda x, rng: x @ rng.standard_normal(3), np.ones(3), samples="shared", num_directions=9,
        seed=0,
    )  # fmt: skip
    assert found.standard_error is None
    search = gs.RandomSearch(gs.Gaussian(), num_directions=9, spacing=0.1, samples="shared")
    state = search.init(np.ones(3), seed=0)
    _, info = search.tell(state, search.ask(state), np.arange(10.0))
    assert info.standard_error is None
    assert info.signal_to_noise is None


@pytest.mark.parametrize("estimator", [*ESTIMATORS.values(), gs.OnePoint("others")])
def test_the_standard_error_with_shared_samples_is_that_of_the_directions_that_are_left(estimator):
    """A direction that is dropped is dropped from the estimate of every sample."""
    keep = [0, 1, 3, 4]
    chosen = {"estimator": estimator, "samples": "shared", "num_samples": 3}
    search = gs.RandomSearch(
        gs.Gaussian(), num_directions=5, spacing=0.2, on_failure="drop", **chosen
    )
    batch = search.ask(search.init(np.zeros(6), seed=0))
    values = np.random.default_rng(1).standard_normal(len(batch))
    at_two = (search.plan.direction == 2) & (search.plan.side != 0)
    values[np.flatnonzero(at_two)[0]] = np.nan
    found = search.estimate(batch, values)

    # literally: y_li = δ_li ε_l / c over what is left, and a two-way analysis of variance
    few = gs.RandomSearch(gs.Gaussian(), num_directions=4, spacing=0.2, **chosen)
    table = values[~at_two].reshape(-1, 3)
    delta = np.stack([few.estimator.differences(v, 4, "shared")[0] for v in table.T], axis=1)
    y = delta[:, :, None] * batch.draw.block()[keep][:, None] / 0.2
    n, N = y.shape[:2]
    rows, columns, mean = y.mean(1), y.mean(0), y.mean((0, 1))
    of_rows = N * ((rows - mean) ** 2).sum() / (n - 1)
    of_columns = n * ((columns - mean) ** 2).sum() / (N - 1)
    rest = ((y - rows[:, None] - columns + mean) ** 2).sum() / ((n - 1) * (N - 1))
    expected = (of_rows + max(of_columns - rest, 0.0)) / (n * N)
    assert found.dropped == 1
    assert found.standard_error == pytest.approx(math.sqrt(expected), rel=1e-12)


def test_for_orthogonal_directions_the_standard_error_errs_on_the_large_side():
    search = gs.RandomSearch(gs.Orthogonal(), num_directions=4, spacing=0.5)
    found = estimates(search, linear, reps=2000, x=np.zeros(5))
    squared = np.array([estimate.standard_error**2 for estimate in found])
    assert literal.z_score(squared, theory.relative_mse(theory.orthogonal(5, 4)) * G2) > 6


def test_one_direction_has_no_standard_error():
    found = gs.gradient(lambda x: x.sum(), np.zeros(3), num_directions=1, seed=0)
    assert found.standard_error is None


# --- shrinkage: what is scaled -----------------------------------------------------------------


def _pair(fun, c: float, name="gaussian"):
    """The estimates with the direction scaled, and with the estimate scaled."""
    return [
        gs.gradient(
            fun, np.full(6, 0.3), directions=gs.shrunk(FAMILIES[name], scale=scale),
            num_directions=4, spacing=c, seed=1,
        ).gradient
        for scale in ("direction", "estimate")
    ]  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CLOSED if not n.startswith("shrunk")])
def test_the_two_ways_to_shrink_agree_on_linear_functions_and_as_the_spacing_goes_to_zero(name):
    one, other = _pair(lambda x: x @ np.arange(6.0), 0.5, name)
    np.testing.assert_allclose(one, other, rtol=1e-10)

    def gap(c):
        one, other = _pair(lambda x: np.exp(x).sum(), c, name)
        return np.linalg.norm(one - other)

    assert gap(1e-2) > 0
    # Forward differences differ in the term of order c.
    assert gap(1e-3) / gap(1e-2) == pytest.approx(0.1, rel=0.1)


def test_the_two_ways_to_shrink_evaluate_at_different_points():
    d, L, c = 6, 4, 0.5
    distances = {}
    for scale in ("direction", "estimate"):
        search = gs.RandomSearch(
            gs.shrunk(gs.Bernoulli(), scale=scale), num_directions=L, spacing=c
        )
        batch = search.ask(search.init(np.zeros(d), seed=1))
        distances[scale] = np.linalg.norm(batch.point(1))
    assert distances["estimate"] == pytest.approx(c * math.sqrt(d))
    assert distances["direction"] == pytest.approx(c * math.sqrt(d * L / (L + d - 1)))


def test_under_noise_of_the_values_scaling_the_estimate_has_the_smaller_error():
    # The noise of the values falls with v if the directions are scaled, with v² if the estimate is.
    errors = {}
    for scale in ("direction", "estimate"):
        search = gs.RandomSearch(
            gs.shrunk(gs.Bernoulli(), scale=scale),
            num_directions=4,
            spacing=C,
            samples="independent",
            num_samples=N,
        )
        found = gradients(estimates(search, noisy, reps=2500, x=np.zeros(5)))
        errors[scale] = ((found - H) ** 2).sum(1)
    terms = theory.mse_terms(
        theory.iid(5, 4, kurtosis=1), gradient_norm2=H2, noise_trace=float(NOISE.sum()),
        num_samples=N, samples="independent", spacing=C, value_variance=VALUE_VARIANCE,
    )  # fmt: skip
    v = 4 / (4 + 5 - 1)
    expected = {
        "direction": terms.scaled_directions(v).total,
        "estimate": terms.scaled_estimate(v).total,
    }
    for scale, other in (("direction", "estimate"), ("estimate", "direction")):
        assert abs(literal.z_score(errors[scale], expected[scale])) < 4
        assert abs(literal.z_score(errors[scale], expected[other])) > 6


def test_one_direction_and_its_own_centre_keep_their_sign():
    """With L = 1, two values may be (centre, point) or (point, centre): the mode tells which."""
    for samples in (None, "shared", "paired", "independent"):
        search = gs.RandomSearch(gs.Bernoulli(), num_directions=1, spacing=0.1, samples=samples)
        state = search.init(np.zeros(3), seed=0)
        batch = search.ask(state)
        slope = np.array([1.0, 2.0, 4.0])
        found = search.estimate(batch, [point @ slope for point in batch.points()]).gradient
        direction = batch.draw.block()[0]
        np.testing.assert_allclose(found, (direction @ slope) * direction, rtol=1e-12)


# --- ranks -------------------------------------------------------------------------------------


def _rough(points: np.ndarray) -> np.ndarray:
    """Values with ties, far apart, of both signs."""
    return np.floor(points.astype(np.float64) @ G / 5) ** 3


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_ranked_estimate_is_minus_the_step_of_the_evolution_strategy_over_c(name, dtype):
    L, c = 6, 0.4
    search = gs.RandomSearch(FAMILIES[name], num_directions=L, spacing=c, estimator=gs.Ranked())
    batch = search.ask(search.init(np.ones(5, dtype), seed=3))
    values = _rough(batch.block(0, len(batch)))
    weights = estimators.rank(values, evolution.constants(5, L).weights).reshape(L, 2)
    assert len(np.unique(values)) < len(values)
    step = ((weights[:, 0] - weights[:, 1])[:, None] * batch.draw.block()).sum(0)
    found = search.estimate(batch, values).gradient
    np.testing.assert_allclose(found, -batch.draw.factor * step / c, rtol=1e-4, atol=1e-5)
    # Gradient descent with the rate c² makes that step.
    descent = gs.RandomSearch(
        FAMILIES[name], num_directions=L, spacing=c, estimator=gs.Ranked(), optimizer=gs.sgd(c**2)
    )
    state = descent.init(np.ones(5, dtype), seed=3)
    moved = descent.tell(state, descent.ask(state), values)[0].x - state.x
    np.testing.assert_allclose(moved, c * batch.draw.factor * step, rtol=1e-3, atol=1e-5)


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6).map(lambda v: [*v, *v[::-1]]),
    st.randoms(use_true_random=False),
)
def test_rank_weights_by_their_definition(values, random):
    """The mean of the weights that a value would have over all orders of its equals."""
    random.shuffle(values)
    n = len(values)
    weights = theory.rank_weights(n)
    expected = []
    for value in values:
        below, equal = sum(v < value for v in values), values.count(value)
        expected.append(sum(weights[below : below + equal]) / equal)
    pairs = np.reshape(expected, (n // 2, 2))
    delta, value = gs.Ranked().differences(np.array(values, float), n // 2, None)
    np.testing.assert_allclose(delta, -(n // 2) * (pairs[:, 0] - pairs[:, 1]), atol=1e-14)
    assert value == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    "transform", [lambda v: 1e-9 * v, lambda v: 3.7 * v - 1e3, np.exp, np.arctan, lambda v: v**3]
)
def test_only_the_order_of_the_values_counts_to_the_last_bit(transform):
    def f(x):
        return float(((x - 0.3) ** 2).sum()) - 2

    options = {"estimator": gs.Ranked(), "max_steps": 20, "seed": 0}
    one = gs.minimize(f, np.ones(4), **options)
    other = gs.minimize(lambda x: transform(f(x)), np.ones(4), **options)
    assert one.x.tobytes() == other.x.tobytes()
    assert not np.array_equal(one.x, np.ones(4))
    # The twin: differences of values see the transform.
    options["estimator"] = gs.Antithetic()
    options["optimizer"] = gs.sgd(0.01)
    one = gs.minimize(f, np.ones(4), **options)
    other = gs.minimize(lambda x: transform(f(x)), np.ones(4), **options)
    assert one.x.tobytes() != other.x.tobytes()


def test_maximising_is_minimising_the_negative_to_the_last_bit():
    def f(x):
        return float(((x - 0.3) ** 2).sum() + x[0] ** 3)

    options = {"estimator": gs.Ranked(), "max_steps": 10, "seed": 0, "num_directions": 5}
    low = gs.minimize(f, np.ones(4), **options)
    high = gs.minimize(lambda x: -f(x), np.ones(4), maximize=True, **options)
    assert low.x.tobytes() == high.x.tobytes()
    assert low.fun == -high.fun


def test_pairs_without_a_value_are_left_out_of_the_ranks():
    values = np.array([3.0, 1.0, math.nan, -5.0, 2.0, 8.0, 0.0, math.inf])
    delta, value = gs.Ranked().differences(values, 4, None)
    kept = [0, 2]
    assert np.array_equal(np.isnan(delta), [False, True, False, True])
    alone, _ = gs.Ranked().differences(values.reshape(4, 2)[kept].ravel(), 2, None)
    assert np.array_equal(delta[kept], alone)
    assert value == np.mean([3.0, 1.0, -5.0, 2.0, 8.0, 0.0])
    assert np.isnan(gs.Ranked().differences(np.full(4, math.nan), 2, None)[0]).all()


def test_equal_values_say_nothing():
    delta, _ = gs.Ranked().differences(np.full(8, 3.3), 4, None)
    assert np.array_equal(delta, np.zeros(4))
    found = gs.gradient(lambda _: 1.0, np.ones(3), estimator=gs.Ranked(), seed=0)
    assert np.array_equal(found.gradient, np.zeros(3))


def test_ranks_that_know_nothing_have_their_neutral_length():
    """The estimate of noise alone, against `theory.mirrored_neutral`; the twin is `effective`."""
    L, d, c = 6, 10, 0.1
    search = gs.RandomSearch(gs.Bernoulli(), num_directions=L, spacing=c, estimator=gs.Ranked())
    rng = np.random.default_rng(0)
    noise = estimates(
        search, lambda batch, _: rng.standard_normal(len(batch)), reps=2000, x=np.zeros(d)
    )
    length2 = ((c * gradients(noise)) ** 2).sum(1)
    weights = theory.rank_weights(2 * L)
    assert abs(literal.z_score(length2, d / theory.mirrored_neutral(weights))) < 4
    assert abs(literal.z_score(length2, d / theory.effective(weights))) > 6
    # Its standard error is right too: the estimate has no mean.
    errors = np.array([estimate.standard_error for estimate in noise])
    assert abs(literal.z_score(length2 - (c * errors) ** 2, 0.0)) < 4


def test_with_shared_samples_ranks_have_no_standard_error():
    options = {"estimator": gs.Ranked(), "num_samples": 3, "seed": 0}
    found = [
        gs.gradient(lambda x, rng: x.sum() + rng.normal(), np.ones(3), samples=samples, **options)
        for samples in SAMPLE_MODES
    ]
    assert [estimate.standard_error is None for estimate in found] == [True, False, False]


def test_theory_refuses_ranks_with_a_reason():
    moments = theory.iid(5, 4)
    for call in (
        lambda: theory.mse(moments, gradient_norm2=1.0, estimator="ranked"),
        lambda: theory.mse_terms(moments, gradient_norm2=1.0, estimator="ranked"),
        lambda: theory.slope_noise(1.0, spacing=0.1, estimator="ranked"),
    ):
        with pytest.raises(ValueError, match="'ranked', whose error has no closed form"):
            call()
    with pytest.raises(ValueError, match="`estimator` must be one of 'forward'"):
        theory.mse(moments, gradient_norm2=1.0, estimator="rank")
