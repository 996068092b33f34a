"""A step of MeZO, for comparison with ours.

It has one Gaussian pair. Torch's generator makes the noise; it is seeded again for each of four
passes over the parameters: +c, −2c, +c, and the update.
"""

from collections.abc import Callable

import torch
from torch import nn

SEED_BOUND = 1_000_000_000


def shift(model: nn.Module, seed: int, amount: float) -> None:
    """``w ← w + amount · z`` for all parameters, z from a generator seeded for this pass."""
    torch.manual_seed(seed)
    for w in model.parameters():
        z = torch.normal(mean=0, std=1, size=w.data.size(), device=w.device, dtype=w.dtype)
        w.data = w.data + amount * z


def step(
    model: nn.Module, closure: Callable[[], torch.Tensor], seed: int, lr: float, spacing: float
) -> None:
    """One step of an antithetic estimate along one direction."""
    with torch.no_grad():
        shift(model, seed, spacing)
        right = closure()
        shift(model, seed, -2 * spacing)
        left = closure()
        shift(model, seed, spacing)
        weight = ((right - left) / (2 * spacing)).item()
        shift(model, seed, -lr * weight)
