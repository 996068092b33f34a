"""Directions of tensors: the streams of the core under a parameter's own seed, rounded once."""

import numpy as np
import pytest

from gensmooth.directions.draw import Address, normals, signs
from gensmooth.streams import named_seed
from torch_cases import (
    TYPES,
    ChosenTiles,
    Law,
    Stream,
    backend,
    follow,
    gather,
    perturb,
    torch,
)

CPU = torch.device("cpu")
SIZES = [1, 63, 2048, 5000]


def reference(law, seed, step, directions, size):
    """Directions as the core makes them: an independent way to the same numbers."""
    at = Address(seed, step, max(directions) + 1, size, np.dtype(np.float32))
    draw = signs(at) if law.entries == "coin" else normals(at)
    return torch.from_numpy(draw.block()[directions] * np.float32(law.scale))


def made(w, law, *, step=3, directions=(0,), amounts=(1.0,), keep=1.0, name="w"):
    out = torch.empty_like(w)
    stream = Stream(named_seed(7, name), law)
    how = {"step": step, "directions": directions, "amounts": amounts, "keep": keep}
    perturb(w, out, stream=stream, chosen=ChosenTiles(), **how)
    return out


@pytest.mark.parametrize("entries", ["coin", "normal"])
@pytest.mark.parametrize("size", SIZES)
def test_directions_are_those_of_the_core_under_the_name_of_the_parameter(entries, size):
    law = Law(entries)
    for direction in (0, 5):
        found = made(torch.zeros(size), law, directions=[direction])
        assert torch.equal(found, reference(law, named_seed(7, "w"), 3, [direction], size)[0])


