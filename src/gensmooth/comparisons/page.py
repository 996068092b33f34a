"""The page of a comparison: convergence, final values, verdicts, and how to repeat it."""

# pyright: reportUnknownMemberType=false
# (Matplotlib leaves the types of keyword arguments open.)

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gensmooth import report
from gensmooth.comparisons.plan import Order
from gensmooth.comparisons.ranking import Standing, Versus, by_ratio, pairs, shown, standings
from gensmooth.comparisons.trial import POINTS
from gensmooth.report.style import MethodStyle, assign_styles
from gensmooth.report.tables import Table
from gensmooth.studies.spec import RunRecord

_WIDE = 8  # values that differ by a larger factor are drawn on a logarithmic axis
_COLUMNS = (
    *("method", "seed", "final", "error", "start", "best", "evaluations", "steps", "status"),
    *("seconds", "seconds_per_evaluation", "message"),
)


class Concluded(NamedTuple):
    """What came of a comparison.

    Attributes:
        asked: What was asked.
        records: The runs by label, in the order of the seeds.
        standings: The methods, the best first.
        pairs: Every pair of them.
    """

    asked: Order
    records: Mapping[str, Sequence[RunRecord]]
    standings: Sequence[Standing]
    pairs: Sequence[Versus]


def conclude(asked: Order, records: Sequence[RunRecord]) -> Concluded:
    """From runs to verdicts; seeds that some method has not run yet are left out."""
    by_cell = {cell["label"]: asked.spec(cell, 0).config["choice"] for cell in asked.cells}
    runs = {(r.config["choice"], r.config["seed"]): r for r in records}
    seeds = [s for s in asked.seeds if all((choice, s) in runs for choice in by_cell.values())]
    grouped = {label: [runs[choice, s] for s in seeds] for label, choice in by_cell.items()}
    values = {label: [final(r) for r in each] for label, each in grouped.items()}
    if not seeds:
        return Concluded(asked, grouped, [], [])
    how = {"maximize": asked.maximize}
    return Concluded(asked, grouped, standings(values, **how), pairs(values, **how))


def final(record: RunRecord) -> float:
    """The final value, with the user's sign; +∞ where the run failed."""
    return math.inf if record.diverged else float(record.more["value"])


def write_comparison(found: Concluded, out: Path, *, live: float | None = None) -> Path:
    """Write the page and its tables; see :func:`gensmooth.report.write_report`."""
    with report.named_extra():
        from gensmooth.report.page import Section
    asked = found.asked
    section = Section(
        name="comparison",
        title="The comparison",
        prose=_prose(found),
        drawn=_drawn(found),
        tables=[*_finals(found), *_verdicts(found), *_failures(found)],
        facts=_facts(found),
        files=[runs_table(found.records)],
    )
    return report.write_report(
        [section],
        out,
        title=f"{asked.problem}: {_words(list(found.records))}",
        lede=_lede(found),
        command=asked.command,
        reload=live,
    )


def summary(found: Concluded) -> str:
    """What a terminal shows."""
    if not found.standings:
        return "No seed has been run by every method yet."
    width = max(len(each.label) for each in found.standings)
    lines = [
        f"{each.label:{width}}  {_mean(each)}{_failed(each, found)}" for each in found.standings
    ]
    verdicts = [pair.words for pair in _best(found)]
    paragraphs = [lines, why_failed(found.records), verdicts]
    return "\n\n".join("\n".join(each) for each in paragraphs if each)


def runs_table(records: Mapping[str, Sequence[RunRecord]], name: str = "runs") -> Table:
    """The numbers of every run."""
    rows = [[label, *_row(r)] for label, each in records.items() for r in each]
    return Table(name, "Every run", list(_COLUMNS), rows)


def _row(record: RunRecord) -> list[Any]:
    more = record.more
    return [
        record.config["seed"],
        final(record),
        _number(more.get("error")),
        _number(more.get("start")),
        _number(more.get("best")),
        more.get("evaluations", ""),
        more.get("steps", ""),
        "failed" if record.diverged else more.get("status", ""),
        round(record.seconds, 4),
        _number(more.get("seconds_per_evaluation")),
        more.get("failure") or more.get("message", ""),
    ]


