"""A comparison or a sweep as it is written down, and the folder that it is kept in.

``comparison.json`` says what was asked, ``trials`` has a folder per run, named by the hash of its
configuration, ``report.html`` is the page. The same call goes on after a kill, and a larger one
takes over the runs that it shares with a smaller one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import cloudpickle

from gensmooth._version import __version__
from gensmooth.comparisons.choices import Choice
from gensmooth.comparisons.identity import short
from gensmooth.comparisons.problems import CommonProblem
from gensmooth.comparisons.trial import Trials
from gensmooth.runs.files import read_bytes, write_text
from gensmooth.studies.making import Maker
from gensmooth.studies.progress import Say
from gensmooth.studies.spec import RunRecord, RunSpec
from gensmooth.studies.store import StoreError, StudyStore

STUDY = "trials"
FILE = "comparison.json"
_FORMAT = 1

Kind = Literal["comparison", "sweep"]


@dataclass(frozen=True)
class Order:
    """What was asked: all that the page needs beside the runs.

    Attributes:
        kind: A comparison or a sweep.
        problem: What people call the problem.
        unit: What an evaluation is.
        scored: How points are judged, if not by fresh values.
        maximize: Whether high values are good.
        values: How many fresh values judge a point.
        budget: Evaluations of each run.
        seeds: The seeds.
        fresh: Of a sweep, the seeds on which the best is judged.
        cells: Labels, each with the configuration of its choice; of a sweep also the values of its
            options.
        config: What the configurations of all runs share.
        command: What a reader types to repeat it.
        search: Of a sweep, how its cells were chosen: a grid, or Optuna.
    """

    kind: Kind
    problem: str
    unit: str
    scored: str
    maximize: bool
    values: int
    budget: int
    seeds: tuple[int, ...]
    cells: tuple[dict[str, Any], ...]
    config: dict[str, Any]
    command: str
    fresh: tuple[int, ...] = ()
    search: str = "grid"

    def spec(self, cell: dict[str, Any], seed: int) -> RunSpec:
        """The run of a cell with a seed."""
        choice = cell["config"]
        config = {**self.config, **choice, "choice": short(choice), "seed": seed}
        return RunSpec(STUDY, config)

    def specs(self) -> list[RunSpec]:
        """All runs, but those on the fresh seeds of a sweep."""
        return [self.spec(cell, seed) for cell in self.cells for seed in self.seeds]

    def write(self, folder: Path) -> None:
        """Write it into its folder."""
        text = json.dumps({"format": _FORMAT, **vars(self)}, indent=1, allow_nan=False)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, f"{text}\n")

    @classmethod
    def read(cls, folder: Path) -> "Order":
        """Read it from its folder.

        Raises:
            ValueError: When it cannot be read.
        """
        path = folder / FILE
        try:
            found = cast(dict[str, Any], json.loads(read_bytes(path)))
            if (number := found.pop("format")) != _FORMAT:
                raise ValueError(
                    f"it is of format {str(number)[:20]}, but this gensmooth reads format {_FORMAT}"
                )
            for name in ("seeds", "cells", "fresh"):
                found[name] = tuple(found[name])
            return cls(**found)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"{path} is not that of a comparison: {error}.") from error


def ask(
    kind: Kind,
    problem: CommonProblem,
    cells: Sequence[tuple[Choice, dict[str, Any]]],
    *,
    seeds: Sequence[int],
    budget: int,
    values: int,
    command: str,
    fresh: Sequence[int] = (),
    search: str = "grid",
) -> Order:
    """A comparison of some choices, written down."""
    return Order(
        kind=kind,
        problem=problem.name,
        unit=problem.unit,
        scored=problem.scored,
        maximize=problem.maximize,
        values=values,
        budget=budget,
        seeds=tuple(seeds),
        cells=tuple(
            {"label": choice.label, "config": choice.config(), **more} for choice, more in cells
        ),
        config={
            "gensmooth": __version__,
            "problem": problem.identity,
            "budget": budget,
            "values": values,
        },
        command=command,
        fresh=tuple(fresh),
        search=search,
    )


def store_of(folder: Path) -> StudyStore:
    """Where the runs are kept."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is not a folder: choose another --out.")
    return StudyStore(folder / STUDY, STUDY)


def maker_of(
    problem: CommonProblem,
    choices: Sequence[Choice],
    *,
    folder: Path,
    values: int,
    workers: int | None,
    ray: str | None,
    say: Say,
) -> Maker:
    """What makes the runs that are missing."""
    by_hash = {short(choice.config()): choice for choice in choices}
    trials = Trials(problem.at, by_hash, problem.maximize, values)
    packed: bytes = cast(Any, cloudpickle).dumps(trials)
    return Maker(STUDY, store_of(folder), workers, ray, say, maker=packed)


def found(folder: Path, asked: Order) -> list[RunRecord]:
    """The runs of a comparison that are there."""
    specs = asked.specs()
    loaded = store_of(folder).load(specs).records
    return [loaded[spec.key] for spec in specs if spec.key in loaded]
