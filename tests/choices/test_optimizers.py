"""Optimisers: equal to Optax's step by step, and to their formulas; schedules."""

import math

import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs
import theory_literal as literal
from gensmooth import theory
from gensmooth.runs.states import pack_tree, unpack_tree

PAIRS = {
    "sgd": (lambda rate: gs.sgd(rate), lambda rate: optax.sgd(rate)),
    "momentum": (
        lambda rate: gs.momentum(rate, 0.8),
        lambda rate: optax.sgd(rate, momentum=0.8),
    ),
    "nesterov": (
        lambda rate: gs.momentum(rate, 0.8, nesterov=True),
        lambda rate: optax.sgd(rate, momentum=0.8, nesterov=True),
    ),
    "adam": (lambda rate: gs.adam(rate), lambda rate: optax.adam(rate)),
    "adam, other constants": (
        lambda rate: gs.adam(rate, b1=0.5, b2=0.9, eps=1e-2),
        lambda rate: optax.adam(rate, b1=0.5, b2=0.9, eps=1e-2),
    ),
}
RATES = {
    "constant": (0.03, 0.03),
    "exponential": (
        gs.exponential_decay(0.03, rate=0.7, steps=5),
        optax.exponential_decay(0.03, transition_steps=5, decay_rate=0.7),
    ),
    "cosine": (
        gs.cosine_decay(0.03, steps=12),
        optax.cosine_decay_schedule(0.03, decay_steps=12),
    ),
}


@pytest.fixture
def double_precision():
    import jax

    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def _path(optimizer, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    state, path = optimizer.init(x), []
    for gradient in gradients:
        change, state = optimizer.update(gradient, state, x)
        x = x + np.asarray(change)
        path.append(x)
    return np.array(path)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", PAIRS)
def test_every_step_is_optaxs(name, rate):
    rng = np.random.default_rng(0)
    x, gradients = rng.standard_normal((3, 2)), rng.standard_normal((20, 3, 2))
    gradients[7] = 0
    ours = _path(PAIRS[name][0](RATES[rate][0]), x, gradients)
    optaxs = _path(PAIRS[name][1](RATES[rate][1]), x, gradients)
    # Optax takes the power of its exponential decay in float32.
    tolerance = 1e-5 if rate == "exponential" else 1e-12
    np.testing.assert_allclose(ours, optaxs, rtol=tolerance, atol=1e-2 * tolerance)
    # The twin: another learning rate is another path.
    assert not np.allclose(_path(PAIRS[name][0](0.02), x, gradients), optaxs)


@pytest.mark.parametrize("name", PAIRS)
def test_an_optax_transformation_drops_into_minimize(name):
    def f(x):
        return float(((x - 1) ** 2).sum())

    runs = [
        gs.minimize(f, np.zeros(3), optimizer=make(0.03), max_steps=30, seed=0)
        for make in PAIRS[name]
    ]
    assert runs[0].nit == runs[1].nit == 30
    # Optax computes in float32 unless told otherwise.
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-4)
    assert runs[1].x.dtype == np.float64
    assert runs[1].fun < 3


@settings(max_examples=30)
@given(
    rate=st.floats(1e-6, 10),
    gradient=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5),
    steps=st.integers(1, 5),
)
def test_sgd_moves_against_the_gradient_by_the_rate(rate, gradient, steps):
    g = np.array(gradient)
    path = _path(gs.sgd(rate), np.zeros(len(g)), np.tile(g, (steps, 1)))
    np.testing.assert_allclose(path[-1], -steps * rate * g, rtol=1e-12, atol=1e-300)


def test_a_constant_gradient_moves_adam_by_the_rate_in_every_coordinate():
    g = np.array([1e-3, -5.0, 1e9])
    path = _path(gs.adam(0.1), np.zeros(3), np.tile(g, (4, 1)))
    np.testing.assert_allclose(path[-1], -0.4 * np.sign(g), rtol=1e-4)


def test_momentum_of_a_constant_gradient_is_a_geometric_series():
    path = _path(gs.momentum(0.1, 0.5), np.zeros(1), np.ones((60, 1)))
    velocity = -np.diff(path[:, 0], prepend=0) / 0.1
    np.testing.assert_allclose(velocity, 2 - 0.5 ** np.arange(60), rtol=1e-12)


@pytest.mark.parametrize("make", [gs.sgd, gs.momentum, gs.adam, lambda _: gs.greedy()])
def test_precision_is_kept(make):
    x = np.zeros(3, np.float32)
    optimizer = make(gs.cosine_decay(0.1, steps=10))
    state = optimizer.init(x)
    for _ in range(3):
        change, state = optimizer.update(np.ones(3, np.float32), state, x)
        assert change.dtype == np.float32
    assert all(part.dtype == np.float32 for part in state if isinstance(part, np.ndarray))


