"""The figure of the noisy benchmark: the objective without its noise, objectives by (d, L)."""

from gensmooth.lab.experiments.spec import Outcome
from gensmooth.lab.report.curves import (
    WIDE,
    Curve,
    Drawn,
    Floats,
    Scale,
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


def draw(outcome: Outcome) -> Drawn:
    """Draw the objective without its noise, objectives by (d, L)."""
    keys = ("objective", "dim", "num_directions")
    plotted = curves(outcome.records, keys, series=("objective",))

    def words(setting: Setting) -> str:
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
                "objective",
                (),
                evaluations,
                "evaluations",
                "objective",
                "log",
                scale,
                limits(here, ["objective"], scale),
            ),
            words,
        )
        for setting, here in groups.items()
    ]
    figure = Figure(
        name="dfo",
        title="Noisy benchmark: objective",
        heading="Objective",
        caption="The objective without its noise after each round, against the number of noisy "
        "evaluations; lower is better. Each panel has its own vertical axis. With one direction "
        "there is nothing to orthogonalise: Orthogonal ES then is GS. " + means(plotted),
        columns=len(sizes),
        panels=panels,
        legend=legend(plotted),
        remarks=[*remarks(plotted, words, outcome.cells), *coinciding(plotted, "objective")],
        tables=[last(plotted, "objective", "dfo", words)],
    )
    return Drawn([figure], plotted, keys)
