"""Curves on axes: means with bands, theory as thin lines, and scales that serve."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from gensmooth.report.curves import Band, Curve, Floats
from gensmooth.report.style import MUTED, method_style

Scale = Literal["linear", "log"]

_POINTS = 200  # a line on a panel shows no more
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class View(NamedTuple):
    """How curves are looked at.

    Attributes:
        series: The series that is drawn with its band.
        theory: Series drawn as thin lines, each with its dash.
        x: From a curve and round numbers (from 1) to the horizontal axis.
        xlabel: The horizontal axis.
        ylabel: The vertical axis.
        xscale: The scale of the horizontal axis.
        yscale: The scale of the vertical axis.
        ylim: The range of the vertical axis.
    """

    series: str
    theory: Sequence[tuple[str, tuple[float, ...]]]
    x: Callable[[Curve, Floats], Floats]
    xlabel: str
    ylabel: str
    xscale: Scale
    yscale: Scale
    ylim: tuple[float, float]


def span(found: Sequence[Curve], series: Sequence[str]) -> tuple[float, float]:
    """The smallest and the largest mean of some series, deviations above included."""
    low, high = np.inf, -np.inf
    for curve in found:
        for name in series:
            if name in curve.bands:
                band = curve.bands[name]
                top = band.mean + np.where(np.isfinite(band.sd), band.sd, 0.0)
                low, high = min(low, float(band.mean.min())), max(high, float(top.max()))
    return (low, high) if low <= high else (0.0, 1.0)


def vertical(
    found: Sequence[Curve], series: Sequence[str], *, log: bool | None = None
) -> tuple[Scale, tuple[float, float]]:
    """The scale and the range of a vertical axis.

    Args:
        found: The curves on it.
        series: Their series.
        log: Whether it is logarithmic; by default if the values are positive and span a factor
            of eight.
    """
    low, high = span(found, series)
    if log is None:
        log = low > 0 and high >= 8 * low
    if log and low > 0:
        pad = (high / low) ** 0.06 * 1.02
        return "log", (low / pad, high * pad)
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return "linear", (low - pad, high + pad)


def draw_curves(ax: Axes, found: Sequence[Curve], view: View) -> None:
    """Draw the curves of one setting."""
    ax.set_yscale(view.yscale)
    ax.set_xscale(view.xscale)
    shown = [curve for curve in found if view.series in curve.bands]
    widest = 0.0
    for order, curve in enumerate(shown):
        widest = max(widest, _draw(ax, curve, view, order, len(shown)))
    ax.set_ylim(*view.ylim)
    if shown and view.xscale == "linear":
        ax.set_xlim(0, widest)
    label_axes(ax, view.xlabel, view.ylabel)
    ticks(ax, "y", view.yscale, view.ylim)
    ticks(ax, "x", view.xscale, ax.get_xlim())
    if not shown:
        ax.text(0.5, 0.5, "no finite run", transform=ax.transAxes, ha="center", color=MUTED)


def _draw(ax: Axes, curve: Curve, view: View, order: int, total: int) -> float:
    style = method_style(curve.method)
    band = curve.bands[view.series]
    rounds = _thin(len(band.mean))
    x = view.x(curve, rounds + 1.0)
    mean = band.mean[rounds]
    low, high = _edges(band, rounds, view)
    ax.fill_between(x, low, high, color=style.color, alpha=0.13, linewidth=0, zorder=2)
    # A marker on each sixth of the curve, shifted from method to method so that they do not meet.
    every = max(1, len(x) // 6)
    ax.plot(
        x,
        mean,
        color=style.color,
        linewidth=1.5 if not view.theory else 2.4,
        alpha=1 if not view.theory else 0.5,
        linestyle=(0, style.dash) if style.dash else "-",
        marker=style.marker,
        markersize=3.6,
        markeredgewidth=0,
        markevery=slice(order * every // max(1, total), None, every),
        zorder=3 + order / 100,
    )
    for name, dash in view.theory:
        if name in curve.bands:
            line = curve.bands[name].mean
            at = rounds[rounds < len(line)]
            ax.plot(
                view.x(curve, at + 1.0),
                line[at],
                color=style.color,
                linewidth=0.8 if not dash else 1.0,
                linestyle=(0, dash) if dash else "-",
                zorder=4,
            )
    return float(x[-1])


def _thin(length: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """At most ``_POINTS`` round numbers (from 0), the first and the last among them."""
    if length <= _POINTS:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, _POINTS).round().astype(np.intp))


def _edges(
    band: Band, rounds: np.ndarray[tuple[int], np.dtype[np.intp]], view: View
) -> tuple[Floats, Floats]:
    """A band's edges; on a log axis a lower edge below the axis ends at the axis."""
    mean, sd = band.mean[rounds], band.sd[rounds]
    sd = np.where(np.isfinite(sd), sd, 0.0)
    low = mean - sd
    if view.yscale == "log":
        low = np.maximum(low, view.ylim[0] / 2)
    return low, mean + sd


def label_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """The vertical axis is named above it, where the words need no turned head."""
    ax.set_xlabel(xlabel, loc="right", labelpad=2)
    ax.text(0, 1.035, ylabel, transform=ax.transAxes, ha="left", va="bottom", color=MUTED)


def ticks(ax: Axes, which: Literal["x", "y"], scale: Scale, limits: tuple[float, float]) -> None:
    """Few ticks, in plain numbers."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    if scale == "log":
        decades = np.log10(limits[1] / limits[0])
        if decades < 0.8:
            axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        elif decades < 1.8:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.3 else (1.0, 3.0)))
        else:
            axis.set_major_locator(LogLocator(numticks=6))
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    large = 1e4 if scale == "log" else 1e6
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value, large=large)))


def plain(value: float, *, large: float = 1e5) -> str:
    """A number as one would write it, with a power of ten from ``large`` on.

    >>> [plain(v) for v in (0, 0.01, 2.5, 2000, 1e6, 3e-7, -20)]
    ['0', '0.01', '2.5', '2000', '10⁶', '3·10⁻⁷', '−20']
    """
    if value == 0 or 1e-3 <= abs(value) < large:
        return f"{value:.6g}".replace("-", "−")
    mantissa, exponent = f"{value:.2e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    number = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    return power if number == "1" else f"{number}·{power}"
