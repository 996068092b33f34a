"""Hooks into a running model: calls of its layers, and reads of its parameters."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

Tensor = torch.Tensor


@final
class Wrapped:
    """Replaces a module's call by a function of ours while it is attached.

    The function is stored where ``module.compile()`` stores its own, around the module's hooks and
    its ``forward``. A pair of torch hooks would take several times as long, and a GPU that runs
    small layers would have to wait for them.
    """

    def __init__(self, module: nn.Module, around: Callable[[Callable[..., Any]], Any]) -> None:
        plain: Any = module
        self._run, self._around, self._attributes = plain._call_impl, around, module.__dict__
        self._before = None
        self._call = around(self._run)

    def attach(self) -> None:
        """Install the function."""
        before = self._attributes.get(_CALLED)
        if before is not self._before:  # the module was compiled since
            self._before = before
            self._call = self._around(self._run if before is None else before)
        self._attributes[_CALLED] = self._call

    def remove(self) -> None:
        """Remove the function."""
        if self._before is None:
            self._attributes.pop(_CALLED, None)
        else:
            self._attributes[_CALLED] = self._before


_CALLED = "_compiled_call_impl"  # where torch first looks for a module's call


class Reads(TorchDispatchMode):
    """Reports the tensors that each torch operation is called with.

    It works below torch's Python functions, so it does not affect which path they choose, such as
    fused attention. A watched evaluation runs the same operations as any other.
    """

    def __init__(self, read: Callable[[list[Tensor]], None]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._read = read

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self._read([each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)])
        return func(*args, **(kwargs or {}))
