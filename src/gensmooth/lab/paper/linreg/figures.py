"""The figures of linear regression: the error of the gradient and the test loss, N by L."""

from collections.abc import Callable, Sequence

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
from gensmooth.lab.report.figure import Figure, LegendItem
from gensmooth.lab.report.style import INK, method_title
from gensmooth.lab.report.tables import Cell, Table

_THEORY = (("predicted", ()), ("lemma", (1.0, 2.0)))
_THEORY_ITEMS = (
    LegendItem("exact prediction", "thin", INK, width=0.8),
    LegendItem("the paper’s Lemma", "thin", INK, dash=(1, 2), width=1.1),
)


KEYS = ("num_samples", "num_directions")
SERIES = ("mse", "loss", "predicted", "lemma")


def draw(outcome: Outcome) -> Drawn:
    """Draw the mean squared error of the gradient and the test loss, N by L."""
    plotted = curves(outcome.records, KEYS, series=SERIES)
    return Drawn(figures(plotted, outcome.cells), plotted, KEYS)


def figures(plotted: Sequence[Curve], cells: Sequence[Cell]) -> list[Figure]:
    """Return the two figures of some curves."""

    def words(setting: Setting) -> str:
        return f"L = {setting[1]}, N = {setting[0]}"

    def iterations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations

    has_theory = any("predicted" in curve.bands for curve in plotted)
    errors = ["mse", "predicted", "lemma"]
    scale: Scale = "log" if spans(plotted, errors, 1) else "linear"
    ylim = limits(plotted, errors, scale)
    mse = View("mse", _THEORY, iterations, "iterations", "MSE", "linear", scale, ylim)
    scale = "log" if spans(plotted, ["loss"], WIDE) else "linear"
    ylim = limits(plotted, ["loss"], scale)
    loss = View("loss", (), iterations, "iterations", "test loss", "linear", scale, ylim)
    numbers = list(dict.fromkeys(curve.setting[1] for curve in plotted))
    samples = list(dict.fromkeys(curve.setting[0] for curve in plotted))
    settings = [(n, number) for n in samples for number in sorted(numbers)]
    columns = len(numbers)
    theory = (
        " Thin lines are the exact prediction at the parameters that the runs visited (shared "
        "samples, finite spacing), dotted lines the paper’s Lemma, in which each direction has "
        "samples of its own: where a thin line lies on its curve, theory and measurement agree."
        if has_theory
        else ""
    )
    shared = (
        f" Columns differ in the number of directions L, rows in the number of samples N; all "
        f"panels share one vertical axis. {means(plotted)}"
    )
    return [
        Figure(
            name="linreg-mse",
            title="Linear regression: mean squared error of the gradient",
            heading="Mean squared error of the gradient",
            caption="Squared distance between the estimated and the exact gradient, the mean over "
            f"each round’s iterations; lower is better.{theory}{shared}",
            columns=columns,
            panels=[panel(plotted, setting, mse, words) for setting in settings],
            legend=legend(plotted, _THEORY_ITEMS if has_theory else ()),
            remarks=[*remarks(plotted, words, cells), *coinciding(plotted, "mse")],
            tables=[
                last(plotted, "mse", "linreg-mse", words),
                *([_ratios(plotted, words)] if has_theory else []),
            ],
        ),
        Figure(
            name="linreg-loss",
            title="Linear regression: test loss",
            heading="Test loss",
            caption="Squared-error loss on the test set after each round; lower is better. A "
            "smaller error of the gradient need not give a smaller loss: the shrinkage methods "
            f"pay for it with bias.{shared}",
            columns=columns,
            panels=[panel(plotted, setting, loss, words) for setting in settings],
            legend=legend(plotted),
            remarks=[*remarks(plotted, words, cells), *coinciding(plotted, "loss")],
            tables=[last(plotted, "loss", "linreg-loss", words)],
        ),
    ]


def _ratios(plotted: Sequence[Curve], words: Callable[[Setting], str]) -> Table:
    """Measured MSE divided by the predicted one and by the Lemma's, averaged over rounds."""
    rows = [
        [words(c.setting), method_title(c.method)]
        + [
            float((c.bands["mse"].mean / c.bands[name].mean).mean()) if name in c.bands else ""
            for name in ("predicted", "lemma")
        ]
        for c in plotted
        if "mse" in c.bands and {"predicted", "lemma"} & set(c.bands)
    ]
    return Table(
        name="linreg-mse-theory",
        title="Measurement over theory",
        columns=["Setting", "Method", "measured ÷ exact prediction", "measured ÷ Lemma"],
        rows=rows,
        note="The ratio of the means over seeds, averaged over the rounds; 1 is agreement.",
    )
