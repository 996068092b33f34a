"""gs.torch on a CUDA device: the same bits as on the CPU. Run where there is one."""

import pytest

import gensmooth as gs
from torch_cases import TYPES, bits, decoder, torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("directions", ["bes", "gs", "low-rank", "sparse"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_give_the_same_bits_on_both_devices(dtype, directions, momentum):
    found = []
    for device in ("cpu", "cuda"):
        model = decoder(dtype).to(device)
        opt = gs.torch.ZerothOrder(
            model, lr=0.1, num_directions=3, directions=directions, momentum=momentum, seed=0
        )
        for weights in ([1.0, -2.0, 0.5], [0.1, 0.0, -3.0]):
            opt.apply(weights)
        found.append(bits(model))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", TYPES)
def test_evaluations_leave_every_parameter_as_it_was(dtype):
    model = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.Linear(65, 7)).to("cuda", dtype)
    before, opt = bits(model), gs.torch.ZerothOrder(model, num_directions=20, seed=0)
    x = torch.ones(3, 33, device="cuda", dtype=dtype)
    for direction in range(20):
        with opt.perturbed(direction=direction):
            model(x)
    assert bits(model) == before
