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
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.physics.drivers import (
    ContactRoom,
    lanes_of_a_core,
    load_mujoco_warp,
    load_warp,
    write_fused,
)
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.fused.source import FusedSource
from gensmooth.physics.mechanics.models import UnsupportedMechanismError
from gensmooth.physics.symbols import TraceError
from gensmooth.physics.tracing import trace
from gensmooth.rl.environments import worlds_batch
from gensmooth.rl.environments.base import (
    EnvironmentInfo,
    Episodes,
    UnsupportedEnvironmentError,
    check,
    thread_count,
)
from gensmooth.rl.environments.compiled import ModelSimulator
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.environments.worlds_batch import Results, WorldsBatch
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

MAX_WORLDS = 8192  # at a time; further episodes wait for a world
_MAX_PER_CORE = 32  # for fused physics: keeps the lanes of a core busy and fits into its cache
_MIN_WORLDS = 64
_MIN_SHARE = 16  # fewer episodes are not worth a thread of the CPU
_FREE = 10_000  # a step of this many worlds takes about twice as long as a step of none
_WORTH = 0.8  # a different number of worlds must save a fifth, because setting it up takes seconds


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
            to run (docs/physics-results.md). Fused physics always repeats bit for bit.
    """

    worlds: int = MAX_WORLDS
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
class WarpSimulator(ModelSimulator):
    """Runs trajectories on a GPU, or on the CPU by code that Warp compiles.

    Args:
        environment: The environment that is also compiled for the CPU; its functions are traced.
        device: ``"cuda"``, ``"cuda:1"`` and so on, or ``"warp-cpu"``.
        remake: See :class:`~gensmooth.rl.environments.compiled.ModelSimulator`.
        options: How physics is computed.

    Attributes:
        fused: The physics as one function; ``None`` if MuJoCo Warp computes it.
        declined: The feature of this robot that fused physics does not support, if any.

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
        super().__init__(environment, device, remake)
        self._device = "cpu" if device == "warp-cpu" else device
        self._options = WarpOptions() if options is None else options
        try:
            self._law = trace(environment, self._model)
        except TraceError as error:
            raise UnsupportedEnvironmentError(
                f"{self.info.name} cannot run on a GPU: {error}. Use device='cpu'."
            ) from error
        self._room = ContactRoom()
        self.declined: str | None = None
        self.fused: FusedSource | None = self._write_fused()
        self._batches: dict[Any, WorldsBatch] = {}
        self._alone = threading.Lock()  # on a GPU; on the CPU all simulators share `captures`
        self._lengths: tuple[float, float] | None = None  # mean and maximum of the last batch
        self.usage = Usage()

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
        self, policy: Policy, grouped: Grouped, *, observe: bool = False, threads: int | None = None
    ) -> Episodes:
        """Run episodes of several groups, each with its own scaling, side by side.

        On ``"warp-cpu"``, fused physics distributes them over threads. Worlds are reused, so
        concurrent calls wait for each other; on ``"warp-cpu"``, calls of other simulators do too.
        """
        with worlds_batch.captures if self._device == "cpu" else self._alone:
            return self._rollout(policy, grouped, observe, threads)

    def _rollout(
        self, policy: Policy, grouped: Grouped, observe: bool, threads: int | None
    ) -> Episodes:
        trials = len(grouped.parameters)
        if not trials:
            return _episodes(Results.none(self.info.observation_size), self.info, observe)
        cores = 1
        if self._device == "cpu" and self.fused is not None:  # MuJoCo Warp's kernels share memory
            room = max(self._options.worlds // self.fused.lanes, 1)
            cores = min(thread_count(threads, math.ceil(trials / _MIN_SHARE)), room)
        results = self._run(policy, grouped, cores)
        if len(results.lengths) >= _MIN_WORLDS:
            self._lengths = float(results.lengths.mean()), float(results.lengths.max())
        return _episodes(results, self.info, observe)

    def _run(self, policy: Policy, grouped: Grouped, cores: int) -> Results:
        shares = [np.arange(k, len(grouped.parameters), cores) for k in range(cores)]
        while True:
            parts = [grouped] if cores == 1 else [_chosen(grouped, share) for share in shares]
            batches = [self._batch(policy, part, (k, cores)) for k, part in enumerate(parts)]
            by_share = _run_batches(batches, parts)
            self.usage = Usage(
                self.usage.live + sum(int(each.lengths.sum()) for each in by_share if each),
                self.usage.simulated + sum(each.steps * each.worlds for each in batches),
                self.usage.seconds + max(each.seconds for each in batches),
            )
            results = [each for each in by_share if each is not None]
            if len(results) == cores:
                return results[0] if cores == 1 else Results.joined(results, shares)
            # There was no room for a contact or a constraint: run everything again with more.
            self._room.double()
            self._batches.clear()

    def _batch(self, policy: Policy, grouped: Grouped, share: tuple[int, int]) -> WorldsBatch:
        """Return worlds for a share (k, n) of all episodes."""
        trials, groups = len(grouped.parameters), len(grouped.scalings)
        capacity, room = _power(trials), _power(groups)
        worlds = self._choose(policy, trials, share[1])
        key = (policy, worlds, share)
        batch = self._batches.get(key)
        if batch is None or batch.capacity < capacity or batch.groups < room:
            if batch is not None:
                capacity, room = max(capacity, batch.capacity), max(room, batch.groups)
            batch = WorldsBatch(self, policy, worlds, capacity, room)
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
                most = min(most, _MAX_PER_CORE)
            return max(most, self.fused.lanes)
        if self._lengths is None or most <= _MIN_WORLDS:
            return most
        mean, longest = self._lengths

        def seconds(worlds: int) -> float:
            steps = longest if worlds >= trials else trials * mean / worlds + longest - mean
            known = self._batches.get((policy, worlds, (0, shares)))
            return steps * (_FREE + worlds) * (1.0 if known is not None else 1.0 / _WORTH)

        sizes = [most >> shift for shift in range(5) if most >> shift >= _MIN_WORLDS]
        return min(sizes, key=seconds)


def _episodes(results: Results, info: EnvironmentInfo, observe: bool) -> Episodes:
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


def _run_batches(batches: Sequence[WorldsBatch], parts: Sequence[Grouped]) -> list[Results | None]:
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
    """A share of the episodes for one thread, which may never start."""

    def __init__(self, batch: WorldsBatch, part: Grouped) -> None:
        self.batch, self.part = batch, part
        self.results: Results | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._begun = self._abandoned = False
        batch.stopped = False

    def work(self) -> None:
        """Run the episodes, unless they have been abandoned."""
        self._begun = True  # set before checking, as in `abandon`, so that one sees the other
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
