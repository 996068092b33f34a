"""Parameters in a structure of the user's: dicts, lists, tuples and dataclasses of arrays.

The search has one flat array. A :class:`Tree` knows how it was made, and makes the structure again
for each call of the objective. No library for trees (optree, JAX's) is used, because a run folder
keeps the structure as plain JSON, where theirs can only be pickled, and because a dataclass would
have to be registered with them first.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, naming
from gensmooth.parameters import DEEPEST, Bounds, is_record

Array = NDArray[Any]

_NUMBER = "float"  # the type of a leaf that is a Python number
_TYPES = ("float32", "float64", _NUMBER)
_PLAIN = ("dict", "list", "tuple")


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
    names: tuple[str, ...] | None
    children: "tuple[Node | Leaf, ...]"

    @property
    def labels(self) -> Sequence[Any]:
        """Names or places."""
        return range(len(self.children)) if self.names is None else self.names


@final
@dataclass(frozen=True)
class Tree:
    """A structure whose arrays are pieces of one flat array.

    Attributes:
        root: Of the structure.
        size: How many numbers it holds.

    >>> flat, tree = Tree.of({"w": np.ones((2, 2)), "b": 0.5})
    >>> flat
    array([1. , 1. , 1. , 1. , 0.5])
    >>> tree.build(flat * 2)["b"]
    1.0
    """

    root: Node | Leaf
    size: int

    @classmethod
    def of(cls, params: Any) -> "tuple[Array, Tree]":
        """The numbers of some parameters in one array, and their structure.

        Mappings, lists, tuples, named tuples and dataclasses hold; arrays and Python's floats are
        held. The array is float32 if all arrays are, else float64.

        Raises:
            TypeError: When there is something else in it than floating-point numbers.
            ValueError: When it holds no number, or cannot be made again from its parts.
        """
        found: list[Array] = []
        at = [0]
        tree = cls(_placed(_take(params, "x0", found, 0), at), at[0])
        if tree.size == 0:
            raise ValueError("`x0` must have at least one entry, but its arrays are empty.")
        single = all(array.dtype == np.float32 for array in found)
        flat = np.concatenate([array.reshape(-1) for array in found])
        flat = flat.astype(np.float32 if single else np.float64)
        try:
            tree.build(flat)
        except Exception as error:  # a constructor of the user's may raise anything
            raise ValueError(
                "`x0` cannot be made again from its parts, which each call of the objective needs: "
                f"{type(error).__name__}: {checks.shown(error)}"
            ) from error
        return flat, tree

    def build(self, flat: Array) -> Any:
        """The structure with the numbers of an array; leading axes (stacked points) stay.

        Arrays of the type of ``flat`` are views of it.
        """
        return _build(self.root, flat)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the arrays, in order, such as ``gs.LowRank(shape=tree.shapes)`` takes them.

        What is no matrix is a vector there.
        """
        shapes = (leaf.shape for leaf in _leaves(self.root))
        return tuple(shape if len(shape) == 2 else (prod(shape),) for shape in shapes)

    def like(self, name: str, given: Any, missing: float | None = None) -> Any:
        """Numbers for the flat array from a structure like this one; a single number as it is.

        A number stands for all entries of an array, or of all arrays, in its place.

        Args:
            name: What they are, for messages.
            given: The numbers.
            missing: What ``None`` stands for; by default it stands for nothing.

        Raises:
            ValueError: When it is an array, or another structure.
        """
        if _is_number(given):
            return given
        pieces: list[Array] = []
        _match(self.root, given, name, pieces, missing)
        return np.concatenate(pieces)

    def bounds(self, given: Any) -> Bounds:
        """Limits for the flat array.

        - ``(lower, upper)``, ``gs.Bounds`` or SciPy's ``Bounds``: each a number, ``None`` or a
          structure like this one;
        - a mapping or dataclass like this structure, with a pair ``(lower, upper)`` for each array.

        Raises:
            ValueError: When they are something else.
        """
        if hasattr(given, "lb") and hasattr(given, "ub"):
            sides = given.lb, given.ub
        elif isinstance(given, Bounds):
            sides = given.lower, given.upper
        elif isinstance(given, Mapping) or is_record(given):
            sides = (_side(self.root, given, which, "bounds") for which in (0, 1))
        elif isinstance(given, list | tuple) and len(cast("list[Any]", given)) == 2:
            sides = cast("list[Any]", given)
        else:
            shown = checks.shown(cast("object", given))
            raise ValueError(
                "`bounds` must be (lower, upper), each a number or a structure like x0; or a "
                f"structure like x0 with a pair for each array, but are {shown}."
            )
        return Bounds(*(self._limits(*each) for each in zip(sides, _FREE, strict=True)))

    def _limits(self, given: Any, free: float) -> Array:
        limits = self.like("bounds", free if given is None else given, free)
        return np.broadcast_to(np.asarray(checks.reals("bounds", limits)), (self.size,))

    def objective(self, fun: Callable[..., Any]) -> "TreeObjective":
        """The objective of the flat array."""
        return TreeObjective(fun, self)

    def to_json(self) -> Any:
        """Written down; of a class that only this process knows, the name."""
        return _to_json(self.root)

    @classmethod
    def from_json(cls, found: Any, *, trust: bool) -> "Tree":
        """What :meth:`to_json` wrote.

        Raises:
            ValueError: When it is damaged, names a class that is not to be found from here, or one
                in a module that is not imported and nobody trusts the file.
        """
        return cls._read(found, lambda kind: _class(kind, trust=trust))

    @classmethod
    def of_names(cls, found: Any) -> "Tree":
        """What :meth:`to_json` wrote, with a dict in place of each dataclass and named tuple.

        No class is looked for, and nothing is called.
        """
        return cls._read(found, lambda _: "dict")

    @classmethod
    def _read(cls, found: Any, find: Callable[[str], Any]) -> "Tree":
        at = [0]
        return cls(_placed(_from_json(found, find, 0), at), at[0])


