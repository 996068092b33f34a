"""Curves: means and deviations over seeds, drawn on axes, one panel per setting."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from gensmooth.lab.report.axes import Scale, label_axes, padded, plain, ticks
from gensmooth.lab.report.figure import BAR_ITEM, Figure, LegendItem, Panel, method_item
from gensmooth.lab.report.style import (
    MUTED,
    MethodStyle,
    assign_styles,
    method_order,
    method_style,
    method_title,
)
from gensmooth.lab.report.tables import Cell, Table

Setting = tuple[Any, ...]
Floats = NDArray[np.float64]

_HUGE = 1e150  # the square of anything smaller is finite


class Drawn(NamedTuple):
    """The figures of a study.

    Attributes:
        figures: Its figures.
        curves: The curves behind them.
        keys: The names of the values in the curves' settings.
    """

    figures: Sequence[Figure]
    curves: Sequence["Curve"] = ()
    keys: Sequence[str] = ()


class DrawnRun(Protocol):
    """The parts of a run that curves need."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration; ``method`` is one of its entries."""
        ...

    @property
    def series(self) -> Mapping[str, Sequence[float]]:
        """Named series, one number per round."""
        ...

    @property
    def diverged(self) -> bool:
        """Whether it ended early."""
        ...


class Band(NamedTuple):
    """A series over seeds, one entry per round.

    Attributes:
        mean: The mean.
        sd: The standard deviation (with n - 1); NaN where there is one seed.
        n: How many seeds.
        edges: The lower and the upper edge, if they are not one deviation from the mean.
    """

    mean: Floats
    sd: Floats
    n: NDArray[np.int64]
    edges: tuple[Floats, Floats] | None = None


class Curve(NamedTuple):
    """One method in one setting.

    Attributes:
        setting: The values of the setting's keys.
        method: The method's name.
        bands: The series by name.
        iterations: Iterations per round.
        num_directions: L.
        runs: How many runs there were.
        left_out: How many of them diverged, and are not in the means.
    """

    setting: Setting
    method: str
    bands: Mapping[str, Band]
    iterations: int
    num_directions: int
    runs: int
    left_out: int

    @property
    def n(self) -> int:
        """How many runs are in the means."""
        return self.runs - self.left_out


def curves(
    records: Sequence[DrawnRun], keys: Sequence[str], *, series: Sequence[str]
) -> list[Curve]:
    """Group records by setting and method, and average each group over seeds.

    A run that diverged, or has a number that is not finite, is left out as a whole, so that every
    round's mean is over the same runs.

    Args:
        records: The runs.
        keys: The keys of a configuration that make up the setting, the slowest first. Numbers are
            sorted; strings keep the order in which they occur.
        series: The series to average; a record may lack some.

    Raises:
        ValueError: If a configuration lacks ``method`` or one of the keys.
    """
    groups: dict[tuple[Setting, str], list[DrawnRun]] = {}
    for record in records:
        if absent := [key for key in (*keys, "method") if key not in record.config]:
            raise ValueError(
                f"A run's configuration has no {absent[0]!r}, which its curve needs: the values of "
                "`keys` choose the panel, and `method` the line."
            )
        setting = tuple(record.config[key] for key in keys)
        groups.setdefault((setting, str(record.config["method"])), []).append(record)
    seen: list[dict[Any, int]] = [{} for _ in keys]
    for setting, _ in groups:
        for column, value in zip(seen, setting, strict=True):
            column.setdefault(value, len(column))

    def order(item: tuple[Setting, str]) -> Any:
        setting, method = item
        return [
            (0.0, column[value]) if isinstance(value, str) else (float(value), 0)
            for column, value in zip(seen, setting, strict=True)
        ], method_order(method)

    return [_curve(key[0], key[1], groups[key], series) for key in sorted(groups, key=order)]


def diverged(record: DrawnRun) -> bool:
    """Return whether a run diverged, or has numbers too large to average."""
    return record.diverged or not all(abs(v) < _HUGE for s in record.series.values() for v in s)


def _curve(
    setting: Setting, method: str, records: Sequence[DrawnRun], series: Sequence[str]
) -> Curve:
    kept = [record for record in records if not diverged(record)]
    rows_of = {name: [r.series[name] for r in kept if r.series.get(name)] for name in series}
    config = records[0].config
    return Curve(
        setting=setting,
        method=method,
        bands={name: band(rows) for name, rows in rows_of.items() if rows},
        iterations=int(config.get("iterations", 1)),
        num_directions=int(config.get("num_directions", 1)),
        runs=len(records),
        left_out=len(records) - len(kept),
    )


