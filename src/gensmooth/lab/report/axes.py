"""Axes: their labels, ticks and ranges."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from gensmooth.lab.report.style import MUTED

Scale = Literal["linear", "log"]

WIDE = 8  # values that differ by a larger factor are drawn on a logarithmic axis
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def padded(low: float, high: float, scale: Scale) -> tuple[float, float]:
    """Return the range of an axis with a margin around what it shows."""
    if scale == "log":
        pad = (high / low) ** 0.06 * 1.02
        return low / pad, high * pad
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad


def label_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Label the axes; the label of the vertical axis is above it, so that it is horizontal."""
    ax.set_xlabel(xlabel, loc="right", labelpad=2)
    ax.text(0, 1.035, ylabel, transform=ax.transAxes, ha="left", va="bottom", color=MUTED)


def ticks(ax: Axes, which: Literal["x", "y"], scale: Scale, limits: tuple[float, float]) -> None:
    """Set a few ticks, with plain numbers."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    if scale == "log":
        decades = np.log10(limits[1] / limits[0])
        if decades < 0.8:
            axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        elif decades < 2.5:
            axis.set_major_locator(
                LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.3 else (1.0, 3.0))
            )
        else:
            axis.set_major_locator(LogLocator(numticks=6))
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    large = 1e4 if scale == "log" else 1e6

    def text(value: float, _: object) -> str:
        return plain(value, large=large)

    axis.set_major_formatter(FuncFormatter(text))


def plain(value: float, *, large: float = 1e5) -> str:
    """Return a number as one would write it, with a power of ten from ``large`` on.

    >>> [plain(v) for v in (0, 0.01, 2.5, 2000, 1e6, 3e-7, -20)]
    ['0', '0.01', '2.5', '2000', '10⁶', '3·10⁻⁷', '−20']
    """
    if value == 0 or 1e-3 <= abs(value) < large:
        return f"{value:.6g}".replace("-", "−")
    mantissa, exponent = f"{value:.2e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    number = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    return power if number == "1" else f"{number}·{power}"
