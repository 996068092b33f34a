"""A table of trials: which methods run on which seeds, and the folder that it is kept in.

``comparison.json`` describes the table, ``trials`` has a folder per run, named by the hash of its
configuration, and ``report.html`` is the page. The same call continues after an interruption, and a
larger one reuses the runs that it shares with a smaller one.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.experiments.store import StoreError, StudyStore
from gensmooth.lab.trials.identity import short
from gensmooth.runs.files import read_bytes, write_text

STUDY = "trials"
FILE = "comparison.json"
_FORMAT = 1

Kind = Literal["comparison", "sweep"]
Cell = Mapping[str, Any]
Runs = Mapping[str, Sequence[RunRecord]]  # by the label of their cell

# Returns the records of some runs, in their order: makes those that are missing, or leaves them
# out. The text is the title of the progress bar.
Fetch = Callable[[Sequence[RunSpec], str], list[RunRecord]]


@dataclass(frozen=True)
class TrialTable:
    """Everything that the page needs besides the runs, and everything that identifies a run.

    Attributes:
        kind: A comparison or a sweep.
        problem: The name of the problem.
        unit: What one evaluation is.
        scored: How points are judged, if not by fresh values.
        maximize: Whether high values are good.
        values: How many fresh values judge a point.
        budget: Evaluations of each run.
        seeds: The seeds.
        cells: One mapping for each method with its options: its label and configuration; in a
            sweep also its method and the values of its options.
        config: The part of the configuration that all runs share.
        command: The command or call that repeats the experiment.
        fresh: In a sweep, the seeds on which the best cells are judged.
        search: In a sweep, how its cells were chosen: a grid, or Optuna.
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

    def spec(self, cell: Cell, seed: int) -> RunSpec:
        """The run of a cell with a seed."""
        choice = cell["config"]
        return RunSpec(STUDY, {**self.config, **choice, "choice": short(choice), "seed": seed})

    def specs(
        self, labels: Iterable[str] | None = None, seeds: Sequence[int] | None = None
    ) -> list[RunSpec]:
        """The runs of some cells on some seeds; by default of all cells on ``self.seeds``."""
        cells = self.cells if labels is None else [self._cell(label) for label in labels]
        seeds = self.seeds if seeds is None else seeds
        return [self.spec(cell, seed) for cell in cells for seed in seeds]

    def by_cell(self, records: Sequence[RunRecord], seeds: Sequence[int]) -> Runs:
        """The runs of each cell, in the order of the seeds; those that are missing are left out."""
        runs = {(record.config["choice"], record.config["seed"]): record for record in records}
        grouped: dict[str, list[RunRecord]] = {}
        for cell in self.cells:
            choice = short(cell["config"])
            grouped[cell["label"]] = [runs[choice, s] for s in seeds if (choice, s) in runs]
        return grouped

    def write(self, folder: Path) -> None:
        """Write ``comparison.json`` into a folder."""
        text = json.dumps({"format": _FORMAT, **vars(self)}, indent=1, allow_nan=False)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, f"{text}\n")

    @classmethod
    def read(cls, folder: Path) -> "TrialTable":
        """Read ``comparison.json`` from a folder.

        Raises:
            ValueError: If it cannot be read.
        """
        path = folder / FILE
        try:
            fields = cast(dict[str, Any], json.loads(read_bytes(path)))
            if (number := fields.pop("format")) != _FORMAT:
                raise ValueError(
                    f"it is of format {str(number)[:20]}, but this gensmooth reads format {_FORMAT}"
                )
            for name in ("seeds", "cells", "fresh"):
                fields[name] = tuple(fields[name])
            return cls(**fields)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"{path} is not that of a comparison: {error}.") from error

    def _cell(self, label: str) -> Cell:
        return next(cell for cell in self.cells if cell["label"] == label)


def store_of(folder: Path) -> StudyStore:
    """The store of the runs in a folder."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is not a folder: choose another --folder.")
    return StudyStore(folder / STUDY, STUDY)


def stored(folder: Path) -> Fetch:
    """Returns runs from the store of a folder; makes none."""

    def fetch(specs: Sequence[RunSpec], title: str) -> list[RunRecord]:  # noqa: ARG001
        records = store_of(folder).load(specs).records
        return [records[spec.key] for spec in specs if spec.key in records]

    return fetch
