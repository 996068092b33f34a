"""Calling a closure: the checks on the loss that it returns, and torch's random generators."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gensmooth import checks

Tensor = torch.Tensor
Closure = Callable[[], Any]

BACKWARD = (
    "The closure computes gradients, for example by backward(), but ZerothOrder uses none: it must "
    "only compute and return the loss. The step was not taken."
)


def call(closure: Closure) -> Any:
    """Call a closure; calling backward() in it is an error."""
    try:
        return closure()
    except RuntimeError as error:
        if "does not require grad" in str(error):
            raise ValueError(BACKWARD) from error
        raise


def as_loss(loss: Any) -> Any:
    """Check a loss and return it as a float or a scalar tensor."""
    if isinstance(loss, Tensor):
        if loss.numel() != 1:
            raise ValueError(
                f"The closure must return one number, but returned a tensor of shape "
                f"{tuple(loss.shape)}: did you forget mean()? The step was not taken."
            )
        if loss.requires_grad:
            raise ValueError(
                "The closure returned a tensor that requires a gradient: it must not enable "
                "gradients. The step was not taken."
            )
        if loss.is_complex():
            raise ValueError(
                f"The closure must return a real number, but returned a {loss.dtype} tensor. The "
                "step was not taken."
            )
        return loss.detach().reshape(()).clone()
    try:
        if loss is None or isinstance(loss, str | bytes):
            raise TypeError
        return float(loss)
    except Exception:
        raise ValueError(
            f"The closure must return the loss, one number, but returned {checks.shown(loss)}. The "
            "step was not taken."
        ) from None


def as_floats(losses: list[Any]) -> list[float]:
    """Convert losses to floats, waiting for the device once instead of once for each."""
    tensors = [each for each in losses if isinstance(each, Tensor)]
    if len(tensors) == len(losses) and len({each.device for each in tensors}) == 1:
        stacked: Any = torch.stack([each.double() for each in tensors])
        return stacked.tolist()
    return [float(each) for each in losses]


def generators_of(devices: Sequence[torch.device]) -> list[torch.Generator]:
    """Return torch's default generators for the CPU and these devices."""
    on_cuda: Any = torch.cuda.default_generators
    return [torch.default_generator, *(on_cuda[device.index or 0] for device in devices)]


@contextmanager
def restored(generators: list[torch.Generator]) -> Generator[None]:
    """Restore the generators' states on exit."""
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