@final
@dataclass(frozen=True)
class TreeObjective:
    """See :class:`Tree`."""

    fun: Callable[..., Any]
    tree: Tree

    def __call__(self, x: Array, *more: Any) -> Any:
        """The objective at a flat array."""
        return self.fun(self.tree.build(x), *more)


def plain(built: Any) -> Any:
    """A structure of arrays as JSON has it: dicts and lists of numbers."""
    held = _children(built)
    if held is None:
        return built.tolist() if isinstance(built, np.ndarray) else built
    _, names, children = held
    made = [plain(child) for child in children]
    return made if names is None else dict(zip(names, made, strict=True))


# --- from a value and back -----------------------------------------------------------------------


def _children(value: Any) -> tuple[Any, tuple[Any, ...] | None, list[Any]] | None:
    """Kind, names and children of a value that holds others, else ``None``."""
    if hasattr(value, "__array__"):
        return None
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        return "dict", tuple(items), list(items.values())
    if is_record(value):
        names = getattr(value, "_fields", None)
        if is_dataclass(value):
            names = (field.name for field in fields(value) if field.init)
        names = tuple(cast("Sequence[str]", names))
        return cast("Any", type(value)), names, [getattr(value, name) for name in names]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return kind, None, list(cast("Sequence[Any]", value))
    return None


def _take(value: Any, where: str, found: list[Array], depth: int) -> Node | Leaf:
    """The structure of a value; its arrays are added to what was found before."""
    if depth > DEEPEST:
        raise ValueError(f"`x0` has more than {DEEPEST} levels, at {where[:80]}.")
    held = _children(value)
    if held is None:
        return _leaf(value, where, found)
    kind, names, children = held
    for name in names or ():
        if not isinstance(name, str):
            raise TypeError(
                f"`x0` must have text as keys, which files can keep, but {where} has the key "
                f"{checks.shown(name)}."
            )
    node = Node(kind, names, ())
    labels = range(len(children)) if names is None else names
    return node._replace(
        children=tuple(
            _take(child, f"{where}[{label!r}]", found, depth + 1)
            for label, child in zip(labels, children, strict=True)
        )
    )


