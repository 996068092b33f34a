"""The figure of a run, step by step."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.describe import number
from gensmooth.lab.run_page.recorded import RecordedRun, speeds

Floats = NDArray[np.float64]


class DrawnLine(NamedTuple):
    """A line of a panel.

    Attributes:
        label: Its label.
        y: Vertical coordinates.
        color: Its colour, one of :func:`~gensmooth.lab.report.style.css_variables`.
        x: Horizontal coordinates; by default the evaluations of each step.
    """

    label: str
    y: Floats
    color: str
    x: Floats | None = None


_DIFFERENT = (
    " The value at the top of the page was measured at x at the end; a step sees values around its "
    "own point."
)


def draw(run: RecordedRun) -> Any:
    """Draw the values, estimates and speed of a run against its evaluations."""
    from gensmooth.lab.report.curves import Drawn
    from gensmooth.lab.report.figure import Figure, LegendItem, Panel

    if not run.steps:
        return Drawn(())
    is_log = run.config["kind"] == "log"
    maximizes = run.training or run.config.get("search", {}).get("maximize")
    better = np.fmax if maximizes else np.fmin
    at, rate = speeds(run)
    tests = [(float(t["trajectories"]), number(t["mean_return"])) for t in run.tests]
    spacing = run.series("spacing")
    fixed = run.config.get("search", {}).get("spacing")
    if isinstance(fixed, int | float):
        spacing = np.full(len(run.steps), float(fixed))

    def line(label: str, name: str, color: str) -> DrawnLine:
        return DrawnLine(label, run.series(name), color)

    means = np.array([mean for _, mean in tests])
    best = better.accumulate(run.series("best_value"))
    panels = {
        "test return": [
            DrawnLine("mean of a test", means, "#bfa000", np.array([when for when, _ in tests]))
        ],
        "loss" if is_log else "training return" if run.training else "value": [
            DrawnLine("best single value so far", best, "#009e73"),
            line("loss" if is_log else "estimate of each step near x", "value", "#0072b2"),
        ],
        "gradient estimate": [
            line("its standard error", "standard_error", "#c44a10"),
            line("its norm", "gradient_norm", "#5b4bb5"),
        ],
        "signal to noise": [line("norm over standard error", "signal_to_noise", "#cc79a7")],
        "step": [
            line("learning rate" if is_log else "change of x", "step_size", "#30343a"),
            DrawnLine("spacing", spacing, "#00869c"),
        ],
        f"{run.unit} per second": [DrawnLine("speed", rate, "#8c4a2f", at)],
    }
    if not np.isfinite(run.series("standard_error")).any():  # the pilot has none
        del panels["gradient estimate"]
    if len(rate) < 3:
        del panels[f"{run.unit} per second"]
    if len(tests) < 2:  # one test is at the top of the page
        del panels["test return"]
    finite = {t: [x for x in lines if np.isfinite(x.y).any()] for t, lines in panels.items()}
    shown = {title: lines for title, lines in finite.items() if lines}
    steps = run.series("evaluations")
    figure = Figure(
        name="run",
        title=run.name,
        heading="Step by step",
        caption=f"Against {run.unit}. Axes are logarithmic where all values are positive and span "
        f"more than a factor of 8.{'' if is_log or run.training else _DIFFERENT}",
        columns=3,
        panels=[
            Panel(title, "", _text(title, lines), partial(_draw, lines=lines, at=steps, run=run))
            for title, lines in shown.items()
        ],
        legend=[
            LegendItem(line.label, "thin", line.color) for lines in shown.values() for line in lines
        ],
    )
    return Drawn([figure])


def _text(title: str, lines: Sequence[DrawnLine]) -> str:
    return f"{title}. At the end: {'; '.join(f'{x.label} {x.y[-1]:.3g}' for x in lines)}."


def _draw(ax: Any, *, lines: Sequence[DrawnLine], at: Floats, run: RecordedRun) -> None:
    from gensmooth.lab.report.axes import WIDE, label_axes, padded, ticks

    finite = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    positive = finite[finite > 0]
    log = len(positive) > 0.9 * len(finite) and positive.max() > WIDE * positive.min()
    scale = "log" if log else "linear"
    shown = positive if log else finite
    limits = padded(float(shown.min()), float(shown.max()), scale)
    ax.set_yscale(scale)
    right = 0.0
    for line in lines:
        x = at if line.x is None else line.x
        keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), 600)).round().astype(np.intp))
        y = np.where(line.y[keep] > 0, line.y[keep], np.nan) if log else line.y[keep]
        mark = "o" if len(keep) < 3 else ""
        ax.plot(x[keep], y, color=line.color, lw=1.2, marker=mark, ms=3)
        right = max(right, float(x[-1]))
    ax.set_ylim(*limits)
    ax.set_xlim(0, right)
    label_axes(ax, run.unit, "")
    ticks(ax, "y", scale, limits)
    ticks(ax, "x", "linear", (0.0, right))