def band(rows: Sequence[Sequence[float]]) -> Band:
    """Return the mean, deviation and number at every round; rows may differ in length.

    >>> mean, sd, n, _ = band([[1, 2], [3, 4, 9]])
    >>> mean, sd.round(2), n
    (array([2., 3., 9.]), array([1.41, 1.41,  nan]), array([2, 2, 1]))
    """
    length = max(len(row) for row in rows)
    table = np.full((len(rows), length), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    there = np.isfinite(table)
    n = there.sum(axis=0)
    mean = np.where(there, table, 0.0).sum(axis=0) / n
    spread = np.where(there, table - mean, 0.0)
    sd = np.full(length, np.nan)
    many = n > 1
    sd[many] = np.sqrt((spread**2).sum(axis=0)[many] / (n[many] - 1))
    return Band(mean, sd, n)


def quartiles(rows: Sequence[Sequence[float]]) -> Band:
    """Return the median and quartiles at every round; infinite values count.

    The median takes the place of the mean in the :class:`Band`. Infinite values are not drawn.

    >>> quartiles([[1, 2], [3, 4], [8, float("inf")]]).mean
    array([3., 4.])
    """
    table = np.array(rows, np.float64)
    low, middle, high = np.quantile(table, (0.25, 0.5, 0.75), axis=0, method="inverted_cdf")
    sd = np.full(table.shape[1], np.nan)
    n = np.full(table.shape[1], len(rows))
    shown = [np.where(np.isfinite(each), each, np.nan) for each in (middle, low, high)]
    return Band(shown[0], sd, n, (shown[1], shown[2]))


def number_of_runs(plotted: Sequence[Curve]) -> str:
    """Return how many seeds are behind some curves, in words.

    >>> number_of_runs([])
    'n = 0'
    """
    counts = sorted({curve.n for curve in plotted}) or [0]
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


# --- on axes -------------------------------------------------------------------------------------

_POINTS = 200  # the most points of a line


class View(NamedTuple):
    """How curves are drawn.

    Attributes:
        series: The series that is drawn with its band.
        theory: Series drawn as thin lines, each with its dash.
        x: From a curve and round numbers (from 1) to the horizontal axis.
        xlabel: The horizontal axis.
        ylabel: The vertical axis.
        xscale: The scale of the horizontal axis.
        yscale: The scale of the vertical axis.
        ylim: The range of the vertical axis.
        styles: Styles of methods that differ from the usual ones.
    """

    series: str
    theory: Sequence[tuple[str, tuple[float, ...]]]
    x: Callable[[Curve, Floats], Floats]
    xlabel: str
    ylabel: str
    xscale: Scale
    yscale: Scale
    ylim: tuple[float, float]
    styles: Mapping[str, MethodStyle] = {}


def spans(plotted: Sequence[Curve], series: Sequence[str], factor: float) -> bool:
    """Return whether all means are positive and differ by at least ``factor``."""
    means = [c.bands[name].mean for c in plotted for name in series if name in c.bands]
    low = min((float(mean.min()) for mean in means), default=0.0)
    high = max((float(mean.max()) for mean in means), default=0.0)
    return low > 0 and high >= factor * low


def limits(
    plotted: Sequence[Curve],
    series: Sequence[str],
    scale: Scale,
    *,
    rare: float = 0.0,
    floor: float = -np.inf,
) -> tuple[float, float]:
    """Return the range of a vertical axis, which covers means and bands.

    On a log axis, a band that goes far below its mean is cut off.

    Args:
        plotted: The curves.
        series: The series that are drawn.
        scale: The scale of the axis.
        rare: Values in at most this share of a curve's rounds may lie outside.
        floor: Values below this may lie outside, unless all of them do.
    """
    low, high = np.inf, -np.inf
    for curve in plotted:
        for name in series:
            if name in curve.bands:
                band = curve.bands[name]
                sd = np.where(np.isfinite(band.sd), band.sd, 0.0)
                bottom = band.mean - sd
                if scale == "log":
                    bottom = np.maximum(bottom, band.mean / 2.5)
                low = min(low, np.quantile(bottom, rare, method="higher"))
                high = max(high, np.quantile(band.mean + sd, 1 - rare, method="lower"))
    if low > high:
        return (0.1, 1.0)
    if high > floor:
        low = max(low, floor)
    return padded(float(low), float(high), scale)


def draw_curves(ax: Axes, plotted: Sequence[Curve], view: View, *, absent: str = "") -> None:
    """Draw the curves of one setting; ``absent`` is a note about missing ones."""
    shown = [curve for curve in plotted if view.series in curve.bands]
    lines = textwrap.wrap(absent or ("" if shown else "no finite run"), 34, break_on_hyphens=False)
    y, va = (0.97, "top") if shown else (0.5, "center")
    ax.text(0.5, y, "\n".join(lines), transform=ax.transAxes, ha="center", va=va, color=MUTED)
    if not shown:
        ax.set_axis_off()
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
    style = view.styles.get(curve.method) or method_style(curve.method)
    band = curve.bands[view.series]
    rounds = _thin(len(band.mean))
    x = view.x(curve, _counted(rounds))
    mean = band.mean[rounds]
    low, high = _edges(band, rounds, view)
    at = _marked(x, order / max(1, total), view.xscale)
    if band.edges is None:
        # Six bands on a panel cannot be told apart: deviations are bars, at the markers alone.
        ax.vlines(x[at], low[at], high[at], color=style.color, lw=1.1, alpha=0.8, zorder=2)
        bottom = np.where(mean[at] < view.ylim[0], np.inf, low[at])  # the mean has its own mark
        top = np.where(mean[at] > view.ylim[1], -np.inf, high[at])
        _draw_outside(ax, x[at], bottom, top, view, style.color, hollow=True)
    else:
        # Bands may overlap, so they have a pale fill and a thin edge.
        ax.fill_between(x, low, high, color=style.color, alpha=0.09, linewidth=0, zorder=2)
        for edge in (low, high):
            ax.plot(x, edge, color=style.color, linewidth=0.4, alpha=0.45, zorder=2.2)
    # Measured lines are broad and pale, so that theory's thin lines on them are visible.
    width, alpha = (2.2, 0.55) if view.theory else (1.5, 1.0)
    dash = (0, style.dash) if style.dash else "-"
    ax.plot(x, mean, color=style.color, lw=width, ls=dash, alpha=alpha, zorder=3 + order / 100)
    ax.plot(x[at], mean[at], style.marker, color=style.color, ms=3.6, mew=0, zorder=4.5)
    _draw_outside(ax, x, mean, mean, view, style.color)
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


def _draw_outside(
    ax: Axes, x: Floats, low: Floats, high: Floats, view: View, color: str, *, hollow: bool = False
) -> None:
    """Draw an arrowhead at the edge of the axis wherever something drawn ends beyond it."""
    look: dict[str, Any] = {"mew": 0, "ms": 4.5}
    if hollow:
        look = {"mew": 0.7, "ms": 3.6, "mfc": "none"}
    for edge, beyond, marker in (
        (view.ylim[0], low < view.ylim[0], "v"),
        (view.ylim[1], high > view.ylim[1], "^"),
    ):
        y = np.full(np.count_nonzero(beyond), edge)
        ax.plot(x[beyond], y, marker, color=color, ls="", zorder=5, clip_on=False, **look)


def _marked(x: Floats, shift: float, scale: Scale) -> NDArray[np.intp]:
    """Return six positions along the axis, shifted by method so that markers do not overlap."""
    place = np.log(x) if scale == "log" else x
    wanted: Floats = place[0] + (np.arange(6.0) + shift) / 6 * (place[-1] - place[0])
    nearest: NDArray[np.intp] = np.searchsorted(place, wanted)
    return np.unique(np.minimum(nearest, len(x) - 1))


def _counted(rounds: NDArray[np.intp]) -> Floats:
    """Return round numbers from 1, as on an axis."""
    return rounds.astype(np.float64) + 1


def _thin(length: int) -> NDArray[np.intp]:
    """Return at most ``_POINTS`` round numbers (from 0), including the first and the last."""
    if length <= _POINTS:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, _POINTS).round().astype(np.intp))


