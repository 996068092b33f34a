"""Finding the layers of a model: modules that own parameters, and compiled modules."""

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from gensmooth.torch.hooks import Wrapped

Tensor = torch.Tensor


@dataclass(eq=False)
class HookedLayer:
    """A module, and the parameters that are perturbed while it runs."""

    module: nn.Module
    names: list[str]
    compiled: bool
    wrapped: Wrapped | None = None


def find_layers(modules: list[nn.Module], names: Mapping[int, str]) -> dict[int, HookedLayer]:
    """Return the modules that own parameters to be moved, by identity."""
    layers: dict[int, HookedLayer] = {}
    for module in outermost(modules):
        compiled = is_compiled(module)
        owned = module.parameters(recurse=compiled)
        moved = list(dict.fromkeys(names[id(w)] for w in owned if id(w) in names))
        if moved:
            layers[id(module)] = HookedLayer(module, moved, compiled)
    return layers


def outermost(modules: list[nn.Module]) -> list[nn.Module]:
    """Return the modules that are not inside a compiled one."""
    compiled = filter(is_compiled, modules)
    inside = {id(part) for each in compiled for part in each.modules() if part is not each}
    return [each for each in modules if id(each) not in inside]


def is_compiled(module: nn.Module) -> bool:
    """Return whether a module is compiled by ``torch.compile`` or is a TorchScript module."""
    return (
        hasattr(module, "_orig_mod")
        or getattr(module, "_compiled_call_impl", None) is not None
        or isinstance(module, torch.jit.ScriptModule)
    )


def owners(parameters: Iterable[Tensor]) -> list[nn.Module]:
    """Return all live modules that contain one of these parameters, directly or nested."""
    wanted = {id(w) for w in parameters}
    return [each for each in live_modules() if any(id(w) in wanted for w in each.parameters())]


def live_modules() -> list[nn.Module]:
    """Return all modules in this program."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), nn.Module) and "_parameters" in each.__dict__
    ]
