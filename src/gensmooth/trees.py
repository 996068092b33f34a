"""Structured parameters: dicts, lists, tuples, named tuples and dataclasses of arrays.

The search works on one flat array. A :class:`Tree` stores the structure and rebuilds it for each
call of the objective. We do not use a tree library (optree, JAX) for two reasons: a run's folder
stores the structure as JSON, while theirs can only be pickled; and dataclasses would have to be
registered with them first.
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
        dtype: ``"float32"``, ``"float64"``, or ``"float"`` for a Python number.
        start: Its first position in the flat array.
    """

    shape: tuple[int, ...]
    dtype: str
    start: int


class Node(NamedTuple):
    """A container of arrays or further containers.

    Attributes:
        kind: ``"dict"``, ``"list"``, ``"tuple"``, or the class of a dataclass or named tuple.
        names: The names of the children; ``None`` for lists and tuples.
        children: The children, in the order of the structure.
    """

    kind: Any
    names: tuple[str, ...] | None
    children: "tuple[Node | Leaf, ...]"

    @property
    def labels(self) -> Sequence[Any]:
        """The names or positions of the children."""
        return range(len(self.children)) if self.names is None else self.names


@final
@dataclass(frozen=True)
class Tree:
    """A structure whose arrays are pieces of one flat array.

    Attributes:
        root: The outermost node.
        size: The number of entries of the flat array.

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
        """Flatten parameters into one array, and return it with their structure.

        The containers are mappings, lists, tuples, named tuples and dataclasses; the leaves are
        arrays and Python floats. The flat array is float32 if all leaves are, else float64.

        Raises:
            TypeError: If it contains anything other than floating-point numbers.
            ValueError: If it contains no numbers, or cannot be rebuilt from its parts.
        """
        arrays: list[Array] = []
        position = [0]
        tree = cls(_placed(_flatten(params, "x0", arrays, 0), position), position[0])
        if tree.size == 0:
            raise ValueError("`x0` must have at least one entry, but its arrays are empty.")
        single = all(array.dtype == np.float32 for array in arrays)
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        flat = flat.astype(np.float32 if single else np.float64)
        try:
            tree.build(flat)
        except Exception as error:  # a user's constructor may raise anything
            raise ValueError(
                "`x0` cannot be rebuilt from its parts, which each call of the objective requires: "
                f"{type(error).__name__}: {checks.shown(error)}"
            ) from error
        return flat, tree

    def build(self, flat: Array) -> Any:
        """Build the structure from a flat array; leading axes (stacked points) are kept.

        Arrays with the dtype of ``flat`` are views of it.
        """
        return _build(self.root, flat)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays, in order, for ``gs.LowRank(shape=tree.shapes)``.

        Arrays that are not matrices count as vectors.
        """
        shapes = (leaf.shape for leaf in _leaves(self.root))
        return tuple(shape if len(shape) == 2 else (prod(shape),) for shape in shapes)

    def like(self, name: str, values: Any, missing: float | None = None) -> Any:
        """Flatten numbers that have this structure; a single number is returned unchanged.

        In place of an array or a container, a number applies to all of its entries.

        Args:
            name: The argument's name, for error messages.
            values: The numbers.
            missing: The value that ``None`` stands for. By default, ``None`` is not allowed.

        Raises:
            ValueError: If it is an array or has a different structure.
        """
        if _is_number(values):
            return values
        pieces: list[Array] = []
        _flatten_like(self.root, values, name, pieces, missing)
        return np.concatenate(pieces)

    def bounds(self, limits: Any) -> Bounds:
        """Return limits for the flat array, from either of these forms.

        - ``(lower, upper)``, ``gs.Bounds`` or SciPy's ``Bounds``: each side a number, ``None``
          or a structure like this one;
        - a structure like this one, with a pair ``(lower, upper)`` for each array.

        Raises:
            ValueError: If they have another form.
        """
        if hasattr(limits, "lb") and hasattr(limits, "ub"):
            sides = limits.lb, limits.ub
        elif isinstance(limits, Bounds):
            sides = limits.lower, limits.upper
        elif isinstance(limits, Mapping) or is_record(limits):
            sides = (_side(self.root, limits, which, "bounds") for which in (0, 1))
        elif isinstance(limits, list | tuple) and len(cast("list[Any]", limits)) == 2:
            sides = cast("list[Any]", limits)
        else:
            shown = checks.shown(cast("object", limits))
            raise ValueError(
                "`bounds` must be (lower, upper), each a number or a structure like x0; or a "
                f"structure like x0 with a pair (lower, upper) for each array, but are {shown}."
            )
        return Bounds(*map(self._limits, sides, _UNBOUNDED))

    def _limits(self, side: Any, unbounded: float) -> Array:
        limits = self.like("bounds", unbounded if side is None else side, unbounded)
        return np.broadcast_to(np.asarray(checks.reals("bounds", limits)), (self.size,))

    def objective(self, fun: Callable[..., Any]) -> "TreeObjective":
        """Return ``fun`` as a function of the flat array."""
        return TreeObjective(fun, self)

    def to_json(self) -> Any:
        """Return the structure as JSON; of a class that cannot be imported, only the name."""
        return _to_json(self.root)

    @classmethod
    def from_json(cls, description: Any, *, trust: bool) -> "Tree":
        """Read what :meth:`to_json` returned.

        Raises:
            ValueError: If it is damaged, if it names a class that cannot be imported, or if it
                names a class in a module that has not been imported and ``trust`` is False.
        """
        return cls._read(description, lambda kind: _class(kind, trust=trust))

    @classmethod
    def of_names(cls, description: Any) -> "Tree":
        """Read what :meth:`to_json` returned, with dicts for dataclasses and named tuples.

        No class is imported and no code runs.
        """
        return cls._read(description, lambda _: "dict")

    @classmethod
    def _read(cls, description: Any, find: Callable[[str], Any]) -> "Tree":
        position = [0]
        return cls(_placed(_from_json(description, find, 0), position), position[0])