def _edges(band: Band, rounds: NDArray[np.intp], view: View) -> tuple[Floats, Floats]:
    """Return a band's edges; on a log axis a lower edge below the axis ends at the axis."""
    if band.edges is not None:
        return band.edges[0][rounds], band.edges[1][rounds]
    mean, sd = band.mean[rounds], band.sd[rounds]
    sd = np.where(np.isfinite(sd), sd, 0.0)
    low = mean - sd
    if view.yscale == "log":
        low = np.maximum(low, view.ylim[0] / 2)
    return low, mean + sd


# --- a panel per setting -------------------------------------------------------------------------


def panel(
    plotted: Sequence[Curve],
    setting: Setting,
    view: View,
    words: Callable[[Setting], str],
    *,
    absent: str = "",
) -> Panel:
    """Return the panel of a setting, with a note about missing curves."""
    here = [curve for curve in plotted if curve.setting == setting]
    view = view._replace(styles={**_styles(plotted), **view.styles})
    ends = "; ".join(
        f"{method_title(c.method)} {plain(float(f'{c.bands[view.series].mean[-1]:.3g}'))}"
        for c in here
        if view.series in c.bands
    )
    return Panel(
        title=words(setting),
        note=number_of_runs(here),
        text=f"{view.ylabel} against {view.xlabel}, {words(setting)}. "
        + (f"At the end: {ends}." if ends else "No finite run." if not absent else "")
        + (f" {absent[0].upper()}{absent[1:]}." if absent else ""),
        draw=partial(draw_curves, plotted=here, view=view, absent=absent),
    )