def _leaf(value: Any, where: str, found: list[Array]) -> Leaf:
    try:
        array: Array = np.array(value)
    except Exception:  # an object of the user's may raise anything
        array = np.array(None)
    if array.dtype.kind in "iub":
        raise TypeError(
            f"`x0` must hold floating-point numbers, but {where} is {checks.shown(value)}, whole "
            "numbers or truth values: make them floats, or give `fun` what is no parameter by "
            "`args`."
        )
    if array.dtype.name not in _TYPES:
        raise TypeError(
            f"`x0` must hold arrays of float32 or float64, but {where} is {checks.shown(value)}: "
            "give `fun` what is no parameter by `args`."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`x0` must be finite, but {where} is not.")
    dtype = array.dtype.name
    found.append(array.astype(dtype, copy=False))  # in the machine's own byte order
    return Leaf(array.shape, _NUMBER if isinstance(value, float) else dtype, 0)


def _placed(node: Node | Leaf, at: list[int]) -> Node | Leaf:
    """A structure whose leaves know where they begin; ``at`` is where the next one does."""
    if isinstance(node, Node):
        return node._replace(children=tuple(_placed(child, at) for child in node.children))
    at[0] += prod(node.shape)
    return node._replace(start=at[0] - prod(node.shape))


def _build(node: Node | Leaf, flat: Array) -> Any:
    if isinstance(node, Leaf):
        piece = flat[..., node.start : node.start + prod(node.shape)]
        piece = piece.reshape(flat.shape[:-1] + node.shape)
        if node.dtype == _NUMBER:
            return float(piece) if piece.ndim == 0 else piece
        return piece.astype(node.dtype, copy=False)
    children = [_build(child, flat) for child in node.children]
    if node.kind == "list":
        return children
    if node.kind == "tuple":
        return tuple(children)
    named = dict(zip(node.labels, children, strict=True))
    return named if node.kind == "dict" else node.kind(**named)


def _leaves(node: Node | Leaf) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from _leaves(child)


# --- numbers that belong to a structure ----------------------------------------------------------

_FREE = (-np.inf, np.inf)  # what ``None`` is as a lower and as an upper limit


def _is_number(given: Any) -> bool:
    """One number for all: not something that holds others, and no array of several."""
    return _children(given) is None and np.ndim(given) == 0


def _match(
    node: Node | Leaf, given: Any, where: str, pieces: list[Array], missing: float | None
) -> None:
    """Add the numbers for each leaf of a node."""
    given = missing if given is None else given
    if isinstance(node, Leaf):
        try:
            piece = np.asarray(given)
            if piece.shape not in ((), node.shape) or piece.dtype.kind not in "biuf":
                raise ValueError
        except Exception:  # ragged, of another shape, or no numbers
            raise ValueError(
                f"`{where}` must be a number or an array of shape {node.shape}, as in x0, but is "
                f"{checks.shown(given)}."
            ) from None
        pieces.append(np.broadcast_to(piece, node.shape).reshape(-1))
    elif given is not None and _is_number(given):
        for child in node.children:
            _match(child, given, where, pieces, missing)
    else:
        for label, child, part in _side_by_side(node, given, where):
            _match(child, part, f"{where}[{label!r}]", pieces, missing)


def _side_by_side(node: Node, given: Any, where: str) -> Iterator[tuple[Any, Node | Leaf, Any]]:
    """The children of a node, each with what is given for it."""
    held = _children(given)
    names, parts = (None, []) if held is None else held[1:]
    by_label = dict(zip(range(len(parts)) if names is None else names, parts, strict=True))
    if held is None or set(by_label) != set(node.labels):
        found = checks.shown(given if held is None else list(by_label))
        raise ValueError(
            f"`{where}` must be a number or have the structure of x0, with "
            f"{checks.shown(list(node.labels))}, but has {found}."
        )
    for label, child in zip(node.labels, node.children, strict=True):
        yield label, child, by_label[label]


def _side(node: Node | Leaf, given: Any, which: int, where: str) -> Any:
    """The lower (0) or upper (1) limits of a structure with pairs in it, as a structure."""
    pair = cast("list[Any]", given) if isinstance(given, list | tuple) else []
    if len(pair) == 2 and (isinstance(node, Leaf) or all(map(_is_number, pair))):
        return _FREE[which] if pair[which] is None else pair[which]
    if isinstance(node, Leaf):
        shown = checks.shown(cast("object", given))
        raise ValueError(f"`{where}` must be a pair (lower, upper), but is {shown}.")
    sides = {
        label: _side(child, part, which, f"{where}[{label!r}]")
        for label, child, part in _side_by_side(node, given, where)
    }
    return sides if node.names is not None else list(sides.values())


# --- as JSON -------------------------------------------------------------------------------------


def _to_json(node: Node | Leaf) -> Any:
    if isinstance(node, Leaf):
        return {"shape": list(node.shape), "dtype": node.dtype}
    described: dict[str, Any] = {"kind": node.kind}
    if not isinstance(node.kind, str):
        described["kind"] = naming.name_of(node.kind) or f":{node.kind.__qualname__}"
    if node.names is not None:
        described["names"] = list(node.names)
    return described | {"children": [_to_json(child) for child in node.children]}


def _class(kind: str, *, trust: bool) -> Any:
    """The dataclass or named tuple of a name."""
    module, _, name = kind.partition(":")
    if not module:
        raise ValueError(
            f"`x0` of this run is made of a class {name[:200]!r}, which cannot be found from here: "
            "pass it again, gs.resume(folder, fun, x0=...)"
        )
    naming.check_trusted(module, trust=trust)
    found: Any = naming.find(kind)
    if inspect.isclass(found) and (is_dataclass(found) or hasattr(found, "_fields")):
        return cast("Any", found)
    raise ValueError(_DAMAGED)


_DAMAGED = "the structure of `x0` is damaged"


def _from_json(found: Any, find: Callable[[str], Any], depth: int) -> Node | Leaf:
    if not isinstance(found, dict) or depth > DEEPEST:
        raise ValueError(_DAMAGED)
    node = cast("dict[str, Any]", found)
    if "kind" not in node:
        shape, dtype = node.get("shape"), node.get("dtype")
        sizes = cast("list[Any]", shape) if isinstance(shape, list) else [-1]
        if dtype not in _TYPES or not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError(_DAMAGED)
        return Leaf(tuple(sizes), dtype, 0)
    kind, names, children = node["kind"], node.get("names"), node.get("children")
    named = kind not in ("list", "tuple")
    if not isinstance(kind, str) or not isinstance(children, list) or named != (names is not None):
        raise ValueError(_DAMAGED)
    held = kind if kind in _PLAIN else find(kind)
    made = tuple(_from_json(child, find, depth + 1) for child in cast("list[Any]", children))
    if names is None:
        return Node(held, None, made)
    texts = cast("list[Any]", names) if isinstance(names, list) else []
    if len(texts) != len(made) or not all(isinstance(text, str) for text in texts):
        raise ValueError(_DAMAGED)
    return Node(held, tuple(texts), made)
