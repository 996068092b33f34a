"""The page of a sweep: a heat map of its cells, and the best of them on fresh seeds."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.report.style import MUTED, assign_styles
from gensmooth.lab.report.tables import Table
from gensmooth.lab.trials.page import (
    Ranking,
    answer,
    final,
    interval_words,
    judged_in_words,
    mean_words,
    pairs_table,
    rank,
    runs_table,
    why_failed,
    write_page,
)
from gensmooth.lab.trials.ranking import shown
from gensmooth.lab.trials.table import Fetch, Runs, TrialTable


class CellScore(NamedTuple):
    """The result of a cell on the tuning seeds.

    Attributes:
        label: The method with its options.
        method: The method.
        values: Its options.
        mean: The mean final value; infinite if a run failed, NaN if there is no run.
        runs: How many runs there are.
        failed: How many of them failed.
    """

    label: str
    method: str
    values: Mapping[str, float]
    mean: float
    runs: int
    failed: int


class BestCell(NamedTuple):
    """The best options of a method.

    Attributes:
        label: The method with its options.
        method: The method.
        values: Its options.
        chosen_by: The mean by which it was chosen, over the tuning seeds; it is biased.
        mean: The mean on fresh seeds (geometric if all values are positive).
        low: The lower end of its 95 % interval.
        high: The upper end.
        seeds: How many fresh seeds.
        failed: How many of its runs there failed.
    """

    label: str
    method: str
    values: Mapping[str, float]
    chosen_by: float
    mean: float
    low: float
    high: float
    seeds: int
    failed: int


class SweepConclusion(NamedTuple):
    """The conclusion from the runs of a sweep.

    Attributes:
        runs: The runs of each cell on the tuning seeds.
        cells: The cells with their means.
        fresh: The best cell of each method, ranked on fresh seeds.
        best: The same cells, with the means by which they were chosen.
    """

    runs: Runs
    cells: Sequence[CellScore]
    fresh: Ranking
    best: Sequence[BestCell]


def scores(table: TrialTable, records: Sequence[RunRecord]) -> list[CellScore]:
    """Return the cells with their means."""
    scored: list[CellScore] = []
    for cell, runs in zip(table.cells, table.by_cell(records, table.seeds).values(), strict=True):
        finals = [final(run) for run in runs]
        mean = sum(finals) / len(finals) if finals else math.nan
        failed = sum(run.diverged for run in runs)
        if failed:
            mean = -math.inf if table.maximize else math.inf
        scored.append(
            CellScore(cell["label"], cell["method"], cell["values"], mean, len(runs), failed)
        )
    return scored


def chosen(cells: Sequence[CellScore], *, maximize: bool = False) -> list[CellScore]:
    """Return the best cell of each method, the first one in case of a tie."""
    best: dict[str, CellScore] = {}
    for cell in cells:
        if math.isnan(cell.mean):
            continue
        now = best.get(cell.method)
        if now is None or (cell.mean > now.mean if maximize else cell.mean < now.mean):
            best[cell.method] = cell
    return list(best.values())


def conclude(table: TrialTable, fetch: Fetch) -> SweepConclusion:
    """Choose the best cell of each method, and judge it on fresh seeds."""
    records = fetch(table.specs(), f"{len(table.cells)} cells")
    cells = {cell.label: cell for cell in scores(table, records)}
    best = chosen(list(cells.values()), maximize=table.maximize)
    labels = [cell.label for cell in best if math.isfinite(cell.mean)]
    again = fetch(table.specs(labels, table.fresh), "the best, on fresh seeds")
    runs = table.by_cell(again, table.fresh)
    fresh = rank(table, {k: each for k, each in runs.items() if len(each) == len(table.fresh)})
    rows = [
        BestCell(
            each.label,
            cells[each.label].method,
            dict(cells[each.label].values),
            cells[each.label].mean,
            each.mean,
            each.low,
            each.high,
            len(each.values),
            each.failed,
        )
        for each in fresh.standings
    ]
    by_cell = table.by_cell(records, table.seeds)
    return SweepConclusion(by_cell, list(cells.values()), fresh, rows)


def write_sweep(sweep: SweepConclusion, out: Path, *, reload: float | None = None) -> Path:
    """Write the page and its tables."""
    table = sweep.fresh.table
    methods = dict.fromkeys(cell.method for cell in sweep.cells)
    every = [*sweep.runs.values(), *sweep.fresh.runs.values()]
    return write_page(
        table,
        out,
        title=f"options of {', '.join(methods)}",
        answer=answer(
            sweep.fresh, "No cell has been run on every seed yet, or every cell has failed."
        ),
        prose=_prose(sweep.fresh),
        drawn=_drawn(sweep),
        tables=[*_best(sweep), *pairs_table(sweep.fresh, "Best against best"), _cells(sweep)],
        facts=[
            ("tuning seeds", ", ".join(map(str, table.seeds))),
            ("fresh seeds", ", ".join(map(str, table.fresh))),
            ("cells", f"{len(table.cells)}, by {table.search}"),
            ("runs", str(sum(map(len, every)))),
        ],
        files=[runs_table(sweep.runs), runs_table(sweep.fresh.runs, "fresh")],
        reload=reload,
    )


def summary(sweep: SweepConclusion) -> str:
    """Return the best options as a terminal shows them."""
    if not sweep.best:
        none = "Every cell failed on some seed: there is no best one."
        return "\n\n".join([none, *why_failed(sweep.runs)[:1]])
    lines = [
        f"{each.label}: {_mean(each)} on {each.seeds} fresh seeds "
        f"(chosen by {shown(each.chosen_by)} on {len(sweep.fresh.table.seeds)} others)"
        for each in sweep.best
    ]
    return "\n".join([*lines, *(pair.words for pair in sweep.fresh.pairs)])


def _mean(best: BestCell) -> str:
    return mean_words(best.mean, best.low, best.high, best.failed, best.seeds)


def _prose(fresh: Ranking) -> list[str]:
    table = fresh.table
    origin = "every combination" if table.search == "grid" else "combinations that Optuna proposed"
    return [
        f"{len(table.cells)} cells on {table.problem} ({origin}), each with {table.budget} "
        f"{table.unit} and {len(table.seeds)} seeds. The best cell of each method is the one "
        "with the best mean over these seeds; a cell with a failed run is excluded. The best of "
        f"many noisy means is biased, so it is judged again on {len(table.fresh)} fresh seeds.",
        judged_in_words(table),
    ]


def _best(sweep: SweepConclusion) -> list[Table]:
    if not sweep.best:
        return []
    rows = [
        [each.label, each.chosen_by, each.mean, interval_words(each.low, each.high), each.failed]
        for each in sweep.best
    ]
    columns = ["Best of its method", "Chosen by", "On fresh seeds", "95 % interval", "Failed"]
    return [Table("best", "The best, on fresh seeds", columns, rows)]


def _cells(sweep: SweepConclusion) -> Table:
    names = list(dict.fromkeys(name for cell in sweep.cells for name in cell.values))
    order = sorted(sweep.cells, key=lambda c: -c.mean if sweep.fresh.table.maximize else c.mean)
    rows = [[c.method, *(c.values[n] for n in names), c.mean, c.runs, c.failed] for c in order]
    return Table("cells", "Every cell", ["method", *names, "mean", "runs", "failed"], rows)


# --- figures -------------------------------------------------------------------------------------


def _drawn(sweep: SweepConclusion) -> Any:
    from gensmooth.lab.report.curves import Drawn
    from gensmooth.lab.report.figure import Figure, LegendItem, Panel

    cells = [cell for cell in sweep.cells if not math.isnan(cell.mean)]
    if not cells:
        return Drawn(())
    names = list(cells[0].values)
    groups: dict[tuple[Any, ...], list[CellScore]] = {}
    for cell in cells:
        rest = tuple(cell.values[name] for name in names[2:])
        if sweep.fresh.table.search != "grid":
            rest = ()
        groups.setdefault((cell.method, *rest), []).append(cell)
    shade = _shade([cell.mean for cell in cells], sweep.fresh.table.maximize)
    best = {each.label for each in sweep.best} or {
        c.label for c in chosen(cells, maximize=sweep.fresh.table.maximize)
    }
    styles = assign_styles(list(dict.fromkeys(cell.method for cell in sweep.cells)))
    draw = _draw_grid if sweep.fresh.table.search == "grid" else _draw_points
    panels = [
        Panel(
            ", ".join(
                [key[0], *(f"{n} = {v:g}" for n, v in zip(names[2:], key[1:], strict=False))]
            ),
            f"n = {len(sweep.fresh.table.seeds)}",
            "; ".join(f"{cell.label}: {shown(cell.mean)}" for cell in group),
            partial(
                draw,
                cells=group,
                names=names[:2],
                shade=shade,
                best=best,
                color=styles[key[0]].color,
            ),
        )
        for key, group in groups.items()
    ]
    figure = Figure(
        name="sweep",
        title=f"{sweep.fresh.table.problem}: mean final value",
        heading="Mean final value of every cell",
        caption="The stronger the colour, the better. A frame marks the best cell of a method, a "
        "cross a cell with a failed run. Means are over the tuning seeds.",
        columns=min(3, len(panels)),
        panels=panels,
        legend=[LegendItem("better", "area")],
        left=0.17,
    )
    return Drawn([figure])


def _shade(means: Sequence[float], maximize: bool) -> Any:
    """Return a function from a mean to the opacity of its cell."""
    finite = np.array([mean for mean in means if math.isfinite(mean)])
    log = len(finite) > 0 and bool((finite > 0).all()) and finite.max() > 8 * finite.min()
    scaled = np.log(finite) if log else finite
    low, high = (float(scaled.min()), float(scaled.max())) if len(finite) else (0.0, 1.0)

    def shade(mean: float) -> float:
        if not math.isfinite(mean):
            return 0.0
        place = ((math.log(mean) if log else mean) - low) / ((high - low) or 1.0)
        return 0.05 + 0.4 * (place if maximize else 1 - place)

    return shade


def _draw_grid(
    ax: Any,
    *,
    cells: Sequence[CellScore],
    names: Sequence[str],
    shade: Any,
    best: set[str],
    color: str,
) -> None:
    from matplotlib.patches import Rectangle

    across = names[-1]
    up = names[0] if len(names) > 1 else None
    xs = sorted({cell.values[across] for cell in cells})
    ys = sorted({cell.values[up] for cell in cells}) if up else [0.0]
    for cell in cells:
        x = xs.index(cell.values[across])
        y = ys.index(cell.values[up]) if up else 0
        look: dict[str, Any] = {"facecolor": color, "alpha": shade(cell.mean), "linewidth": 0}
        ax.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, **look))
        text = "×" if cell.failed else shown(cell.mean)
        size = 7.5 if len(xs) <= 6 else 5.5
        ax.text(x, y, text, ha="center", va="center", fontsize=size)
        if cell.label in best:
            frame: dict[str, Any] = {"fill": False, "edgecolor": MUTED, "linewidth": 1.6}
            ax.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, **frame))
    ax.set_xlim(-0.5, len(xs) - 0.5)
    ax.set_ylim(-0.5, len(ys) - 0.5)
    ax.set_xticks(range(len(xs)), [f"{v:g}" for v in xs])
    ax.set_yticks(range(len(ys)) if up else [], [f"{v:g}" for v in ys] if up else [])
    ax.grid(False)
    _name_axes(ax, across, up)


def _draw_points(
    ax: Any,
    *,
    cells: Sequence[CellScore],
    names: Sequence[str],
    shade: Any,
    best: set[str],
    color: str,
) -> None:
    across = names[-1]
    up = names[0] if len(names) > 1 else None
    for cell in cells:
        x, y = cell.values[across], cell.values[up] if up else cell.mean
        if not math.isfinite(y):
            continue
        mark = "x" if cell.failed else "o"
        opacity = 1.0 if cell.failed else max(0.1, 2.2 * shade(cell.mean))
        ax.plot([x], [y], mark, color=color, ms=6, mew=0.8, alpha=min(1.0, opacity))
        if cell.label in best:
            ax.plot([x], [y], "o", ms=10, mew=1.4, mfc="none", color=MUTED)
    heights = [cell.values[up] if up else cell.mean for cell in cells]
    heights = [height for height in heights if math.isfinite(height)]
    for axis, values in (("x", [c.values[across] for c in cells]), ("y", heights)):
        if values and min(values) > 0 and max(values) > 8 * min(values):
            getattr(ax, f"set_{axis}scale")("log")
    _name_axes(ax, across, up or "mean")


def _name_axes(ax: Any, across: str, up: str | None) -> None:
    from gensmooth.lab.report.axes import label_axes

    label_axes(ax, across, up or "")
