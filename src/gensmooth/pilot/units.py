"""The unit of each parameter: how far apart its interesting values are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.parameters import as_bounds

Array = NDArray[Any]

_OF_BOX = 0.25  # of what the bounds leave
_TINY = 1e-6  # a start this much smaller than the others is on a scale of its own
_FEW = 2000  # parameters; of many random ones some are that small by chance


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
