"""The page of a sweep: a heat map of its cells, and the best of them on fresh seeds."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gensmooth import report
from gensmooth.comparisons.page import final, judged_in_words, runs_table, why_failed
from gensmooth.comparisons.plan import Order, store_of
from gensmooth.comparisons.ranking import Versus, pairs, shown, standings
from gensmooth.report.style import MUTED
from gensmooth.report.tables import Table
from gensmooth.studies.spec import RunRecord

_BLUE = "#0072b2"  # the colour of a good cell, by how opaque it is


class CellScore(NamedTuple):
    """A cell, on the seeds that choose.

    Attributes:
        label: The method with its options.
        method: The method.
        values: Its options.
        mean: The mean final value; infinite if a run failed, NaN if none has been made.
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
        chosen_by: The mean by which it was chosen, over the seeds that choose: too good.
        mean: The mean (geometric, if all values are above zero) on fresh seeds.
        low: The lower end of its 95 % interval, and
        high: the upper end.
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


class Swept(NamedTuple):
    """What came of a sweep."""

    order: Order
    records: Mapping[str, Sequence[RunRecord]]
    fresh: Mapping[str, Sequence[RunRecord]]
    cells: Sequence[CellScore]
    best: Sequence[BestCell]
    pairs: Sequence[Versus]


def scores(order: Order, records: Sequence[RunRecord]) -> list[CellScore]:
    """The cells with their means, as :func:`gensmooth.studies.grid.choose` takes them."""
    found: list[CellScore] = []
    for cell, runs in _by_cell(order, records, order.seeds).items():
        told = next(each for each in order.cells if each["label"] == cell)
        finals = [final(run) for run in runs]
        mean = sum(finals) / len(finals) if finals else math.nan
        failed = sum(run.diverged for run in runs)
        if failed:
            mean = -math.inf if order.maximize else math.inf
        found.append(CellScore(cell, told["method"], told["values"], mean, len(runs), failed))
    return found


def chosen(found: Sequence[CellScore], *, maximize: bool = False) -> list[CellScore]:
    """The best cell of each method; the first of equal ones."""
    best: dict[str, CellScore] = {}
    for cell in found:
        if math.isnan(cell.mean):
            continue
        now = best.get(cell.method)
        if now is None or (cell.mean > now.mean if maximize else cell.mean < now.mean):
            best[cell.method] = cell
    return list(best.values())


def conclude(order: Order, records: Sequence[RunRecord], fresh: Sequence[RunRecord]) -> Swept:
    """From runs to the best."""
    cells = scores(order, records)
    grouped = _by_cell(order, fresh, order.fresh)
    again = {label: runs for label, runs in grouped.items() if len(runs) == len(order.fresh)}
    values = {label: [final(run) for run in runs] for label, runs in again.items()}
    best: list[BestCell] = []
    verdicts: list[Versus] = []
    if values:
        by_label = {cell.label: cell for cell in cells}
        for each in standings(values, maximize=order.maximize):
            cell = by_label[each.label]
            best.append(
                BestCell(
                    each.label,
                    cell.method,
                    dict(cell.values),
                    cell.mean,
                    each.mean,
                    each.low,
                    each.high,
                    len(each.values),
                    each.failed,
                )
            )
        verdicts = pairs(values, maximize=order.maximize)
    return Swept(order, _by_cell(order, records, order.seeds), again, cells, best, verdicts)


def write_found(
    where: Path, out: Path, order: Order, records: Sequence[RunRecord], *, reload: float | None
) -> Path:
    """The page of a sweep from the runs that are there."""
    best = chosen(scores(order, records), maximize=order.maximize)
    labels = [cell.label for cell in best if math.isfinite(cell.mean)]
    told = [cell for cell in order.cells if cell["label"] in labels]
    specs = [order.spec(cell, seed) for cell in told for seed in order.fresh]
    fresh = store_of(where).load(specs).records
    return write_sweep(conclude(order, records, list(fresh.values())), out, reload=reload)


