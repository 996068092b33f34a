"""Identifies objectives by their code, and options by their values.

A run's folder is named by the hash of its configuration, so the configuration must change when the
function does: an edited function must not get the results of the old one. A function is identified
by the code of its module (comments and layout do not count) or, if it cannot be imported by name,
by its own code and the objects that it refers to.
"""

import ast
import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from gensmooth.describe import describe, must_be_passed_again
from gensmooth.naming import name_of

_DEEP = 6  # how far references are followed


def identity(thing: Any) -> dict[str, Any]:
    """Return a function's name, if it has one, and a hash of its code."""
    name = name_of(thing)
    called = getattr(thing, "__qualname__", type(thing).__qualname__)
    return {"name": name or str(called), "code": _hash(_module(thing) if name else _code(thing))}


def described(value: Any) -> Any:
    """Return an option as plain JSON; an object without a description as its kind and a hash."""
    many: Any = value
    if isinstance(value, np.ndarray | list) or (
        isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in many)
    ):
        array: NDArray[Any] = np.asarray(many)
        if array.dtype.kind in "biuf":
            return {"shape": list(array.shape), "sha256": _hash(array.tobytes())}
    description = describe(value)
    if not must_be_passed_again(description):
        return description
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {str(key): described(each) for key, each in items}
    return {**description, "sha256": _hash(_code(value))}


def _module(thing: Any) -> bytes:
    module = sys.modules[thing.__module__]
    try:
        return ast.dump(ast.parse(inspect.getsource(module))).encode()
    except (OSError, TypeError, SyntaxError):  # compiled, or created at run time
        version = str(getattr(module, "__version__", ""))
        return f"{module.__name__} {version}".encode()


def _code(thing: Any, depth: int = 0) -> bytes:
    """Return bytes that identify an object.

    For a function, they are a hash of its code and of the objects it uses; otherwise its pickle.
    """
    if isinstance(thing, ModuleType):
        return thing.__name__.encode()
    function = getattr(thing, "__func__", thing)
    if isinstance(function, FunctionType) and depth < _DEEP:
        cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        used = [function.__globals__[n] for n in _names(function.__code__, function.__globals__)]
        instance: Any = getattr(thing, "__self__", None)
        parts = [function.__defaults__, function.__kwdefaults__, instance, *cells, *used]
        hashed = [_body(function.__code__), *(_code(part, depth + 1) for part in parts)]
        return hashlib.sha256(b"\0".join(hashed)).digest()
    if isinstance(thing, np.ndarray):
        return cast(Any, thing).tobytes() + str(cast(Any, thing).dtype).encode()
    if thing is None or isinstance(thing, bool | int | float | str | bytes):
        return repr(thing).encode()
    if (name := name_of(thing)) is not None:
        return name.encode()
    try:
        return cast(Any, cloudpickle).dumps(thing)
    except Exception:  # pickling may raise anything; use the type
        return repr(cast(Any, type(thing))).encode()


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _names(code: CodeType, variables: Mapping[str, Any]) -> list[str]:
    """Return the global variables that some code refers to, also in nested functions."""
    names = {name for name in code.co_names if name in variables}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= set(_names(inner, variables))
    return sorted(names)


def _body(code: CodeType) -> bytes:
    """Return the instructions, names and constants of some code, but not its place in the file."""
    constants = [
        _body(each) if isinstance(each, CodeType) else repr(each).encode()
        for each in code.co_consts
        if not isinstance(each, frozenset)  # their order is not the same in every process
    ]
    return b"\0".join([code.co_code, repr(code.co_names).encode(), *constants])


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:20]


def short(data: Any) -> str:
    """Return a hash of plain JSON."""
    return _hash(json.dumps(data, sort_keys=True).encode())
