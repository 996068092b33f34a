"""The figures of the untuned pilot: its curve and the curve of the best of the grid."""

from collections.abc import Sequence

from gensmooth.lab.experiments.spec import Outcome, RunRecord
from gensmooth.lab.paper.untuned.claims import KEYS, LINEAR, PILOT, Where, best_of_grid, where_of
from gensmooth.lab.report.axes import Scale
from gensmooth.lab.report.curves import (
    Curve,
    Drawn,
    Floats,
    Setting,
    View,
    curves,
    legend,
    limits,
    means,
    panel,
    spans,
)
from gensmooth.lab.report.figure import Figure, Panel

_FACTOR = 8  # values that differ by more are drawn on a logarithmic axis


def draw(outcome: Outcome) -> Drawn:
    """Draw the objective and the test loss over evaluations."""
    chosen = {
        where: (PILOT, best_of_grid(outcome.scores, where))
        for where in (Where(*setting) for setting in outcome.scores.values(*KEYS))
    }
    kept = [r for r in outcome.records if r.config["method"] in chosen[where_of(r.config)]]
    plotted = curves([_unified(record) for record in kept], KEYS, series=("value",))
    noisy = [curve for curve in plotted if curve.setting[0] != LINEAR]
    linear = [curve for curve in plotted if curve.setting[0] == LINEAR]
    figures: list[Figure] = []
    shared = (
        "At equal evaluations: the pilot with its defaults at the point that it recommends, and "
        "the method of the paper that ends lowest with the best numbers of its grid; lower is "
        "better. Each panel has its own vertical axis. "
    )
    if noisy:
        figures.append(
            Figure(
                name="untuned-benchmark",
                title="Untuned on the noisy benchmark",
                heading="Objective without its noise",
                caption=f"{shared}{means(noisy)}",
                columns=len({curve.setting[1:] for curve in noisy}),
                panels=_panels(noisy, "objective", "log", "evaluations"),
                legend=legend(noisy),
            )
        )
    if linear:
        figures.append(
            Figure(
                name="untuned-regression",
                title="Untuned on linear regression",
                heading="Test loss",
                caption=f"{shared}{means(linear)}",
                columns=len({curve.setting[3] for curve in linear}),
                panels=_panels(linear, "test loss", "linear", "thousand evaluations"),
                legend=legend(linear),
            )
        )
    return Drawn(figures, plotted, KEYS)


def _panels(plotted: Sequence[Curve], label: str, scale_x: Scale, along: str) -> list[Panel]:
    panels: list[Panel] = []
    for setting in dict.fromkeys(curve.setting for curve in plotted):
        here = [curve for curve in plotted if curve.setting == setting]
        scale: Scale = "log" if spans(here, ["value"], _FACTOR) else "linear"
        ylim = limits(here, ["value"], scale)
        view = View("value", (), _evaluations, along, label, scale_x, scale, ylim)
        panels.append(panel(here, setting, view, _words))
    return panels


def _words(setting: Setting) -> str:
    return Where(*setting).words().replace("=", " = ")


def _evaluations(curve: Curve, rounds: Floats) -> Floats:
    where = Where(*curve.setting)
    L, N = where.num_directions, where.num_samples
    per_iteration = (L + 1) * N / 1000 if where.objective == LINEAR else 2 * L
    return rounds * curve.iterations * per_iteration


def _unified(record: RunRecord) -> RunRecord:
    """Return a run of either study with the configuration entries and series that both share."""
    config = {**record.config, **where_of(record.config)._asdict()}
    values = [record.series[name] for name in ("objective", "loss") if name in record.series]
    return record._replace(config=config, series={"value": values[0]} if values else {})
