"""The algorithms of the literature: their equations, and what they share with every search.

Each is compared with a literal transcription of what was published (``algorithms_literal``), which
is fed with the same directions and values.
"""

import json
import math
import pickle
from types import SimpleNamespace

import cmaes
import numpy as np
import pytest

import algorithms_literal as literal
import gensmooth as gs
from gensmooth import streams
from gensmooth.directions import Address, normals, signs
from gensmooth.searches import algorithms
from gensmooth.searches.algorithms import ars, cma, openai_es, xnes

X0 = np.array([0.5, -1.0, 2.0, 0.25, 1.5, -0.75])
CENTER = np.array([1.0, 2.0, -1.0, 0.5, 0.0, 3.0])
D = X0.size
NAMES = algorithms.names()
POPULATIONS = [n for n in algorithms.POPULATIONS if not algorithms.ALGORITHMS[n].train_only]
# STARS goes by numbers of the objective, which its user has to know.
NEEDED = {"stars": {"noise": 0.01, "learning_rate": gs.theory.stars_step(D, smoothness=13.0)}}


def named(name):
    """A method, and what it cannot do without."""
    return {"method": name, **NEEDED.get(name, {})}


def bowl(x):
    return float(((x - CENTER) ** 2 * np.arange(1, 1 + x.size)).sum() + np.cos(x).sum())


def steps(search, number, fun=bowl, x0=X0, seed=3):
    """States before and after each step, with its batch and values."""
    state = search.init(x0, seed=seed)
    for _ in range(number):
        batch = search.ask(state)
        values = np.array([fun(x) for x in batch.points()])
        after, info = search.tell(state, batch, values)
        yield state, after, values, info
        state = after


def normal_rows(state, number):
    return normals(Address(state.seed, state.step, number, state.x.size, np.dtype(float))).block()


# --- their equations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "b"), [("ars-v1", 8), ("ars-v1-t", 4), ("ars", 4)], ids=["v1", "v1-t", "ars"]
)
def test_ars_is_algorithm_2(name, b):
    for state, after, values, _ in steps(gs.search(name, X0), 6):
        plus, minus = values.reshape(-1, 2).T
        delta = normal_rows(state, ars.DIRECTIONS)
        expected = literal.ars(state.x, delta, plus, minus, alpha=ars.STEP, b=b)
        assert np.allclose(after.x, expected, rtol=1e-12, atol=0)
        wrong = literal.ars(state.x, delta, plus, minus, alpha=ars.STEP, b=b - 1)
        assert not np.allclose(after.x, wrong, rtol=1e-6, atol=0)


def test_ars_takes_its_numbers_from_the_user():
    search = gs.search("ars-v1-t", X0, num_directions=5, spacing=0.2, learning_rate=0.5)
    assert (search.num_directions, search.spacing, search.estimator) == (5, 0.2, gs.BestPairs(3))
    state, after, values, _ = next(steps(search, 1))
    expected = literal.ars(state.x, normal_rows(state, 5), *values.reshape(-1, 2).T, alpha=0.5, b=3)
    assert np.allclose(after.x, expected, rtol=1e-12, atol=0)


def test_openai_es_is_its_program():
    number = 7
    search = gs.search("openai-es", X0, num_directions=number)
    theirs = literal.OpenAI(D, stepsize=openai_es.STEP, l2coeff=openai_es.DECAY)
    without = literal.OpenAI(D, stepsize=openai_es.STEP, l2coeff=0.0)
    for state, after, values, _ in steps(search, 8):
        noise = normal_rows(state, number)
        given = (state.x, noise, *values.reshape(-1, 2).T)
        assert np.allclose(after.x, theirs.step(*given), rtol=1e-11, atol=0)
        far = without.step(*given)
    assert not np.allclose(after.x, far, rtol=1e-6, atol=0)  # the decay counts


