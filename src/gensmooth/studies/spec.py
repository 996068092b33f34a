"""What a study is made of: run configurations, their records, and what is concluded from them."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

Profile = Literal["quick", "paper"]
Verdict = Literal["holds", "does not hold", "undecided", "not run"]

# Part of every run's name: raise it when the meaning of a configuration or of a record changes,
# and finished runs of the older meaning are left alone and not used.
FORMAT = 1


@dataclass(frozen=True)
class RunSpec:
    """One run: everything that its record depends on, and nothing else.

    Attributes:
        study: The study's name; with it a worker finds the function that makes the run.
        config: Plain JSON values.
    """

    study: str
    config: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name of the run's folder: a hash of the configuration."""
        text = json.dumps([FORMAT, self.study, self.config], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


class Record(NamedTuple):
    """What a finished run left behind.

    Attributes:
        config: The run's configuration.
        series: Named series, one number a round.
        final: The score at the end, lower is better; infinite if the run diverged.
        diverged: Whether it did.
        seconds: How long it took.
    """

    config: Mapping[str, Any]
    series: Mapping[str, Sequence[float]]
    final: float
    diverged: bool
    seconds: float


class Cell(NamedTuple):
    """A tuned hyperparameter choice beside the paper's.

    Attributes:
        setting: The words of the setting, such as ``"L=2, N=5"``.
        method: The method's name.
        chosen: ``(spacing, learning rate)``, or ``None`` when every choice diverged.
        paper: The paper's, or ``None`` where it gives none.
        score: The mean final score of the choice over the tuning seeds.
    """

    setting: str
    method: str
    chosen: tuple[float, float] | None
    paper: tuple[float, float] | None
    score: float


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
    """A sentence of the paper, in our words, and what the runs say of it.

    Attributes:
        id: A short name, such as ``"linreg-mse-smaller"``.
        place: Where the paper says it.
        claim: What it says, in our words.
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


@dataclass(frozen=True)
class Outcome:
    """A study that has been run: all that the report needs.

    Attributes:
        study: Its name.
        title: Its heading.
        prose: What was done, a paragraph or two of plain text.
        records: The reporting runs.
        cells: The hyperparameter choices.
        tables: Tables to show, besides the hyperparameters and the claims.
        claims: The claims, judged.
        options: How it was run.
        facts: What was run, for the provenance box: counts, seconds, versions.
    """

    study: str
    title: str
    prose: str
    records: Sequence[Record]
    cells: Sequence[Cell]
    tables: Sequence[Table]
    claims: Sequence[ClaimRow]
    options: Options
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Study(NamedTuple):
    """A study: generators of runs, the function that makes one, and what is concluded.

    Attributes:
        name: Its name on the command line.
        tuning: The runs of the grid search; none when the paper's tables are used.
        select: From the records of those to the choices.
        reporting: The runs that are reported, given the choices.
        execute: Makes one run from its configuration. A long run may keep what it needs to go
            on after a kill in the folder that it is given, which is its own, and need not exist
            yet; short runs leave it alone.
        conclude: From the reporting records to the outcome.
        alone: Whether its runs must not share the machine with each other, as timings.
        cost: About how many seconds a run takes on one core, where runs are long or differ much:
            the longest are then made first. Without it runs are made in mixed order.
        gather: Which of all the records in a folder a report is about that may be incomplete;
            ``None`` for a study that is reported complete or not at all.
        searched: The profiles in which hyperparameters are searched unless told otherwise; in
            the others the paper's tables are used.
        unavailable: Why it cannot be run with what is installed, or ``None`` if it can.
    """

    name: str
    tuning: Callable[[Options], list[RunSpec]]
    select: Callable[[Options, Sequence[Record]], list[Cell]]
    reporting: Callable[[Options, Sequence[Cell]], list[RunSpec]]
    execute: Callable[[Mapping[str, Any], Path], Record]
    conclude: Callable[[Options, Sequence[Record], Sequence[Cell]], Outcome]
    alone: bool = False
    cost: Callable[[Mapping[str, Any]], float] | None = None
    gather: Callable[[Options, Sequence[Cell], Sequence[Record]], list[Record]] | None = None
    searched: tuple[Profile, ...] = ("quick", "paper")
    unavailable: Callable[[], str | None] | None = None
