"""The paper's figures, redrawn: one table from the name of a study to what is drawn of it."""

from collections.abc import Callable, Sequence
from functools import partial

from gensmooth.report.axes import Scale, View, draw_curves, limits, plain, spans
from gensmooth.report.curves import Curve, Floats, Setting, curves, number_of_runs
from gensmooth.report.sheets import (
    BAND_ITEM,
    LEMMA_ITEM,
    PREDICTED_ITEM,
    Drawn,
    LegendItem,
    Panel,
    PaperNumbers,
    Sheet,
    method_item,
    remarks,
)
from gensmooth.report.style import method_order, method_title
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
        f"panels share one vertical axis. {_means(found)}"
    )
    sheets = [
        Sheet(
            name="linreg-mse",
            title="Linear regression: mean squared error of the gradient",
            heading="Mean squared error of the gradient",
            caption="Squared distance between the estimated and the exact gradient, the mean over "
            f"each round’s iterations; lower is better.{theory}{shared}",
            columns=columns,
            panels=[_panel(found, setting, mse, words) for setting in settings],
            legend=_legend(found, theory=has_theory),
            remarks=remarks(found, words, outcome.cells),
            tables=[
                _last(found, "mse", "linreg-mse", words),
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
            panels=[_panel(found, setting, loss, words) for setting in settings],
            legend=_legend(found),
            remarks=remarks(found, words, outcome.cells),
            tables=[_last(found, "loss", "linreg-loss", words)],
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
        _panel(
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
        "there is nothing to orthogonalise: Orthogonal ES then is GS. " + _means(found),
        columns=len(sizes),
        panels=panels,
        legend=_legend(found),
        remarks=remarks(found, words, outcome.cells),
        tables=[_last(found, "objective", "dfo", words)],
    )
    return Drawn([sheet], found, keys)


def _panel(
    found: Sequence[Curve], setting: Setting, view: View, words: Callable[[Setting], str]
) -> Panel:
    """The panel of a setting; it says so where there is nothing to draw."""
    here = [curve for curve in found if curve.setting == setting]
    ends = "; ".join(
        f"{method_title(c.method)} {plain(float(f'{c.bands[view.series].mean[-1]:.3g}'))}"
        for c in here
        if view.series in c.bands
    )
    return Panel(
        title=words(setting),
        note=number_of_runs(here),
        text=f"{view.ylabel} against {view.xlabel}, {words(setting)}. "
        + (f"At the end: {ends}." if ends else "No finite run."),
        draw=partial(draw_curves, found=here, view=view),
    )


def _legend(found: Sequence[Curve], *, theory: bool = False) -> list[LegendItem]:
    methods = sorted({curve.method for curve in found if curve.n}, key=method_order)
    items = [method_item(name) for name in methods]
    many = any(curve.n > 1 for curve in found)
    return [
        *items,
        *([BAND_ITEM] if many else []),
        *([PREDICTED_ITEM, LEMMA_ITEM] if theory else []),
    ]


def _means(found: Sequence[Curve]) -> str:
    return (
        f"Lines are means over seeds ({number_of_runs(found)}), bands one standard deviation of "
        "the seeds to either side, computed at each round; on a logarithmic axis a band that "
        "reaches below the axis is cut there. Markers are staggered, so that methods whose curves "
        "coincide can be told apart."
    )


def _last(found: Sequence[Curve], series: str, name: str, words: Callable[[Setting], str]) -> Table:
    """Mean ± deviation at the last round, settings by methods."""
    methods = sorted({curve.method for curve in found}, key=method_order)
    cells: dict[tuple[Setting, str], str] = {}
    for curve in found:
        if series in curve.bands:
            band = curve.bands[series]
            text = f"{band.mean[-1]:.4g}"
            if band.n[-1] > 1:
                text += f" ± {band.sd[-1]:.2g}"
            cells[curve.setting, curve.method] = text
        else:
            cells[curve.setting, curve.method] = "diverged"
    settings = dict.fromkeys(curve.setting for curve in found)
    return Table(
        name=f"{name}-last",
        title="At the last round",
        columns=["Setting", *(method_title(method) for method in methods)],
        rows=[[words(s), *(cells.get((s, m), "") for m in methods)] for s in settings],
        note="Mean ± one standard deviation over seeds.",
    )


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
    "timing": draw_timing,
}
