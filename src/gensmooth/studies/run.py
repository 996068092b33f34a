"""Run what is missing of a study, in parallel, with one progress bar, and never twice."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gensmooth.studies.registry import find_study
from gensmooth.studies.spec import Options, Outcome, Record, RunSpec
from gensmooth.studies.store import Store

Say = Callable[[str], None]

_IN_FLIGHT = 3  # runs handed to each worker ahead of time


def run_study(
    name: str, options: Options, folder: Path, *, workers: int = 1, say: Say = print
) -> Outcome:
    """Run a study to its end: grid search, reporting runs, conclusions.

    Args:
        name: The study.
        options: How.
        folder: Where its runs are kept; what is there already is not run again.
        workers: Processes.
        say: Where to say what a user should know.
    """
    study = find_study(name)
    workers = 1 if study.alone else workers
    store = Store(folder, name)
    began = time.time()
    tuning = study.tuning(options)
    first = _complete(store, tuning, workers, f"{name}: grid search", say)
    cells = study.select(options, first.records)
    second = _complete(store, study.reporting(options, cells), workers, f"{name}: runs", say)
    outcome = study.conclude(options, second.records, cells)
    facts = {
        "runs": len(first.records) + len(second.records),
        "runs made now": first.made + second.made,
        "seconds of computing": round(sum(r.seconds for r in (*first.records, *second.records)), 1),
        "seconds of this call": round(time.time() - began, 1),
        "workers": workers,
    }
    return replace(outcome, facts={**outcome.facts, **facts})


class _Completed:
    def __init__(self, records: list[Record], made: int) -> None:
        self.records = records
        self.made = made


def _complete(
    store: Store, specs: Sequence[RunSpec], workers: int, title: str, say: Say
) -> _Completed:
    """All records of some runs, making those that are missing."""
    loaded = store.load(specs)
    if loaded.damaged:
        say(
            f"{title}: {len(loaded.damaged)} damaged record(s) will be made again: "
            f"{', '.join(loaded.damaged[:5])}{'…' if len(loaded.damaged) > 5 else ''}"
        )
    records = dict(loaded.records)
    by_key = {spec.key: spec for spec in specs if spec.key not in records}
    # In the order of the hashes, which is as good as random: long and short runs are mixed, so
    # that the time left is told honestly and no worker is left alone with the long ones.
    missing = [by_key[key] for key in sorted(by_key)]
    if missing:
        with _progress(title, total=len(specs), done=len(specs) - len(missing), say=say) as tick:
            for spec, record in _execute_all(missing, workers):
                store.save(spec, record)
                records[spec.key] = record
                tick()
    return _Completed([records[spec.key] for spec in specs], len(missing))


def _execute_all(specs: Sequence[RunSpec], workers: int) -> Iterator[tuple[RunSpec, Record]]:
    """Runs as they finish."""
    if workers == 1:
        for spec in specs:
            yield spec, _execute(spec.study, spec.config)
        return
    # spawn: a forked copy of a process with threads (ours, or a notebook's) may deadlock
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_quiet)
    try:
        waiting = iter(specs)
        running: dict[Future[Record], RunSpec] = {}
        while True:
            while len(running) < workers * _IN_FLIGHT and (spec := next(waiting, None)):
                running[pool.submit(_execute, spec.study, spec.config)] = spec
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process died: killed, out of memory, or it could not start. What is finished "
            "is kept: run the same command again, perhaps with fewer --workers."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _execute(study: str, config: Mapping[str, Any]) -> Record:
    return find_study(study).execute(config)


def _quiet() -> None:
    """A worker leaves Ctrl-C to its parent, and its libraries use one thread."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@contextmanager
def _progress(title: str, *, total: int, done: int, say: Say) -> Generator[Callable[[], None]]:
    """One bar on a terminal; elsewhere a line now and then."""
    if not sys.stderr.isatty():
        count, last = done, time.time()
        began = last

        def tick() -> None:
            nonlocal count, last
            count += 1
            now = time.time()
            if count == total or now - last > 15:
                last = now
                left = (now - began) / (count - done) * (total - count)
                say(f"{title}: {count} of {total}, about {left:.0f} s to go")

        yield tick
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda: progress.advance(task)
