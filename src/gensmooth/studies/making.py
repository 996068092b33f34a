"""Making runs: those that are missing, over workers, each kept as soon as it is finished."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from gensmooth.studies.progress import Say, Shares, TimeLeft, progress
from gensmooth.studies.spec import RunRecord, RunSpec
from gensmooth.studies.store import Loaded, StudyStore
from gensmooth.studies.workers import Finished, Job, here, over_processes, over_ray, side_by_side

Cost = Callable[[Mapping[str, Any]], float] | None

_LONG = 1.0  # hours: what takes longer is said before it begins


class Completed(NamedTuple):
    """Runs that are there.

    Attributes:
        records: Their records.
        made: How many of them were made now.
    """

    records: list[RunRecord]
    made: int


class Maker(NamedTuple):
    """Makes the runs of a study that are missing, if they may be made.

    Attributes:
        study: The study's name.
        store: Where its runs are kept.
        workers: Processes; with Ray, runs at a time, and ``None`` for all of its processors.
        ray: A cluster's address, ``"auto"``, ``"local"``, or ``None`` for processes.
        say: Where to say what a user should know.
        reference: Where a worker finds the study, if not by its name: ``module:NAME``.
        maker: Or what makes a run, by cloudpickle.
        cost: About how many seconds a run takes, if that is known.
        piece: ``(i, n)``: only the i-th of n equal parts of the runs.
        make: Whether to make what is missing.
        others: Where runs are that belong to other studies.
        together: Whether runs are made in the threads of this process, for a device that they
            share.
    """

    study: str
    store: StudyStore
    workers: int | None
    ray: str | None
    say: Say
    reference: str = ""
    maker: bytes = b""
    cost: Cost = None
    piece: tuple[int, int] | None = None
    make: bool = True
    others: dict[str, StudyStore] | None = None
    together: bool = False

    def complete(self, specs: Sequence[RunSpec], title: str) -> Completed:
        """The records of some runs, in their order."""
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
        for spec, record in self._made(missing, title, len(ours)) if missing else ():
            records[spec.key] = record
        return Completed([records[s.key] for s in specs if s.key in records], len(missing))

    def _load(self, specs: Sequence[RunSpec]) -> Loaded:
        records: dict[str, RunRecord] = {}
        damaged: list[str] = []
        for name in dict.fromkeys(spec.study for spec in specs):
            here = [spec for spec in specs if spec.study == name]
            found = self._store(here[0]).load(here)
            records |= found.records
            damaged += found.damaged
        return Loaded(records, damaged)

    def _store(self, spec: RunSpec) -> StudyStore:
        """Where a run is kept: with its own study, from which this one may borrow it."""
        if spec.study == self.study:
            return self.store
        others = {} if self.others is None else self.others
        if spec.study not in others:
            folder = self.store.folder.parent / spec.study
            others[spec.study] = StudyStore(folder, spec.study)
        return others[spec.study]

    def _job(self, spec: RunSpec) -> Job:
        own = spec.study == self.study
        reference, maker = (self.reference, self.maker) if own else ("", b"")
        return Job(spec, self._store(spec).scratch(spec), reference, maker)

    def _made(self, missing: Sequence[RunSpec], title: str, total: int) -> Generator[Finished]:
        costs = {spec.key: _cost(self.cost, spec) for spec in missing}
        jobs = [self._job(spec) for spec in missing]
        time_left: TimeLeft | Shares
        if self.together:
            time_left = Shares(costs)
            at_a_time, runs = side_by_side(jobs, self.workers, time_left.tell)
        else:
            at_a_time, runs = _start(jobs, self.workers, self.ray)
            time_left = TimeLeft(sum(costs.values()), at_a_time)
        hours = sum(costs.values()) / at_a_time / 3600
        if self.cost and hours > _LONG:
            how = f"roughly {hours:.0f} hours with {at_a_time} at a time"
            if self.together:  # costs are those of a core: how long it takes, the runs will tell
                how = f"{at_a_time} side by side"
            self.say(
                f"{title}: {len(missing)} runs, {how}. It may be stopped at any time, and goes on "
                "with the same command."
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
    """The longest first, so that none of them is left to the end, when other workers are idle.

    Runs of equal (or unknown) length come in the order of their hashes, which is as good as
    random: what is there after an interruption is a fair sample.
    """
    by_key = {spec.key: spec for spec in specs}
    return sorted(by_key.values(), key=lambda spec: (-_cost(cost, spec), spec.key))


def _cost(cost: Cost, spec: RunSpec) -> float:
    return cost(spec.config) if cost else 1.0


def _start(
    jobs: Sequence[Job], workers: int | None, ray: str | None
) -> tuple[int, Generator[Finished]]:
    """How many runs will be at work at a time, and the runs as they finish."""
    if ray is not None:
        return over_ray(jobs, ray, workers)
    workers = min(workers or 1, len(jobs))
    return workers, here(jobs) if workers == 1 else over_processes(jobs, workers)
