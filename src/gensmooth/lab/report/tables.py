"""Tables: as CSV with every digit, and as rows for the page."""

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from gensmooth.lab.report.style import method_order, method_title
from gensmooth.runs.files import write_text

if TYPE_CHECKING:
    from gensmooth.lab.report.curves import Drawn

# "undecided" means that there are too few runs to tell. In a claim "about an implementation", two
# programs can differ without either being wrong.
Verdict = Literal[
    "holds",
    "does not hold",
    "undecided",
    "depends on the reading",
    "about an implementation",
    "not run",
]

_FORMULA = re.compile(r"[=@\t]|[+-](?![\d.]+(e[+-]?\d+)?$|inf$)")  # not a negative number

# Curves are stored for plotting: with seven digits, and at most this many rows (every k-th round).
_MAX_ROWS = 8000


class Table(NamedTuple):
    """A table of the report, also written as CSV.

    Attributes:
        name: File name without ending.
        title: A line above it.
        columns: Column headings.
        rows: Cells: text or numbers.
        note: A line below it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


class ClaimRow(NamedTuple):
    """A claim with its verdict.

    Attributes:
        id: A short name, such as ``"linreg-mse-smaller"``.
        place: Where the paper makes it.
        claim: The claim in our words.
        statistic: What was computed and tested.
        evidence: The numbers.
        verdict: Whether it holds.
    """

    id: str
    place: str
    claim: str
    statistic: str
    evidence: str
    verdict: Verdict

    @property
    def is_papers(self) -> bool:
        """Whether the paper makes the claim; the others are ours, and are not counted with it."""
        return not self.place.startswith(("our ", "Not in the paper"))


class Published(NamedTuple):
    """The published verdicts of full-size runs on the claims of a study.

    Attributes:
        claims: The claims with their verdicts.
        size: The size of these runs, in words.
        command: The command that made them.
    """

    claims: Sequence[ClaimRow]
    size: str
    command: str


class Cell(NamedTuple):
    """A tuned hyperparameter choice beside the paper's.

    Attributes:
        setting: The setting in words, such as ``"L=2, N=5"``.
        method: The method's name.
        chosen: ``(spacing, learning rate)``, or ``None`` if every choice diverged.
        paper: The paper's choice, or ``None`` if the paper gives none.
        score: The mean final score of the choice over the tuning seeds.
    """

    setting: str
    method: str
    chosen: tuple[float, float] | None
    paper: tuple[float, float] | None
    score: float


class ChoiceText(NamedTuple):
    """A cell of the hyperparameter table: the pair that was chosen beside the paper's.

    Attributes:
        chosen: ``"0.1 · 0.01"``, or why there is none.
        paper: The paper's pair; empty if the paper gives none.
        agrees: Whether the two are the same; ``None`` if the paper gives none.
    """

    chosen: str
    paper: str
    agrees: bool | None


class Choices(NamedTuple):
    """The hyperparameter table of a study.

    Attributes:
        methods: Column headings.
        rows: The setting and its cells; ``None`` where a method was not run.
        both: The number of cells in which both values agree with the paper's.
        spacing: The number of cells in which the spacing agrees.
        rate: The number of cells in which the learning rate agrees.
        compared: The number of cells for which the paper has values.
    """

    methods: Sequence[str]
    rows: Sequence[tuple[str, Sequence[ChoiceText | None]]]
    both: int
    spacing: int
    rate: int
    compared: int


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """Write a CSV file in which a float has all of its digits.

    A spreadsheet would evaluate text that begins like a formula, so an apostrophe is put before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_exact, columns))
    writer.writerows([_exact(value) for value in row] for row in rows)
    write_text(path, text.getvalue(), durable=False)
    return path


def claims_table(claims: Sequence[tuple[str, ClaimRow]]) -> Table:
    """Return all claims, each with the name of its study."""
    columns = ["study", *ClaimRow._fields]
    return Table("claims", "Claims", columns, [[study, *claim] for study, claim in claims])


def hyperparameters_table(study: str, cells: Sequence[Cell]) -> Table:
    """Return the choices of a study, one row per cell."""
    columns = [
        "setting",
        "method",
        "spacing",
        "learning_rate",
        "paper_spacing",
        "paper_learning_rate",
        "agrees",
        "score",
    ]
    rows: list[list[Any]] = []
    for cell in cells:
        same = _agreement(cell)
        agrees = "" if same is None else "yes" if all(same) else "no"
        chosen, paper = cell.chosen or ("", ""), cell.paper or ("", "")
        rows.append([cell.setting, cell.method, *chosen, *paper, agrees, cell.score])
    return Table(f"hyperparameters-{study}", "Hyperparameters", columns, rows)