def write_sweep(found: Swept, out: Path, *, reload: float | None = None) -> Path:
    """Write the page and its tables."""
    with report.named_extra():
        from gensmooth.report.page import Section
    order = found.order
    every = {**found.records}
    section = Section(
        name="sweep",
        title="The sweep",
        prose=_prose(found),
        drawn=_drawn(found),
        tables=[*_best(found), *_verdicts(found), _cells(found)],
        facts=[
            ("problem", order.problem),
            ("budget", f"{order.budget} {order.unit}"),
            ("seeds that choose", ", ".join(map(str, order.seeds))),
            ("fresh seeds", ", ".join(map(str, order.fresh))),
            ("cells", f"{len(order.cells)}, by {order.search}"),
            ("runs", str(sum(map(len, [*every.values(), *found.fresh.values()])))),
        ],
        files=[runs_table(every), runs_table(found.fresh, "fresh")],
    )
    methods = dict.fromkeys(cell.method for cell in found.cells)
    return report.write_report(
        [section],
        out,
        title=f"{order.problem}: options of {', '.join(methods)}",
        lede=found.best[0].label + f" is the best: {_mean(found.best[0])} on fresh seeds."
        if found.best
        else "No cell has been run on every seed yet, or every one failed.",
        command=order.command,
        reload=reload,
    )


def summary(found: Swept) -> str:
    """What a terminal shows."""
    if not found.best:
        none = "Every cell failed on some seed: there is no best one."
        return "\n\n".join([none, *why_failed(found.records)[:1]])
    lines = [
        f"{each.label}: {_mean(each)} on {each.seeds} fresh seeds "
        f"(chosen by {shown(each.chosen_by)} on {len(found.order.seeds)} others)"
        for each in found.best
    ]
    return "\n".join([*lines, *(pair.words for pair in found.pairs)])


def _by_cell(
    order: Order, records: Sequence[RunRecord], seeds: Sequence[int]
) -> dict[str, list[RunRecord]]:
    runs = {(r.config["choice"], r.config["seed"]): r for r in records}
    found: dict[str, list[RunRecord]] = {}
    for cell in order.cells:
        name = order.spec(cell, 0).config["choice"]
        found[cell["label"]] = [runs[name, seed] for seed in seeds if (name, seed) in runs]
    return found


def _mean(best: BestCell) -> str:
    if math.isnan(best.mean):
        return "no run ended"
    text = shown(best.mean)
    if math.isfinite(best.low) and math.isfinite(best.high):
        text += f" [{shown(best.low)}, {shown(best.high)}]"
    return text + (f", {best.failed} of {best.seeds} runs failed" if best.failed else "")


def _prose(found: Swept) -> str:
    order = found.order
    how = "every combination" if order.search == "grid" else "combinations that Optuna proposed"
    return "\n\n".join(
        [
            f"{len(order.cells)} cells on {order.problem} ({how}), each with {order.budget} "
            f"{order.unit} and {len(order.seeds)} seeds. The best cell of each method is the one "
            "with the best mean over these seeds; a cell in which a run failed is out. The best of "
            "many noisy means is too good to be true, so it is judged again on "
            f"{len(order.fresh)} fresh seeds.",
            judged_in_words(order),
            *(pair.words for pair in found.pairs),
        ]
    )


def _best(found: Swept) -> list[Table]:
    if not found.best:
        return []
    rows = [
        [
            each.label,
            each.chosen_by,
            each.mean,
            f"{shown(each.low)} … {shown(each.high)}" if math.isfinite(each.high) else "",
            each.failed,
        ]
        for each in found.best
    ]
    columns = ["Best of its method", "Chosen by", "On fresh seeds", "95 % interval", "Failed"]
    return [Table("best", "The best, on fresh seeds", columns, rows)]


def _verdicts(found: Swept) -> list[Table]:
    if not found.pairs:
        return []
    effect = "Ratio a / b" if found.pairs[0].ratio else "Difference a − b"
    rows = [
        [p.a, p.b, f"{p.wins} of {p.seeds}", p.effect, p.p, "decided" if p.decided else "undecided"]
        for p in found.pairs
    ]
    return [Table("pairs", "Best against best", ["a", "b", "a wins", effect, "p", ""], rows)]


def _cells(found: Swept) -> Table:
    names = list(dict.fromkeys(name for cell in found.cells for name in cell.values))
    order = sorted(found.cells, key=lambda c: -c.mean if found.order.maximize else c.mean)
    rows = [[c.method, *(c.values[n] for n in names), c.mean, c.runs, c.failed] for c in order]
    return Table("cells", "Every cell", ["method", *names, "mean", "runs", "failed"], rows)


# --- figures -------------------------------------------------------------------------------------


