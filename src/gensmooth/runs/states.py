"""Conversion of a search's state and steps to and from JSON and arrays, without pickle.

An optimiser's state is a tree of tuples, NamedTuples, lists and dicts. Its leaves are arrays (NumPy
or JAX) and plain numbers; Optax's states have this form. Restoring it needs a *template*, the state
that ``optimizer.init(x)`` returns: types come from the template, and only numbers from the file.
"""

import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import fields
from gensmooth.describe import number, plain, whole
from gensmooth.runs.container import DTYPES
from gensmooth.searches import Search, SearchState, StepInfo

Array = NDArray[Any]
Arrays = dict[str, Array]

_SENT = "sent."
_COUNTS = ("step", "evaluations", "best_index", "dropped")
_NULLABLE = ("standard_error", "signal_to_noise")
_FAULTS = fields.table(fields.count())
_DIVERGED = fields.nullable(fields.LINE)


# --- a search ------------------------------------------------------------------------------------


def pack_search(search: Search, state: SearchState) -> tuple[Any, Arrays]:
    """Return the optimiser's state as JSON, and the arrays of the whole state except ``x``.

    Raises:
        TypeError: If the optimiser's state contains anything but containers, arrays and numbers.
    """
    skeleton, arrays = pack_tree(state.kept, "kept")
    directions = search.wire.pack(state.sent)
    return skeleton, arrays | {_SENT + name: array for name, array in directions.items()}


def unpack_search(
    search: Search, meta: Mapping[str, Any], arrays: Mapping[str, Array], *, x0: Array
) -> SearchState:
    """Restore the state of a search that began at ``x0`` from a checkpoint's contents.

    Raises:
        ValueError: If it does not match this search; ``TypeError`` or ``LookupError`` may also be
            raised.
    """
    sent_arrays = {
        name.removeprefix(_SENT): array for name, array in arrays.items() if name.startswith(_SENT)
    }
    step = whole(meta["step"])
    evaluations = search.evaluations_after(step)
    return SearchState(
        x=like(x0, arrays, "x"),
        step=step,
        evaluations=whole(meta["evaluations"]) if evaluations is None else evaluations,
        seed=_seed(meta["seed"]),
        kept=unpack_tree(meta["kept"], arrays, search.kept_template(x0), "kept"),
        sent=search.wire.unpack(sent_arrays, x0.size, x0.dtype),
    )


def _seed(stored: Any) -> int:
    if type(stored) is not int:  # True and 1.0 equal 1, but cannot seed the generator
        raise TypeError(f"its seed must be an integer, but is {str(stored)[:80]!r}")
    return stored


def like(x0: Array, arrays: Mapping[str, Array], name: str) -> Array:
    """Return the array ``name``, checked to be finite and of the shape and dtype of ``x0``."""
    x = arrays[name]
    if x.shape != x0.shape or x.dtype != x0.dtype:
        raise ValueError(
            f"{name} must have shape {x0.shape} and dtype {x0.dtype}, but has {x.shape} and "
            f"{x.dtype}"
        )
    if not np.isfinite(x).all():
        raise ValueError(f"{name} is not finite")
    return x


class Record(NamedTuple):
    """The info of one step, and its number of faults by kind."""

    info: StepInfo
    faults: Mapping[str, int]


def record_to_json(record: Record) -> dict[str, Any]:
    """Convert a step to a line of ``metrics.jsonl``."""
    info = {
        name: plain(value) if isinstance(value, float) else value
        for name, value in record.info._asdict().items()
    }
    return {**info, "faults": dict(record.faults)}


def record_from_json(stored: dict[str, Any]) -> Record:
    """Read and check a step from a line of ``metrics.jsonl``."""
    faults = faults_from_json(stored.pop("faults"))
    diverged = _DIVERGED(stored.pop("diverged"), "diverged")
    values: dict[str, Any] = {
        name: whole(value)
        if name in _COUNTS
        else None
        if name in _NULLABLE and value is None
        else number(value)
        for name, value in stored.items()
    }
    return Record(StepInfo(**values, diverged=diverged), faults)


def faults_from_json(stored: Any) -> dict[str, int]:
    """Read and check the number of faults by kind."""
    return _FAULTS(stored, "faults")


# --- an optimiser's state ------------------------------------------------------------------------


def pack_tree(tree: Any, name: str) -> tuple[Any, Arrays]:
    """Convert a tree to a skeleton of plain JSON and the arrays that it refers to.

    Raises:
        TypeError: If the tree contains anything but containers, arrays and numbers.
    """
    arrays: Arrays = {}
    return _pack(tree, name, arrays), arrays


def unpack_tree(skeleton: Any, arrays: Mapping[str, Array], template: Any, name: str) -> Any:
    """Restore a tree, with the types of the template and the numbers of the skeleton.

    Raises:
        ValueError: If the skeleton's structure differs from the template's.
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
    restored = [
        unpack_tree(items[key], arrays, child, f"{name}.{key}") for key, child in children.items()
    ]
    if isinstance(template, dict):
        return dict(zip(cast(dict[Any, Any], template), restored, strict=True))
    if hasattr(template, "_fields"):
        return type(template)(*restored)
    return type(template)(restored)


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
    if isinstance(tree, IntEnum):
        return {"plain": int(tree)}
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
        return type(template)(value) if isinstance(template, IntEnum) else value
    if kind == "float" and expected == ():
        return number(value)
    if kind not in ("numpy", "scalar", "jax") or value != name or name not in arrays:
        raise ValueError(f"{name} is missing or is not an array")
    array = arrays[name]
    if array.shape != expected:
        raise ValueError(f"{name} should have the shape {expected}, but has {array.shape}")
    if kind == "scalar":
        return array[()]
    return _to_jax(array, name) if kind == "jax" else array


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool) or (type(value) is int and abs(value) < 2**63)


def _children(tree: Any) -> dict[str, Any] | None:
    """The children of a container by name; ``None`` for a leaf."""
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
    jax: Any = sys.modules.get("jax")
    if jax is None:  # a file must not cause an import
        raise ValueError(f"{name} is an array of JAX, which this run does not use")
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"{name} is {array.dtype}, which needs jax_enable_x64 in JAX")
    return jax.numpy.asarray(array)


def largest(dim: int) -> int:
    """The largest size of an array in a search's state, such as a long history of estimates."""
    return max(1 << 20, 4096 * dim)
