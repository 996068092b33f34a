"""The figures of linear regression: the error of the gradient and the test loss, N by L."""

from collections.abc import Callable, Sequence

from gensmooth.report.curves import (
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
from gensmooth.report.figure import Figure, LegendItem
from gensmooth.report.style import INK, method_title
from gensmooth.report.tables import Table
from gensmooth.studies.spec import Outcome

_THEORY = (("predicted", ()), ("lemma", (1.0, 2.0)))
_THEORY_ITEMS = (
    LegendItem("exact prediction", "thin", INK, width=0.8),
    LegendItem("the paper’s Lemma", "thin", INK, dash=(1, 2), width=1.1),
)


def draw(outcome: Outcome) -> Drawn:
    """The mean squared error of the gradient and the test loss, N by L."""
    keys = ("num_samples", "num_directions")
    found = curves(outcome.records, keys, series=("mse", "loss", "predicted", "lemma"))

    def words(setting: Setting) -> str:
        return f"L = {setting[1]}, N = {setting[0]}"

    def iterations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations

    has_theory = any("predicted" in curve.bands for curve in found)
    errors = ["mse", "predicted", "lemma"]
    scale: Scale = "log" if spans(found, errors, 1) else "linear"
    ylim = limits(found, errors, scale)
    mse = View("mse", _THEORY, iterations, "iterations", "MSE", "linear", scale, ylim)
    scale = "log" if spans(found, ["loss"], WIDE) else "linear"
    ylim = limits(found, ["loss"], scale)
    loss = View("loss", (), iterations, "iterations", "test loss", "linear", scale, ylim)
    numbers = list(dict.fromkeys(curve.setting[1] for curve in found))
    samples = list(dict.fromkeys(curve.setting[0] for curve in found))
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
        f"panels share one vertical axis. {means(found)}"
    )
    figures = [
        Figure(
            name="linreg-mse",
            title="Linear regression: mean squared error of the gradient",
            heading="Mean squared error of the gradient",
            caption="Squared distance between the estimated and the exact gradient, the mean over "
            f"each round’s iterations; lower is better.{theory}{shared}",
            columns=columns,
            panels=[panel(found, setting, mse, words) for setting in settings],
            legend=legend(found, _THEORY_ITEMS if has_theory else ()),
            remarks=[*remarks(found, words, outcome.cells), *coinciding(found, "mse")],
            tables=[
                last(found, "mse", "linreg-mse", words),
                *([_ratios(found, words)] if has_theory else []),
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
            panels=[panel(found, setting, loss, words) for setting in settings],
            legend=legend(found),
            remarks=[*remarks(found, words, outcome.cells), *coinciding(found, "loss")],
            tables=[last(found, "loss", "linreg-loss", words)],
        ),
    ]
    return Drawn(figures, found, keys)


def _ratios(found: Sequence[Curve], words: Callable[[Setting], str]) -> Table:
    """Measured over predicted, and over the Lemma, the mean over rounds."""
    rows = [
        [words(c.setting), method_title(c.method)]
        + [
            float((c.bands["mse"].mean / c.bands[name].mean).mean()) if name in c.bands else ""
            for name in ("predicted", "lemma")
        ]
        for c in found
        if "mse" in c.bands and {"predicted", "lemma"} & set(c.bands)
    ]
    return Table(
        name="linreg-mse-theory",
        title="Measurement over theory",
        columns=["Setting", "Method", "measured ÷ exact prediction", "measured ÷ Lemma"],
        rows=rows,
        note="The ratio of the means over seeds, averaged over the rounds; 1 is agreement.",
    )