@final
@dataclass(frozen=True)
class TreeObjective:
    """The objective as a function of the flat array; see :class:`Tree`."""

    fun: Callable[..., Any]
    tree: Tree

    def __call__(self, x: Array, *more: Any) -> Any:
        """Evaluate the objective at a flat array."""
        return self.fun(self.tree.build(x), *more)


def plain(built: Any) -> Any:
    """Return a structure of arrays as JSON: dicts and lists of numbers."""
    container = _children(built)
    if container is None:
        return built.tolist() if isinstance(built, np.ndarray) else built
    _, names, children = container
    values = [plain(child) for child in children]
    return values if names is None else dict(zip(names, values, strict=True))


# --- from a value and back -----------------------------------------------------------------------


def _children(value: Any) -> tuple[Any, tuple[Any, ...] | None, list[Any]] | None:
    """Return the kind, names and children of a container; ``None`` for anything else."""
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


def _flatten(value: Any, where: str, arrays: list[Array], depth: int) -> Node | Leaf:
    """Return the structure of a value, and append its arrays to ``arrays``."""
    if depth > DEEPEST:
        raise ValueError(f"`x0` must have at most {DEEPEST} levels, but has more at {where[:80]}.")
    container = _children(value)
    if container is None:
        return _leaf(value, where, arrays)
    kind, names, children = container
    for name in names or ():
        if not isinstance(name, str):
            raise TypeError(
                f"`x0` must have strings as keys, so that it can be saved, but {where} has the key "
                f"{checks.shown(name)}."
            )
    node = Node(kind, names, ())
    labels = range(len(children)) if names is None else names
    return node._replace(
        children=tuple(
            _flatten(child, f"{where}[{label!r}]", arrays, depth + 1)
            for label, child in zip(labels, children, strict=True)
        )
    )


