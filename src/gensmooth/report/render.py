"""Sheets as files and as pieces of a page, without any state outside of the figure at hand."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import io
from pathlib import Path

from matplotlib.figure import Figure

from gensmooth.report.sheets import LegendItem, Panel, Sheet, handle, line_look
from gensmooth.report.style import PANEL, SWATCH, drawing
from gensmooth.report.svg import standalone

_TOP, _BOTTOM = 0.885, 0.15


def panel_svg(sheet: Sheet, panel: Panel) -> str:
    """One panel as SVG, as Matplotlib writes it."""
    with drawing():
        figure = Figure(figsize=PANEL)
        # The same margins in all: the axes of neighbours line up.
        figure.subplots_adjust(left=sheet.left, right=sheet.right, top=_TOP, bottom=_BOTTOM)
        panel.draw(figure.add_subplot())
        return _svg(figure, transparent=True)


def swatch_svg(item: LegendItem) -> str:
    """The sign of a legend entry as SVG."""
    with drawing():
        figure = Figure(figsize=SWATCH)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_axis_off()
        if item.kind == "area":
            ax.fill_between([0.02, 0.98], 0.1, 0.9, color=item.color, alpha=0.25, linewidth=0)
        else:
            ax.plot([0.02, 0.5, 0.98], [0.5] * 3, markevery=[1], **line_look(item))
        return _svg(figure, transparent=True)


def write_sheet(sheet: Sheet, folder: Path) -> list[Path]:
    """The whole figure as ``name.svg`` and ``name.png``, on white, with its legend above it."""
    columns = min(sheet.columns, len(sheet.panels))
    rows = -(-len(sheet.panels) // columns)
    methods = [handle(item) for item in sheet.legend if item.kind == "line"]
    others = [handle(item) for item in sheet.legend if item.kind != "line"]
    width = PANEL[0] * columns
    per_row = max(1, int(width / 1.7))
    legends = [(part, -(-len(part) // per_row)) for part in (methods, others) if part]
    head = 0.36 + 0.19 * sum(count for _, count in legends)
    total = head + PANEL[1] * rows
    paths = [folder / f"{sheet.name}.svg", folder / f"{sheet.name}.png"]
    with drawing():
        figure = Figure(figsize=(width, total), facecolor="white")
        for i, panel in enumerate(sheet.panels):
            row, column = divmod(i, columns)
            ax = figure.add_axes(
                (
                    (column + sheet.left) / columns,
                    PANEL[1] * (rows - 1 - row + _BOTTOM) / total,
                    (sheet.right - sheet.left) / columns,
                    PANEL[1] * (_TOP - _BOTTOM) / total,
                )
            )
            panel.draw(ax)
            title = f"{panel.title}  ({panel.note})" if panel.note else panel.title
            ax.set_title(title, loc="right", pad=4)
        edge, y = 0.1 / width, 1 - 0.08 / total
        figure.text(edge, y, sheet.title, va="top", fontsize=11, weight="bold")
        y -= 0.22 / total
        for part, count in legends:
            figure.legend(
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
        paths[0].write_text(standalone(_svg(figure)), encoding="utf-8")
        figure.savefig(paths[1], format="png", metadata={"Software": None})
    return paths


def _svg(figure: Figure, *, transparent: bool = False) -> str:
    text = io.StringIO()
    # No date and no version in the file: the same figure has the same bytes.
    metadata = {"Date": None, "Creator": None, "Type": None, "Format": None}
    figure.savefig(text, format="svg", metadata=metadata, transparent=transparent)
    return text.getvalue()
