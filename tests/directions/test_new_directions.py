"""Sparse, block-coordinate and low-rank directions: their laws, and how a search uses them."""

import itertools
import math
import re

import numpy as np
import pytest
from test_directions import _check_the_three_agree

import gensmooth as gs
import theory_literal as literal
from gensmooth import theory
from gensmooth.directions import Address
from gensmooth.kernels import subsets

DTYPES = [np.float32, np.float64]


def at(L, d, dtype=np.float64, *, seed=5, step=3):
    return Address(seed=seed, step=step, num_directions=L, dim=d, dtype=np.dtype(dtype))


def bowl(x):
    return float((np.asarray(x) ** 2).sum())


# --- a random few of the coordinates


def test_every_subset_is_as_likely():
    d, k, reps = 6, 3, 20_000
    key = at(1, d).key()
    counts = dict.fromkeys(itertools.combinations(range(d), k), 0)
    for index in range(reps):
        counts[tuple(subsets.choose(key, index, k, d).tolist())] += 1
    seen, expected = np.array(list(counts.values())), reps / len(counts)
    chi2 = ((seen - expected) ** 2 / expected).sum()
    n = len(counts) - 1
    assert abs(chi2 - n) < 5 * math.sqrt(2 * n)
    # A twin that draws with replacement leaves some out.
    assert len(counts) == math.comb(d, k)
    assert seen.min() > 0.8 * expected


@pytest.mark.parametrize(
    ("d", "k"), [(1, 1), (5, 5), (64, 64), (65, 1), (2049, 1000), (9001, 9000)]
)
def test_a_subset_has_its_size_and_is_sorted(d, k):
    found = subsets.choose(at(1, d).key(), 7, k, d)
    assert len(found) == k
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert found[-1] < d


def test_a_direction_moves_k_coordinates_its_own_or_the_steps():
    for entries in ("bernoulli", "gaussian"):
        for subset in ("direction", "step"):
            block = gs.Sparse(4, entries=entries, subset=subset).draw((), at(6, 40)).block()
            moved = [frozenset(np.flatnonzero(row)) for row in block]
            assert {len(each) for each in moved} == {4}
            assert (len(set(moved)) == 1) == (subset == "step")
            if entries == "bernoulli":
                np.testing.assert_allclose(np.abs(block[block != 0]), math.sqrt(10), rtol=1e-15)


