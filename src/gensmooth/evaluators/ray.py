"""Evaluation in Ray actors, on many machines or on this one.

Ray is imported on first use. It is untyped here: all of its objects are ``Any``.
"""

import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from gensmooth import checks
from gensmooth.evaluators.base import WorkerError
from gensmooth.evaluators.objective import end_fork
from gensmooth.evaluators.session import (
    Event,
    Lost,
    PoolEvaluator,
    Ready,
    Refused,
    StepReceived,
    WorkerHandle,
    WorkerPool,
    is_process_computing,
)
from gensmooth.evaluators.worker import Answer, Array, Step, Worker

_EXIT_SECONDS = 1.0  # time for an actor to exit
_GONE_SECONDS = 20.0  # time for the kernel to end a killed process; long, for busy machines
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_STEP_SECONDS = 10.0  # the least time that an actor has to receive a step
_MAX_SINGLE_POLL = 16  # pending answers; with more, it pays off to poll for several at once


@final
class Ray(PoolEvaluator["RayPool"]):
    """Evaluates in Ray actors, on a cluster or on this machine.

    Each actor receives the objective once and x once per step, and creates its own points. A
    machine fetches x once for all its actors. A lost actor is replaced as soon as the cluster has
    room. An actor that exceeds ``timeout`` is killed and replaced.

    As a context manager, the evaluator keeps its actors for several runs; see :class:`Processes`.

    Args:
        address: The address of a cluster, such as ``"auto"`` or ``"ray://head:10001"``. By default,
            the cluster that this program is connected to or that ``RAY_ADDRESS`` names. If there is
            none, or the address is ``"local"``, a cluster is started on this machine and stopped
            afterwards. An existing connection always takes precedence.
        num_workers: The number of actors; by default one per CPU of the cluster.
        timeout: The time limit in seconds for one evaluation (one block, for a vectorised
            objective).
        retries: How often a failed evaluation is retried, with the same seeds.
        actor_options: Ray's options for each actor, such as ``{"num_gpus": 0.5}``; by default one
            CPU each.
        start_timeout: The time limit in seconds for the first actor to start and, with a
            ``timeout``, for an actor on another machine to receive its first step. After that, an
            actor has twice the ``timeout`` to receive a step, and at least 10 s.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_workers: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
        actor_options: Mapping[str, Any] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        super().__init__(timeout, retries, start_timeout)
        self.address = checks.optional(checks.text, "address", address)
        self.num_workers = checks.optional(checks.count, "num_workers", num_workers)
        self.actor_options = {
            "num_cpus": 1,
            **checks.mapping("actor_options", {} if actor_options is None else actor_options),
        }

    def __repr__(self) -> str:
        return (
            f"Ray({self.address!r}, num_workers={self.num_workers}, timeout={self.timeout}, "
            f"retries={self.retries})"
        )

    def _new_pool(self) -> "RayPool":
        return RayPool(
            self.address,
            num_workers=self.num_workers,
            actor_options=self.actor_options,
            start_timeout=self.start_timeout,
            timeout=self.timeout,
        )


class RayConnection(NamedTuple):
    """The Ray module, and whether this object owns the connection.

    Attributes:
        ray: The module.
        ours: Whether :func:`connect` made the connection, so that :meth:`close` must end it.
        on_sigterm: The SIGTERM handlers before and after connecting.
    """

    ray: Any
    ours: bool
    on_sigterm: tuple[Any, Any] = (None, None)

    @property
    def cpus(self) -> float:
        """The number of CPUs in the cluster."""
        return float(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """End the connection if it is ours, which also stops a cluster that was started for it."""
        if self.ours:
            self.ray.shutdown()
            before, ray_handler = self.on_sigterm
            if (
                before not in (ray_handler, None)
                and signal.getsignal(signal.SIGTERM) is ray_handler
            ):
                with suppress(ValueError):  # not in the main thread
                    signal.signal(signal.SIGTERM, before)


def connect(
    address: str | None = None, *, num_cpus: int | None = None, log_to_driver: bool = True
) -> RayConnection:
    """Connect to Ray, unless this program is already connected.

    Args:
        address: The address of a cluster. ``"auto"`` is the cluster that runs here or that
            ``RAY_ADDRESS`` names; ``"local"`` starts one on this machine; ``None`` is the cluster
            that ``RAY_ADDRESS`` names, or else ``"local"``.
        num_cpus: The number of CPUs of a cluster that is started here; by default all.
        log_to_driver: Whether to show the output of actors and tasks.

    Raises:
        ImportError: If Ray is not installed.
        WorkerError: If the connection fails or the local cluster cannot start.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ImportError(
            "Ray is required but not installed: pip install 'gensmooth[ray]'", name="ray"
        ) from error
    if ray.is_initialized():
        return RayConnection(ray, ours=False)
    # Ray would otherwise copy the working directory to every node when started through uv.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": log_to_driver, "logging_level": "ERROR"}
    if address == "local":
        options |= {"num_cpus": num_cpus, "include_dashboard": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        _check_listening(address)
        ray.init(address=address, **options)
    except Exception as error:  # Ray raises a plain `Exception` if the start takes too long
        what = f"({_in_short(error)})"
        if address == "local":
            raise WorkerError(
                f"Could not start Ray on this machine {what}. If the machine is busy, try again "
                "later; or start a cluster with `ray start --head` and pass the address 'auto'."
            ) from None
        raise WorkerError(
            f"Could not connect to Ray at {address!r} {what}. Start a cluster with "
            "`ray start --head`, pass the address of a running one, or pass 'local' to start one "
            "on this machine."
        ) from None
    # Ray installs a SIGTERM handler that exits. Restore the run's handler, which writes a last
    # checkpoint.
    ray_handler = signal.getsignal(signal.SIGTERM)
    if callable(before) and ray_handler is not before:
        signal.signal(signal.SIGTERM, before)
    return RayConnection(ray, ours=True, on_sigterm=(before, ray_handler))


def _check_listening(address: str) -> None:
    """Raise ``OSError`` if nothing listens at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _in_short(error: Any) -> str:
    """The first sentence of the message: Ray's errors are a page long."""
    error = getattr(error, "cause", None) or error
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.split('. ')[0].rstrip('.')[:200]}"


