"""An optimiser's state as JSON and arrays, and back, without pickle.

Tuples, NamedTuples, lists and dicts are walked; their leaves are arrays (NumPy's or JAX's) and
plain numbers. The way back needs a *template*, the state that ``optimizer.init(x)`` gives: types
come from there, only numbers come from the file. That covers Optax, whose states are such trees.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth.checkpoint.container import check_dtype
from gensmooth.checkpoint.plain import number, plain

Arrays = dict[str, NDArray[Any]]


def pack(tree: Any, name: str) -> tuple[Any, Arrays]:
    """A skeleton of plain JSON, and the arrays it names.

    Raises:
        TypeError: When something in the tree is neither a container nor a number.
    """
    arrays: Arrays = {}
    return _pack(tree, name, arrays), arrays


def unpack(skeleton: Any, arrays: Mapping[str, NDArray[Any]], template: Any, name: str) -> Any:
    """The tree whose types are the template's and whose numbers are the skeleton's.

    Raises:
        ValueError: When the skeleton has another structure than the template.
    """
    children = _children(template)
    if children is None:
        return _leaf(skeleton, arrays, template, name)
    if not isinstance(skeleton, dict) or set(cast(dict[Any, Any], skeleton)) != {"type", "items"}:
        raise ValueError(f"{name} should be a {type(template).__name__}")
    kind, items = (cast(dict[str, Any], skeleton)[key] for key in ("type", "items"))
    if kind != _type(template) or not isinstance(items, dict):
        raise ValueError(f"{name} should be a {_type(template)}, but is a {str(kind)[:80]}")
    items = cast(dict[str, Any], items)
    if list(items) != list(children):
        raise ValueError(f"{name} should have {list(children)}, but has {str(list(items))[:200]}")
    made = [unpack(items[key], arrays, child, f"{name}.{key}") for key, child in children.items()]
    if isinstance(template, dict):
        return dict(zip(cast(dict[Any, Any], template), made, strict=True))
    if hasattr(template, "_fields"):
        return type(template)(*made)
    return type(template)(made)


def _pack(tree: Any, name: str, arrays: Arrays) -> Any:
    children = _children(tree)
    if children is not None:
        items = {key: _pack(child, f"{name}.{key}", arrays) for key, child in children.items()}
        return {"type": _type(tree), "items": items}
    if isinstance(tree, np.ndarray | np.generic) or _is_jax(tree):
        array: NDArray[Any] = np.asarray(cast(Any, tree))
        try:
            check_dtype(array.dtype)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        arrays[name] = array
        kind = "jax" if _is_jax(tree) else "scalar" if isinstance(tree, np.generic) else "numpy"
        return {kind: name}
    if _is_plain(tree):
        return {"plain": tree}
    if isinstance(tree, float):
        return {"float": plain(tree)}
    raise TypeError(f"{name} is a {type(tree).__name__}, which a checkpoint cannot hold")


def _leaf(skeleton: Any, arrays: Mapping[str, NDArray[Any]], template: Any, name: str) -> Any:
    if not isinstance(skeleton, dict) or len(cast(dict[Any, Any], skeleton)) != 1:
        raise ValueError(f"{name} should be a number or an array")
    ((kind, value),) = cast(dict[str, Any], skeleton).items()
    expected = np.shape(template)
    if kind == "plain" and expected == () and _is_plain(value):
        return value
    if kind == "float" and expected == ():
        return number(value)
    if kind not in ("numpy", "scalar", "jax") or value != name or name not in arrays:
        raise ValueError(f"{name} is not in the file")
    array = arrays[name]
    if array.shape != expected:
        raise ValueError(f"{name} should have the shape {expected}, but has {array.shape}")
    if kind == "scalar":
        return array[()]
    return _to_jax(array, name) if kind == "jax" else array


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool) or (type(value) is int and abs(value) < 2**63)


def _children(tree: Any) -> dict[str, Any] | None:
    """The parts of a container by name, or None for a leaf."""
    if isinstance(tree, dict):
        return {repr(key): child for key, child in cast(dict[Any, Any], tree).items()}
    if not isinstance(tree, tuple | list):
        return None
    items = cast(tuple[Any, ...], tree)
    names = getattr(items, "_fields", None) or [str(i) for i in range(len(items))]
    return dict(zip(names, items, strict=True))


def _type(tree: Any) -> str:
    return type(tree).__name__


def _is_jax(leaf: Any) -> bool:
    return type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")


def _to_jax(array: NDArray[Any], name: str) -> Any:
    jax = import_module("jax")
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"{name} is {array.dtype}, which JAX holds only with jax_enable_x64")
    return jax.numpy.asarray(array)