@pytest.mark.parametrize("make", [gs.sgd, gs.momentum, gs.adam, gs.greedy])
def test_updates_are_pure(make):
    optimizer, g = make(0.1), np.array([1.0, -2.0])
    x = np.zeros(2)
    state = optimizer.update(g, optimizer.init(x), x)[1]
    first, after = optimizer.update(g, state, x)
    again, after_again = optimizer.update(g, state, x)
    assert np.array_equal(first, again)
    assert str(after) == str(after_again)
    assert np.array_equal(g, [1.0, -2.0])


def test_schedules_follow_their_formulas():
    assert gs.exponential_decay(0.5, rate=0.25, steps=2)(3) == pytest.approx(0.5 * 0.25**1.5)
    decay = gs.inverse_decay(0.5, steps=4, power=2)
    assert [decay(0), decay(4), decay(12)] == pytest.approx([0.5, 0.125, 0.5 / 16])
    cosine = gs.cosine_decay(1.0, steps=4, final=0.2)
    expected = [1.0, 0.2 + 0.4 * (1 + math.sqrt(0.5)), 0.6, 0.2 + 0.4 * (1 - math.sqrt(0.5)), 0.2]
    assert [cosine(s) for s in range(5)] == pytest.approx(expected)
    assert cosine(100) == pytest.approx(0.2)


def test_a_schedule_is_asked_for_each_step_in_turn():
    asked = []
    gs.minimize(
        lambda x: x.sum(), np.zeros(2), optimizer=gs.sgd(lambda step: asked.append(step) or 0.1),
        max_steps=4, seed=0,
    )  # fmt: skip
    assert asked == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [gs.sgd, gs.momentum, gs.adam])
@pytest.mark.parametrize("rate", [0.0, -0.1, math.nan, math.inf])
def test_learning_rates_that_do_not_descend_are_refused(make, rate):
    what = "finite" if rate == math.inf else "positive"
    with pytest.raises(ValueError, match=f"`learning_rate` must be {what}, but is {rate}"):
        make(rate)


def test_decays_outside_zero_to_one_are_refused():
    for make, name in (
        (lambda v: gs.momentum(0.1, v), "decay"),
        (lambda v: gs.adam(0.1, b1=v), "b1"),
        (lambda v: gs.adam(0.1, b2=v), "b2"),
    ):
        for value in (-0.1, 1.0):
            with pytest.raises(ValueError, match=rf"`{name}` must be in \[0, 1\), but is {value}"):
                make(value)


# --- the step that steers itself -----------------------------------------------------------------


def test_greedy_follows_its_formula():
    """Written out with whole histories: the weights of E and of V, and the shortened estimates."""
    d, unit, memory, speed = 7, 0.3, 0.2, 0.4
    rng = np.random.default_rng(1)
    gradients = rng.standard_normal((40, d)) * np.exp(rng.standard_normal((40, 1)))
    optimizer = gs.greedy(unit, memory=memory, speed=speed)
    state, taken, V, rate = optimizer.init(np.zeros(d)), [], None, None
    weights = np.zeros(0)
    shortened = 0
    for t, g in enumerate(gradients):
        if t == 0:
            V, rate = g @ g, 0.03 * unit * np.sqrt(d) / np.linalg.norm(g)
        else:
            score = g @ (weights @ np.array(taken)) / (V * np.sqrt((weights**2).sum() / d))
            rate *= np.exp(speed * np.clip(score, -1.5, 1.5))
        if np.linalg.norm(g) > 2 * np.sqrt(V):
            g = g * 2 * np.sqrt(V) / np.linalg.norm(g)
            shortened += 1
        change, state = optimizer.update(gradients[t], state, np.zeros(d))
        np.testing.assert_allclose(change, -rate * g, rtol=1e-10)
        V = (1 - memory) * V + memory * g @ g
        new = max(1 / (t + 1), memory)
        weights, taken = np.append((1 - new) * weights, new), [*taken, g]
        assert weights.sum() == pytest.approx(1)
    assert shortened > 3
    assert state.step == 40


def test_greedys_first_step_is_a_share_of_a_unit():
    for d, unit in ((1, 1.0), (50, 0.2)):
        g = np.random.default_rng(0).standard_normal(d) * 1e9
        optimizer = gs.greedy(unit)
        change, _ = optimizer.update(g, optimizer.init(g), g)
        assert np.linalg.norm(change) == pytest.approx(0.03 * unit * math.sqrt(d))


