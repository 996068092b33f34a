"""Directions: one table of families drives what all share; then each family's own mathematics."""

import copy
import math
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import gensmooth as gs
import theory_literal as literal
from cases import CLOSED, DTYPES, FAMILIES, SIZES, block_of, draw_of, state_of, twin_of
from gensmooth import theory
from gensmooth.directions import Address
from gensmooth.directions import draw as draws
from gensmooth.directions.composed import ScaledDraw

each_family = pytest.mark.parametrize("name", FAMILIES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


# --- block, perturb and combine see the same numbers -------------------------------------------


def _check_the_three_agree(draw, x, spacings, weights):
    """Bit for bit: points are x + c·ε, sums run over the directions in their order."""
    block, dtype = draw.block(), draw.dtype
    L, d = block.shape
    assert (L, d, block.dtype) == (draw.num_directions, draw.dim, dtype)
    assert np.isfinite(block).all()

    order = np.tile(np.arange(L)[::-1], 2)  # each direction twice, not in order
    c = np.resize(spacings, 2 * L)
    points = draw.perturb(x, order, c, np.empty((2 * L, d), dtype))
    expected = np.stack([x + dtype.type(s) * block[r] for s, r in zip(c, order, strict=True)])
    assert np.array_equal(points, expected)

    found, squares = draw.combine(weights)
    total = np.zeros(d, dtype)
    for w, row in zip(weights.astype(dtype), block, strict=True):
        total = total + w * row
    assert np.array_equal(found, total)
    exact = (block.astype(np.float64) ** 2).sum(1)
    np.testing.assert_allclose(squares, exact, rtol=1e-12)

    once, norm2, own2 = draw.estimate(weights, 0.3)
    assert np.array_equal(once, draw.combine(0.3 * weights)[0])
    np.testing.assert_allclose(norm2, (once.astype(np.float64) ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(own2, ((0.3 * weights) ** 2 * exact).sum(), rtol=1e-12)


@each_dtype
@each_family
def test_block_perturb_and_combine_see_the_same_numbers(name, dtype):
    for L, d in SIZES:
        rng = np.random.default_rng(L * d)
        x, weights = rng.standard_normal(d).astype(dtype), rng.standard_normal(L)
        _check_the_three_agree(draw_of(name, L, d, dtype), x, [0.1, 0.0, -0.3], weights)


@settings(max_examples=60)
@given(
    name=st.sampled_from(list(FAMILIES)),
    dtype=st.sampled_from(DTYPES),
    L=st.integers(1, 12),
    d=st.integers(1, 70),
    seed=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**40),
    data=st.data(),
)
def test_they_agree_at_any_size_seed_and_spacing(name, dtype, L, d, seed, step, data):
    numbers = st.floats(-1e3, 1e3, width=32)
    x = np.array(data.draw(st.lists(numbers, min_size=d, max_size=d)), dtype)
    spacings = data.draw(st.lists(st.floats(-2, 2), min_size=1, max_size=3))
    weights = np.array(data.draw(st.lists(numbers, min_size=L, max_size=L)))
    _check_the_three_agree(draw_of(name, L, d, dtype, seed=seed, step=step), x, spacings, weights)


def test_directions_drawn_in_chunks_agree_across_the_chunks_edge(monkeypatch):
    # A quantile law works in chunks of 65536 entries; smaller ones must give the same numbers.
    for name in ("laplace", "bernoulli, p = 0.2", "shrunk laplace"):
        draw = draw_of(name, 3, 5000)
        x, weights = np.ones(5000), np.array([1.0, -2.0, 0.5])
        whole = draw.block(), draw.combine(weights)[0]
        with monkeypatch.context() as patch:
            patch.setattr(draws, "_CHUNK", 2048)
            _check_the_three_agree(draw, x, [0.1], weights)
            assert np.array_equal(draw.block(), whole[0])
            assert np.array_equal(draw.combine(weights)[0], whole[1])


@each_dtype
@each_family
def test_threads_do_not_change_a_bit(name, dtype, monkeypatch):
    monkeypatch.setattr(draws, "_WORTH_THREADS", 0)
    L, d = 3, 4 * 2048 + 17
    x, weights = np.linspace(-1, 1, d).astype(dtype), np.array([0.3, -1.0, 2.0])
    plain = draw_of(name, L, d, dtype)
    order, c = np.array([2, 0, 1]), np.array([0.1, 0.2, -0.3])
    expected = plain.perturb(x, order, c, np.empty((L, d), dtype))
    for threads in (2, 3, 9):
        threaded = plain.rescaled(threads=threads)
        assert np.array_equal(threaded.block(), plain.block())
        points = threaded.perturb(x, order, c, np.empty((L, d), dtype))
        assert np.array_equal(points, expected)
        for one, other in (
            *zip(threaded.combine(weights), plain.combine(weights), strict=True),
            *zip(threaded.estimate(weights, 0.3), plain.estimate(weights, 0.3), strict=True),
        ):
            assert np.array_equal(one, other)


@each_family
def test_a_draw_is_a_pure_function_of_its_arguments(name):
    L, d = 4, 33
    state = state_of(FAMILIES[name], d, np.float64)
    first = block_of(name, L, d, state=state)
    others = [
        block_of(name, L, d, state=state, **change)
        for change in ({"step": 4}, {"step": 3 + 2**32}, {"seed": 6}, {"seed": 5 + 2**32})
    ]
    assert np.array_equal(block_of(name, L, d, state=state), first)
    for block in others:
        correlation = np.vdot(block, first) / (np.linalg.norm(block) * np.linalg.norm(first))
        assert abs(correlation) < 5 / math.sqrt(L * d)


# --- moments: what the theory is told about each family ----------------------------------------


def _z_second(estimates: np.ndarray, g: np.ndarray, moments: theory.Moments) -> tuple[float, float]:
    """z of E[g·Ag] = a‖g‖² and of E‖Ag‖² = b‖g‖²."""
    g2 = float(g @ g)
    mean = literal.z_score(estimates @ g, moments.mean * g2)
    return mean, literal.z_score((estimates**2).sum(1), moments.second * g2)


@each_dtype
@pytest.mark.parametrize("name", CLOSED)
def test_draws_have_the_moments_that_the_family_declares_and_not_its_twins(name, dtype):
    d, L, reps = 5, 3, 6000
    g = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    estimates = []
    for step in range(reps):
        draw = draw_of(name, L, d, dtype, step=step, state=())
        estimates.append(draw.factor * draw.combine(draw.block().astype(np.float64) @ g / L)[0])
    estimates = np.array(estimates, np.float64)
    assert np.abs(_z_second(estimates, g, FAMILIES[name].moments(d, L))).max() < 4
    assert np.abs(_z_second(estimates, g, twin_of(name, d, L))).max() > 6


def test_kurtosis_is_the_plain_fourth_moment():
    kurtosis = {name: FAMILIES[name].kurtosis(50, 7) for name in CLOSED}
    assert kurtosis["gaussian"] == kurtosis["shrunk gaussian"] == 3
    assert kurtosis["bernoulli"] == kurtosis["orthogonal bernoulli"] == 1
    assert kurtosis["bernoulli, p = 0.2"] == pytest.approx(1 / 0.16 - 3)
    assert kurtosis["laplace"] == 6
    assert kurtosis["uniform, not standardised"] == pytest.approx(1.8)
    # E ε⁴ = 3 d²/(d(d+2)) for an entry of a vector uniform on the sphere of radius √d
    assert kurtosis["sphere"] == kurtosis["orthogonal"] == pytest.approx(3 * 50 / 52)


# Residual rows are left out: their entries do not share one law.
@pytest.mark.parametrize("name", [n for n in CLOSED if n != "orthogonal, residual"])
def test_declared_kurtosis_is_that_of_the_entries(name):
    L, d = 50, 8
    fourth = np.array([(block_of(name, L, d, step=step) ** 4).mean() for step in range(500)])
    v = 1.0 if "estimate" in name else FAMILIES[name].moments(d, L).mean
    kurtosis = FAMILIES[name].kurtosis(d, L)
    assert abs(literal.z_score(fourth, kurtosis * v**2)) < 4
    assert abs(literal.z_score(fourth, 1.25 * kurtosis * v**2)) > 6


# --- i.i.d. entries ----------------------------------------------------------------------------


def test_bernoulli_entries_are_the_papers():
    for p, m in ((0.5, None), (0.5, 0.7), (0.2, None), (0.2, 2.0), (0.9, 0.3)):
        family = gs.Bernoulli(p, m)
        divisor = math.sqrt(p * (1 - p)) if m is None else m
        draw = family.draw(
            (), Address(seed=1, step=0, num_directions=100, dim=1000, dtype=np.dtype(np.float64))
        )
        high, low = (1 - p) / divisor, -p / divisor
        block = draw.block()
        is_high = np.isclose(block, high, rtol=1e-12)
        assert np.all(is_high | np.isclose(block, low, rtol=1e-12))
        z = (is_high.mean() - p) / math.sqrt(p * (1 - p) / block.size)
        twin = (is_high.mean() - (p + 0.02)) / math.sqrt(p * (1 - p) / block.size)
        assert abs(z) < 4 < 6 < abs(twin)


@pytest.mark.parametrize(
    "distribution",
    [
        scipy.stats.laplace(scale=3),
        scipy.stats.norm(scale=0.1),
        scipy.stats.logistic(),
        scipy.stats.t(df=9),
        scipy.stats.triang(0.5, -1, 2),
        scipy.stats.expon(loc=-1),  # mean zero without symmetry
    ],
    ids=lambda distribution: distribution.dist.name,
)
def test_entries_follow_any_scipy_distribution(distribution):
    deviation = distribution.std()
    for standardize, unit in ((True, deviation), (False, 1.0)):
        family = gs.IID(distribution, standardize=standardize)
        draw = family.draw(
            (), Address(seed=1, step=0, num_directions=10, dim=10_000, dtype=np.dtype(np.float64))
        )
        entries = draw.block().reshape(-1) * unit
        assert scipy.stats.kstest(entries, distribution.cdf).pvalue > 1e-4
        assert scipy.stats.kstest(entries * 1.05, distribution.cdf).pvalue < 1e-6
        variance = deviation**2 / unit**2
        assert family.moments(50, 7).mean == pytest.approx(variance)
    excess = float(distribution.stats("k"))
    assert family.kurtosis(50, 7) == pytest.approx(3 + excess)


@pytest.mark.parametrize(
    "distribution",
    [scipy.stats.laplace, scipy.stats.t, scipy.stats.rv_discrete(values=([-1, 1], [0.5, 0.5]))],
    ids=["laplace", "t", "discrete"],
)
def test_a_distribution_that_is_not_frozen_is_refused(distribution):
    with pytest.raises(TypeError, match=r"must be a frozen SciPy distribution: call it"):
        gs.IID(distribution)


def test_a_frozen_discrete_distribution_is_drawn():
    size = math.sqrt(3)
    family = gs.IID(scipy.stats.rv_discrete(values=([-size, 0, size], [1 / 6, 2 / 3, 1 / 6]))())
    at = Address(seed=1, step=0, num_directions=10, dim=10_000, dtype=np.dtype(np.float64))
    entries = family.draw((), at).block()
    assert np.allclose(np.unique(entries), [-size, 0, size])
    assert (entries == 0).mean() == pytest.approx(2 / 3, abs=0.01)
    assert family.kurtosis(50, 7) == pytest.approx(3)


def test_gaussian_through_its_quantiles_has_the_moments_of_gaussian():
    assert gs.IID(scipy.stats.norm()).moments(9, 4) == gs.Gaussian().moments(9, 4)


def test_a_distribution_without_a_fourth_moment_can_be_drawn_but_not_shrunk():
    family = gs.IID(scipy.stats.t(df=3.5))
    draw = family.draw(
        (), Address(seed=0, step=0, num_directions=2, dim=9, dtype=np.dtype(np.float64))
    )
    assert np.isfinite(draw.block()).all()
    with pytest.raises(gs.NoClosedForm, match="kurtosis inf"):
        gs.shrunk(family)


# --- sphere and orthogonal rows ----------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("name", ["sphere", "orthogonal", "orthogonal bernoulli"])
def test_rows_have_length_root_d(name, dtype):
    for L, d in [*SIZES, (20, 102), (102, 102)]:
        lengths = np.linalg.norm(block_of(name, L, d, dtype).astype(np.float64), axis=1)
        np.testing.assert_allclose(lengths, math.sqrt(d), rtol=8 * np.finfo(dtype).eps)


def test_sphere_rows_are_the_gaussian_rows_at_another_length():
    sphere, gaussian = block_of("sphere", 5, 50), block_of("gaussian", 5, 50)
    unit = gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)
    np.testing.assert_allclose(sphere, math.sqrt(50) * unit, rtol=1e-14)


def _groups(block: np.ndarray, size: int) -> list[np.ndarray]:
    return [block[start : start + size] for start in range(0, len(block), size)]


@each_dtype
@pytest.mark.parametrize("name", ["orthogonal", "orthogonal, residual"])
def test_rows_are_orthogonal_within_groups_of_d(name, dtype):
    for L, d in [(1, 1), (3, 1), (2, 2), (7, 3), (20, 102), (60, 102), (50, 50), (20, 2049)]:
        for rows in _groups(block_of(name, L, d, dtype).astype(np.float64), d):
            unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            np.testing.assert_allclose(
                unit @ unit.T, np.eye(len(rows)), rtol=0, atol=100 * np.finfo(dtype).eps
            )


def test_groups_beyond_d_are_not_copies():
    for name, size in (("orthogonal", 4), ("orthogonal, residual", 4), ("orthogonal bernoulli", 4)):
        first, second = _groups(block_of(name, 8, 4), size)
        assert not np.array_equal(first, second)


@each_dtype
@pytest.mark.parametrize(("L", "d"), [(1, 1), (3, 8), (7, 7), (20, 102), (12, 2500)])
def test_orthogonal_rows_are_those_of_literal_gram_schmidt(L, d, dtype):
    gaussian = block_of("gaussian", L, d, dtype).astype(np.float64)
    expected = gaussian.copy()
    for i in range(L):
        for j in range(i):
            expected[i] -= (expected[i] @ expected[j]) / (expected[j] @ expected[j]) * expected[j]
    length = np.linalg.norm(expected, axis=1, keepdims=True)
    tolerance = 300 * np.finfo(dtype).eps * math.sqrt(d)
    found = block_of("orthogonal, residual", L, d, dtype)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    equal = block_of("orthogonal", L, d, dtype)
    np.testing.assert_allclose(equal, math.sqrt(d) * expected / length, rtol=0, atol=tolerance)


def test_residual_lengths_have_their_chi_square_law():
    # ‖row k‖² ~ χ² with d − k + 1 degrees of freedom; d for all is the twin.
    L, d = 6, 8
    squares = np.array([
        (block_of("orthogonal, residual", L, d, step=step) ** 2).sum(1) for step in range(4000)
    ])  # fmt: skip
    for k in range(L):
        assert abs(literal.z_score(squares[:, k], d - k)) < 4
        if k:
            assert abs(literal.z_score(squares[:, k], d)) > 6


def test_a_full_group_of_orthogonal_rows_recovers_any_vector():
    # A = (1/d) Σ ε εᵀ = I for d rows of length √d: the estimate is exact.
    g = np.random.default_rng(0).standard_normal(32)
    for name in ("orthogonal", "orthogonal bernoulli"):
        draw = draw_of(name, 32, 32)
        np.testing.assert_allclose(draw.combine(draw.block() @ g / 32)[0], g, rtol=0, atol=1e-13)


@settings(max_examples=40)
@given(
    exponent=st.integers(0, 7),
    seed=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**40),
    data=st.data(),
)
def test_hadamard_rows_are_exactly_orthogonal_when_d_is_a_power_of_two(exponent, seed, step, data):
    d = 2**exponent
    L = data.draw(st.integers(1, 3 * d))
    for dtype in DTYPES:
        block = block_of("orthogonal bernoulli", L, d, dtype, seed=seed, step=step)
        assert set(np.unique(block)) <= {-1.0, 1.0}
        for rows in _groups(block, d):
            assert np.array_equal(rows @ rows.T, d * np.eye(len(rows)))


