"""Curves on axes: means with bands, theory as thin lines, and scales that serve."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

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


def spans(found: Sequence[Curve], series: Sequence[str], factor: float) -> bool:
    """Whether all means are positive and the largest is at least ``factor`` times the smallest."""
    means = [c.bands[name].mean for c in found for name in series if name in c.bands]
    low = min((float(mean.min()) for mean in means), default=0.0)
    high = max((float(mean.max()) for mean in means), default=0.0)
    return low > 0 and high >= factor * low


def limits(found: Sequence[Curve], series: Sequence[str], scale: Scale) -> tuple[float, float]:
    """The range of a vertical axis: means and bands, on a log axis not too far below the means."""
    low, high = np.inf, -np.inf
    for curve in found:
        for name in series:
            if name in curve.bands:
                band = curve.bands[name]
                sd = np.where(np.isfinite(band.sd), band.sd, 0.0)
                bottom = band.mean - sd
                if scale == "log":
                    bottom = np.maximum(bottom, band.mean / 2.5)
                low, high = min(low, bottom.min()), max(high, (band.mean + sd).max())
    if low > high:
        return (0.1, 1.0)
    if scale == "log":
        pad = (high / low) ** 0.06 * 1.02
        return (float(low / pad), float(high * pad))
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return (float(low - pad), float(high + pad))


def draw_curves(ax: Axes, found: Sequence[Curve], view: View) -> None:
    """Draw the curves of one setting."""
    shown = [curve for curve in found if view.series in curve.bands]
    if not shown:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no finite run", transform=ax.transAxes, ha="center", color=MUTED)
        return
    ax.set_yscale(view.yscale)
    ax.set_xscale(view.xscale)
    for order, curve in enumerate(shown):
        _draw(ax, curve, view, order, len(shown))
    ax.set_ylim(*view.ylim)
    first = min(float(view.x(curve, np.array([1.0]))[0]) for curve in shown)
    widest = max(first * len(curve.bands[view.series].mean) for curve in shown)
    ax.set_xlim(*((0, widest) if view.xscale == "linear" else (first / 1.05, widest * 1.05)))
    label_axes(ax, view.xlabel, view.ylabel)
    ticks(ax, "y", view.yscale, view.ylim)
    ticks(ax, "x", view.xscale, ax.get_xlim())


def _draw(ax: Axes, curve: Curve, view: View, order: int, total: int) -> None:
    style = method_style(curve.method)
    band = curve.bands[view.series]
    rounds = _thin(len(band.mean))
    x = view.x(curve, _counted(rounds))
    mean = band.mean[rounds]
    low, high = _edges(band, rounds, view)
    # Many bands may lie over each other: a pale fill, and an edge that still shows its extent.
    ax.fill_between(x, low, high, color=style.color, alpha=0.09, linewidth=0, zorder=2)
    for edge in (low, high) if np.isfinite(band.sd).any() else ():
        ax.plot(x, edge, color=style.color, linewidth=0.4, alpha=0.45, zorder=2.2)
    # Under theory's thin lines the measured ones are broad and pale, so that both are seen.
    width, alpha = (2.2, 0.55) if view.theory else (1.5, 1.0)
    dash = (0, style.dash) if style.dash else "-"
    ax.plot(x, mean, color=style.color, lw=width, ls=dash, alpha=alpha, zorder=3 + order / 100)
    at = _marked(x, order / max(1, total), view.xscale)
    ax.plot(x[at], mean[at], style.marker, color=style.color, ms=3.6, mew=0, zorder=4.5)
    for name, dash in view.theory:
        if name in curve.bands:
            line = curve.bands[name].mean
            at = rounds[rounds < len(line)]
            ax.plot(
                view.x(curve, _counted(at)),
                line[at],
                color=style.color,
                linewidth=0.8 if not dash else 1.0,
                linestyle=(0, dash) if dash else "-",
                zorder=4,
            )


def _marked(x: Floats, shift: float, scale: Scale) -> NDArray[np.intp]:
    """Six places along the axis, shifted from method to method so that markers do not meet."""
    place = np.log(x) if scale == "log" else x
    wanted: Floats = place[0] + (np.arange(6.0) + shift) / 6 * (place[-1] - place[0])
    nearest: NDArray[np.intp] = np.searchsorted(place, wanted)
    return np.unique(np.minimum(nearest, len(x) - 1))


def _counted(rounds: NDArray[np.intp]) -> Floats:
    """Round numbers from 1, as they are on an axis."""
    return rounds.astype(np.float64) + 1


def _thin(length: int) -> NDArray[np.intp]:
    """At most ``_POINTS`` round numbers (from 0), the first and the last among them."""
    if length <= _POINTS:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, _POINTS).round().astype(np.intp))


def _edges(band: Band, rounds: NDArray[np.intp], view: View) -> tuple[Floats, Floats]:
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
