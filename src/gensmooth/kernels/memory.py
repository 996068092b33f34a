# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Vectors by their addresses: kernels that read many, each in memory of its own.

A history of vectors then needs neither one large block nor a copy when its oldest vector goes.
Whoever hands out an address keeps the array alive, contiguous and of the length that is read.
"""

from typing import Any

import numpy as np
from numba import carray, types  # pyright: ignore[reportPrivateImportUsage]
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload


@intrinsic
def _pointer(typing_context, address):  # noqa: ARG001
    """An address as a pointer; of anything else, a matrix's row say, it would be a wild one."""
    if address != types.uint64:
        raise TypingError(f"An address is a uint64, not {address}.")

    def make(context, builder, signature, arguments):  # noqa: ARG001
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.uint64), make


def part(address, start, stop, like):
    """Entries ``start … stop`` of the vector at an address, whose dtype is that of ``like``."""
    raise NotImplementedError("inside compiled code only")


@overload(part, jit_options={"error_model": "numpy", "nogil": True}, inline="always")
def _part(address, start, stop, like):  # noqa: ARG001
    size: Any = np.uint64(like.dtype.bitwidth // 8)
    dtype = np.float32 if like.dtype.bitwidth == 32 else np.float64

    def read(address, start, stop, like):  # noqa: ARG001
        at: Any = _pointer(address + size * np.uint64(start))  # pyright: ignore[reportCallIssue]
        return carray(at, (stop - start,), dtype)

    return read
