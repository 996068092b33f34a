"""Runs as tasks of a Ray cluster. Ray is imported when used, and untyped: all of it is ``Any``."""

import os
import socket
import tempfile
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gensmooth._version import __version__
from gensmooth.studies.pool import Finished, Job, execute, use_one_thread
from gensmooth.studies.spec import RunRecord, RunSpec

_TRIES = 5  # a run whose node or worker is lost is made again, elsewhere, so many times
_AHEAD = 2  # tasks handed to the cluster for each that can run


def over_ray(
    jobs: Sequence[Job], address: str, at_a_time: int | None
) -> tuple[int, Generator[Finished]]:
    """Runs as they finish, one processor each, and how many are made at a time.

    Args:
        jobs: The runs.
        address: Of a cluster; ``"auto"`` for the one that runs here or that ``RAY_ADDRESS``
            names, ``"local"`` for one of this machine that ends with the call.
        at_a_time: Processors to use; ``None`` for all.
    """
    ray = _imported()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address, at_a_time)
    processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    number = min(at_a_time or processors, len(jobs))
    return number, _runs(ray, jobs, number, ours=ours)


def _runs(ray: Any, jobs: Sequence[Job], at_a_time: int, *, ours: bool) -> Generator[Finished]:
    task = ray.remote(_task).options(num_cpus=1, max_retries=_TRIES)
    waiting = iter(jobs)
    running: dict[Any, RunSpec] = {}
    try:
        while True:
            while len(running) < at_a_time * _AHEAD and (job := next(waiting, None)):
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
                        "nodes out of memory? What is finished is kept: the same command goes on."
                    ) from error
                yield spec, record
    finally:
        if ours:
            ray.shutdown()
        else:  # not what has finished meanwhile: Ray 2.60 would abort this process
            for reference in (
                ray.wait(list(running), num_returns=len(running), timeout=0)[1] if running else ()
            ):
                ray.cancel(reference)


def _task(job: Job, version: str) -> RunRecord:
    """One run, in a worker of the cluster."""
    if version != __version__:
        raise RuntimeError(
            f"This node has gensmooth {__version__}, but the study was started by {version}: "
            "install the same version on every node."
        )
    use_one_thread()
    return execute(job._replace(scratch=_usable(job.scratch)))


def _usable(scratch: Path) -> Path:
    """The run's folder, or, on a node that does not have that disk, one of the node's own.

    A run that is retried on another node finds its checkpoint only where the disk is shared.
    """
    try:
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / "gensmooth-partial" / scratch.name
    return scratch


def _imported() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError("--ray needs Ray: pip install 'gensmooth[ray]'", name="ray") from error


def _connect(ray: Any, address: str, processors: int | None) -> None:
    # Ray would otherwise copy the working directory to every node when started through uv.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        options |= {"num_cpus": processors, "include_dashboard": False}
    try:
        _knock(address)
        ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise RuntimeError(
            f"Could not connect to Ray at {address!r} ({error}): start a cluster with `ray start "
            "--head`, give its address, or use --ray local."
        ) from None


def _knock(address: str) -> None:
    """Whether somebody is there; Ray itself would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
