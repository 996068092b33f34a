"""Access to vectors by their memory addresses, and copies of vectors that compile quickly.

Kernels that read a history of vectors by address need neither one large block nor a copy when its
oldest vector is removed. If you pass an address, keep the array alive, contiguous and long enough.
"""

from typing import Any

import numpy as np
from numba import carray, njit, types  # pyright: ignore[reportPrivateImportUsage]
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload


@intrinsic
def _pointer(typing_context, address):  # noqa: ARG001
    """Convert an address to a pointer; any other type, such as a matrix row, is rejected."""
    if address != types.uint64:
        raise TypingError(f"An address must be a uint64, but is {address}.")

    def make(context, builder, signature, arguments):  # noqa: ARG001
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.uint64), make


@njit(nogil=True, error_model="numpy")
def copy(source, target):
    """``target = source[: len(target)]``; compiles in a tenth of the time of a slice assignment."""
    for i in range(len(target)):
        target[i] = source[i]


@njit(nogil=True, error_model="numpy")
def clear(target, count):
    """``target[:count] = 0``; compiles in a tenth of the time of a slice assignment."""
    for i in range(count):
        target[i] = 0


def part(address, start, stop, like):
    """Return entries ``start`` to ``stop − 1`` of a vector that has the dtype of ``like``."""
    raise NotImplementedError("inside compiled code only")


@overload(part, jit_options={"error_model": "numpy", "nogil": True}, inline="always")
def _part(address, start, stop, like):  # noqa: ARG001
    size: Any = np.uint64(like.dtype.bitwidth // 8)
    dtype = np.float32 if like.dtype.bitwidth == 32 else np.float64

    def read(address, start, stop, like):  # noqa: ARG001
        at: Any = _pointer(address + size * np.uint64(start))  # pyright: ignore[reportCallIssue]
        return carray(at, (stop - start,), dtype)

    return read
