"""init, ask and tell: pure functions of an explicit state, in any order, at any shape."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs
from cases import DTYPES, FAMILIES
from gensmooth.directions import draw as draws
from gensmooth.estimators import SAMPLE_MODES, Plan

each_family = pytest.mark.parametrize("name", FAMILIES)
ESTIMATORS = [
    gs.OnePoint(),
    gs.OnePoint("others"),
    gs.ForwardDifference(),
    gs.Antithetic(),
    gs.Ranked(),
]


def f(x) -> float:
    return float(((np.asarray(x, np.float64) - 0.5) ** 2).sum())


def search_of(name="gaussian", **options) -> gs.RandomSearch:
    chosen = {"num_directions": 4, "spacing": 0.1, "optimizer": gs.adam(0.05)} | options
    return gs.RandomSearch(FAMILIES[name], **chosen)


def run(search: gs.RandomSearch, x0, steps: int, *, seed=3, fun=f) -> list[gs.SearchState]:
    states = [search.init(x0, seed=seed)]
    for _ in range(steps):
        batch = search.ask(states[-1])
        states.append(search.tell(states[-1], batch, [fun(p) for p in batch.points()])[0])
    return states


# --- ask ---------------------------------------------------------------------------------------


@each_family
def test_ask_is_pure(name):
    search = search_of(name)
    state = run(search, np.zeros(7), 9)[-1]
    before = state.x.copy()
    one, other = search.ask(state), search.ask(state)
    for batch in (one, other):
        list(batch.points())
    assert np.array_equal(one.block(0, len(one)), other.block(0, len(other)))
    assert np.array_equal(state.x, before)


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(FAMILIES)),
    estimator=st.sampled_from(ESTIMATORS),
    samples=st.sampled_from([None, *SAMPLE_MODES]),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 5), max_size=3),
    L=st.integers(2, 6),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_point_is_the_same_however_it_is_asked_for(
    name, estimator, samples, dtype, shape, L, seed
):
    search = search_of(name, estimator=estimator, samples=samples, num_directions=L)
    batch = search.ask(search.init(np.ones(shape, dtype), seed=seed))
    whole, points = batch.block(0, len(batch)), list(batch.points())
    assert whole.shape == (len(batch), *shape)
    for index in range(len(batch)):
        assert np.array_equal(batch.point(index), points[index])
        assert np.array_equal(batch.point(index), whole[index])
        assert batch.point(index).shape == points[index].shape == tuple(shape)
        assert batch.point(index).dtype == dtype
    middle = batch.block(1, len(batch) - 1)
    assert np.array_equal(middle, whole[1:-1])
    head = batch.planned(Plan(*(part[:2] for part in batch.plan.arrays)))
    assert np.array_equal(head.block(0, 2), whole[:2])


@pytest.mark.parametrize("shape", [(100_000,), (2, 60_000), (300_001,)])
def test_points_of_a_large_batch_may_be_kept_and_changed(shape):
    # Beyond the size that is made in one piece, memory is used again, but only when it is free.
    search = search_of("bernoulli", num_directions=9)
    batch = search.ask(search.init(np.zeros(shape), seed=0))
    expected = batch.block(0, len(batch))
    assert np.array_equal(np.stack(list(batch.points())), expected)
    parts, flats, some = [], [], {}
    for index, point in enumerate(batch.points()):
        parts.append(point[..., 5:9])  # views keep their memory
        flats.append(point.reshape(-1)[::1000])
        if index % 3 == 0:
            some[index] = point
    assert np.array_equal(np.stack(parts), expected[..., 5:9])
    assert np.array_equal(np.stack(flats), expected.reshape(len(batch), -1)[:, ::1000])
    assert all(np.array_equal(point, expected[index]) for index, point in some.items())
    for index, point in enumerate(batch.points()):
        assert np.array_equal(point, expected[index])
        point[...] = math.nan


def test_points_belong_to_the_caller():
    search = search_of()
    state = search.init(np.zeros(3), seed=0)
    batch = search.ask(state)
    expected = batch.block(0, len(batch))
    for point in batch.points():
        point[:] = 99.0
    batch.point(0)[:] = 99.0
    assert np.array_equal(batch.block(0, len(batch)), expected)
    assert np.array_equal(state.x, np.zeros(3))


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 6), (5, 6), (3, 2)])
def test_evaluations_that_a_batch_has_not_are_an_error(start, stop):
    search = search_of()
    batch = search.ask(search.init(np.zeros(3), seed=0))  # 5 evaluations
    with pytest.raises(IndexError, match=f"{start} to {stop} are outside a batch of 5"):
        batch.block(start, stop)
    for index in (-1, 5):
        with pytest.raises(IndexError):
            batch.point(index)


# --- tell --------------------------------------------------------------------------------------


@each_family
def test_the_order_of_evaluation_does_not_matter(name):
    search = search_of(name, estimator=gs.Antithetic())
    one = other = search.init(np.zeros(6), seed=1)
    rng = np.random.default_rng(0)
    for _ in range(6):
        batch = search.ask(one)
        one, _ = search.tell(one, batch, [f(p) for p in batch.points()])
        batch = search.ask(other)
        values = np.empty(len(batch))
        for index in rng.permutation(len(batch)):
            values[index] = f(batch.point(int(index)))
        other, _ = search.tell(other, batch, values)
        assert np.array_equal(one.x, other.x)


@each_family
def test_tell_changes_neither_the_state_nor_the_values(name):
    search = search_of(name)
    state = run(search, np.zeros(6), 8)[-1]
    batch = search.ask(state)
    values = [f(p) for p in batch.points()]
    kept, x = list(values), state.x.copy()
    one, info = search.tell(state, batch, values)
    other, again = search.tell(state, batch, np.array(values))
    assert values == kept
    assert np.array_equal(state.x, x)
    assert np.array_equal(one.x, other.x)
    assert info == again
    assert one.step == state.step + 1
    assert one.evaluations == info.evaluations == state.evaluations + len(batch)


@each_family
def test_going_back_to_an_old_state_repeats_the_run(name):
    """A branch of the run, taken later and while the run goes on, sees what the run saw."""
    search = search_of(name)
    states = run(search, np.zeros(6), 14)
    for start in (0, 5, 9):
        state = states[start]
        detour = search.tell(state, search.ask(state), np.arange(len(search.plan)))[0]
        run_on = [state]
        for _ in range(14 - start):
            batch = search.ask(run_on[-1])
            values = [f(p) for p in batch.points()]
            run_on.append(search.tell(run_on[-1], batch, values)[0])
        assert all(np.array_equal(a.x, b.x) for a, b in zip(run_on, states[start:], strict=True))
        assert not np.array_equal(detour.x, states[start + 1].x)


@each_family
def test_a_state_that_was_pickled_goes_on_the_same(name):
    search = search_of(name)
    states = run(search, np.zeros(6), 10)
    copied = pickle.loads(pickle.dumps(states[6]))
    batch = search.ask(copied)
    after, _ = search.tell(copied, batch, [f(p) for p in batch.points()])
    assert np.array_equal(after.x, states[7].x)
    # A batch of the original fits the copy: they are the same state.
    batch = search.ask(states[6])
    after, _ = search.tell(copied, batch, [f(p) for p in batch.points()])
    assert np.array_equal(after.x, states[7].x)


@each_family
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_run(name, dtype, monkeypatch):
    monkeypatch.setattr(draws, "_WORTH_THREADS", 0)
    x0 = np.zeros(3 * 2048 + 5, dtype)
    plain = run(search_of(name), x0, 6)
    for threads in (2, 3):
        threaded = run(search_of(name, threads=threads), x0, 6)
        assert all(np.array_equal(a.x, b.x) for a, b in zip(plain, threaded, strict=True))


def test_the_seed_is_the_run():
    search = search_of()
    one, two = (run(search, np.zeros(4), 5, seed=s)[-1].x for s in (1, 2))
    assert not np.array_equal(one, two)
    assert np.array_equal(run(search, np.zeros(4), 5, seed=1)[-1].x, one)


# --- shapes, precision, sign -------------------------------------------------------------------


@settings(max_examples=30)
@given(
    name=st.sampled_from(list(FAMILIES)),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 4), max_size=3),
)
def test_the_shape_changes_nothing_but_the_shape(name, dtype, shape):
    search = search_of(name)
    size = math.prod(shape)
    shaped = run(search, np.zeros(shape, dtype), 5)
    flat = run(search, np.zeros(size, dtype), 5)
    for one, other in zip(shaped, flat, strict=True):
        assert isinstance(one.x, np.ndarray)
        assert (one.x.shape, one.x.dtype) == (tuple(shape), dtype)
        assert np.array_equal(one.x.reshape(-1), other.x)


def test_the_order_of_the_memory_does_not_matter():
    search = search_of()
    x = np.arange(12.0).reshape(3, 4)
    for other in (np.asfortranarray(x), x.T.copy().T, np.repeat(x, 2, axis=0)[::2]):
        assert np.array_equal(run(search, other, 3)[-1].x, run(search, x, 3)[-1].x)


def test_integers_become_float64_and_other_byte_orders_native():
    search = search_of()
    for x0 in ([1, 2, 3], np.array([1, 2, 3], np.int8), (True, 2, 3)):
        assert search.init(x0, seed=0).x.dtype == np.float64
    for kind in ("f4", "f8"):
        x = run(search, np.array([1.0, 2.0], f">{kind}"), 2)[-1].x
        assert np.array_equal(x, run(search, np.array([1.0, 2.0], kind), 2)[-1].x)
        assert x.dtype == np.dtype(kind)


@each_family
def test_maximising_is_minimising_the_negative_bit_for_bit(name):
    up = search_of(name, maximize=True)
    down = search_of(name)
    one, other = up.init(np.zeros(5), seed=2), down.init(np.zeros(5), seed=2)
    for _ in range(6):
        batch = up.ask(one)
        values = np.array([-f(p) for p in batch.points()])
        one, raised = up.tell(one, batch, values)
        other, lowered = down.tell(other, down.ask(other), -values)
        assert np.array_equal(one.x, other.x)
        assert (raised.value, raised.best_value) == (-lowered.value, -lowered.best_value)
        assert raised.best_index == lowered.best_index
        assert raised.best_value == values.max()


# --- what a step tells -------------------------------------------------------------------------


def test_info_is_the_estimate_and_the_step():
    search = search_of("shrunk gaussian", optimizer=gs.sgd(0.3))
    state = run(search, np.ones(5), 2)[-1]
    batch = search.ask(state)
    values = [f(p) for p in batch.points()]
    estimate = search.estimate(batch, values)
    after, info = search.tell(state, batch, values)
    assert (info.step, info.evaluations) == (2, 15)
    assert info.value == estimate.value == values[0] == f(state.x)
    assert info.best_value == min(values) == values[info.best_index]
    assert info.gradient_norm == pytest.approx(np.linalg.norm(estimate.gradient), rel=1e-14)
    assert info.standard_error == estimate.standard_error
    assert info.signal_to_noise == pytest.approx(info.gradient_norm / info.standard_error)
    assert info.shrinkage == pytest.approx(4 / (4 + 5 + 1))
    assert info.step_size == pytest.approx(np.linalg.norm(after.x - state.x), rel=1e-12)
    assert info.step_size == pytest.approx(0.3 * info.gradient_norm, rel=1e-12)
    assert (info.dropped, info.diverged) == (0, None)
    np.testing.assert_allclose(after.x, state.x - 0.3 * estimate.gradient, rtol=1e-14)


def test_without_shrinkage_its_factor_is_one():
    assert search_of("gaussian").shrinkage(9) == 1
    assert search_of("shrunk bernoulli, estimate").shrinkage(9) == pytest.approx(4 / 12)


# --- bounds ------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    name=st.sampled_from(list(FAMILIES)),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 4), max_size=2),
    low=st.floats(-2, 0),
    width=st.floats(0.01, 1),
    data=st.data(),
)
def test_no_point_and_no_iterate_leaves_the_bounds(name, dtype, shape, low, width, data):
    numbers = st.floats(-3, 3, width=32)
    size = math.prod(shape)
    x0 = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)), dtype)
    search = search_of(
        name, spacing=0.7, optimizer=gs.sgd(2.0), bounds=(low, low + width), maximize=True
    )
    state = search.init(x0.reshape(shape), seed=0)
    lower, upper = dtype(low), dtype(low + width)
    for _ in range(4):
        batch = search.ask(state)
        for point in (*batch.points(), state.x):
            assert np.all((lower <= point) & (point <= upper))
        state, _ = search.tell(state, batch, [f(p) for p in batch.points()])


def test_bounds_in_all_their_forms_are_the_same():
    import scipy.optimize

    x = np.array([[0.0, 5.0], [-5.0, 1.0]])
    low, high = np.array([[-1.0, -2.0], [-3.0, -4.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    pairs = list(zip(low.reshape(-1), high.reshape(-1), strict=True))
    forms = [
        gs.Bounds(low, high),
        pairs,
        scipy.optimize.Bounds(low, high),
    ]
    expected = np.clip(x, low, high)
    for bounds in forms:
        assert np.array_equal(search_of(bounds=bounds).init(x, seed=0).x, expected)
    for bounds in ((-1, 2), gs.Bounds(-1.0, 2.0), [(-1, 2)] * 4, scipy.optimize.Bounds(-1, 2)):
        assert np.array_equal(search_of(bounds=bounds).init(x, seed=0).x, np.clip(x, -1, 2))
    for bounds in ((None, 2), [(None, 2)] * 4, (-np.inf, 2), gs.Bounds(None, 2)):
        assert np.array_equal(search_of(bounds=bounds).init(x, seed=0).x, np.minimum(x, 2))


def test_away_from_the_bounds_they_change_nothing():
    free = run(search_of(), np.zeros(4), 5)
    bound = run(search_of(bounds=(-100, 100)), np.zeros(4), 5)
    assert all(np.array_equal(a.x, b.x) for a, b in zip(free, bound, strict=True))


# --- failures ----------------------------------------------------------------------------------


def _with_nan(search, state, bad: list[int]):
    batch = search.ask(state)
    values = np.array([f(p) for p in batch.points()])
    values[bad] = [math.nan, math.inf, -math.inf][: len(bad)]
    return batch, values


@pytest.mark.parametrize("bad", [[2], [2, 4]])
def test_a_dropped_direction_is_left_out_and_the_rest_reweighted(bad):
    search = search_of(on_failure="drop", num_directions=6)
    state = search.init(np.zeros(5), seed=0)
    batch, values = _with_nan(search, state, bad)
    found = search.estimate(batch, values)
    kept = [l for l in range(6) if l + 1 not in bad]  # noqa: E741
    delta = (values[1:] - values[0])[kept]
    expected = (delta @ batch.draw.block()[kept]) / (0.1 * len(kept))
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-12)
    assert found.dropped == len(bad)
    g = delta[:, None] / 0.1 * batch.draw.block()[kept]
    spread = ((g - expected) ** 2).sum() / (len(kept) * (len(kept) - 1))
    assert found.standard_error == pytest.approx(math.sqrt(spread))


def test_dropping_keeps_the_mean_of_the_estimate():
    # Failures by a coin: E = ∇F still; dividing by L instead of by what is left is the twin.
    import theory_literal as literal

    g = np.array([1.0, -2.0, 0.5])
    search = search_of(on_failure="drop", min_fraction=0.01, num_directions=6)
    state = search.init(np.zeros(3), seed=0)
    rng = np.random.default_rng(1)
    found, share = [], []
    for step in range(3000):
        batch = search.ask(state._replace(step=step))
        values = batch.block(0, len(batch)) @ g
        failed = rng.random(6) < 0.4
        failed[rng.integers(6)] = False
        values[1:][failed] = math.nan
        estimate = search.estimate(batch, values)
        assert estimate.dropped == failed.sum()
        found.append(estimate.gradient)
        share.append(1 - failed.mean())
    found = np.array(found)
    assert np.abs([literal.z_score(found[:, i], g[i]) for i in range(3)]).max() < 4
    twin = found * np.array(share)[:, None]
    assert abs(literal.z_score(twin @ g, g @ g)) > 6


def test_one_bad_value_never_reaches_x():
    for estimator in ESTIMATORS:
        for bad in (math.nan, math.inf, -math.inf):
            search = search_of(on_failure="drop", estimator=estimator)
            state = search.init(np.zeros(5), seed=0)
            for _ in range(5):
                batch = search.ask(state)
                values = np.array([f(p) for p in batch.points()])
                values[2] = bad
                state, info = search.tell(state, batch, values)
                assert np.isfinite(state.x).all()
                assert info.dropped == 1
                assert math.isfinite(info.best_value)
                assert math.isfinite(info.value)
                assert info.best_value == np.min(values[np.isfinite(values)])


def test_the_best_value_is_never_an_infinite_one():
    for maximize, bad in ((False, -math.inf), (True, math.inf)):
        search = search_of(on_failure="drop", maximize=maximize)
        state = search.init(np.zeros(2), seed=0)
        _, info = search.tell(state, search.ask(state), [1.0, 2.0, bad, 3.0, 4.0])
        assert info.best_value == (4.0 if maximize else 1.0)


def test_min_fraction_is_the_smallest_share_that_makes_an_estimate():
    for fraction, allowed in ((0.5, 2), (0.51, 1), (1.0, 0), (0.01, 3)):
        search = search_of(on_failure="drop", min_fraction=fraction)
        state = search.init(np.zeros(2), seed=0)
        batch = search.ask(state)
        for failures in range(5):
            values = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
            values[1 : 1 + failures] = math.nan
            if failures <= allowed:
                assert search.tell(state, batch, values)[1].dropped == failures
            else:
                with pytest.raises(ValueError, match=f"Only {4 - failures} of 4 directions"):
                    search.tell(state, batch, values)


def test_a_failed_tell_leaves_everything_as_it_was():
    search = search_of("guided")
    states = run(search, np.zeros(5), 8)
    state = states[5]
    batch = search.ask(state)
    with pytest.raises(ValueError, match="evaluation 1 of 5 in step 5"):
        search.tell(state, batch, [0.0, math.nan, 0.0, 0.0, 0.0])
    after, _ = search.tell(state, batch, [f(p) for p in batch.points()])
    assert np.array_equal(after.x, states[6].x)


# --- divergence --------------------------------------------------------------------------------


def test_a_step_that_would_overflow_is_not_made():
    for values in ([0.0, 1e200, -1e200, 1e200, 3.0], [0.0, 1e300, 1e300, -1e300, 1e300]):
        search = search_of(optimizer=gs.sgd(1.0))
        state = search.init(np.ones(3), seed=0)
        after, info = search.tell(state, search.ask(state), values)
        assert np.array_equal(after.x, state.x)
        assert "not finite" in info.diverged or "overflow" in info.diverged
        assert after.evaluations == 5


def test_a_step_to_where_the_spacing_changes_nothing_is_divergence():
    for dtype in DTYPES:
        search = search_of(optimizer=gs.sgd(1.0))
        state = search.init(np.ones(3, dtype), seed=0)
        edge = 0.1 / np.finfo(dtype).eps
        for scale, diverges in ((0.05 * edge, False), (50 * edge, True)):
            batch = search.ask(state)
            values = scale * np.array([0.0, 0.1, -0.1, 0.1, 0.1])
            after, info = search.tell(state, batch, values)
            assert (info.diverged is not None) == diverges
            if diverges:
                assert "a spacing of 0.1 is lost to rounding" in info.diverged
                assert np.array_equal(after.x, state.x)
            else:
                assert not np.array_equal(search.ask(after).point(1), after.x)


def test_huge_values_whose_differences_overflow_are_a_failure_of_the_objective():
    search = search_of()
    state = search.init(np.zeros(2), seed=0)
    values = [-1.7e308, 1.0, 2.0, 1.7e308, 3.0]
    with pytest.raises(ValueError, match=r"evaluation 0 of 5 .* has the value -1\.7e"):
        search.tell(state, search.ask(state), values)
    lenient = search_of(on_failure="drop")
    assert lenient.tell(state, search.ask(state), values)[1].dropped == 1


def test_a_method_by_its_name_is_its_directions():
    named = gs.RandomSearch(method="bes-shrinkage", num_directions=4, spacing=0.1)
    given = gs.RandomSearch(gs.shrunk(gs.Bernoulli()), num_directions=4, spacing=0.1)
    assert named.directions == given.directions
    with pytest.raises(ValueError, match="not both"):
        gs.RandomSearch(gs.Bernoulli(), num_directions=4, spacing=0.1, method="bes")
    with pytest.raises(ValueError, match=r"'bse' does not name directions.*bes"):
        gs.RandomSearch(method="bse", num_directions=4, spacing=0.1)
    with pytest.raises(TypeError, match=r"must be directions.*None"):
        gs.RandomSearch(num_directions=4, spacing=0.1)


def test_an_estimate_has_the_shape_of_x():
    search = gs.RandomSearch(gs.Bernoulli(), num_directions=4, spacing=0.1)
    batch = search.ask(search.init(np.ones((2, 3)), seed=0))
    values = [(point**2).sum() for point in batch.points()]
    assert search.estimate(batch, values).gradient.shape == (2, 3)