def _drawn(found: Swept) -> Any:
    from gensmooth.report.curves import Drawn
    from gensmooth.report.figure import Figure, LegendItem, Panel

    cells = [cell for cell in found.cells if not math.isnan(cell.mean)]
    if not cells:
        return Drawn(())
    names = list(cells[0].values)
    groups: dict[tuple[Any, ...], list[CellScore]] = {}
    for cell in cells:
        rest = tuple(cell.values[name] for name in names[2:])
        if found.order.search != "grid":
            rest = ()
        groups.setdefault((cell.method, *rest), []).append(cell)
    shade = _shade([cell.mean for cell in cells], found.order.maximize)
    best = {each.label for each in found.best} or {
        c.label for c in chosen(cells, maximize=found.order.maximize)
    }
    draw = _draw_grid if found.order.search == "grid" else _draw_points
    panels = [
        Panel(
            ", ".join(
                [key[0], *(f"{n} = {v:g}" for n, v in zip(names[2:], key[1:], strict=False))]
            ),
            f"n = {len(found.order.seeds)}",
            "; ".join(f"{cell.label}: {shown(cell.mean)}" for cell in group),
            partial(draw, cells=group, names=names[:2], shade=shade, best=best),
        )
        for key, group in groups.items()
    ]
    figure = Figure(
        name="sweep",
        title=f"{found.order.problem}: mean final value",
        heading="Mean final value of every cell",
        caption="The darker, the better; the frame is the best cell of its method, a cross a cell "
        "in which a run failed. Means are over the seeds that choose.",
        columns=min(3, len(panels)),
        panels=panels,
        legend=[LegendItem("better", "area", _BLUE)],
        left=0.17,
    )
    return Drawn([figure])


def _shade(means: Sequence[float], maximize: bool) -> Any:
    """From a mean to how opaque its cell is."""
    finite = np.array([mean for mean in means if math.isfinite(mean)])
    log = len(finite) > 0 and bool((finite > 0).all()) and finite.max() > 8 * finite.min()
    scaled = np.log(finite) if log else finite
    low, high = (float(scaled.min()), float(scaled.max())) if len(finite) else (0.0, 1.0)

    def shade(mean: float) -> float:
        if not math.isfinite(mean):
            return 0.0
        place = ((math.log(mean) if log else mean) - low) / ((high - low) or 1.0)
        return 0.06 + 0.6 * (place if maximize else 1 - place)

    return shade


def _draw_grid(
    ax: Any, *, cells: Sequence[CellScore], names: Sequence[str], shade: Any, best: set[str]
) -> None:
    from matplotlib.patches import Rectangle

    across = names[-1]
    up = names[0] if len(names) > 1 else None
    xs = sorted({cell.values[across] for cell in cells})
    ys = sorted({cell.values[up] for cell in cells}) if up else [0.0]
    for cell in cells:
        x = xs.index(cell.values[across])
        y = ys.index(cell.values[up]) if up else 0
        look: dict[str, Any] = {"facecolor": _BLUE, "alpha": shade(cell.mean), "linewidth": 0}
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
    ax: Any, *, cells: Sequence[CellScore], names: Sequence[str], shade: Any, best: set[str]
) -> None:
    across = names[-1]
    up = names[0] if len(names) > 1 else None
    for cell in cells:
        x, y = cell.values[across], cell.values[up] if up else cell.mean
        if not math.isfinite(y):
            continue
        mark = "x" if cell.failed else "o"
        opacity = 1.0 if cell.failed else max(0.1, 1.5 * shade(cell.mean))
        ax.plot([x], [y], mark, color=_BLUE, ms=6, mew=0.8, alpha=min(1.0, opacity))
        if cell.label in best:
            ax.plot([x], [y], "o", ms=10, mew=1.4, mfc="none", color=MUTED)
    for axis, values in (("x", [c.values[across] for c in cells]), ("y", _ups(cells, up))):
        if values and min(values) > 0 and max(values) > 8 * min(values):
            getattr(ax, f"set_{axis}scale")("log")
    _name_axes(ax, across, up or "mean")


def _ups(cells: Sequence[CellScore], up: str | None) -> list[float]:
    found = [cell.values[up] if up else cell.mean for cell in cells]
    return [value for value in found if math.isfinite(value)]


def _name_axes(ax: Any, across: str, up: str | None) -> None:
    from gensmooth.report.curves import label_axes

    label_axes(ax, across, up or "")
