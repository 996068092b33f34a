"""Writes the page of studies, and judges their claims again from the tables of a page."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from gensmooth import naming
from gensmooth.lab import report
from gensmooth.lab.experiments.registry import STUDIES, find_study
from gensmooth.lab.experiments.spec import Claim, Outcome
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.controller.study import answer
from gensmooth.lab.paper.published import published
from gensmooth.lab.report.tables import Cell, ClaimRow, Table
from gensmooth.runs.files import read_bytes


def write_report(outcomes: Sequence[Outcome], out: Path, *, command: str) -> Path:
    """Write ``report.html``, and its figures and tables as files, into a folder.

    Args:
        outcomes: The studies, in the order of the page.
        out: The folder; it is created if missing, and files of an earlier report are replaced.
        command: The command that repeats it.

    Returns:
        The path of the page.

    Raises:
        ImportError: If Matplotlib or Jinja2 is missing.
    """
    with report.naming_the_extra():
        from gensmooth.lab.report.curves import Drawn
        from gensmooth.lab.report.page import Front, Section
    sections = [
        Section(
            name=outcome.study,
            title=outcome.title,
            prose=outcome.prose,
            drawn=_figures(outcome) if outcome.draw and outcome.records else Drawn(()),
            tables=outcome.tables,
            claims=outcome.claims,
            cells=outcome.cells,
            searched=getattr(outcome.options, "hyperparameters", None) != "paper",
            facts=provenance(outcome),
            files=[*_runs(outcome), *outcome.files],
            smaller=outcome.smaller,
            published=published(outcome.study),
        )
        for outcome in outcomes
    ]
    message = _message(outcomes)
    title, lede, front = paper.TITLE, paper.LEDE, Front(message, paper.SYMBOLS)
    if not any(outcome.study in STUDIES for outcome in outcomes):  # only custom studies
        title, lede, front = ", ".join(outcome.title for outcome in outcomes), "", Front()
    for outcome in outcomes:
        if outcome.study == "controller" and outcome.records:
            title, lede = paper.DRONE, f"{paper.LEDE} {message}"
            front = Front(paper.WHAT, paper.SYMBOLS, answer(outcome.records))
    return report.write_report(sections, out, title=title, lede=lede, command=command, front=front)


def _figures(outcome: Outcome) -> Any:
    draw: Any = naming.find(outcome.draw) if isinstance(outcome.draw, str) else outcome.draw
    return draw(outcome)


def _message(outcomes: Sequence[Outcome]) -> str:
    """Return the main finding if the claim that it rests on holds, otherwise nothing."""
    for outcome in outcomes:
        full_size = published(outcome.study) if outcome.smaller else None
        for row in full_size.claims if full_size else outcome.claims:
            if row.id == paper.MESSAGE[0] and row.verdict == "holds":
                return paper.MESSAGE[1]
    return ""


def _runs(outcome: Outcome) -> list[Table]:
    return [outcome.scores.table(outcome.study)] if outcome.scores.rows else []


def judge_again(name: str, folder: Path, claims: Sequence[Claim] = ()) -> list[ClaimRow]:
    """Return the verdicts on a study, computed again from the tables of its report.

    Args:
        name: The study.
        folder: Where ``runs-STUDY.csv`` is, and ``hyperparameters-STUDY.csv`` if there is one.
        claims: Additional claims.
    """
    study = find_study(name)
    path = folder / f"runs-{study.name}.csv"
    if not path.exists():
        raise ValueError(f"There is no {path}: --judge takes the `tables` folder of a report.")
    scores = Scores.read(_rows(path))
    cells = [_cell(row) for row in _rows(folder / f"hyperparameters-{study.name}.csv")]
    added = [claim.judge(scores, cells) for claim in claims if claim.study == study.name]
    return [*study.judge(scores, cells), *added]


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    try:
        text = read_bytes(path).decode()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _cell(row: Mapping[str, str]) -> Cell:
    def pair(spacing: str, rate: str) -> tuple[float, float] | None:
        return (float(row[spacing]), float(row[rate])) if row[spacing] else None

    return Cell(
        row["setting"],
        row["method"],
        pair("spacing", "learning_rate"),
        pair("paper_spacing", "paper_learning_rate"),
        float(row["score"]),
    )


def provenance(outcome: Outcome) -> list[tuple[str, str]]:
    """Describe how a study was run: options, seeds and times."""
    options = asdict(outcome.options)
    rows = [(name, _words(value)) for name, value in options.items() if value is not None]
    records = outcome.records
    rows.append(("reporting runs", str(len(records))))
    seeds = sorted({record.config["seed"] for record in records if "seed" in record.config})
    if seeds:
        rows.append(("reporting seeds", f"{len(seeds)}: {_ranges(seeds)}"))
    if diverged := sum(record.diverged for record in records):
        rows.append(("diverged", f"{diverged} of {len(records)}"))
    if seconds := sum(record.seconds for record in records):
        rows.append(("time of the runs", f"{seconds:.1f} s in all"))
    if common := _common([record.config for record in records]):
        rows.append(("the same in all runs", ", ".join(f"{k} = {v}" for k, v in common.items())))
    # Facts that the study states replace those that are derived here.
    stated = {str(name): _words(value) for name, value in outcome.facts.items()}
    return list((dict(rows) | stated).items())


def _common(configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    if len(configs) < 2:
        return {}
    return {
        key: _words(value)
        for key, value in configs[0].items()
        if all(key in config and config[key] == value for config in configs)
    }


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return ", ".join(f"{k}: {_words(v)}" for k, v in items)
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        nested = [f"({_words(p)})" if isinstance(p, (list, tuple)) else _words(p) for p in parts]
        return ", ".join(nested) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ranges(numbers: Sequence[Any]) -> str:
    """Format whole numbers, with consecutive ones joined.

    >>> _ranges([0, 1, 2, 3, 7, 9, 10])
    '0–3, 7, 9, 10'
    """
    parts: list[str] = []
    run: list[Any] = []
    for number in [*numbers, None]:
        if run and (number is None or number != run[-1] + 1):
            parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(n) for n in run]
            run = []
        run.append(number)
    return ", ".join(parts)
