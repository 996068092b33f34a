"""Long runs of random numbers: their laws, and that they depend on their address alone."""

import numpy as np
import pytest
import scipy.stats
from numba import njit

from gensmooth.directions.draw import stream_key
from gensmooth.lab.paper import sampling
from gensmooth.streams import Purpose

N = 200_000


@njit
def _normals(key, index, first, count, out):
    sampling.normals(key, index, first, count, out)


@njit
def _squares(key, index, first, count, out):
    sampling.squared_normals(key, index, first, count, out)


@njit
def _uniforms(key, index, first, count, out):
    sampling.uniforms(key, index, first, count, 2.0, out)


@njit
def _moved(key, step):
    sampling.set_step(key, step)


KERNELS = {"normals": _normals, "squares": _squares, "uniforms": _uniforms}


def _draw(name, count=N, *, seed=3, step=2, index=1, first=0):
    out = np.empty(-(-count // 256) * 256, np.float32)
    KERNELS[name](stream_key(seed, Purpose.DATA, step), index, first, count, out)
    return out[:count].astype(np.float64)


LAWS = {
    "normals": (scipy.stats.norm(), scipy.stats.norm(scale=1.03)),
    "squares": (scipy.stats.chi2(1), scipy.stats.chi2(1.03)),
    "uniforms": (scipy.stats.uniform(0, 2), scipy.stats.uniform(0, 1.98)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_right_and_a_neighbour_is_not(name):
    law, twin = LAWS[name]
    z = _draw(name)
    assert scipy.stats.kstest(z, law.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(z, twin.cdf).pvalue < 1e-6


@pytest.mark.parametrize("name", LAWS)
def test_moments_up_to_the_fourth(name):
    z, law = _draw(name), LAWS[name][0]
    for power in (1, 2, 3, 4):
        sample = z**power
        error = sample.std() / np.sqrt(N)
        assert abs(sample.mean() - law.moment(power)) < 4 * error


def test_squares_reach_the_tail():
    z = _draw("squares", 4_000_000)
    expected = 4_000_000 * scipy.stats.chi2(1).sf(20)  # about 31
    assert abs((z > 20).sum() - expected) < 4 * np.sqrt(expected)
    assert np.isfinite(z).all()
    assert z.min() >= 0


@pytest.mark.parametrize("name", LAWS)
def test_neighbours_are_uncorrelated(name):
    z = _draw(name)
    for lag in (1, 2, 32, 64, 128):
        r = np.corrcoef(z[:-lag], z[lag:])[0, 1]
        assert abs(r) < 4 / np.sqrt(N)
    s = _draw(name, index=2)
    assert abs(np.corrcoef(z, s)[0, 1]) < 4 / np.sqrt(N)


@pytest.mark.parametrize("name", LAWS)
def test_entries_depend_on_their_address_alone(name):
    z = _draw(name, 10_000)
    assert np.array_equal(z[:77], _draw(name, 77))
    assert np.array_equal(z[4096:], _draw(name, 10_000 - 4096, first=4096))
    for other in ({"seed": 4}, {"step": 3}, {"index": 0}, {"step": 2 + 2**32}):
        assert not np.array_equal(z, _draw(name, 10_000, **other))


@pytest.mark.parametrize("step", [0, 1, 2**32 - 1, 2**32, 2**55 + 3])
def test_moving_a_key_equals_making_it(step):
    key = stream_key(2**63 + 5, Purpose.SAMPLE, 17)
    _moved(key, step)
    assert np.array_equal(key, stream_key(2**63 + 5, Purpose.SAMPLE, step))


def _subsets(size, count, number):
    order, out = np.arange(size), np.empty((number, count), np.int64)
    for step in range(number):
        sampling.subset(stream_key(1, Purpose.SAMPLE, step), order, out[step])
        assert np.array_equal(order, np.arange(size))
    return out


def test_subsets_are_distinct_and_every_ordered_choice_is_equally_likely():
    chosen = _subsets(5, 3, 12_000)
    assert all(len(set(row)) == 3 for row in chosen.tolist())
    _, counts = np.unique(chosen @ [25, 5, 1], return_counts=True)
    assert len(counts) == 60
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    # The twin draws with replacement.
    twin = np.random.default_rng(0).integers(0, 5, (12_000, 3))
    _, counts = np.unique(twin @ [25, 5, 1], return_counts=True)
    assert len(counts) == 125


def test_a_subset_of_all_is_a_permutation_also_across_tiles():
    (chosen,) = _subsets(5000, 5000, 1)
    assert np.array_equal(np.sort(chosen), np.arange(5000))
    assert not np.array_equal(chosen, np.arange(5000))
