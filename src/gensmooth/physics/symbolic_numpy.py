# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
"""Copies of functions in which NumPy and the built-in functions understand symbols.

An environment's functions do not know about symbols. :func:`rebuilt` copies them, and everything
that they call, with replacements for NumPy, :mod:`math`, ``min``, ``max``, ``all`` and ``any``.
"""

import builtins
import math
from collections.abc import Callable, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from gensmooth.physics.symbols import (
    ENTRYWISE,
    FUNCTIONS,
    INVERSE,
    Symbol,
    as_symbols,
    choose,
    fold,
)


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of numbers work on each entry of arrays."""

    def apply(*values: Any) -> Any:
        if not any(isinstance(each, np.ndarray | list | tuple) for each in values):
            return function(*values)
        return as_symbols(np.frompyfunc(function, len(values), 1)(*values))

    return apply


def _entries(values: Any) -> list[Any]:
    return list(np.asarray(values, object).reshape(-1))


def _python(name: str) -> Callable[..., Any]:
    """Return ``min`` or ``max`` for symbols: of several numbers, or of one sequence."""
    return lambda *values: fold(name, values[0] if len(values) == 1 else values)


def _all(values: Any) -> Any:
    return fold("&&", (True, *_entries(values)))


def _any(values: Any) -> Any:
    return fold("||", (False, *_entries(values)))


def _norm(vector: Any) -> Any:
    total: Any = 0.0
    for value in _entries(vector):
        total = total + value * value
    return ENTRYWISE["sqrt"](total)


def _objects(maker: Callable[..., Any]) -> Callable[..., Any]:
    """Change a NumPy function that makes an array to make one that can hold symbols."""
    return lambda *arguments, **_: as_symbols(maker(*arguments))


class _Numpy(ModuleType):
    """NumPy with functions for symbols; all other names are NumPy's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _numpy() -> Any:
    shim: Any = _Numpy("numpy")
    for name, form in ENTRYWISE.items():
        setattr(shim, name, _each(form))
    for name in ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like"):
        setattr(shim, name, _objects(getattr(np, name)))
    for name in ("array", "asarray", "ascontiguousarray"):
        setattr(shim, name, lambda values, *_, **__: as_symbols(np.array(values, object)))
    shim.abs = shim.fabs = _each(abs)
    shim.where = _each(choose)
    shim.all, shim.any = _all, _any
    shim.float64 = shim.float32 = lambda x: x
    linalg: Any = _Numpy("numpy.linalg")
    linalg.norm = _norm
    shim.linalg = linalg
    return shim


def _math(shim: Any) -> Any:
    module: Any = ModuleType("math")
    for name in dir(math):
        setattr(module, name, getattr(math, name))
    for name in (*FUNCTIONS, "isfinite", "isnan", "hypot", "fabs"):
        setattr(module, name, getattr(shim, name))
    for long, short in (*INVERSE.items(), ("arctan2", "atan2")):
        setattr(module, short, getattr(shim, long))
    module.pow = lambda x, y: x**y
    return module


_SHIM = _numpy()
_MATH = _math(_SHIM)
# Functions that were imported by name: `from numpy import clip`, `from math import sqrt`.
_SINGLE = {
    id(getattr(module, name)): form
    for module, shim in ((np, _SHIM), (math, _MATH))
    for name, form in vars(shim).items()
    if callable(form) and hasattr(module, name)
}
_BUILTINS = {
    "min": _python("min"),
    "max": _python("max"),
    "float": lambda x: x if isinstance(x, Symbol) else float(x),
    "all": _all,
    "any": _any,
}


def rebuilt(function: Any, replacing: Mapping[Any, Any]) -> Any:
    """Copy a function, and all that it calls, such that the copy understands symbols.

    Args:
        function: A plain function, or one that Numba compiles.
        replacing: Further replacements: a dict from a global object to its replacement.
    """
    return _Rebuilder(replacing)(function)


class _Module:
    """A module whose functions are rebuilt on first use."""

    def __init__(self, module: ModuleType, rebuild: Callable[[Any], Any]) -> None:
        self._module, self._rebuild = module, rebuild

    def __getattr__(self, name: str) -> Any:
        return self._rebuild(getattr(self._module, name))


class _Rebuilder:
    def __init__(self, replacing: Mapping[Any, Any]) -> None:
        self._replacing = {id(old): new for old, new in replacing.items()}
        self._keep = list(replacing)  # so that no other object gets their ids
        self._made: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        if id(value) in self._replacing:
            return self._replacing[id(value)]
        if value is np:
            return _SHIM
        if value is math:
            return _MATH
        if id(value) in _SINGLE:
            return _SINGLE[id(value)]
        if value is np.linalg:
            return _SHIM.linalg
        if isinstance(value, ModuleType):
            return _Module(value, self)
        value = getattr(value, "py_func", value)
        if not isinstance(value, FunctionType):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        scope: dict[str, Any] = {"__builtins__": {**vars(builtins), **_BUILTINS}}
        cells = tuple(CellType() for _ in value.__closure__ or ())
        new = FunctionType(value.__code__, scope, value.__name__, value.__defaults__, cells)
        new.__kwdefaults__ = value.__kwdefaults__
        self._made[id(value)] = new
        for cell, old in zip(cells, value.__closure__ or (), strict=True):
            cell.cell_contents = self(old.cell_contents)
        for name, known in value.__globals__.items():
            if name in _names(value.__code__):
                scope[name] = self(known)
        return new


def _names(code: Any) -> set[str]:
    """Return the names that a function's code, and the code nested in it, may look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names
