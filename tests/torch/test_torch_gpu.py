"""gs.torch on a CUDA device: the same bits as on the CPU. Run where there is one."""

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.torch import cpu
from torch_cases import TYPES, bits, decoder, torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("method", ["bes", "gs", "low-rank", "sparse"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("number", [1, 3, 11])  # all parameters at once; one by one; with a table
def test_steps_give_the_same_bits_on_both_devices(dtype, method, momentum, number):
    found = []
    for device in ("cpu", "cuda"):
        model = decoder(dtype).to(device)
        opt = gs.torch.ZerothOrder(
            model, lr=0.1, num_directions=number, method=method, momentum=momentum, seed=0
        )
        for weights in np.random.default_rng(0).normal(size=(3, number)):
            opt.apply(weights.tolist())
        found.append(bits(model))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("law", [0, 1])
def test_where_a_tensor_lies_changes_nothing(dtype, law):
    """What was compiled for an address that is a multiple of 16 is not used for another."""
    from gensmooth.torch import gpu

    key, size = (1, 2**32 - 2, 3, 4), 8192
    before = len(gpu._STARTS)
    whole = torch.randn(size + 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    for amounts in ([0.1], [0.1, -0.2], [0.1 * i for i in range(9)]):
        for offset in (0, 1, 2, 4, 8, 0, 3):
            w = whole[offset : offset + size]
            here, there = torch.empty_like(w), torch.zeros(size + 64, dtype=dtype, device="cuda")
            near = there[offset : offset + size]
            near.copy_(w)
            indices = range(len(amounts))
            cpu.move(key, law, None, w.contiguous(), indices, amounts, 1.0, here)
            gpu.move(key, law, None, near, indices, amounts, 1.0, near)
            assert torch.equal(near.cpu(), here)
            assert not there[:offset].any()
            assert not there[offset + size :].any()
    assert len(gpu._STARTS) > before  # what was compiled is started again without Triton


def test_normals_by_hand_are_those_of_the_series_for_every_word():
    """Divisions and roots by hand against Triton's own, and what is fused, for all 2^32 words."""
    from torch_radii import count_unequal

    assert count_unequal() == (0, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["bes", "gs"])
def test_layers_that_are_perturbed_at_once_have_the_values_of_each(dtype, method):
    """From the third evaluation on, one start fills the buffer for several layers."""
    sizes, found = [(64, 512), (512, 60), (60, 64), (64, 300), (300, 64)], []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(a, b) for a, b in sizes]
        model = torch.nn.Sequential(*layers).to(device, dtype)
        opt = gs.torch.ZerothOrder(model, lr=1e-6, num_directions=3, method=method, seed=0)
        before, x = bits(model), torch.ones(3, 64, dtype=dtype, device=device)
        for direction in (0, 1, 2, 0):
            values: list[torch.Tensor] = []

            def note(layer, *_, values=values):
                values.extend(w.detach().clone() for w in layer.parameters())

            handles = [layer.register_forward_hook(note) for layer in layers]
            with opt.perturbed(direction=direction):
                model(x)
                together = opt._layers._open is not None
            for handle in handles:
                handle.remove()
            found.append([w.cpu() for w in values])
        assert together
        assert bits(model) == before
    here, there = found[:4], found[4:]
    for one, other in zip(here, there, strict=True):
        assert len(one) == 2 * len(sizes)
        assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("dtype", TYPES)
def test_evaluations_leave_every_parameter_as_it_was(dtype):
    model = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.Linear(65, 7)).to("cuda", dtype)
    before, opt = bits(model), gs.torch.ZerothOrder(model, lr=1e-6, num_directions=20, seed=0)
    x = torch.ones(3, 33, device="cuda", dtype=dtype)
    for direction in range(20):
        with opt.perturbed(direction=direction):
            model(x)
    assert bits(model) == before
