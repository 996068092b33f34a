"""Parameters as users pass them: their shape, dtype, bounds and scale."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks

Array = NDArray[Any]

_UNIT_PER_WIDTH = 0.25  # a unit, as a fraction of the distance between the bounds
_TINY_START = 1e-6  # an entry of x0 below this fraction of the typical size has its own unit
_MAX_OWN_UNITS = 2000  # parameters; beyond, a random x0 has such small entries by chance
DEEPEST = 50  # the maximum depth of a structure, which might contain itself


class Bounds(NamedTuple):
    """Lower and upper limits, in the shape of the parameters."""

    lower: Array
    upper: Array


def as_parameters(x0: ArrayLike) -> Array:
    """Return a checked float32 or float64 copy of ``x0``."""
    if np.ma.is_masked(x0):
        raise ValueError("`x0` must have no masked entries: fill them, as in x0.filled(0.0).")
    try:
        x = np.array(x0, order="C")
    except Exception:  # ragged, or a user's object
        raise ValueError(f"`x0` must be an array, but is {checks.shown(x0)}.") from None
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    if x.dtype.name not in ("float32", "float64"):
        if is_tree(x0):
            raise TypeError(
                "`x0` must be a single array here, but is a structure: use "
                "`flat, tree = gs.Tree.of(x0)`, start from `flat`, and pass tree.objective(fun)."
            )
        raise TypeError(f"`x0` must be numbers in float32 or float64, but its dtype is {x.dtype}.")
    if x.size == 0:
        raise ValueError("`x0` must have at least one entry, but is empty.")
    if not np.isfinite(x).all():
        where = np.argwhere(~np.isfinite(x))[0].tolist()
        raise ValueError(f"`x0` must be finite, but x0[{', '.join(map(str, where))}] is not.")
    return x


def is_tree(x0: Any) -> bool:
    """Whether parameters are a structure (see :mod:`gensmooth.trees`) rather than one array.

    Mappings, dataclasses and named tuples are structures. A list or tuple is one if it contains any
    of these, or arrays that NumPy cannot stack into one array.

    >>> is_tree({"w": np.ones(2)}), is_tree([1.0, 2.0]), is_tree([np.ones(3), np.ones((3, 2))])
    (True, False, True)
    """
    if _has_names(x0):
        return True
    if not isinstance(x0, list | tuple):
        return False
    records, arrays = _contents(cast("list[Any]", x0), 0)
    if records or not arrays:
        return records
    try:
        np.array(cast("Any", x0))
    except Exception:  # ragged
        return True
    return False


def is_record(value: Any) -> bool:
    """Whether something is an instance of a dataclass or a named tuple."""
    if isinstance(value, type):
        return False
    named = isinstance(value, tuple) and hasattr(cast("object", value), "_fields")
    return named or is_dataclass(cast("Any", value))


def _has_names(value: Any) -> bool:
    """Whether a value is a mapping or record that is not convertible to an array."""
    return (isinstance(value, Mapping) or is_record(value)) and not hasattr(
        cast("object", value), "__array__"
    )


def _contents(items: "list[Any]", depth: int) -> tuple[bool, bool]:
    """Whether a list contains mappings or records, and whether it contains arrays, at any level."""
    arrays = False
    if set(map(type, items)) <= {float, int, bool} or depth > DEEPEST:  # the usual case
        return False, arrays
    for item in items:
        if _has_names(item):
            return True, arrays
        if isinstance(item, list | tuple):
            below = _contents(cast("list[Any]", item), depth + 1)
            if below[0]:
                return below
            arrays = arrays or below[1]
        else:
            arrays = arrays or (hasattr(item, "__array__") and np.ndim(item) > 0)
    return False, arrays


def as_bounds(bounds: Any, x: Array, *, equal: bool = False) -> Bounds:
    """Return limits in the shape of x, from any of these forms.

    - ``(lower, upper)``, two numbers (or ``None``) for all parameters, or two arrays in the shape
      of x, or one of each;
    - ``gs.Bounds(lower, upper)``, or SciPy's ``Bounds``, whose arrays are broadcast;
    - one ``(lower, upper)`` for each parameter, as in SciPy.

    With two parameters, ``[[a, b], [c, d]]`` could mean two arrays or two pairs. Inner tuples are
    read as pairs, and a tuple of two NumPy arrays as lower and upper limits. Otherwise, the reading
    in which every lower limit is below its upper limit is used; if both are valid, it is an error.

    With ``equal``, a lower limit may equal its upper limit, which fixes the parameter.
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = bounds.lb, bounds.ub
    elif isinstance(bounds, Bounds):
        low, high = bounds
    else:
        low, high = _parse_bounds(bounds, x)
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    low, high = (np.asarray(checks.reals("bounds", side), x.dtype) for side in (low, high))
    try:
        low, high = np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)
    except ValueError:
        raise ValueError(
            f"`bounds` must fit the shape {x.shape} of x0, but have shapes {low.shape} and "
            f"{high.shape}."
        ) from None
    fits = low <= high if equal else low < high
    if not fits.all():
        where = tuple(np.argwhere(~fits)[0])
        hint = " Only gs.minimize accepts fixed parameters." if low[where] == high[where] else ""
        raise ValueError(
            "`bounds` must have every lower limit below its upper limit, but one pair is "
            f"({low[where]}, {high[where]}).{hint}"
        )
    return Bounds(low, high)


