"""Numbers and arrays in JSON, exact to the last bit.

JSON has no infinity and no NaN: those are words. Arrays of up to 10,000 numbers are lists; larger
ones are kept in a file beside, and the JSON has their SHA-256.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth.describe import number, plain

Array = NDArray[Any]

_INLINE = 10_000

__all__ = ["array_from_json", "array_to_json", "number", "plain", "whole"]


def whole(value: Any) -> int:
    """A count, checked."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError(f"{str(value)[:80]!r} is not a count")
    return value


def array_to_json(name: str, array: Array, large: dict[str, Array]) -> dict[str, Any]:
    """An array's numbers; or a reference to it, and the array itself into ``large``."""
    found: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    flat = np.ascontiguousarray(array).reshape(-1)
    if len(flat) <= _INLINE:
        return found | {"values": [plain(value) for value in flat.tolist()]}
    large[name] = array
    digest = hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).data)
    return found | {"in": "arrays", "name": name, "sha256": digest.hexdigest()}


def array_from_json(found: Mapping[str, Any], large: Mapping[str, Array]) -> Array:
    """The array; the inverse of :func:`array_to_json`."""
    dtype, shape = found["dtype"], tuple(found["shape"])
    if dtype not in ("float32", "float64"):
        raise ValueError(f"an array has the dtype {str(dtype)[:80]}")
    if "in" in found:
        array = large[found["name"]]
    else:
        array = np.array([number(value) for value in found["values"]], dtype).reshape(shape)
    if array.shape != shape or array.dtype.name != dtype:
        raise ValueError("an array is not what its description says")
    return array
