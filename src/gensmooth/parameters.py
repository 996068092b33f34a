"""The parameters as users give them: any shape, two dtypes, perhaps within bounds."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks

Array = NDArray[Any]


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


def _is_pair(bounds: Any) -> bool:
    try:
        return np.shape(bounds) == (2,)
    except Exception:  # ragged, or an object of the user's
        return False
