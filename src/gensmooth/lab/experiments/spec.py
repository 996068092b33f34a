"""The parts of a study: specs of runs, their records, the study and its outcome."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

from gensmooth.lab.experiments.options import O, Options, Profile, SeededOptions
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.report.tables import Cell, ClaimRow, Table

if TYPE_CHECKING:
    from gensmooth.lab.report.curves import Drawn

# Part of every run's key: raise it when the meaning of a configuration or of a record changes.
# Finished runs of other formats are then kept, but not used.
FORMAT = 1


@dataclass(frozen=True)
class RunSpec:
    """The specification of a run: exactly what its record depends on.

    Attributes:
        study: The study's name.
        config: Plain JSON values.
    """

    study: str
    config: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """The name of the run's folder: a hash of the configuration."""
        text = json.dumps([FORMAT, self.study, self.config], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


class RunRecord(NamedTuple):
    """The record of a finished run.

    Attributes:
        config: The run's configuration.
        series: Named series, one number per round.
        final: The score at the end, lower is better; infinite if the run diverged.
        diverged: Whether the run diverged.
        seconds: How long it took.
        more: Anything else, as plain JSON.
    """

    config: Mapping[str, Any]
    series: Mapping[str, Sequence[float]]
    final: float
    diverged: bool
    seconds: float
    more: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a study: all that the report needs.

    Attributes:
        study: Its name.
        title: Its heading.
        prose: What was done, a paragraph or two of plain text.
        records: The reporting runs.
        options: Its options.
        cells: The hyperparameter choices.
        tables: Tables to show, besides the hyperparameters and the claims.
        files: Tables that are written as files, and not shown on the page.
        scores: The numbers of each run that claims are judged by.
        claims: The claims, judged.
        facts: How it was run, for the provenance box: counts, seconds, versions.
        draw: Draws its figures; see :class:`Study`.
        smaller: How the runs are smaller than those that its claims are about.
    """

    study: str
    title: str
    prose: str
    records: Sequence[RunRecord]
    options: Options
    cells: Sequence[Cell] = ()
    tables: Sequence[Table] = ()
    files: Sequence[Table] = ()
    scores: Scores = field(default_factory=Scores)
    claims: Sequence[ClaimRow] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    draw: "Callable[[Outcome], Drawn] | str | None" = None
    smaller: str | None = None


class Claim(NamedTuple):
    """An additional claim about a study.

    Attributes:
        study: The name of the study.
        judge: Returns the verdict from the numbers of its runs and its hyperparameter choices.
    """

    study: str
    judge: Callable[[Scores, Sequence[Cell]], ClaimRow]


def _unjudged(row: ClaimRow, smaller: str) -> ClaimRow:
    if row.verdict == "not run":
        return row
    return row._replace(verdict="not run", evidence=f"the runs are smaller: {smaller}")


def _nothing(*_: Any) -> list[Any]:
    return []


@dataclass(frozen=True)
class Study(Generic[O]):
    """A study: lists of runs, the function that executes one, and how they are judged.

    Attributes:
        name: Its name; part of every run's key, and of the names of files.
        title: Its heading in the report.
        prose: Describes what was done.
        reporting: Lists the runs to report, from the hyperparameter choices.
        execute: Executes one run from its configuration and a folder. A long run may keep
            checkpoints in the folder, which is reserved for it and may not exist yet.
        options: The dataclass that declares its options.
        tuning: Lists the runs of the grid search; empty if the paper's tables are used.
        select: Chooses the hyperparameters from the records of the grid search.
        score: Computes the numbers of each run that claims use.
        judge: Returns the verdicts from these numbers and the hyperparameter choices.
        draw: Draws the figures. ``module:function`` is imported when a page is written, because
            Matplotlib loads slowly.
        tables: Further tables to show.
        files: Tables that are written as files, and not shown on the page.
        facts: What was run, for the provenance box.
        alone: Whether its runs are executed one at a time, as timings must be.
        cost: About how many seconds a run takes on one core: the longest are then executed first.
            Without it, runs are executed in the order of their keys.
        gather: Selects the records of a report on an incomplete study from all records in a
            folder; ``None`` if the study can only be reported complete.
        searched: The profiles in which hyperparameters are searched by default; the others use the
            paper's tables.
        device: The device that all runs share, if they are executed side by side in this process;
            ``None`` if each run uses one core.
        unavailable: Returns which missing package prevents it from running, or ``None``.
        smaller: Describes how its runs are smaller than those that its claims are about; ``None``
            if they are not. Smaller runs do not judge the claims.
    """

    name: str
    title: str
    prose: Callable[[O, Sequence[RunRecord]], str]
    reporting: Callable[[O, Sequence[Cell]], list[RunSpec]]
    execute: Callable[[Mapping[str, Any], Path], RunRecord]
    options: type[O] = field(default=cast("type[O]", SeededOptions))
    tuning: Callable[[O], list[RunSpec]] = _nothing
    select: Callable[[O, Sequence[RunRecord]], list[Cell]] = _nothing
    score: Callable[[O, Sequence[RunRecord]], Scores] = lambda _options, _records: Scores()
    judge: Callable[[Scores, Sequence[Cell]], list[ClaimRow]] = _nothing
    draw: "Callable[[Outcome], Drawn] | str | None" = None
    tables: Callable[[O, Sequence[RunRecord]], Sequence[Table]] = _nothing
    files: Callable[[O, Sequence[RunRecord]], Sequence[Table]] = _nothing
    facts: Callable[[O, Sequence[RunRecord]], Mapping[str, Any]] = lambda _options, _records: {}
    alone: bool = False
    cost: Callable[[Mapping[str, Any]], float] | None = None
    gather: Callable[[O, Sequence[Cell], Sequence[RunRecord]], list[RunRecord]] | None = None
    searched: tuple[Profile, ...] = ("quick", "paper")
    device: Callable[[O], str | None] = lambda _: None
    unavailable: Callable[[O], str | None] | None = None
    smaller: Callable[[O], str | None] | None = None

    def conclude(self, options: O, records: Sequence[RunRecord], cells: Sequence[Cell]) -> Outcome:
        """Return the outcome, from the records of the reporting runs."""
        scores = self.score(options, records)
        smaller = self.smaller(options) if self.smaller else None
        claims = self.judge(scores, cells)
        if smaller is not None:
            claims = [_unjudged(row, smaller) for row in claims]
        return Outcome(
            study=self.name,
            title=self.title,
            prose=self.prose(options, records),
            records=records,
            options=options,
            cells=cells,
            tables=self.tables(options, records),
            files=self.files(options, records),
            scores=scores,
            claims=claims,
            smaller=smaller,
            facts=self.facts(options, records),
            draw=self.draw,
        )
