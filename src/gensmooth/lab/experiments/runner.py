"""Execute the missing runs on workers; each is stored as soon as it has finished."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from gensmooth.evaluators import cores
from gensmooth.lab.experiments.progress import Say, Shares, TimeLeft, duration, progress
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.experiments.store import Loaded, StudyStore
from gensmooth.lab.experiments.workers import (
    Finished,
    Job,
    here,
    over_processes,
    over_ray,
    side_by_side,
)

Cost = Callable[[Mapping[str, Any]], float] | None

MANY = 10  # runs: a message announces more


class Completed(NamedTuple):
    """The runs that exist.

    Attributes:
        records: Their records.
        made: How many of them this call executed.
    """

    records: list[RunRecord]
    made: int


class Runner(NamedTuple):
    """Executes the missing runs of a study.

    Attributes:
        study: The study's name.
        store: Where its runs are kept.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: A cluster's address, ``"auto"``, ``"local"``, or ``None`` for processes.
        say: Prints a line for the user.
        reference: Where a worker finds a custom study: ``module:NAME``.
        function: Instead of a study, the function that executes a run, pickled by cloudpickle.
        cost: About how many seconds a run takes, if known.
        piece: ``(i, n)``: only the i-th of n equal parts of the runs.
        make: Whether to execute the missing runs.
        others: The stores of runs that belong to other studies.
        together: Whether runs share a device, and are executed in threads of this process.
    """

    study: str
    store: StudyStore
    workers: int | None
    ray: str | None
    say: Say
    reference: str = ""
    function: bytes = b""
    cost: Cost = None
    piece: tuple[int, int] | None = None
    make: bool = True
    others: dict[str, StudyStore] | None = None
    together: bool = False

    def complete(self, specs: Sequence[RunSpec], title: str) -> Completed:
        """Return the records of some runs, in the order of the specs."""
        loaded = self._load(specs)
        if loaded.damaged:
            self.say(
                f"{title}: {len(loaded.damaged)} damaged "
                f"{'record' if len(loaded.damaged) == 1 else 'records'} "
                f"{'will be made again' if self.make else 'left out'}: "
                f"{', '.join(loaded.damaged[:5])}{'…' if len(loaded.damaged) > 5 else ''}"
            )
        records = dict(loaded.records)
        ours = _in_order(self.cost, specs)
        if self.piece is not None:
            ours = ours[self.piece[0] - 1 :: self.piece[1]]
        missing = [spec for spec in ours if spec.key not in records] if self.make else []
        if self.make and len(missing) < len(ours):
            stored = f"{len(ours) - len(missing)} of {len(ours)} runs are stored"
            self.say(f"{title}: {stored}{'' if missing else ', so nothing is run'}.")
        for spec, record in self._make_runs(missing, title, len(ours)) if missing else ():
            records[spec.key] = record
        return Completed([records[s.key] for s in specs if s.key in records], len(missing))

    def _load(self, specs: Sequence[RunSpec]) -> Loaded:
        records: dict[str, RunRecord] = {}
        damaged: list[str] = []
        for name in dict.fromkeys(spec.study for spec in specs):
            here = [spec for spec in specs if spec.study == name]
            loaded = self._store(here[0]).load(here)
            records |= loaded.records
            damaged += loaded.damaged
        return Loaded(records, damaged)

    def _store(self, spec: RunSpec) -> StudyStore:
        """Return the store of the study that a run belongs to, which may be another study."""
        if spec.study == self.study:
            return self.store
        others = {} if self.others is None else self.others
        if spec.study not in others:
            folder = self.store.folder.parent / spec.study
            others[spec.study] = StudyStore(folder, spec.study)
        return others[spec.study]

    def _job(self, spec: RunSpec) -> Job:
        ours = spec.study == self.study
        reference, function = (self.reference, self.function) if ours else ("", b"")
        return Job(spec, self._store(spec).scratch(spec), reference, function)

    def _make_runs(self, missing: Sequence[RunSpec], title: str, total: int) -> Generator[Finished]:
        costs = {spec.key: _cost(self.cost, spec) for spec in missing}
        jobs = [self._job(spec) for spec in missing]
        time_left: TimeLeft | Shares
        if self.together:
            time_left = Shares(costs)
            at_a_time, runs = side_by_side(jobs, self.workers, time_left.tell)
        else:
            at_a_time, runs = _start(jobs, self.workers, self.ray)
            time_left = TimeLeft(sum(costs.values()), at_a_time)
        if len(missing) > MANY:
            # Costs are for one core each, so they say nothing about runs that share a device.
            seconds = sum(costs.values()) / at_a_time if self.cost and not self.together else 0.0
            how_long = f"about {duration(seconds)}" if seconds else "the time left is shown below"
            self.say(
                f"{title}: {len(missing)} runs, {at_a_time} at a time on {on_cores()}; "
                f"{how_long}. You can stop it at any time; the same command continues."
            )
        done = total - len(missing)
        bar = progress(title, total=total, done=done, time_left=time_left, say=self.say)
        with closing(runs), bar as tick:
            for spec, record in runs:
                self._store(spec).save(spec, record)
                if isinstance(time_left, TimeLeft):
                    time_left.add(costs[spec.key], record.seconds)
                tick()
                yield spec, record


def _in_order(cost: Cost, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Sort runs, the longest first, so that no worker ends long after the others.

    Runs of equal (or unknown) length are sorted by their hashes, which is as good as random, so
    that the finished runs of an interrupted study are a fair sample.
    """
    by_key = {spec.key: spec for spec in specs}
    return sorted(by_key.values(), key=lambda spec: (-_cost(cost, spec), spec.key))


def _cost(cost: Cost, spec: RunSpec) -> float:
    return cost(spec.config) if cost else 1.0


def on_cores() -> str:
    """Return the number of cores in words."""
    return f"{cores()} core{'s' * (cores() != 1)}"


def _start(
    jobs: Sequence[Job], workers: int | None, ray: str | None
) -> tuple[int, Generator[Finished]]:
    """Return how many runs are executed at a time, and the runs as they finish."""
    if ray is not None:
        return over_ray(jobs, ray, workers)
    workers = min(workers or 1, len(jobs))
    return workers, here(jobs) if workers == 1 else over_processes(jobs, workers)
