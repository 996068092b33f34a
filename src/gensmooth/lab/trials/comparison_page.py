"""The page of a comparison: convergence, final values, verdicts, and how to repeat it."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import how_many
from gensmooth.lab.report.style import MethodStyle, assign_styles
from gensmooth.lab.report.tables import Table
from gensmooth.lab.trials.page import (
    Ranking,
    answer,
    failures_table,
    interval_words,
    judged_in_words,
    mean_words,
    pairs_table,
    rank,
    runs_table,
    why_failed,
    write_page,
)
from gensmooth.lab.trials.ranking import Standing, Versus, by_ratio, shown
from gensmooth.lab.trials.table import Fetch, TrialTable
from gensmooth.lab.trials.trial import POINTS


def conclude(table: TrialTable, fetch: Fetch) -> Ranking:
    """Compute the verdicts from the runs; a seed is omitted until all methods have run it."""
    records = fetch(table.specs(), how_many(len(table.cells), "method"))
    runs = table.by_cell(records, table.seeds)
    finished = [{run.config["seed"] for run in cell_runs} for cell_runs in runs.values()]
    complete = [seed for seed in table.seeds if all(seed in seeds for seeds in finished)]
    return rank(table, table.by_cell(records, complete))


def write_comparison(ranking: Ranking, out: Path, *, reload: float | None = None) -> Path:
    """Write the page and its tables."""
    return write_page(
        ranking.table,
        out,
        title=_listed(list(ranking.runs)),
        answer=answer(ranking, "No seed has been run by every method yet."),
        prose=_prose(ranking),
        drawn=_drawn(ranking),
        tables=[
            *_finals(ranking),
            *pairs_table(ranking, "Every pair"),
            *failures_table(ranking.runs),
        ],
        facts=_facts(ranking),
        files=[runs_table(ranking.runs)],
        reload=reload,
    )


def summary(ranking: Ranking) -> str:
    """Return the standings and verdicts as a terminal shows them."""
    if not ranking.standings:
        return "No seed has been run by every method yet."
    width = max(len(each.label) for each in ranking.standings)
    lines = [
        f"{each.label:{width}}  {_mean(each, with_failures=True)}" for each in ranking.standings
    ]
    verdicts = [pair.words for pair in _best(ranking)]
    paragraphs = [lines, why_failed(ranking.runs), verdicts]
    return "\n\n".join("\n".join(each) for each in paragraphs if each)


# --- words ---------------------------------------------------------------------------------------


def _best(ranking: Ranking) -> list[Versus]:
    """Return the method that ranks first against each of the others."""
    return [pair for pair in ranking.pairs if pair.a == ranking.standings[0].label]


def _prose(ranking: Ranking) -> list[str]:
    table = ranking.table
    done = len(next(iter(ranking.runs.values()), ()))
    missing = len(table.seeds) - done
    paragraphs = [
        f"{how_many(len(ranking.runs), 'method')} on {table.problem}, each with {table.budget} "
        f"{table.unit} and {how_many(done, 'seed')}. For a given seed, all methods have the same "
        "start and the same samples, so they are compared seed by seed.",
        judged_in_words(table),
    ]
    if missing:
        paragraphs.insert(
            1, f"{missing} of {len(table.seeds)} seeds are not complete and are left out."
        )
    return paragraphs


def _mean(each: Standing, *, with_failures: bool = False) -> str:
    failed = each.failed if with_failures else 0
    return mean_words(each.mean, each.low, each.high, failed, len(each.values))


def _listed(names: Sequence[str]) -> str:
    if len(names) > 6:
        return f"{len(names)} methods"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _facts(ranking: Ranking) -> list[tuple[str, str]]:
    table, runs = ranking.table, [r for each in ranking.runs.values() for r in each]
    rows = [
        ("seeds", ", ".join(map(str, table.seeds))),
        ("values that judge", table.scored or f"{table.values} fresh ones"),
        ("runs", str(len(runs))),
        ("time of the runs", f"{sum(r.seconds for r in runs):.1f} s in all"),
    ]
    how: Mapping[str, Any] = table.config["problem"].get("how", {})
    rows += [(name, _setting(value)) for name, value in how.items()]
    rows += [
        (cell["label"], ", ".join(f"{k} = {v}" for k, v in cell["config"]["options"].items()))
        for cell in table.cells
        if cell["config"]["options"]
    ]
    return rows


def _setting(value: Any) -> str:
    if isinstance(value, Mapping) and "shape" in value:  # of an array, only a hash is stored
        return f"an array of shape {tuple(cast('list[int]', value['shape']))}"
    return str(cast(Any, value))


# --- tables --------------------------------------------------------------------------------------


def _finals(ranking: Ranking) -> list[Table]:
    if not ranking.standings:
        return []
    ratio = by_ratio({each.label: each.values for each in ranking.standings})
    times = {
        label: [t for r in runs if (t := r.more.get("seconds_per_evaluation"))]
        for label, runs in ranking.runs.items()
    }
    slow = all(min(each) > 1e-3 for each in times.values() if each)
    rows: list[list[Any]] = []
    for standing in ranking.standings:
        seconds = times[standing.label]
        finite = [value for value in standing.values if math.isfinite(value)]
        rows.append(
            [
                standing.label,
                round(standing.rank, 2),
                standing.mean,
                interval_words(standing.low, standing.high),
                min(finite, default=math.nan),
                max(finite, default=math.nan),
                standing.failed,
                (1e3 if slow else 1e6) * float(np.median(seconds)) if seconds else "",
            ]
        )
    kind = "Geometric mean" if ratio and not ranking.table.maximize else "Mean"
    columns = ["Method", "Mean rank", kind, "95 % interval", "Smallest", "Largest", "Failed"]
    unit = "episode" if ranking.table.unit == "episodes" else "evaluation"
    return [
        Table(
            "final",
            "Final values",
            [*columns, f"{'ms' if slow else 'µs'} per {unit}"],
            rows,
            f"Means, intervals and extremes are over the seeds that have a value; ranks count a "
            f"failed run as the worst. Time per {unit} includes the objective; it is the median "
            "over seeds, without the first step, which compiles.",
        )
    ]


# --- figures -------------------------------------------------------------------------------------


def _drawn(ranking: Ranking) -> Any:
    from gensmooth.lab.report.axes import Scale
    from gensmooth.lab.report.curves import Curve, Drawn, Floats, View, draw_curves, quartiles
    from gensmooth.lab.report.figure import Figure, LegendItem, Panel, method_item

    if not ranking.standings:
        return Drawn(())
    table, styles = ranking.table, assign_styles(list(ranking.runs))
    series, label, caption = _series(ranking)
    curves: list[Curve] = []
    for name, runs in ranking.runs.items():
        rows = [_padded(r, series) for r in runs]
        failed = sum(r.diverged for r in runs)
        bands = {series: quartiles(rows)} if rows else {}
        curves.append(Curve((), name, bands, 1, 1, len(runs), failed))
    lines = [c.bands[series] for c in curves]
    low, high, log = _range([end for b in lines for end in (b.mean, *(b.edges or ()))])
    part = table.budget / POINTS

    def spent(_: Curve, rounds: Floats) -> Floats:
        return rounds * part

    scale: Scale = "log" if log else "linear"
    view = View(series, (), spent, table.unit, label, "linear", scale, (low, high), styles)
    legend = [method_item(c.method, style=styles[c.method], title=c.method) for c in curves]
    ends = "; ".join(f"{c.method} {shown(float(c.bands[series].mean[-1]))}" for c in curves)
    number = f"n = {curves[0].runs}"
    figure = Figure(
        name="comparison",
        title=f"{table.problem}, {table.budget} {table.unit}",
        heading="Convergence and final values",
        caption=f"Left: {caption[0].lower()}{caption[1:]} Lines are medians over seeds ({number}), "
        "bands are quartiles; a failed run counts as infinitely bad, so a line ends where half of "
        "the runs have failed. Right: each dot is a seed, and the bar is the 95 % interval of the "
        f"{'geometric ' if _is_ratio(ranking) else ''}mean, with an arrowhead where it goes beyond "
        "the axis; a cross at the edge is a failed run.",
        columns=2,
        panels=[
            Panel(
                "Convergence",
                number,
                f"{label} against {table.unit}. At the end: {ends}.",
                partial(draw_curves, plotted=curves, view=view),
            ),
            Panel(
                "Final values",
                number,
                "Final values: " + "; ".join(f"{s.label} {_mean(s)}" for s in ranking.standings),
                partial(_draw_finals, ranking=ranking, styles=styles),
            ),
        ],
        legend=[*legend, LegendItem("quartiles", "area")],
        remarks=why_failed(ranking.runs),
    )
    return Drawn([figure], curves, [])


def _series(ranking: Ranking) -> tuple[str, str, str]:
    """Return the name of the series to draw, the label of its axis, and its description."""
    runs = [r for each in ranking.runs.values() for r in each]
    if any("score" in r.series for r in runs):
        words = f"The curves show the point recommended so far, judged {ranking.table.scored}."
        return "score", "score", words
    if ranking.table.unit == "episodes":
        words = "The curves show the mean returns of the training episodes, without the bonus."
        return "value", "training return", words
    if all(r.more.get("exact") for r in runs if not r.diverged):
        words = "Values are exact; the curves show the best value so far."
        return "best", "best value so far", words
    words = "Values are noisy; the curves show the mean of the values in each step."
    return "value", "value", words


def _padded(record: RunRecord, series: str) -> list[float]:
    """Return a series; a failed run is infinitely bad."""
    numbers = record.series.get(series)
    if record.diverged or not numbers:
        return [math.inf] * POINTS
    return list(numbers)


def _range(lines: Sequence[Any]) -> tuple[float, float, bool]:
    """Return the range of an axis, and whether it is logarithmic."""
    from gensmooth.lab.report.axes import WIDE, padded

    finite = np.concatenate([line[np.isfinite(line)] for line in lines])
    if not len(finite):
        return 0.1, 1.0, False
    low, high = float(finite.min()), float(finite.max())
    log = low > 0 and high > WIDE * low
    return *padded(low, high, "log" if log else "linear"), log


def _is_ratio(ranking: Ranking) -> bool:
    return bool(ranking.pairs) and ranking.pairs[0].ratio


def _draw_finals(ax: Any, *, ranking: Ranking, styles: Mapping[str, MethodStyle]) -> None:
    from gensmooth.lab.report.axes import ticks

    order = list(reversed(ranking.standings))
    values = [np.array([v for v in each.values if math.isfinite(v)]) for each in order]
    low, high, log = _range([*values, np.array([])])
    ax.set_xscale("log" if log else "linear")
    ax.set_xlim(low, high)
    for place, (standing, finite) in enumerate(zip(order, values, strict=True)):
        color = styles[standing.label].color
        shift = np.linspace(-0.16, 0.16, len(finite)) if len(finite) > 1 else np.zeros(len(finite))
        ax.plot(finite, place + shift, "o", color=color, ms=3.4, mew=0, alpha=0.55, zorder=3)
        ends = np.clip([standing.low, standing.high], low, high)
        if len(finite) > 1:
            ax.plot(ends, [place, place], color=color, lw=2.4, zorder=4, solid_capstyle="butt")
            beyond = ((low, "<", standing.low < low), (high, ">", standing.high > high))
            for edge, arrow, is_beyond in beyond:
                if is_beyond:
                    ax.plot([edge], [place], arrow, color=color, ms=6, clip_on=False, zorder=5)
        if len(finite):
            ax.plot([standing.mean], [place], "|", color=color, ms=11, mew=1.6, zorder=5)
        if standing.failed:
            right = 1 - 0.02 * np.arange(standing.failed)[:12]
            look = {"color": color, "ms": 4.5, "mew": 1.2, "clip_on": False, "zorder": 5}
            ax.plot(right, [place] * len(right), "x", transform=ax.get_yaxis_transform(), **look)
        across = ax.get_yaxis_transform()
        ax.text(0.0, place + 0.3, f" {standing.label}", transform=across, color=color)
    ax.set_ylim(-0.5, len(order) - 0.3)
    ax.set_yticks([])
    ticks(ax, "x", "log" if log else "linear", (low, high))
    ax.set_xlabel("final value", loc="right", labelpad=2)
