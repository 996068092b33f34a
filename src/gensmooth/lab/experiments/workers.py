"""Executes runs and returns each as it finishes: in this process, in several, or on Ray."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from gensmooth._version import __version__
from gensmooth.evaluators.ray import RayConnection, connect
from gensmooth.lab.experiments.progress import listen
from gensmooth.lab.experiments.registry import find_study
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.runs.files import make_folder

Finished = tuple[RunSpec, RunRecord]
Tell = Callable[[str, float], None]  # a run's key, how much of it is done

_IN_FLIGHT = 3  # runs submitted for each process, including the one that it executes
_LAST_CHECKPOINT = 10.0  # seconds that a worker has to write a checkpoint if its parent is gone
_MAX_THREADS = 1024  # runs that share a device at a time
_IN_FLIGHT_RAY = 2  # tasks submitted to the cluster for each one that can run at once
_TRIES = 5  # how many times a run is repeated elsewhere if its node or worker is lost


class Job(NamedTuple):
    """A run to be executed.

    Attributes:
        spec: The run.
        scratch: A folder that this run may use until it has finished.
        study: Where a worker finds a custom study: ``module:NAME``.
        function: Instead of a study, the function that executes the run. It is pickled by
            cloudpickle, because it may hold a lambda.
    """

    spec: RunSpec
    scratch: Path
    study: str = ""
    function: bytes = b""


def execute(job: Job) -> RunRecord:
    """Execute a run in this process."""
    if job.function:
        return cloudpickle.loads(job.function)(job.spec.config, job.scratch)
    return find_study(job.study or job.spec.study).execute(job.spec.config, job.scratch)


def here(jobs: Sequence[Job]) -> Generator[Finished]:
    """Execute runs one after the other in this process."""
    for job in jobs:
        yield job.spec, execute(job)


def side_by_side(
    jobs: Sequence[Job], at_a_time: int | None, tell: Tell
) -> tuple[int, Generator[Finished]]:
    """Execute runs in threads that share a device; return the number at a time, and a generator.

    ``tell`` is called with the share of each run that is done. When the caller stops iterating,
    each run in flight writes a checkpoint, and ends.
    """
    number = min(at_a_time or _MAX_THREADS, len(jobs))
    return number, _thread_runs(jobs, number, tell)


def _execute_and_tell(job: Job, tell: Tell) -> RunRecord:
    listen(partial(tell, job.spec.key))
    record = execute(job)
    tell(job.spec.key, 1.0)
    return record


def _thread_runs(jobs: Sequence[Job], number: int, tell: Tell) -> Generator[Finished]:
    from gensmooth.rl.environments.gathering import stop_all

    pool = ThreadPoolExecutor(number)
    try:
        running = {pool.submit(_execute_and_tell, job, tell): job.spec for job in jobs}
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        stop_all()
        pool.shutdown(wait=True)


def over_processes(jobs: Sequence[Job], workers: int) -> Generator[Finished]:
    """Execute runs in processes, and yield each as it finishes.

    When the caller stops iterating (or is killed), the workers stop: a run in flight writes a last
    checkpoint to its scratch folder, if it uses one, and ends.
    """
    # spawn: a forked copy of a process with threads (ours, or a notebook's) may deadlock
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, initializer=_prepare, initargs=(watched,))
    try:
        waiting = iter(jobs)
        running: dict[Future[RunRecord], RunSpec] = {}
        while True:
            with _interrupts_blocked():  # a process that begins inherits this
                while len(running) < workers * _IN_FLIGHT and (job := next(waiting, None)):
                    running[pool.submit(execute, job)] = job.spec
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process died: it was killed, ran out of memory, or could not start. Finished "
            "runs are kept: run the same command again, perhaps with fewer --workers."
        ) from error
    finally:
        held.close()
        pool.shutdown(wait=True, cancel_futures=True)
        watched.close()


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Delay Ctrl-C, which would also interrupt the imports of a worker that begins."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(watched: Connection) -> None:
    """Prepare a worker: it ignores Ctrl-C, uses one thread, and ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _use_one_thread()

    def watch() -> None:
        # Only the parent holds the other end, so it closes when the parent is gone. A worker that
        # went on would write to the same scratch folder as its successor.
        try:
            watched.recv_bytes()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)  # a long run writes a checkpoint
            time.sleep(_LAST_CHECKPOINT)
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _use_one_thread() -> None:  # every core has its own run
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def over_ray(
    jobs: Sequence[Job], address: str, at_a_time: int | None
) -> tuple[int, Generator[Finished]]:
    """Execute runs on Ray, one CPU each; return the number at a time, and a generator.

    Args:
        jobs: The runs.
        address: The address of a cluster; ``"auto"`` for the one that runs on this machine or that
            ``RAY_ADDRESS`` names, ``"local"`` to start one that ends with the call.
        at_a_time: CPUs to use; ``None`` for all.
    """
    connection = connect(address, num_cpus=at_a_time, log_to_driver=False)
    number = min(at_a_time or max(1, int(connection.cpus)), len(jobs))
    return number, _ray_runs(connection, jobs, number)


def _ray_runs(
    connection: RayConnection, jobs: Sequence[Job], at_a_time: int
) -> Generator[Finished]:
    ray = connection.ray
    task = ray.remote(_ray_task).options(num_cpus=1, max_retries=_TRIES)
    waiting = iter(jobs)
    running: dict[Any, RunSpec] = {}
    try:
        while True:
            while len(running) < at_a_time * _IN_FLIGHT_RAY and (job := next(waiting, None)):
                running[task.remote(job, __version__)] = job.spec
            if not running:
                return
            finished, _ = ray.wait(list(running), num_returns=1)
            for reference in finished:
                spec = running.pop(reference)
                try:
                    record = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from None
                except ray.exceptions.RayError as error:
                    raise RuntimeError(
                        f"Ray lost a run {_TRIES + 1} times ({type(error).__name__}): are its "
                        "nodes out of memory? Finished runs are kept: the same command continues."
                    ) from error
                yield spec, record
    finally:
        if not connection.ours and running:
            # Do not cancel a task that has finished meanwhile: Ray 2.60 would abort this process.
            for reference in ray.wait(list(running), num_returns=len(running), timeout=0)[1]:
                ray.cancel(reference)
        connection.close()


def _ray_task(job: Job, version: str) -> RunRecord:
    if version != __version__:
        raise RuntimeError(
            f"This node has gensmooth {__version__}, but the study was started by {version}: "
            "install the same version on every node."
        )
    _use_one_thread()
    return execute(job._replace(scratch=_usable(job.scratch)))


def _usable(scratch: Path) -> Path:
    """Return the run's folder, or a temporary one on a node that does not have that disk.

    A run that is repeated on another node finds its checkpoint only if they share the disk.
    """
    try:
        make_folder(scratch, inside=scratch.parent.parent)
    except OSError:
        return Path(tempfile.gettempdir()) / "gensmooth-partial" / scratch.name
    return scratch
