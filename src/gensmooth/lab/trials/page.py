"""The common parts of the pages of comparisons and sweeps: verdicts, text, tables, the page."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gensmooth.lab import report
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.report.tables import Table, vector
from gensmooth.lab.trials.ranking import Standing, Versus, pairs, shown, standings
from gensmooth.lab.trials.table import Runs, TrialTable

if TYPE_CHECKING:
    from gensmooth.lab.report.curves import Drawn

_LONGEST = 160  # the most characters of a reason in a table
_COLUMNS = (
    *("method", "seed", "final", "error", "start", "best", "evaluations", "steps", "status"),
    *("seconds", "seconds_per_evaluation", "message", "x"),
)


class Ranking(NamedTuple):
    """Cells of a table on the same seeds, ranked.

    Attributes:
        table: The table.
        runs: The runs of each cell, in the order of the seeds.
        standings: The cells, the best first.
        pairs: Every pair of them.
    """

    table: TrialTable
    runs: Runs
    standings: Sequence[Standing]
    pairs: Sequence[Versus]


def rank(table: TrialTable, runs: Runs) -> Ranking:
    """Rank cells that have been run on the same seeds."""
    values = {label: [final(run) for run in each] for label, each in runs.items()}
    if not any(values.values()):
        return Ranking(table, runs, [], [])
    maximize = table.maximize
    return Ranking(
        table, runs, standings(values, maximize=maximize), pairs(values, maximize=maximize)
    )


def final(record: RunRecord) -> float:
    """Return the final value with the user's sign; +∞ if the run failed."""
    return math.inf if record.diverged else float(record.more["value"])


def write_page(
    table: TrialTable,
    out: Path,
    *,
    title: str,
    answer: Sequence[tuple[str, str]],
    prose: Sequence[str],
    drawn: "Drawn",
    tables: Sequence[Table],
    facts: Sequence[tuple[str, str]],
    files: Sequence[Table],
    reload: float | None,
) -> Path:
    """Write the page and its tables; see :func:`gensmooth.lab.report.write_report`.

    Args:
        table: The table of trials.
        out: The folder.
        title: The title of the page.
        answer: The result in a few lines.
        prose: The paragraphs.
        drawn: The figures.
        tables: The tables that are shown.
        facts: What was run, beyond the problem and the budget.
        files: Tables that are written beside the page, and not shown.
        reload: Seconds after which a browser loads the page again, if it changes.
    """
    with report.naming_the_extra():
        from gensmooth.lab.report.page import Front, Section
    section = Section(
        name=table.kind,
        title=f"The {table.kind}",
        prose="\n\n".join(prose),
        drawn=drawn,
        tables=tables,
        facts=[("problem", table.problem), ("budget", f"{table.budget} {table.unit}"), *facts],
        files=files,
    )
    return report.write_report(
        [section],
        out,
        title=f"{table.problem}: {title}",
        lede="",
        command=table.command,
        front=Front(answer=answer),
        reload=reload,
    )


# --- words ---------------------------------------------------------------------------------------


def answer(ranking: Ranking, missing: str) -> list[tuple[str, str]]:
    """Return the result: every method's mean, the best x, and the best against the others.

    Args:
        ranking: The ranking.
        missing: The text if there is no result yet.
    """
    if not ranking.standings:
        return [("result", missing)]
    rows = [
        (each.label, mean_words(each.mean, each.low, each.high, each.failed, len(each.values)))
        for each in ranking.standings
    ]
    best = ranking.standings[0].label
    runs = [run for run in ranking.runs[best] if not run.diverged and "x" in run.more]
    if runs:
        best_run = min(runs, key=lambda run: run.final)
        source = f"found by {best} with seed {best_run.config['seed']}"
        rows.append(("best x", f"{vector(best_run.more['x'])}, {source}"))
    rows += [("verdict", pair.words) for pair in ranking.pairs if pair.a == best]
    return [*rows, ("numbers", "means of final values, with 95 % intervals in brackets")]


