"""Figures: panels with one legend and one caption, written as one SVG and PNG, or panel by panel.

No global state of Matplotlib is used. Its SVG is adapted to a page: it is made smaller, its
identifiers become unique, and its colours become those of the page.
"""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image

from gensmooth.lab.report.style import (
    MUTED,
    PANEL,
    SWATCH,
    MethodStyle,
    drawing,
    method_style,
    method_title,
)
from gensmooth.lab.report.tables import Table
from gensmooth.runs.files import write_bytes, write_text

_TOP, _BOTTOM = 0.885, 0.15
_COLORS = 256
_LETTERS = 9.5  # letters of a title per inch
_NO_RUNS = "n = 0"  # the note of a panel without curves, which says in its middle what is missing
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font-family:[^;]*;?\s*")
_COLOR = re.compile(r"#[0-9a-f]{6}")


class Panel(NamedTuple):
    """One set of axes.

    Attributes:
        title: The setting in words.
        note: How many runs are in it.
        text: A description for readers who cannot see it.
        draw: Draws it.
    """

    title: str
    note: str
    text: str
    draw: Callable[[Axes], None]


class LegendItem(NamedTuple):
    """An entry of a legend.

    Attributes:
        label: Its text.
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


class Figure(NamedTuple):
    """A figure.

    Attributes:
        name: File name without ending.
        title: What it shows, for the file.
        heading: Its heading on a page, below that of its study.
        caption: What is drawn and how to read it.
        columns: The largest number of panels side by side.
        panels: The panels, row by row.
        legend: One legend for all of them.
        remarks: Remarks such as runs left out or methods not drawn.
        tables: The numbers behind it that are worth reading.
        left: Where the axes of a panel begin, as a fraction of its width.
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


def method_item(
    name: str, *, style: MethodStyle | None = None, title: str | None = None
) -> LegendItem:
    """Return the legend entry of a method, by default with its usual style and title."""
    look = style or method_style(name)
    return LegendItem(title or method_title(name), "line", look.color, look.dash, look.marker)


def line_look(item: LegendItem) -> dict[str, Any]:
    """Return the properties of a line that stands for an entry."""
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
    """Return the artist that stands for an entry."""
    if item.kind == "area":
        return Patch(facecolor=item.color, alpha=0.25, linewidth=0, label=item.label)
    return Line2D([], [], label=item.label, **line_look(item))


BAR_ITEM = LegendItem("± one standard deviation", "marker", marker="|", hollow=True)


# --- as files and as pieces of a page -----------------------------------------------------------


def panel_svg(figure: Figure, panel: Panel) -> str:
    """Return one panel as SVG, as Matplotlib writes it."""
    with drawing():
        canvas = Canvas(figsize=PANEL)
        # The same margins in all: the axes of neighbours line up.
        canvas.subplots_adjust(left=figure.left, right=figure.right, top=_TOP, bottom=_BOTTOM)
        panel.draw(canvas.add_subplot())
        return _svg(canvas, transparent=True)