@pytest.mark.parametrize("name", ["spsa", "spsa-1"])
def test_spsa_is_spalls(name):
    a, c = 0.02 if name == "spsa" else 1e-4, 0.3
    search = gs.search(name, X0, learning_rate=a, spacing=c, budget=200)
    A = 0.1 * (100 if name == "spsa" else 200)
    for state, after, values, _ in steps(search, 20):
        at = Address(state.seed, state.step, 1, D, np.dtype(float))
        delta = signs(at).block()[0]
        expected = literal.spsa(state.x, delta, values.tolist(), state.step, a=a, c=c, A=A)
        assert np.allclose(after.x, expected, rtol=1e-12, atol=0)
    wrong = literal.spsa(state.x, delta, values.tolist(), state.step, a=a, c=c, A=0)
    assert not np.allclose(after.x, wrong, rtol=1e-6, atol=0)


def test_spsa_is_bes_with_one_direction():
    """With gains that do not change, to the last bit; with Spall's, in the first step."""
    bes = gs.RandomSearch(
        method="bes", num_directions=1, spacing=0.3, estimator=gs.Antithetic(),
        optimizer=gs.sgd(0.01),
    )  # fmt: skip
    constant = gs.search(
        "spsa", X0, spacing=gs.inverse_decay(0.3, power=0.0), optimizer=gs.sgd(0.01)
    )
    for ours, theirs in zip(steps(bes, 30), steps(constant, 30), strict=True):
        assert np.array_equal(ours[1].x, theirs[1].x)
        assert np.array_equal(ours[2], theirs[2])
    gains = gs.search("spsa", X0, spacing=0.3, optimizer=gs.sgd(0.01))
    pairs = list(zip(steps(bes, 2), steps(gains, 2), strict=True))
    assert np.array_equal(pairs[0][0][1].x, pairs[0][1][1].x)
    assert not np.array_equal(pairs[1][0][1].x, pairs[1][1][1].x)
    one = gs.RandomSearch(method="bes", num_directions=1, spacing=0.3, estimator=gs.OnePoint())
    assert gs.search("spsa-1", X0).estimator == one.estimator
    assert gs.search("spsa-1", X0).directions == one.directions


def test_spalls_gain_changes_a_parameter_by_the_wanted_amount_in_the_first_step():
    search = gs.search("spsa", X0, budget=1000)
    _, after, _, _ = next(steps(search, 1))
    assert np.allclose(np.abs(after.x - X0), 0.1)
    state = gs.spall(0.1, stability=9.0).init(X0)
    optimizer = gs.spall(0.1, stability=9.0)
    sizes = []
    for k in range(12):
        change, state = optimizer.update(np.full(D, 2.0 + k), state, X0)
        sizes.append(abs(change[0]) / (2.0 + k) * (10 + k) ** 0.602)  # a
    means = [np.mean(2.0 + np.arange(min(k, 9) + 1)) for k in range(12)]
    assert np.allclose(sizes, 0.1 * 10**0.602 / np.array(means))


def test_snes_is_algorithm_6():
    search = gs.search("snes", X0)
    number = 4 + int(3 * math.log(D))
    assert search.next_evaluations(search.init(X0)) == number
    for state, after, values, _ in steps(search, 10):
        sigma = state.sent.sigma
        mean, scale = literal.snes(state.x, sigma, normal_rows(state, number), values)
        assert np.allclose(after.x, mean, rtol=1e-11, atol=1e-13)
        assert np.allclose(after.sent.sigma, scale, rtol=1e-12, atol=0)
    wrong, _ = literal.snes(state.x, sigma, -normal_rows(state, number), values)
    assert not np.allclose(after.x, wrong, rtol=1e-6, atol=0)


def test_snes_in_float32_is_the_same_to_its_precision():
    small = gs.search("snes", X0.astype(np.float32))
    for state, after, values, _ in steps(small, 5, x0=X0.astype(np.float32)):
        at = Address(state.seed, state.step, len(values), D, np.dtype(np.float32))
        s = normals(at).block().astype(float)
        mean, scale = literal.snes(state.x.astype(float), state.sent.sigma, s, values)
        assert after.x.dtype == np.float32
        assert np.allclose(after.x, mean, rtol=1e-4, atol=1e-6)
        assert np.allclose(after.sent.sigma, scale, rtol=1e-5, atol=0)