@dataclass(eq=False)
class ActorHandle(WorkerHandle):
    """An actor."""

    actor: Any = field(kw_only=True)
    answers: list[Any] = field(default_factory=list[Any])  # references to its pending answers
    opening: bool = False
    step_begun: Any = None  # reference to the result of its last `step` call, kept for its error
    start: int = 0  # the first evaluation of its assignment; `since`: when it was sent
    since: float = 0.0
    node: str = ""
    process: "ProcessIdentity | None" = None
    has_stepped: bool = False  # it has received a step, and therefore loaded its kernels


@final
class RayPool(WorkerPool[ActorHandle]):
    """A pool of Ray actors, with its connection to Ray."""

    message_worth = 2e-3

    def __init__(
        self,
        address: str | None,
        *,
        num_workers: int | None,
        actor_options: Mapping[str, Any],
        start_timeout: float,
        timeout: float | None,
    ) -> None:
        self._connection = connect(address, num_cpus=num_workers)
        self._ray = self._connection.ray
        self.workers: list[ActorHandle] = []
        self.size = num_workers or max(1, int(self._connection.cpus))
        self.start_timeout = start_timeout
        self.one_by_one = timeout is not None
        self._step_timeout = min(start_timeout, max(2 * (timeout or 0.0), _STEP_SECONDS))
        self._class: Any = self._ray.remote(RayWorker).options(**actor_options)
        self._paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore
        self._steps = 0
        self._ending: list[tuple[float, ProcessIdentity]] = []  # stopped actors, and when
        self._ended_elsewhere: list[Any] = []
        # References to the data that all actors receive.
        self._payload: Any = None
        self._x: Any = None
        self._estimate: Any = None
        self._state: Any = None

    def open_session(self, payload: bytes) -> None:
        """See :meth:`WorkerPool.open_session`."""
        if self._payload is not None:
            raise RuntimeError(
                "These actors are already in use by another run. Wait for it to end, or create "
                "another gs.evaluators.Ray."
            )
        self._stop_busy()
        self._payload = self._ray.put(payload)
        for worker in self.workers:
            self._send_payload(worker)
        self.start_workers()

    def close_session(self) -> None:
        """End the session; the actors keep running."""
        self._stop_busy()
        self._payload = self._x = self._estimate = self._state = None

    def _stop_busy(self) -> None:
        for worker in [w for w in self.workers if w.answers and not w.opening]:
            self.stop(worker)

    def close(self) -> None:
        """Stop all actors, and Ray if it was started for this pool."""
        try:
            for worker in list(self.workers):
                self.stop(worker)
            end = time.monotonic() + _EXIT_SECONDS
            while self._ending and time.monotonic() < end:
                time.sleep(0.01)
                self._end_frozen()
            for _, process in self._ending:
                process.kill()
            end = time.monotonic() + _GONE_SECONDS
            while self._ending and time.monotonic() < end:
                time.sleep(0.01)
                self._end_frozen()
            if refs := self._ended_elsewhere:
                self._ray.wait(refs, num_returns=len(refs), timeout=10.0)
        finally:
            self._connection.close()

    def start_workers(self) -> None:
        """See :meth:`WorkerPool.start_workers`."""
        while len(self.workers) < self.size:
            worker = ActorHandle(actor=self._class.remote())
            self.workers.append(worker)
            self._send_payload(worker)

    def _send_payload(self, worker: ActorHandle) -> None:
        worker.ready = False
        worker.opening = True
        worker.heard = time.monotonic()
        worker.answers = [worker.actor.open.remote(self._payload, self._paths)]

    def publish(self, x: Array, estimate: Array | None) -> None:
        """See :meth:`WorkerPool.publish`."""
        self._steps += 1
        self._x = self._ray.put(x)
        self._estimate = None if estimate is None else self._ray.put(estimate)
        self._state = None

    def send_step(
        self, worker: ActorHandle, step: Step, change: Array | dict[str, Array] | None
    ) -> bool:
        """See :meth:`WorkerPool.send_step`."""
        estimate = state = None
        if isinstance(change, dict):
            if self._state is None:
                self._state = self._ray.put(change)
            state = self._state
        elif change is not None:
            estimate = self._estimate
        worker.step_begun = worker.actor.step.remote(self._steps, step, self._x, estimate, state)
        if self.one_by_one:  # an evaluation's time limit starts after the actor has its step
            worker.answers.append(worker.step_begun)
        return self.one_by_one

    def assign(self, worker: ActorHandle, start: int, stop: int) -> None:
        """See :meth:`WorkerPool.assign`."""
        worker.start, worker.since = start, time.monotonic()
        worker.answers.append(worker.actor.evaluate.remote(self._steps, start, stop))

    def receive(self, timeout: float) -> list[tuple[ActorHandle, Event]]:
        """See :meth:`WorkerPool.receive`."""
        if self._ending:
            self._end_frozen()
        awaited = {w.answers[0]: w for w in self.workers if w.answers}
        if not awaited:
            time.sleep(min(timeout, 0.01))
            return []
        arrived, rest = self._ray.wait(list(awaited), num_returns=1, timeout=timeout)
        if arrived and len(rest) > _MAX_SINGLE_POLL:
            arrived += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [(awaited[answer], self._event(awaited[answer])) for answer in arrived]

    def _event(self, worker: ActorHandle) -> Event:
        try:
            value = self._ray.get(worker.answers.pop(0))
        except self._ray.exceptions.RayTaskError as error:
            if worker.opening:
                return Refused(str(error))
            cause = self._first_cause(worker, error)
            return self._lost(worker, f"failed ({_in_short(cause)})")
        except self._ray.exceptions.RayError as error:
            return self._lost(worker, f"was lost ({_in_short(error)})")
        if worker.opening:
            worker.opening = False
            worker.node, worker.process = value
            return Ready()
        if worker.awaited:
            worker.has_stepped = True
            return StepReceived()
        return Answer(*value)

    def _first_cause(self, worker: ActorHandle, error: Exception) -> Exception:
        """The error of the actor's last ``step`` call, if it failed; otherwise ``error``."""
        try:
            self._ray.get(worker.step_begun, timeout=0)
        except Exception as cause:
            return cause
        return error

    def _lost(self, worker: ActorHandle, why: str) -> Lost:
        self.stop(worker)
        return Lost(why, began=True)

    def running(self, worker: ActorHandle) -> tuple[int, float] | None:
        """See :meth:`WorkerPool.running`."""
        return worker.start, worker.since

    def silence(self, worker: ActorHandle) -> float | None:
        """See :meth:`WorkerPool.silence`.

        A new actor may be waiting for room in the cluster. For an actor with work, it is not known
        here whether it is inside the objective, so only the time-out applies. An actor that
        receives its first step also compiles; on another machine, that cannot be seen.
        """
        if not worker.proven or worker.units:
            return None
        return self._step_timeout if worker.has_stepped or _is_here(worker) else self.start_timeout

    def is_computing(self, worker: ActorHandle) -> bool:
        """See :meth:`WorkerPool.is_computing`; known for actors on this machine only."""
        if worker.process is None or not _is_here(worker):
            return False
        return is_process_computing(worker, worker.process.pid)

    def stop(self, worker: ActorHandle) -> None:
        """See :meth:`WorkerPool.stop`."""
        if worker not in self.workers:
            return
        self.workers.remove(worker)
        self._ray.kill(worker.actor, no_restart=True)
        if worker.process is None:
            return
        if _is_here(worker):
            self._ending.append((time.monotonic(), worker.process))
        elif worker.answers:  # on another machine, and possibly frozen
            strategies = import_module("ray.util.scheduling_strategies")
            there = strategies.NodeAffinitySchedulingStrategy(worker.node, soft=False)
            task = self._ray.remote(_end_process).options(num_cpus=0, scheduling_strategy=there)
            self._ended_elsewhere.append(task.remote(worker.process))

    def _end_frozen(self) -> None:
        """Kill actors that have not exited: Ray asks them to, but a frozen actor cannot."""
        now = time.monotonic()
        self._ending = [(since, process) for since, process in self._ending if process.exists()]
        for since, process in self._ending:
            if now - since > _EXIT_SECONDS:
                process.kill()

    def hint(self) -> str:
        """See :meth:`WorkerPool.hint`."""
        return (
            f" The cluster has {self._connection.cpus:g} CPUs, and each of the {self.size} workers "
            "requests the resources in `actor_options`, by default one CPU."
        )


