"""The noisy benchmark: compiled functions and runs against plain NumPy and random search."""

import math

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
from cases import FAMILIES
from gensmooth.lab.paper import protocol
from gensmooth.lab.paper.dfo import kernels as noisy_kernels
from gensmooth.problems import noisy
from gensmooth.streams import Purpose, generator

NAMES = list(noisy.FUNCTIONS)
SETTING = {"spacing": 0.2, "learning_rate": 1e-3, "seed": 31, "num_directions": 4, "dim": 6}
SHORT = {**SETTING, "rounds": 3, "iterations": 5}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [2, 3, 10, 101])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_compiled_functions_equal_numpy(name, dim, scale):
    points = scale * np.random.default_rng(dim).standard_normal((40, dim))
    found = np.empty(40)
    noisy_kernels.values(NAMES.index(name), points, found)
    np.testing.assert_allclose(found, noisy.FUNCTIONS[name](points), rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_functions_take_points_along_the_last_axis(name):
    f = noisy.FUNCTIONS[name]
    points = np.random.default_rng(1).standard_normal((3, 4, 5))
    assert f(points).shape == (3, 4)
    assert f(points)[1, 2] == pytest.approx(f(points[1, 2]), rel=1e-14)


def test_minima():
    for name, where in (("sphere", 0.0), ("cigar", 0.0), ("rosenbrock", 1.0), ("hm", 0.0)):
        x, value = np.full((1, 8), where), np.empty(1)
        noisy_kernels.values(NAMES.index(name), x, value)
        assert noisy.FUNCTIONS[name](x[0]) == value[0] == 0.0


@pytest.mark.parametrize("tiny", [0.0, -0.0, 5e-324, -1e-200, 1e-151])
def test_hm_has_its_limit_at_zero(tiny):
    x = np.array([[tiny, 0.5, -tiny]])
    value = np.empty(1)
    noisy_kernels.values(NAMES.index("hm"), x, value)
    expected = 0.25 * (1.1 + math.cos(2.0))
    assert value[0] == pytest.approx(expected, rel=1e-14)
    assert noisy.hm(x)[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("scale", [1e-5, 1e-7, 1e-9, 1e-20, 1e-100])
def test_hm_near_zero_is_as_good_as_its_argument(scale):
    # 1/x has a rounding error of |1/x| 2^-53, which moves the cosine by as much.
    x = scale * np.random.default_rng(3).uniform(1, 2, (20, 50))
    found = np.empty(20)
    noisy_kernels.values(NAMES.index("hm"), x, found)
    error = np.abs(found - noisy.hm(x)) / (x**2).sum(axis=1)
    assert error.max() <= min(2.0, 1e-14 + 2.0**-52 / scale)


def _random_search(name, directions, *, num_samples=1, noise_level=0.1, **changed):
    """The same protocol by `ask` and `tell`, on the noise that a run draws."""
    setting = {**SHORT, **changed}
    dim, seed = setting["dim"], setting["seed"]
    f = noisy.FUNCTIONS[name]
    search = gs.RandomSearch(
        directions,
        num_directions=setting["num_directions"],
        spacing=setting["spacing"],
        optimizer=gs.sgd(setting["learning_rate"]),
        samples="independent",
        num_samples=num_samples,
    )
    state = search.init(generator(seed, Purpose.START).standard_normal(dim), seed=seed)
    values = []
    for _ in range(setting["rounds"]):
        for _ in range(setting["iterations"]):
            batch = search.ask(state)
            noise = [
                noisy.evaluation_noise(i, seed=seed, step=state.step, dim=dim)
                for i in range(len(batch))
            ]
            told = [
                f(x) + noise_level * n[-1] * (f(x + n[:-1]) - f(x))
                for x, n in zip(batch.points(), noise, strict=True)
            ]
            state, _ = search.tell(state, batch, told)
        values.append(f(state.x))
    return values, state.evaluations


def _check(name, directions, **changed):
    found = noisy.run(name, directions, **{**SHORT, **changed})
    values, evaluations = _random_search(name, directions, **changed)
    np.testing.assert_allclose(found.series["objective"], values, rtol=1e-8)
    assert found.evaluations[-1] == evaluations
    assert found.final == found.series["objective"][-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_random_search_on_the_same_noise(name):
    rate = 1e-9 if name == "cigar" else 1e-3 if name != "rosenbrock" else 1e-5
    for directions in (gs.Gaussian(), gs.shrunk(gs.Bernoulli())):
        _check(name, directions, learning_rate=rate)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_for_all_directions(name):
    _check("sphere", FAMILIES[name])


def test_the_same_with_several_samples_and_without_noise():
    _check("sphere", gs.Bernoulli(), num_samples=3)
    _check("sphere", gs.Bernoulli(), noise_level=0.0)


def test_the_same_with_one_direction():
    _check("sphere", gs.Gaussian(), num_directions=1, dim=10)


def test_without_its_noise_a_run_is_another():
    noise = noisy.run("sphere", gs.Bernoulli(), **SHORT)
    calm = noisy.run("sphere", gs.Bernoulli(), **SHORT, noise_level=0.0)
    assert not np.allclose(noise.series["objective"], calm.series["objective"], rtol=1e-3)


def test_noise_has_its_law_and_depends_on_its_address_alone():
    draws = np.array([noisy.evaluation_noise(i, seed=1, step=2, dim=9) for i in range(20_000)])
    for column in (0, 4, 9):
        assert scipy.stats.kstest(draws[:, column], scipy.stats.norm.cdf).pvalue > 1e-3
    correlation = np.corrcoef(draws.T) - np.eye(10)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)
    again = noisy.evaluation_noise(7, seed=1, step=2, dim=9)
    assert np.array_equal(again, draws[7])
    assert not np.array_equal(noisy.evaluation_noise(7, seed=1, step=3, dim=9), draws[7])


@pytest.mark.parametrize("name", NAMES)
def test_a_noisy_function_has_the_law_of_the_runs_noise(name):
    f, x = noisy.NoisyFunction(name), np.array([0.5, -1.0, 2.0])
    rng = np.random.default_rng(0)
    theirs = np.array([f(x, rng) for _ in range(5000)])
    base = noisy.FUNCTIONS[name]
    ours = []
    for i in range(5000):
        n = noisy.evaluation_noise(i, seed=3, step=0, dim=3)
        ours.append(base(x) + 0.1 * n[-1] * (base(x + n[:-1]) - base(x)))
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > 1e-3
    assert scipy.stats.ks_2samp(base(x) + 1.4 * (ours - base(x)), theirs).pvalue < 1e-4


def test_a_noisy_function_takes_blocks_and_is_reproducible():
    f = noisy.NoisyFunction("rosenbrock")
    points = np.random.default_rng(5).standard_normal((4, 3))
    rngs = [generator(1, Purpose.SAMPLE, index=i) for i in range(4)]
    block = f(points, rngs)
    single = [f(p, generator(1, Purpose.SAMPLE, index=i)) for i, p in enumerate(points)]
    np.testing.assert_array_equal(block, single)


def test_methods_share_the_start():
    one = {**SHORT, "rounds": 1, "iterations": 1, "learning_rate": 1e-300}
    values = {noisy.run("sphere", FAMILIES[n], **one).final for n in FAMILIES}
    assert values == {noisy.starting_value("sphere", dim=6, seed=31)}


@pytest.mark.parametrize("room", [1, 60, 10**9])
def test_how_many_steps_are_laid_out_together_changes_no_bit(monkeypatch, room):
    plain = noisy.run("hm", gs.Gaussian(), **SHORT)
    monkeypatch.setattr(protocol, "_ROOM", room)
    again = noisy.run("hm", gs.Gaussian(), **SHORT)
    np.testing.assert_array_equal(plain.series["objective"], again.series["objective"])


@pytest.mark.parametrize("name", NAMES)
def test_divergence_is_a_result(name):
    run = noisy.run(name, gs.Gaussian(), **{**SHORT, "learning_rate": 1e3, "rounds": 100})
    assert run.diverged
    assert run.final == math.inf
    assert len(run.rounds) < 100
    assert all(np.isfinite(values).all() for values in run.series.values())


def test_sgd_descends():
    setting = {"spacing": 0.1, "seed": 1, "num_directions": 100, "dim": 100}
    for name, rate in (("sphere", 1e-3), ("rosenbrock", 1e-6), ("hm", 1e-3)):
        run = noisy.run(name, gs.Bernoulli(), **setting, learning_rate=rate)
        assert run.final < 0.3 * noisy.starting_value(name, dim=100, seed=1)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("spheres", {}, "no noisy function 'spheres'. Did you mean 'sphere'"),
        ("", {}, "Known: sphere, rosenbrock, cigar, hm"),
        ("sphere", {"noise_level": -0.1}, "`noise_level` must not be negative"),
        ("sphere", {"noise_level": math.nan}, "`noise_level` must not be negative"),
        ("sphere", {"dim": 0}, "`dim` must be a whole number"),
        ("sphere", {"spacing": -0.1}, "`spacing` must be positive, but is -0.1"),
        ("sphere", {"num_samples": 0}, "`num_samples` must be a whole number"),
    ],
)
def test_bad_input(name, wrong, message):
    with pytest.raises(ValueError, match=message):
        noisy.run(name, gs.Gaussian(), **{**SHORT, **wrong})
