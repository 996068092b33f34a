"""Optimisers: equal to Optax's step by step, and to their formulas; schedules."""

import math

import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs

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


@pytest.mark.parametrize("make", [gs.sgd, gs.momentum, gs.adam])
def test_precision_is_kept(make):
    x = np.zeros(3, np.float32)
    optimizer = make(gs.cosine_decay(0.1, steps=10))
    state = optimizer.init(x)
    for _ in range(3):
        change, state = optimizer.update(np.ones(3, np.float32), state, x)
        assert change.dtype == np.float32
    assert all(part.dtype == np.float32 for part in state if isinstance(part, np.ndarray))


@pytest.mark.parametrize("make", [gs.sgd, gs.momentum, gs.adam])
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
