"""The kernels against published vectors, a plain NumPy reference, and the laws they stand for."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import gensmooth as gs
import reference
import theory_literal as literal
from cases import DTYPES
from gensmooth.directions import Address
from gensmooth.directions.vectors import Vectors
from gensmooth.kernels import bases, laws, sums
from gensmooth.kernels.philox import philox
from gensmooth.kernels.tiles import normal_tile
from gensmooth.streams import Purpose, key_and_counter

words32 = st.integers(0, 2**32 - 1)
seeds = st.integers(0, 2**64 - 1)
steps = st.integers(0, 2**56 - 1)
dims = st.one_of(st.integers(1, 300), st.sampled_from([2047, 2048, 2049, 4096, 6000]))


def rows(directions, L: int, dim: int, dtype=np.float64, *, seed=5, step=3) -> np.ndarray:
    return directions.draw(
        (), Address(seed=seed, step=step, num_directions=L, dim=dim, dtype=np.dtype(dtype))
    ).block()


def signs(L: int, dim: int, dtype=np.float64, **address) -> np.ndarray:
    return rows(gs.Bernoulli(), L, dim, dtype, **address)


def normals(L: int, dim: int, dtype=np.float64, **address) -> np.ndarray:
    return rows(gs.Gaussian(), L, dim, dtype, **address)


def uniforms(L: int, dim: int, *, seed=5, step=3, first=0, tile=0) -> np.ndarray:
    out = np.empty((L, dim))
    laws.uniforms(np.array(key_and_counter(seed, Purpose.DIRECTION, step), "u8"), first, tile, out)
    return out


# --- Philox ------------------------------------------------------------------------------------

KNOWN = [  # Random123's kat_vectors for philox4x32-10: counter, key, words
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


@njit
def _philox(counter, key):
    return philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


def philox_words(counter, key) -> tuple[int, ...]:
    return tuple(int(word) for word in _philox(np.array(counter, "u8"), np.array(key, "u8")))


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_the_published_words(counter, key, words):
    c, k, expected = ([int(w, 16) for w in text.split()] for text in (counter, key, words))
    assert list(philox_words(c, k)) == expected
    assert [int(w) for w in reference.philox(c, k)] == expected
    assert list(reference.counter_of(expected, k)) == c


@settings(max_examples=50)
@given(counter=st.tuples(*[words32] * 4), key=st.tuples(*[words32] * 2))
def test_philox_equals_the_reference_and_its_inverse(counter, key):
    words = philox_words(counter, key)
    assert words == tuple(int(w) for w in reference.philox(counter, key))
    assert reference.counter_of(words, key) == counter


# --- tiles against the reference ---------------------------------------------------------------


@settings(max_examples=40)
@given(seed=seeds, step=steps, L=st.integers(1, 4), dim=dims, dtype=st.sampled_from(DTYPES))
def test_signs_equal_the_reference(seed, step, L, dim, dtype):
    for index, row in enumerate(signs(L, dim, dtype, seed=seed, step=step)):
        expected = reference.signs(reference.stream(seed, Purpose.DIRECTION, step, index), dim)
        assert np.array_equal(row, expected)


@settings(max_examples=40)
@given(seed=seeds, step=steps, L=st.integers(1, 3), dim=dims, dtype=st.sampled_from(DTYPES))
def test_normals_equal_the_reference_to_a_few_ulp(seed, step, L, dim, dtype):
    for index, row in enumerate(normals(L, dim, dtype, seed=seed, step=step)):
        at = reference.stream(seed, Purpose.DIRECTION, step, index)
        assert _ulps(row, reference.normals(at, dim, dtype)).max() <= 4


def _ulps(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    size = np.spacing(np.abs(expected.astype(found.dtype)))
    return np.abs(found.astype(np.longdouble) - expected) / size


@settings(max_examples=20)
@given(seed=seeds, step=steps, first=st.integers(0, 5), dim=dims)
def test_uniforms_equal_the_reference(seed, step, first, dim):
    found = uniforms(2, dim, seed=seed, step=step, first=first)
    for row, index in zip(found, (first, first + 1), strict=True):
        at = reference.stream(seed, Purpose.DIRECTION, step, index)
        assert np.array_equal(row, reference.uniforms(at, dim))
        assert 0 < row.min() <= row.max() < 1


def test_uniforms_may_start_at_any_tile():
    assert np.array_equal(uniforms(3, 5000)[:, 4096:], uniforms(3, 5000 - 4096, tile=2))


def _hadamard(L: int, dim: int, seed: int, dtype=np.float32) -> np.ndarray:
    """The Hadamard rows behind a draw of orthogonal signs: all the signs taken off again."""
    block = rows(gs.OrthogonalBernoulli(), L, dim, dtype, seed=seed)
    order = 1 << (dim - 1).bit_length()
    groups = [reference.stream(seed, Purpose.SIGNS, 3, row // order) for row in range(L)]
    columns = np.stack([reference.signs(at, dim) for at in groups])
    found = block * columns
    return found * found[:, :1]  # a row's own sign is its first entry: column 0 is all ones


def _number(pattern: np.ndarray) -> int:
    """Which row of Sylvester's matrix: bit b is the sign in column 2^b."""
    return sum(1 << b for b in range(20) if 1 << b < len(pattern) and pattern[1 << b] < 0)


