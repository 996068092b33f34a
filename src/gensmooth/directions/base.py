"""What every family of directions offers to the rest of the program, and the table of methods.

A family is one file, here or in a module of a user's own: a frozen dataclass derived from
:class:`Directions`, and a :func:`register` for each name that it goes by. Nothing else in the
program knows which family is in use; it asks the family.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, theory
from gensmooth.directions.draw import Address, Draw

State = tuple[Any, ...]
Shape = tuple[int, ...]
Arrays = dict[str, NDArray[Any]]


class Factors(NamedTuple):
    """What low-rank directions are products of.

    Attributes:
        entries: Of the factors, ``"coin"`` or ``"normal"``.
        rank: Their columns.
    """

    entries: Literal["coin", "normal"]
    rank: int


class NoClosedForm(ValueError):  # noqa: N818 (it is a statement, raised as one)
    """The family has no closed form for what was asked; the message says why."""


class Directions(ABC):
    """A way to choose the directions of a step: the whole of what a method of the paper is.

    A family is an immutable description. What must be remembered from step to step (Guided ES's
    past estimates) is an explicit state; most families have none.
    """

    @abstractmethod
    def draw(self, state: State, at: Address) -> Draw:
        """The directions of one step: a pure function of the state and the address."""

    @abstractmethod
    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """The moments that bias, error and shrinkage follow from; see :mod:`gensmooth.theory`.

        Raises:
            NoClosedForm: When the family has none.
        """

    # --- what follows from the moments, unless the family knows better ---------------------------

    def variance(self, dim: int, num_directions: int) -> float:
        """The variance of an entry, on average over all entries of all directions.

        Evaluations are √variance times the spacing away from x, in each coordinate.

        Raises:
            NoClosedForm: When the family has no moments and does not say.
        """
        return self.moments(dim, num_directions).mean

    def gain(self, dim: int, num_directions: int) -> float:
        """How long the mean of the estimate is, in units of the gradient.

        It is the variance, unless something scales the estimate.
        """
        return self.variance(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """The kurtosis of an entry, the plain fourth standardised moment (3 for a Gaussian).

        Raises:
            NoClosedForm: When the family does not say. It does not follow from the moments; for
                directions of a uniformly random orientation it does, see :func:`rotated_kurtosis`.
        """
        raise NoClosedForm(
            f"{type(self).__name__} does not say what the kurtosis of its entries is: give it "
            "`kurtosis`."
        )

    def shrinkage(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """The factor v by which the family shrinks the estimate; 1 for one that does not."""
        return 1.0

    def quadratic_spacing_mse(
        self,
        dim: int,  # noqa: ARG002
        num_directions: int,  # noqa: ARG002
        *,
        spacing: float,  # noqa: ARG002
        hessian: theory.HessianSquares,  # noqa: ARG002
    ) -> float:
        """What a finite spacing adds to the forward difference's MSE on a quadratic.

        Arguments as in :func:`gensmooth.theory.quadratic_spacing_mse`.

        Raises:
            NoClosedForm: When the family does not say.
        """
        raise NoClosedForm(f"{self!r} has no closed form for its error at a finite spacing.")

    @property
    def usual_spacing(self) -> float:
        """The spacing of a search that was given none."""
        return 0.1

    @property
    def same_law_each_step(self) -> bool:
        """Whether the kernel laws of all steps differ in their key alone.

        Then compiled loops draw many steps at once. Never needed, only faster.
        """
        return False

    @property
    def factors(self) -> Factors | None:
        """Of low-rank matrices, what they are products of: models make theirs from it.

        ``None`` of every other family.
        """
        return None

    # --- state: what the family remembers from step to step --------------------------------------

    def resolve(self, dim: int, num_directions: int) -> "Directions":  # noqa: ARG002
        """The family with everything that depends on d and L filled in."""
        return self

    def shaped(self, shape: Shape | tuple[Shape, ...]) -> "Directions":  # noqa: ARG002
        """The family for parameters of this shape: for one that makes a difference of it.

        Args:
            shape: That of x; or the shapes of the arrays whose entries lie one after the other in
                it, as a policy's layers do.
        """
        return self

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:  # noqa: ARG002
        """The state before the first step."""
        return ()

    def update(self, state: State, gradient: NDArray[Any]) -> State:  # noqa: ARG002
        """The state after a step whose estimate was ``gradient``."""
        return state

    def observe(self, state: State, value: float) -> State:  # noqa: ARG002
        """The state after a step that saw this value at x; called after :meth:`update`."""
        return state

    def latest_gradient(self, before: State, after: State) -> NDArray[Any] | None:  # noqa: ARG002
        """The estimate whose :meth:`update` leads from one state to the other, if one does.

        Workers that hold ``before`` are sent this instead of all of ``after``.
        """
        return None

    def pack(self, state: State) -> Arrays:
        """The state as named arrays, for checkpoints and workers.

        This one knows tuples and NamedTuples of arrays and numbers; a family whose state holds
        anything else has its own.

        Raises:
            TypeError: When the state holds anything else.
        """
        return pack_state(state)

    def unpack(self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]) -> State:
        """The state that :meth:`pack` was given.

        Raises:
            ValueError: When the arrays are not such a state.
        """
        return unpack_state(arrays, self.init(dim, dtype))


def check_directions(given: object) -> Directions:
    """Refuse what is not directions, with a hint at what is.

    A family of a user's own, too, gets Python's numbers for NumPy's: a configuration has those.
    """
    if not isinstance(given, Directions):
        raise TypeError(
            f"`directions` must be directions, such as gs.Gaussian(), not {checks.shown(given)}."
        )
    if not is_dataclass(given):
        return given
    own = {field.name: getattr(given, field.name) for field in fields(given) if field.init}
    plain = {n: checks.python(value) for n, value in own.items() if isinstance(value, np.generic)}
    return replace(given, **plain) if plain else given


def rotated_kurtosis(moments: theory.Moments) -> float:
    """The kurtosis of an entry of directions whose orientation is uniformly random.

    For these E ε_j⁴ = 3 E‖ε‖⁴ / (d (d + 2)).
    """
    return 3 * moments.own / ((moments.dim + 2) * moments.mean**2)


# --- the table of methods -----------------------------------------------------------------------


OF_USERS = 1000  # the place of a method that says none


class Method(NamedTuple):
    """A named choice of directions.

    Attributes:
        make: Makes the directions.
        title: What people call it.
        distribution: How the directions are distributed, in a few words.
        in_paper: Whether it is one of the six methods of Gao & Sener (ICML 2022).
        place: Where it stands in lists: the paper's first, then ours, then those of users.
    """

    make: Callable[[], Directions]
    title: str
    distribution: str
    in_paper: bool = False
    place: int = OF_USERS


METHODS: dict[str, Method] = {}


def register(
    name: str,
    make: Callable[[], Directions],
    *,
    title: str | None = None,
    distribution: str = "",
    in_paper: bool = False,
    place: int = OF_USERS,
) -> None:
    """Name a choice of directions, so that ``method=name`` finds it.

    Args:
        name: What users type.
        make: Makes the directions: a family, or a function without arguments.
        title: What people call it; by default the name.
        distribution: How the directions are distributed, in a few words.
        in_paper: Whether it is one of the six methods of the paper.
        place: Where it stands in lists.

    Raises:
        ValueError: When the name is taken by a method of this package.
    """
    if not name or ":" in name:
        raise ValueError(f"`name` must be a word without a colon, but is {name!r}.")
    taken = METHODS.get(name)
    if taken is not None and taken.make.__module__.partition(".")[0] == "gensmooth":
        raise ValueError(f"There is a method {name!r} already: choose another name.")
    METHODS[name] = Method(make, name if title is None else title, distribution, in_paper, place)
    ordered = sorted(METHODS.items(), key=lambda item: item[1].place)
    METHODS.clear()
    METHODS.update(ordered)


# --- states as named arrays ---------------------------------------------------------------------
# A leaf is named by its path, field names or indices joined by dots; the name of one that is not
# an array says after a colon what it is.

_LEAVES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "": np.array,  # a copy: what a worker was sent may lie in memory that is used again
    "scalar": lambda array: array[()],
    "bool": lambda array: bool(array),
    "int": lambda array: int(array),
    "float": lambda array: float(array),
    "none": lambda _: None,
    "empty": lambda _: (),
}


def pack_state(state: State) -> Arrays:
    """A tuple or NamedTuple of arrays and numbers as named arrays."""
    arrays: Arrays = {}
    if state:
        _flatten(state, "", arrays)
    return arrays


def unpack_state(arrays: Mapping[str, NDArray[Any]], template: State) -> State:
    """The state that was packed; NamedTuples are those of the template.

    Raises:
        ValueError: When the arrays are not such a state.
    """
    try:
        return _restore(_tree(arrays), template)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"the directions' state cannot be read: {error}") from error


def _flatten(part: Any, path: str, arrays: Arrays) -> None:
    """Put the leaves of a state into ``arrays``."""
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
            f"the directions' state has {path}, a {type(leaf).__name__}: one of arrays and numbers "
            "can be written down; for any other the family needs its own `pack` and `unpack`"
        )
    arrays[f"{path}:{kind}" if kind else path] = array


def _kind(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return ""
    if isinstance(part, np.generic):
        return "scalar"
    if part is None:
        return "none"
    return "empty" if part == () else type(part).__name__


def _restore(tree: Mapping[str, Any], template: Any) -> State:
    """The state of these leaves; NamedTuples are those of the template."""
    fields: tuple[str, ...] | None = getattr(template, "_fields", None)
    found = {name.partition(":")[0]: name for name in tree}
    names = list(fields or map(str, range(len(tree))))
    if set(found) != set(names):
        raise ValueError(f"the directions' state has {sorted(found)}, but should have {names}")
    made: list[Any] = []
    for index, name in enumerate(names):
        part = tree[found[name]]
        if isinstance(part, dict):
            inner = template[index] if index < len(template) else ()
            made.append(_restore(cast(dict[str, Any], part), inner))
        else:
            made.append(_LEAVES[found[name].partition(":")[2]](part))
    return type(template)(*made) if fields else tuple(made)


def _tree(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The leaves, nested by their paths."""
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        *outer, name = path.split(".")
        inner = tree
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[name] = array
    return tree
