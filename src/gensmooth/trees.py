"""Parameters in a structure of the user's: dicts, lists, tuples and dataclasses of arrays.

The search has one flat array. A :class:`Tree` knows how it was made and makes the structure again
for each call of the objective. It is written down as plain JSON, so that a run folder can be
resumed: that is why no library's tree is used, whose structures can only be pickled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, naming

Array = NDArray[Any]

_DEEPEST = 50  # levels: a structure that contains itself has no end


class Leaf(NamedTuple):
    """One array of a structure.

    Attributes:
        shape: Its shape.
        dtype: Its type, ``"float32"`` or ``"float64"``; ``"float"`` is a Python number.
        start: Where it begins in the flat array.
    """

    shape: tuple[int, ...]
    dtype: str
    start: int


class Node(NamedTuple):
    """What holds arrays: children by name, or by place.

    Attributes:
        kind: ``"dict"``, ``"list"``, ``"tuple"``, or the class of a dataclass or named tuple.
        names: Of the children; ``None`` where they have places only.
        children: In the order of the structure.
    """

    kind: Any
    names: tuple[Any, ...] | None
    children: "tuple[Node | Leaf, ...]"


def is_tree(value: Any) -> bool:
    """Whether parameters are a structure rather than an array.

    Mappings, dataclasses and named tuples are. A list or tuple is one if it holds a structure, or
    arrays of different shapes: what NumPy would make one array of stays one array.

    >>> is_tree({"w": [1.0, 2.0]}), is_tree([1.0, 2.0]), is_tree([np.ones(3), np.ones((3, 2))])
    (True, False, True)
    """
    return _is_tree(value, 0)


def _is_tree(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping) or _is_record(value):
        return True
    if not isinstance(value, list | tuple) or depth > _DEEPEST:
        return False
    items = cast("Sequence[Any]", value)
    if any(_is_tree(item, depth + 1) for item in items):
        return True
    shapes = {np.shape(item) for item in items if hasattr(item, "shape")}
    return len(shapes) > 1 or (bool(shapes - {()}) and any(np.ndim(each) == 0 for each in items))


def _is_record(value: Any) -> bool:
    """A dataclass, or a named tuple."""
    if isinstance(value, type):
        return False
    return is_dataclass(value) or (isinstance(value, tuple) and _has_names(value))


def _has_names(value: Any) -> bool:
    """Of a named tuple, or its class."""
    return hasattr(value, "_fields")


@final
@dataclass(frozen=True)
class Tree:
    """A structure whose arrays are pieces of one flat array.

    Attributes:
        root: Of the structure.
        size: How many numbers it holds.
    """

    root: Node | Leaf
    size: int

    @classmethod
    def of(cls, value: Any) -> "tuple[Tree, Array]":
        """The structure of some parameters, and their numbers in one array.

        The array is float32 if all of them are, else float64.

        Raises:
            TypeError: When there is something else in it than floating-point numbers.
            ValueError: When it holds no number.
        """
        found: list[Array] = []
        root = _take(value, "x0", found, 0)
        size = sum(array.size for array in found)
        if size == 0:
            raise ValueError("`x0` must have at least one entry, but its arrays are empty.")
        single = all(array.dtype == np.float32 for array in found)
        flat = np.concatenate([array.reshape(-1) for array in found])
        return cls(root, size), flat.astype(np.float32 if single else np.float64)

    def build(self, flat: Array) -> Any:
        """The structure with the numbers of an array; leading axes (stacked points) stay."""
        return _build(self.root, flat)

    def like(self, name: str, given: Any) -> Any:
        """Numbers for the flat array from a structure like this one; anything else as it is.

        A number stands for all entries of an array in its place.

        Raises:
            ValueError: When it is a structure, but another one.
        """
        if not is_tree(given):
            return given
        pieces: list[Array] = []
        _match(self.root, given, name, pieces)
        return np.concatenate(pieces)

    def objective(self, fun: Callable[..., Any]) -> "TreeObjective":
        """The objective of the flat array."""
        return TreeObjective(fun, self)

    def to_json(self) -> Any:
        """Written down.

        Raises:
            TypeError: When a class or a key of the structure cannot be.
        """
        return _to_json(self.root)

    @classmethod
    def from_json(cls, found: Any, *, trust: bool) -> "Tree":
        """What :meth:`to_json` wrote.

        Raises:
            ValueError: When it is damaged, or names a class in a module that is not imported and
                nobody trusts the file.
        """
        at = [0]
        return cls(_from_json(found, at, trust, 0), at[0])


@final
@dataclass(frozen=True)
class TreeObjective:
    """See :class:`Tree`."""

    fun: Callable[..., Any]
    tree: Tree

    def __call__(self, x: Array, *more: Any) -> Any:
        """The objective at a flat array."""
        return self.fun(self.tree.build(x), *more)


def _children(value: Any) -> tuple[Any, tuple[Any, ...] | None, list[Any]] | None:
    """Kind, names and children of a value that holds others, else ``None``."""
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        return "dict", tuple(items), list(items.values())
    if is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value) if field.init)
        return type(value), names, [getattr(value, name) for name in names]
    if isinstance(value, tuple) and _has_names(value):
        held = cast("Any", value)
        return held.__class__, held._fields, list(held)
    if isinstance(value, list | tuple):
        return type(cast("Any", value)).__name__, None, list(cast("Sequence[Any]", value))
    return None


def _take(value: Any, where: str, found: list[Array], depth: int) -> Node | Leaf:
    """The structure of a value; its arrays are added to what was found before."""
    if depth > _DEEPEST:
        raise ValueError(f"`x0` has more than {_DEEPEST} levels at {where[:80]}.")
    held = _children(value)
    if held is not None and (not isinstance(value, list) or is_tree(value) or depth == 0):
        kind, names, children = held
        labels = range(len(children)) if names is None else names
        return Node(
            kind,
            names,
            tuple(
                _take(child, f"{where}[{label!r}]", found, depth + 1)
                for label, child in zip(labels, children, strict=True)
            ),
        )
    try:
        array: Array = np.asarray(cast("Any", value))
    except Exception:  # an object of the user's may raise anything
        array = np.asarray(None)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"`x0` must hold numbers in float32 or float64, but {where} is "
            f"{checks.shown(cast('Any', value))}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`x0` must be finite, but {where} is not.")
    start = sum(each.size for each in found)
    found.append(array.astype(array.dtype.newbyteorder("=")))
    plain = isinstance(value, int | float)
    return Leaf(array.shape, "float" if plain else array.dtype.name, start)


def _build(node: Node | Leaf, flat: Array) -> Any:
    if isinstance(node, Leaf):
        stop = node.start + prod(node.shape)
        piece = flat[..., node.start : stop].reshape(flat.shape[:-1] + node.shape)
        if node.dtype == "float":
            return float(piece) if piece.ndim == 0 else piece
        return piece.astype(node.dtype)
    children = [_build(child, flat) for child in node.children]
    if node.kind == "dict":
        return dict(zip(node.names or (), children, strict=True))
    if node.kind in ("list", "tuple"):
        return children if node.kind == "list" else tuple(children)
    return node.kind(**dict(zip(node.names or (), children, strict=True)))


def _match(node: Node | Leaf, given: Any, where: str, pieces: list[Array]) -> None:
    if isinstance(node, Leaf):
        limit = np.inf if given is None else given
        try:
            piece = np.broadcast_to(np.asarray(limit), node.shape)
        except Exception:  # ragged, or of another shape
            raise ValueError(
                f"`{where}` must be a number or an array of shape {node.shape}, as in x0, but is "
                f"{checks.shown(given)}."
            ) from None
        pieces.append(piece.reshape(-1))
        return
    held = _children(given)
    if held is None:  # one number for all below
        for child in node.children:
            _match(child, given, where, pieces)
        return
    _, names, children = held
    by_name = dict(zip(names or range(len(children)), children, strict=True))
    wanted = node.names or tuple(range(len(node.children)))
    if set(by_name) != set(wanted):
        raise ValueError(
            f"`{where}` must have the structure of x0, with {checks.shown(list(wanted))}, but has "
            f"{checks.shown(list(by_name))}."
        )
    for label, child in zip(wanted, node.children, strict=True):
        _match(child, by_name[label], f"{where}[{label!r}]", pieces)


def _to_json(node: Node | Leaf) -> Any:
    if isinstance(node, Leaf):
        return {"shape": list(node.shape), "dtype": node.dtype}
    kind = node.kind
    if not isinstance(kind, str):
        kind = naming.name_of(kind)
        if kind is None:
            raise TypeError(
                f"A run folder cannot keep `x0`: its class {node.kind.__qualname__} cannot be "
                "found by another process. Put it into a module of its own, or use a dict."
            )
    for name in node.names or ():
        if not isinstance(name, str | int):
            raise TypeError(
                "A run folder cannot keep `x0`: keys must be text or whole numbers, but one is "
                f"{checks.shown(name)}."
            )
    described: dict[str, Any] = {"kind": kind, "children": [_to_json(c) for c in node.children]}
    if node.names is not None:
        described["names"] = list(node.names)
    return described


def _from_json(found: Any, at: list[int], trust: bool, depth: int) -> Node | Leaf:
    damaged = ValueError("the structure of `x0` is damaged")
    if not isinstance(found, dict) or depth > _DEEPEST:
        raise damaged
    node = cast("dict[str, Any]", found)
    if "kind" not in node:
        shape, dtype = node.get("shape"), node.get("dtype")
        if dtype not in ("float", "float32", "float64") or not isinstance(shape, list):
            raise damaged
        sizes = cast("list[Any]", shape)
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise damaged
        leaf = Leaf(tuple(sizes), dtype, at[0])
        at[0] += prod(sizes)
        return leaf
    kind, names, children = node["kind"], node.get("names"), node.get("children")
    if not isinstance(kind, str) or not isinstance(children, list):
        raise damaged
    made = tuple(_from_json(c, at, trust, depth + 1) for c in cast("list[Any]", children))
    if kind in ("dict", "list", "tuple"):
        held: Any = kind
    else:
        naming.check_trusted(kind.partition(":")[0], trust=trust)
        held = naming.find(kind)
        if not (isinstance(held, type) and (is_dataclass(held) or _has_names(held))):
            raise damaged
    if kind in ("list", "tuple"):
        return Node(held, None, made)
    if not isinstance(names, list) or len(cast("list[Any]", names)) != len(made):
        raise damaged
    return Node(held, tuple(cast("list[Any]", names)), made)
