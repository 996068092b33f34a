"""Memory that directions live on: vectors that kernels read by address, and room to work in."""

import sys
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@final
class Vectors:
    """Vectors of length d, each in memory of its own, that nobody writes to any more.

    Growing and forgetting share what stays, so the state of each step can have its own: neither
    costs a copy of the others.

    Attributes:
        arrays: The vectors, oldest first.
        addresses: Where they lie, for the kernels.
    """

    __slots__ = ("addresses", "arrays")

    def __init__(self, arrays: tuple[Array, ...] = ()) -> None:
        self.arrays = tuple(np.ascontiguousarray(array) for array in arrays)
        self.addresses = np.array([array.ctypes.data for array in self.arrays], np.uint64)

    def __len__(self) -> int:
        return len(self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectors, (self.arrays,)  # addresses mean nothing elsewhere

    def with_newest(self, vector: Array, *, forget: int = 0) -> "Vectors":
        """A copy of ``vector`` after all but the ``forget`` oldest of these."""
        newest = np.array(vector)  # a caller's may be overwritten
        made = object.__new__(Vectors)
        made.arrays = (*self.arrays[forget:], newest)
        made.addresses = np.empty(len(made.arrays), np.uint64)
        made.addresses[:-1] = self.addresses[forget:]
        made.addresses[-1] = newest.__array_interface__["data"][0]
        return made

    def block(self, dim: int, dtype: np.dtype[Any]) -> Array:
        """All of them, shape (number, d)."""
        return np.stack(self.arrays) if self.arrays else np.empty((0, dim), dtype)


@final
class Room:
    """Memory for the directions of one step after the other: fresh memory costs as much again."""

    __slots__ = ("_block",)

    def __init__(self) -> None:
        self._block: Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Room, ()

    def take(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """A block whose content nobody needs any more, or a new one."""
        block = self._block
        # references: here, the attribute, `sys.getrefcount`'s argument; a fourth is somebody's
        if (
            block is None
            or sys.getrefcount(block) > 3
            or (block.shape, block.dtype) != (shape, dtype)
        ):
            self._block = block = np.empty(shape, dtype)
        return block
