"""Observation statistics: merging is pooling, in a fixed order, and nothing is divided by zero."""

import numpy as np
import pytest

from gensmooth.rl.normalize import EpisodeMoments, Statistics, identity, statistics

SIZE = 6
OFFSETS = np.array([0.0, 1.0, -3.0, 1e3, 3e4, 0.0])
SCALES = np.array([1.0, 1e-3, 50.0, 1.0, 1.0, 1e-5])


def trajectories(seed: int = 0, number: int = 40) -> list[np.ndarray]:
    """Trajectories of very different lengths, each with its own drift."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 200, number)
    return [
        OFFSETS + SCALES * (rng.standard_normal((n, SIZE)) + rng.standard_normal(SIZE))
        for n in lengths
    ]


def moments(parts: list[np.ndarray]) -> EpisodeMoments:
    """Per-trajectory moments, in extended precision."""
    count = np.array([len(part) for part in parts])
    long = [np.asarray(part, np.longdouble) for part in parts]
    mean = np.array([part.mean(axis=0) for part in long], np.float64)
    m2 = np.array([((p - p.mean(axis=0)) ** 2).sum(axis=0) for p in long], np.float64)
    return EpisodeMoments(count, mean.reshape(-1, SIZE), m2.reshape(-1, SIZE))


def pooled(parts: list[np.ndarray]) -> tuple[int, np.ndarray, np.ndarray]:
    """All observations at once, in extended precision."""
    every = np.asarray(np.vstack(parts), np.longdouble)
    mean = every.mean(axis=0)
    return len(every), mean, ((every - mean) ** 2).sum(axis=0)


def merged_in(parts: list[np.ndarray], sizes: list[int]) -> Statistics:
    """The statistics after iterations of the given numbers of trajectories."""
    found, start = statistics(SIZE), 0
    for size in sizes:
        found = found.merged(moments(parts[start : start + size]))
        start += size
    assert start == len(parts)
    return found


@pytest.mark.parametrize("sizes", [[40], [1] * 40, [20, 20], [3, 0, 30, 7]], ids=str)
def test_merging_is_pooling(sizes):
    parts = trajectories()
    found = merged_in(parts, sizes)
    count, mean, m2 = pooled(parts)
    assert found.seen == count
    np.testing.assert_allclose(found.mean, np.float64(mean), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.m2, np.float64(m2), rtol=1e-12)


def test_the_test_would_see_a_wrong_formula():
    """The usual slips: means not weighted, and the part between trajectories left out."""
    parts = trajectories()
    count, mean, m2 = pooled(parts)
    each = moments(parts)
    assert not np.allclose(each.means.mean(axis=0), np.float64(mean), rtol=1e-12)
    assert not np.allclose(each.m2.sum(axis=0), np.float64(m2), rtol=1e-12)
    # Σo² − n·mean² loses the digits that an offset takes
    every = np.vstack(parts)
    naive = (every**2).sum(axis=0) - count * every.mean(axis=0) ** 2
    assert not np.allclose(naive, np.float64(m2), rtol=1e-12)


def test_the_order_is_the_batch_and_nothing_else():
    parts = trajectories()
    once, again = merged_in(parts, [20, 20]), merged_in(parts, [20, 20])
    assert once.mean.tobytes() == again.mean.tobytes()
    assert once.m2.tobytes() == again.m2.tobytes()
    # rows stored in another memory order, or cut out of a larger array
    each = moments(parts)
    wide = EpisodeMoments(
        each.counts, np.asfortranarray(each.means), np.repeat(each.m2, 2, axis=1)[:, ::2]
    )
    direct, other = statistics(SIZE).merged(each), statistics(SIZE).merged(wide)
    assert direct.mean.tobytes() == other.mean.tobytes()
    assert direct.m2.tobytes() == other.m2.tobytes()


def test_standardised_observations_have_mean_zero_and_deviation_one():
    parts = trajectories()
    scaling = merged_in(parts, [40]).scaling()
    used = scaling(np.vstack(parts))
    np.testing.assert_allclose(used.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(used.std(axis=0, ddof=1), 1, rtol=1e-9)


def test_coordinates_that_never_varied_are_left_alone_exactly():
    """0.1 is no binary fraction: weighted means of it would be off in the last bit."""
    parts = [np.full((n, 3), [0.1, -7.3e8, 0.0]) for n in (3, 17, 1, 1000)]
    each = EpisodeMoments(
        np.array([len(p) for p in parts]), np.array([p[0] for p in parts]), np.zeros((4, 3))
    )
    found = statistics(3).merged(each).merged(each)
    assert not found.m2.any()
    scaling = found.scaling()
    observation = np.array([0.1, 5.0, 2.0])
    assert np.array_equal(scaling(observation), observation)


def test_deviations_of_the_size_of_rounding_are_no_variation():
    count = 1000
    mean = np.array([[1e9, 1.0, 1.0]])
    deviation = np.array([[1e-6, 1e-9, 1e-3]])
    each = EpisodeMoments(np.array([count]), mean, deviation**2 * (count - 1))
    scaling = statistics(3).merged(each).scaling()
    np.testing.assert_array_equal(scaling.inverse[:2], 1)
    np.testing.assert_array_equal(scaling.mean[:2], 0)
    np.testing.assert_allclose(scaling.inverse[2], 1e3)


def test_nothing_seen_changes_nothing():
    observation = np.array([3.0, -2.0])
    empty = statistics(2)
    assert np.array_equal(empty.scaling()(observation), observation)
    assert np.array_equal(identity(2)(observation), observation)
    none = EpisodeMoments(np.zeros(2, np.int64), np.full((2, 2), np.nan), np.full((2, 2), np.nan))
    assert empty.merged(none) is empty
    one = EpisodeMoments(np.array([1]), observation[None], np.zeros((1, 2)))
    assert np.array_equal(empty.merged(one).scaling()(observation), observation)


def test_failed_trajectories_count_for_nothing():
    parts = trajectories()
    each = moments(parts)
    rows = [np.full((1, SIZE), np.nan)]
    spoilt = EpisodeMoments(
        np.insert(each.counts, 5, 0),
        np.vstack([each.means[:5], *rows, each.means[5:]]),
        np.vstack([each.m2[:5], *rows, each.m2[5:]]),
    )
    found, expected = statistics(SIZE).merged(spoilt), statistics(SIZE).merged(each)
    assert found.seen == expected.seen
    assert np.array_equal(found.mean, expected.mean)
    assert np.array_equal(found.m2, expected.m2)
