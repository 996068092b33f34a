"""The figure of the noisy benchmark: the objective without its noise, objectives by (d, L)."""

from collections.abc import Sequence

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.report.axes import WIDE, Scale
from gensmooth.lab.report.curves import (
    Curve,
    Drawn,
    Floats,
    Setting,
    View,
    coinciding,
    curves,
    last,
    legend,
    limits,
    means,
    panel,
    remarks,
    spans,
)
from gensmooth.lab.report.figure import Figure
from gensmooth.lab.report.style import method_title
from gensmooth.lab.report.tables import Cell

KEYS = ("objective", "dim", "num_directions")


def draw(outcome: Outcome) -> Drawn:
    """Draw the objective without its noise, objectives by (d, L)."""
    plotted = curves(outcome.records, KEYS, series=("objective",))
    return Drawn([figure(plotted, outcome.cells)], plotted, KEYS)


def figure(plotted: Sequence[Curve], cells: Sequence[Cell]) -> Figure:
    """Return the figure of ``plotted``; ``cells`` have the settings where every choice diverged."""

    def label(setting: Setting) -> str:
        return f"{setting[0]}, d = {setting[1]}, L = {setting[2]}"

    def evaluations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations * 2 * curve.num_directions

    scale: Scale = "linear"
    sizes = sorted({curve.setting[1:] for curve in plotted})
    objectives = list(dict.fromkeys(curve.setting[0] for curve in plotted))
    settings = [(objective, *size) for objective in objectives for size in sizes]
    groups = {s: [curve for curve in plotted if curve.setting == s] for s in settings}
    if spans(plotted, ["objective"], 1):
        wide = any(spans(here, ["objective"], WIDE) for here in groups.values())
        scale = "log" if wide else "linear"
    panels = [
        panel(
            here,
            setting,
            View(
                series="objective",
                theory=(),
                x=evaluations,
                xlabel="evaluations",
                ylabel="objective",
                xscale="log",
                yscale=scale,
                ylim=limits(here, ["objective"], scale),
            ),
            label,
            absent=_diverged(setting, cells),
        )
        for setting, here in groups.items()
    ]
    return Figure(
        name="dfo",
        title="Noisy benchmark: objective",
        heading="Objective",
        caption="The objective without its noise after each round, against the number of noisy "
        "evaluations; lower is better. Each panel has its own vertical axis. With one direction "
        "there is nothing to orthogonalise: Orthogonal ES then is GS. " + means(plotted),
        columns=len(sizes),
        panels=panels,
        legend=legend(plotted),
        remarks=[*remarks(plotted, label, cells), *coinciding(plotted, "objective")],
        tables=[last(plotted, "objective", "dfo", label)],
    )


def _diverged(setting: Setting, cells: Sequence[Cell]) -> str:
    """Say which methods have no run because every choice of the grid diverged; empty if none."""
    where = f"{setting[0]}, d={setting[1]}, L={setting[2]}"
    lost = [
        method_title(cell.method) for cell in cells if cell.setting == where and not cell.chosen
    ]
    return f"every choice of the grid diverged: {', '.join(lost)}" if lost else ""
