"""The interface of a family of directions, and the table of methods.

A family is defined in one file, here or in a user's module. The file contains a frozen dataclass
derived from :class:`Directions`, and a call of :func:`register` for each of its names. No other
code depends on which family is in use; it reads the family's properties.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import IntEnum
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, theory
from gensmooth.directions.draw import Address, Draw

State = tuple[Any, ...]
Shape = tuple[int, ...]
Arrays = dict[str, NDArray[Any]]


class Factors(NamedTuple):
    """The factors of low-rank directions.

    Attributes:
        entries: The distribution of their entries, ``"coin"`` or ``"normal"``.
        rank: Their number of columns.
    """

    entries: Literal["coin", "normal"]
    rank: int


class NoClosedForm(ValueError):  # noqa: N818 (the name states a fact, not an error)
    """The family has no closed form for the requested quantity; the message says why."""


class Directions(ABC):
    """A family of directions, such as those of each method of the paper.

    A family is an immutable description. What it has to remember between steps, such as the past
    estimates of Guided ES, is an explicit state. Most families have no state.
    """

    @abstractmethod
    def draw(self, state: State, at: Address) -> Draw:
        """Return the directions of one step, a pure function of the state and the address."""

    @abstractmethod
    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """Return the moments that determine bias, error and shrinkage.

        See :mod:`gensmooth.theory`.

        Raises:
            NoClosedForm: If the family has no closed form for them.
        """

    # --- defaults derived from the moments -------------------------------------------------------

    def variance(self, dim: int, num_directions: int) -> float:
        """Return the variance of an entry, averaged over all entries of all directions.

        In each coordinate, evaluations are √variance times the spacing away from x.

        Raises:
            NoClosedForm: If the family has no moments and does not define this method.
        """
        return self.moments(dim, num_directions).mean

    def gain(self, dim: int, num_directions: int) -> float:
        """Return the length of the mean estimate, relative to the gradient.

        It equals the variance unless the estimate is rescaled.
        """
        return self.variance(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return the kurtosis of an entry, its fourth standardised moment (3 for a Gaussian).

        Raises:
            NoClosedForm: If the family does not define it. In general, it does not follow from the
                moments. For directions of uniformly random orientation it does; see
                :func:`rotated_kurtosis`.
        """
        raise NoClosedForm(
            f"{type(self).__name__} does not define the kurtosis of its entries: add a method "
            "`kurtosis`."
        )

    def shrinkage(self, dim: int, num_directions: int) -> float:
        """Return the factor v by which the family shrinks the estimate; 1 without shrinkage."""
        return 1.0

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """Return the part of the forward difference's MSE on a quadratic due to a finite spacing.

        The arguments are those of :func:`gensmooth.theory.quadratic_spacing_mse`.

        Raises:
            NoClosedForm: If the family has no closed form for it.
        """
        raise NoClosedForm(f"{self!r} has no closed form for its error at a finite spacing.")

    @property
    def usual_spacing(self) -> float:
        """The default spacing of a search with these directions."""
        return 0.1

    @property
    def same_law_each_step(self) -> bool:
        """Whether the kernel laws of two steps differ only in their random key.

        If so, compiled loops can draw many steps at once, which only saves time.
        """
        return False

    @property
    def factors(self) -> Factors | None:
        """The factors of low-rank directions, from which models generate theirs.

        ``None`` for every other family.
        """
        return None

    # --- state: what the family remembers between steps ------------------------------------------

    def resolve(self, dim: int, num_directions: int) -> "Directions":
        """Return the family with all settings that depend on d and L filled in."""
        return self

    def shaped(self, shape: Shape | tuple[Shape, ...]) -> "Directions":
        """Return the family for parameters of this shape, if the family depends on it.

        Args:
            shape: The shape of x, or the shapes of the arrays that are concatenated in x, such as
                the layers of a policy.
        """
        return self

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:
        """Return the initial state."""
        return ()

    def update(self, state: State, gradient: NDArray[Any]) -> State:
        """Return the state after a step with the estimate ``gradient``."""
        return state

    def observe(self, state: State, value: float) -> State:
        """Return the state after a step with this value at x; called after :meth:`update`."""
        return state

    def latest_gradient(self, before: State, after: State) -> NDArray[Any] | None:
        """Return the estimate whose :meth:`update` leads from one state to the other, if any.

        Workers that already have ``before`` receive this estimate instead of all of ``after``.
        """
        return None

    def pack(self, state: State) -> Arrays:
        """Return the state as named arrays, for checkpoints and workers.

        The default handles tuples and NamedTuples of arrays and numbers. A family whose state
        contains anything else needs its own version.

        Raises:
            TypeError: If the state contains anything else.
        """
        return pack_state(state)

    def unpack(self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]) -> State:
        """Return the state from the arrays of :meth:`pack`.

        Raises:
            ValueError: If the arrays are not a valid state.
        """
        return unpack_state(arrays, self.init(dim, dtype))


def check_directions(directions: object) -> Directions:
    """Return checked directions, with the NumPy numbers in their fields converted to Python's.

    A configuration can only store Python's numbers, and custom families may not convert theirs.

    Raises:
        TypeError: If the argument is not directions.
    """
    if not isinstance(directions, Directions):
        raise TypeError(
            "`directions` must be directions, such as gs.Gaussian(), but is "
            f"{checks.shown(directions)}."
        )
    if not is_dataclass(directions):
        return directions
    values = {f.name: getattr(directions, f.name) for f in fields(directions) if f.init}
    plain = {n: checks.python(v) for n, v in values.items() if isinstance(v, np.generic)}
    return replace(directions, **plain) if plain else directions