def mean_words(mean: float, low: float, high: float, failed: int = 0, runs: int = 0) -> str:
    """Return a mean with its interval, and how many runs failed.

    >>> mean_words(1.0, 0.5, 2.0), mean_words(1.0, 0.5, 2.0, 1, 3)
    ('1 [0.5, 2]', '1 [0.5, 2], 1 of 3 runs failed')
    """
    text = "no run ended" if math.isnan(mean) else shown(mean)
    if not math.isnan(mean) and math.isfinite(low) and math.isfinite(high):
        text += f" [{shown(low)}, {shown(high)}]"
    return text + (f", {failed} of {runs} runs failed" if failed else "")


def interval_words(low: float, high: float) -> str:
    """Format an interval for a table; empty if there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{shown(low)} … {shown(high)}"


def judged_in_words(table: TrialTable) -> str:
    """Describe how points are judged."""
    if table.unit == "episodes":
        return (
            f"Policies are judged {table.scored}: {table.values} episodes that no training has "
            "used."
        )
    if table.scored:
        return (
            f"The point that a method recommends at the end is judged {table.scored}, which no "
            "search uses."
        )
    return (
        f"The point that a method recommends at the end is judged by the mean of {table.values} "
        "fresh values of the objective, the same number for all methods, outside the budget."
    )


def why_failed(runs: Runs) -> list[str]:
    """Describe failed or diverged runs: for each method, how many, and the first reason."""
    lines: list[str] = []
    for label, cell_runs in runs.items():
        lost, total = [run for run in cell_runs if run.diverged], len(cell_runs)
        if lost:
            of = "all" if len(lost) == total else f"{len(lost)} of"
            many = "its one run" if total == 1 else f"{of} {total} runs"
            reason = _cut(str(lost[0].more.get("failure", "")))
            lines.append(f"{label}: {many} failed or diverged ({reason})")
    return lines


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}…"


# --- tables --------------------------------------------------------------------------------------


def pairs_table(ranking: Ranking, title: str) -> list[Table]:
    """Return a table of all pairs with their tests; none if there is no pair."""
    if not ranking.pairs:
        return []
    side = "above" if ranking.table.maximize else "below"
    ratio = ranking.pairs[0].ratio
    effect = "Ratio a / b" if ratio else "Difference a − b"
    rows = [
        [
            pair.a,
            pair.b,
            f"{pair.wins} of {pair.seeds}",
            pair.effect,
            interval_words(pair.low, pair.high),
            pair.p,
            f"a {side} b" if pair.decided else "undecided",
        ]
        for pair in ranking.pairs
    ]
    columns = ["a", "b", f"Seeds with a {side} b", effect, "95 % interval", "p", "Verdict"]
    tests = "paired t-tests of logarithms" if ratio else "paired t-tests"
    note = (
        f"Two-sided {tests} (of ranks where a run failed), p corrected by Holm's method over "
        f"{len(rows)} pair{'s' if len(rows) > 1 else ''}; decided at 5 %. Intervals are 95 % each."
    )
    return [Table("pairs", title, columns, rows, note)]


def failures_table(runs: Runs) -> list[Table]:
    """Return a table of the failed runs with the reasons; none if no run failed."""
    rows = [
        [label, r.config["seed"], r.more.get("evaluations", ""), _cut(r.more.get("failure", ""))]
        for label, each in runs.items()
        for r in each
        if r.diverged
    ]
    columns = ["Method", "Seed", "Evaluations", "What happened"]
    return [Table("failures", "Runs that failed or diverged", columns, rows)] if rows else []


def runs_table(runs: Runs, name: str = "runs") -> Table:
    """Return a table with the numbers of every run."""
    rows = [[label, *_row(run)] for label, each in runs.items() for run in each]
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
        " ".join(map(repr, more.get("x", ()))),
    ]


def _number(value: Any) -> float | str:
    return "" if value is None else float(value)
