"""Conversion between the objective's parameters and the search's: structures, fixed values, logs.

The objective takes parameters in the user's form. The search works on an array of the parameters
that it can change. To get from the first to the second ("inward"), a structure is flattened
(:class:`~gensmooth.trees.Tree`), fixed parameters, whose two limits are equal, are removed
(:class:`FixedParameters`), and parameters on a log scale become logarithms
(:class:`~gensmooth.parameters.LogScale`). "Outward" undoes these steps in reverse order:

>>> start = inward({"a": 2.0, "b": 5.0, "c": 1.0}, bounds={"a": (0, 9), "b": (4, 4), "c": (1, 9)},
...                log_scale={"a": True, "b": False, "c": False})
>>> start.x, start.bounds.upper
(array([0.69314718, 1.        ]), array([2.19722458, 9.        ]))
>>> {name: round(float(x), 3) for name, x in start.coordinates.outward(start.x).items()}
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
class FixedParameters:
    """The parameters whose two limits are equal. The search gets the others as a flat array.

    Fixed parameters are removed so that whatever depends on the number of parameters (directions,
    lengths, units) counts only those that can change.

    Attributes:
        free: Which parameters can change, in the shape of x.
        values: The values of the fixed parameters, in the shape of x; 0 where ``free``.
    """

    free: Array
    values: Array

    @classmethod
    def of(cls, bounds: Bounds | None, x: Array) -> "FixedParameters | None":
        """Find the fixed parameters from their limits; return ``None`` if there are none."""
        if bounds is None or not (is_fixed := bounds.lower == bounds.upper).any():
            return None
        values = np.where(is_fixed, bounds.lower, 0).astype(x.dtype)
        if not np.isfinite(values).all():
            raise ValueError("`bounds` must be finite where a lower limit equals its upper limit.")
        if is_fixed.all():
            raise ValueError(
                "`bounds` fix every parameter, because every lower limit equals its upper limit: "
                "leave at least one parameter free."
            )
        return cls(~is_fixed, values)

    def inward(self, x: Array) -> Array:
        """Convert the objective's parameters to the search's."""
        return x[self.free]

    def outward(self, x: Array) -> Array:
        """Convert the search's parameters to the objective's; points may be stacked."""
        full = np.empty((*x.shape[:-1], *self.free.shape), x.dtype)
        full[...] = self.values
        full[..., self.free] = x
        return full

    def select_free(self, name: str, values: Any) -> Any:
        """Return the values of the free parameters; a single value for all is left unchanged."""
        array: Array = np.zeros(())
        with suppress(Exception):  # ragged, or a user's object: a later check reports it
            array = np.asarray(values)
        if array.ndim == 0:
            return values
        try:
            return np.broadcast_to(array, self.free.shape)[self.free]
        except ValueError:
            raise ValueError(
                f"`{name}` must be a single value or an array of the shape {self.free.shape} of "
                f"x0, but has shape {array.shape}."
            ) from None


@final
@dataclass(frozen=True)
class Coordinates:
    """The conversion between the search's parameters and the objective's.

    Attributes:
        tree: The structure of the objective's parameters, if they are not a single array.
        fixed: The fixed parameters, if any.
        log_scale: The parameters that the search sees as logarithms, if any.
    """

    tree: Tree | None = None
    fixed: FixedParameters | None = None
    log_scale: LogScale | None = None

    def shapes(self, x: Array) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        """Return the shape of the search's parameters, or the shapes of the arrays in it.

        In a structure, an array with some fixed entries becomes a vector of its free entries.
        """
        if self.tree is None or self.fixed is None:
            return x.shape if self.tree is None else self.tree.shapes
        sizes = [math.prod(shape) for shape in self.tree.shapes]
        free = [int(part.sum()) for part in np.split(self.fixed.free, np.cumsum(sizes)[:-1])]
        arrays = zip(self.tree.shapes, sizes, free, strict=True)
        return tuple(shape if left == size else (left,) for shape, size, left in arrays if left)

    def outward(self, x: Array) -> Any:
        """Convert the search's parameters to the objective's."""
        x = x.copy() if self.log_scale is None else self.log_scale.outward(x)
        x = x if self.fixed is None else self.fixed.outward(x)
        return x if self.tree is None else self.tree.build(x)

    def objective(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``fun`` as a function of the search's parameters."""
        fun = fun if self.tree is None else self.tree.objective(fun)
        fun = fun if self.fixed is None else ObjectiveOfFree(fun, self.fixed)
        return fun if self.log_scale is None else self.log_scale.objective(fun)


class Inward(NamedTuple):
    """The arguments of a search: the start, the bounds and the scale in its own parameters."""

    coordinates: Coordinates
    x: Array
    bounds: Any
    x_scale: Any


def inward(x0: Any, *, bounds: Any = None, x_scale: Any = None, log_scale: Any = None) -> Inward:
    """Convert the arguments of :func:`gensmooth.minimize` to those of a search."""
    x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
    if tree is not None:
        bounds = None if bounds is None else tree.bounds(bounds)
        x_scale = None if x_scale is None else tree.like("x_scale", x_scale)
        log_scale = None if log_scale is None else tree.like("log_scale", log_scale)
    limits = None if bounds is None else as_bounds(bounds, x, equal=True)
    fixed = FixedParameters.of(limits, x)
    if fixed is not None and limits is not None:
        x = fixed.inward(x)
        bounds = limits = Bounds(*map(fixed.inward, limits))
        x_scale, log_scale = (
            fixed.select_free("x_scale", x_scale),
            fixed.select_free("log_scale", log_scale),
        )
    logs = LogScale.of(log_scale, x)
    if logs is not None:
        x = logs.inward(x)
        bounds = None if limits is None else logs.bounds(limits)
    return Inward(Coordinates(tree, fixed, logs), x, bounds, x_scale)


@final
@dataclass(frozen=True)
class ObjectiveOfFree:
    """The objective as a function of the free parameters; see :class:`FixedParameters`."""

    fun: Callable[..., Any]
    fixed: FixedParameters

    def __call__(self, x: Array, *more: Any) -> Any:
        """Evaluate the objective at the search's parameters."""
        return self.fun(self.fixed.outward(x), *more)
