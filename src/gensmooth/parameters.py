"""The parameters as users give them: any shape, two dtypes, within bounds, on any scale."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks

Array = NDArray[Any]

_OF_BOX = 0.25  # of what the bounds leave
_TINY = 1e-6  # a start this much smaller than the others is on a scale of its own
_FEW = 2000  # parameters; of many random ones some are that small by chance
DEEPEST = 50  # levels of a structure: one that contains itself has no end


class Bounds(NamedTuple):
    """Lower and upper limits, in the shape of the parameters."""

    lower: Array
    upper: Array


def as_parameters(x0: ArrayLike) -> Array:
    """A fresh float32 or float64 array from ``x0``, checked."""
    try:
        x = np.array(x0, order="C")
    except Exception:  # ragged, or an object of the user's
        raise ValueError(f"`x0` must be an array, but is {checks.shown(x0)}.") from None
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    if x.dtype.name not in ("float32", "float64"):
        if is_tree(x0):
            raise TypeError(
                "`x0` must be one array here, but is a structure: start from the array of "
                "`flat, tree = gs.Tree.of(x0)`, with the function tree.objective(fun)."
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

    Mappings, dataclasses and named tuples are. A list or tuple is one if it holds any of these, or
    arrays that do not make one array together: what NumPy makes an array of stays an array.

    >>> is_tree({"w": np.ones(2)}), is_tree([1.0, 2.0]), is_tree([np.ones(3), np.ones((3, 2))])
    (True, False, True)
    """
    if _has_names(x0):
        return True
    if not isinstance(x0, list | tuple):
        return False
    records, arrays = _held(cast("list[Any]", x0), 0)
    if records or not arrays:
        return records
    try:
        np.array(cast("Any", x0))
    except Exception:  # ragged
        return True
    return False


def is_record(value: Any) -> bool:
    """Whether something is a dataclass or a named tuple; their classes are not."""
    if isinstance(value, type):
        return False
    named = isinstance(value, tuple) and hasattr(cast("object", value), "_fields")
    return named or is_dataclass(cast("Any", value))


def _has_names(value: Any) -> bool:
    """Whether it holds things by name, and is no array of its own making."""
    return (isinstance(value, Mapping) or is_record(value)) and not hasattr(
        cast("object", value), "__array__"
    )


def _held(items: "list[Any]", depth: int) -> tuple[bool, bool]:
    """Whether a list has mappings or records in it, and whether it has arrays, at any level."""
    arrays = False
    if set(map(type, items)) <= {float, int, bool} or depth > DEEPEST:  # at once, as mostly
        return False, arrays
    for item in items:
        if _has_names(item):
            return True, arrays
        if isinstance(item, list | tuple):
            below = _held(cast("list[Any]", item), depth + 1)
            if below[0]:
                return below
            arrays = arrays or below[1]
        else:
            arrays = arrays or (hasattr(item, "__array__") and np.ndim(item) > 0)
    return False, arrays


