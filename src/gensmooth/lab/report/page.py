"""The page: one HTML file with everything inside, and the figures and tables beside it as files."""

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

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

# What a reader sees at the top, in this order.
_COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("undecided", "undecided"),
    "not run": ("not run", "not run"),
}


class Section(NamedTuple):
    """A study as the page shows it.

    Attributes:
        name: A short name, for files and links.
        title: Its heading.
        prose: What was done; paragraphs are parted by an empty line.
        drawn: Its figures.
        tables: Tables to show.
        claims: Its claims, judged.
        cells: Its hyperparameter choices.
        searched: Whether these come from a grid search.
        facts: What was run, for the box at the end.
        files: Tables that are written as files only.
        smaller: How its runs are smaller than those that its claims are about, in words.
        published: Verdicts of full-size runs, to be shown instead where these are smaller.
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
    """What a page begins with.

    Attributes:
        message: What it says, in one sentence.
        best: The name of the figure that shows it; its first row is drawn again at the top.
        symbols: Letters that figures and tables use, and what they mean.
    """

    message: str = ""
    best: str = ""
    symbols: Sequence[tuple[str, str]] = ()


class FigureView(NamedTuple):
    """A figure as the template takes it: its legend and its panels are SVG."""

    figure: Figure
    legend: Sequence[tuple[Markup, str]]
    panels: Sequence[tuple[str, str, Markup]]


class SectionView(NamedTuple):
    """A section as the template takes it."""

    section: Section
    slug: str
    paragraphs: Sequence[str]
    figures: Sequence[FigureView]
    choices: Choices | None
    claimed: bool
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
        best=_best(sections, front.best if front else ""),
        sizes=_sizes(sections),
        sections=[_section(section) for section in sections],
        summary=_summary(sections),
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
    found = [*section.tables, *section.files]
    if section.cells:
        found.append(hyperparameters_table(section.name, section.cells))
    if section.drawn.curves:
        found.append(curves_table(section.name, section.drawn))
    return found + [table for figure in section.drawn.figures for table in figure.tables]


def _section(section: Section) -> SectionView:
    return SectionView(
        section=section,
        slug=_slug(section.name),
        paragraphs=[text for part in section.prose.split("\n\n") if (text := part.strip())],
        figures=[_figure(figure) for figure in section.drawn.figures],
        choices=choices(section.cells) if section.cells else None,
        claimed=bool(section.claims or _shown(section)),
        judged=[row for row in section.claims if row.verdict != "not run"],
        unjudged=[] if _shown(section) else _unjudged(section),
        curves=_curves(section),
    )


def _unjudged(section: Section) -> list[ClaimRow]:
    return [row for row in section.claims if row.verdict == "not run"]


def _shown(section: Section) -> Published | None:
    """The published verdicts, where those of the section's own runs would be of too small ones."""
    return section.published if section.smaller else None


def _curves(section: Section) -> dict[str, str]:
    """The figure that shows what a claim is about: the one whose name is most like the claim's."""
    named = [figure.name for figure in section.drawn.figures]

    def alike(name: str, claim: str) -> int:
        return next((i for i, (a, b) in enumerate(zip(name, claim, strict=False)) if a != b), 99)

    rows = [*section.claims, *(section.published.claims if section.published else ())]
    return {row.id: max(named, key=partial(alike, claim=row.id)) for row in rows if named}


def _best(sections: Sequence[Section], name: str) -> FigureView | None:
    """The first row of the figure that the page begins with."""
    for section in sections:
        for figure in section.drawn.figures:
            if figure.name == name and figure.panels:
                row = figure.panels[: figure.columns]
                return _figure(figure._replace(name=f"{name}-best", panels=row))
    return None


def _sizes(sections: Sequence[Section]) -> list[tuple[str, str, str]]:
    """How large the runs of each section are: title, how many, and how they are smaller."""
    facts = [dict(section.facts) for section in sections]
    return [
        (section.title, fact.get("reporting runs", ""), section.smaller or "")
        for section, fact in zip(sections, facts, strict=True)
        if section.smaller or "reporting runs" in fact
    ]


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


def _summary(sections: Sequence[Section]) -> list[tuple[Verdict, int, str]]:
    """The verdicts, counted; a verdict that nobody got is not shown, but for the first three."""
    counts = Counter(claim.verdict for section in sections for claim in _counted(section))
    return [
        (verdict, counts[verdict], _COUNTED[verdict][counts[verdict] != 1])
        for verdict in get_args(Verdict)
        if counts[verdict] or verdict != "not run"
    ]


def _versions() -> Facts:
    """Of the interpreter and of what the numbers depend on."""
    found = [("gensmooth", __version__), ("Python", platform.python_version())]
    packages = ("numpy", "numba", "scipy", "nevergrad", "mujoco", "gymnasium", "metaworld")
    for name in (*packages, "matplotlib"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return [*found, ("platform", f"{platform.system()} {platform.machine()}")]


def _render(**values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("gensmooth.lab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"shown": shown, "slug": _slug, "numeric": numeric}
    filters |= {"parted": _parted, "place": _place}
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


def _place(text: str) -> str:
    """Where the paper says something, without the labels of its source.

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
    """Letters, digits, dots and dashes only: for file names and identifiers.

    >>> _slug("../nevergrad:Sphere 2")
    'nevergrad-Sphere-2'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"