def _number(value: Any) -> float | str:
    return "" if value is None else float(value)


# --- words ---------------------------------------------------------------------------------------


def _lede(found: Concluded) -> str:
    verdicts = _best(found)
    if not found.standings:
        return "No seed has been run by every method yet."
    if not verdicts:
        return f"{found.standings[0].label} alone: {_mean(found.standings[0])}."
    return verdicts[0].words


def _best(found: Concluded) -> list[Versus]:
    """The method that ranks first against each of the others."""
    return [pair for pair in found.pairs if pair.a == found.standings[0].label]


def judged_in_words(asked: Order) -> str:
    """How points are judged, in words."""
    if asked.unit == "episodes":
        return (
            f"Policies are judged {asked.scored}: {asked.values} of them, which no training has "
            "seen."
        )
    if asked.scored:
        return (
            f"The point that a method recommends at the end is judged {asked.scored}, which no "
            "search sees."
        )
    return (
        f"The point that a method recommends at the end is judged by the mean of {asked.values} "
        "fresh values of the objective there, the same number for all, outside of the budget."
    )


def _prose(found: Concluded) -> str:
    asked = found.asked
    done = len(next(iter(found.records.values()), ()))
    missing = len(asked.seeds) - done
    said = [
        f"{how_many(len(found.records), 'method')} on {asked.problem}, each with {asked.budget} "
        f"{asked.unit} and {how_many(done, 'seed')}. A seed is the same start and the same samples "
        "for every method, so methods are compared seed by seed.",
        judged_in_words(asked),
        *(pair.words for pair in _best(found)),
    ]
    if missing:
        said.insert(1, f"{missing} of {len(asked.seeds)} seeds are not complete, and left out.")
    return "\n\n".join(said)


