"""The page: one HTML file with everything inside, and the figures and tables beside it as files."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gensmooth.report.figures import draw_study
from gensmooth.report.provenance import Facts, provenance, versions
from gensmooth.report.render import panel_svg, swatch_svg, write_sheet
from gensmooth.report.sheets import Drawn, PaperNumbers, Sheet
from gensmooth.report.style import css_variables
from gensmooth.report.svg import inline
from gensmooth.report.tables import (
    Choices,
    choices,
    claims_table,
    curves_table,
    hyperparameters_table,
    numeric,
    shown,
    write_csv,
)
from gensmooth.studies.spec import Outcome, Table, Verdict

_READABLE = 240  # characters of evidence in the table of claims

# What a reader sees at the top, in this order.
_COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("undecided", "undecided"),
    "not run": ("not run", "not run"),
}


class FigureView(NamedTuple):
    """A sheet as the template takes it: its legend and its panels are SVG."""

    sheet: Sheet
    legend: Sequence[tuple[Markup, str]]
    panels: Sequence[tuple[str, str, Markup]]


class StudyView(NamedTuple):
    """A study as the template takes it."""

    outcome: Outcome
    slug: str
    paragraphs: Sequence[str]
    figures: Sequence[FigureView]
    choices: Choices | None
    facts: Facts


def write_page(
    outcomes: Sequence[Outcome],
    out: Path,
    *,
    command: str,
    paper_times: Mapping[int, Mapping[str, float]],
) -> Path:
    """Write the report; see :func:`gensmooth.report.write_report`."""
    figures, tables = out / "figures", out / "tables"
    for folder in (figures, tables):
        folder.mkdir(parents=True, exist_ok=True)
    paper = PaperNumbers(paper_times)
    files: list[Path] = []
    to_write: list[Table] = [claims_table(outcomes)]
    studies: list[StudyView] = []
    for outcome in outcomes:
        drawn = draw_study(outcome, paper)
        files += [p for sheet in drawn.sheets if sheet.panels for p in write_sheet(sheet, figures)]
        to_write += _tables(outcome, drawn)
        studies.append(_study(outcome, drawn))
    names = Counter[str]()
    for table in to_write:
        names[table.name] += 1
        count = names[table.name]
        name = _slug(table.name) + (f"-{count}" if count > 1 else "")
        files.append(write_csv(tables / f"{name}.csv", table.columns, table.rows))
    page = _render(
        studies=studies,
        summary=_summary(outcomes),
        claims=[outcome for outcome in outcomes if outcome.claims],
        command=command,
        versions=versions(),
        files=[path.relative_to(out).as_posix() for path in files],
        variables=css_variables().values(),
    )
    path = out / "report.html"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(page, encoding="utf-8")
    os.replace(temporary, path)
    return path


def _tables(outcome: Outcome, drawn: Drawn) -> list[Table]:
    found = list(outcome.tables)
    if outcome.cells:
        found.append(hyperparameters_table(outcome))
    if drawn.curves:
        found.append(curves_table(outcome.study, drawn))
    return found + [table for sheet in drawn.sheets for table in sheet.tables]


def _study(outcome: Outcome, drawn: Drawn) -> StudyView:
    return StudyView(
        outcome=outcome,
        slug=_slug(outcome.study),
        paragraphs=[text for part in outcome.prose.split("\n\n") if (text := part.strip())],
        figures=[_figure(sheet) for sheet in drawn.sheets],
        choices=choices(outcome.cells) if outcome.cells else None,
        facts=provenance(outcome),
    )


def _figure(sheet: Sheet) -> FigureView:
    variables = {color: name for color, (name, _, _) in css_variables().items()}

    def piece(svg: str, key: str, label: str) -> Markup:
        prefix = f"{_slug(sheet.name)}-{_slug(key)}-"
        return Markup(inline(svg, prefix=prefix, label=label, variables=variables))

    return FigureView(
        sheet=sheet,
        legend=[
            (piece(swatch_svg(item), f"legend{i}", ""), item.label)
            for i, item in enumerate(sheet.legend)
        ],
        panels=[
            (panel.title, panel.note, piece(panel_svg(sheet, panel), f"p{i}", panel.text))
            for i, panel in enumerate(sheet.panels)
        ],
    )


def _summary(outcomes: Sequence[Outcome]) -> list[tuple[Verdict, int, str]]:
    """The verdicts, counted; a verdict that nobody got is not shown, but for the first three."""
    counts = Counter(claim.verdict for outcome in outcomes for claim in outcome.claims)
    return [
        (verdict, counts[verdict], _COUNTED[verdict][counts[verdict] != 1])
        for verdict in get_args(Verdict)
        if counts[verdict] or verdict != "not run"
    ]


def _render(**values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("gensmooth.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"shown": shown, "slug": _slug, "numeric": numeric, "parted": _parted}
    environment.filters.update(filters)
    return environment.get_template("report.html.j2").render(**values)


def _parted(text: str) -> tuple[str, list[str]]:
    """Evidence that is too long to read: its first sentence, and the rest as items.

    >>> _parted("2 of 2. " + "; ".join(["a: 1", "b: 2"]))
    ('2 of 2. a: 1; b: 2', [])
    >>> _parted("2 of 2. " + "; ".join(["a" * 200, "b" * 100]))[1] == ["a" * 200, "b" * 100]
    True
    """
    head, dot, rest = text.partition(". ")
    items = rest.split("; ")
    return (text, []) if len(text) <= _READABLE or len(items) < 2 else (head + dot.rstrip(), items)


def _slug(text: str) -> str:
    """Letters, digits, dots and dashes only: for file names and identifiers.

    >>> _slug("../nevergrad:Sphere 2")
    'nevergrad-Sphere-2'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"
