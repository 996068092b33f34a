"""Buffers for perturbed values, which layers use in turn."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from torch import nn

Tensor = torch.Tensor

_ALIGN = 256  # bytes, for vectorised reads from a buffer


class Place(NamedTuple):
    """A parameter, its original values, and the buffer for its perturbed values."""

    name: str
    parameter: nn.Parameter
    original: Tensor
    out: Tensor


@final
@dataclass(eq=False)
class PlaceGroup:
    """Places that are always filled together."""

    listed: list[Place]
    ready: Any = None  # prepared launch data of the kernel backend


def room_of(w: Tensor) -> int:
    """Return the number of bytes that a tensor occupies in a buffer."""
    return -(-w.numel() * w.element_size() // _ALIGN) * _ALIGN


@final
@dataclass
class Buffers:
    """Reusable buffers: one for each device and depth of nesting."""

    slots: dict[tuple[torch.device, int], Tensor] = field(
        default_factory=dict[tuple[torch.device, int], Tensor]
    )
    changes: int = 0  # how often a buffer was allocated
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # their addresses

    def take(self, parameters: list[Tensor], depth: int) -> list[Tensor]:
        """Return space for copies of some parameters, in one buffer per device."""
        ends: dict[torch.device, int] = {}
        places: list[int] = []
        for w in parameters:
            start = ends.get(w.device, 0)
            places.append(start)
            ends[w.device] = start + room_of(w)
        for device, size in ends.items():
            at = (device, depth)
            if at not in self.slots or self.slots[at].numel() < size:
                self.changes += 1
                self.slots.pop(at, None)  # free the old buffer before allocating the new one
                self.slots[at] = torch.empty(size, dtype=torch.uint8, device=device)
                starts = ((each.data_ptr(), each.numel()) for each in self.slots.values())
                self.spans[:] = [(start, start + length) for start, length in starts]
        views: list[Tensor] = []
        for w, start in zip(parameters, places, strict=True):
            part = self.slots[w.device, depth][start : start + w.numel() * w.element_size()]
            views.append(part.view(w.dtype).view(w.shape))
        return views

    def holds(self, tensor: Tensor) -> bool:
        """Return whether a tensor's memory is in one of the buffers."""
        if tensor.layout != torch.strided or not tensor.numel():
            return False
        address = tensor.data_ptr()
        return any(start <= address < end for start, end in self.spans)

    @property
    def nbytes(self) -> int:
        """The total size of all buffers."""
        return sum(each.numel() for each in self.slots.values())