def legend(plotted: Sequence[Curve], extra: Sequence[LegendItem] = ()) -> list[LegendItem]:
    """Return the methods that have a curve, the bar, and the extra items."""
    methods = sorted({curve.method for curve in plotted if curve.n}, key=method_order)
    styles = _styles(plotted)
    many = any(curve.n > 1 for curve in plotted)
    items = [method_item(name, style=styles[name]) for name in methods]
    return [*items, *([BAR_ITEM] if many else []), *extra]


def _styles(plotted: Sequence[Curve]) -> dict[str, MethodStyle]:
    """Return a style for each method, so that those of a custom study can be told apart."""
    return assign_styles(sorted({curve.method for curve in plotted}, key=method_order))


def means(plotted: Sequence[Curve]) -> str:
    """Return the sentences of a caption that explain lines and bars."""
    return (
        f"Lines are means over seeds ({number_of_runs(plotted)}), bars one standard deviation of "
        "the seeds to either side; a hollow arrowhead is a bar that leaves the axis. Bars and "
        "markers are staggered, so that methods whose curves coincide can be told apart."
    )


def last(
    plotted: Sequence[Curve], series: str, name: str, words: Callable[[Setting], str]
) -> Table:
    """Return a table of mean ± deviation at the last round, settings by methods."""
    methods = sorted({curve.method for curve in plotted}, key=method_order)
    cells: dict[tuple[Setting, str], str] = {}
    for curve in plotted:
        if series in curve.bands:
            band = curve.bands[series]
            text = f"{band.mean[-1]:.4g}"
            if band.n[-1] > 1:
                text += f" ± {band.sd[-1]:.2g}"
            cells[curve.setting, curve.method] = text
        else:
            cells[curve.setting, curve.method] = "diverged"
    settings = dict.fromkeys(curve.setting for curve in plotted)
    return Table(
        name=f"{name}-last",
        title="At the last round",
        columns=["Setting", *(method_title(method) for method in methods)],
        rows=[[words(s), *(cells.get((s, m), "") for m in methods)] for s in settings],
        note="Mean ± one standard deviation over seeds.",
    )


def coinciding(plotted: Sequence[Curve], series: str, *, within: float = 0.05) -> list[str]:
    """Return which methods' curves coincide, in words.

    Two curves coincide if their means differ by less than ``within`` of the larger at nine rounds
    of ten.
    """
    together: dict[tuple[str, str], int] = {}
    settings: dict[tuple[str, str], int] = {}
    for i, one in enumerate(plotted):
        for other in plotted[i + 1 :]:
            if (
                one.setting != other.setting
                or not {series} <= one.bands.keys() & other.bands.keys()
            ):
                continue
            first, second = one.bands[series].mean, other.bands[series].mean
            size = min(len(first), len(second))
            gap = np.abs(first[:size] - second[:size])
            near = gap <= within * np.maximum(np.abs(first[:size]), np.abs(second[:size]))
            pair = (one.method, other.method)
            settings[pair] = settings.get(pair, 0) + 1
            together[pair] = together.get(pair, 0) + bool(near.mean() >= 0.9)
    return [
        f"{method_title(one)} and {method_title(other)} differ by less than {within:.0%} in "
        f"{count} of {settings[one, other]} panels: one line covers the other there."
        for (one, other), count in together.items()
        if count
    ]


def remarks(
    plotted: Sequence[Curve], words: Callable[[Setting], str], cells: Sequence[Cell]
) -> list[str]:
    """Describe the runs that are missing in some curves, one line per method and setting."""
    lost: dict[str, list[str]] = {}
    for cell in cells:
        if cell.chosen is None:
            lost.setdefault(cell.setting, []).append(method_title(cell.method))
    lines = [
        f"{setting}: every choice of the grid search diverged, and no run was made, for "
        f"{', '.join(methods)}."
        for setting, methods in lost.items()
    ]
    for curve in plotted:
        if not curve.left_out:
            continue
        who = f"{method_title(curve.method)} at {words(curve.setting)}"
        if curve.n == 0:
            runs = "its only run" if curve.runs == 1 else f"all {curve.runs} runs"
            lines.append(f"{who}: {runs} diverged, so that no curve is drawn.")
        else:
            lines.append(
                f"{who}: {curve.left_out} of {curve.runs} runs diverged and "
                f"{'is' if curve.left_out == 1 else 'are'} left out; the curve is the mean of "
                f"the {curve.n} that did not, and flatters the method."
            )
    usual = max((curve.runs for curve in plotted), default=0)
    fewer = [curve for curve in plotted if curve.runs < usual]
    if fewer:
        named = [f"{method_title(c.method)} at {words(c.setting)}: {c.runs}" for c in fewer[:4]]
        named += ["…"] * (len(fewer) > 4)
        lines.append(f"All curves have {usual} runs but {len(fewer)} ({'; '.join(named)}).")
    return lines
