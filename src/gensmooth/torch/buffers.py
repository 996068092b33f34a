"""Where perturbed values go: buffers that layers share, one after the other."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from torch import nn

Tensor = torch.Tensor

_ALIGN = 256  # bytes, so that a buffer's parts can be read in vectors


class Place(NamedTuple):
    """A parameter, its own values, and where its perturbed values go."""

    name: str
    parameter: nn.Parameter
    own: Tensor
    out: Tensor


@final
@dataclass(eq=False)
class PlaceGroup:
    """Places that are filled at the same time, again and again."""

    listed: list[Place]
    ready: Any = None  # what the kernels' backend made of them, so as to start sooner


def room_of(w: Tensor) -> int:
    """The bytes that a tensor takes in a buffer."""
    return -(-w.numel() * w.element_size() // _ALIGN) * _ALIGN


@final
@dataclass
class Buffers:
    """Buffers that are used again: one for each depth of nesting, on each device."""

    slots: dict[tuple[torch.device, int], Tensor] = field(
        default_factory=dict[tuple[torch.device, int], Tensor]
    )
    changes: int = 0  # how often a buffer was made
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # their addresses

    def take(self, parameters: list[Tensor], depth: int) -> list[Tensor]:
        """Room for copies of some parameters, in one buffer per device."""
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
                self.slots.pop(at, None)  # first: both together would need more than either
                self.slots[at] = torch.empty(size, dtype=torch.uint8, device=device)
                starts = ((each.data_ptr(), each.numel()) for each in self.slots.values())
                self.spans[:] = [(start, start + length) for start, length in starts]
        views: list[Tensor] = []
        for w, start in zip(parameters, places, strict=True):
            part = self.slots[w.device, depth][start : start + w.numel() * w.element_size()]
            views.append(part.view(w.dtype).view(w.shape))
        return views

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in one of the buffers."""
        if tensor.layout != torch.strided or not tensor.numel():
            return False
        address = tensor.data_ptr()
        return any(start <= address < end for start, end in self.spans)

    @property
    def nbytes(self) -> int:
        """The size of all buffers."""
        return sum(each.numel() for each in self.slots.values())
