"""Ray actors: many machines, or this one.

Ray is imported when it is used, and untyped: everything of it is ``Any``.
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
)
from gensmooth.evaluators.worker import Answer, Array, Step, Worker

_EXIT_SECONDS = 1.0  # that an actor has to end by itself
_GONE_SECONDS = 20.0  # that the kernel has to end it; a busy machine may take a while
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_FEW = 16  # answers: with so few to wait for, asking again costs more than it finds


@final
class Ray(PoolEvaluator["RayPool"]):
    """Evaluates in Ray actors, on a cluster or on this machine.

    Each actor is sent the objective once and x once per step (a machine fetches it once for all
    of its actors), and makes its own points. An actor that is lost, alone or with its machine, is
    replaced as soon as the cluster has room; one that hangs is killed and replaced.

    Can be used as a context, to keep actors for many runs: see :class:`Processes`.

    Args:
        address: Of an existing cluster, such as ``"auto"`` or ``"ray://head:10001"``. By default
            the cluster that this program is connected to or that ``RAY_ADDRESS`` names; else one
            is started on this machine, and stopped afterwards (``"local"``: always).
        num_workers: How many actors; by default one for each CPU of the cluster.
        timeout: Seconds that one evaluation (one block, for a vectorised objective) may take.
        retries: How often a failed evaluation is tried again, with the same seeds.
        actor_options: Ray's options for each actor, such as ``{"num_gpus": 0.5}``; by default one
            CPU each.
        start_timeout: Seconds to wait for a first actor and, where there is a ``timeout``, for any
            to take a step in.
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
            one_by_one=self.timeout is not None,
        )


