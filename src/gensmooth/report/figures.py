"""The paper's figures, redrawn: one table from the name of a study to what is drawn of it."""

from collections.abc import Callable, Sequence

from gensmooth.report.axes import View, draw_curves, plain, vertical
from gensmooth.report.curves import Curve, Floats, Setting, curves, number_of_runs
from gensmooth.report.sheets import (
    BAND_ITEM,
    LEMMA_ITEM,
    PREDICTED_ITEM,
    Drawn,
    Panel,
    PaperNumbers,
    Sheet,
    method_item,
    remarks,
)
from gensmooth.report.style import method_order, method_title
from gensmooth.report.timing import draw_timing
from gensmooth.studies.spec import Record, Table

_THEORY = (("predicted", ()), ("lemma", (1.0, 2.0)))


def draw_study(study: str, records: Sequence[Record], paper: PaperNumbers) -> Drawn:
    """The figures of a study; none for a study without figures or without runs."""
    if study not in DRAWINGS or not records:
        return Drawn(())
    return DRAWINGS[study](records, paper)


def draw_linreg(records: Sequence[Record], _: PaperNumbers) -> Drawn:
    """The mean squared error of the gradient and the test loss, N by L."""
    keys = ("num_samples", "num_directions")
    found = curves(records, keys, series=("mse", "loss", "predicted", "lemma"))

    def words(setting: Setting) -> str:
        return f"L = {setting[1]}, N = {setting[0]}"

    def iterations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations

    has_theory = any("predicted" in curve.bands for curve in found)
    scale, limits = vertical(found, ["mse", "predicted", "lemma"], log=True)
    mse = View("mse", _THEORY, iterations, "iterations", "MSE", "linear", scale, limits)
    scale, limits = vertical(found, ["loss"])
    loss = View("loss", (), iterations, "iterations", "test loss", "linear", scale, limits)
    columns = len({curve.setting[1] for curve in found})
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
            caption="Squared distance between the estimated and the exact gradient, the mean over "
            f"each round’s iterations; lower is better.{theory}{shared}",
            columns=columns,
            panels=_panels(found, mse, words),
            legend=_legend(found, theory=has_theory),
            remarks=remarks(found, lambda curve: words(curve.setting)),
            tables=[
                _last(found, "mse", "linreg-mse", words),
                *([_ratios(found, words)] if has_theory else []),
            ],
        ),
        Sheet(
            name="linreg-loss",
            title="Linear regression: test loss",
            caption="Squared-error loss on the test set after each round; lower is better. A "
            "smaller error of the gradient need not give a smaller loss: the shrinkage methods "
            f"pay for it with bias.{shared}",
            columns=columns,
            panels=_panels(found, loss, words),
            legend=_legend(found),
            remarks=remarks(found, lambda curve: words(curve.setting)),
            tables=[_last(found, "loss", "linreg-loss", words)],
        ),
    ]
    return Drawn(sheets, found, keys)


def draw_dfo(records: Sequence[Record], _: PaperNumbers) -> Drawn:
    """The objective without its noise, objectives by (d, L)."""
    keys = ("objective", "dim", "num_directions")
    found = curves(records, keys, series=("objective",))

    def words(setting: Setting) -> str:
        return f"{setting[0]}, d = {setting[1]}, L = {setting[2]}"

    def evaluations(curve: Curve, rounds: Floats) -> Floats:
        return rounds * curve.iterations * 2 * curve.num_directions

    panels: list[Panel] = []
    for setting in dict.fromkeys(curve.setting for curve in found):
        here = [curve for curve in found if curve.setting == setting]
        scale, limits = vertical(here, ["objective"])
        view = View(
            "objective", (), evaluations, "evaluations", "objective", "log", scale, limits
        )
        panels += _panels(here, view, words)
    sheet = Sheet(
        name="dfo",
        title="Noisy benchmark: objective",
        caption="The objective without its noise after each round, against the number of noisy "
        "evaluations; lower is better. Each panel has its own vertical axis. With one direction "
        "there is nothing to orthogonalise: Orthogonal ES then is GS. " + _means(found),
        columns=len({curve.setting[1:] for curve in found}),
        panels=panels,
        legend=_legend(found),
        remarks=remarks(found, lambda curve: words(curve.setting)),
        tables=[_last(found, "objective", "dfo", words)],
    )
    return Drawn([sheet], found, keys)


def _panels(
    found: Sequence[Curve], view: View, words: Callable[[Setting], str]
) -> list[Panel]:
    panels: list[Panel] = []
    for setting in dict.fromkeys(curve.setting for curve in found):
        here = [curve for curve in found if curve.setting == setting]
        ends = "; ".join(
            f"{method_title(c.method)} {plain(float(f'{c.bands[view.series].mean[-1]:.3g}'))}"
            for c in here
            if view.series in c.bands
        )
        panels.append(
            Panel(
                key="-".join(str(value).replace(":", "-") for value in setting),
                title=words(setting),
                note=number_of_runs(here),
                text=f"{view.ylabel} against {view.xlabel}, {words(setting)}. "
                + (f"At the end: {ends}." if ends else "No finite run."),
                draw=lambda ax, here=here: draw_curves(ax, here, view),
            )
        )
    return panels


def _legend(found: Sequence[Curve], *, theory: bool = False):
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
        "reaches below zero is cut at the axis."
    )


def _last(
    found: Sequence[Curve], series: str, name: str, words: Callable[[Setting], str]
) -> Table:
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
DRAWINGS: dict[str, Callable[[Sequence[Record], PaperNumbers], Drawn]] = {
    "linreg": draw_linreg,
    "dfo": draw_dfo,
    "timing": draw_timing,
}
