"""Writes a page: one self-contained HTML file, with its figures and tables as files beside it."""

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gensmooth._version import __version__
from gensmooth.lab.report.curves import Drawn
from gensmooth.lab.report.figure import Figure, inline, panel_svg, swatch_svg, write_figure
from gensmooth.lab.report.style import css_variables
from gensmooth.lab.report.tables import (
    Cell,
    Choices,
    ClaimRow,
    Published,
    Table,
    Verdict,
    choices,
    claims_table,
    curves_table,
    hyperparameters_table,
    numeric,
    shown,
    write_csv,
)
from gensmooth.runs.files import make_folder, write_text

Facts = Sequence[tuple[str, str]]

_READABLE = 240  # characters of evidence in the table of claims

# The verdicts at the top of the page, in this order, for one claim and for several.
_COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "depends on the reading": ("depends on the reading", "depend on the reading"),
    "undecided": ("undecided at this number of runs", "undecided at this number of runs"),
    "about an implementation": ("is about an implementation", "are about an implementation"),
    "not run": ("not run", "not run"),
}


class Section(NamedTuple):
    """A section of a page, such as one study.

    Attributes:
        name: A short name, for files and links.
        title: Its heading.
        prose: What was done; paragraphs are separated by empty lines.
        drawn: Its figures.
        tables: Tables to show.
        claims: Its claims with their verdicts.
        cells: Its hyperparameter choices.
        searched: Whether these come from a grid search.
        facts: What was run, for the box at the end.
        files: Tables that are written as files only.
        smaller: How its runs are smaller than those that its claims are about, in words.
        published: Verdicts of full-size runs, shown instead if these are smaller.
    """

    name: str
    title: str
    prose: str
    drawn: Drawn = Drawn(())
    tables: Sequence[Table] = ()
    claims: Sequence[ClaimRow] = ()
    cells: Sequence[Cell] = ()
    searched: bool = True
    facts: Facts = ()
    files: Sequence[Table] = ()
    smaller: str | None = None
    published: Published | None = None


class Front(NamedTuple):
    """The beginning of a page.

    Attributes:
        message: Its message in one or two sentences.
        symbols: The letters in figures and tables, with their meanings.
        answer: The result in a few lines.
    """

    message: str = ""
    symbols: Sequence[tuple[str, str]] = ()
    answer: Facts = ()


class FigureView(NamedTuple):
    """A figure for the template, with legend and panels as SVG."""

    figure: Figure
    legend: Sequence[tuple[Markup, str]]
    panels: Sequence[tuple[str, str, Markup]]


class SectionView(NamedTuple):
    """A section for the template."""

    section: Section
    slug: str
    paragraphs: Sequence[str]
    figures: Sequence[FigureView]
    choices: Choices | None
    claimed: bool
    runs: str
    published: Published | None
    verdicts: str
    judged: Sequence[ClaimRow]
    unjudged: Sequence[ClaimRow]
    curves: Mapping[str, str]


def write_page(
    sections: Sequence[Section],
    out: Path,
    *,
    title: str,
    lede: str,
    command: str,
    front: Front | None = None,
    reload: float | None = None,
) -> Path:
    """Write the report; see :func:`gensmooth.lab.report.write_report`."""
    make_folder(out)
    figures, tables = (make_folder(out / name, inside=out) for name in ("figures", "tables"))
    files: list[Path] = []
    claims = [(s.name, claim) for s in sections for claim in s.claims]
    to_write = [claims_table(claims)] if claims else []
    for section in sections:
        for figure in section.drawn.figures:
            files += write_figure(figure, figures) if figure.panels else []
        to_write += _tables(section)
    names = Counter[str]()
    for table in to_write:
        names[table.name] += 1
        count = names[table.name]
        name = _slug(table.name) + (f"-{count}" if count > 1 else "")
        files.append(write_csv(tables / f"{name}.csv", table.columns, table.rows))
    page = _render(
        title=title,
        lede=lede,
        front=front or Front(),
        sections=[_section(section) for section in sections],
        summary=_summary([row for section in sections for row in _counted(section)]),
        command=command,
        reload=reload,
        versions=_versions(),
        files=[path.relative_to(out).as_posix() for path in files],
        variables=css_variables().values(),
    )
    path = out / "report.html"
    write_text(path, page, durable=False)
    return path


def _tables(section: Section) -> list[Table]:
    tables = [*section.tables, *section.files]
    if section.cells:
        tables.append(hyperparameters_table(section.name, section.cells))
    if section.drawn.curves:
        tables.append(curves_table(section.name, section.drawn))
    return tables + [table for figure in section.drawn.figures for table in figure.tables]


def _section(section: Section) -> SectionView:
    return SectionView(
        section=section,
        slug=_slug(section.name),
        paragraphs=[text for part in section.prose.split("\n\n") if (text := part.strip())],
        figures=[_figure(figure) for figure in section.drawn.figures],
        choices=choices(section.cells) if section.cells else None,
        claimed=bool(section.claims or _shown(section)),
        runs=dict(section.facts).get("reporting runs", ""),
        published=_shown(section),
        verdicts=", ".join(f"{n} {words}" for _, n, words in _summary(_counted(section))),
        judged=[row for row in section.claims if row.verdict != "not run"],
        unjudged=[] if _shown(section) else _unjudged(section),
        curves=_curves(section),
    )