@pytest.mark.parametrize("entries", ["coin", "normal"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_perturbation_is_rounded_once(entries, dtype):
    law = Law(entries, scale=0.75)
    w = torch.randn(5000, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = made(w, law, directions=[2], amounts=[-1e-3])
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    # the scale is folded into the amount before it is rounded to the type of the sum
    unit = reference(Law(entries), named_seed(7, "w"), 3, [2], 5000)[0].to(wide)
    amount = torch.tensor(0.75 * -1e-3, dtype=wide)
    assert torch.equal(found, (w.to(wide) + amount * unit).to(dtype))


@pytest.mark.parametrize("entries", ["coin", "normal"])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_update_sums_in_the_order_of_directions_and_rounds_once(entries, dtype):
    law, amounts = Law(entries), [0.1, -0.02, 0.003]
    w = torch.randn(5000, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = made(w, law, directions=range(3), amounts=amounts, keep=0.9)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    units = reference(law, named_seed(7, "w"), 3, [0, 1, 2], 5000).to(wide)
    total = torch.zeros(5000, dtype=wide)
    for amount, unit in zip(amounts, units, strict=True):
        total = total + torch.tensor(amount, dtype=wide) * unit
    assert torch.equal(found, (torch.tensor(0.9, dtype=wide) * w.to(wide) + total).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_exactly_and_rounded_to_the_nearest_even(dtype):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = every[~every.isnan()]
    out = torch.empty_like(numbers)
    on = backend(CPU)
    nothing = torch.zeros(len(numbers))
    on.follow(numbers, nothing, 0.0, 1.0, out)
    expected = (numbers.float() + 0).to(dtype)  # −0 + 0 = 0
    assert torch.equal(out.view(torch.int16), expected.view(torch.int16))
    words = np.random.default_rng(0).integers(0, 2**32, 300_000, dtype=np.uint32)
    floats = words.view(np.float32)
    halfway = (numbers[:-1].float() + numbers[1:].float()) / 2
    special = torch.tensor([np.nan, np.inf, -np.inf])
    floats = torch.cat([torch.from_numpy(floats), halfway, special])
    out = torch.empty(len(floats), dtype=dtype)
    on.follow(torch.zeros(len(floats), dtype=dtype), floats, 1.0, 1.0, out)
    expected = (floats + 0).to(dtype)
    assert torch.equal(out.isnan(), expected.isnan())
    there = ~expected.isnan()
    assert torch.equal(out[there].view(torch.int16), expected[there].view(torch.int16))


def test_a_direction_does_not_depend_on_type_threads_or_neighbours():
    law = Law("normal")
    single = made(torch.zeros(9000), law)
    assert torch.equal(made(torch.zeros(9000, dtype=torch.float64), law).float(), single)
    assert torch.equal(made(torch.zeros(5000), law), single[:5000])
    big = torch.zeros(2**22 + 100)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = made(big, Law("coin"))
        torch.set_num_threads(3)
        assert torch.equal(made(big, Law("coin")), alone)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("change", [{"step": 4}, {"directions": (1,)}, {"name": "v"}])
@pytest.mark.parametrize("entries", ["coin", "normal"])
def test_every_part_of_an_address_matters(change, entries):
    a, b = made(torch.zeros(4096), Law(entries)), made(torch.zeros(4096), Law(entries), **change)
    # independent entries of variance 1: the sum of products is N(0, 4096)
    assert abs(float((a * b).sum())) / 64 < 4
    assert abs(float((a * a).sum() - 4096)) / 64 < 8  # a twin: of itself it is not


def test_low_rank_directions_are_products_of_their_factors_with_variance_one():
    law = Law("coin", rank=2)
    found = made(torch.zeros(60, 30), law, directions=[1])
    assert torch.linalg.matrix_rank(found) == 2
    assert set(found.unique().tolist()) <= {-(2**0.5), 0.0, 2**0.5} or found.abs().max() < 1.5
    many = torch.stack([made(torch.zeros(60, 30), law, directions=[i]) for i in range(200)])
    # E ε² = 1; Var ε² = 1 for rank 2 of coins, entries of a matrix share factors
    assert abs(float(many.square().mean() - 1)) < 0.05
    vector = made(torch.zeros(60), law, directions=[1])
    assert torch.equal(vector, made(torch.zeros(60), Law("coin"), directions=[1]))


def test_low_rank_sums_are_the_sums_of_the_directions():
    law = Law("normal", rank=3)
    w = torch.ones(7, 2100)
    parts = [
        made(torch.zeros_like(w), law, directions=[i], amounts=[a]) for i, a in enumerate((1, 2))
    ]
    both = made(w, law, directions=[0, 1], amounts=[1, 2])
    torch.testing.assert_close(both, w + parts[0] + parts[1], rtol=1e-5, atol=1e-5)


def test_sparse_directions_move_whole_tiles_and_the_same_ones_for_all_directions():
    law = Law("coin", density=0.25)
    w = torch.zeros(2048 * 400 + 5)
    found = made(w, law)
    tiles = found[: 2048 * 400].reshape(400, 2048)
    chosen = (tiles != 0).all(1)
    assert torch.equal((tiles != 0).any(1), chosen)
    assert abs(float(chosen.sum()) - 100) / (400 * 0.25 * 0.75) ** 0.5 < 4
    other = made(w, law, directions=[1])
    assert torch.equal((found != 0), (other != 0))
    assert not torch.equal((made(w, law, step=4) != 0), (found != 0))
    full = made(w, Law("coin"))
    assert torch.equal(found[found != 0], full[found != 0])


@pytest.mark.parametrize(
    "law", [Law("coin"), Law("normal"), Law("coin", rank=2), Law("coin", density=0.5)]
)
def test_momentum_gathers_what_an_update_would_add(law):
    stream = Stream(named_seed(0, "w"), law)
    velocity = torch.ones(50, 120)
    how = {"stream": stream, "step": 2, "directions": [0, 1], "chosen": ChosenTiles()}
    gather(velocity, amounts=[0.5, -2.0], keep=0.9, **how)
    plain = torch.zeros(50, 120)
    perturb(plain, plain, amounts=[0.5, -2.0], **how)
    torch.testing.assert_close(velocity, 0.9 * torch.ones(50, 120) + plain, rtol=1e-6, atol=1e-6)
    w = torch.full((50, 120), 3.0)
    follow(w, velocity, amount=-0.1, keep=0.5)
    torch.testing.assert_close(w, 1.5 - 0.1 * velocity, rtol=1e-6, atol=1e-6)