def test_hadamard_rows_are_those_of_scipys_matrix():
    matrix = scipy.linalg.hadamard(4096, dtype=np.int8)
    found = _hadamard(100, 4096, seed=5)
    numbers = [_number(pattern) for pattern in found]
    assert np.array_equal(found, matrix[numbers])
    assert len(set(numbers)) == 100
    assert max(numbers) >= 2048 > min(numbers)  # both halves: bits inside and beyond a tile


@settings(max_examples=30)
@given(exponent=st.integers(0, 14), seed=seeds, dtype=st.sampled_from(DTYPES), data=st.data())
def test_hadamard_rows_follow_their_definition_when_cut(exponent, seed, dtype, data):
    order = 2**exponent
    dim = data.draw(st.integers(order // 2 + 1, order))
    for pattern in _hadamard(3, dim, seed, dtype):
        assert np.array_equal(pattern, reference.hadamard_row(_number(pattern), dim))


# --- normals at the ends of their words --------------------------------------------------------
# Philox is a bijection, so a counter can be found for any words: the rarest ones are reached too.


@njit
def _tile_at(z, tile, index, c2, c3, k0, k1):
    normal_tile(z, len(z), tile, index, c2, c3, k0, k1)


def _normals_from(words: tuple[int, ...], dtype: type) -> tuple[float, float]:
    """The two normals that the kernel makes of the first radius and angle among four words."""
    key = (0x12345678, 0x9ABCDEF0)
    position, index, c2, c3 = reference.counter_of(words, key)
    calls = 512 if dtype == np.float32 else 1024  # counters in a tile
    tile, at = divmod(position, calls)
    block, i = divmod(at, 32)
    z = np.empty(2048, dtype)
    _tile_at(z, *(np.uint64(w) for w in (tile, index, c2, c3, *key)))
    half = 64 if dtype == np.float32 else 32
    return z[2 * half * block + i], z[2 * half * block + half + i]


def _word(value: int) -> np.ndarray:
    return np.array([value], np.uint64)


ROOT_HALF = math.isqrt(2**63)  # √½ · 2^32, where the logarithm changes its reduction
EDGES = [0, 1, 2, 3, 2**8, 2**24, 2**31, ROOT_HALF, ROOT_HALF + 1]
EDGES += [2**32 - 2**8, 2**32 - 2, 2**32 - 1]
ANGLES = [0, 1, 2, 4, 7, 8, 2**31, 2**32 - 8, 2**32 - 1]


@pytest.mark.parametrize("radius", EDGES)
def test_float32_normals_of_extreme_words(radius):
    for angle in ANGLES:
        found = np.array(_normals_from((radius, 17, angle, 23), np.float32))
        expected = reference.box_muller(_word(radius), _word(angle), 32)
        assert _ulps(found, np.concatenate(expected)).max() <= 4
        assert np.isfinite(found).all()


@pytest.mark.parametrize("radius", EDGES)
def test_float64_normals_of_extreme_words(radius):
    for high, low in ((radius, 0), (radius, 2**32 - 1), (0, radius), (2**32 - 1, radius)):
        for angle in ANGLES:
            found = np.array(_normals_from((high, low, angle, angle), np.float64))
            word, turn = _word(high << 32 | low), _word(angle << 32 | angle)
            expected = reference.box_muller(word, turn, 64)
            assert _ulps(found, np.concatenate(expected)).max() <= 4
            assert np.isfinite(found).all()


def test_the_longest_and_the_shortest_radius():
    for dtype, bits in ((np.float32, 32), (np.float64, 64)):
        words = (0, 0, 0, 0) if bits == 64 else (0, 9, 0, 9)
        longest = np.hypot(*map(float, _normals_from(words, dtype)))
        assert longest == pytest.approx(math.sqrt(2 * math.log(2) * (bits + 1)))
        ones = (2**32 - 1,) * 4
        shortest = np.hypot(*map(float, _normals_from(ones, dtype)))
        assert shortest == pytest.approx(math.sqrt(2) * 2 ** (-bits / 2))


# --- the laws ----------------------------------------------------------------------------------


def test_signs_are_fair_and_a_slight_bias_would_be_seen():
    drawn = signs(1024, 4096, np.float32).astype(np.float64)
    n = drawn.size
    by_position, by_index = drawn.sum(0) / 32, drawn.sum(1) / 64
    assert abs(drawn.sum() / math.sqrt(n)) < 4
    # The sums over each position and each direction are N(0, 1) themselves: no stuck bit.
    for scores in (by_position, by_index):
        assert abs(_z_of_squares(scores)) < 4
    biased = np.where(np.random.default_rng(0).random(drawn.shape) < 0.502, 1.0, -1.0)
    assert abs(biased.sum() / math.sqrt(n)) > 6


def _z_of_squares(scores: np.ndarray) -> float:
    """How far Σ z² of independent z ~ N(0, 1) is from its mean n, in its deviation √2n."""
    return float((np.sum(scores**2) - scores.size) / math.sqrt(2 * scores.size))


class Neighbours(NamedTuple):
    name: str
    blocks: list[np.ndarray]  # blocks of signs whose equal places must be independent


def _neighbours() -> list[Neighbours]:
    def block(**change):
        return signs(40, 2100, **change)

    def purpose(number: int) -> np.ndarray:
        at = [reference.stream(5, number, 3, index) for index in range(40)]
        return np.stack([reference.signs(stream, 2100) for stream in at]).astype(float)

    plain = block()
    return [
        Neighbours("positions", [plain[:, i : i + 2000] for i in (0, 1, 2, 3, 32, 64, 65, 100)]),
        Neighbours("indices", [np.roll(plain, i, axis=0) for i in (0, 1, 2, 3, 7)]),
        Neighbours("steps", [block(step=s) for s in (0, 1, 2, 3, 4, 2**32, 2**55)]),
        Neighbours("seeds", [block(seed=s) for s in (0, 1, 2, 3, 4, 2**32, 2**63)]),
        Neighbours("purposes", [purpose(p) for p in Purpose]),
    ]


@pytest.mark.parametrize("case", _neighbours(), ids=lambda case: case.name)
def test_signs_are_pairwise_independent(case: Neighbours):
    n = case.blocks[0].size
    scores = [
        np.sum(one * other) / math.sqrt(n)
        for i, one in enumerate(case.blocks)
        for other in case.blocks[:i]
    ]
    assert np.abs(scores).max() < 4.5
    assert abs(_z_of_squares(np.array(scores))) < 4
    # The twin: blocks of which one in a hundred signs is copied from the neighbour.
    one, other = case.blocks[0], case.blocks[1].copy()
    copied = np.random.default_rng(1).random(one.shape) < 0.03
    other[copied] = one[copied]
    assert np.sum(one * other) / math.sqrt(n) > 6


def _normal_sample(dtype: type) -> np.ndarray:
    return normals(1000, 2048, dtype).astype(np.float64)


def _z_moments(z: np.ndarray) -> list[float]:
    expected = [0, 1, 0, 3, 0, 15]
    return [literal.z_score(z**p, e) for p, e in enumerate(expected, start=1)]


def _z_tails(z: np.ndarray) -> list[float]:
    """Counts beyond t against the normal law's, in their (binomial) standard deviations."""
    scores = []
    for t in (2.0, 3.0, 3.5, 4.0):
        p = 2 * scipy.stats.norm.sf(t)
        count = np.count_nonzero(np.abs(z) > t)
        scores.append((count - len(z) * p) / math.sqrt(len(z) * p * (1 - p)))
    return scores


def _ks(z: np.ndarray) -> float:
    return float(scipy.stats.kstest(z, scipy.stats.norm.cdf).pvalue)


@pytest.mark.parametrize("dtype", DTYPES)
def test_normals_are_normal(dtype):
    z = _normal_sample(dtype).reshape(-1)
    assert np.abs(_z_moments(z)).max() < 4
    assert np.abs(_z_tails(z)).max() < 4
    assert _ks(z[:500_000]) > 1e-4


def test_what_is_only_nearly_normal_is_rejected():
    rng = np.random.default_rng(2)
    almost = rng.random((12, 2_048_000)).sum(axis=0) - 6  # kurtosis 2.9, no tails
    assert np.abs(_z_moments(almost)).max() > 6
    assert np.abs(_z_tails(almost)).max() > 6
    assert _ks(almost[:500_000] * 1.01) < 1e-6


@pytest.mark.parametrize(("dtype", "half"), [(np.float32, 64), (np.float64, 32)])
def test_the_two_normals_of_a_radius_are_independent(dtype, half):
    z = _normal_sample(dtype).reshape(-1, 2, half)
    one, two = z[:, 0].reshape(-1), z[:, 1].reshape(-1)
    assert abs(literal.z_score(one * two, 0)) < 4
    assert abs(literal.z_score((one**2 - 1) * (two**2 - 1), 0)) < 4
    # The twin: a cosine and a sine of the right variance without the radius between them.
    radius = np.hypot(one, two)
    p, q = math.sqrt(2) * one / radius, math.sqrt(2) * two / radius
    assert abs(literal.z_score((p**2 - 1) * (q**2 - 1), 0)) > 6


@pytest.mark.parametrize("dtype", DTYPES)
def test_normals_of_different_directions_and_places_are_independent(dtype):
    z = _normal_sample(dtype)
    for one, two in (
        (z[:-1], z[1:]),
        (z[:, :-1], z[:, 1:]),
        (z[:, :-128], z[:, 128:]),
        (z, normals(1000, 2048, dtype, step=4)),
        (z, normals(1000, 2048, dtype, seed=6)),
    ):
        assert abs(literal.z_score((one * two).reshape(-1), 0)) < 4
        assert abs(literal.z_score(((one**2 - 1) * (two**2 - 1)).reshape(-1), 0)) < 4


def test_uniforms_are_uniform():
    u = uniforms(100, 5000).reshape(-1)
    assert scipy.stats.kstest(u, scipy.stats.uniform.cdf).pvalue > 1e-4
    assert scipy.stats.kstest(u**1.02, scipy.stats.uniform.cdf).pvalue < 1e-6


# --- sums and bases ----------------------------------------------------------------------------


@settings(max_examples=40)
@given(dim=dims, dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
def test_sums_of_products_are_the_exact_ones_to_rounding(dim, dtype, seed):
    a, b = np.random.default_rng(seed).standard_normal((2, dim)).astype(dtype)
    exact = math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    scale = float(np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    assert abs(sums.dot(a, b) - exact) <= 1e-14 * scale
    out = np.empty(2)
    sums.dots(Vectors((a, b)).addresses, b, out)
    assert abs(out[0] - exact) <= 1e-14 * scale
    alone = np.empty(1)  # a row's product does not depend on the rows beside it
    for row, together in zip((a, b), out, strict=True):
        sums.dots(Vectors((row,)).addresses, b, alone)
        assert alone[0] == together
    moved = np.empty_like(a)
    length2, size2 = sums.advance(a, b, moved)
    assert np.array_equal(moved, a + b)
    assert length2 == pytest.approx(math.fsum(float(y) ** 2 for y in moved), rel=1e-14)
    difference = (float(y) - float(x) for x, y in zip(a, moved, strict=True))
    assert size2 == pytest.approx(math.fsum(d**2 for d in difference), rel=1e-13)


def _gram_schmidt(block: np.ndarray) -> np.ndarray:
    """Each row less its projections on the earlier ones: literally, in float64."""
    out = block.astype(np.float64)
    for i in range(len(out)):
        for j in range(i):
            out[i] -= (out[i] @ out[j]) / (out[j] @ out[j]) * out[j]
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (2, 8), (5, 7), (20, 102), (12, 3000)])
def test_orthogonalised_rows_are_those_of_gram_schmidt(n, d, dtype):
    plain = np.random.default_rng(n).standard_normal((n, d)).astype(dtype)
    expected = _gram_schmidt(plain)
    tolerance = 200 * np.finfo(dtype).eps * math.sqrt(d)
    residual, equal = plain.copy(), plain.copy()
    assert bases.gram_schmidt(residual, 0.0)
    assert bases.gram_schmidt(equal, 7.0)
    np.testing.assert_allclose(residual, expected, rtol=0, atol=tolerance)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(equal, 7.0 * unit, rtol=0, atol=7 * tolerance)


@pytest.mark.parametrize(("n", "d"), [(3, 4), (3, 40)])
def test_dependent_rows_are_noticed(n, d):
    rng = np.random.default_rng(0)
    dependent = rng.standard_normal((n, d))
    dependent[-1] = 0.0
    assert not bases.gram_schmidt(dependent, 1.0)


def _guiding_basis(history: np.ndarray) -> np.ndarray:
    """U of which U z are the points: the images of the unit vectors, without the zero ones."""
    k = len(history)
    coefficients = np.eye(k)
    rank = bases.guiding_coefficients(history @ history.T, coefficients, 1e-8)
    assert np.all(coefficients[rank:] == 0)
    return (coefficients @ history)[:rank]


@settings(max_examples=40)
@given(k=st.integers(1, 12), d=st.integers(1, 40), seed=st.integers(0, 99))
def test_the_guiding_basis_is_orthonormal_and_spans_the_history(k, d, seed):
    rng = np.random.default_rng(seed)
    history = rng.standard_normal((k, d)) * 10.0 ** rng.integers(-9, 9, (k, 1))
    basis = _guiding_basis(history)
    assert len(basis) == min(k, d)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-6)
    left_over = history - (history @ basis.T) @ basis
    assert np.all(np.linalg.norm(left_over, axis=1) <= 1e-4 * np.linalg.norm(history, axis=1))


def test_zero_repeated_and_nearly_parallel_estimates_add_no_dimension():
    g, h = np.random.default_rng(0).standard_normal((2, 30))
    nearly = g + 1e-7 * h
    history = np.stack([g, np.zeros(30), g, -3 * g, h, nearly, 1e-200 * g, 1e150 * h])
    basis = _guiding_basis(history)
    assert len(basis) == 2
    np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-10)
    assert len(_guiding_basis(np.zeros((3, 30)))) == 0
