"""minimize: the loop of ask and tell, how it stops, what it counts, and what it keeps."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs
from cases import DTYPES, FAMILIES
from gensmooth.describe import describe
from gensmooth.estimators import SAMPLE_MODES

each_method = pytest.mark.parametrize("method", list(gs.directions.METHODS))


def f(x) -> float:
    return float(((np.asarray(x, np.float64) - 1) ** 2).sum())


def noisy(x, rng) -> float:
    return f(x) + 0.1 * rng.standard_normal()


class Counted:
    """An objective that remembers where it was evaluated."""

    def __init__(self, fun=f) -> None:
        self.fun = fun
        self.points: list[np.ndarray] = []

    def __call__(self, x, *rng):
        self.points.append(np.array(x))
        return self.fun(x, *rng)


# --- the same numbers as ask and tell ----------------------------------------------------------


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(FAMILIES)),
    estimator=st.sampled_from([gs.OnePoint(0.5), gs.ForwardDifference(), gs.Antithetic()]),
    samples=st.sampled_from([None, *SAMPLE_MODES]),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 4), max_size=2),
    L=st.integers(1, 5),
    maximize=st.booleans(),
    bounds=st.sampled_from([None, (-0.2, 0.3)]),
    seed=st.integers(0, 2**64 - 1),
)
def test_minimize_is_ask_and_tell_bit_for_bit(
    name, estimator, samples, dtype, shape, L, maximize, bounds, seed
):
    options = {
        "directions": FAMILIES[name], "num_directions": L, "spacing": 0.1, "estimator": estimator,
        "optimizer": gs.momentum(0.01), "samples": samples, "maximize": maximize, "bounds": bounds,
        "num_samples": 1 if samples is None else 2,
    }  # fmt: skip
    fun = f if samples is None else noisy
    x0 = np.zeros(shape, dtype)
    res = gs.minimize(fun, x0, max_steps=6, seed=seed, **options)
    search = gs.RandomSearch(**options)
    state = search.init(x0, seed=seed)
    infos = []
    for _ in range(6):
        batch = search.ask(state)
        if samples is None:
            values = [fun(p) for p in batch.points()]
        else:
            values = [fun(p, rng) for p, rng in zip(batch.points(), batch.rngs(), strict=True)]
        state, info = search.tell(state, batch, values)
        infos.append(info)
    assert np.array_equal(res.x, state.x)
    assert isinstance(res.x, np.ndarray)
    assert (res.x.shape, res.x.dtype) == (tuple(shape), dtype)
    assert list(res.history.value) == [info.value for info in infos]
    assert list(res.history.gradient_norm) == [info.gradient_norm for info in infos]
    assert res.history.evaluations[-1] == res.nfev - options["num_samples"] == state.evaluations
    assert res.nit == 6
    assert res.seed == seed


def test_a_result_goes_on_from_its_state():
    options = {"method": "guided-es", "num_directions": 4, "seed": 0, "optimizer": gs.adam(0.1)}
    whole = gs.minimize(f, np.zeros(5), max_steps=30, **options)
    part = gs.minimize(f, np.zeros(5), max_steps=18, **options)
    search = gs.RandomSearch(gs.Guided(), num_directions=4, spacing=0.1, optimizer=gs.adam(0.1))
    state = part.state
    while state.step < 30:
        batch = search.ask(state)
        state, _ = search.tell(state, batch, [f(p) for p in batch.points()])
    assert np.array_equal(state.x, whole.x)


@each_method
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_method_minimises_a_sphere(method, dtype):
    rate = {"optimizer": gs.adam(gs.cosine_decay(0.1, steps=300))}
    x0 = np.zeros((2, 3), dtype)
    res = gs.minimize(f, x0, method=method, max_steps=300, seed=0, spacing=0.01, **rate)
    assert res.fun < 0.01 * f(x0)
    assert (res.x.shape, res.x.dtype) == ((2, 3), dtype)
    np.testing.assert_allclose(res.x, 1, atol=0.1)


def test_sgd_on_a_linear_function_moves_by_the_estimates_mean():
    # x_n = −η Σ ĝ: after n steps its mean is −ηna∇F with a = E A; a = 1 for shrunk is the twin.
    import theory_literal as literal

    g = np.array([1.0, -2.0, 0.5, 3.0])
    for name in ("bernoulli", "shrunk gaussian"):
        a = FAMILIES[name].moments(4, 3).mean
        ends = np.array([
            gs.minimize(lambda x: x @ g, np.zeros(4), directions=FAMILIES[name], num_directions=3,
                        optimizer=gs.sgd(0.1), max_steps=5, seed=seed).x
            for seed in range(800)
        ])  # fmt: skip
        assert abs(literal.z_score(ends @ g, -0.5 * a * (g @ g))) < 4
        twin = 1.0 if a != 1 else 4.0
        assert abs(literal.z_score(ends @ g, -0.5 * twin * (g @ g))) > 6


# --- what the objective sees -------------------------------------------------------------------


def test_x0_is_neither_changed_nor_held():
    x0 = np.zeros(3)
    res = gs.minimize(f, x0, max_steps=5, seed=0)
    assert np.array_equal(x0, np.zeros(3))
    assert not np.shares_memory(res.x, x0)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    assert np.array_equal(gs.minimize(f, frozen, max_steps=5, seed=0).x, res.x)
    gs.gradient(f, x0, seed=0)
    assert np.array_equal(x0, np.zeros(3))


def test_an_objective_may_overwrite_its_argument():
    def careless(x):
        value = f(x)
        x[...] = 99.0
        return value

    for method in ("bes", "guided-es", "orthogonal"):
        runs = [gs.minimize(g, np.zeros(4), method=method, max_steps=20, seed=0)
                for g in (f, careless)]  # fmt: skip
        assert np.array_equal(runs[0].x, runs[1].x)
        assert np.array_equal(runs[0].best_x, runs[1].best_x)


@each_method
def test_no_evaluation_leaves_the_bounds(method):
    low, high = np.array([-0.1, -np.inf, 0.2]), np.array([0.1, 0.5, np.inf])
    counted = Counted()
    res = gs.minimize(
        counted, [[0.0, 9.0, 0.0]], method=method, bounds=gs.Bounds(low, high), max_steps=60, seed=0
    )
    points = np.array([*counted.points, res.x, res.best_x])
    assert np.all((low <= points) & (points <= high))
    # The projected gradient's rest: 1 is out of reach in the first two, not in the third.
    np.testing.assert_allclose(res.x[0, :2], [0.1, 0.5], atol=0.05)


def test_maximising_is_minimising_the_negative():
    for method in gs.directions.METHODS:
        up = gs.minimize(lambda x: -f(x), np.zeros((1, 3)), method=method, maximize=True,
                         max_steps=15, seed=0)  # fmt: skip
        down = gs.minimize(f, np.zeros((1, 3)), method=method, max_steps=15, seed=0)
        assert np.array_equal(up.x, down.x)
        assert np.array_equal(up.best_x, down.best_x)
        assert (up.fun, up.best_fun) == (-down.fun, -down.best_fun)
        assert np.array_equal(up.history.value, -down.history.value)


@pytest.mark.parametrize("samples", [None, *SAMPLE_MODES])
def test_a_vectorised_objective_gives_the_same_run(samples, monkeypatch):
    calls = []

    def blocks(points, rngs=None):
        assert points.shape[1:] == (2, 3)
        calls.append(len(points))
        if rngs is None:
            return [f(p) for p in points]
        assert len(rngs) == len(points)
        return np.array([noisy(p, rng) for p, rng in zip(points, rngs, strict=True)])

    options = {"max_steps": 10, "samples": samples, "num_samples": 2 if samples else 1, "seed": 0}
    plain = gs.minimize(f if samples is None else noisy, np.zeros((2, 3)), **options)
    assert np.array_equal(
        gs.minimize(blocks, np.zeros((2, 3)), vectorized=True, **options).x, plain.x
    )
    assert sum(calls) == plain.nfev
    from gensmooth.evaluators import objective

    calls.clear()
    monkeypatch.setattr(objective, "_MAX_BLOCK_NUMBERS", 18)  # three points per call
    again = gs.minimize(blocks, np.zeros((2, 3)), vectorized=True, **options)
    assert np.array_equal(again.x, plain.x)
    assert again.fun == plain.fun
    assert max(calls) == 3


@pytest.mark.parametrize("samples", SAMPLE_MODES)
def test_a_noisy_run_repeats_from_its_seed(samples):
    options = {"samples": samples, "num_samples": 3, "max_steps": 10}
    first = gs.minimize(noisy, np.zeros(3), **options)
    again = gs.minimize(noisy, np.zeros(3), seed=first.seed, **options)
    assert np.array_equal(first.x, again.x)
    assert first.fun == again.fun
    other = gs.minimize(noisy, np.zeros(3), seed=first.seed ^ 1, **options)
    assert not np.array_equal(first.x, other.x)


# --- counting ----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    estimator=st.sampled_from([gs.OnePoint(), gs.ForwardDifference(), gs.Antithetic()]),
    samples=st.sampled_from([None, *SAMPLE_MODES]),
    N=st.integers(1, 3),
    L=st.integers(1, 5),
    extra=st.integers(0, 100),
    max_steps=st.one_of(st.none(), st.integers(0, 5)),
)
def test_the_budget_is_never_exceeded_and_nfev_is_the_truth(
    estimator, samples, N, L, extra, max_steps
):
    N = 1 if samples is None else N
    per_step = estimator.evaluations(L, num_samples=N, samples=samples)
    counted = Counted(f if samples is None else noisy)
    budget = per_step + N + extra
    res = gs.minimize(
        counted, np.zeros(2), estimator=estimator, samples=samples, num_samples=N,
        num_directions=L, budget=budget, max_steps=max_steps, seed=0,
    )  # fmt: skip
    assert res.nfev == len(counted.points) <= budget
    assert res.nfev == res.nit * per_step + N
    spent = res.nfev + per_step > budget  # not a step less than it allows
    assert spent if res.reason == "budget" else (res.reason, res.nit) == ("max_steps", max_steps)


def test_the_default_number_of_directions_grows_with_the_logarithm_of_d():
    for d, L in ((1, 4), (10, 10), (100, 17)):
        res = gs.minimize(f, np.zeros(d), method="bes", max_steps=1, seed=0)
        assert res.nfev == L + 1 + 1


def test_the_final_value_is_the_objective_at_the_last_iterate():
    counted = Counted()
    res = gs.minimize(counted, np.zeros(3), max_steps=7, seed=0)
    assert res.fun == f(res.x)
    assert np.array_equal(counted.points[-1], res.x)
    zero = gs.minimize(f, np.ones(3), max_steps=0, seed=0)
    assert (zero.nit, zero.nfev, zero.fun) == (0, 1, 0.0)
    assert np.array_equal(zero.x, np.ones(3))


def test_the_final_value_of_a_noisy_objective_is_a_mean_over_fresh_samples():
    draws = []

    def fun(x, rng):
        draws.append(rng.standard_normal())
        return f(x) + draws[-1]

    res = gs.minimize(fun, np.zeros(3), samples="shared", num_samples=4, max_steps=3, seed=0)
    assert res.fun == pytest.approx(f(res.x) + np.mean(draws[-4:]))
    assert len(set(draws[-4:])) == 4
    assert not set(draws[-4:]) & set(draws[:-4])


def test_the_best_point_is_the_best_of_all_that_were_evaluated():
    for maximize in (False, True):
        for dtype in DTYPES:
            counted = Counted(lambda x: math.sin(3 * x.sum()))
            res = gs.minimize(
                counted, np.zeros((2, 2), dtype), max_steps=20, maximize=maximize, seed=0
            )
            values = [math.sin(3 * x.sum()) for x in counted.points]
            index = int(np.argmax(values) if maximize else np.argmin(values))
            assert res.best_fun == values[index]
            assert np.array_equal(res.best_x, counted.points[index])
            assert res.best_x.dtype == dtype


# --- stopping ----------------------------------------------------------------------------------


def test_it_stops_at_the_target():
    res = gs.minimize(f, np.zeros(3), target=0.5, seed=0)
    assert (res.reason, res.success) == ("target", True)
    assert res.history.value[-1] <= 0.5 < res.history.value[-2]
    up = gs.minimize(lambda x: -f(x), np.zeros(3), target=-0.5, maximize=True, seed=0)
    assert (up.reason, up.nit) == ("target", res.nit)


def test_it_stops_after_ten_short_steps():
    # Steps of length η‖ĝ‖ halve each time on a schedule; nothing else changes.
    sizes = [1.0, 1e-3, 1e-3, 1.0, *[1e-3] * 50]
    res = gs.minimize(
        lambda x: x[0], np.zeros(1), method="orthogonal", num_directions=1,
        optimizer=gs.sgd(lambda step: sizes[step]), tolerance=1e-2, seed=0,
    )  # fmt: skip
    # A full group of orthogonal directions gives the exact gradient 1 at every step.
    np.testing.assert_allclose(res.history.step_size, sizes[: res.nit], rtol=1e-6)
    assert (res.reason, res.success, res.nit) == ("tolerance", True, 14)


def test_the_callback_sees_each_step_and_may_stop():
    seen = []

    def callback(now):
        seen.append((now.info.step, now.state.step, now.info.evaluations))
        return now.info.step == 4

    res = gs.minimize(f, np.zeros(2), method="bes", callback=callback, num_directions=3, seed=0)
    assert seen == [(i, i + 1, 4 * (i + 1)) for i in range(5)]
    assert (res.reason, res.success, res.nit) == ("callback", False, 5)
    assert "callback" in res.message


@pytest.mark.parametrize("when", [1, 7, 9, 15])
def test_an_interrupt_returns_what_was_found(when):
    """In the first step, inside later ones, or in the final evaluation (the 15th)."""
    counted = Counted()

    def interrupted(x):
        value = counted(x)
        if len(counted.points) == when:
            raise KeyboardInterrupt
        return value

    options = {"method": "bes", "num_directions": 6, "budget": 15, "seed": 0}
    res = gs.minimize(interrupted, np.zeros(2), **options)
    whole = (when - 1) // 7  # steps that were finished
    assert (res.reason, res.success, res.nit) == ("interrupted", False, whole)
    assert res.nfev == 7 * whole
    expected = gs.minimize(f, np.zeros(2), **options | {"max_steps": whole})
    # max_steps shortens the schedule of the default optimiser, so compare the first step alone.
    if whole == 0:
        assert np.array_equal(res.x, np.zeros(2))
    assert len(res.history.value) == expected.nit == whole


@pytest.mark.parametrize("dtype", DTYPES)
def test_divergence_ends_a_run_with_its_reason(dtype):
    res = gs.minimize(
        lambda x: -float((x.astype(np.float64) ** 2).sum()), np.ones(3, dtype),
        optimizer=gs.sgd(5.0), seed=0,
    )  # fmt: skip
    assert (res.reason, res.success) == ("diverged", False)
    assert res.message.startswith("The search diverged: ")
    assert np.isfinite(res.x).all()
    assert np.array_equal(res.x, res.state.x)
    assert res.nfev < 10_000


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("optimizer", [gs.sgd(1.0), gs.momentum(1.0), gs.adam(1.0)])
def test_an_estimate_that_overflows_is_divergence_and_no_warning(dtype, optimizer):
    res = gs.minimize(
        lambda x: 1e250 * float(x.sum()), np.ones(3, dtype), optimizer=optimizer, seed=0
    )
    assert (res.reason, res.nit) == ("diverged", 1)
    assert np.array_equal(res.x, np.ones(3))


def test_the_default_optimizer_is_adam_along_half_a_cosine():
    steps = 10_000 // 8  # the default budget by evaluations per step: 3 ln 3 + 4 = 7, the centre
    adam = gs.adam(gs.cosine_decay(0.1, steps=steps))
    explicit = gs.minimize(f, np.zeros(3), optimizer=adam, seed=0)
    assert np.array_equal(gs.minimize(f, np.zeros(3), method="bes", seed=0).x, explicit.x)


def test_a_learning_rate_is_short_for_gradient_descent():
    short = gs.minimize(f, np.zeros(3), learning_rate=0.1, budget=200, seed=0)
    explicit = gs.minimize(f, np.zeros(3), optimizer=gs.sgd(0.1), budget=200, seed=0)
    assert np.array_equal(short.x, explicit.x)
    search = {"method": "bes", "num_directions": 4, "spacing": 0.1}
    for made in (gs.RandomSearch(**search, learning_rate=0.1),
                 gs.search("bes", np.zeros(3), learning_rate=0.1)):  # fmt: skip
        assert describe(made.optimizer) == describe(gs.sgd(0.1))


@pytest.mark.parametrize(
    "make",
    [
        lambda **step: gs.minimize(f, np.zeros(3), **step),
        lambda **step: gs.search("bes", np.zeros(3), **step),
        lambda **step: gs.search("ars", np.zeros(3), **step),
        lambda **step: gs.RandomSearch(method="bes", num_directions=4, spacing=0.1, **step),
    ],
    ids=["minimize", "search", "algorithm", "RandomSearch"],
)
def test_an_optimizer_is_a_pair_and_not_a_rate(make):
    with pytest.raises(TypeError, match=r"pass learning_rate=0\.1; .*gs\.cosine_decay\(0\.1"):
        make(optimizer=0.1)
    with pytest.raises(ValueError, match="either `learning_rate` or `optimizer`, not both"):
        make(optimizer=gs.sgd(0.1), learning_rate=0.1)
    with pytest.raises(ValueError, match="`learning_rate` must be positive, but is -1"):
        make(learning_rate=-1)


def test_estimators_are_names_or_objects():
    search = {"method": "bes", "num_directions": 4, "spacing": 0.1}
    for name, estimator in gs.estimators.ESTIMATORS.items():
        assert gs.RandomSearch(**search, estimator=name).estimator == estimator
        assert gs.search("bes", np.zeros(3), estimator=name).estimator == estimator
    assert gs.RandomSearch(**search).estimator == gs.ForwardDifference()
    options = {"method": "bes", "budget": 200, "seed": 0}
    named = gs.minimize(f, np.zeros(3), estimator="antithetic", **options)
    given = gs.minimize(f, np.zeros(3), estimator=gs.Antithetic(), **options)
    assert np.array_equal(named.x, given.x)
    with pytest.raises(
        ValueError, match=r"There is no estimator 'antithetc'\. Did you mean 'antithetic'"
    ):
        gs.gradient(f, np.zeros(3), estimator="antithetc")
    with pytest.raises(TypeError, match=r"`estimator` must be 'forward', .* but is 3"):
        gs.minimize(f, np.zeros(3), estimator=3)


# --- failures ----------------------------------------------------------------------------------


def _failing(every: int, how):
    calls = [0]

    def fun(x):
        calls[0] += 1
        # The centre of a forward difference (the first of seven) does not fail.
        if calls[0] % 7 != 1 and calls[0] % every == 0:
            return how()
        return f(x)

    return fun


def _raise():
    raise RuntimeError("lost")


@pytest.mark.parametrize("how", [lambda: math.nan, lambda: math.inf, lambda: -math.inf, _raise])
def test_dropped_directions_are_counted_and_x_stays_finite(how):
    fun = _failing(5, how)
    res = gs.minimize(
        fun, np.zeros(3), method="bes", num_directions=6, max_steps=20, on_failure="drop", seed=0
    )
    failures = sum(1 for call in range(1, 141) if call % 7 != 1 and call % 5 == 0)
    assert res.dropped == failures == 24
    assert res.nfev == 141
    assert np.isfinite(res.x).all()
    assert math.isfinite(res.best_fun)
    assert res.fun < f(np.zeros(3))


def test_vectorised_failures_are_dropped_too():
    def fun(points):
        values = np.array([f(p) for p in points])
        values[3:4] = math.nan
        return values

    res = gs.minimize(
        fun, np.zeros(3), method="bes", num_directions=6, max_steps=4, on_failure="drop",
        vectorized=True, seed=0,
    )  # fmt: skip
    assert res.dropped == 4
    assert np.isfinite(res.x).all()


def test_a_failed_run_does_not_poison_later_ones():
    expected = gs.minimize(f, np.zeros(3), method="guided-es", max_steps=15, seed=0)
    for how in (lambda: math.nan, _raise, lambda: "three"):
        with pytest.raises(gs.EvaluationError):
            gs.minimize(
                _failing(11, how), np.zeros(3), method="guided-es", num_directions=6, seed=0
            )
        again = gs.minimize(f, np.zeros(3), method="guided-es", max_steps=15, seed=0)
        assert np.array_equal(again.x, expected.x)
        assert again.fun == expected.fun


# --- the rest ----------------------------------------------------------------------------------


def test_the_progress_bar_changes_nothing_but_the_terminal(capsys):
    plain = gs.minimize(f, np.zeros(3), max_steps=5, seed=0)
    assert capsys.readouterr().err == ""
    shown = gs.minimize(f, np.zeros(3), max_steps=5, seed=0, progress=True)
    assert "evaluations" in capsys.readouterr().err
    assert np.array_equal(plain.x, shown.x)


def test_a_result_reads_like_scipys():
    res = gs.minimize(f, np.zeros(3), max_steps=5, seed=0)
    for name in ("x", "fun", "nfev", "nit", "success", "status", "reason", "message"):
        assert res[name] is getattr(res, name)
    assert len(res.history.value) == len(res.history.step_size) == res.nit


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_keeps_shape_and_precision(dtype):
    for shape in ((), (1,), (2, 3)):
        found = gs.gradient(lambda x: float(x.sum()), np.zeros(shape, dtype), seed=0)
        assert (found.gradient.shape, found.gradient.dtype) == (shape, dtype)


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "sphere", "orthogonal bernoulli"])
def test_a_gradient_takes_the_memory_of_four_vectors_whatever_the_directions_number(name):
    def norm2(x):
        return float(np.vdot(x, x))

    def peak(L: int) -> int:
        tracemalloc.start()
        try:
            gs.gradient(norm2, x, directions=FAMILIES[name], num_directions=L, seed=0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    x = np.zeros(2**19, np.float32)
    gs.gradient(norm2, x, directions=FAMILIES[name], num_directions=2, seed=0)  # compiles
    # The copy of x, two points in turn, the estimate, and some kilobytes; L × d would be 40.
    assert peak(40) <= 4.1 * x.nbytes


def test_gradient_with_bounds_sees_the_clipped_points_alone():
    counted = Counted()
    gs.gradient(counted, [0.0, 0.0], bounds=(-0.05, 0.05), spacing=0.1, seed=0)
    assert np.abs(counted.points).max() == 0.05


def test_gradient_drops_and_says_so():
    counted = Counted()
    found = gs.gradient(
        lambda x: math.nan if len(counted.points) == 3 else counted(x), np.zeros(2),
        num_directions=4, on_failure="drop", seed=0,
    )  # fmt: skip
    assert found.dropped == 2
    assert np.isfinite(found.gradient).all()


@pytest.mark.parametrize("method", ["auto", "bes", "cma-es"])
def test_an_interrupted_result_says_whose_value_it_has(method):
    calls = iter(range(10**6))

    def interrupted(x):
        if next(calls) == 200:
            raise KeyboardInterrupt
        return f(x)

    res = gs.minimize(interrupted, np.zeros(4), method=method, seed=0, budget=5000)
    assert res.reason == "interrupted"
    if method == "auto":  # exact: the best point is the one to use, and its value is known
        assert res.fun == f(res.x) == res.best_fun
        assert "`fun`" not in res.message
    else:
        assert "`fun` is the last step's estimate" in res.message


# --- what a run tells -------------------------------------------------------------------------


def test_a_callback_sees_the_users_parameters():
    """Not the logarithms of a log scale, nor without the fixed parameters."""
    seen = []
    bounds = [(0.1, 10.0), (2.0, 2.0)]
    options = {"log_scale": True, "bounds": bounds, "max_steps": 3, "seed": 0}
    res = gs.minimize(lambda x: float(x @ x), [1.0, 2.0], callback=seen.append, **options)
    assert [now.nit for now in seen] == [1, 2, 3]
    assert all(0.1 <= now.x[0] <= 10 and now.x[1] == 2 for now in seen)
    assert [now.nfev for now in seen] == res.history.evaluations.tolist()
    assert [now.fun for now in seen] == res.history.value.tolist()


def test_a_callback_stops_by_true_or_by_stop_iteration():
    def raises(now):
        if now.nit == 2:
            raise StopIteration

    for callback in (raises, lambda now: now.nit == 2):
        res = gs.minimize(f, np.zeros(3), callback=callback, seed=0)
        assert (res.reason, res.status, res.nit) == ("callback", 99, 2)


def test_a_callback_takes_one_argument():
    with pytest.raises(TypeError, match="one argument, the result so far, but takes"):
        gs.minimize(f, np.zeros(3), callback=lambda _, state: state)


def test_a_run_stops_after_its_seconds_and_continues_with_new_ones(tmp_path):
    options = {"x0": np.zeros(3), "method": "bes", "max_steps": 4, "seed": 0}
    whole = gs.minimize(f, **options)
    for step in (1, 2, 3):
        part = gs.minimize(f, folder=tmp_path, max_seconds=1e-9, **options)
        assert (part.reason, part.status, part.nit) == ("max_seconds", 0, step)
        assert part.success
        assert "time limit" in part.message
    rest = gs.resume(tmp_path, f, max_seconds=1000)
    assert rest.reason == whole.reason
    assert rest.x.tobytes() == whole.x.tobytes()
    with pytest.raises(ValueError, match="`max_seconds` must be positive, but is 0"):
        gs.minimize(f, np.zeros(3), max_seconds=0)


def test_retries_are_for_retry_alone(tmp_path):
    for policy in ("raise", "drop"):
        with pytest.raises(ValueError, match=f"for on_failure='retry', but .* is '{policy}'"):
            gs.minimize(f, np.zeros(3), on_failure=policy, retries=2)
    gs.minimize(f, np.zeros(3), max_steps=1, folder=tmp_path)
    with pytest.raises(ValueError, match="for on_failure='retry', but"):
        gs.resume(tmp_path, f, retries=2)
    gs.resume(tmp_path, f, on_failure="retry", retries=2)


def test_a_result_prints_a_small_table():
    res = gs.minimize(f, np.zeros(100), max_steps=1, method="bes", seed=0)
    lines = str(res).splitlines()
    assert lines[0] == " message: The maximum number of steps was reached."
    assert " success: True" in lines
    assert "  status: 0" in lines
    assert "  reason: max_steps" in lines
    assert len(lines) < 15
    assert max(map(len, lines)) < 100
    assert repr(res) == str(res)
