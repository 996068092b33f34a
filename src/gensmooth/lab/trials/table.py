"""A table of trials: which methods run on which seeds, and the folder that it is kept in.

``comparison.json`` describes the table, ``trials`` has a folder per run, named by the hash of its
configuration, and ``report.html`` is the page. The same call continues after an interruption, and a
larger one reuses the runs that it shares with a smaller one.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gensmooth import fields
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.experiments.store import StoreError, StudyStore
from gensmooth.lab.trials.identity import short
from gensmooth.runs.files import CheckpointError, make_folder, read_fields, write_text

_log = logging.getLogger("gensmooth")

STUDY = "trials"
FILE = "comparison.json"
_FORMAT = 1
_MAX_RUNS = 200_000  # more do not fit into the memory that a page may take

# The fields of comparison.json.
_SEEDS = fields.many(fields.SEED, 100_000)
_CELL = fields.record(
    {
        "label": fields.text(2000, least=1),
        "config": fields.record(
            {"method": fields.NAME, "options": fields.table(fields.PLAIN, 100)}
        ),
    },
    {"method": fields.NAME, "values": fields.table(fields.real(), 100)},
)
_PLAN = fields.sealed(
    fields.record(
        {
            "format": fields.version(_FORMAT),
            "kind": fields.one_of("comparison", "sweep"),
            "problem": fields.NAME,
            "unit": fields.NAME,
            "scored": fields.NAME,
            "maximize": fields.flag,
            "values": fields.count(1),
            "budget": fields.count(1),
            "seeds": fields.many(fields.SEED, 100_000, least=1),
            "cells": fields.many(_CELL, 10_000, least=1),
            "config": fields.record(
                {
                    "problem": fields.record(
                        {}, {"how": fields.table(fields.PLAIN)}, others=fields.PLAIN
                    )
                },
                others=fields.PLAIN,
            ),
            "command": fields.text(),
        },
        {"fresh": _SEEDS, "search": fields.one_of("grid", "optuna")},
    )
)

Kind = Literal["comparison", "sweep"]
Cell = Mapping[str, Any]
Runs = Mapping[str, Sequence[RunRecord]]  # by the label of their cell

# Returns the records of runs, in the same order; missing runs are executed or omitted. The text is
# the title of the progress bar.
Fetch = Callable[[Sequence[RunSpec], str], list[RunRecord]]


@dataclass(frozen=True)
class TrialTable:
    """Everything that the page needs besides the runs, and everything that identifies a run.

    Attributes:
        kind: A comparison or a sweep.
        problem: The name of the problem.
        unit: The name of the evaluations.
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

    def __post_init__(self) -> None:
        if self.kind == "sweep" and not all(cell.get("values") for cell in self.cells):
            raise ValueError("a cell of the sweep has no `values`")
        runs = len(self.cells) * max(len(self.seeds), len(self.fresh))
        if runs > _MAX_RUNS:
            raise ValueError(
                f"{runs:,} runs are more than the {_MAX_RUNS:,} that a {self.kind} may have"
            )

    def _of_cell(self, cell: Cell, seeds: Sequence[int]) -> list[RunSpec]:
        choice = cell["config"]
        config = {**self.config, **choice, "choice": short(choice)}
        return [RunSpec(STUDY, {**config, "seed": seed}) for seed in seeds]

    def specs(
        self, labels: Iterable[str] | None = None, seeds: Sequence[int] | None = None
    ) -> list[RunSpec]:
        """Return the runs of some cells on some seeds; by default all cells and ``self.seeds``."""
        cells = self.cells if labels is None else [self._cell(label) for label in labels]
        seeds = self.seeds if seeds is None else seeds
        return [spec for cell in cells for spec in self._of_cell(cell, seeds)]

    def by_cell(self, records: Sequence[RunRecord], seeds: Sequence[int]) -> Runs:
        """Return the runs of each cell in the order of the seeds, without missing ones."""
        runs = {(record.config["choice"], record.config["seed"]): record for record in records}
        grouped: dict[str, list[RunRecord]] = {}
        for cell in self.cells:
            choice = short(cell["config"])
            grouped[cell["label"]] = [runs[choice, s] for s in seeds if (choice, s) in runs]
        return grouped

    def write(self, folder: Path) -> None:
        """Write ``comparison.json`` into a folder."""
        content = fields.seal({"format": _FORMAT, **vars(self)})
        _PLAN(content, "")  # what cannot be read again must not be lost later
        try:
            make_folder(folder)
            write_text(folder / FILE, f"{json.dumps(content, indent=1, allow_nan=False)}\n")
        except OSError as error:
            raise StoreError(
                f"Could not write {folder / FILE}: {error.strerror or error}. Finished runs are "
                "kept: free some space and run the same command again."
            ) from error

    @classmethod
    def read(cls, folder: Path) -> "TrialTable":
        """Read ``comparison.json`` from a folder.

        Raises:
            CheckpointError: If it cannot be read.
        """
        plan: dict[str, Any] = read_fields(folder / FILE, _PLAN, what="the plan of a comparison")
        del plan["format"]
        for name in ("seeds", "cells", "fresh"):
            plan[name] = tuple(plan.get(name, ()))
        try:
            return cls(**plan)
        except ValueError as error:
            raise CheckpointError(folder / FILE, f"cannot be used: {error}.") from error

    def _cell(self, label: str) -> Cell:
        return next(cell for cell in self.cells if cell["label"] == label)


def store_of(folder: Path) -> StudyStore:
    """Return the store of the runs in a folder."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is not a folder: choose another --folder.")
    return StudyStore(folder / STUDY, STUDY)


def stored(folder: Path) -> Fetch:
    """Return a function that returns runs from the store of a folder, and executes none."""
    reported: set[str] = set()

    def fetch(specs: Sequence[RunSpec], title: str) -> list[RunRecord]:  # noqa: ARG001
        loaded = store_of(folder).load(specs)
        if damaged := set(loaded.damaged) - reported:
            reported.update(damaged)
            _log.warning(
                "%s: %d damaged %s left out: %s. Repeat the command that made them.",
                folder,
                len(damaged),
                "run is" if len(damaged) == 1 else "runs are",
                ", ".join(sorted(damaged)[:5]),
            )
        return [loaded.records[spec.key] for spec in specs if spec.key in loaded.records]

    return fetch
