"""Our noisy functions against the installed Nevergrad, and Nevergrad's own code with our noise."""

import sys

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs
from gensmooth.problems import noisy
from gensmooth.streams import Purpose, generator

functions = pytest.importorskip("nevergrad.functions", reason="pip install nevergrad")

from gensmooth.lab.paper.dfo.model import NevergradFunction  # noqa: E402

NAMES = list(noisy.FUNCTIONS)


def _theirs(name, dim, noise_level=0.0):
    return functions.ArtificialFunction(
        name, block_dimension=dim, noise_level=noise_level, translation_factor=0.0
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dim", "scale"), [(2, 1.0), (10, 1.0), (100, 0.01), (100, 30.0)])
def test_values_equal_nevergrads(name, dim, scale):
    points = scale * np.random.default_rng(dim).standard_normal((50, dim))
    theirs = [_theirs(name, dim)(x) for x in points]
    np.testing.assert_allclose(noisy.FUNCTIONS[name](points), theirs, rtol=1e-13)


POINTS = {
    "at zero's side": np.full(5, 0.01),
    "near": np.array([0.5, -0.3, 0.8, 1.2, -1.0]),
    "far": np.array([10.0, -20.0, 3.0, 0.1, 7.0]),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", POINTS)
def test_noise_has_nevergrads_law(name, where):
    x, number = POINTS[where], 4000
    f = _theirs(name, 5, 0.1)
    f.parametrization.random_state = np.random.RandomState(7)
    theirs = np.array([f(x) for _ in range(number)])
    g = noisy.NoisyFunction(name)
    ours = np.array([g(x, generator(2, Purpose.SAMPLE, index=i)) for i in range(number)])
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > 1e-3
    # Twins: another noise level, and additive noise of the same mean and variance.
    level = noisy.NoisyFunction(name, 0.15)
    twin = [level(x, generator(3, Purpose.SAMPLE, index=i)) for i in range(number)]
    assert scipy.stats.ks_2samp(twin, theirs).pvalue < 1e-4
    plain = ours.mean() + ours.std() * np.random.default_rng(0).standard_normal(number)
    assert scipy.stats.ks_2samp(plain, theirs).pvalue < 1e-4


@pytest.mark.parametrize("name", functions.ArtificialFunction.list_sorted_function_names())
def test_every_function_of_nevergrad_is_reproducible(name):
    f, x = NevergradFunction(name, dim=6), np.linspace(-1, 2, 6)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    values = [f(x, generator(4, Purpose.SAMPLE, index=i)) for i in (0, 1, 0)]
    exact = f.oracle(x), f.oracle(x)
    assert values[0] == values[2]
    assert exact[0] == exact[1]
    assert np.isfinite([*values, *exact]).all()
    if not name.startswith("st"):  # Nevergrad's st0 draws, and ignores, a global number
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_blocks_of_points():
    f, points = NevergradFunction("sphere", dim=3), np.eye(3)
    rngs = [generator(4, Purpose.SAMPLE, index=i) for i in range(3)]
    block = f(points, rngs)
    assert block[1] == f(points[1], generator(4, Purpose.SAMPLE, index=1))
    np.testing.assert_allclose(f.oracle(points), 1.0)


def test_a_run_on_nevergrads_code_agrees_within_noise():
    setting = {"spacing": 0.1, "learning_rate": 5e-3, "num_directions": 10, "dim": 10}
    ours, theirs = (
        np.array(
            [
                noisy.run(name, gs.Bernoulli(), seed=seed, rounds=6, **setting).final
                for seed in range(12)
            ]
        )
        for name in ("sphere", "nevergrad:sphere")
    )
    # The same start and directions, other noise: compare seed by seed.
    assert scipy.stats.ttest_rel(np.log(ours), np.log(theirs)).pvalue > 0.01
    slower = [
        noisy.run("sphere", gs.Bernoulli(), seed=seed, rounds=3, **setting).final
        for seed in range(12)
    ]
    assert scipy.stats.ttest_rel(np.log(slower), np.log(theirs)).pvalue < 1e-4


def test_a_run_on_another_function_of_nevergrad():
    setting = {"spacing": 0.1, "learning_rate": 1e-3, "num_directions": 5, "dim": 4}
    run = noisy.run("nevergrad:rastrigin", gs.Gaussian(), seed=1, rounds=3, **setting)
    again = noisy.run("nevergrad:rastrigin", gs.Gaussian(), seed=1, rounds=3, **setting)
    np.testing.assert_array_equal(run.series["objective"], again.series["objective"])
    assert run.evaluations.tolist() == [100, 200, 300]
    setting["learning_rate"] = 1e200
    run = noisy.run("nevergrad:sphere", gs.Gaussian(), seed=1, rounds=3, **setting)
    assert run.diverged


def test_unknown_and_missing(monkeypatch):
    with pytest.raises(ValueError, match=r"Nevergrad has no function 'spher'\. Did you mean"):
        noisy.noisy_objective("nevergrad:spher", dim=3)
    monkeypatch.setitem(sys.modules, "nevergrad.functions", None)
    with pytest.raises(ImportError, match="pip install"):
        noisy.noisy_objective("nevergrad:sphere", dim=3)
