"""Which modules of a model are layers: those that own parameters, and compiled ones."""

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
    """The modules that own parameters to be moved, by identity."""
    found: dict[int, HookedLayer] = {}
    for module in outermost(modules):
        compiled = is_compiled(module)
        own = module.parameters(recurse=compiled)
        mine = list(dict.fromkeys(names[id(w)] for w in own if id(w) in names))
        if mine:
            found[id(module)] = HookedLayer(module, mine, compiled)
    return found


def outermost(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules that are not inside a compiled one."""
    compiled = filter(is_compiled, modules)
    inside = {id(part) for each in compiled for part in each.modules() if part is not each}
    return [each for each in modules if id(each) not in inside]


def is_compiled(module: nn.Module) -> bool:
    """Whether a module is run by ``torch.compile``, or as a script."""
    return (
        hasattr(module, "_orig_mod")
        or getattr(module, "_compiled_call_impl", None) is not None
        or isinstance(module, torch.jit.ScriptModule)
    )


def owners(parameters: Iterable[Tensor]) -> list[nn.Module]:
    """All modules in this program that have one of these parameters, their own or further in."""
    wanted = {id(w) for w in parameters}
    return [each for each in live_modules() if any(id(w) in wanted for w in each.parameters())]


def live_modules() -> list[nn.Module]:
    """All modules in this program."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), nn.Module) and "_parameters" in each.__dict__
    ]