def _settled(times: float, *, start: float) -> np.ndarray:
    """The mean of log η over the late steps of descents on ½μ‖x‖², over its greedy value × times.

    The noise of an estimate is in proportion to its gradient, so the greedy step is the same
    everywhere: η* = 1 / (μ (1 + noise)).
    """
    d, mu, noise = 100, 2.0, 49.0
    greedy = theory.greedy_learning_rate(1.0, 1 + noise, curvature=mu)
    rng = np.random.default_rng(5)
    optimizer = gs.greedy(start)
    found = []
    for _ in range(30):
        x = rng.standard_normal(d)
        state, logs = optimizer.init(x), []
        for step in range(600):
            g = mu * x
            g = g + math.sqrt(float((g**2).sum()) * noise / d) * rng.standard_normal(d)
            change, state = optimizer.update(g, state, x)
            x = x + change
            if step >= 300:
                logs.append(math.log(state.rate / (times * greedy)))
        found.append(np.mean(logs))
    return np.array(found)


@pytest.mark.parametrize("start", [0.03, 1.0, 30.0])
def test_greedy_settles_at_the_greedy_step_from_any_start(start):
    assert abs(literal.z_score(_settled(1.0, start=start), 0.0)) < 4
    for twin in (0.5, 2.0):
        assert abs(literal.z_score(_settled(twin, start=start), 0.0)) > 6


def test_a_constant_times_the_objective_changes_nothing():
    def path(factor: float, dtype) -> list[bytes]:
        optimizer = gs.greedy()
        x = np.ones((2, 3), dtype)
        state, found = optimizer.init(x), []
        rng = np.random.default_rng(0)
        for _ in range(30):
            noise = rng.standard_normal((2, 3)).astype(dtype)
            change, state = optimizer.update((factor * (x + noise)).astype(dtype), state, x)
            x = x + change
            found.append(x.tobytes())
        return found

    for dtype in (np.float32, np.float64):
        assert path(2.0**20, dtype) == path(1.0, dtype) == path(2.0**-20, dtype)

    def f(x):
        return float(((x - 1) ** 2).sum())

    options = {"optimizer": gs.greedy(), "estimator": gs.Antithetic(), "max_steps": 50, "seed": 0}
    one = gs.minimize(f, np.zeros(5), **options)
    other = gs.minimize(lambda x: 2.0**30 * f(x), np.zeros(5), **options)
    assert one.x.tobytes() == other.x.tobytes()
    assert one.fun < 0.1
    np.testing.assert_allclose(
        gs.minimize(lambda x: 3e-7 * f(x), np.zeros(5), **options).x, one.x, rtol=1e-6
    )


def test_greedy_takes_nothing_from_estimates_that_are_zero():
    optimizer, x = gs.greedy(), np.ones(3)
    state = optimizer.init(x)
    change, after = optimizer.update(np.zeros(3), state, x)
    assert np.array_equal(change, np.zeros(3))
    assert after is state
    state = optimizer.update(np.ones(3), state, x)[1]
    change, after = optimizer.update(np.zeros(3), state, x)
    assert np.array_equal(change, np.zeros(3))
    assert after is state


def test_one_wild_estimate_does_greedy_no_harm():
    rng = np.random.default_rng(2)
    optimizer, x = gs.greedy(), np.ones(20)
    state = optimizer.init(x)
    for step in range(400):
        g = x + 0.1 * rng.standard_normal(20)
        usual = math.sqrt(state.square)
        change, state = optimizer.update(1e12 * g if step == 200 else g, state, x)
        assert step == 0 or np.linalg.norm(change) <= 2.0001 * state.rate * usual
        x = x + change
    assert np.linalg.norm(x) < 0.5


def test_greedys_state_comes_back_from_a_checkpoint():
    optimizer, x = gs.greedy(0.1), np.ones((2, 2), np.float32)
    state = optimizer.init(x)
    for _ in range(3):
        state = optimizer.update(x, state, x)[1]
    assert [type(part) for part in state] == [int, np.ndarray, float, float, float]
    skeleton, arrays = pack_tree(state, "optimizer")
    again = unpack_tree(skeleton, arrays, optimizer.init(x), "optimizer")
    assert type(again) is type(state)
    assert again.mean.tobytes() == state.mean.tobytes()
    assert again._replace(mean=0) == state._replace(mean=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_run_with_ranks_and_greedy_steps_goes_on_as_if_it_had_not_stopped(tmp_path, dtype):
    def f(x):
        return float(((x - 1) ** 2).sum())

    x0 = np.zeros((2, 3), dtype)
    options = {"method": "orthogonal-bes", "estimator": gs.Ranked(), "optimizer": gs.greedy(0.5)}
    whole = gs.minimize(f, x0, max_steps=40, seed=0, **options)
    gs.minimize(f, x0, max_steps=15, seed=0, folder=tmp_path / "run", **options)
    rest = gs.resume(tmp_path / "run", f, max_steps=40)
    assert rest.nit == whole.nit == 40
    assert rest.x.tobytes() == whole.x.tobytes()
