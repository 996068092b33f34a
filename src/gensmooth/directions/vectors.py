"""Memory for directions: vectors that kernels read by address, and reusable blocks."""

import sys
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@final
class Vectors:
    """Immutable vectors of length d, each in its own memory.

    Adding a vector or dropping old ones shares the others, so the state of each step can have its
    own collection without copying.

    Attributes:
        arrays: The vectors, oldest first.
        addresses: Their memory addresses, for the kernels.
    """

    __slots__ = ("addresses", "arrays")

    def __init__(self, arrays: tuple[Array, ...] = ()) -> None:
        self.arrays = tuple(np.ascontiguousarray(array) for array in arrays)
        self.addresses = np.array([array.ctypes.data for array in self.arrays], np.uint64)

    def __len__(self) -> int:
        return len(self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectors, (self.arrays,)  # addresses are valid only in this process

    def with_newest(self, vector: Array, *, forget: int = 0) -> "Vectors":
        """Return these vectors without the ``forget`` oldest, followed by a copy of ``vector``."""
        newest = np.array(vector)  # the caller may overwrite its own
        vectors = object.__new__(Vectors)
        vectors.arrays = (*self.arrays[forget:], newest)
        vectors.addresses = np.empty(len(vectors.arrays), np.uint64)
        vectors.addresses[:-1] = self.addresses[forget:]
        vectors.addresses[-1] = newest.__array_interface__["data"][0]
        return vectors

    def block(self, dim: int, dtype: np.dtype[Any]) -> Array:
        """Return all vectors, shape (number, d)."""
        return np.stack(self.arrays) if self.arrays else np.empty((0, dim), dtype)


@final
class BlockBuffer:
    """A block of memory reused in each step, because allocating it anew would double the cost."""

    __slots__ = ("_block",)

    def __init__(self) -> None:
        self._block: Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockBuffer, ()

    def take(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return the previous block if nothing refers to it any more, else a new one."""
        block = self._block
        # three references: `block`, the attribute, `getrefcount`'s argument; others are in use
        if (
            block is None
            or sys.getrefcount(block) > 3
            or (block.shape, block.dtype) != (shape, dtype)
        ):
            self._block = block = np.empty(shape, dtype)
        return block
