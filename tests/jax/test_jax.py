"""Zeroth-order gradients in JAX: the directions of the other engines, pytrees, jit, Optax."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import fingerprints_engines
import gensmooth as gs
from fingerprints_compare import compare
from gensmooth import kernels
from gensmooth.directions.draw import Address
from gensmooth.estimators import as_estimator
from gensmooth.models import SparseTiles, Stream, choose_law
from gensmooth.streams import TILE, Purpose, named_seed

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'gensmooth[jax]'")
optax = pytest.importorskip("optax", reason="needs Optax: pip install 'gensmooth[jax]'")
jnp = jax.numpy

from gensmooth.jax.directions import StreamPlace, entries  # noqa: E402
from gensmooth.jax.estimates import EstimateChoices, estimate  # noqa: E402

SIZES = [1, 63, 64, 65, 2047, 2048, 2049, 5000]


def in_numpy(family: Any, seed: int, step: int, number: int, dim: int) -> np.ndarray:
    """Directions as :class:`gensmooth.RandomSearch` has them."""
    address = Address(seed, step, number, dim, np.dtype(np.float32))
    return family.draw(family.init(dim, np.dtype(np.float32)), address).block()


@pytest.mark.parametrize("size", SIZES)
def test_signs_are_those_of_the_kernels(size: int):
    seed = named_seed(3, "w")
    expected = in_numpy(gs.Bernoulli().resolve(size, 3), seed, 7, 3, size)
    stream = Stream(seed, choose_law("bes", size, 3))
    found = [np.asarray(entries(stream, StreamPlace(7, index), (size,))) for index in range(3)]
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, in_numpy(gs.Bernoulli(), seed, 8, 3, size)) or size < 4


@pytest.mark.parametrize("size", SIZES)
def test_normals_are_those_of_the_kernels_to_rounding(size: int):
    seed = named_seed(3, "w")
    expected = in_numpy(gs.Gaussian(), seed, 2, 3, size)
    stream = Stream(seed, choose_law("gs", size, 3))
    found = [np.asarray(entries(stream, StreamPlace(2, index), (size,))) for index in range(3)]
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_normals_have_their_tails():
    """The smallest and the largest radius words do not become infinite or negative."""
    stream = Stream(1, choose_law("gs", 10, 1))
    z = np.asarray(entries(stream, StreamPlace(0, 0), (2_000_000,)), np.float64)
    assert np.isfinite(z).all()
    n = len(z)
    assert abs(z.mean()) * n**0.5 < 4
    assert abs((z**2).mean() - 1) * (n / 2) ** 0.5 < 4
    assert abs((z**4).mean() - 3) * (n / 96) ** 0.5 < 4
    assert abs(((z * 1.005) ** 2).mean() - 1) * (n / 2) ** 0.5 > 4  # the twin: half a percent off


def test_low_rank_directions_are_sums_of_outer_products():
    stream = Stream(named_seed(5, "w"), choose_law(gs.LowRank(2), 60, 3))
    left, right = (
        _kernel_normals(stream, purpose, step=4, index=range(2, 4), size=size)
        for purpose, size in ((Purpose.LEFT, 6), (Purpose.RIGHT, 10))
    )
    found = np.asarray(entries(stream, StreamPlace(4, 1), (6, 5, 2))).reshape(6, 10)
    np.testing.assert_allclose(found, left.T @ right / 2**0.5, rtol=1e-5, atol=1e-5)
    assert np.linalg.matrix_rank(found, tol=1e-4) == 2


def _kernel_normals(stream: Stream, purpose: Purpose, *, step: int, index: Any, size: int) -> Any:
    laws = kernels.on_laws()
    key = np.array(stream.key(step, purpose), np.uint64)
    law = laws.NormalLaw(key, np.ones(len(index), np.float32), np.array(index, np.uint64))
    out = np.empty((len(index), size), np.float32)
    laws.fill(law, 0, 1, out)
    return out


def test_sparse_directions_move_the_tiles_whose_uniform_is_below_the_density():
    stream = Stream(named_seed(5, "w"), choose_law(SparseTiles(density=0.3), 60, 3))
    tiles = 41
    uniforms = np.empty((1, tiles))
    kernels.on_laws().uniforms(np.array(stream.key(6, Purpose.CHOICE), np.uint64), 0, 0, uniforms)
    found = np.asarray(entries(stream, StreamPlace(6, 2), (tiles * TILE,))).reshape(tiles, TILE)
    assert np.array_equal((found != 0).all(1), uniforms[0] < 0.3)
    assert np.array_equal((found != 0).any(1), uniforms[0] < 0.3)
    assert 0 < (uniforms < 0.3).sum() < tiles


def quadratic(params: Any) -> Any:
    return jnp.sum((params["w"] - 1) ** 2) + 3 * params["b"] ** 2


PARAMS = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "b": np.float32(0.5)}
TRUE = {"w": 2 * (PARAMS["w"] - 1), "b": 6 * PARAMS["b"]}


@pytest.mark.parametrize(
    "estimator", ["forward", "antithetic", "one-point", gs.OnePoint(), gs.OnePoint(2.5)]
)
@pytest.mark.parametrize("method", ["bes", "gs", "gs-shrinkage"])
def test_the_estimate_is_the_formula_with_the_same_directions(estimator: Any, method: str):
    choices = EstimateChoices(
        num_directions=5, spacing=0.1, method=method, estimator=estimator, seed=4
    )
    found = jax.jit(partial(estimate, quadratic, choices=choices))(PARAMS, step=9)
    law = choices.law(13)
    eps = {
        name: np.stack(
            [
                law.scale
                * np.asarray(
                    entries(Stream(named_seed(4, name), law), StreamPlace(9, i), np.shape(x))
                )
                for i in range(5)
            ]
        )
        for name, x in PARAMS.items()
    }

    def at(side: float, i: int) -> float:
        return float(quadratic({n: PARAMS[n] + np.float32(side * 0.1) * eps[n][i] for n in PARAMS}))

    plus, minus = ([at(side, i) for i in range(5)] for side in (1, -1))
    known = as_estimator(estimator)
    sides = {1: plus, -1: minus, 0: [at(0, 0)]}
    values = np.array([sides[side][i] for i, side in known.points(5, "shared")])
    delta, value = known.differences(values, 5, "shared")
    np.testing.assert_allclose(found.value, value, rtol=1e-5)
    for name in PARAMS:
        expected = np.einsum("l,l...->...", delta, eps[name]) / 0.1 / 5
        np.testing.assert_allclose(found.gradient[name], expected, rtol=2e-4, atol=2e-3)
    assert int(found.failures) == 0


def test_steps_are_what_they_were():
    """To the last bit: see test_fingerprints.py."""
    compare("JAX", fingerprints_engines.cases()["JAX"])


def test_the_estimate_is_unbiased_and_a_missing_factor_would_be_seen():
    grads = jax.vmap(
        lambda step: gs.jax.gradient(quadratic, num_directions=4, estimator="antithetic", seed=1)(
            PARAMS, step=step
        )
    )(jnp.arange(4000))
    for name, true in TRUE.items():
        draws = np.asarray(grads[name], np.float64)
        z = (draws.mean(0) - true) / (draws.std(0) / 4000**0.5)
        assert np.abs(z).max() < 4.5
        wrong = (draws.mean(0) / 4 - true) / (draws.std(0) / 4 / 4000**0.5)  # 1/L twice
        assert np.abs(wrong).max() > 10


def test_a_parameter_has_its_direction_whatever_stands_beside_it():
    alone = gs.jax.gradient(lambda p: jnp.sum(p["w"] * 2.0), num_directions=1, seed=2)
    more = gs.jax.gradient(lambda p: jnp.sum(p["w"] * 2.0), num_directions=1, seed=2)
    one = alone({"w": jnp.ones(70)})["w"]
    other = more({"a": jnp.ones((3, 3)), "w": jnp.ones(70), "z": jnp.ones(4)})["w"]
    assert np.array_equal(np.sign(one), np.sign(other))
    two = more({"w": jnp.ones(70), "v": jnp.ones(70)})
    assert not np.array_equal(np.sign(two["w"]), np.sign(two["v"]))  # equal shapes, not equal noise


def test_batches_of_directions_change_no_direction():
    choices = [
        EstimateChoices(num_directions=6, spacing=0.1, seed=4, batch_size=size)
        for size in (None, 2, 6)
    ]
    found = [estimate(quadratic, PARAMS, step=3, choices=each) for each in choices]
    for other in found[1:]:
        for name in PARAMS:
            np.testing.assert_allclose(other.gradient[name], found[0].gradient[name], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_points_are_rounded_once_from_the_sum_in_single_precision(dtype: str):
    w = jnp.asarray(np.linspace(-3, 3, 100), dtype)
    seen: list[Any] = []

    def record(p: Any) -> Any:
        seen.append(p)
        return p.astype(jnp.float32).sum()

    with jax.disable_jit():
        gs.jax.gradient(record, num_directions=1, spacing=1e-2, seed=0)(w)
    stream = Stream(named_seed(0, ""), choose_law("bes", 100, 1))
    eps = np.asarray(entries(stream, StreamPlace(0, 0), (100,)))
    expected = jnp.asarray(np.asarray(w, np.float32) + np.float32(1e-2) * eps).astype(dtype)
    assert seen[0].dtype == w.dtype
    assert np.array_equal(np.asarray(seen[0], np.float32), np.asarray(expected, np.float32))


def test_a_chain_with_optax_descends_inside_jit_and_can_stop_and_go_on():
    tx = optax.chain(gs.jax.zeroth_order(num_directions=8, seed=3), optax.adam(0.05))

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = tx.update(None, state, params, obj_fn=quadratic)
        return optax.apply_updates(params, updates), state

    def run(params: Any, state: Any, number: int) -> Any:
        for _ in range(number):
            params, state = step(params, state)
        return params, state

    start = jax.tree.map(jnp.asarray, PARAMS)
    params, state = run(start, tx.init(start), 300)
    assert quadratic(params) < 1e-2 * quadratic(start)
    assert int(state[0].step) == 300
    assert float(state[0].value) == pytest.approx(float(quadratic(params)), abs=0.5)
    half = run(start, tx.init(start), 120)
    stored = jax.tree.map(np.asarray, half)  # through plain arrays
    again, _ = run(*jax.tree.map(jnp.asarray, stored), 180)
    for name in params:
        assert np.asarray(again[name]).tobytes() == np.asarray(params[name]).tobytes()


def test_a_learning_rate_makes_it_a_method_by_itself():
    alone = gs.jax.zeroth_order(0.1, num_directions=3, seed=1)
    bare = gs.jax.zeroth_order(num_directions=3, seed=1)
    start = jax.tree.map(jnp.asarray, PARAMS)
    moves, _ = alone.update(None, alone.init(start), start, obj_fn=quadratic)
    slope, _ = bare.update(None, bare.init(start), start, obj_fn=quadratic)
    for name in moves:
        np.testing.assert_allclose(moves[name], -0.1 * slope[name], rtol=1e-6)


def test_values_that_are_not_finite_are_left_out_and_counted():
    def sometimes(params: Any) -> Any:
        return jnp.where(params["b"] > 0.5, jnp.nan, quadratic(params))

    choices = EstimateChoices(num_directions=40, spacing=0.1, estimator="antithetic")
    found = estimate(sometimes, PARAMS, step=0, choices=choices)
    assert int(found.failures) == 40  # one side of every pair
    assert not np.asarray(found.gradient["w"]).any()
    choices = EstimateChoices(num_directions=40, spacing=0.1)
    forward = estimate(sometimes, PARAMS, step=0, choices=choices)
    assert 5 < int(forward.failures) < 35
    assert np.isfinite(forward.gradient["w"]).all()
    # Weighted by how many are left, so that the estimate keeps its size.
    np.testing.assert_allclose(forward.gradient["w"].mean(), TRUE["w"].mean(), rtol=0.6)


def test_float64_is_summed_in_float64():
    with jax.enable_x64(True):
        w = jnp.asarray(np.linspace(-1, 1, 50))
        found = gs.jax.gradient(lambda p: jnp.sum(p * 3.0), num_directions=1, spacing=1e-4, seed=0)(
            w
        )
        eps = np.asarray(
            entries(Stream(named_seed(0, ""), choose_law("bes", 50, 1)), StreamPlace(0, 0), (50,))
        )
        np.testing.assert_allclose(found, 3.0 * eps.sum() * eps, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gs.jax.gradient(quadratic, num_directions=0), ValueError, "num_directions"),
        (lambda: gs.jax.gradient(quadratic, spacing=-1.0), ValueError, "spacing"),
        (lambda: gs.jax.gradient(quadratic, estimator="both"), ValueError, "estimator"),
        (
            lambda: gs.jax.gradient(quadratic, method="guided-es")(PARAMS),
            ValueError,
            "`method` must be one of 'bes'",
        ),
        (
            lambda: gs.jax.gradient(quadratic, directions="gs")(PARAMS),
            TypeError,
            "method='gs'",
        ),
        (lambda: gs.jax.gradient(quadratic, estimator="ranked"), ValueError, "in JAX"),
        (lambda: gs.jax.zeroth_order(lr=0.1), TypeError, "use `learning_rate`"),
        (
            lambda: gs.jax.gradient(quadratic, directions=gs.Guided())(PARAMS),
            ValueError,
            "independent",
        ),
        (lambda: gs.jax.gradient(3), TypeError, "fun"),
        (lambda: gs.jax.gradient(lambda p: p)(jnp.ones(3)), TypeError, "scalar"),
        (lambda: gs.jax.gradient(lambda p: p)({"n": jnp.arange(3)}), TypeError, "'n' has dtype"),
        (lambda: gs.jax.gradient(quadratic)({}), ValueError, "at least one"),
        (lambda: gs.jax.zeroth_order(-1.0), ValueError, "learning_rate"),
        (lambda: _update(params=None, obj_fn=quadratic), ValueError, "params"),
        (lambda: _update(params=PARAMS), ValueError, "obj_fn"),
        (lambda: _update(params=PARAMS, obj_fn=3), TypeError, "obj_fn"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call()


def _update(params: Any, **extra: Any) -> Any:
    tx = gs.jax.zeroth_order(seed=0)
    return tx.update(None, tx.init(PARAMS), params, **extra)