def _unjudged(section: Section) -> list[ClaimRow]:
    return [row for row in section.claims if row.verdict == "not run"]


def _shown(section: Section) -> Published | None:
    """Return the published verdicts, if the section's own runs are too small to judge."""
    return section.published if section.smaller else None


def _curves(section: Section) -> dict[str, str]:
    """Return the figure for each claim: the one whose name shares the longest prefix with it."""
    named = [figure.name for figure in section.drawn.figures]

    def alike(name: str, claim: str) -> int:
        return next((i for i, (a, b) in enumerate(zip(name, claim, strict=False)) if a != b), 99)

    rows = [*section.claims, *(section.published.claims if section.published else ())]
    return {row.id: max(named, key=partial(alike, claim=row.id)) for row in rows if named}


def _figure(figure: Figure) -> FigureView:
    variables = {color: name for color, (name, _, _) in css_variables().items()}

    def piece(svg: str, key: str, label: str) -> Markup:
        prefix = f"{_slug(figure.name)}-{_slug(key)}-"
        return Markup(inline(svg, prefix=prefix, label=label, variables=variables))

    return FigureView(
        figure=figure,
        legend=[
            (piece(swatch_svg(item), f"legend{i}", ""), item.label)
            for i, item in enumerate(figure.legend)
        ],
        panels=[
            (panel.title, panel.note, piece(panel_svg(figure, panel), f"p{i}", panel.text))
            for i, panel in enumerate(figure.panels)
        ],
    )


def _counted(section: Section) -> Sequence[ClaimRow]:
    if (shown := _shown(section)) is None:
        return section.claims
    return [*shown.claims, *(row for row in section.claims if row.verdict != "not run")]


def _summary(claims: Sequence[ClaimRow]) -> list[tuple[Verdict, int, str]]:
    """Count the verdicts; our own claims are counted only if there are none of the paper's."""
    papers = [claim for claim in claims if claim.is_papers]
    counts = Counter(claim.verdict for claim in papers or claims)
    return [
        (verdict, counts[verdict], words[counts[verdict] != 1])
        for verdict, words in _COUNTED.items()
        if counts[verdict]
    ]


def _versions() -> Facts:
    """Return the versions of Python and of the packages that results depend on."""
    versions = [("gensmooth", __version__), ("Python", platform.python_version())]
    packages = ("numpy", "numba", "scipy", "nevergrad", "mujoco", "gymnasium", "metaworld")
    for name in (*packages, "matplotlib"):
        try:
            versions.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return [*versions, ("platform", f"{platform.system()} {platform.machine()}")]


def _render(**values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("gensmooth.lab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"shown": shown, "slug": _slug, "numeric": numeric}
    filters |= {"parted": _parted, "place": _place, "coded": _coded, "options": _options}
    environment.filters.update(filters)
    return environment.get_template("report.html.j2").render(**values)


def _parted(text: str) -> tuple[str, list[str]]:
    """Split evidence that is too long to read into its first sentence and a list of the rest.

    >>> _parted("2 of 2. " + "; ".join(["a: 1", "b: 2"]))
    ('2 of 2. a: 1; b: 2', [])
    >>> _parted("2 of 2. " + "; ".join(["a" * 200, "b" * 100]))[1] == ["a" * 200, "b" * 100]
    True
    """
    head, dot, rest = text.partition(". ")
    items = rest.split("; ")
    return (text, []) if len(text) <= _READABLE or len(items) < 2 else (head + dot.rstrip(), items)


def _coded(text: str) -> Markup:
    """Return a text in which names between backquotes are set as code.

    >>> _coded("`x` is < 1")
    Markup('<code>x</code> is &lt; 1')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _options(command: str) -> Markup:
    """Return a command in which a line never ends within the name of an option.

    >>> _options("run --seed 0 < x")
    Markup('run <span>--seed</span> 0 &lt; x')
    """
    return Markup(re.sub(r"(--[\w-]+)", r"<span>\1</span>", str(escape(command))))


def _place(text: str) -> str:
    """Return a place in the paper, without the labels of its LaTeX source.

    >>> _place("Appendix, fig:linregmse_full, fig:linregloss_full"), _place("Section 5.1, fig:a")
    ('Appendix, figures', 'Section 5.1, figure')
    """
    kinds = {"fig": "figure", "tab": "table", "sec": "", "eq": "equation", "thm": "theorem"}
    parts: list[str] = []
    for part in re.split(r",\s*", text):
        label = re.fullmatch(r"((?:[\w.]+ )*)(fig|tab|sec|eq|thm|lem|cor):[\w.-]+", part)
        if label is None:
            parts.append(part)
            continue
        kind = label[1] + kinds.get(label[2], "lemma")
        if parts and parts[-1].rstrip("s") == kind:
            parts[-1] = f"{kind}s"
        elif kind.strip():
            parts.append(kind.strip())
    return ", ".join(parts)


def _slug(text: str) -> str:
    """Return a text with letters, digits, dots and dashes only, for file names and identifiers.

    >>> _slug("../nevergrad:Sphere 2")
    'nevergrad-Sphere-2'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"