def find_units(x: Array, x_scale: Any, bounds: Any) -> Array:
    """Return one unit per parameter, or a single unit for all.

    The user's ``x_scale`` takes precedence. Without it, the unit of a parameter with two finite
    bounds is a quarter of their distance. The unit of any other parameter is the root mean square
    of x0 (1 if x0 is zero), or the parameter's own size in x0 if that is far smaller.
    """
    if x_scale is not None:
        scale = np.asarray(checks.reals("x_scale", x_scale), np.float64)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(
                f"`x_scale` must be positive and finite, but is {checks.shown(x_scale)}."
            )
        try:
            full = np.broadcast_to(scale, x.shape) if scale.ndim else scale
        except ValueError:
            raise ValueError(
                f"`x_scale` must be a number or an array of the shape {x.shape} "
                f"of x0, but has shape {scale.shape}."
            ) from None
        return full.reshape(-1).copy()
    sizes = np.abs(x.reshape(-1).astype(np.float64))
    typical = float(np.sqrt(np.square(sizes).mean())) or 1.0
    units = np.full(1, typical)
    tiny = (sizes > 0) & (sizes < _TINY_START * typical)
    if tiny.any() and x.size <= _MAX_OWN_UNITS:
        units = np.where(tiny, sizes, typical)
    if bounds is not None:
        limits = as_bounds(bounds, x)
        width = limits.upper.astype(np.float64) - limits.lower.astype(np.float64)
        width = width.reshape(-1)
        if np.isfinite(width).any():
            units = np.where(np.isfinite(width), _UNIT_PER_WIDTH * width, units)
    return units


@final
@dataclass(frozen=True)
class LogScale:
    """Some parameters on a log scale: the search works on log x where the objective takes x.

    Attributes:
        mask: Which parameters, in the shape of x.
    """

    mask: Array

    @classmethod
    def of(cls, which: Any, x: Array) -> "LogScale | None":
        """Return the scale for ``True`` or a Boolean array; ``None`` if it selects no parameter."""
        if which is None or which is False:
            return None
        mask: Array = np.zeros(0)
        with suppress(Exception):  # ragged, or a user's object
            mask = np.asarray(which)
        if mask.dtype != bool or mask.shape not in ((), x.shape):
            raise ValueError(
                f"`log_scale` must be True, False or a Boolean array of the shape {x.shape} of x0, "
                f"but is {checks.shown(which)}."
            )
        full = np.broadcast_to(mask, x.shape)
        if not (x[full] > 0).all():
            raise ValueError(
                "`log_scale` needs parameters above zero, but one of them starts at "
                f"{float(x[full].min()):g}."
            )
        return cls(full.copy()) if full.any() else None

    def inward(self, x: Array) -> Array:
        """Convert the objective's parameters to the search's."""
        with np.errstate(divide="ignore"):  # a lower limit of 0 becomes −inf: no limit
            return np.where(self.mask, np.log(np.where(self.mask, x, 1)), x).astype(x.dtype)

    def outward(self, x: Array) -> Array:
        """Convert the search's parameters to the objective's; points may be stacked."""
        return np.where(self.mask, np.exp(np.where(self.mask, x, 0)), x).astype(x.dtype)

    def bounds(self, bounds: Bounds) -> Bounds:
        """Convert limits for the objective to limits for the search."""
        low, high = (np.array(limit) for limit in bounds)
        if (high[self.mask] <= 0).any():
            raise ValueError(
                "`bounds` of a parameter on a log scale must have an upper limit above zero."
            )
        low[self.mask] = np.maximum(low[self.mask], 0)
        lower, upper = self.inward(low), self.inward(high)
        least = float(np.finfo(low.dtype).eps)
        with np.errstate(invalid="ignore"):  # inf − inf
            while (outside := self.outward(lower) < low).any():  # by rounding
                lower = np.where(outside, lower + least * (1 + np.abs(lower)), lower)
            while (outside := self.outward(upper) > high).any():
                upper = np.where(outside, upper - least * (1 + np.abs(upper)), upper)
        return Bounds(lower.astype(low.dtype), upper.astype(high.dtype))

    def units(self, x: Array, bounds: Bounds | None) -> Array:
        """Return one unit per parameter of the search; see :func:`find_units`.

        On a log scale, the unit is a quarter of the distance between the bounds, or, without
        bounds, 1 (a factor of e): the size of a logarithm says nothing about its scale.
        """
        units, rest = np.ones(x.shape), ~self.mask
        if bounds is not None:
            width = np.subtract(*bounds[::-1], dtype=np.float64)
            units = np.where(self.mask & np.isfinite(width), _UNIT_PER_WIDTH * width, units)
        if rest.any():
            limits = None if bounds is None else Bounds(*(limit[rest] for limit in bounds))
            units[rest] = find_units(x[rest], None, limits)
        return units

    def objective(self, fun: Callable[..., Any]) -> "LogObjective":
        """Return ``fun`` as a function of the search's parameters."""
        return LogObjective(fun, self)