def as_bounds(bounds: Any, x: Array, *, equal: bool = False) -> Bounds:
    """Limits in the shape of x, from any of these forms.

    - ``(lower, upper)``, two numbers (or ``None``) for all parameters, or two arrays in the shape
      of x, or one of each;
    - ``gs.Bounds(lower, upper)``, or SciPy's ``Bounds``, whose arrays are broadcast;
    - one ``(lower, upper)`` for each parameter, as SciPy takes them.

    With two parameters, ``[[a, b], [c, d]]`` may be two arrays or two pairs. Tuples inside are
    pairs, and two NumPy arrays in a tuple are lower and upper limits; where neither is the case,
    and each reading has every lower limit below its upper limit, it is an error.

    With ``equal``, a lower limit may be its upper limit: such a parameter is held.
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = bounds.lb, bounds.ub
    elif isinstance(bounds, Bounds):
        low, high = bounds
    else:
        low, high = _read(bounds, x)
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    low, high = (np.asarray(checks.reals("bounds", each), x.dtype) for each in (low, high))
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
        hint = " Only gs.minimize holds such a parameter." if low[where] == high[where] else ""
        raise ValueError(
            "`bounds` must have every lower limit below its upper limit, but one pair is "
            f"({low[where]}, {high[where]}).{hint}"
        )
    return Bounds(low, high)


def find_units(x: Array, x_scale: Any, bounds: Any) -> Array:
    """One unit per parameter, or a single one for all.

    What the user says counts first (``x_scale``), then what the bounds leave where both are
    finite, then the size of the start: its root mean square, unless a parameter is so much smaller
    that it must be on a scale of its own. A start of zeros says nothing: the unit is then 1.
    """
    if x_scale is not None:
        given = np.asarray(checks.reals("x_scale", x_scale), np.float64)
        if not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError(
                f"`x_scale` must be positive and finite, but is {checks.shown(x_scale)}."
            )
        try:
            full = np.broadcast_to(given, x.shape) if given.ndim else given
        except ValueError:
            raise ValueError(
                f"`x_scale` must be one number, or one for each parameter in the shape {x.shape} "
                f"of x0, but has shape {given.shape}."
            ) from None
        return full.reshape(-1).copy()
    sizes = np.abs(x.reshape(-1).astype(np.float64))
    typical = float(np.sqrt(np.square(sizes).mean())) or 1.0
    units = np.full(1, typical)
    own = (sizes > 0) & (sizes < _TINY * typical)
    if own.any() and x.size <= _FEW:
        units = np.where(own, sizes, typical)
    if bounds is not None:
        limits = as_bounds(bounds, x)
        width = limits.upper.astype(np.float64) - limits.lower.astype(np.float64)
        width = width.reshape(-1)
        if np.isfinite(width).any():
            units = np.where(np.isfinite(width), _OF_BOX * width, units)
    return units


@final
@dataclass(frozen=True)
class LogScale:
    """Some parameters on a log scale: the search has log x where the objective has x.

    Attributes:
        mask: Which, in the shape of x.
    """

    mask: Array

    @classmethod
    def of(cls, given: Any, x: Array) -> "LogScale | None":
        """From ``True``, or from one truth value for each parameter; ``None`` if none is."""
        if given is None or given is False:
            return None
        mask: Array = np.zeros(0)
        with suppress(Exception):  # ragged, or an object of the user's
            mask = np.asarray(given)
        if mask.dtype != bool or mask.shape not in ((), x.shape):
            raise ValueError(
                f"`log_scale` must be True, or True or False for each parameter in the shape "
                f"{x.shape} of x0, but is {checks.shown(given)}."
            )
        full = np.broadcast_to(mask, x.shape)
        if not (x[full] > 0).all():
            raise ValueError(
                "`log_scale` is for parameters above zero, but x0 has "
                f"{float(x[full].min()):g} among them."
            )
        return cls(full.copy()) if full.any() else None

    def inward(self, x: Array) -> Array:
        """What the search has, from what the objective has."""
        with np.errstate(divide="ignore"):  # a lower limit of 0 becomes −inf, none
            return np.where(self.mask, np.log(np.where(self.mask, x, 1)), x).astype(x.dtype)

    def outward(self, x: Array) -> Array:
        """What the objective has, from what the search has; points may be stacked."""
        return np.where(self.mask, np.exp(np.where(self.mask, x, 0)), x).astype(x.dtype)

    def bounds(self, bounds: Bounds) -> Bounds:
        """The limits that the search has."""
        low, high = (np.array(each) for each in bounds)
        if (high[self.mask] <= 0).any():
            raise ValueError("`bounds` on a log scale must have upper limits above zero.")
        low[self.mask] = np.maximum(low[self.mask], 0)
        lower, upper = self.inward(low), self.inward(high)
        least = float(np.finfo(low.dtype).eps)
        with np.errstate(invalid="ignore"):  # inf − inf
            while (outside := self.outward(lower) < low).any():  # by the last bit
                lower = np.where(outside, lower + least * (1 + np.abs(lower)), lower)
            while (outside := self.outward(upper) > high).any():
                upper = np.where(outside, upper - least * (1 + np.abs(upper)), upper)
        return Bounds(lower.astype(low.dtype), upper.astype(high.dtype))

    def units(self, x: Array, bounds: Bounds | None) -> Array:
        """One unit per parameter, of what the search has: see :func:`find_units`.

        On a log scale it is a quarter of what the bounds leave, or else 1, a factor of e: the size
        of a logarithm says nothing.
        """
        units, rest = np.ones(x.shape), ~self.mask
        if bounds is not None:
            width = np.subtract(*bounds[::-1], dtype=np.float64)
            units = np.where(self.mask & np.isfinite(width), _OF_BOX * width, units)
        if rest.any():
            limits = None if bounds is None else Bounds(*(each[rest] for each in bounds))
            units[rest] = find_units(x[rest], None, limits)
        return units

    def objective(self, fun: Callable[..., Any]) -> "LogObjective":
        """The objective of what the search has."""
        return LogObjective(fun, self)


@final
@dataclass(frozen=True)
class LogObjective:
    """See :class:`LogScale`."""

    fun: Callable[..., Any]
    scale: LogScale

    def __call__(self, x: Array, *more: Any) -> Any:
        """The objective at what the search has."""
        return self.fun(self.scale.outward(x), *more)


@final
@dataclass(frozen=True)
class WithArguments:
    """An objective that takes more than x: ``fun(x, *arguments)``, ``fun(x, rng, *arguments)``."""

    fun: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, x: Array, *more: Any) -> Any:
        """The objective with its arguments."""
        return self.fun(x, *more, *self.arguments)


def with_arguments(fun: Callable[..., Any], given: Any) -> Callable[..., Any]:
    """An objective with SciPy's ``args``: a tuple, or a single argument that is none."""
    arguments = cast(tuple[Any, ...], given if isinstance(given, tuple) else (given,))
    return WithArguments(fun, arguments) if arguments else fun


