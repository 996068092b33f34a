"""Run what is missing of a study, in parallel, with one progress bar, and never twice."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gensmooth.studies.progress import Say, TimeLeft, progress
from gensmooth.studies.registry import find_study
from gensmooth.studies.spec import Cell, Options, Outcome, Record, RunSpec, Study
from gensmooth.studies.store import Store
from gensmooth.studies.workers import Finished, Job, here, over_processes, over_ray

_LONG = 1.0  # hours: what takes longer is said before it begins


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
    piece: tuple[int, int] | None = None,
    make: bool = True,
    say: Say = print,
) -> Outcome | None:
    """Run a study to its end: grid search, reporting runs, conclusions.

    Args:
        name: The study.
        options: How.
        folder: Where its runs are kept; what is there already is not run again.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: Run on Ray instead: an address, ``"auto"`` or ``"local"``.
        piece: ``(i, n)``: make only the i-th of n equal parts of the runs, as one of n machines.
        make: Whether to run what is missing. Otherwise the outcome is about what is there.
        say: Where to say what a user should know.

    Returns:
        The outcome; ``None`` where a piece leaves a study, or its grid search, incomplete that
        can only be concluded complete.
    """
    study = find_study(name)
    if options.hyperparameters is None:
        how = "search" if options.profile in study.searched else "paper"
        options = replace(options, hyperparameters=how)
    crew = Crew() if study.alone else Crew(workers, ray)
    maker = _Maker(study, Store(folder, name), crew, piece, make, say)
    began = time.time()
    tuning = study.tuning(options)
    first = maker.complete(tuning, f"{name}: grid search")
    if piece and len(first.records) < len(tuning):
        return _apart(name, "grid search", say)
    cells = study.select(options, first.records)
    specs = study.reporting(options, cells)
    second = maker.complete(specs, f"{name}: runs")
    if not make:
        second = _found(study, options, maker.store, cells, second, wanted=len(specs))
    elif study.gather is None and len(second.records) < len(specs):
        return _apart(name, "study", say)
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


class _Maker(NamedTuple):
    """Makes the runs of a study that are missing, if they may be made."""

    study: Study
    store: Store
    crew: Crew
    piece: tuple[int, int] | None
    make: bool
    say: Say

    def complete(self, specs: Sequence[RunSpec], title: str) -> _Completed:
        """The records of some runs, in their order."""
        loaded = self.store.load(specs)
        if loaded.damaged:
            self.say(
                f"{title}: {len(loaded.damaged)} damaged record(s) "
                f"{'will be made again' if self.make else 'left out'}: "
                f"{', '.join(loaded.damaged[:5])}{'…' if len(loaded.damaged) > 5 else ''}"
            )
        records = dict(loaded.records)
        ours = _in_order(self.study, specs)
        if self.piece is not None:
            ours = ours[self.piece[0] - 1 :: self.piece[1]]
        missing = [spec for spec in ours if spec.key not in records] if self.make else []
        for spec, record in self._made(missing, title, len(ours)) if missing else ():
            records[spec.key] = record
        return _Completed([records[s.key] for s in specs if s.key in records], len(missing))

    def _made(self, missing: Sequence[RunSpec], title: str, total: int) -> Generator[Finished]:
        costs = {spec.key: _cost(self.study, spec) for spec in missing}
        jobs = [Job(spec, self.store.scratch(spec)) for spec in missing]
        at_a_time, runs = _start(jobs, self.crew)
        hours = sum(costs.values()) / at_a_time / 3600
        if self.study.cost and hours > _LONG:
            self.say(
                f"{title}: {len(missing)} runs, roughly {hours:.0f} hours with {at_a_time} at a "
                "time. It may be stopped at any time, and goes on with the same command."
            )
        time_left = TimeLeft(sum(costs.values()), at_a_time)
        done = total - len(missing)
        bar = progress(title, total=total, done=done, time_left=time_left, say=self.say)
        with closing(runs), bar as tick:
            for spec, record in runs:
                self.store.save(spec, record)
                time_left.add(costs[spec.key], record.seconds)
                tick()
                yield spec, record


def _apart(name: str, what: str, say: Say) -> None:
    say(
        f"{name}: this piece of the {what} is done, and others are missing. Copy the `runs` "
        "folders of all pieces together, then run the same command without --piece."
    )


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
