"""The parameters as users give them: any shape, two dtypes, within bounds, on any scale."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks

Array = NDArray[Any]

_OF_BOX = 0.25  # of what the bounds leave
_TINY = 1e-6  # a start this much smaller than the others is on a scale of its own
_FEW = 2000  # parameters; of many random ones some are that small by chance


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
        raise TypeError(f"`x0` must be numbers in float32 or float64, but its dtype is {x.dtype}.")
    if x.size == 0:
        raise ValueError("`x0` must have at least one entry, but is empty.")
    if not np.isfinite(x).all():
        where = np.argwhere(~np.isfinite(x))[0].tolist()
        raise ValueError(f"`x0` must be finite, but x0[{', '.join(map(str, where))}] is not.")
    return x


def as_bounds(bounds: Any, x: Array) -> Bounds:
    """Limits in the shape of x, from any of the forms that :class:`RandomSearch` takes."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = bounds.lb, bounds.ub
    elif isinstance(bounds, Bounds) or _is_pair(bounds):
        low, high = bounds
    else:
        try:
            pairs = [(low, high) for low, high in bounds]
        except Exception:  # an object of the user's may raise anything
            pairs = []
        if len(pairs) != x.size:
            raise ValueError(
                "`bounds` must be (lower, upper) for all parameters, gs.Bounds(lower, upper), or "
                f"one (lower, upper) for each of the {x.size} parameters, but are "
                f"{checks.shown(bounds)}."
            )
        low = [-np.inf if low is None else low for low, _ in pairs]
        high = [np.inf if high is None else high for _, high in pairs]
        low, high = (np.reshape(checks.reals("bounds", each), x.shape) for each in (low, high))
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    low, high = (np.asarray(checks.reals("bounds", each), x.dtype) for each in (low, high))
    try:
        low, high = np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)
    except ValueError:
        raise ValueError(
            f"`bounds` must fit the shape {x.shape} of x0, but have shapes {low.shape} and "
            f"{high.shape}."
        ) from None
    if not (low < high).all():
        where = tuple(np.argwhere(~(low < high))[0])
        raise ValueError(
            "`bounds` must have every lower limit below its upper limit, but one pair is "
            f"({low[where]}, {high[where]})."
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


def _is_pair(bounds: Any) -> bool:
    try:
        return np.shape(bounds) == (2,)
    except Exception:  # ragged, or an object of the user's
        return False