def _leaf(value: Any, where: str, arrays: list[Array]) -> Leaf:
    try:
        array: Array = np.array(value)
    except Exception:  # a user's object may raise anything
        array = np.array(None)
    if array.dtype.kind in "iub":
        raise TypeError(
            f"`x0` must contain floating-point numbers, but {where} is {checks.shown(value)}, "
            "which holds integers or Booleans: convert them to floats, or, if they are not "
            "parameters, pass them to `fun` with `args`."
        )
    if array.dtype.name not in _TYPES:
        raise TypeError(
            f"`x0` must contain arrays of float32 or float64, but {where} is "
            f"{checks.shown(value)}: pass what is not a parameter to `fun` with `args`."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`x0` must be finite, but {where} is not.")
    dtype = array.dtype.name
    arrays.append(array.astype(dtype, copy=False))  # in native byte order
    return Leaf(array.shape, _NUMBER if isinstance(value, float) else dtype, 0)


def _placed(node: Node | Leaf, position: list[int]) -> Node | Leaf:
    """Set where each leaf starts; ``position`` holds the start of the next one."""
    if isinstance(node, Node):
        return node._replace(children=tuple(_placed(child, position) for child in node.children))
    position[0] += prod(node.shape)
    return node._replace(start=position[0] - prod(node.shape))


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


# --- numbers in the shape of a structure ----------------------------------------------------------

_UNBOUNDED = (-np.inf, np.inf)  # what ``None`` means as a lower and as an upper limit


def _is_number(value: Any) -> bool:
    """Whether it is a single number: neither a container nor an array with axes."""
    return _children(value) is None and np.ndim(value) == 0


def _flatten_like(
    node: Node | Leaf, value: Any, where: str, pieces: list[Array], missing: float | None
) -> None:
    """Append the numbers for each leaf of a node to ``pieces``."""
    value = missing if value is None else value
    if isinstance(node, Leaf):
        try:
            piece = np.asarray(value)
            if piece.shape not in ((), node.shape) or piece.dtype.kind not in "biuf":
                raise ValueError
        except Exception:  # ragged, of another shape, or not numbers
            raise ValueError(
                f"`{where}` must be a number or an array of shape {node.shape}, as in x0, but is "
                f"{checks.shown(value)}."
            ) from None
        pieces.append(np.broadcast_to(piece, node.shape).reshape(-1))
    elif value is not None and _is_number(value):
        for child in node.children:
            _flatten_like(child, value, where, pieces, missing)
    else:
        for label, child, part in _side_by_side(node, value, where):
            _flatten_like(child, part, f"{where}[{label!r}]", pieces, missing)


def _side_by_side(node: Node, value: Any, where: str) -> Iterator[tuple[Any, Node | Leaf, Any]]:
    """Yield the label of each child of a node, the child, and its counterpart in ``value``."""
    container = _children(value)
    names, parts = (None, []) if container is None else container[1:]
    by_label = dict(zip(range(len(parts)) if names is None else names, parts, strict=True))
    if container is None or set(by_label) != set(node.labels):
        actual = checks.shown(value if container is None else list(by_label))
        raise ValueError(
            f"`{where}` must be a number or have the structure of x0, with "
            f"{checks.shown(list(node.labels))}, but has {actual}."
        )
    for label, child in zip(node.labels, node.children, strict=True):
        yield label, child, by_label[label]


def _side(node: Node | Leaf, limits: Any, which: int, where: str) -> Any:
    """Return the lower (0) or upper (1) limits from a structure of pairs, as a structure."""
    pair = cast("list[Any]", limits) if isinstance(limits, list | tuple) else []
    if len(pair) == 2 and (isinstance(node, Leaf) or all(map(_is_number, pair))):
        return _UNBOUNDED[which] if pair[which] is None else pair[which]
    if isinstance(node, Leaf):
        shown = checks.shown(cast("object", limits))
        raise ValueError(f"`{where}` must be a pair (lower, upper), but is {shown}.")
    sides = {
        label: _side(child, part, which, f"{where}[{label!r}]")
        for label, child, part in _side_by_side(node, limits, where)
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
    """Import a dataclass or named tuple by name."""
    module, _, name = kind.partition(":")
    if not module:
        raise ValueError(
            f"`x0` of this run uses the class {name[:200]!r}, which cannot be imported: pass x0 "
            "again, gs.resume(folder, fun, x0=...)"
        )
    record: Any = naming.find_in_file(kind, trust=trust)
    if inspect.isclass(record) and (is_dataclass(record) or hasattr(record, "_fields")):
        return cast("Any", record)
    raise ValueError(_DAMAGED)


_DAMAGED = "the structure of `x0` is damaged"


def _from_json(description: Any, find: Callable[[str], Any], depth: int) -> Node | Leaf:
    if not isinstance(description, dict) or depth > DEEPEST:
        raise ValueError(_DAMAGED)
    node = cast("dict[str, Any]", description)
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
    container = kind if kind in _PLAIN else find(kind)
    nodes = tuple(_from_json(child, find, depth + 1) for child in cast("list[Any]", children))
    if names is None:
        return Node(container, None, nodes)
    texts = cast("list[Any]", names) if isinstance(names, list) else []
    if len(texts) != len(nodes) or not all(isinstance(text, str) for text in texts):
        raise ValueError(_DAMAGED)
    return Node(container, tuple(texts), nodes)