def test_blocks_differ_from_step_to_step():
    family = gs.Sparse(4, subset="step")
    first, second = (family.draw((), at(2, 40, step=step)).coordinates(0) for step in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("kurtosis", [1.0, 3.0])
def test_sparse_moments_at_the_ends(kurtosis):
    for d, L in ((1, 1), (7, 3), (100, 20)):
        dense = theory.iid(d, L, kurtosis=kurtosis)
        for family in (theory.sparse, theory.block_coordinate):
            found = family(d, L, size=d, kurtosis=kurtosis)
            assert found.fourth == pytest.approx(dense.fourth)
            assert found.second == pytest.approx(dense.second)
        one = theory.block_coordinate(d, L, size=1, kurtosis=1.0)
        assert one.second == pytest.approx(d)  # a coordinate's derivative, d times, one in d


def test_a_size_above_d_is_refused():
    with pytest.raises(ValueError, match="`size` must be at most the number of parameters, 3"):
        gs.minimize(bowl, np.ones(3), directions=gs.Sparse(5), budget=50)
    with pytest.raises(ValueError, match="`size` must be at most `dim`, 3, but is 5"):
        theory.sparse(3, 2, size=5)
    with pytest.raises(ValueError, match="`subset` must be"):
        gs.Sparse(subset="both")


# --- matrices of low rank

SHAPES = [(1, 1), (1, 7), (5, 4), (40, 60), ((3, 4), (5,)), ((2, 3), (2, 3)), ((7,),)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("entries", ["gaussian", "bernoulli"])
def test_low_rank_block_perturb_and_combine_see_the_same_numbers(shape, dtype, entries):
    for rank in (1, 2, 5):
        family = gs.LowRank(rank, shape, entries=entries)
        d = sum(map(math.prod, family.shapes))
        rng = np.random.default_rng(d)
        x, weights = rng.standard_normal(d).astype(dtype), rng.standard_normal(3)
        for draw in (
            family.draw((), at(3, d, dtype)),
            family.draw((), at(3, d, dtype)).rescaled(length=0.3, factor=2.0, threads=3),
        ):
            _check_the_three_agree(draw, x, [0.1, 0.0, -0.3], weights)


def test_a_low_rank_direction_is_the_product_of_its_factors():
    m, n, r, L = 6, 5, 2, 4
    block = gs.LowRank(r, (m, n)).draw((), at(L, m * n)).block()
    factors = gs.Gaussian().draw((), at(L, (m + n) * r)).block()
    for row, factor in zip(block, factors, strict=True):
        a, b = factor[: m * r].reshape(m, r), factor[m * r :].reshape(r, n)
        np.testing.assert_allclose(row.reshape(m, n), a @ b / math.sqrt(r), rtol=1e-12, atol=1e-12)
        assert np.linalg.matrix_rank(row.reshape(m, n)) == r
    longer = gs.LowRank(r, (m, n)).draw((), at(L, m * n)).rescaled(length=0.5).block()
    np.testing.assert_allclose(longer, 0.5 * block, rtol=1e-14)


@pytest.mark.parametrize("entries", ["gaussian", "bernoulli"])
@pytest.mark.parametrize(("m", "n", "rank"), [(3, 4, 1), (3, 4, 2), (2, 2, 3), (5, 1, 1)])
def test_low_rank_moments(entries, m, n, rank):
    L, reps, d = 2, 20_000, m * n
    family = gs.LowRank(rank, (m, n), entries=entries)
    block = family.draw((), at(L * reps, d)).block().reshape(reps, L, d)
    g = np.random.default_rng(0).standard_normal(d)  # no matrix of rank one
    estimates = np.einsum("rld,rl->rd", block, block @ g) / L
    moments = family.moments(d, L)
    g2 = float(g @ g)
    assert abs(literal.z_score(estimates @ g, moments.mean * g2)) < 4
    lengths = (estimates**2).sum(1)
    assert abs(literal.z_score(lengths, moments.second * g2)) < 4
    # The twins: independent entries, and independent entries of the kurtosis of these.
    kappa = 3.0 if entries == "gaussian" else 1.0
    own = family.kurtosis(d, L)
    for wrong in (theory.iid(d, L, kurtosis=kappa), theory.iid(d, L, kurtosis=own)):
        if abs(wrong.second - moments.second) > 0.3:
            assert abs(literal.z_score(lengths, wrong.second * g2)) > 6
    fourth = (block.reshape(-1, d) ** 4).mean(1)
    assert abs(literal.z_score(fourth, own)) < 4
    assert abs(literal.z_score(fourth, 1.25 * own)) > 6


def test_low_rank_moments_as_the_rank_grows_are_those_of_independent_entries():
    limit = theory.low_rank(30, 20, 8, rank=10**9)
    assert limit.fourth == pytest.approx(theory.iid(600, 8).fourth)
    assert theory.low_rank(30, 20, 8, kurtosis=1.0).fourth == 600  # ‖abᵀ‖² = mn for coins
    assert gs.shrunk(gs.LowRank(shape=(30, 20))).resolve(600, 8).factor == pytest.approx(
        8 / (8 + 32 * 22 - 1)
    )


def test_parts_of_different_shapes_have_no_one_error():
    with pytest.raises(gs.NoClosedForm, match="which part the gradient is in"):
        gs.shrunk(gs.LowRank(shape=((3, 4), (5,))))
    alike = gs.LowRank(shape=((3, 4), (3, 4))).moments(24, 5)
    assert alike.fourth == pytest.approx(theory.low_rank(3, 4, 5).fourth + 12)
    with pytest.raises(gs.NoClosedForm, match=re.escape("gs.LowRank(shape=(m, n))")):
        gs.shrunk(gs.LowRank())


def test_low_rank_takes_the_shape_of_x():
    result = gs.minimize(
        bowl, np.ones((4, 5)), method="low-rank", num_directions=4, budget=60, seed=0
    )
    assert result.x.shape == (4, 5)
    named = gs.minimize(
        bowl,
        np.ones(20),
        directions=gs.LowRank(shape=(4, 5)),
        num_directions=4,
        budget=60,
        seed=0,
    )
    assert np.array_equal(result.x.reshape(-1), named.x)
    found = gs.gradient(bowl, np.ones((4, 5)), method="low-rank", num_directions=2, seed=0)
    assert found.gradient.shape == (4, 5)


def test_what_is_no_matrix_is_refused_by_low_rank():
    with pytest.raises(ValueError, match=r"need a matrix, but x has shape \(6,\)"):
        gs.minimize(bowl, np.ones(6), method="low-rank", budget=50)
    with pytest.raises(ValueError, match=r"has 20 entries, but x has 6"):
        gs.minimize(bowl, np.ones(6), directions=gs.LowRank(shape=(4, 5)), budget=50)
    for wrong in ((2, 3, 4), ((2, 3, 4),), "abc", (), 5, (0, 3)):
        with pytest.raises((ValueError, TypeError), match="`shape`"):
            gs.LowRank(shape=wrong)


# --- a search with them


@pytest.mark.parametrize("method", ["sparse-bes", "block-gs-shrinkage", "low-rank", "low-rank-bes"])
def test_serial_processes_and_resume_are_the_same_bit_for_bit(method, tmp_path):
    options = {"method": method, "num_directions": 6, "spacing": 0.1, "seed": 3}
    options |= {"optimizer": gs.sgd(0.01)}
    x0 = np.linspace(-1, 1, 30).reshape(5, 6)
    alone = gs.minimize(bowl, x0, budget=300, **options)
    several = gs.minimize(bowl, x0, budget=300, workers=2, **options)
    assert np.array_equal(alone.x, several.x)
    gs.minimize(bowl, x0, budget=300, max_steps=10, folder=tmp_path / "run", **options)
    resumed = gs.resume(tmp_path / "run", bowl, max_steps=10**6)
    assert np.array_equal(alone.x, resumed.x)
    assert alone.fun < bowl(x0)
