"""What a study is made of: configurations of runs, their records, and what follows from them."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gensmooth.report.tables import Cell, ClaimRow, Table
from gensmooth.studies.verdicts import Scores

if TYPE_CHECKING:
    from gensmooth.report.curves import Drawn

Profile = Literal["quick", "paper"]

# Part of every run's name: raise it when the meaning of a configuration or of a record changes.
# Finished runs of another format are then left alone and not used.
FORMAT = 1


@dataclass(frozen=True)
class RunSpec:
    """One run: everything that its record depends on, and nothing else.

    Attributes:
        study: The study's name.
        config: Plain JSON values.
    """

    study: str
    config: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name of the run's folder: a hash of the configuration."""
        text = json.dumps([FORMAT, self.study, self.config], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


class RunRecord(NamedTuple):
    """What a finished run left behind.

    Attributes:
        config: The run's configuration.
        series: Named series, one number per round.
        final: The score at the end, lower is better; infinite if the run diverged.
        diverged: Whether it did.
        seconds: How long it took.
        more: What else is to be remembered of it, as plain JSON.
    """

    config: Mapping[str, Any]
    series: Mapping[str, Sequence[float]]
    final: float
    diverged: bool
    seconds: float
    more: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Options:
    """How a study is run, beside its profile; ``None`` is the profile's own choice."""

    profile: Profile = "quick"
    seeds: int | None = None
    hyperparameters: Literal["search", "paper"] | None = None
    methods: tuple[str, ...] | None = None
    offline: bool = False
    objectives: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None
    parts: tuple[str, ...] | None = None
    num_directions: tuple[int, ...] | None = None
    iterations: int | None = None
    test_trials: int | None = None
    resets: Literal["independent", "paired"] | None = None
    device: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A study that has been run: all that the report needs.

    Attributes:
        study: Its name.
        title: Its heading.
        prose: What was done, a paragraph or two of plain text.
        records: The reporting runs.
        options: How it was run.
        cells: The hyperparameter choices.
        tables: Tables to show, besides the hyperparameters and the claims.
        files: Tables that are written beside the page, and not shown.
        scores: The numbers of each run that claims are judged by.
        claims: The claims, judged.
        facts: What was run, for the provenance box: counts, seconds, versions.
        draw: Draws its figures.
        smaller: How the runs are smaller than those that its sentences are about.
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
    draw: "Callable[[Outcome], Drawn] | None" = None
    smaller: str | None = None


class Claim(NamedTuple):
    """A sentence about a study that is judged beside the study's own.

    Attributes:
        study: The name of the study.
        judge: From the numbers of its runs, and its hyperparameter choices, to the verdict.
    """

    study: str
    judge: Callable[[Scores, Sequence[Cell]], ClaimRow]


def _unjudged(row: ClaimRow, smaller: str) -> ClaimRow:
    """A sentence about larger runs than these: no verdict, whatever the numbers say."""
    if row.verdict == "not run":
        return row
    return row._replace(verdict="not run", evidence=f"the runs are smaller: {smaller}")


def _nothing(*_: Any) -> list[Any]:
    return []


def _no_scores(*_: Any) -> Scores:
    return Scores()


def _no_facts(*_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Study:
    """A study: generators of runs, the function that makes one, and what is concluded.

    Attributes:
        name: Its name; part of every run's key, and of the names of files.
        title: Its heading in the report.
        prose: What was done, from the options and the records.
        reporting: The runs that are reported, given the hyperparameter choices.
        execute: Makes one run from its configuration. A long run may keep what it needs to go
            on after a kill in the folder that it is given, which is its own, and need not exist
            yet; short runs leave it alone.
        tuning: The runs of the grid search; none when the paper's tables are used.
        select: From the records of those to the choices.
        score: The numbers of each run that claims use.
        judge: From these, and the choices, to verdicts.
        draw: Draws the figures.
        tables: Further tables to show.
        files: Tables that are written beside the page, and not shown.
        facts: What was run, for the provenance box.
        alone: Whether its runs must not share the machine with each other, as timings.
        cost: About how many seconds a run takes on one core, where runs are long or differ much:
            the longest are then made first. Without it runs are made in mixed order.
        gather: Which of all the records in a folder a report is about that may be incomplete;
            ``None`` for a study that is reported complete or not at all.
        searched: The profiles in which hyperparameters are searched unless told otherwise; in
            the others the paper's tables are used.
        unavailable: Why it cannot be run as asked with what is installed, or ``None`` if it can.
        smaller: How its runs are smaller than those that its sentences are about, in words, or
            ``None`` if they are not. Its sentences are not judged by runs that are.
    """

    name: str
    title: str
    prose: Callable[[Options, Sequence[RunRecord]], str]
    reporting: Callable[[Options, Sequence[Cell]], list[RunSpec]]
    execute: Callable[[Mapping[str, Any], Path], RunRecord]
    tuning: Callable[[Options], list[RunSpec]] = _nothing
    select: Callable[[Options, Sequence[RunRecord]], list[Cell]] = _nothing
    score: Callable[[Options, Sequence[RunRecord]], Scores] = _no_scores
    judge: Callable[[Scores, Sequence[Cell]], list[ClaimRow]] = _nothing
    draw: "Callable[[Outcome], Drawn] | None" = None
    tables: Callable[[Options, Sequence[RunRecord]], Sequence[Table]] = _nothing
    files: Callable[[Options, Sequence[RunRecord]], Sequence[Table]] = _nothing
    facts: Callable[[Options, Sequence[RunRecord]], Mapping[str, Any]] = _no_facts
    alone: bool = False
    cost: Callable[[Mapping[str, Any]], float] | None = None
    gather: Callable[[Options, Sequence[Cell], Sequence[RunRecord]], list[RunRecord]] | None = None
    searched: tuple[Profile, ...] = ("quick", "paper")
    unavailable: Callable[[Options], str | None] | None = None
    smaller: Callable[[Options], str | None] | None = None

    def conclude(
        self, options: Options, records: Sequence[RunRecord], cells: Sequence[Cell]
    ) -> Outcome:
        """From the records of the reporting runs to the outcome."""
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
