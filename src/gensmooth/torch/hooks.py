"""How a model is followed while it runs: hooks around its layers, and reads of its parameters."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter
from torch.utils.hooks import RemovableHandle

Tensor = torch.Tensor


@final
class Hooks:
    """Two hooks of a module, around all others of it, that come and go with every step.

    They are put where ``register_forward_pre_hook(begin, prepend=True)`` and
    ``register_forward_hook(end, always_call=True)`` put them: hundreds of those calls would keep a
    GPU waiting at the beginning of each step.
    """

    def __init__(
        self, module: nn.Module, begin: Callable[..., Any], end: Callable[..., Any]
    ) -> None:
        private: Any = module  # torch's own dictionaries
        self._before = private._forward_pre_hooks
        self._after = private._forward_hooks
        self._always = private._forward_hooks_always_called
        self._begin, self._end = begin, end
        self._id: int = RemovableHandle(self._before).id

    def attach(self) -> None:
        """Have the hooks called."""
        self._before[self._id] = self._begin
        self._before.move_to_end(self._id, last=False)
        self._after[self._id] = self._end
        self._always[self._id] = True

    def remove(self) -> None:
        """Have them called no more."""
        self._before.pop(self._id, None)
        self._after.pop(self._id, None)
        self._always.pop(self._id, None)


# Functions that ask a tensor for anything but its values.
_ABOUT = frozenset(
    (
        *("size", "dim", "numel", "nelement", "ndimension", "stride", "is_contiguous", "__len__"),
        *("element_size", "data_ptr", "get_device", "is_floating_point", "is_complex", "__hash__"),
        *("storage_offset", "untyped_storage", "requires_grad_", "is_same_size", "is_pinned"),
        *("is_shared", "is_inference", "register_hook"),
    )
)
_VALUES = frozenset(("T", "mT", "H", "mH", "data", "real", "imag"))


class Reads(TorchFunctionMode):
    """Tells of every parameter whose values a torch function is called with."""

    def __init__(self, read: Callable[[Tensor], None]) -> None:
        super().__init__()
        self._read = read

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        name = getattr(func, "__name__", "")
        if name == "__get__":
            wanted = getattr(getattr(func, "__self__", None), "__name__", "") in _VALUES
        else:
            wanted = name not in _ABOUT and name != "__set__"
        if wanted:
            for each in tree_iter((args, kwargs)):
                if isinstance(each, nn.Parameter):
                    self._read(each)
        return func(*args, **(kwargs or {}))
