# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false
"""A simulator on a GPU: thousands of worlds with their physics, policy and environment.

A step of all worlds (refill, observation, policy, physics, reward, end) is one CUDA graph.
Everything is computed in float64, except the physics of robots that only MuJoCo Warp supports
(:mod:`gensmooth.physics.drivers`). The result of an episode does not depend on the world it runs
in, or on the other episodes of the batch.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.physics.drivers import (
    ContactRoom,
    DevicePhysics,
    FusedPhysics,
    MujocoWarpPhysics,
    lanes_of_a_core,
    load_mujoco_warp,
    load_warp,
    qpos0,
    sizes,
    write_fused,
)
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.fused.source import FusedSource
from gensmooth.physics.mechanics.models import UnsupportedMechanismError
from gensmooth.physics.symbols import TraceError
from gensmooth.physics.tracing import Traced, source, trace
from gensmooth.rl.environments.base import (
    EnvironmentInfo,
    Episodes,
    UnsupportedEnvironmentError,
    check,
    thread_count,
)
from gensmooth.rl.environments.compiled import info_of
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

MOST_WORLDS = 8192  # at a time; further episodes wait for a world
_MOST_ON_A_CORE = 32  # for fused physics: keeps the lanes of a core busy and fits into its cache
_LEAST_WORLDS = 64
_LEAST_SHARE = 16  # fewer episodes are not worth a thread of the CPU
_CHECK_EVERY = 20  # steps between checks whether all episodes have ended
_FREE = 10_000  # a step of this many worlds takes about twice as long as a step of none
_WORTH = 0.8  # a different number of worlds must save a fifth, because setting it up takes seconds

# While Warp captures a graph on the CPU, it records what any thread of the process launches there.
# It also captures only one graph at a time, on any device.
_captures = threading.RLock()


def _forget_captures() -> None:
    """Reset the lock in a forked process: the thread that held it exists only in the parent."""
    global _captures
    _captures = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_captures)


class Usage(NamedTuple):
    """How much work a simulator on a GPU has done.

    Attributes:
        live: Steps that belong to an episode.
        simulated: Steps of all worlds, including those without an episode.
        seconds: How long they took.
    """

    live: int = 0
    simulated: int = 0
    seconds: float = 0.0


def check_device(device: object) -> str:
    """Check that a device exists: ``"cuda"``, ``"cuda:1"`` and so on, or ``"warp-cpu"``."""
    name = checks.text("device", device)
    if name != "warp-cpu" and name.split(":")[0] != "cuda":
        raise ValueError(
            f"`device` must be 'cpu', 'cuda', 'cuda:1' and so on, or 'warp-cpu', but is {name!r}."
        )
    wp = load_warp()
    if name == "warp-cpu":
        return name
    devices = [str(each) for each in wp.get_cuda_devices()]
    if not devices:
        raise ValueError(
            f"`device` is {name!r}, but this machine has no CUDA device, or its driver does not "
            "respond. device='cpu' trains on the CPU."
        )
    if name != "cuda" and name not in devices:
        raise ValueError(f"`device` is {name!r}, but this machine has {', '.join(devices)}.")
    return name


@final
@dataclass(frozen=True)
class WarpOptions:
    """How physics on a GPU is computed.

    Attributes:
        worlds: The largest number of worlds at a time. With fused physics, a core of the CPU takes
            at most 32.
        physics: ``"fused"``, ``"mujoco-warp"``, or ``None``: fused if the robot allows it.
        deterministic: Whether MuJoCo Warp orders contacts, constraints and sums in a fixed way. On
            an H200 this takes ten times as long, and results still vary in their last bits from run
            to run (docs/gpu.md). Fused physics always repeats bit for bit.
    """

    worlds: int = MOST_WORLDS
    physics: str | None = None
    deterministic: bool = False

    def __post_init__(self) -> None:
        checks.settle(
            self,
            worlds=checks.count("worlds", self.worlds),
            physics=checks.optional(
                checks.one_of, "physics", self.physics, options=("fused", "mujoco-warp")
            ),
            deterministic=checks.flag("deterministic", self.deterministic),
        )


@final
class WarpSimulator:
    """Runs trajectories on a GPU, or on the CPU by code that Warp compiles.

    Args:
        environment: The environment that is also compiled for the CPU; its functions are traced.
        device: ``"cuda"``, ``"cuda:1"`` and so on, or ``"warp-cpu"``.
        remake: How another process makes this simulator: a module-level function and its arguments.
        options: How physics is computed.

    Attributes:
        fused: The physics as one function; ``None`` if MuJoCo Warp computes it.
        declined: The feature of this robot that fused physics does not cover, if any.

    Raises:
        UnsupportedEnvironmentError: If a function cannot be traced.
    """

    def __init__(
        self,
        environment: CompiledEnvironment,
        device: str,
        remake: tuple[Callable[..., Any], tuple[Any, ...]],
        options: WarpOptions | None = None,
    ) -> None:
        self._device = "cpu" if device == "warp-cpu" else device
        self._options = WarpOptions() if options is None else options
        self._environment = environment
        self._remake = remake
        self._model = environment.model()
        self._start_size = len(environment.start(self._model, np.random.default_rng(0)))
        self.info: EnvironmentInfo = replace(info_of(environment), device=device)
        try:
            self._law = trace(environment, self._model)
        except TraceError as error:
            raise UnsupportedEnvironmentError(
                f"{self.info.name} cannot run on a GPU: {error}. Use device='cpu'."
            ) from error
        self._room = ContactRoom()
        self.declined: str | None = None
        self.fused: FusedSource | None = self._write_fused()
        self._batches: dict[Any, _Batch] = {}
        self._alone = threading.Lock()  # on a GPU; on the CPU all simulators share `_captures`
        self._lengths: tuple[float, float] | None = None  # mean and maximum of the last batch
        self.usage = Usage()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    def _write_fused(self) -> FusedSource | None:
        """Write the physics as one function; ``None`` if MuJoCo Warp must compute it."""
        if self._options.physics == "mujoco-warp":
            load_mujoco_warp()
            return None
        try:
            if self._device != "cpu":
                return write_fused(self._model, self._law, cuda=True)
            lanes = min(lanes_of_a_core(), _power_within(self._options.worlds))
            return write_fused(self._model, self._law, lanes)
        except UnsupportedMechanismError as error:
            self.declined = str(error)
            if self._options.physics == "fused":
                raise UnsupportedEnvironmentError(
                    f"{self.info.name} has {error}, which needs physics='mujoco-warp'."
                ) from error
            try:
                load_mujoco_warp()
            except ImportError as missing:
                raise ImportError(
                    f"{self.info.name} has {error}, which only MuJoCo Warp supports. {missing}",
                    name=missing.name,
                ) from None
            return None

    @property
    def model(self) -> Any:
        """The ``MjModel``; do not modify it."""
        return self._model

    @property
    def task_entries(self) -> int:
        """See :class:`~gensmooth.rl.environments.base.Simulator`."""
        return self._environment.task_entries

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a start from each generator, shape (B, S)."""
        return self._environment.starts(self._model, rngs, self._start_size)

    def rollout(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        observe: bool = False,
        threads: int | None = None,
    ) -> Episodes:
        """Run one episode from each start; see :class:`~.base.Simulator`."""
        x, scaling, begin = check(self.info, self._start_size, policy, parameters, scaling, starts)
        grouped = Grouped(x, begin, [scaling], np.zeros(len(x), np.int64))
        return self.rollout_grouped(policy, grouped, observe=observe, threads=threads)

    def rollout_grouped(
        self,
        policy: Policy,
        grouped: Grouped,
        *,
        observe: bool = False,
        threads: int | None = None,
    ) -> Episodes:
        """Run episodes of several groups, each with its own scaling, side by side.

        On ``"warp-cpu"``, fused physics distributes them over threads. Worlds are reused, so
        concurrent calls wait for each other; on ``"warp-cpu"``, calls of other simulators do too.
        """
        with _captures if self._device == "cpu" else self._alone:
            return self._rollout(policy, grouped, observe, threads)

    def _rollout(
        self, policy: Policy, grouped: Grouped, observe: bool, threads: int | None
    ) -> Episodes:
        trials = len(grouped.parameters)
        if not trials:
            return _episodes(_Results.none(self.info.observation_size), self.info, observe)
        cores = 1
        if self._device == "cpu" and self.fused is not None:  # MuJoCo Warp's kernels share memory
            room = max(self._options.worlds // self.fused.lanes, 1)
            cores = min(thread_count(threads, math.ceil(trials / _LEAST_SHARE)), room)
        results = self._run(policy, grouped, cores)
        if len(results.lengths) >= _LEAST_WORLDS:
            self._lengths = float(results.lengths.mean()), float(results.lengths.max())
        return _episodes(results, self.info, observe)

    def _run(self, policy: Policy, grouped: Grouped, cores: int) -> "_Results":
        """Run all episodes, split into one share for each core."""
        shares = [np.arange(k, len(grouped.parameters), cores) for k in range(cores)]
        while True:
            parts = [grouped] if cores == 1 else [_chosen(grouped, share) for share in shares]
            batches = [self._batch(policy, part, (k, cores)) for k, part in enumerate(parts)]
            by_share = _run_batches(batches, parts)
            self.usage = Usage(
                self.usage.live + sum(int(each.lengths.sum()) for each in by_share if each),
                self.usage.simulated + sum(each.made * each.worlds for each in batches),
                self.usage.seconds + max(each.seconds for each in batches),
            )
            results = [each for each in by_share if each is not None]
            if len(results) == cores:
                return results[0] if cores == 1 else _Results.joined(results, shares)
            # There was no room for a contact or a constraint: run everything again with more.
            self._room.double()
            self._batches.clear()

    def _batch(self, policy: Policy, grouped: Grouped, share: tuple[int, int]) -> "_Batch":
        """Return worlds for a share (k, n) of all episodes."""
        trials, groups = len(grouped.parameters), len(grouped.scalings)
        capacity, room = _power(trials), _power(groups)
        worlds = self._choose(policy, trials, share[1])
        key = (policy, worlds, share)
        batch = self._batches.get(key)
        if batch is None or batch.capacity < capacity or batch.groups < room:
            if batch is not None:
                capacity, room = max(capacity, batch.capacity), max(room, batch.groups)
            batch = _Batch(self, policy, worlds, capacity, room)
            self._batches[key] = batch
        return batch

    def _choose(self, policy: Policy, trials: int, shares: int) -> int:
        """Choose the number of worlds from the lengths of earlier episodes: as few as stay busy.

        With fused physics a GPU takes as long for one world as for thousands, so each episode gets
        a world.

        If m is the mean and M the largest length, T episodes in W < T worlds take about
        T m / W + M - m steps, and M steps in W >= T worlds. A step takes a time of a + b W.
        """
        allowed = max(self._options.worlds // shares, 1)
        most = min(_power(trials), _power_within(allowed))
        if self.fused is not None:
            if self._device == "cpu":
                most = min(most, _MOST_ON_A_CORE)
            return max(most, self.fused.lanes)
        if self._lengths is None or most <= _LEAST_WORLDS:
            return most
        mean, longest = self._lengths

        def seconds(worlds: int) -> float:
            steps = longest if worlds >= trials else trials * mean / worlds + longest - mean
            known = self._batches.get((policy, worlds, (0, shares)))
            return steps * (_FREE + worlds) * (1.0 if known is not None else 1.0 / _WORTH)

        sizes = [most >> shift for shift in range(5) if most >> shift >= _LEAST_WORLDS]
        return min(sizes, key=seconds)


class _Results(NamedTuple):
    """The results of episodes, in the order of the trials."""

    returns: Array
    bonuses: Array
    lengths: NDArray[np.int64]
    successes: Array
    broken: NDArray[np.bool_]
    means: Array
    m2: Array

    @classmethod
    def joined(cls, parts: "Sequence[_Results]", shares: Sequence[NDArray[np.int64]]) -> "_Results":
        """Join the results of shares of the episodes, in their original order."""
        order = np.argsort(np.concatenate(shares))
        return cls(*(np.concatenate(column)[order] for column in zip(*parts, strict=True)))

    @classmethod
    def none(cls, size: int) -> "_Results":
        zero, rows = np.zeros(0), np.zeros((0, size))
        return cls(zero, zero, np.zeros(0, np.int64), zero, np.zeros(0, np.bool_), rows, rows)


def _episodes(results: _Results, info: EnvironmentInfo, observe: bool) -> Episodes:
    counts = np.where(results.broken, 0, results.lengths)
    return Episodes(
        np.where(results.broken, np.nan, results.returns),
        np.where(results.broken, np.nan, results.bonuses),
        results.lengths,
        EpisodeMoments(counts, results.means, results.m2) if observe else None,
        results.successes if info.goal else None,
    )


def _chosen(grouped: Grouped, which: NDArray[np.int64]) -> Grouped:
    return Grouped(
        grouped.parameters[which], grouped.starts[which], grouped.scalings, grouped.groups[which]
    )


def _run_batches(batches: "Sequence[_Batch]", parts: Sequence[Grouped]) -> "list[_Results | None]":
    """Run shares of the episodes, each in its own thread if there are several."""
    if len(batches) == 1:
        return [batches[0].run(parts[0])]
    shares = [_Share(*each) for each in zip(batches, parts, strict=True)]
    # Warp's current device belongs to the whole process, so it is set once for all threads.
    with load_warp().ScopedDevice("cpu"):
        try:
            for share in shares:
                threading.Thread(target=share.work, daemon=True).start()
            for share in shares:
                share.ended.wait()
            for share in shares:
                if share.error is not None:
                    raise share.error
        finally:
            _settle(shares)
    return [share.results for share in shares]


def _settle(shares: "Sequence[_Share]") -> None:
    """Wait until every thread has left its worlds, however often an interrupt arrives."""
    while True:
        try:
            for share in shares:
                share.abandon()
        except KeyboardInterrupt:
            continue
        return


@final
class _Share:
    """A share of the episodes for one thread, which may never have started."""

    def __init__(self, batch: "_Batch", part: Grouped) -> None:
        self.batch, self.part = batch, part
        self.results: _Results | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._begun = self._abandoned = False
        batch.stopped = False

    def work(self) -> None:
        """Run the episodes, unless they have been abandoned."""
        self._begun = True  # set first, then checked, as in `abandon`, so that one of them notices
        try:
            if not self._abandoned:
                self.results = self.batch.run(self.part)
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def abandon(self) -> None:
        """Wait until the episodes have ended or can no longer begin."""
        self._abandoned = self.batch.stopped = True
        if self._begun:
            self.ended.wait()


def _power(number: int) -> int:
    """Return the smallest power of two that is at least this."""
    return 1 << max(number - 1, 0).bit_length()


def _power_within(number: int) -> int:
    """Return the largest power of two that is at most this."""
    return 1 << (number.bit_length() - 1)


@final
class _Batch:
    """A number of worlds of one environment and one shape of policies, with their graph.

    Args:
        owner: The simulator.
        policy: The shape of the policies.
        worlds: How many worlds.
        capacity: The largest number of trials.
        groups: The largest number of scalings.

    Attributes:
        made: Steps of the last rollout.
        seconds: How long they took.
        stopped: Whether to leave the episodes unfinished.
    """

    def __init__(
        self, owner: WarpSimulator, policy: Policy, worlds: int, capacity: int, groups: int
    ) -> None:
        wp = load_warp()
        self.worlds, self.capacity, self.groups = worlds, capacity, groups
        self.made, self.seconds = 0, 0.0
        self.stopped = False
        self._device, self._policy = owner._device, policy
        self._size, self._horizon = owner.info.observation_size, owner.info.horizon
        self._law: Traced = owner._law
        self._graph: Any = None
        self._activations = int(owner.model.na)
        lanes = 1 if owner.fused is None else owner.fused.lanes
        self._block = capacity if lanes == 1 else lanes
        acting: Any = import_module("gensmooth.rl.environments.policy_kernels")
        self._policy_kernels = acting.policy_kernels(lanes)
        self._shared: Any = import_module("gensmooth.physics.warp_kernels")
        with wp.ScopedDevice(self._device):
            self._s = self._allocate(owner._start_size, sizes(owner.model))
            self._qpos0 = qpos0(owner.model)
            self.physics: DevicePhysics = (
                MujocoWarpPhysics(
                    owner.model, self._law, self._s, owner._room, owner._options.deterministic
                )
                if owner.fused is None
                else FusedPhysics(owner.fused, self._s)
            )
            self._kernels = _compiled(
                source(self._law, forces_at_start=self.physics.forces_at_start)
            )
            self._modules = [self._kernels.after.module]
            if isinstance(self.physics, FusedPhysics):
                self._modules.append(self.physics.module)
            _announce_compilation(self._modules, owner.info.name)
            self._load()
            if owner.fused is not None or self._device != "cpu":
                self._capture()

    # --- memory ---------------------------------------------------------------------------------

    def _allocate(self, start_size: int, data: dict[str, int]) -> Any:
        wp = load_warp()
        s = self._shared.Worlds()
        w, c, g, n = self.worlds, self.capacity, self.groups, self._size
        s.worlds, s.capacity, s.groups, s.horizon = w, c, g, self._horizon
        s.block, s.parameters_each = self._block, self._policy.num_parameters
        s.positions, s.velocities, s.controls = data["qpos"], data["qvel"], data["ctrl"]
        law, policy = self._law, self._policy
        widths = [max(policy.sizes[1:-1], default=1)] * 2
        self._hidden = [wp.zeros(width * w, dtype=wp.float64) for width in widths]
        for count, names in (
            (w, ("trial", "done", "order", "length")),
            (1, ("first", "cursor", "trials", "finished")),
            (c, ("group", "lengths", "broken")),
        ):
            for name in names:
                setattr(s, name, wp.zeros(count, dtype=wp.int32))
        numbers = {name: w * max(size, 1) for name, size in data.items()}
        numbers |= dict.fromkeys(("total", "bonus", "success"), w)
        numbers |= dict.fromkeys(("observation", "standard", "mean", "m2"), w * n)
        numbers |= dict.fromkeys(("returns", "bonuses", "successes"), c)
        numbers |= dict.fromkeys(("means", "m2s"), c * n)
        numbers |= dict.fromkeys(("scale_mean", "scale_inverse"), g * n)
        numbers |= {
            "warm": w * data["qvel"],
            "memory": w * max(law.memory, 1),
            "saved": w * max(len(law.saved), 1),
            "seen": w * max(len(law.seen), 1),
            "action": w * policy.sizes[-1],
            "paid": w * 4,
            "parameters": math.ceil(c / self._block) * self._block * policy.num_parameters,
            "starts": c * start_size,
            "start_seen": c * max(len(law.seen), 1),
        }
        for name, count in numbers.items():
            setattr(s, name, wp.zeros(count, dtype=wp.float64))
        return s

    # --- a rollout ------------------------------------------------------------------------------

    def run(self, grouped: Grouped) -> _Results | None:
        """Run all episodes; ``None`` if there was no room for a contact or a constraint."""
        wp = load_warp()
        with wp.ScopedDevice(self._device):
            self._upload(grouped)
            self._look_at_starts(len(grouped.parameters))
            self._prepare_queue(len(grouped.parameters))
            began = time.perf_counter()
            self._steps(len(grouped.parameters))
            self.seconds = time.perf_counter() - began
            if not self.physics.complete():
                return None
            return self._download(len(grouped.parameters))

    def _upload(self, grouped: Grouped) -> None:
        s = self._s
        self._lay_out(s.parameters, grouped.parameters, self._block)
        self._lay_out(s.starts, grouped.starts, self.capacity)
        means, inverses = zip(
            *((each.mean, each.inverse) for each in grouped.scalings), strict=True
        )
        self._lay_out(s.scale_mean, np.array(means), self.groups)
        self._lay_out(s.scale_inverse, np.array(inverses), self.groups)
        s.group[: len(grouped.groups)].assign(grouped.groups.astype(np.int32))

    def _lay_out(self, target: Any, rows: Array, block: int) -> None:
        """Copy rows to the device and transpose them there, because they can be large."""
        wp = load_warp()
        uploaded = wp.array(np.ascontiguousarray(rows), dtype=wp.float64)
        wp.launch(self._shared.lay_out, dim=rows.shape, inputs=[uploaded, block, target])

    def _look_at_starts(self, trials: int) -> None:
        """Compute the observation at each start, before the first step."""
        wp = load_warp()
        s, kernels = self._s, self._kernels
        s.trials.fill_(trials)
        self.physics.begin()
        if not self._law.seen:
            return
        for first in range(0, max(trials, 1), self.worlds):
            self._clear(everything=True)
            wp.launch(kernels.place, dim=self.worlds, inputs=[s, first])
            self.physics.look()
            wp.launch(kernels.look, dim=self.worlds, inputs=[s, first])

    def _prepare_queue(self, trials: int) -> None:
        s = self._s
        s.trials.fill_(trials)
        s.cursor.zero_()
        s.finished.zero_()
        s.trial.fill_(-1)
        s.done.fill_(1)

    def _steps(self, trials: int) -> None:
        """Step until every episode has ended."""
        wp = load_warp()
        s, self.made = self._s, 0
        most = math.ceil(trials / self.worlds) * self._horizon
        while self.made < most:
            for _ in range(min(_CHECK_EVERY, most - self.made)):
                if self._graph is not None:
                    wp.capture_launch(self._graph)
                else:
                    self._step()
                self.made += 1
            if self.stopped or int(s.finished.numpy()[0]) >= trials:
                break
        wp.synchronize_device()

    def _load(self) -> None:
        """Compile and load every kernel by a step without episodes."""
        self._look_at_starts(0)
        self._prepare_queue(0)
        self._step()

    def _capture(self) -> None:
        """Capture a step as one graph.

        A dozen launches from Python take 200 microseconds, one graph takes 8. This matters on the
        CPU, where threads would wait for the interpreter's lock.
        """
        with _captures, load_warp().ScopedCapture() as capture:
            self._step()
        self._graph = capture.graph

    def _step(self) -> None:
        """Step every world."""
        wp = load_warp()
        s, kernels, shared = self._s, self._kernels, self._shared
        wp.utils.array_scan(s.done, s.order, inclusive=False)
        wp.launch(shared.count, dim=1, inputs=[s])
        self._clear(everything=False)
        wp.launch(kernels.refill, dim=self.worlds, inputs=[s])
        wp.launch(kernels.observe, dim=self.worlds, inputs=[s])
        self._policy_kernels.act(s, self._size, list(self._policy.layers()), self._hidden)
        wp.launch(kernels.before, dim=self.worlds, inputs=[s])
        self.physics.step()
        wp.launch(kernels.after, dim=self.worlds, inputs=[s])
        wp.launch(shared.collect, dim=self.worlds, inputs=[s, self._size])

    def _clear(self, *, everything: bool) -> None:
        wp = load_warp()
        inputs = [self._s, int(everything), self._activations, self._qpos0]
        wp.launch(self._shared.clear, dim=self.worlds, inputs=inputs)

    def _download(self, trials: int) -> _Results:
        s, n, c = self._s, self._size, self.capacity

        def rows(array: Any) -> Array:
            return np.ascontiguousarray(array.numpy().reshape(n, c)[:, :trials].T)

        return _Results(
            s.returns.numpy()[:trials],
            s.bonuses.numpy()[:trials],
            s.lengths.numpy()[:trials].astype(np.int64),
            s.successes.numpy()[:trials],
            s.broken.numpy()[:trials] != 0,
            rows(s.means),
            rows(s.m2s),
        )


@cache
def _compiled(written: Any) -> Any:
    shared: Any = import_module("gensmooth.physics.warp_kernels")
    return shared.law_kernels(written)


def _announce_compilation(modules: Sequence[Any], name: str) -> None:
    """Print a line on a terminal if the next seconds go into compiling."""
    if not getattr(sys.stderr, "isatty", bool)():
        return
    wp = load_warp()
    folder = Path(wp.config.kernel_cache_dir)
    if not all(any(folder.glob(f"wp_{module.name}_*")) for module in modules):
        print(
            f"gensmooth: compiling {name} for {wp.get_device()}, only once on this machine; this "
            "takes up to two minutes…",
            file=sys.stderr,
        )