@final
@dataclass(frozen=True)
class LogObjective:
    """The objective as a function of the search's parameters; see :class:`LogScale`."""

    fun: Callable[..., Any]
    scale: LogScale

    def __call__(self, x: Array, *more: Any) -> Any:
        """Evaluate the objective at the search's parameters."""
        return self.fun(self.scale.outward(x), *more)


@final
@dataclass(frozen=True)
class WithArguments:
    """An objective with extra arguments: ``fun(x, *arguments)`` or ``fun(x, rng, *arguments)``."""

    fun: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, x: Array, *more: Any) -> Any:
        """Evaluate the objective with its extra arguments."""
        return self.fun(x, *more, *self.arguments)


def with_arguments(fun: Callable[..., Any], args: Any) -> Callable[..., Any]:
    """Bind SciPy's ``args`` to an objective; a single value may be passed without a tuple."""
    arguments = cast(tuple[Any, ...], args if isinstance(args, tuple) else (args,))
    return WithArguments(fun, arguments) if arguments else fun


def _parse_bounds(bounds: Any, x: Array) -> tuple[Any, Any]:
    """Return lower and upper limits from a list of pairs, or from ``(lower, upper)``."""
    members: list[Any] = []
    with suppress(Exception):  # a user's object may raise anything
        members = list(bounds)
    if _has_names(bounds) or any(map(_has_names, members[:2])):
        raise ValueError(
            "`bounds` of a search must be numbers or arrays, but are a structure: convert them "
            "with `flat, tree = gs.Tree.of(x0)` and tree.bounds(bounds)."
        )
    shapes = [_shape(member) for member in members[: max(2, x.size)]]
    is_two = len(members) == 2
    if is_two and () in shapes and all(shape in ((), x.shape) for shape in shapes):
        return _fill_none(members[0], -np.inf), _fill_none(members[1], np.inf)
    as_sides = is_two and shapes == [x.shape, x.shape]
    as_pairs = len(members) == x.size and all(shape == (2,) for shape in shapes)
    if not (as_sides or as_pairs):
        raise ValueError(
            "`bounds` must be (lower, upper), each a number or an array in the shape "
            f"{x.shape} of x0; gs.Bounds(lower, upper); or one pair (lower, upper) for each of "
            f"the {x.size} parameters, but are {_describe_bounds(bounds, members, shapes)}."
        )
    pairs = [_one_side(members, side, x) for side in (0, 1)] if as_pairs else []
    if not as_sides:
        return pairs[0], pairs[1]
    lower, upper = _fill_none(members[0], -np.inf), _fill_none(members[1], np.inf)
    if not as_pairs:
        return lower, upper
    if all(isinstance(member, tuple) for member in members):
        return pairs[0], pairs[1]
    if isinstance(bounds, tuple) and all(isinstance(member, np.ndarray) for member in members):
        return lower, upper
    lower, upper = (np.asarray(checks.reals("bounds", side)) for side in (lower, upper))
    if not (lower < upper).all():
        return pairs[0], pairs[1]
    if (pairs[0] < pairs[1]).all():
        raise ValueError(
            "`bounds` of two parameters can be read in two ways: as lower and upper limits, "
            f"{lower.tolist()} and {upper.tolist()}, or as one pair for each parameter. Write "
            "gs.Bounds(lower, upper) for the first, or [(lower, upper), (lower, upper)], with "
            "tuples, for the second."
        )
    return lower, upper


def _one_side(pairs: list[Any], side: int, x: Array) -> Array:
    """Return the lower or the upper limits of pairs, in the shape of x."""
    unbounded = np.inf if side else -np.inf
    limits = [unbounded if pair[side] is None else pair[side] for pair in pairs]
    return np.reshape(checks.reals("bounds", limits), x.shape)


def _fill_none(limits: Any, unbounded: float) -> Any:
    """Return limits with ``None`` replaced by ``unbounded``."""
    if limits is None:
        return unbounded
    array = np.asarray(limits)
    return limits if array.dtype != object else np.where(array == None, unbounded, array)  # noqa: E711


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return np.shape(value)
    except Exception:  # ragged, or a user's object
        return None


def _describe_bounds(bounds: Any, members: list[Any], shapes: list[tuple[int, ...] | None]) -> str:
    """Describe invalid bounds briefly: an array by its shape rather than its numbers."""
    if isinstance(bounds, np.ndarray):
        return f"an array of shape {np.shape(cast(Array, bounds))}"
    if len(members) == 2 and all(isinstance(member, np.ndarray) for member in members):
        return f"two arrays of shapes {shapes[0]} and {shapes[1]}"
    return checks.shown(bounds)