def rotated_kurtosis(moments: theory.Moments) -> float:
    """Return the kurtosis of an entry of directions with uniformly random orientation.

    It follows from E ε_j⁴ = 3 E‖ε‖⁴ / (d (d + 2)).
    """
    return 3 * moments.fourth / ((moments.dim + 2) * moments.mean**2)


# --- the table of methods -----------------------------------------------------------------------


PLACE_OF_USERS = 1000  # the default place, after our own methods


class Method(NamedTuple):
    """A named choice of directions.

    Attributes:
        make: Creates the directions.
        title: Its usual name.
        distribution: A short description of the distribution of the directions.
        in_paper: Whether it is one of the six methods of Gao & Sener (ICML 2022).
        place: Its position in lists: the paper's methods first, then ours, then users'.
    """

    make: Callable[[], Directions]
    title: str
    distribution: str
    in_paper: bool = False
    place: int = PLACE_OF_USERS


METHODS: dict[str, Method] = {}


def register(
    name: str,
    make: Callable[[], Directions],
    *,
    title: str | None = None,
    distribution: str = "",
    in_paper: bool = False,
    place: int = PLACE_OF_USERS,
) -> None:
    """Register directions under a name, for ``method=name``.

    Args:
        name: The name that users type.
        make: Creates the directions: a family, or a function without arguments.
        title: Its usual name; by default, ``name``.
        distribution: A short description of the distribution of the directions.
        in_paper: Whether it is one of the six methods of the paper.
        place: Its position in lists.

    Raises:
        ValueError: If ``name`` is empty, contains a colon, or is one of this package's methods.
    """
    if not name or ":" in name:
        raise ValueError(f"`name` must be a non-empty string without a colon, but is {name!r}.")
    registered = METHODS.get(name)
    if registered is not None and registered.make.__module__.partition(".")[0] == "gensmooth":
        raise ValueError(f"There is already a method {name!r}: choose another name.")
    METHODS[name] = Method(make, name if title is None else title, distribution, in_paper, place)
    ordered = sorted(METHODS.items(), key=lambda item: item[1].place)
    METHODS.clear()
    METHODS.update(ordered)


# --- states as named arrays ---------------------------------------------------------------------
# The name of a leaf is its path, field names or indices joined by dots. If the leaf is not an
# array, a colon and its type follow.

_LEAVES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "": np.array,  # a copy, because a worker may reuse the memory in which it received the array
    "scalar": lambda array: array[()],
    "bool": lambda array: bool(array),
    "int": lambda array: int(array),
    "float": lambda array: float(array),
    "none": lambda _: None,
    "empty": lambda _: (),
}


def pack_state(state: State) -> Arrays:
    """Convert a tuple or NamedTuple of arrays and numbers to named arrays."""
    arrays: Arrays = {}
    if state:
        _flatten(state, "", arrays)
    return arrays


def unpack_state(arrays: Mapping[str, NDArray[Any]], template: State) -> State:
    """Return the packed state; the template determines its NamedTuples and enums.

    Raises:
        ValueError: If the arrays are not a valid state.
    """
    try:
        return _restore(_tree(arrays), template)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"the directions' state cannot be read: {error}") from error


def _flatten(part: Any, path: str, arrays: Arrays) -> None:
    """Add the leaves of a state to ``arrays``."""
    if isinstance(part, tuple) and part:
        items = cast(State, part)
        names = getattr(items, "_fields", None) or map(str, range(len(items)))
        for name, item in zip(names, items, strict=True):
            _flatten(item, f"{path}.{name}" if path else name, arrays)
        return
    leaf = cast(Any, part)
    kind = _kind(leaf)
    array: NDArray[Any] = np.empty(0) if kind in ("none", "empty") else np.asarray(leaf)
    if kind not in _LEAVES or array.dtype.kind not in "biufc":
        raise TypeError(
            f"the directions' state must consist of arrays and numbers, but {path} is of type "
            f"{type(leaf).__name__}: give the family its own `pack` and `unpack`"
        )
    arrays[f"{path}:{kind}" if kind else path] = array


def _kind(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return ""
    if isinstance(part, np.generic):
        return "scalar"
    if part is None:
        return "none"
    if isinstance(part, IntEnum):
        return "int"
    return "empty" if part == () else type(part).__name__


def _restore(tree: Mapping[str, Any], template: Any) -> State:
    """Return the state with these leaves; the template determines NamedTuples and enums."""
    fields: tuple[str, ...] | None = getattr(template, "_fields", None)
    keys = {name.partition(":")[0]: name for name in tree}
    names = list(fields or map(str, range(len(tree))))
    if set(keys) != set(names):
        raise ValueError(f"the directions' state must have {names}, but has {sorted(keys)}")
    parts: list[Any] = []
    for index, name in enumerate(names):
        part = tree[keys[name]]
        if isinstance(part, dict):
            inner = template[index] if index < len(template) else ()
            parts.append(_restore(cast(dict[str, Any], part), inner))
        else:
            leaf = _LEAVES[keys[name].partition(":")[2]](part)
            example = template[index] if index < len(template) else None
            parts.append(type(example)(leaf) if isinstance(example, IntEnum) else leaf)
    return type(template)(*parts) if fields else tuple(parts)


def _tree(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the leaves, nested by their paths."""
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        *outer, name = path.split(".")
        inner = tree
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[name] = array
    return tree