@pytest.mark.parametrize("number", [None, 30])
def test_xnes_is_algorithm_5(number):
    search = gs.search("xnes", X0, population=number, x_scale=[1, 2, 3, 1, 1, 0.5])
    for state, after, values, _ in steps(search, 10):
        sigma, B = state.kept
        s = normal_rows(state, len(values))
        mean, scale, shape = literal.xnes(state.x, sigma, B, s, values)
        assert np.allclose(after.x, mean, rtol=1e-11, atol=1e-13)
        assert math.isclose(after.kept.sigma, scale, rel_tol=1e-12)
        assert np.allclose(after.kept.B, shape, rtol=1e-11, atol=1e-13)
    assert math.isclose(float(np.linalg.det(after.kept.B)), 1.0, rel_tol=1e-9)


@pytest.mark.parametrize("size", [1e-8, 0.3, 5.0, 60.0])
def test_phi_is_that_of_the_exponential(size):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    K = size * (A + A.T) / np.abs(A + A.T).sum(axis=1).max()
    values, vectors = np.linalg.eigh(K)
    expected = (vectors * np.expm1(values) / values) @ vectors.T
    assert np.allclose(xnes.phi(K), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    assert np.array_equal(xnes.phi(np.zeros((3, 3))), np.eye(3))


def test_cma_es_is_the_package_itself():
    """An object of the package that lives through the run sees the same points and values."""
    search = gs.search("cma-es", X0, spacing=0.7, x_scale=1.0)
    theirs = cmaes.CMA(mean=X0.copy(), sigma=0.7, population_size=4 + int(3 * math.log(D)))
    for state, after, values, _ in steps(search, 25):
        bits = streams.generator(state.seed, streams.Purpose.DIRECTION, step=state.step)
        theirs._rng = cma._Normals(
            np.random.RandomState(bits.bit_generator), theirs._eigen_decomposition()[0]
        )
        points = [theirs.ask() for _ in values]
        block = search.ask(state).block(0, len(values))
        assert np.allclose(block, points, rtol=1e-9, atol=1e-10)
        theirs.tell([(point, bowl(point)) for point in points])
        assert np.allclose(after.x, theirs._mean, rtol=1e-8, atol=1e-9)
        assert math.isclose(after.kept.sigma, theirs._sigma, rel_tol=1e-8)
        assert after.kept.generation == theirs.generation
    assert np.allclose(after.kept.C, theirs._C, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("draws", ["ours", "the package's"])
def test_points_of_cma_es_do_not_depend_on_the_choice_of_eigenvectors(draws, monkeypatch):
    """LAPACK chooses signs, and bases of eigenspaces; points are C^½ z whatever it chooses.

    The twin shows that the package's own draws B D z do depend on the choice.
    """
    if draws != "ours":
        monkeypatch.setattr(cma, "_Normals", lambda source, _: source)
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0]  # of the eigenspace of 2
    D2 = np.array([0.5, 2.0, 2.0, 2.0, 3.0, 7.0])
    other = basis.copy()
    other[:, 1:4] = basis[:, 1:4] @ turned
    other[:, 4] *= -1
    C = (basis * D2) @ basis.T
    search, zero = cma.CMAES(population=8), np.zeros(D)
    first = cma.Covariance(np.ones(D), zero, 0.5, C, zero, zero, 4, basis, np.sqrt(D2))
    blocks = [
        search._displacements(first._replace(B=B), zero, zero, 3, 4).block for B in (basis, other)
    ]
    bits = streams.generator(3, streams.Purpose.DIRECTION, step=4).bit_generator
    z = np.random.RandomState(bits).randn(8, D)
    expected = 0.5 * z @ ((basis * np.sqrt(D2)) @ basis.T)
    for block in blocks:
        assert np.allclose(block, expected, rtol=1e-12, atol=1e-12) == (draws == "ours")
    assert np.allclose(*blocks, rtol=1e-12, atol=1e-12) == (draws == "ours")


# --- what every search does ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_ask_and_tell_are_pure_and_equal_minimize(name):
    result = gs.minimize(bowl, X0, **named(name), budget=400, seed=5)
    search = gs.search(name, X0, budget=400, **NEEDED.get(name, {}))
    state = search.init(X0, seed=5)
    infos = []
    while state.evaluations + search.next_evaluations(state) + 1 <= 400:
        batch, again = search.ask(state), search.ask(state)
        block = batch.block(0, len(batch))
        assert np.array_equal(block, again.block(0, len(batch)))
        values = np.array([bowl(x) for x in batch.points()])
        kept = pickle.dumps((state.x, tuple(state.sent), state.kept, values))
        after, info = search.tell(state, batch, values)
        same, _ = search.tell(state, again, values)
        assert pickle.dumps((state.x, tuple(state.sent), state.kept, values)) == kept
        assert np.array_equal(after.x, same.x)
        state = after
        infos.append(info.value)
    assert np.array_equal(result.x, state.x)
    assert result.history.value.tolist() == infos
    assert result.nfev == state.evaluations + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_uninterrupted_one(name, tmp_path):
    given = {**named(name), "budget": 400, "seed": 5, "bounds": (-2.0, 2.5)}
    whole = gs.minimize(bowl, X0, **given)
    part = gs.minimize(bowl, X0, **given, folder=tmp_path, callback=lambda now: now.info.step == 3)
    assert part.nit == 4 < whole.nit
    found = gs.resume(tmp_path, bowl)
    assert np.array_equal(found.x, whole.x)
    assert found.history.value.tolist() == whole.history.value.tolist()
    assert (found.fun, found.nfev, found.nit) == (whole.fun, whole.nfev, whole.nit)
    described = json.loads((tmp_path / "config.json").read_text())["search"]
    assert ("method" in described) == (name in POPULATIONS)
    more = gs.resume(tmp_path, bowl, budget=600)
    assert more.nfev > whole.nfev


def test_workers_change_nothing():
    with gs.evaluators.Processes(2) as workers:
        for name in ("spsa", "snes", "cma-es"):  # a spacing, deviations and points to be sent
            alone = gs.minimize(bowl, X0, **named(name), budget=120, seed=5)
            both = gs.minimize(bowl, X0, **named(name), budget=120, seed=5, workers=workers)
            assert np.array_equal(alone.x, both.x), name


@pytest.mark.parametrize("name", NAMES)
def test_they_find_a_minimum_from_their_own_numbers(name):
    budget = 20_000 if name in ("spsa-1", "openai-es") else 4000
    result = gs.minimize(lambda x: float(((x - CENTER) ** 2).sum()), X0, **named(name),
                         budget=budget, seed=2)  # fmt: skip
    start = float(((X0 - CENTER) ** 2).sum())
    assert result.success
    assert result.fun < (0.7 if name == "spsa-1" else 0.05) * start


@pytest.mark.parametrize("name", NAMES)
def test_maximizing_is_minimizing_the_negative(name):
    if name == "spsa-1":
        one = gs.minimize(bowl, X0, **named(name), budget=100, seed=4)
        other = gs.minimize(
            lambda x: -bowl(x), X0, **named(name), budget=100, seed=4, maximize=True
        )
        assert np.array_equal(one.x, other.x)
        return
    one = gs.minimize(bowl, X0, **named(name), budget=200, seed=4)
    other = gs.minimize(lambda x: -bowl(x), X0, **named(name), budget=200, seed=4, maximize=True)
    assert np.array_equal(one.x, other.x)
    assert one.fun == -other.fun


@pytest.mark.parametrize("name", ["ars", "openai-es", *POPULATIONS])
def test_ranks_and_deviations_do_not_see_the_objectives_units(name):
    one = gs.minimize(bowl, X0, **named(name), budget=200, seed=4)
    other = gs.minimize(lambda x: 1024 * bowl(x), X0, **named(name), budget=200, seed=4)
    assert np.array_equal(one.x, other.x)


@pytest.mark.parametrize("name", NAMES)
def test_points_and_iterates_stay_inside_bounds(name):
    def inside(x):
        assert (x >= -1).all()
        assert (x <= 1.25).all()
        return bowl(x)

    result = gs.minimize(inside, X0, **named(name), budget=400, bounds=(-1, 1.25), seed=0)
    assert ((result.x >= -1) & (result.x <= 1.25)).all()


@pytest.mark.parametrize("name", NAMES)
def test_failures_are_dropped_or_raised(name):
    calls = iter(range(10**6))

    def sometimes(x):
        return math.nan if next(calls) % 7 == 5 else bowl(x)

    one_direction = name.startswith(("spsa", "stars"))
    number = 6 if one_direction else None
    result = gs.minimize(
        sometimes, X0, **named(name), num_directions=number, budget=300, on_failure="drop",
        min_fraction=0.3, seed=0,
    )  # fmt: skip
    assert result.dropped > 0
    assert np.isfinite(result.x).all()
    with pytest.raises(gs.EvaluationError, match="nan"):
        gs.minimize(lambda _: math.nan, X0, **named(name), seed=0)
    with pytest.raises((ValueError, gs.EvaluationError), match="finite"):
        gs.minimize(lambda _: math.nan, X0, **named(name), on_failure="drop", seed=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("samples", ["shared", "independent"])
def test_noisy_objectives_are_sampled(name, samples):
    def noisy(x, rng):
        return bowl(x) + rng.normal()

    given = {**named(name), "samples": samples, "num_samples": 2, "budget": 300, "seed": 1}
    one, same = gs.minimize(noisy, X0, **given), gs.minimize(noisy, X0, **given)
    assert np.array_equal(one.x, same.x)
    assert one.nfev <= 300


@pytest.mark.parametrize("name", POPULATIONS)
def test_any_shape_dtype_and_size(name):
    x0 = np.full((2, 3), 0.5, np.float32)
    result = gs.minimize(lambda x: float((x**2).sum()), x0, **named(name), budget=500, seed=0)
    assert result.x.shape == (2, 3)
    assert result.x.dtype == np.float32
    assert result.fun < 0.1
    one = gs.minimize(lambda x: float((x**2).sum()), [3.0], **named(name), budget=800, seed=0)
    assert abs(one.x[0]) < 0.1
    flat = gs.minimize(lambda _: 1.0, X0, **named(name), budget=300, seed=0)
    assert np.array_equal(flat.x, X0) or name == "cma-es"


@pytest.mark.parametrize("name", POPULATIONS)
def test_log_scales_and_units(name):
    target = np.array([1e-4, 1e3])

    def fun(x):
        assert (x > 0).all()
        return float((np.log(x / target) ** 2).sum())

    result = gs.minimize(fun, [1.0, 1.0], **named(name), log_scale=True, budget=3000, seed=0)
    assert np.allclose(np.log(result.x / target), 0, atol=0.1)
    units = gs.search(name, X0, x_scale=np.arange(1.0, 7.0), spacing=0.5)
    state = units.init(X0, seed=0)
    blocks = [
        np.abs(units.ask(state._replace(step=k)).block(0, units.population) - X0)
        for k in range(1 if name != "snes" else 200)
    ]
    if name == "snes":
        assert np.allclose(state.sent.sigma, 0.5 * np.arange(1, 7))
        assert np.allclose(np.mean(blocks, axis=(0, 1)) / np.arange(1, 7), 0.4, rtol=0.1)


def test_snes_searches_a_million_parameters():
    search = gs.search("snes", np.zeros(1_000_000, np.float32), population=4)
    state = search.init(np.zeros(1_000_000, np.float32), seed=0)
    batch = search.ask(state)
    state, info = search.tell(state, batch, [float((x - 1).sum() ** 2) for x in batch.points()])
    assert info.diverged is None
    assert state.x.shape == (1_000_000,)


def test_threads_change_nothing():
    x0 = np.zeros(3_000_000, np.float32)
    found = []
    for threads in (1, 3):
        search = gs.search("snes", x0, population=4, threads=threads)
        state = search.init(x0, seed=1)
        batch = search.ask(state)
        point = batch.point(2)
        state, _ = search.tell(state, batch, [3.0, 1.0, 2.0, 0.0])
        found.append((point, state.x, state.sent.sigma))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


# --- the parts -----------------------------------------------------------------------------------


def test_best_pairs_and_centered_ranks_leave_out_what_failed():
    values = np.array([3.0, 1.0, np.nan, 5.0, 2.0, 4.0])
    for estimator in (gs.BestPairs(), gs.BestPairs(1), gs.CenteredRanks()):
        delta, _ = estimator.differences(values, 3, None)
        alone, _ = estimator.differences(values[[0, 1, 4, 5]], 2, None)
        assert np.isnan(delta[1])
        assert np.array_equal(delta[[0, 2]], alone)
    flat, _ = gs.BestPairs().differences(np.ones(4), 2, None)
    assert np.array_equal(flat, np.zeros(2))


def test_weight_decay_is_the_gradient_of_a_ridge():
    plain, decayed = gs.momentum(0.1), gs.weight_decay(gs.momentum(0.1), 0.5)
    g, x = np.ones(D), X0
    one, _ = plain.update(g + 0.5 * x, plain.init(x), x)
    other, state = decayed.update(g, decayed.init(x), x)
    assert np.array_equal(one, other)
    assert isinstance(state, gs.optimizers.MomentumState)
    with pytest.raises(TypeError, match="pair"):
        gs.weight_decay(0.1, 0.5)
    with pytest.raises(ValueError, match="decay"):
        gs.weight_decay(gs.sgd(0.1), -1)


def test_a_spacing_that_changes_is_used_in_each_step():
    schedule = gs.inverse_decay(0.4, power=0.5)
    search = gs.RandomSearch(method="bes", num_directions=3, spacing=schedule)
    for state, _, _, _ in steps(search, 4):
        batch = search.ask(state)
        apart = np.abs(batch.block(1, 4) - state.x)
        assert np.allclose(apart, 0.4 / math.sqrt(state.step + 1))
        fixed = gs.RandomSearch(method="bes", num_directions=3, spacing=schedule(state.step))
        values = [bowl(x) for x in batch.points()]
        ours = search.estimate(batch, values).gradient
        assert np.array_equal(ours, fixed.estimate(fixed.ask(state), values).gradient)


def test_a_run_with_a_spacing_that_changes_resumes(tmp_path):
    given = {"method": "gs", "spacing": gs.exponential_decay(0.5, rate=0.5, steps=10), "seed": 1}
    whole = gs.minimize(bowl, X0, budget=300, **given)
    gs.minimize(bowl, X0, budget=300, **given, folder=tmp_path / "a",
                callback=lambda now: now.info.step == 5)  # fmt: skip
    assert np.array_equal(gs.resume(tmp_path / "a", bowl).x, whole.x)
    given["spacing"] = lambda step: 0.5 * 0.9**step
    gs.minimize(bowl, X0, budget=300, **given, folder=tmp_path / "b",
                callback=lambda now: now.info.step == 5)  # fmt: skip
    with pytest.raises(gs.CheckpointError, match="custom function"):
        gs.resume(tmp_path / "b", bowl)


# --- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "ars-v2"}, "ars-v1.*train"),
        ({"method": "snss"}, "Did you mean 'snes'"),
        ({"method": "snes", "estimator": gs.Antithetic()}, "estimator.*snes"),
        ({"method": "snes", "optimizer": gs.sgd(0.1)}, "`learning_rate` is that of its mean"),
        ({"method": "snes", "directions": gs.Gaussian()}, "directions"),
        ({"method": "cma-es", "learning_rate": 0.1}, "its own steps"),
        ({"method": "cma-es", "population": 3}, "at least 4"),
        ({"method": "cma-es", "noise": 0.1}, "'auto'"),
        ({"method": "ars", "noise": 0.1}, "'auto'"),
        ({"method": "ars", "x_scale": [2.0, 1.0]}, "one number.*'snes'"),
        ({"method": "bes", "x_scale": [2.0, 1.0]}, "one number.*'snes'"),
        ({"method": "bes", "x_scale": 2.0, "spacing": gs.inverse_decay(0.1)}, "schedule"),
        ({"method": "ars", "spacing": gs.inverse_decay(0.1)}, "'spsa'"),
        ({"method": "ars", "estimator": gs.BestPairs(9)}, "needs at least 9 directions"),
        ({"method": "ars", "learning_rate": -1.0}, "positive"),
        ({"method": "openai-es", "spacing": 0.0}, "positive"),
        ({"method": "snes", "population": 1}, "at least 2"),
        ({"method": "snes", "budget": 5}, "budget"),
        ({"spacing": lambda _: -1.0}, "positive"),
        ({"spacing": lambda: 1.0}, "schedule"),
    ],
)
def test_what_cannot_be_is_said_at_the_call(given, words):
    with pytest.raises(ValueError, match=words):
        gs.minimize(bowl, X0, **given)


