"""Runs over processes of this machine, as they finish."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from gensmooth.studies.registry import find_study
from gensmooth.studies.spec import RunRecord, RunSpec

Finished = tuple[RunSpec, RunRecord]

_IN_FLIGHT = 3  # runs handed to each worker ahead of time


class Job(NamedTuple):
    """A run to be made.

    Attributes:
        spec: The run.
        scratch: A folder of its own that it may use meanwhile.
        study: Where a worker finds the study, if not by its name: ``module:NAME``.
    """

    spec: RunSpec
    scratch: Path
    study: str = ""


def execute(job: Job) -> RunRecord:
    """Make a run, here."""
    return find_study(job.study or job.spec.study).execute(job.spec.config, job.scratch)


def here(jobs: Sequence[Job]) -> Generator[Finished]:
    """Runs one after the other, in this process."""
    for job in jobs:
        yield job.spec, execute(job)


def over_processes(jobs: Sequence[Job], workers: int) -> Generator[Finished]:
    """Runs as they finish, over so many processes.

    Whoever stops asking (or is killed) stops the workers: a run in flight ends at once, and what
    it has in its scratch folder is all that is left of it.
    """
    # spawn: a forked copy of a process with threads (ours, or a notebook's) may deadlock
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, initializer=_prepare, initargs=(watched,))
    try:
        waiting = iter(jobs)
        running: dict[Future[RunRecord], RunSpec] = {}
        while True:
            while len(running) < workers * _IN_FLIGHT and (job := next(waiting, None)):
                running[pool.submit(execute, job)] = job.spec
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
        held.close()
        pool.shutdown(wait=True, cancel_futures=True)
        watched.close()


def _prepare(watched: Connection) -> None:
    """A worker leaves Ctrl-C to its parent, uses one thread, and does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_one_thread()

    def watch() -> None:
        # Only the parent holds the other end: that it closes means that we are not wanted. A
        # worker that went on would write to the same scratch folder as its successor.
        try:
            watched.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def use_one_thread() -> None:
    """Libraries use one thread: the cores are shared out to the runs."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