def _is_here(worker: ActorHandle) -> bool:
    """Whether an actor is known to run on this machine."""
    return worker.process is not None and worker.process.boot == boot_id()


class ProcessIdentity(NamedTuple):
    """Identifies a process uniquely by the machine's boot, the process id and its start time."""

    boot: str
    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """The identity of a process on this machine; ``None`` if it has ended or is unknown."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(boot_id(), pid, fields[19])

    def exists(self) -> bool:
        """Whether the process is still running on this machine."""
        return self.of(self.pid) == self

    def kill(self) -> None:
        """Kill the process if it is still running."""
        if self.exists():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


@cache
def boot_id() -> str:
    """The id of this machine's current boot; empty if the system provides none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _end_process(process: ProcessIdentity) -> None:
    """Give an actor on this machine time to exit, then kill it."""
    end = time.monotonic() + _EXIT_SECONDS
    while process.exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()


def die_with_raylet() -> None:
    """Ask the kernel to kill this process when its raylet, Ray's server on this machine, ends.

    An actor exits when it notices that its raylet is gone, but a frozen actor (one that was stopped
    by SIGSTOP) does not notice. The kernel wakes some frozen processes whose parent has ended, but
    not those that were frozen too shortly before.

    The kernel sends the signal when the *thread* that started this process ends. A raylet starts
    its workers from its main loop, so this thread lives as long as the raylet.
    """
    raylet = os.environ.get("RAY_RAYLET_PID", "")
    if sys.platform != "linux" or raylet != str(os.getppid()):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # a C library without prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if raylet != str(os.getppid()):  # the raylet ended before the call
        os._exit(1)


