"""A search's state and steps as JSON and arrays, and back, without pickle.

An optimiser's state is a tree: tuples, NamedTuples, lists and dicts are walked; their leaves are
arrays (NumPy's or JAX's) and plain numbers. The way back needs a *template*, the state that
``optimizer.init(x)`` gives: types come from there, only numbers come from the file. That covers
Optax, whose states are such trees.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth.describe import number, plain, whole
from gensmooth.runs.container import DTYPES
from gensmooth.search import Search, SearchState, StepInfo

Array = NDArray[Any]
Arrays = dict[str, Array]

_DIRECTIONS = "directions."
_WHOLE = ("step", "evaluations", "best_index", "dropped")
_MAYBE = ("standard_error", "signal_to_noise")


# --- a search ------------------------------------------------------------------------------------


def pack_search(search: Search, state: SearchState) -> tuple[Any, Arrays]:
    """The optimiser's state as JSON, and the arrays of the whole state but ``x``.

    Raises:
        TypeError: When the optimiser's state has something that is neither container nor number.
    """
    skeleton, arrays = pack_tree(state.optimizer, "optimizer")
    directions = search.directions.pack(state.directions)
    return skeleton, arrays | {_DIRECTIONS + name: array for name, array in directions.items()}


def unpack_search(
    search: Search, meta: Mapping[str, Any], arrays: Mapping[str, Array], *, x0: Array
) -> SearchState:
    """The state of a search that began at ``x0``, from a checkpoint's contents.

    Raises:
        ValueError: When it is not of this search; so do ``TypeError`` and ``LookupError`` say.
    """
    own = {
        name.removeprefix(_DIRECTIONS): array
        for name, array in arrays.items()
        if name.startswith(_DIRECTIONS)
    }
    step = whole(meta["step"])
    evaluations = search.evaluations_after(step)
    return SearchState(
        x=like(x0, arrays, "x"),
        step=step,
        evaluations=whole(meta["evaluations"]) if evaluations is None else evaluations,
        seed=_seed(meta["seed"]),
        optimizer=unpack_tree(meta["optimizer"], arrays, search.optimizer.init(x0), "optimizer"),
        directions=search.directions.unpack(own, x0.size, x0.dtype),
    )


def _seed(found: Any) -> int:
    if type(found) is not int:  # True and 1.0 are equal to 1, but give no random numbers
        raise TypeError(f"its seed is {str(found)[:80]!r}")
    return found


def like(x0: Array, arrays: Mapping[str, Array], name: str) -> Array:
    """The array called ``name``, which must be finite, of the shape and dtype of ``x0``."""
    x = arrays[name]
    if x.shape != x0.shape or x.dtype != x0.dtype:
        raise ValueError(
            f"{name} has shape {x.shape} and dtype {x.dtype}, not {x0.shape} and {x0.dtype}"
        )
    if not np.isfinite(x).all():
        raise ValueError(f"{name} is not finite")
    return x


class Record(NamedTuple):
    """A step of a search, and what went wrong in it, by kind."""

    info: StepInfo
    faults: Mapping[str, int]


def record_to_json(record: Record) -> dict[str, Any]:
    """A step as a line of ``metrics.jsonl`` tells it."""
    info = {
        name: plain(value) if isinstance(value, float) else value
        for name, value in record.info._asdict().items()
    }
    return {**info, "faults": dict(record.faults)}


def record_from_json(found: dict[str, Any]) -> Record:
    """A step from a line's JSON, checked."""
    faults = faults_from_json(found.pop("faults"))
    diverged = found.pop("diverged")
    if not (diverged is None or isinstance(diverged, str)):
        raise TypeError("`diverged` is neither null nor words")
    values: dict[str, Any] = {
        name: whole(value)
        if name in _WHOLE
        else None
        if name in _MAYBE and value is None
        else number(value)
        for name, value in found.items()
    }
    return Record(StepInfo(**values, diverged=diverged), faults)


def faults_from_json(found: Any) -> dict[str, int]:
    """Events by kind, checked."""
    if not isinstance(found, dict):
        raise TypeError("faults are not counts by kind")
    return {kind: whole(count) for kind, count in cast(dict[str, Any], found).items()}


# --- an optimiser's state ------------------------------------------------------------------------


def pack_tree(tree: Any, name: str) -> tuple[Any, Arrays]:
    """A skeleton of plain JSON, and the arrays it names.

    Raises:
        TypeError: When something in the tree is neither a container nor a number.
    """
    arrays: Arrays = {}
    return _pack(tree, name, arrays), arrays


def unpack_tree(skeleton: Any, arrays: Mapping[str, Array], template: Any, name: str) -> Any:
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
    expected = type(template).__name__
    if kind != expected or not isinstance(items, dict):
        raise ValueError(f"{name} should be a {expected}, but is a {str(kind)[:80]}")
    items = cast(dict[str, Any], items)
    if list(items) != list(children):
        raise ValueError(f"{name} should have {list(children)}, but has {str(list(items))[:200]}")
    made = [
        unpack_tree(items[key], arrays, child, f"{name}.{key}") for key, child in children.items()
    ]
    if isinstance(template, dict):
        return dict(zip(cast(dict[Any, Any], template), made, strict=True))
    if hasattr(template, "_fields"):
        return type(template)(*made)
    return type(template)(made)


def _pack(tree: Any, name: str, arrays: Arrays) -> Any:
    children = _children(tree)
    if children is not None:
        items = {key: _pack(child, f"{name}.{key}", arrays) for key, child in children.items()}
        return {"type": type(tree).__name__, "items": items}
    if isinstance(tree, np.ndarray | np.generic) or _is_jax(tree):
        array: Array = np.asarray(cast(Any, tree))
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name} has the dtype {array.dtype}, which a checkpoint cannot hold")
        arrays[name] = array
        kind = "jax" if _is_jax(tree) else "scalar" if isinstance(tree, np.generic) else "numpy"
        return {kind: name}
    if _is_plain(tree):
        return {"plain": tree}
    if isinstance(tree, float):
        return {"float": plain(tree)}
    raise TypeError(f"{name} is a {type(tree).__name__}, which a checkpoint cannot hold")


def _leaf(skeleton: Any, arrays: Mapping[str, Array], template: Any, name: str) -> Any:
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


def _is_jax(leaf: Any) -> bool:
    return type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")


def _to_jax(array: Array, name: str) -> Any:
    jax = import_module("jax")
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"{name} is {array.dtype}, which JAX holds only with jax_enable_x64")
    return jax.numpy.asarray(array)


def largest(dim: int) -> int:
    """The most numbers that one array of a search's state has: a long history of estimates."""
    return max(1 << 20, 4096 * dim)
