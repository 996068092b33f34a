"""The timing figure: the time to sample directions relative to GS, beside the paper's."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from gensmooth.lab.experiments.spec import Outcome, RunRecord
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.report.axes import label_axes, ticks
from gensmooth.lab.report.curves import Drawn
from gensmooth.lab.report.figure import Figure, LegendItem, Panel
from gensmooth.lab.report.style import INK, MUTED, method_order, method_style, method_title

BASELINE = "gs"


class Cost(NamedTuple):
    """A method's time relative to the baseline's median.

    Attributes:
        method: The method.
        median: The median over repeats.
        low: The lower quartile.
        high: The upper quartile.
        paper: The paper's ratio, if it gives one.
    """

    method: str
    median: float
    low: float
    high: float
    paper: float | None


def draw(outcome: Outcome) -> Drawn:
    """Draw ratios to the baseline, one panel for each number of directions."""
    records = outcome.records
    counts = sorted({int(record.config["num_directions"]) for record in records})
    dims = sorted({int(record.config["dim"]) for record in records})
    costs = {count: _costs(records, count) for count in counts}
    remarks = [
        f"There is no time of {method_title(BASELINE)} at L = {count}: nothing to compare with."
        for count, rows in costs.items()
        if not rows
    ]
    repeats = [len(s) for r in records for s in r.series.values()]
    spread = min(repeats, default=0) > 1
    reach = [v for rows in costs.values() for c in rows for v in (c.low, c.high, c.paper) if v]
    limits = (min([0.8, *reach]) / 1.25, max([2.0, *reach]) * 1.25)
    figure = Figure(
        name="timing",
        title="Time to sample the directions of one iteration, relative to GS",
        heading="Time relative to GS",
        caption=(
            f"Median over n = {min(repeats)} repeats, with quartiles" if spread else "Median time"
        )
        + f", at d = {', '.join(map(str, dims))}; GS is 1 by definition, the scale is "
        "logarithmic, and a mark further to the left is cheaper. Hollow marks are the ratios of "
        "the paper’s table, measured with its own code on its own machine: only the order and "
        "the rough size can be compared.",
        columns=len(counts),
        panels=[
            Panel(
                title=f"L = {count}",
                note="",
                text=f"Time relative to GS, L = {count}. "
                + "; ".join(
                    f"{method_title(c.method)} {c.median:.2f}"
                    + (f" (paper {c.paper:.2f})" if c.paper else "")
                    for c in rows
                ),
                draw=partial(_draw, rows=rows, limits=limits),
            )
            for count, rows in costs.items()
            if rows
        ],
        legend=[
            LegendItem(
                "measured here, with quartiles" if spread else "measured here",
                "line" if spread else "marker",
                INK,
                marker="o",
                width=1.0,
            ),
            LegendItem("the paper’s table", "marker", INK, marker="o", hollow=True),
        ],
        remarks=remarks,
        left=0.29,
        right=0.74,
    )
    return Drawn([figure])


def _costs(records: Sequence[RunRecord], count: int) -> list[Cost]:
    seconds: dict[str, list[float]] = {}
    for record in records:
        if record.config["num_directions"] == count:
            for method, repeats in record.series.items():
                seconds.setdefault(method, []).extend(repeats)
    if not seconds.get(BASELINE):
        return []
    base = float(np.median(seconds[BASELINE]))
    theirs = paper.TIMES.get(count, {})
    rows: list[Cost] = []
    for method in sorted(seconds, key=method_order):
        low, median, high = np.quantile(np.array(seconds[method]) / base, [0.25, 0.5, 0.75])
        ratio = theirs[method] / theirs[BASELINE] if {method, BASELINE} <= set(theirs) else None
        rows.append(Cost(method, float(median), float(low), float(high), ratio))
    return rows


def _draw(ax: Axes, rows: Sequence[Cost], limits: tuple[float, float]) -> None:
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_ylim(len(rows) - 0.4, -1.15)
    ax.axvline(1, 0, len(rows) / (len(rows) + 0.75), color=MUTED, linewidth=0.8, zorder=1.5)
    for row, cost in enumerate(rows):
        style = method_style(cost.method)
        if cost.paper is not None:
            hollow: Any = {"mfc": "none", "mec": style.color, "mew": 0.9, "zorder": 3}
            ax.plot([cost.paper], [row], style.marker, ms=6.5, **hollow)
        ax.plot([cost.low, cost.high], [row, row], color=style.color, linewidth=1.4, zorder=4)
        ax.plot([cost.median], [row], style.marker, color=style.color, markersize=4.5)
        _number(ax, 1.17, row, _short(cost.median), INK)
        _number(ax, 1.4, row, "" if cost.paper is None else _short(cost.paper), MUTED)
    _number(ax, 1.17, -0.9, "here", INK)
    if any(cost.paper is not None for cost in rows):
        _number(ax, 1.4, -0.9, "paper", MUTED)
    ax.set_yticks(range(len(rows)), [method_title(cost.method) for cost in rows])
    ax.tick_params(axis="y", labelcolor=INK)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)
    label_axes(ax, "time ÷ time of GS", "")
    ticks(ax, "x", "log", limits)


def _number(ax: Axes, x: float, row: float, text: str, color: str) -> None:
    """Write a number in a column to the right of the axes."""
    place = ax.get_yaxis_transform()
    ax.text(x, row, text, transform=place, ha="right", va="center", color=color, fontsize=8)


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"
