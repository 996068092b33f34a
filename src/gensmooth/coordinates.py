"""What the objective has and what the search has: structures, held parameters, log scales.

The objective has parameters as the user gave them. The search has an array of what is left to
find: the structure is flat (:class:`~gensmooth.trees.Tree`), parameters whose two limits are equal
are left out (:class:`Held`), those on a log scale are logarithms
(:class:`~gensmooth.parameters.LogScale`). In this order one leads inward, and back outward:

>>> found = inward({"a": 2.0, "b": 5.0, "c": 1.0}, bounds={"a": (0, 9), "b": (4, 4), "c": (1, 9)},
...                log_scale={"a": True, "b": False, "c": False})
>>> found.x, found.bounds.upper
(array([0.69314718, 1.        ]), array([2.19722458, 9.        ]))
>>> {name: round(float(each), 3) for name, each in found.coordinates.outward(found.x).items()}
{'a': 2.0, 'b': 4.0, 'c': 1.0}
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.parameters import Bounds, LogScale, as_bounds, as_parameters, is_tree
from gensmooth.trees import Tree

Array = NDArray[Any]


@final
@dataclass(frozen=True)
class Held:
    """Some parameters are held where their limits are: the search has the others, as a flat array.

    It has them alone, so that what it derives from their number (directions, lengths, units) is
    that of what there is to find.

    Attributes:
        free: Which the search has, in the shape of x.
        values: What the others are, in the shape of x; 0 where ``free``.
    """

    free: Array
    values: Array

    @classmethod
    def of(cls, bounds: Bounds | None, x: Array) -> "Held | None":
        """From limits, of which two may be equal; ``None`` if none are."""
        if bounds is None or not (equal := bounds.lower == bounds.upper).any():
            return None
        values = np.where(equal, bounds.lower, 0).astype(x.dtype)
        if not np.isfinite(values).all():
            raise ValueError("`bounds` must be finite where a lower limit equals its upper limit.")
        if equal.all():
            raise ValueError(
                "`bounds` hold every parameter, each lower limit being its upper limit: there is "
                "nothing left to search."
            )
        return cls(~equal, values)

    def inward(self, x: Array) -> Array:
        """What the search has, from what the objective has."""
        return x[self.free]

    def outward(self, x: Array) -> Array:
        """What the objective has, from what the search has; points may be stacked."""
        found = np.empty((*x.shape[:-1], *self.free.shape), x.dtype)
        found[...] = self.values
        found[..., self.free] = x
        return found

    def each(self, name: str, given: Any) -> Any:
        """What was given for each parameter, for those that the search has; one for all stays."""
        array: Array = np.zeros(())
        with suppress(Exception):  # ragged, or an object of the user's: told of later
            array = np.asarray(given)
        if array.ndim == 0:
            return given
        try:
            return np.broadcast_to(array, self.free.shape)[self.free]
        except ValueError:
            raise ValueError(
                f"`{name}` must be one for all parameters, or one for each in the shape "
                f"{self.free.shape} of x0, but has shape {array.shape}."
            ) from None


@final
@dataclass(frozen=True)
class Coordinates:
    """The way from what the search has to what the objective has, and back.

    Attributes:
        tree: The structure in which the objective has parameters, if it is one.
        held: Which are held, if any.
        log_scale: Which the search has as logarithms, if any.
    """

    tree: Tree | None = None
    held: Held | None = None
    log_scale: LogScale | None = None

    def shapes(self, x: Array) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        """The shape of what the search has, or those of the arrays in it.

        An array of a structure of which some is held is a vector of the rest.
        """
        if self.tree is None or self.held is None:
            return x.shape if self.tree is None else self.tree.shapes
        sizes = [math.prod(shape) for shape in self.tree.shapes]
        free = [int(part.sum()) for part in np.split(self.held.free, np.cumsum(sizes)[:-1])]
        every = zip(self.tree.shapes, sizes, free, strict=True)
        return tuple(shape if left == size else (left,) for shape, size, left in every if left)

    def outward(self, x: Array) -> Any:
        """What the objective has, from what the search has."""
        x = x.copy() if self.log_scale is None else self.log_scale.outward(x)
        x = x if self.held is None else self.held.outward(x)
        return x if self.tree is None else self.tree.build(x)

    def objective(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The objective of what the search has."""
        fun = fun if self.tree is None else self.tree.objective(fun)
        fun = fun if self.held is None else HeldObjective(fun, self.held)
        return fun if self.log_scale is None else self.log_scale.objective(fun)


class Inward(NamedTuple):
    """A start and what is said of its parameters, as the search has them."""

    coordinates: Coordinates
    x: Array
    bounds: Any
    x_scale: Any


def inward(x0: Any, *, bounds: Any = None, x_scale: Any = None, log_scale: Any = None) -> Inward:
    """From what a user gives to what a search has; see :func:`gensmooth.minimize`."""
    x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
    if tree is not None:
        bounds = None if bounds is None else tree.bounds(bounds)
        x_scale = None if x_scale is None else tree.like("x_scale", x_scale)
        log_scale = None if log_scale is None else tree.like("log_scale", log_scale)
    limits = None if bounds is None else as_bounds(bounds, x, equal=True)
    held = Held.of(limits, x)
    if held is not None and limits is not None:
        x = held.inward(x)
        bounds = limits = Bounds(*map(held.inward, limits))
        x_scale, log_scale = held.each("x_scale", x_scale), held.each("log_scale", log_scale)
    logs = LogScale.of(log_scale, x)
    if logs is not None:
        x = logs.inward(x)
        bounds = None if limits is None else logs.bounds(limits)
    return Inward(Coordinates(tree, held, logs), x, bounds, x_scale)


@final
@dataclass(frozen=True)
class HeldObjective:
    """See :class:`Held`."""

    fun: Callable[..., Any]
    held: Held

    def __call__(self, x: Array, *more: Any) -> Any:
        """The objective at what the search has."""
        return self.fun(self.held.outward(x), *more)