@pytest.mark.parametrize("name", ["xnes", "cma-es"])
def test_too_many_parameters_are_refused_with_what_takes_them(name):
    with pytest.raises(ValueError, match=r"2,000.*2,001.*'snes'"):
        gs.minimize(bowl, np.zeros(2001), **named(name))


def test_a_missing_or_unknown_package_is_said(monkeypatch):
    def missing(_):
        raise ImportError

    monkeypatch.setattr(cma, "import_module", missing)
    with pytest.raises(ImportError, match=r"gensmooth\[cma\].*'xnes'"):
        gs.minimize(bowl, X0, method="cma-es")
    for version in ("0.12.0", "0.14.1", "1.0"):
        other = SimpleNamespace(__version__=version, CMA=cmaes.CMA)
        monkeypatch.setattr(cma, "import_module", lambda _, other=other: other)
        with pytest.raises(ImportError, match=f"{version} is installed"):
            gs.minimize(bowl, X0, method="cma-es")

    class Changed:
        def __init__(self, **_):
            self.mean = 0

    other = SimpleNamespace(__version__=cmaes.__version__, CMA=Changed)
    monkeypatch.setattr(cma, "import_module", lambda _: other)
    with pytest.raises(ImportError, match="needs cmaes>="):
        gs.minimize(bowl, X0, method="cma-es")


