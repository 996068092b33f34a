"""Run one study: execute the missing runs, then conclude."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gensmooth.lab.experiments.options import GridOptions, Options
from gensmooth.lab.experiments.progress import Say
from gensmooth.lab.experiments.registry import find_study
from gensmooth.lab.experiments.runner import Completed, Runner
from gensmooth.lab.experiments.spec import Claim, Outcome, RunSpec, Study
from gensmooth.lab.experiments.store import StoreError, StudyStore
from gensmooth.lab.report.tables import Cell


def run_study(
    name: str,
    options: Options,
    folder: Path,
    *,
    workers: int | None = 1,
    ray: str | None = None,
    piece: tuple[int, int] | None = None,
    make: bool = True,
    claims: Sequence[Claim] = (),
    say: Say = print,
) -> Outcome | None:
    """Run a study to its end: grid search, reporting runs, conclusions.

    Args:
        name: The study: one of the paper's, or ``module:NAME`` of a custom study.
        options: Its options.
        folder: Where its runs are stored; finished runs are not repeated.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: Run on Ray instead: an address, ``"auto"`` or ``"local"``.
        piece: ``(i, n)``: execute only the i-th of n equal parts of the runs, as one of n machines.
        make: Whether to execute missing runs. Otherwise the outcome is about those that exist.
        claims: Additional claims to judge; those about other studies are ignored.
        say: Prints a line for the user.

    Returns:
        The outcome; ``None`` if other pieces of the study, or of its grid search, are missing, and
        it can be concluded only when complete.
    """
    study = find_study(name)
    if not isinstance(options, study.options):
        raise TypeError(
            f"The options of {study.name} are {study.options.__name__}, not "
            f"{type(options).__name__}."
        )
    if isinstance(options, GridOptions):
        options = _with_hyperparameters(study, options)
    device = study.device(options)
    if study.alone:
        workers, ray = 1, None
    store = StudyStore(folder, study.name)
    runner = Runner(
        study.name,
        store,
        workers,
        ray,
        say,
        reference=name,
        cost=study.cost,
        piece=piece,
        make=make,
        others={},
        together=device is not None,
    )
    began = time.time()
    tuning = study.tuning(options)
    first = runner.complete(tuning, f"{study.name}: grid search")
    if piece and len(first.records) < len(tuning):
        return _incomplete(study.name, "grid search", say)
    if not make and study.gather is None:
        _require(first, len(tuning), study.name)
    cells = study.select(options, first.records)
    specs = study.reporting(options, cells)
    second = runner.complete(specs, f"{study.name}: runs")
    if not make:
        second = _existing(study, options, runner.store, cells, second, wanted=len(specs))
    elif study.gather is None and len(second.records) < len(specs):
        return _incomplete(study.name, "study", say)
    outcome = study.conclude(options, second.records, cells)
    facts = {
        "runs": len(first.records) + len(second.records),
        "runs made now": first.made + second.made,
        "seconds of computing": round(sum(r.seconds for r in (*first.records, *second.records)), 1),
        "seconds of this call": round(time.time() - began, 1),
        "workers": "Ray" if ray else device or workers,
    }
    added = [c.judge(outcome.scores, cells) for c in claims if c.study == study.name]
    return replace(outcome, claims=[*outcome.claims, *added], facts={**outcome.facts, **facts})


def expected_runs(study: Study[Any], options: Options) -> tuple[list[RunSpec], list[RunSpec]]:
    """Return the runs of the grid search, and those to report, before anything is run.

    The choices of a grid search are not known yet, so the runs to report have the paper's: they
    are as many and as long. A setting for which the paper gives no choice is missing.
    """
    if not isinstance(options, GridOptions):
        return study.tuning(options), study.reporting(options, study.select(options, []))
    options = _with_hyperparameters(study, options)
    of_paper = replace(options, hyperparameters="paper")
    return study.tuning(options), study.reporting(of_paper, study.select(of_paper, []))


def _with_hyperparameters(study: Study[Any], options: GridOptions) -> GridOptions:
    """Return the options with the profile's way to get hyperparameters, if none was chosen."""
    if options.hyperparameters is not None:
        return options
    how = "search" if options.profile in study.searched else "paper"
    return replace(options, hyperparameters=how)


def _incomplete(name: str, part: str, say: Say) -> None:
    say(
        f"{name}: this piece of the {part} is done, but other pieces are missing. Copy the `runs` "
        "folders of all pieces together, then run the same command without --piece."
    )


def _existing(
    study: Study[Any],
    options: Options,
    store: StudyStore,
    cells: Sequence[Cell],
    loaded: Completed,
    wanted: int,
) -> Completed:
    """Return the existing runs, for a report without new ones."""
    if study.gather is not None:
        return Completed(study.gather(options, cells, list(store.everything().records.values())), 0)
    _require(loaded, wanted, study.name)
    return loaded


def _require(loaded: Completed, wanted: int, name: str) -> None:
    """Raise an error if runs are missing of a study that is only reported as a whole."""
    if len(loaded.records) < wanted:
        raise StoreError(
            f"{wanted - len(loaded.records)} of {wanted} runs of {name} are missing, and it "
            "can only be reported complete. Leave out --no-run to make them."
        )
