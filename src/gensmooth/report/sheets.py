"""What a figure is made of: panels that can be drawn alone or together, one legend, one caption."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gensmooth.report.curves import Curve, Setting
from gensmooth.report.style import INK, MUTED, method_style, method_title
from gensmooth.studies.spec import Cell, Table


class Panel(NamedTuple):
    """One set of axes.

    Attributes:
        title: The setting in words.
        note: How many runs are in it.
        text: What a reader who does not see it should know.
        draw: Draws it.
    """

    title: str
    note: str
    text: str
    draw: Callable[[Axes], None]


class LegendItem(NamedTuple):
    """An entry of a legend.

    Attributes:
        label: Its words.
        kind: A line with a marker, a thin line without one, a marker alone, or a filled area.
        color: Its colour.
        dash: Its dash; ``()`` is solid.
        marker: Its marker.
        width: Its line's width.
        hollow: Whether its marker is not filled.
    """

    label: str
    kind: Literal["line", "thin", "marker", "area"]
    color: str = MUTED
    dash: tuple[float, ...] = ()
    marker: str = ""
    width: float = 1.6
    hollow: bool = False


class Sheet(NamedTuple):
    """A figure.

    Attributes:
        name: File name without ending.
        title: What it shows, where it stands alone.
        heading: The same under the heading of its study.
        caption: What is drawn and what to see.
        columns: How many panels stand side by side where there is room.
        panels: The panels, row by row.
        legend: One legend for all of them.
        remarks: What a reader must know: runs left out, methods not drawn.
        tables: The numbers behind it that are worth reading.
        left: Where the axes of a panel begin, as a part of its width.
        right: Where they end.
    """

    name: str
    title: str
    heading: str
    caption: str
    columns: int
    panels: Sequence[Panel]
    legend: Sequence[LegendItem]
    remarks: Sequence[str] = ()
    tables: Sequence[Table] = ()
    left: float = 0.125
    right: float = 0.955


class Drawn(NamedTuple):
    """All that is drawn of a study.

    Attributes:
        sheets: Its figures.
        curves: The curves behind them.
        keys: The names of the values in the curves' settings.
    """

    sheets: Sequence[Sheet]
    curves: Sequence[Curve] = ()
    keys: Sequence[str] = ()


class PaperNumbers(NamedTuple):
    """Numbers of the paper that figures show beside ours.

    Attributes:
        times: The times to sample the directions of an iteration, ``[L][method]``.
    """

    times: Mapping[int, Mapping[str, float]]


def method_item(name: str) -> LegendItem:
    """The legend entry of a method."""
    style = method_style(name)
    return LegendItem(method_title(name), "line", style.color, style.dash, style.marker)


def line_look(item: LegendItem) -> dict[str, Any]:
    """The properties of a line that stands for an entry."""
    return {
        "color": item.color,
        "linewidth": item.width,
        "linestyle": "None" if item.kind == "marker" else (0, item.dash) if item.dash else "-",
        "marker": item.marker or "None",
        "markersize": 5.0,
        "markerfacecolor": "none" if item.hollow else item.color,
        "markeredgecolor": item.color,
        "markeredgewidth": 0.9 if item.hollow else 0.0,
    }


def handle(item: LegendItem) -> Line2D | Patch:
    """The artist that stands for an entry."""
    if item.kind == "area":
        return Patch(facecolor=item.color, alpha=0.25, linewidth=0, label=item.label)
    return Line2D([], [], label=item.label, **line_look(item))


def remarks(
    found: Sequence[Curve], words: Callable[[Setting], str], cells: Sequence[Cell]
) -> list[str]:
    """What was left out of some curves, one line a method and setting."""
    lost: dict[str, list[str]] = {}
    for cell in cells:
        if cell.chosen is None:
            lost.setdefault(cell.setting, []).append(method_title(cell.method))
    lines = [
        f"{setting}: every choice of the grid search diverged, and no run was made, for "
        f"{', '.join(methods)}."
        for setting, methods in lost.items()
    ]
    for curve in found:
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
    usual = max((curve.runs for curve in found), default=0)
    fewer = [curve for curve in found if curve.runs < usual]
    if fewer:
        named = [f"{method_title(c.method)} at {words(c.setting)}: {c.runs}" for c in fewer[:4]]
        named += ["…"] * (len(fewer) > 4)
        lines.append(f"All curves have {usual} runs but {len(fewer)} ({'; '.join(named)}).")
    return lines


BAND_ITEM = LegendItem("± one standard deviation", "area")
PREDICTED_ITEM = LegendItem("exact prediction", "thin", INK, width=0.8)
LEMMA_ITEM = LegendItem("the paper’s Lemma", "thin", INK, dash=(1, 2), width=1.1)