class RayConnection(NamedTuple):
    """Ray itself, and whether we connected to it (and are to disconnect).

    Attributes:
        ray: The module.
        ours: Whether the connection was made for us.
        on_sigterm: The handlers of SIGTERM, before and after connecting.
    """

    ray: Any
    ours: bool
    on_sigterm: tuple[Any, Any] = (None, None)

    @property
    def cpus(self) -> float:
        """The CPUs of the cluster."""
        return float(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Disconnect, if we connected; a Ray that was started for us ends."""
        if self.ours:
            self.ray.shutdown()
            before, rays = self.on_sigterm
            if before not in (rays, None) and signal.getsignal(signal.SIGTERM) is rays:
                with suppress(ValueError):  # in another thread than the main one
                    signal.signal(signal.SIGTERM, before)


def connect(
    address: str | None = None, *, num_cpus: int | None = None, log_to_driver: bool = True
) -> RayConnection:
    """Connect to Ray, unless this program is connected already.

    Args:
        address: Of a cluster; ``"auto"`` for the one that runs here or that ``RAY_ADDRESS`` names;
            ``"local"`` for one that is started on this machine; ``None`` for the one that
            ``RAY_ADDRESS`` names, else as ``"local"``.
        num_cpus: Of a Ray that is started here; by default all.
        log_to_driver: Whether to show what actors and tasks print.

    Raises:
        ImportError: When Ray is not installed.
        WorkerError: When there is no cluster at the address.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ImportError(
            "This needs Ray, which is not installed: pip install 'gensmooth[ray]'", name="ray"
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
    except Exception as error:  # of any class: Ray's own word for a late start is `Exception`
        what = f"({_in_short(error)})"
        if address == "local":
            raise WorkerError(
                f"Could not start Ray on this machine {what}. If it is busy with other things, try "
                "again when it is not; or start a cluster with `ray start --head`, and give 'auto'."
            ) from None
        raise WorkerError(
            f"Could not connect to Ray at {address!r} {what}. Start a cluster with "
            "`ray start --head`, give the address of one, or give 'local' to start one here."
        ) from None
    # Ray makes SIGTERM exit. A run's own handler, which writes a last checkpoint, comes first.
    rays = signal.getsignal(signal.SIGTERM)
    if callable(before) and rays is not before:
        signal.signal(signal.SIGTERM, before)
    return RayConnection(ray, ours=True, on_sigterm=(before, rays))


def _check_listening(address: str) -> None:
    """Whether anything listens there; Ray itself would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _in_short(error: Any) -> str:
    """The first sentence: Ray's errors are a page long."""
    error = getattr(error, "cause", None) or error
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.split('. ')[0].rstrip('.')[:200]}"


@dataclass(eq=False)
class ActorHandle(WorkerHandle):
    """An actor."""

    actor: Any = field(kw_only=True)
    answers: list[Any] = field(default_factory=list[Any])  # what it will say: references
    opening: bool = False
    step_begun: Any = None  # how its last step began: a reference, kept for its error
    start: int = 0  # the assignment that it is at, and since when
    since: float = 0.0
    node: str = ""
    process: "ProcessIdentity | None" = None


@final
class RayPool(WorkerPool[ActorHandle]):
    """Ray actors, and the connection to Ray."""

    message_worth = 2e-3

    def __init__(
        self,
        address: str | None,
        *,
        num_workers: int | None,
        actor_options: Mapping[str, Any],
        start_timeout: float,
        one_by_one: bool,
    ) -> None:
        self._connection = connect(address, num_cpus=num_workers)
        self._ray = self._connection.ray
        self.workers: list[ActorHandle] = []
        self.size = num_workers or max(1, int(self._connection.cpus))
        self.start_timeout = start_timeout
        self.one_by_one = one_by_one
        self._class: Any = self._ray.remote(RayWorker).options(**actor_options)
        self._paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore
        self._steps = 0
        self._ending: list[tuple[float, ProcessIdentity]] = []  # actors that were stopped, and when
        self._ended_elsewhere: list[Any] = []
        # References to what all actors are sent.
        self._payload: Any = None
        self._x: Any = None
        self._estimate: Any = None
        self._state: Any = None

    def open_session(self, payload: bytes) -> None:
        """See :meth:`WorkerPool.open_session`."""
        if self._payload is not None:
            raise RuntimeError("These actors are already at work for another run.")
        self._stop_busy()
        self._payload = self._ray.put(payload)
        for worker in self.workers:
            self._send_payload(worker)
        self.start_workers()

    def close_session(self) -> None:
        """End a session; actors stay."""
        self._stop_busy()
        self._payload = self._x = self._estimate = self._state = None

    def _stop_busy(self) -> None:
        for worker in [w for w in self.workers if w.answers and not w.opening]:
            self.stop(worker)

    def close(self) -> None:
        """End all actors, and Ray if it was started for us."""
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
        if self.one_by_one:  # an evaluation's time is to begin when it has all that it needs
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
        found, rest = self._ray.wait(list(awaited), num_returns=1, timeout=timeout)
        if found and len(rest) > _FEW:
            found += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [(awaited[answer], self._event(awaited[answer])) for answer in found]

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
            return StepReceived()
        return Answer(*value)

    def _first_cause(self, worker: ActorHandle, error: Exception) -> Exception:
        """Why its step did not begin, if it did not."""
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

        An actor that is new may be waiting for room in the cluster; of one with work it cannot be
        seen from here whether it is in the objective, and the time-out looks after it.
        """
        return self.start_timeout if worker.proven and not worker.units else None

    def stop(self, worker: ActorHandle) -> None:
        """See :meth:`WorkerPool.stop`."""
        if worker not in self.workers:
            return
        self.workers.remove(worker)
        self._ray.kill(worker.actor, no_restart=True)
        if worker.process is None:
            return
        if worker.process.boot == boot_id():
            self._ending.append((time.monotonic(), worker.process))
        elif worker.answers:  # on another machine, and perhaps frozen
            strategies = import_module("ray.util.scheduling_strategies")
            there = strategies.NodeAffinitySchedulingStrategy(worker.node, soft=False)
            task = self._ray.remote(_end_process).options(num_cpus=0, scheduling_strategy=there)
            self._ended_elsewhere.append(task.remote(worker.process))

    def _end_frozen(self) -> None:
        """Kill what has not ended: Ray asks an actor to end itself, which a frozen one cannot."""
        now = time.monotonic()
        self._ending = [(since, process) for since, process in self._ending if process.exists()]
        for since, process in self._ending:
            if now - since > _EXIT_SECONDS:
                process.kill()

    def hint(self) -> str:
        """See :meth:`WorkerPool.hint`."""
        return (
            f" The cluster has {self._connection.cpus:g} CPUs, and each of {self.size} workers "
            "asks for what `actor_options` says, by default one."
        )


class ProcessIdentity(NamedTuple):
    """A process that cannot be mistaken for another: of this boot of this machine, since then."""

    boot: str
    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Of a process that is running here; ``None`` where that cannot be told."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(boot_id(), pid, fields[19])

    def exists(self) -> bool:
        """Whether it is still running, here."""
        return self.of(self.pid) == self

    def kill(self) -> None:
        """End it, if it is still running."""
        if self.exists():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)


@cache
def boot_id() -> str:
    """This boot of this machine; empty where there is no such thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _end_process(process: ProcessIdentity) -> None:
    """On the machine of an actor: give it time to end, then end it."""
    end = time.monotonic() + _EXIT_SECONDS
    while process.exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()


def die_with_raylet() -> None:
    """Have the kernel end this process when the raylet, Ray's server of this machine, has ended.

    An actor ends by itself when it sees that its raylet is gone, which a frozen one does not. The
    kernel wakes the stopped orphans of a session, but only those that had wholly stopped before
    their parent ended. Its signal comes when the *thread* ends that started us; a raylet starts its
    workers from the loop that it runs in.
    """
    raylet = os.environ.get("RAY_RAYLET_PID", "")
    if sys.platform != "linux" or raylet != str(os.getppid()):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if raylet != str(os.getppid()):  # gone before that
        os._exit(1)


@final
class RayWorker:
    """What becomes an actor: a worker that is sent method calls, in order."""

    def __init__(self) -> None:
        die_with_raylet()
        self._worker: Worker | None = None
        self._step: int | None = None  # the step that has begun, in the pool's count
        self._loaded = False

    def open(self, payload: bytes, paths: list[str]) -> tuple[str, ProcessIdentity | None]:
        """Take a search and an objective, which may live where the driver found its modules.

        Returns:
            The node and the process that this is.
        """
        sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path or ".")]
        self._step = None
        self._loaded = False  # other directions have other kernels
        pid = os.getpid()
        try:
            self._worker = Worker(*pickle.loads(payload))
        finally:
            if os.getpid() != pid:  # forked by what the objective brings along: not our actor
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
        # Copies: arrays in Ray's store are read-only, and Numba would compile for them.
        newest = None if estimate is None else np.array(estimate)
        whole = None if state is None else {name: np.array(a) for name, a in state.items()}
        self._worker.step(step, np.array(x), estimate=newest, directions=whole)
        if not self._loaded:  # or loading the kernels would count as the objective's time
            self._worker.load_kernels()
            self._loaded = True
        self._step = number

    def evaluate(self, number: int, start: int, stop: int) -> tuple[Any, ...]:
        """The values of evaluations ``start … stop``."""
        assert self._worker is not None
        if number != self._step:  # the step did not begin: say so, rather than evaluate the last
            raise RuntimeError("the step could not begin")
        return tuple(self._worker.evaluate(start, stop))