def _read(bounds: Any, x: Array) -> tuple[Any, Any]:
    """Lower and upper limits from a sequence: in pairs, or apart."""
    members: list[Any] = []
    with suppress(Exception):  # an object of the user's may raise anything
        members = list(bounds)
    if _has_names(bounds) or any(map(_has_names, members[:2])):
        raise ValueError(
            "`bounds` of a search must be numbers or arrays, but are a structure: "
            "`flat, tree = gs.Tree.of(x0)` and tree.bounds(bounds) make arrays of them."
        )
    shapes = [_shape(each) for each in members[: max(2, x.size)]]
    two = len(members) == 2
    if two and () in shapes and all(shape in ((), x.shape) for shape in shapes):
        return _unlimited(members[0], -np.inf), _unlimited(members[1], np.inf)
    apart = two and shapes == [x.shape, x.shape]
    pairs = len(members) == x.size and all(shape == (2,) for shape in shapes)
    if not (apart or pairs):
        raise ValueError(
            "`bounds` must be (lower, upper) for all parameters, two numbers or two arrays in the "
            f"shape {x.shape} of x0; gs.Bounds(lower, upper); or one (lower, upper) for each of "
            f"the {x.size} parameters, but are {_form(bounds, members, shapes)}."
        )
    in_pairs = [_one_side(members, side, x) for side in (0, 1)] if pairs else []
    if not apart:
        return in_pairs[0], in_pairs[1]
    lower, upper = _unlimited(members[0], -np.inf), _unlimited(members[1], np.inf)
    if not pairs:
        return lower, upper
    if all(isinstance(each, tuple) for each in members):
        return in_pairs[0], in_pairs[1]
    if isinstance(bounds, tuple) and all(isinstance(each, np.ndarray) for each in members):
        return lower, upper
    lower, upper = (np.asarray(checks.reals("bounds", each)) for each in (lower, upper))
    if not (lower < upper).all():
        return in_pairs[0], in_pairs[1]
    if (in_pairs[0] < in_pairs[1]).all():
        raise ValueError(
            "`bounds` of two parameters can be read in two ways: as lower and upper limits, "
            f"{lower.tolist()} and {upper.tolist()}, or as a pair for each. Write "
            "gs.Bounds(lower, upper) for the first, or tuples, [(lower, upper), (lower, upper)], "
            "for the second."
        )
    return lower, upper


def _one_side(pairs: list[Any], side: int, x: Array) -> Array:
    """The lower or the upper limits of pairs, in the shape of x."""
    free = np.inf if side else -np.inf
    each = [free if pair[side] is None else pair[side] for pair in pairs]
    return np.reshape(checks.reals("bounds", each), x.shape)


def _unlimited(limits: Any, free: float) -> Any:
    """Limits with ``free`` where ``None`` says that there is none."""
    if limits is None:
        return free
    array = np.asarray(limits)
    return limits if array.dtype != object else np.where(array == None, free, array)  # noqa: E711


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return np.shape(value)
    except Exception:  # ragged, or an object of the user's
        return None


def _form(bounds: Any, members: list[Any], shapes: list[tuple[int, ...] | None]) -> str:
    """What was given, in few words: an array's shape rather than some of its numbers."""
    if isinstance(bounds, np.ndarray):
        return f"an array of shape {np.shape(cast(Array, bounds))}"
    if len(members) == 2 and all(isinstance(each, np.ndarray) for each in members):
        return f"two arrays of shapes {shapes[0]} and {shapes[1]}"
    return checks.shown(bounds)
