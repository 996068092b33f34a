"""Addresses: distinct ones never meet, and a number depends on its address alone."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gensmooth import streams
from gensmooth.streams import Purpose, generator, key_and_counter

seeds = st.integers(0, 2**64 - 1)
purposes = st.sampled_from(Purpose)
steps = st.integers(0, 2**56 - 1)


@given(seed=seeds, purpose=purposes, step=steps)
def test_the_address_can_be_read_back_from_key_and_counter(seed, purpose, step):
    k0, k1, c2, c3 = key_and_counter(seed, purpose, step)
    assert max(k0, k1, c2, c3) < 2**32
    assert (k1 << 32 | k0, c3 >> 24, (c3 & 0xFFFFFF) << 32 | c2) == (seed, purpose, step)


def test_purposes_are_the_numbers_written_on_disk():
    names = ["DIRECTION", "SIGNS", "ROWS", "GUIDE", "SAMPLE", "START", "DATA", "TEST"]
    names += ["LEFT", "RIGHT", "CHOICE"]
    assert [Purpose[name] for name in names] == list(range(1, 12)) == list(Purpose)


@settings(max_examples=30)
@given(seed=seeds, purpose=purposes, step=steps, index=st.integers(0, 2**63))
def test_a_generator_is_numpys_philox_at_its_address(seed, purpose, step, index):
    ours = generator(seed, purpose, step=step, index=index)
    key, counter = seed | int(purpose) << 64, index << 64 | step << 128
    numpys = np.random.Generator(np.random.Philox(key=key, counter=counter))
    assert np.array_equal(ours.integers(2**64, size=9, dtype="u8"), _raw(numpys, 9))


def _raw(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(2**64, size=count, dtype="u8")


def test_a_generator_does_not_feel_the_others():
    alone = generator(1, Purpose.SAMPLE, step=2, index=3).standard_normal(5)
    others = [generator(1, Purpose.SAMPLE, step=2, index=i) for i in range(6)]
    for rng in others:
        rng.standard_normal(1000)
    again = generator(1, Purpose.SAMPLE, step=2, index=3)
    others[3].standard_normal(7)
    assert np.array_equal(again.standard_normal(5), alone)


NEIGHBOURS = [
    {"seed": 8},
    {"seed": 7 + 2**32},
    {"purpose": Purpose.TEST},
    {"step": 4},
    {"step": 3 + 2**32},
    {"index": 6},
    {"index": 5 + 2**32},
]
HOME = {"seed": 7, "purpose": Purpose.SAMPLE, "step": 3, "index": 5}


def _at(**change) -> np.random.Generator:
    address = HOME | change
    return generator(
        address["seed"], address["purpose"], step=address["step"], index=address["index"]
    )


@pytest.mark.parametrize("change", NEIGHBOURS, ids=str)
def test_neighbouring_addresses_are_uncorrelated_and_share_no_words(change):
    n = 100_000
    ours, others = _at().standard_normal(n), _at(**change).standard_normal(n)
    # Products of independent N(0, 1) have mean 0 and variance 1.
    assert abs((ours * others).sum() / np.sqrt(n)) < 4
    assert (ours * _at().standard_normal(n)).sum() / np.sqrt(n) > 6  # the twin: no change at all
    words = np.concatenate([_raw(_at(), n), _raw(_at(**change), n)])
    assert len(np.unique(words)) == 2 * n  # 2e-9 is the chance of any coincidence


@given(seed=seeds)
def test_valid_seeds_are_kept(seed):
    assert streams.check_seed(seed) == seed
    assert streams.check_seed(np.uint64(seed)) == seed
    assert type(streams.check_seed(np.uint64(seed))) is int


def test_without_a_seed_each_call_draws_its_own():
    drawn = {streams.check_seed(None) for _ in range(5)}
    assert len(drawn) == 5
    assert all(0 <= seed < 2**64 for seed in drawn)


@pytest.mark.parametrize("seed", [1.0, "1", True, [1]])
def test_what_is_no_integer_is_refused_as_a_seed(seed):
    with pytest.raises(TypeError, match="`seed` must be an integer or None, but is"):
        streams.check_seed(seed)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_outside_64_bits_are_refused(seed):
    with pytest.raises(ValueError, match=rf"\[0, 2\*\*64\), but is {seed}"):
        streams.check_seed(seed)


def test_a_generator_travels_and_its_children_have_its_address():
    ours, same = (generator(5, Purpose.SAMPLE, step=2, index=3) for _ in range(2))
    assert pickle.loads(pickle.dumps(ours)).random() == same.random()
    children = [child.random() for child in ours.spawn(2) + ours.spawn(1)]
    assert children == [child.random() for child in same.spawn(3)]
    other = generator(5, Purpose.SAMPLE, step=2, index=4)
    assert len({*children, *(child.random() for child in other.spawn(3))}) == 6
