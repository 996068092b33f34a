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
    inside: set[int] = set()
    for module in modules:
        if is_compiled(module):
            inside.update(id(part) for part in module.modules() if part is not module)
    for module in modules:
        if id(module) in inside:
            continue
        compiled = is_compiled(module)
        own = module.parameters(recurse=compiled)
        mine = list(dict.fromkeys(names[id(w)] for w in own if id(w) in names))
        if mine:
            found[id(module)] = HookedLayer(module, mine, compiled)
    return found


def is_compiled(module: nn.Module) -> bool:
    """Whether a module is run by ``torch.compile``, or as a script."""
    return (
        hasattr(module, "_orig_mod")
        or getattr(module, "_compiled_call_impl", None) is not None
        or isinstance(module, torch.jit.ScriptModule)
    )


def owners(parameters: Iterable[Tensor]) -> list[nn.Module]:
    """All modules in this program that own one of these parameters, and compiled ones around."""
    wanted = {id(w) for w in parameters}
    found: list[nn.Module] = []
    for each in gc.get_objects():
        if not issubclass(type(each), nn.Module) or "_parameters" not in each.__dict__:
            continue
        if any(id(w) in wanted for w in each.parameters(recurse=is_compiled(each))):
            found.append(each)
    return found