@settings(max_examples=30)
@given(d=st.integers(1, 200), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_truncated_hadamard_rows_are_distinct_rows_of_the_matrix_times_signs(d, seed, data):
    order = 1 << (d - 1).bit_length()
    L = data.draw(st.integers(1, 2 * order))
    block = block_of("orthogonal bernoulli", L, d, seed=seed)
    matrix = np.array([[(-1) ** (r & i).bit_count() for i in range(d)] for r in range(order)])
    for rows in _groups(block, order):
        # Column signs cancel in products with the first row: those are ± rows of the matrix,
        # and a truncated matrix has no two rows equal up to sign (d > order/2).
        patterns = matrix @ (rows * rows[0]).T
        assert np.all(np.abs(patterns).max(axis=0) == d)
        assert len(set(np.abs(patterns).argmax(axis=0))) == len(rows)


@settings(max_examples=30)
@given(d=st.integers(1, 200), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_more_hadamard_rows_leave_the_first_ones_as_they_are(d, seed, data):
    L = data.draw(st.integers(2, 3 * d + 1))
    block = block_of("orthogonal bernoulli", L, d, seed=seed)
    fewer = data.draw(st.integers(1, L - 1))
    assert np.array_equal(block_of("orthogonal bernoulli", fewer, d, seed=seed), block[:fewer])


def test_hadamard_rows_have_a_fair_sign_each_and_are_uncorrelated():
    for d in (5, 8):
        blocks = np.array([
            block_of("orthogonal bernoulli", 3, d, step=step) for step in range(5000)
        ])  # fmt: skip
        for one, other in ((0, 1), (0, 2), (1, 2)):
            # Without signs of their own: column 0 is constant, and of the others' 8 entries of
            # sum zero two are drawn without replacement.
            for j in range(d):
                twin = 1.0 if j == 0 else -1 / 7
                products = blocks[:, one, j] * blocks[:, other, j]
                assert abs(literal.z_score(products, 0.0)) < 4
                assert abs(literal.z_score(products, twin)) > 6
            different = blocks[:, one, 0] * blocks[:, other, 1]
            assert abs(literal.z_score(different, 0.0)) < 4
        three = blocks[:, :, 0].prod(axis=1)  # column 0 times three signs: fair together, too
        assert abs(literal.z_score(three, 0.0)) < 4


def test_hadamard_rows_are_drawn_uniformly_without_replacement():
    d, L, reps = 8, 3, 4000
    pairs = np.zeros((reps, 8))
    matrix = np.array([[(-1) ** (r & i).bit_count() for i in range(d)] for r in range(d)])
    for step in range(reps):
        block = block_of("orthogonal bernoulli", L, d, step=step)
        relative = np.abs(matrix @ (block[0] * block[1]))  # which row is their product
        pairs[step, int(relative.argmax())] = 1
    # Distinct rows never multiply to row 0; every other row is as likely: 1/7, not 1/8.
    assert pairs[:, 0].sum() == 0
    for column in pairs.T[1:]:
        assert abs(literal.z_score(column, 1 / 7)) < 4
    assert abs(literal.z_score(pairs[:, 0], 1 / 8)) > 6


# --- guided ------------------------------------------------------------------------------------


def _guided(history: np.ndarray, alpha=0.3, dtype=np.float64):
    """Guided directions whose history holds exactly these estimates."""
    family = gs.Guided(alpha=alpha, history=len(history))
    state = family.init(history.shape[1], np.dtype(dtype))
    for row in history:
        state = family.update(state, row.astype(dtype))
    return family, state


def _many(family, state, d, number=60_000, dtype=np.float64, step=0) -> np.ndarray:
    draw = family.draw(
        state, Address(seed=3, step=step, num_directions=number, dim=d, dtype=np.dtype(dtype))
    )
    return draw.block().astype(np.float64)


def _worst_z(eps: np.ndarray, covariance: np.ndarray) -> float:
    """The largest |z| among the entries of the second-moment matrix."""
    d = eps.shape[1]
    return max(
        abs(literal.z_score(eps[:, i] * eps[:, j], covariance[i, j]))
        for i in range(d)
        for j in range(i + 1)
    )


def _covariance(history: np.ndarray, alpha: float) -> np.ndarray:
    """α/d I + (1−α)/k U Uᵀ, U by QR."""
    d, k = history.shape[1], len(history)
    u, _ = np.linalg.qr(history.T)
    return alpha / d * np.eye(d) + (1 - alpha) / k * (u @ u.T)


@each_dtype
def test_guided_directions_have_the_papers_covariance_and_not_its_misreadings(dtype):
    d, k, alpha = 6, 2, 0.3
    history = np.random.default_rng(1).standard_normal((k, d)) * [[1.0], [50.0]]
    family, state = _guided(history, alpha, dtype)
    eps = _many(family, state, d, dtype=dtype)
    expected = _covariance(history, alpha)
    assert np.trace(expected) == pytest.approx(1)
    assert abs(literal.z_score((eps**2).sum(1), 1)) < 4  # trace 1
    assert np.abs(eps.mean(0) / (eps.std(0) / math.sqrt(len(eps)))).max() < 4.5
    assert _worst_z(eps, expected) < 4.5
    u, _ = np.linalg.qr(history.T)
    for wrong in (
        _covariance(history, 0.5),  # another α
        alpha / d * np.eye(d) + (1 - alpha) * (u @ u.T),  # 1/k forgotten
        alpha * np.eye(d) + (1 - alpha) / k * (u @ u.T),  # 1/d forgotten
        np.eye(d) / d,  # no guiding
        alpha / d * np.eye(d) + (1 - alpha) * history.T @ history / (history**2).sum(),  # no QR
    ):
        assert _worst_z(eps, wrong) > 6


def test_guided_directions_of_a_step_and_of_different_steps_are_independent():
    history = np.random.default_rng(1).standard_normal((2, 6))
    family, state = _guided(history)
    one, two = (_many(family, state, 6, step=s) for s in (0, 1))
    assert np.abs([literal.z_score(a, 0) for a in (one[1:] * one[:-1]).T]).max() < 4
    assert np.abs([literal.z_score(a, 0) for a in (one * two).T]).max() < 4


@each_dtype
def test_alpha_is_one_until_the_history_is_full(dtype):
    family = gs.Guided(alpha=0.2, history=3)
    state = family.init(20, np.dtype(dtype))
    plain = block_of("gaussian", 4, 20, dtype)

    def now() -> np.ndarray:
        return family.draw(
            state, Address(seed=5, step=3, num_directions=4, dim=20, dtype=np.dtype(dtype))
        ).block()

    for i in range(3):
        assert np.array_equal(now(), dtype(math.sqrt(1 / 20)) * plain)  # N(0, I/d)
        state = family.update(state, np.arange(20, dtype=dtype) ** i)
    assert not np.array_equal(now(), dtype(math.sqrt(1 / 20)) * plain)


def test_full_alpha_never_leans():
    family, state = _guided(np.ones((2, 5)), alpha=1.0)
    assert _worst_z(_many(family, state, 5), np.eye(5) / 5) < 4.5


@pytest.mark.parametrize(
    ("rows", "rank"),
    [
        ([[1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 0, -1]], 2),  # repeated
        ([[1, 2, 3, 4], [0, 0, 0, 0], [0, 1, 0, -1]], 2),  # zero
        ([[1, 2, 3, 4], [1, 2, 3, 4 + 1e-9], [2, 4, 6, 8]], 1),  # nearly parallel
        ([[0, 0, 0, 0]] * 3, 0),
        (np.eye(4)[[0, 1, 2, 3, 0, 1]], 4),  # longer than d
    ],
)
def test_a_degenerate_history_guides_by_its_span_alone(rows, rank):
    history = np.array(rows, np.float64)
    family, state = _guided(history)
    eps = _many(family, state, 4)
    assert np.isfinite(eps).all()
    u = np.linalg.svd(history)[2][:rank]
    alpha = 0.3 if rank else 1.0
    expected = alpha / 4 * np.eye(4) + (1 - alpha) / max(rank, 1) * (u.T @ u)
    assert _worst_z(eps, expected) < 4.5


def test_tiny_and_huge_estimates_guide_as_well_as_others():
    rng = np.random.default_rng(0)
    history = rng.standard_normal((2, 5))
    for scale in (1e-30, 1e30):
        family, state = _guided(history * [[scale], [1.0]])
        assert _worst_z(_many(family, state, 5), _covariance(history, 0.3)) < 4.5


@settings(max_examples=25)
@given(
    dtype=st.sampled_from(DTYPES),
    k=st.integers(1, 6),
    choices=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=25),
)
def test_going_back_to_an_old_state_changes_nothing_for_anyone(dtype, k, choices):
    """States as a tree: each keeps the history of its own path, whoever else grew the log."""
    d = 5
    family = gs.Guided(history=k)
    rng = np.random.default_rng(0)
    tree = [(family.init(d, np.dtype(dtype)), [])]
    for choice in choices:
        parent, path = tree[int(choice * len(tree))]
        estimate = rng.standard_normal(d).astype(dtype)
        tree.append((family.update(parent, estimate), [*path, estimate]))
    for state, path in tree:
        last = np.array(path[-k:], dtype).reshape(-1, d)
        assert np.array_equal(state.history, last)
        exact = last.astype(np.float64)
        np.testing.assert_allclose(state.gram, exact @ exact.T, rtol=1e-12, atol=1e-12)
        alone = family.init(d, np.dtype(dtype))
        for estimate in path:
            alone = family.update(alone, estimate)
        drawn = [
            family.draw(
                s, Address(seed=1, step=9, num_directions=3, dim=d, dtype=np.dtype(dtype))
            ).block()
            for s in (state, alone)
        ]
        assert np.array_equal(*drawn)


def test_an_estimate_given_to_the_history_may_be_overwritten_afterwards():
    family = gs.Guided(history=2)
    buffer = np.ones(4)
    state = family.update(family.init(4, np.dtype(float)), buffer)
    buffer[:] = 7
    assert np.array_equal(state.history, np.ones((1, 4)))


def test_the_history_takes_no_more_memory_after_a_thousand_steps():
    family, d = gs.Guided(history=10), 2000
    state = family.init(d, np.dtype(float))
    vector = np.ones(d)

    def memory_after(steps: int) -> int:
        nonlocal state
        for _ in range(steps):
            state = family.update(state, vector)
        return tracemalloc.get_traced_memory()[0]

    memory_after(5)  # compiles
    tracemalloc.start()
    try:
        early, late = memory_after(30), memory_after(1000)
    finally:
        tracemalloc.stop()
    assert late <= early + 16 * vector.nbytes  # one log is 15 vectors; a thousand would be kept


def test_the_default_history_is_the_papers():
    assert [gs.Guided().resolve(d, 5).history for d in (10, 49, 50, 1000)] == [10, 10, 50, 50]
    assert gs.Guided(history=3).resolve(10, 5).history == 3


# --- shrinkage ---------------------------------------------------------------------------------


@settings(max_examples=50)
@given(d=st.integers(1, 500), L=st.integers(1, 500))
def test_the_factor_of_each_family(d, L):
    def factor(directions) -> float:
        return gs.shrunk(directions).resolve(d, L).factor

    assert factor(gs.Gaussian()) == pytest.approx(L / (L + d + 1))
    assert factor(gs.Bernoulli()) == pytest.approx(L / (L + d - 1))
    assert factor(gs.Sphere()) == pytest.approx(L / (L + d - 1))
    assert factor(gs.IID(scipy.stats.laplace())) == pytest.approx(L / (L + d + 4))
    # (B_p − p)/m at any m: shrinking brings the variance to L/(L+d+k−2)
    k, variance = 1 / 0.16 - 3, 0.16 / 0.7**2
    assert factor(gs.Bernoulli(0.2, 0.7)) == pytest.approx(L / (L + d + k - 2) / variance)
    if d >= L:
        assert factor(gs.Orthogonal()) == pytest.approx(L / d)


def test_bes_shrinkage_is_the_papers_m_star():
    d, L = 61, 20
    shrunk = gs.shrunk(gs.Bernoulli()).draw(
        (), Address(seed=0, step=0, num_directions=L, dim=d, dtype=np.dtype(float))
    )
    m = math.sqrt((L + d - 1) / (4 * L))  # = 1 here: ±½
    assert m == 1
    np.testing.assert_allclose(np.abs(shrunk.block()), 0.5 / m, rtol=1e-15)


@pytest.mark.parametrize("name", [n for n in CLOSED if not n.startswith("shrunk")])
def test_no_other_factor_has_a_smaller_error(name):
    d, L = 9, 4
    family = FAMILIES[name]
    best = theory.relative_mse(gs.shrunk(family).moments(d, L))
    v = gs.shrunk(family).resolve(d, L).factor
    for other in (0.9 * v, 1.1 * v):
        assert theory.relative_mse(family.moments(d, L).scaled(other)) > best


@each_dtype
@pytest.mark.parametrize("name", [n for n in CLOSED if not n.startswith("shrunk")])
def test_shrunk_directions_are_the_same_ones_times_the_root_of_the_factor(name, dtype):
    L, d = 4, 30
    arguments = {"seed": 5, "step": 3, "num_directions": L, "dim": d, "dtype": np.dtype(dtype)}
    plain = FAMILIES[name].draw((), Address(**arguments))
    direction = gs.shrunk(FAMILIES[name]).draw((), Address(**arguments))
    estimate = gs.shrunk(FAMILIES[name], scale="estimate").draw((), Address(**arguments))
    v = gs.shrunk(FAMILIES[name]).resolve(d, L).factor
    assert np.array_equal(estimate.block(), plain.block())
    assert (plain.factor, direction.factor, estimate.factor) == (1, 1, v)
    np.testing.assert_allclose(
        direction.block(), math.sqrt(v) * plain.block(), rtol=4 * np.finfo(dtype).eps
    )


def test_what_has_no_closed_form_is_not_shrunk():
    with pytest.raises(gs.NoClosedForm, match="Guided ES has no closed-form error"):
        gs.shrunk(gs.Guided())


# --- names -------------------------------------------------------------------------------------


def test_the_papers_methods_are_their_directions():
    named = {name: gs.directions.named(name) for name in gs.directions.METHODS}
    assert named["gs"] == gs.Gaussian()
    assert named["bes"] == gs.Bernoulli()
    assert named["gs-shrinkage"] == gs.shrunk(gs.Gaussian())
    assert named["bes-shrinkage"] == gs.shrunk(gs.Bernoulli())
    assert named["orthogonal-es"] == gs.Orthogonal("residual")
    assert named["guided-es"] == gs.Guided()
    in_paper = {name for name, method in gs.directions.METHODS.items() if method.in_paper}
    assert in_paper == set(list(named)[:6])


def test_a_method_with_its_size_has_everything_filled_in():
    assert gs.directions.named("gs-shrinkage", dim=99, num_directions=20).factor == pytest.approx(
        1 / 6
    )
    assert gs.directions.named("guided-es", dim=20, num_directions=5).history == 10


def test_a_long_history_takes_memory_only_as_it_grows():
    """And is the same as one whose memory is taken at once, to the last bit."""
    long, rng = gs.Guided(history=10**12), np.random.default_rng(0)
    state = long.init(3, np.dtype(np.float64))
    estimates = rng.standard_normal((700, 3))
    for estimate in estimates:
        state = long.update(state, estimate)
    assert state.history.tobytes() == estimates.tobytes()
    np.testing.assert_allclose(state.gram, estimates @ estimates.T, atol=1e-12)


# --- memory that directions live on --------------------------------------------------------------


@each_dtype
def test_guided_directions_that_are_held_are_the_same_and_their_memory_is_used_again(dtype):
    for L in (1, 2, 5):
        family, d = gs.Guided(alpha=0.3, history=3), 2 * 2048 + 5
        state = state_of(family, d, dtype)
        at = Address(seed=1, step=0, num_directions=L, dim=d, dtype=np.dtype(dtype))
        made = family.draw(state, at)
        in_memory = made.in_memory()
        assert in_memory is not made
        x, weights = np.linspace(-1, 1, d).astype(dtype), np.arange(1.0, L + 1)
        order, c = np.arange(L), np.full(L, 0.1)
        points = [draw.perturb(x, order, c, np.empty((L, d), dtype)) for draw in (made, in_memory)]
        assert np.array_equal(*points)
        for one, other in zip(
            made.estimate(weights, 0.3), in_memory.estimate(weights, 0.3), strict=True
        ):
            assert np.array_equal(one, other)
        first = in_memory.law.block
        again = family.draw(state, at._replace(step=1)).in_memory()  # somebody has the first still
        assert again.law.block is not first
        address = again.law.block.ctypes.data
        del again
        assert family.draw(state, at._replace(step=2)).in_memory().law.block.ctypes.data == address


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", [False, True])
def test_normals_that_are_held_are_the_same(dtype, metric):
    """At d = 2100, L = 3 they are kept for the estimate; at a few entries, or millions, not."""
    L, d = 3, 2100
    at = Address(seed=4, step=6, num_directions=L, dim=d, dtype=np.dtype(dtype))
    made = gs.shrunk(gs.Gaussian(), scale="estimate").resolve(d, L).draw((), at)
    x = np.linspace(-1, 1, d, dtype=dtype)
    weights, order, c = np.array([0.5, -2.0, 0.1]), np.array([2, 2, 0]), np.array([0.3, -0.3, 0.1])
    if metric:
        made = ScaledDraw(made, np.linspace(0.5, 3, d))
    in_memory = made.in_memory()
    assert in_memory is not made
    assert in_memory.factor == made.factor != 1
    points = [draw.perturb(x, order, c, np.empty((L, d), dtype)) for draw in (made, in_memory)]
    assert np.array_equal(*points)
    assert np.array_equal(made.block(), in_memory.block())
    for ours, theirs in zip(
        (*made.estimate(weights, 0.3), *made.combine(weights)),
        (*in_memory.estimate(weights, 0.3), *in_memory.combine(weights)),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)
    for few in (at._replace(dim=7), at._replace(dim=2**20)):
        draw = gs.Gaussian().draw((), few)
        assert draw.in_memory() is draw
    coins = gs.Bernoulli().draw((), at)
    assert coins.in_memory() is coins


def test_many_more_directions_than_estimates_are_not_held():
    family = gs.Guided(history=3)
    state = state_of(family, 9, np.float64)
    at = Address(seed=1, step=0, num_directions=7, dim=9, dtype=np.dtype(float))
    draw = family.draw(state, at)
    assert draw.in_memory() is draw


def test_a_copied_or_pickled_history_reads_its_own_memory():
    family = gs.Guided(history=3)
    state = state_of(family, 9, np.float64)
    at = Address(seed=1, step=0, num_directions=4, dim=9, dtype=np.dtype(float))
    expected = family.draw(state, at).block()
    copies = copy.deepcopy(state), pickle.loads(pickle.dumps(state))
    for vector in state.estimates.arrays:
        vector[:] = np.nan
    for each in copies:
        assert np.array_equal(family.draw(each, at).block(), expected)