@final
class RayWorker:
    """The class of the actors: a worker whose methods Ray calls in order."""

    def __init__(self) -> None:
        die_with_raylet()
        self._worker: Worker | None = None
        self._step: int | None = None  # the current step, as counted by the pool
        self._loaded = False

    def open(self, payload: bytes, paths: list[str]) -> tuple[str, ProcessIdentity | None]:
        """Load a search and an objective.

        Args:
            payload: The search and the objective, pickled.
            paths: The driver's module search path, for importing what the payload refers to.

        Returns:
            The ids of this actor's node and process.
        """
        sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path or ".")]
        self._step = None
        self._loaded = False  # other directions use other kernels
        pid = os.getpid()
        try:
            self._worker = Worker(*pickle.loads(payload))
        finally:
            if os.getpid() != pid:  # a child forked while unpickling: it is not the actor
                end_fork()
        node = import_module("ray").get_runtime_context().get_node_id()
        return node, ProcessIdentity.of(os.getpid())

    def step(
        self,
        number: int,
        step: Step,
        x: Array,
        estimate: Array | None,
        state: Mapping[str, Array] | None,
    ) -> None:
        """Begin a step."""
        assert self._worker is not None
        self._step = None
        if step.context is not None:
            step = step._replace(context=np.array(step.context))
        # Copies: arrays in Ray's store are read-only, for which Numba would compile again.
        newest = None if estimate is None else np.array(estimate)
        whole = None if state is None else {name: np.array(a) for name, a in state.items()}
        self._worker.step(step, np.array(x), estimate=newest, directions=whole)
        if not self._loaded:  # otherwise loading the kernels would count as evaluation time
            self._worker.load_kernels()
            self._loaded = True
        self._step = number

    def evaluate(self, number: int, start: int, stop: int) -> tuple[Any, ...]:
        """Perform evaluations ``start … stop``."""
        assert self._worker is not None
        if number != self._step:  # `step` failed: do not evaluate the previous step's points
            raise RuntimeError("the step could not begin")
        return tuple(self._worker.evaluate(start, stop))