def swatch_svg(item: LegendItem) -> str:
    """Return the symbol of a legend entry as SVG."""
    with drawing():
        canvas = Canvas(figsize=SWATCH)
        ax = canvas.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_axis_off()
        if item.kind == "area":
            ax.fill_between([0.02, 0.98], 0.1, 0.9, color=item.color, alpha=0.25, linewidth=0)
        else:
            ax.plot([0.02, 0.5, 0.98], [0.5] * 3, markevery=[1], **line_look(item))
        return _svg(canvas, transparent=True)


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure with its legend as ``name.svg`` and ``name.png``, on white."""
    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    methods = [handle(item) for item in figure.legend if item.kind == "line"]
    others = [handle(item) for item in figure.legend if item.kind != "line"]
    width = PANEL[0] * columns
    per_row = max(1, int(width / 1.7))
    legends = [(part, -(-len(part) // per_row)) for part in (methods, others) if part]
    notes = {panel.note for panel in figure.panels} - {_NO_RUNS}
    common = notes.pop() if len(notes) == 1 else ""
    title = textwrap.wrap(_noted(figure.title, common), int(width * _LETTERS))
    head = 0.17 + 0.19 * len(title) + 0.19 * sum(count for _, count in legends)
    total = head + PANEL[1] * rows
    paths = [folder / f"{figure.name}.svg", folder / f"{figure.name}.png"]
    with drawing():
        canvas = Canvas(figsize=(width, total), facecolor="white")
        for i, panel in enumerate(figure.panels):
            row, column = divmod(i, columns)
            ax = canvas.add_axes(
                (
                    (column + figure.left) / columns,
                    PANEL[1] * (rows - 1 - row + _BOTTOM) / total,
                    (figure.right - figure.left) / columns,
                    PANEL[1] * (_TOP - _BOTTOM) / total,
                )
            )
            panel.draw(ax)
            note = "" if common else panel.note
            ax.set_title(_noted(panel.title, note), loc="right", pad=4)
        edge, y = 0.1 / width, 1 - 0.08 / total
        canvas.text(edge, y, "\n".join(title), va="top", fontsize=11, weight="bold")
        y -= (0.03 + 0.19 * len(title)) / total
        for part, count in legends:
            canvas.legend(
                handles=part,
                loc="upper left",
                bbox_to_anchor=(edge, y),
                ncols=per_row,
                handlelength=3.2,
                columnspacing=1.6,
                borderaxespad=0,
                borderpad=0.2,
            )
            y -= 0.19 * count / total
        write_text(paths[0], standalone(_svg(canvas)), durable=False)
        pixels, reduced = io.BytesIO(), io.BytesIO()
        canvas.savefig(pixels, format="png", metadata={"Software": None})
        # A figure has few colours: with a palette, the file is a third of the size.
        image = Image.open(pixels).convert("RGB").quantize(_COLORS)
        image.save(reduced, format="png", optimize=True)
        write_bytes(paths[1], reduced.getvalue(), durable=False)
    return paths


def _noted(title: str, note: str) -> str:
    return f"{title}  ({note})" if note else title


def _svg(canvas: Canvas, *, transparent: bool = False) -> str:
    text = io.StringIO()
    # No date and no version in the file: the same figure has the same bytes.
    metadata = {"Date": None, "Creator": None, "Type": None, "Format": None}
    canvas.savefig(text, format="svg", metadata=metadata, transparent=transparent)
    return text.getvalue()


# --- SVG ------------------------------------------------------------------------------------------


def standalone(svg: str) -> str:
    """Return a standalone SVG file, without metadata and with rounded coordinates.

    Args:
        svg: What Matplotlib wrote.
    """
    root = _clean(svg, prefix="")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("xmlns:xlink", "http://www.w3.org/1999/xlink")
    root.set("stroke-linejoin", "round")
    for element in root.iter():
        if "href" in element.attrib:
            element.set("xlink:href", element.attrib.pop("href"))
        if element.tag == "text":
            # Viewers without DejaVu use another font.
            element.set("font-family", "DejaVu Sans, Verdana, sans-serif")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def inline(svg: str, *, prefix: str, label: str, variables: Mapping[str, str]) -> str:
    """Return an SVG element for an HTML page.

    Args:
        svg: What Matplotlib wrote.
        prefix: Put before its identifiers, so that they are unique on the page.
        label: What it shows, for readers who do not see it; empty if it is decoration.
        variables: From a colour (``#rrggbb``) to the CSS variable that takes its place.
    """
    root = _clean(svg, prefix=prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    if label:
        root.set("role", "img")
        root.set("aria-label", label)
    else:
        root.set("aria-hidden", "true")

    def variable(match: re.Match[str]) -> str:
        name = variables.get(match[0])
        return f"var({name})" if name else match[0]

    for element in root.iter():
        if "style" in element.attrib:
            element.set("style", _COLOR.sub(variable, element.attrib["style"]))
        if element.tag == "text" and "fill" not in element.get("style", ""):
            element.set("fill", "currentColor")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _clean(svg: str, *, prefix: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    used = set(_REFERENCE.findall(svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    names = {name: f"{prefix}{i}" for i, name in enumerate(sorted(used, key=svg.index))}
    _drop(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.text = (element.text or "").strip() or None
        element.tail = None
        _attributes(element, names)
    return root


def _drop(parent: ElementTree.Element) -> None:
    """Remove metadata, style sheets (they would apply to the page) and invisible elements."""
    for child in list(parent):
        name = child.tag.removeprefix(_SVG)
        hidden = name == "path" and child.get("style") == "fill: none"
        if name in ("metadata", "style") or hidden:
            parent.remove(child)
            continue
        _drop(child)
        if name in ("g", "defs") and not len(child):
            parent.remove(child)


def _attributes(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    old = dict(element.attrib)
    element.attrib.clear()
    for key, value in old.items():
        if key == "id":
            if value in names:
                element.set("id", names[value])
        elif key == _HREF:
            element.set("href", f"#{names[value[1:]]}")
        elif key == "clip-path":
            element.set(key, _REFERENCE.sub(lambda m: f"url(#{names[m[1]]})", value))
        elif key == "style":
            element.set(key, _FONT.sub("", value).strip().rstrip(";"))
        elif key == "d":
            element.set(key, " ".join(_round(value).split()))
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key in ("x", "y", "width", "height", "transform"):
            element.set(key, _round(value))
        else:
            element.set(key, value)


def _round(text: str) -> str:
    """Round coordinates to a hundredth of a point, which is invisible.

    >>> _round("M 1.23456 -0.001 L 3.0 40")
    'M 1.23 0 L 3 40'
    """

    def short(match: re.Match[str]) -> str:
        value = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
        return "0" if value in ("-0", "") else value

    return _NUMBER.sub(short, text)
