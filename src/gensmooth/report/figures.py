"""The paper's figures, redrawn: one table from the name of a study to what is drawn of it."""

from collections.abc import Callable, Sequence

from gensmooth.report.axes import Scale, View, limits, spans
from gensmooth.report.curves import Curve, Floats, Setting, curves
from gensmooth.report.panels import last, legend, means, panel
from gensmooth.report.rl import draw_rl
from gensmooth.report.sheets import Drawn, PaperNumbers, Sheet, remarks
from gensmooth.report.style import method_title
from gensmooth.report.timing import draw_timing
from gensmooth.studies.spec import Outcome, Table

_FACTOR = 8  # values that differ by more are drawn on a logarithmic axis
_THEORY = (("predicted", ()), ("lemma", (1.0, 2.0)))


def draw_study(outcome: Outcome, paper: PaperNumbers) -> Drawn:
    """The figures of a study; none for a study without figures or without runs."""
    if outcome.study not in DRAWINGS or not outcome.records:
        return Drawn(())
    return DRAWINGS[outcome.study](outcome, paper)


def draw_linreg(outcome: Outcome, _: PaperNumbers) -> Drawn:
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
    scale = "log" if spans(found, ["loss"], _FACTOR) else "linear"
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
    sheets = [
        Sheet(
            name="linreg-mse",
            title="Linear regression: mean squared error of the gradient",
            heading="Mean squared error of the gradient",
            caption="Squared distance between the estimated and the exact gradient, the mean over "
            f"each round’s iterations; lower is better.{theory}{shared}",
            columns=columns,
            panels=[panel(found, setting, mse, words) for setting in settings],
            legend=legend(found, theory=has_theory),
            remarks=remarks(found, words, outcome.cells),
            tables=[
                last(found, "mse", "linreg-mse", words),
                *([_ratios(found, words)] if has_theory else []),
            ],
        ),
        Sheet(
            name="linreg-loss",
            title="Linear regression: test loss",
            heading="Test loss",
            caption="Squared-error loss on the test set after each round; lower is better. A "
            "smaller error of the gradient need not give a smaller loss: the shrinkage methods "
            f"pay for it with bias.{shared}",
            columns=columns,
            panels=[panel(found, setting, loss, words) for setting in settings],
            legend=legend(found),
            remarks=remarks(found, words, outcome.cells),
            tables=[last(found, "loss", "linreg-loss", words)],
        ),
    ]
    return Drawn(sheets, found, keys)


def draw_dfo(outcome: Outcome, _: PaperNumbers) -> Drawn:
    """The objective without its noise, objectives by (d, L)."""
    keys = ("objective", "dim", "num_directions")
    found = curves(outcome.records, keys, series=("objective",))

    def words(setting: Setting) -> str:
        return f"{setting[0]}, d = {setting[1]}, L = {setting[2]}"

    def evaluations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations * 2 * curve.num_directions

    scale: Scale = "linear"
    sizes = sorted({curve.setting[1:] for curve in found})
    objectives = list(dict.fromkeys(curve.setting[0] for curve in found))
    settings = [(objective, *size) for objective in objectives for size in sizes]
    groups = {s: [curve for curve in found if curve.setting == s] for s in settings}
    if spans(found, ["objective"], 1):
        wide = any(spans(here, ["objective"], _FACTOR) for here in groups.values())
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
    sheet = Sheet(
        name="dfo",
        title="Noisy benchmark: objective",
        heading="Objective",
        caption="The objective without its noise after each round, against the number of noisy "
        "evaluations; lower is better. Each panel has its own vertical axis. With one direction "
        "there is nothing to orthogonalise: Orthogonal ES then is GS. " + means(found),
        columns=len(sizes),
        panels=panels,
        legend=legend(found),
        remarks=remarks(found, words, outcome.cells),
        tables=[last(found, "objective", "dfo", words)],
    )
    return Drawn([sheet], found, keys)


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


# The one place that knows which study is drawn how. A study that is not here gets its tables and
# its claims.
DRAWINGS: dict[str, Callable[[Outcome, PaperNumbers], Drawn]] = {
    "linreg": draw_linreg,
    "dfo": draw_dfo,
    "rl": draw_rl,
    "timing": draw_timing,
}