def test_names_are_one_list():
    assert not set(algorithms.ALGORITHMS) & set(gs.directions.METHODS)
    assert "ars-v2" not in algorithms.names()
    assert "ars-v2" in algorithms.names(training=True)
    assert gs.methods() == ["auto", *gs.directions.METHODS, *algorithms.names(training=True)]
    assert isinstance(gs.search("auto", X0), gs.Pilot)
    assert gs.search("bes", X0).directions == gs.Bernoulli()
    with pytest.raises(ValueError, match=r"'auto' does not name directions. Known: .*gs.search\("):
        gs.RandomSearch(method="auto", num_directions=3, spacing=0.1)
    with pytest.raises(ValueError, match="Did you mean 'spsa'"):
        gs.search("spas", X0)
    rows = {row["method"]: row for row in algorithms.rows(dim=50)}
    assert rows["spsa"]["relative_mse"] == 49.0
    assert rows["snes"]["relative_mse"] is None
    assert all(row["source"] for row in rows.values())


@pytest.mark.parametrize("name", POPULATIONS)
def test_a_damaged_state_is_refused(name):
    search = gs.search(name, X0)
    state = search.init(X0, seed=0)
    arrays = search.wire.pack(state.sent)
    again = search.wire.unpack(arrays, D, X0.dtype)
    assert all(np.array_equal(a, b) for a, b in zip(again, state.sent, strict=True))
    (key,) = arrays
    for wrong in (arrays[key][:-1], arrays[key] * np.nan, arrays[key].astype(np.float32)):
        with pytest.raises(ValueError, match="not a valid state"):
            search.wire.unpack({key: wrong}, D, X0.dtype)
    with pytest.raises(ValueError, match="must have"):
        search.wire.unpack({"other": arrays[key]}, D, X0.dtype)


def test_a_batch_is_told_once_and_whole():
    search = gs.SNES()
    state = search.init(X0, seed=0)
    batch = search.ask(state)
    values = [bowl(x) for x in batch.points()]
    after, _ = search.tell(state, batch, values)
    with pytest.raises(ValueError, match="to `tell` once"):
        search.tell(after, batch, values)
    with pytest.raises(ValueError, match="needs"):
        search.tell(state, batch, values[:-1])
    with pytest.raises(ValueError, match="nan"):
        search.tell(state, batch, [*values[:-1], math.nan])