def curves_table(study: str, drawn: "Drawn") -> Table:
    """Return the mean, deviation and number for each setting, method and round."""
    names = list(dict.fromkeys(name for curve in drawn.curves for name in curve.bands))
    columns = [*drawn.keys, "method", "round", "iterations", "n", "left_out"]
    columns += [f"{name}_{statistic}" for name in names for statistic in ("mean", "sd")]
    lengths = [
        max((len(band.mean) for band in curve.bands.values()), default=0) for curve in drawn.curves
    ]
    every = max(1, math.ceil(sum(lengths) / _MAX_ROWS))
    rows: list[list[Any]] = []
    for curve, length in zip(drawn.curves, lengths, strict=True):
        # The last round is always among them.
        for r in range((length - 1) % every, length, every):
            row = [*curve.setting, curve.method, r + 1, (r + 1) * curve.iterations]
            there = [int(band.n[r]) for band in curve.bands.values() if r < len(band.n)]
            row += [max(there), curve.left_out]
            for name in names:
                band = curve.bands.get(name)
                if band is None or r >= len(band.mean):
                    row += ["", ""]
                else:
                    row += [_digits(band.mean[r]), _digits(band.sd[r])]
            rows.append(row)
    note = "" if every == 1 else f"One round in {every}."
    return Table(f"curves-{study}", "Curves", columns, rows, note)


def choices(cells: Sequence[Cell]) -> Choices:
    """Arrange choices as a table of settings by methods, and count the agreements."""
    methods = sorted({cell.method for cell in cells}, key=method_order)
    by_place = {(cell.setting, cell.method): cell for cell in cells}
    settings = dict.fromkeys(cell.setting for cell in cells)
    same = [pair for pair in map(_agreement, cells) if pair is not None]
    return Choices(
        methods=[method_title(method) for method in methods],
        rows=[
            (s, [_choice(by_place[s, m]) if (s, m) in by_place else None for m in methods])
            for s in settings
        ],
        both=sum(all(pair) for pair in same),
        spacing=sum(pair[0] for pair in same),
        rate=sum(pair[1] for pair in same),
        compared=len(same),
    )


def shown(value: Any) -> str:
    """Return a value of a table as the page shows it.

    >>> [shown(v) for v in ("GS", 5, 0.1 + 0.2, float("inf"), None, True)]
    ['GS', '5', '0.3', '∞', '—', 'yes']
    """
    if value is None or value == "":
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        number = float(value)
        if math.isinf(number):
            return "∞" if number > 0 else "−∞"
        return "—" if math.isnan(number) else f"{number:.4g}".replace("-", "−")
    return str(value)


def vector(values: Any) -> str:
    """Return numbers as a page shows them: all of them, or the first and last ones.

    >>> vector([1.0, 2.5]), vector(0.1 + 0.2)
    ('[1, 2.5]', '0.3')
    """
    form: Any = {"float_kind": "{:.6g}".format}
    return np.array2string(
        np.asarray(values), separator=", ", threshold=32, edgeitems=8, formatter=form
    )


def numeric(table: Table) -> list[bool]:
    """Return which columns hold numbers, and are aligned to the right."""
    return [
        all(isinstance(row[i], (int, float)) or row[i] in ("", None) for row in table.rows)
        for i in range(len(table.columns))
    ]


def _agreement(cell: Cell) -> tuple[bool, bool] | None:
    if cell.paper is None:
        return None
    if cell.chosen is None:
        return (False, False)
    ours, theirs = cell.chosen, cell.paper
    return math.isclose(ours[0], theirs[0]), math.isclose(ours[1], theirs[1])


def _choice(cell: Cell) -> ChoiceText:
    chosen = "all diverged" if cell.chosen is None else _pair(cell.chosen)
    same = _agreement(cell)
    paper = "" if cell.paper is None else _pair(cell.paper)
    return ChoiceText(chosen, paper, None if same is None else all(same))


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g} · {pair[1]:g}"


def _exact(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if _FORMULA.match(value) else value
    return repr(float(value)) if isinstance(value, float) else value


def _digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.7g}"