def how_many(count: int, noun: str) -> str:
    """A number of things, in words.

    >>> how_many(1, "seed"), how_many(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _mean(each: Standing) -> str:
    if math.isnan(each.mean):
        return "no run ended"
    text = shown(each.mean)
    if math.isfinite(each.low) and math.isfinite(each.high):
        text += f" [{shown(each.low)}, {shown(each.high)}]"
    return text


def _ends(each: Standing | Versus) -> str:
    """An interval in a table; empty where there is none."""
    if not (math.isfinite(each.low) and math.isfinite(each.high)):
        return ""
    return f"{shown(each.low)} … {shown(each.high)}"


def _failed(each: Standing, found: Concluded) -> str:
    runs = len(found.records[each.label])
    return f", {each.failed} of {runs} runs failed" if each.failed else ""


def _words(names: Sequence[str]) -> str:
    if len(names) > 6:
        return f"{len(names)} methods"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _facts(found: Concluded) -> list[tuple[str, str]]:
    asked, runs = found.asked, [r for each in found.records.values() for r in each]
    rows = [
        ("problem", asked.problem),
        ("budget", f"{asked.budget} {asked.unit}"),
        ("seeds", ", ".join(map(str, asked.seeds))),
        ("values that judge", asked.scored or f"{asked.values} fresh ones"),
        ("runs", str(len(runs))),
        ("time of the runs", f"{sum(r.seconds for r in runs):.1f} s in all"),
    ]
    how: Mapping[str, Any] = asked.config["problem"].get("how", {})
    rows += [(name, str(value)) for name, value in how.items()]
    rows += [
        (cell["label"], ", ".join(f"{k} = {v}" for k, v in cell["config"]["options"].items()))
        for cell in asked.cells
        if cell["config"]["options"]
    ]
    return rows


# --- tables --------------------------------------------------------------------------------------


def _finals(found: Concluded) -> list[Table]:
    if not found.standings:
        return []
    ratio = by_ratio({each.label: each.values for each in found.standings})
    rows: list[list[Any]] = []
    for each in found.standings:
        runs = found.records[each.label]
        times = [t for r in runs if (t := r.more.get("seconds_per_evaluation"))]
        finite = [value for value in each.values if math.isfinite(value)]
        rows.append(
            [
                each.label,
                round(each.rank, 2),
                each.mean,
                _ends(each),
                min(finite, default=math.nan),
                max(finite, default=math.nan),
                each.failed,
                1e6 * float(np.median(times)) if times else "",
            ]
        )
    kind = "Geometric mean" if ratio and not found.asked.maximize else "Mean"
    columns = ["Method", "Mean rank", kind, "95 % interval", "Smallest", "Largest", "Failed"]
    each = "episode" if found.asked.unit == "episodes" else "evaluation"
    return [
        Table(
            "final",
            "Final values",
            [*columns, f"µs per {each}"],
            rows,
            f"Means, intervals and extremes are over the seeds that have a value; ranks count a "
            f"failed run as the worst. Time per {each} includes the objective's own; it is the "
            "median over seeds, without the first step, which compiles.",
        )
    ]


def _verdicts(found: Concluded) -> list[Table]:
    if not found.pairs:
        return []
    side = "above" if found.asked.maximize else "below"
    effect = "Ratio a / b" if found.pairs[0].ratio else "Difference a − b"
    rows = [
        [
            pair.a,
            pair.b,
            f"{pair.wins} of {pair.seeds}",
            pair.effect,
            _ends(pair),
            pair.p,
            f"a {side} b" if pair.decided else "undecided",
        ]
        for pair in found.pairs
    ]
    columns = ["a", "b", f"Seeds with a {side} b", effect, "95 % interval", "p", "Verdict"]
    how = "paired t-tests of logarithms" if found.pairs[0].ratio else "paired t-tests"
    return [
        Table(
            "pairs",
            "Every pair",
            columns,
            rows,
            f"Two-sided {how} (of ranks where a run failed), p corrected by Holm's method over "
            f"{len(rows)} pairs; decided at 5 %. Intervals are 95 % each.",
        )
    ]


def _failures(found: Concluded) -> list[Table]:
    rows = [
        [label, r.config["seed"], r.more.get("evaluations", ""), _cut(r.more.get("failure", ""))]
        for label, each in found.records.items()
        for r in each
        if r.diverged
    ]
    if not rows:
        return []
    columns = ["Method", "Seed", "Evaluations", "What happened"]
    return [Table("failures", "Runs that failed or diverged", columns, rows)]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:157]}…"


# --- figures -------------------------------------------------------------------------------------


def _drawn(found: Concluded) -> Any:
    from gensmooth.report.curves import (
        Curve,
        Drawn,
        Floats,
        View,
        draw_curves,
        quartiles,
    )
    from gensmooth.report.figure import Figure, LegendItem, Panel, method_item

    if not found.standings:
        return Drawn(())
    asked, styles = found.asked, assign_styles(list(found.records))
    series, label, caption = _series(found)
    curves: list[Curve] = []
    for name, each in found.records.items():
        rows = [_padded(r, series) for r in each]
        failed = sum(r.diverged for r in each)
        bands = {series: quartiles(rows)} if rows else {}
        curves.append(Curve((), name, bands, 1, 1, len(each), failed))
    lines = [c.bands[series] for c in curves]
    low, high, log = _range([end for b in lines for end in (b.mean, *(b.edges or ()))])
    part = asked.budget / POINTS

    def spent(_: Curve, rounds: Floats) -> Floats:
        return rounds * part

    view = View(
        series,
        (),
        spent,
        asked.unit,
        label,
        "linear",
        "log" if log else "linear",
        (low, high),
        styles,
    )
    legend = [method_item(c.method, style=styles[c.method], title=c.method) for c in curves]
    ends = "; ".join(f"{c.method} {shown(float(c.bands[series].mean[-1]))}" for c in curves)
    number = f"n = {curves[0].runs}"
    figure = Figure(
        name="comparison",
        title=f"{asked.problem}, {asked.budget} {asked.unit}",
        heading="Convergence and final values",
        caption=f"Left: {caption[0].lower()}{caption[1:]} Lines are medians over seeds ({number}), "
        "bands go from quartile to quartile; a failed run counts as infinitely bad, so that a line "
        "ends where half of the runs have failed. Right: a dot is a seed, the bar the 95 % "
        f"interval of the {'geometric ' if _is_ratio(found) else ''}mean; a cross at the edge is a "
        "run that failed.",
        columns=2,
        panels=[
            Panel(
                "Convergence",
                number,
                f"{label} against {asked.unit}. At the end: {ends}.",
                partial(draw_curves, found=curves, view=view),
            ),
            Panel(
                "Final values",
                number,
                "Final values: " + "; ".join(f"{s.label} {_mean(s)}" for s in found.standings),
                partial(_draw_finals, found=found, styles=styles),
            ),
        ],
        legend=[*legend, LegendItem("quartiles", "area")],
        remarks=why_failed(found.records),
    )
    return Drawn([figure], curves, [])


def _series(found: Concluded) -> tuple[str, str, str]:
    """Which series is drawn, what its axis is called, and what it is."""
    runs = [r for each in found.records.values() for r in each]
    if any("score" in r.series for r in runs):
        words = f"The curves are judged {found.asked.scored}, at the point recommended by then."
        return "score", "score", words
    if found.asked.unit == "episodes":
        words = "The curves are the mean returns of the training's own episodes, without bonus."
        return "value", "training return", words
    if all(r.more.get("exact") for r in runs if not r.diverged):
        words = "Values are exact; the curves are the best value evaluated so far."
        return "best", "best value so far", words
    words = "Values are noisy; the curves are the means of the values that each step saw."
    return "value", "value", words


def _padded(record: RunRecord, series: str) -> list[float]:
    """A series; a run that failed is infinitely bad."""
    found = record.series.get(series)
    if record.diverged or not found:
        return [math.inf] * POINTS
    return list(found)


def _range(lines: Sequence[Any]) -> tuple[float, float, bool]:
    """The range of an axis, and whether it is logarithmic."""
    finite = np.concatenate([line[np.isfinite(line)] for line in lines])
    if not len(finite):
        return 0.1, 1.0, False
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and high > _WIDE * low:
        pad = (high / low) ** 0.05
        return low / pad, high * pad, True
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad, False


def _is_ratio(found: Concluded) -> bool:
    return bool(found.pairs) and found.pairs[0].ratio


def why_failed(records: Mapping[str, Sequence[RunRecord]]) -> list[str]:
    """Of each method with runs that failed or diverged, how many, and the first reason."""
    lines: list[str] = []
    for label, each in records.items():
        lost = [r for r in each if r.diverged]
        if lost:
            of = "all" if len(lost) == len(each) else f"{len(lost)} of"
            many = "its one run" if len(each) == 1 else f"{of} {len(each)} runs"
            why = _cut(str(lost[0].more.get("failure", "")))
            lines.append(f"{label}: {many} failed or diverged ({why})")
    return lines


def _draw_finals(ax: Any, *, found: Concluded, styles: Mapping[str, MethodStyle]) -> None:
    from gensmooth.report.curves import ticks

    order = list(reversed(found.standings))
    values = [np.array([v for v in each.values if math.isfinite(v)]) for each in order]
    low, high, log = _range([*values, np.array([])])
    ax.set_xscale("log" if log else "linear")
    ax.set_xlim(low, high)
    for place, (each, finite) in enumerate(zip(order, values, strict=True)):
        color = styles[each.label].color
        shift = np.linspace(-0.16, 0.16, len(finite)) if len(finite) > 1 else np.zeros(len(finite))
        ax.plot(finite, place + shift, "o", color=color, ms=3.4, mew=0, alpha=0.55, zorder=3)
        ends = np.clip([each.low, each.high], low, high)
        if len(finite) > 1:
            ax.plot(ends, [place, place], color=color, lw=2.4, zorder=4, solid_capstyle="butt")
        if len(finite):
            ax.plot([each.mean], [place], "|", color=color, ms=11, mew=1.6, zorder=5)
        if each.failed:
            right = 1 - 0.02 * np.arange(each.failed)[:12]
            ax.plot(
                right,
                [place] * len(right),
                "x",
                color=color,
                ms=4.5,
                mew=1.2,
                transform=ax.get_yaxis_transform(),
                clip_on=False,
                zorder=5,
            )
        ax.text(0.0, place + 0.3, f" {each.label}", transform=ax.get_yaxis_transform(), color=color)
    ax.set_ylim(-0.5, len(order) - 0.3)
    ax.set_yticks([])
    ticks(ax, "x", "log" if log else "linear", (low, high))
    ax.set_xlabel("final value", loc="right", labelpad=2)
