"""Run what is missing of a study, in parallel, with one progress bar, and never twice."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gensmooth.studies.pool import Finished, Job, here, over_processes
from gensmooth.studies.progress import Estimate, Say, progress
from gensmooth.studies.registry import find_study
from gensmooth.studies.spec import Cell, Options, Outcome, Record, RunSpec, Study
from gensmooth.studies.store import Store


@dataclass(frozen=True)
class Crew:
    """Who makes the runs.

    Attributes:
        workers: Processes of this machine; with Ray, runs at a time (``None``: all processors).
        ray: A Ray cluster's address, ``"auto"`` for the one that is there, ``"local"`` for one
            that is started for this call; ``None`` for processes.
    """

    workers: int | None = 1
    ray: str | None = None


def run_study(
    name: str,
    options: Options,
    folder: Path,
    *,
    workers: int | None = 1,
    ray: str | None = None,
    make: bool = True,
    say: Say = print,
) -> Outcome:
    """Run a study to its end: grid search, reporting runs, conclusions.

    Args:
        name: The study.
        options: How.
        folder: Where its runs are kept; what is there already is not run again.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: Run on Ray instead: an address, ``"auto"`` or ``"local"``.
        make: Whether to run what is missing. Otherwise the outcome is about what is there.
        say: Where to say what a user should know.
    """
    study = find_study(name)
    crew = Crew() if study.alone else Crew(workers, ray)
    store = Store(folder, name)
    began = time.time()
    first = _complete(store, study, study.tuning(options), crew, f"{name}: grid search", say, make)
    cells = study.select(options, first.records)
    specs = study.reporting(options, cells)
    second = _complete(store, study, specs, crew, f"{name}: runs", say, make)
    if not make:
        second = _found(study, options, store, cells, second, wanted=len(specs))
    outcome = study.conclude(options, second.records, cells)
    facts = {
        "runs": len(first.records) + len(second.records),
        "runs made now": first.made + second.made,
        "seconds of computing": round(sum(r.seconds for r in (*first.records, *second.records)), 1),
        "seconds of this call": round(time.time() - began, 1),
        "workers": "Ray" if crew.ray else crew.workers,
    }
    return replace(outcome, facts={**outcome.facts, **facts})


class _Completed(NamedTuple):
    records: list[Record]
    made: int


def _complete(
    store: Store,
    study: Study,
    specs: Sequence[RunSpec],
    crew: Crew,
    title: str,
    say: Say,
    make: bool,
) -> _Completed:
    """All records of some runs, making those that are missing, if they may be made."""
    loaded = store.load(specs)
    if loaded.damaged:
        say(
            f"{title}: {len(loaded.damaged)} damaged record(s) "
            f"{'will be made again' if make else 'left out'}: "
            f"{', '.join(loaded.damaged[:5])}{'…' if len(loaded.damaged) > 5 else ''}"
        )
    records = dict(loaded.records)
    missing = _in_order(study, [spec for spec in specs if spec.key not in records])
    if missing and make:
        costs = {spec.key: _cost(study, spec) for spec in missing}
        jobs = [Job(spec, store.scratch(spec)) for spec in missing]
        at_a_time, runs = _start(jobs, crew)
        estimate = Estimate(sum(costs.values()), at_a_time)
        done = len(specs) - len(missing)
        bar = progress(title, total=len(specs), done=done, estimate=estimate, say=say)
        with closing(runs), bar as tick:
            for spec, record in runs:
                store.save(spec, record)
                records[spec.key] = record
                estimate.add(costs[spec.key], record.seconds)
                tick()
    made = len(missing) if make else 0
    return _Completed([records[spec.key] for spec in specs if spec.key in records], made)


def _in_order(study: Study, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """The longest first, so that none of them is left to the end, when other workers are idle.

    Runs of equal (or unknown) length come in the order of their hashes, which is as good as
    random: what is there after an interruption is a fair sample.
    """
    by_key = {spec.key: spec for spec in specs}
    return sorted(by_key.values(), key=lambda spec: (-_cost(study, spec), spec.key))


def _cost(study: Study, spec: RunSpec) -> float:
    return study.cost(spec.config) if study.cost else 1.0


def _start(jobs: Sequence[Job], crew: Crew) -> tuple[int, Generator[Finished]]:
    """How many runs will be at work at a time, and the runs as they finish."""
    if crew.ray is not None:
        from gensmooth.studies.cluster import over_ray

        return over_ray(jobs, crew.ray, crew.workers)
    workers = min(crew.workers or 1, len(jobs))
    return workers, here(jobs) if workers == 1 else over_processes(jobs, workers)


def _found(
    study: Study,
    options: Options,
    store: Store,
    cells: Sequence[Cell],
    loaded: _Completed,
    wanted: int,
) -> _Completed:
    """What a report without further runs is about."""
    if study.gather is not None:
        return _Completed(
            study.gather(options, cells, list(store.everything().records.values())), 0
        )
    if len(loaded.records) < wanted:
        raise RuntimeError(
            f"{wanted - len(loaded.records)} of {wanted} runs of {study.name} are missing, and it "
            "is reported complete or not at all: leave out --no-run, and they will be made."
        )
    return loaded
