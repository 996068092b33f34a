"""What a figure is made of: panels that can be drawn alone or together, one legend, one caption."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gensmooth.report.curves import Curve
from gensmooth.report.style import INK, MUTED, method_style, method_title
from gensmooth.studies.spec import Table


class Panel(NamedTuple):
    """One set of axes.

    Attributes:
        key: A short name, unique in its sheet: for identifiers.
        title: The setting in words.
        note: How many runs are in it.
        text: What a reader who does not see it should know.
        draw: Draws it.
    """

    key: str
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
        title: Its heading.
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
        "color": "none" if item.kind == "marker" else item.color,
        "linewidth": item.width,
        "linestyle": (0, item.dash) if item.dash else "-",
        "marker": item.marker or "None",
        "markersize": 4.5,
        "markerfacecolor": "none" if item.hollow else item.color,
        "markeredgecolor": item.color,
        "markeredgewidth": 0.9 if item.hollow else 0.0,
    }


def handle(item: LegendItem) -> Line2D | Patch:
    """The artist that stands for an entry."""
    if item.kind == "area":
        return Patch(facecolor=item.color, alpha=0.25, linewidth=0, label=item.label)
    return Line2D([], [], label=item.label, **line_look(item))


def remarks(found: Sequence[Curve], setting: Callable[[Curve], str]) -> list[str]:
    """What was left out of some curves, one line a method and setting."""
    lines: list[str] = []
    for curve in found:
        if not curve.left_out:
            continue
        who = f"{method_title(curve.method)} at {setting(curve)}"
        if curve.n == 0:
            runs = "its only run" if curve.runs == 1 else f"all {curve.runs} runs"
            lines.append(f"{who}: {runs} diverged, so that no curve is drawn.")
        else:
            lines.append(
                f"{who}: {curve.left_out} of {curve.runs} runs diverged and "
                f"{'is' if curve.left_out == 1 else 'are'} left out; the curve is the mean of "
                f"the {curve.n} that did not, and flatters the method."
            )
    counts = {curve.runs for curve in found}
    if len(counts) > 1:
        usual = max(counts)
        fewer = [c for c in found if c.runs < usual]
        named = "; ".join(
            f"{method_title(c.method)} at {setting(c)}: {c.runs}" for c in fewer[:4]
        ) + ("; …" if len(fewer) > 4 else "")
        lines.append(f"Most curves have {usual} runs, {len(fewer)} have fewer ({named}).")
    return lines


BAND_ITEM = LegendItem("± one standard deviation over seeds", "area")
PREDICTED_ITEM = LegendItem("exact prediction", "thin", INK, width=0.8)
LEMMA_ITEM = LegendItem("the paper’s Lemma", "thin", INK, dash=(1, 2), width=1.1)
