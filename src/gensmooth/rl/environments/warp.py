# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false
"""A simulator on a GPU: thousands of worlds of MuJoCo Warp, and the environment's law beside them.

A step of all worlds (refill, observation, policy, physics, reward, end) is one CUDA graph. Physics
and policy are computed in float32; returns and the moments of observations are summed in float64.
Where an episode runs, and beside which others, is no part of its result.
"""

import math
import sys
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
from gensmooth.rl.environments.base import (
    Episodes,
    Info,
    UnsupportedEnvironmentError,
    check,
)
from gensmooth.rl.environments.compiled import CompiledEnvironment
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.environments.physics import quiet
from gensmooth.rl.environments.symbols import TraceError
from gensmooth.rl.environments.traced import DATA, Traced, source, trace
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]

MOST_WORLDS = 8192  # at a time; more episodes wait for a world
_LEAST_WORLDS = 64
_CONTACTS, _CONSTRAINTS = 24, 96  # per world at first; doubled when they do not suffice
_CHECK_EVERY = 20  # steps between looking whether all episodes have ended
_FREE = 10_000  # a step of this many worlds takes about twice as long as one of none
_WORTH = 0.8  # another number of worlds must save a fifth: setting one up takes seconds


class Usage(NamedTuple):
    """What a simulator on a GPU has done.

    Attributes:
        live: Steps of episodes.
        simulated: Steps of worlds, those without an episode included.
        seconds: How long they took.
    """

    live: int = 0
    simulated: int = 0
    seconds: float = 0.0


@cache
def modules() -> tuple[Any, Any]:
    """Warp and MuJoCo Warp, or an error that says what to install."""
    try:
        wp: Any = import_module("warp")
        if wp.config.log_level == wp.LOG_INFO:  # as it comes: a line for every kernel
            wp.config.log_level = wp.LOG_WARNING
        return wp, import_module("mujoco_warp")
    except ImportError as error:
        raise ImportError(
            f"Training on a GPU needs {error.name}: pip install 'gensmooth[gpu]', in an "
            "environment of its own, because MuJoCo Warp needs a newer MuJoCo than Meta-World can "
            "use.",
            name=error.name,
        ) from None


def check_device(device: object) -> str:
    """The name of a device that is there: ``"cuda"``, ``"cuda:1"``, or ``"warp-cpu"``."""
    name = checks.text("device", device)
    if name != "warp-cpu" and name.split(":")[0] != "cuda":
        raise ValueError(
            f"`device` must be 'cpu', 'cuda', 'cuda:1' and so on, or 'warp-cpu', but is {name!r}."
        )
    wp, _ = modules()
    if name == "warp-cpu":
        return name
    found = [str(each) for each in wp.get_cuda_devices()]
    if not found:
        raise ValueError(
            f"`device` is {name!r}, but there is no CUDA device here, or its driver does not "
            "answer. device='cpu' trains on the processor."
        )
    if name != "cuda" and name not in found:
        raise ValueError(f"`device` is {name!r}, but here are only {', '.join(found)}.")
    return name


@final
@dataclass(frozen=True)
class WarpOptions:
    """How physics on a GPU is computed.

    Attributes:
        worlds: At most this many worlds at a time.
        deterministic: Whether MuJoCo Warp puts contacts and constraints in a fixed order and takes
            sums in a fixed order. On an H200 that takes ten times as long and still is not the
            same to the bit from run to run (docs/gpu.md).
    """

    worlds: int = MOST_WORLDS
    deterministic: bool = False

    def __post_init__(self) -> None:
        checks.settle(
            self,
            worlds=checks.count("worlds", self.worlds),
            deterministic=checks.flag("deterministic", self.deterministic),
        )


@final
class WarpSimulator:
    """Runs trajectories on a GPU (or, slowly, on Warp's own CPU device, for tests).

    Args:
        environment: The environment, as compiled for the CPU: its functions are traced.
        device: ``"cuda"``, ``"cuda:1"`` and so on, or ``"warp-cpu"``.
        remake: How another process makes this simulator again: a module-level function and its
            arguments.
        options: How physics is computed.

    Raises:
        UnsupportedEnvironmentError: When a function cannot be traced.
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
        self.info: Info = replace(environment.info, device=device)
        try:
            self._law = trace(environment, self._model)
        except TraceError as error:
            raise UnsupportedEnvironmentError(
                f"{self.info.name} cannot run on a GPU: {error}. device='cpu' can."
            ) from error
        self._room = (_CONTACTS, _CONSTRAINTS)
        self._batches: dict[Any, _Batch] = {}
        self._lengths: tuple[float, float] | None = None  # mean and maximum, last time
        self.usage = Usage()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    @property
    def model(self) -> Any:
        """The ``MjModel``; do not change it."""
        return self._model

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
        threads: int | None = None,  # noqa: ARG002
    ) -> Episodes:
        """Run one episode from each start; see :class:`~.base.Simulator`."""
        x, scaling, begin = check(self.info, self._start_size, policy, parameters, scaling, starts)
        groups = np.zeros(len(x), np.int64)
        return self.rollout_grouped(policy, Grouped(x, begin, [scaling], groups), observe=observe)

    def rollout_grouped(self, policy: Policy, given: Grouped, *, observe: bool = False) -> Episodes:
        """Run episodes of several groups, each with its own scaling, side by side."""
        if not len(given.parameters):
            return _episodes(_Results.none(self.info.observation_size), self.info, observe)
        while True:
            batch = self._batch(policy, given)
            found = batch.run(given)
            if found is not None:
                break
            # A contact or a constraint was left out for want of room: all again, with more.
            self._room = (2 * self._room[0], 2 * self._room[1])
            self._batches.clear()
        self.usage = Usage(
            self.usage.live + int(found.lengths.sum()),
            self.usage.simulated + batch.made * batch.worlds,
            self.usage.seconds + batch.seconds,
        )
        if len(found.lengths) >= _LEAST_WORLDS:
            self._lengths = float(found.lengths.mean()), float(found.lengths.max())
        return _episodes(found, self.info, observe)

    def _batch(self, policy: Policy, given: Grouped) -> "_Batch":
        """Worlds for so many episodes."""
        trials, groups = len(given.parameters), len(given.scalings)
        capacity, room = _power(trials), _power(groups)
        worlds = self._choose(policy, trials)
        key = (policy, worlds)
        found = self._batches.get(key)
        if found is None or found.capacity < capacity or found.groups < room:
            if found is not None:
                capacity, room = max(capacity, found.capacity), max(room, found.groups)
            found = _Batch(self, policy, worlds, capacity, room)
            self._batches[key] = found
        return found

    def _choose(self, policy: Policy, trials: int) -> int:
        """How many worlds: as few as keep busy, if what episodes lasted before is a guide.

        With m the mean and M the largest length, T episodes in W < T worlds take about
        T m / W + M - m steps, and in W >= T worlds M steps; a step takes a time of a + b W.
        """
        most = max(min(_power(trials), _power(self._options.worlds)), 1)
        if self._lengths is None or most <= _LEAST_WORLDS:
            return most
        mean, longest = self._lengths

        def seconds(worlds: int) -> float:
            steps = longest if worlds >= trials else trials * mean / worlds + longest - mean
            known = self._batches.get((policy, worlds))
            return steps * (_FREE + worlds) * (1.0 if known is not None else 1.0 / _WORTH)

        sizes = [most >> shift for shift in range(5) if most >> shift >= _LEAST_WORLDS]
        return min(sizes, key=seconds)


class _Results(NamedTuple):
    """What episodes gave, in the order of the trials."""

    returns: Array
    bonuses: Array
    lengths: NDArray[np.int64]
    successes: Array
    broken: NDArray[np.bool_]
    means: Array
    m2: Array

    @classmethod
    def none(cls, size: int) -> "_Results":
        zero, rows = np.zeros(0), np.zeros((0, size))
        return cls(zero, zero, np.zeros(0, np.int64), zero, np.zeros(0, np.bool_), rows, rows)


def _episodes(found: _Results, info: Info, observe: bool) -> Episodes:
    counts = np.where(found.broken, 0, found.lengths)
    return Episodes(
        np.where(found.broken, np.nan, found.returns),
        np.where(found.broken, np.nan, found.bonuses),
        found.lengths,
        EpisodeMoments(counts, found.means, found.m2) if observe else None,
        found.successes if info.goal else None,
    )


def _power(number: int) -> int:
    """The smallest power of two that is at least this."""
    return 1 << max(number - 1, 0).bit_length()


@final
class _Batch:
    """So many worlds of one environment and one shape of policies, with their graph.

    Args:
        owner: The simulator.
        policy: The shape of the policies.
        worlds: How many worlds.
        capacity: The largest number of trials.
        groups: The largest number of scalings.
    """

    def __init__(
        self, owner: WarpSimulator, policy: Policy, worlds: int, capacity: int, groups: int
    ) -> None:
        wp, mjw = modules()
        self.worlds, self.capacity, self.groups = worlds, capacity, groups
        self.made, self.seconds = 0, 0.0
        self._device, self._policy = owner._device, policy
        self._size, self._horizon = owner.info.observation_size, owner.info.horizon
        self._law: Traced = owner._law
        self._graph: Any = None
        model = owner.model
        with wp.ScopedDevice(self._device), quiet():
            self._model = mjw.put_model(model)
            if owner._options.deterministic:
                self._model.opt.deterministic = mjw.DeterminismType.ALL
            self._model.opt.warn_overflow = 0  # we look
            contacts, constraints = owner._room
            self._data = mjw.make_data(model, nworld=worlds, nconmax=contacts, njmax=constraints)
            self._kernels, self._shared = _kernels(self._law, self._rows(), self._model)
            _announce_compilation(self._kernels, owner.info.name)
            self._s = self._allocate(owner._start_size)
            self._qpos0 = wp.array(model.qpos0.astype(np.float32), dtype=wp.float32)

    # --- memory ---------------------------------------------------------------------------------

    def _rows(self) -> dict[str, int]:
        """How many numbers a world has in each array of MuJoCo's data."""
        return {name: getattr(self._data, name).strides[0] // 4 for name in DATA}

    def _allocate(self, start_size: int) -> Any:
        wp, _ = modules()
        kernels = self._shared
        s = kernels.Worlds()
        w, c, g, n = self.worlds, self.capacity, self.groups, self._size
        s.worlds, s.capacity, s.groups, s.horizon = w, c, g, self._horizon
        rows = self._rows()
        s.positions, s.velocities, s.controls = rows["qpos"], rows["qvel"], rows["ctrl"]
        for name in DATA:
            array = getattr(self._data, name)
            count = max(rows[name] * w, 1)
            flat = wp.array(ptr=array.ptr, dtype=wp.float32, shape=(count,), device=array.device)
            setattr(s, name, flat)
        widths = [max(self._policy.sizes[1:-1], default=1)] * 2
        self._hidden = [wp.zeros(width * w, dtype=wp.float32) for width in widths]
        law, whole, single, double = self._law, wp.int32, wp.float32, wp.float64
        for kind, count, names in (
            (whole, w, ("trial", "done", "order", "length")),
            (double, w, ("total", "bonus")),
            (single, w, ("success",)),
            (single, w * n, ("observation", "standard")),
            (double, w * n, ("mean", "m2")),
            (whole, 1, ("first", "cursor", "trials", "finished")),
            (whole, c, ("group", "lengths", "broken")),
            (double, c, ("returns", "bonuses")),
            (single, c, ("successes",)),
            (double, c * n, ("means", "m2s")),
        ):
            for name in names:
                setattr(s, name, wp.zeros(count, dtype=kind))
        for name, count in (
            ("memory", w * max(law.memory, 1)),
            ("saved", w * max(len(law.saved), 1)),
            ("seen", w * max(len(law.seen), 1)),
            ("action", w * self._policy.sizes[-1]),
            ("paid", w * 4),
            ("parameters", c * self._policy.num_parameters),
            ("starts", c * start_size),
            ("start_seen", c * max(len(law.seen), 1)),
            ("scale_mean", g * n),
            ("scale_inverse", g * n),
        ):
            setattr(s, name, wp.zeros(count, dtype=single))
        return s

    # --- a rollout ------------------------------------------------------------------------------

    def run(self, given: Grouped) -> _Results | None:
        """All episodes; ``None`` if there was no room for a contact or a constraint."""
        wp, _ = modules()
        with wp.ScopedDevice(self._device):
            self._upload(given)
            self._look_at_starts(len(given.parameters))
            self._prepare_queue(len(given.parameters))
            began = time.perf_counter()
            self._steps(len(given.parameters))
            self.seconds = time.perf_counter() - began
            if self._data.overflow.numpy().any():
                return None
            return self._download(len(given.parameters))

    def _upload(self, given: Grouped) -> None:
        s = self._s
        _fill(s.parameters, given.parameters, self.capacity)
        _fill(s.starts, given.starts, self.capacity)
        _fill(s.scale_mean, np.array([each.mean for each in given.scalings]), self.groups)
        _fill(s.scale_inverse, np.array([each.inverse for each in given.scalings]), self.groups)
        _fill(s.group, given.groups[:, None], self.capacity, np.int32)

    def _look_at_starts(self, trials: int) -> None:
        """What is seen of a world before its first step follows from where it starts."""
        wp, mjw = modules()
        s, kernels = self._s, self._kernels
        s.trials.fill_(trials)
        self._data.overflow.zero_()
        if not self._law.seen:
            return
        for first in range(0, trials, self.worlds):
            self._clear(everything=True)
            wp.launch(kernels.place, dim=self.worlds, inputs=[s, first])
            mjw.forward(self._model, self._data)
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
        wp, _ = modules()
        s, self.made = self._s, 0
        cuda = wp.get_device(self._device).is_cuda
        most = math.ceil(trials / self.worlds) * self._horizon
        while self.made < most:
            for _ in range(min(_CHECK_EVERY, most - self.made)):
                if cuda and self._graph is not None:
                    wp.capture_launch(self._graph)
                else:
                    self._step()
                    if cuda:  # the first has loaded every kernel
                        self._capture()
                self.made += 1
            if int(s.finished.numpy()[0]) >= trials:
                break
        wp.synchronize_device()

    def _capture(self) -> None:
        wp, _ = modules()
        with wp.ScopedCapture() as capture:
            self._step()
        self._graph = capture.graph

    def _step(self) -> None:
        """One step of every world."""
        wp, _ = modules()
        s, kernels, shared = self._s, self._kernels, self._shared
        wp.utils.array_scan(s.done, s.order, inclusive=False)
        wp.launch(shared.count, dim=1, inputs=[s])
        self._clear(everything=False)
        wp.launch(kernels.refill, dim=self.worlds, inputs=[s])
        wp.launch(kernels.observe, dim=self.worlds, inputs=[s])
        wp.launch(shared.standardize, dim=(self._size, self.worlds), inputs=[s])
        inputs, layers = s.standard, list(self._policy.layers())
        for number, each in enumerate(layers):
            last = number == len(layers) - 1
            outputs = s.action if last else self._hidden[number % 2]
            wp.launch(
                shared.layer,
                dim=(each.rows, self.worlds),
                inputs=[
                    s,
                    inputs,
                    outputs,
                    each.start,
                    each.columns,
                    each.bias_start if each.bias else -1,
                    0 if last else 1,
                ],
            )
            inputs = outputs
        wp.launch(kernels.before, dim=self.worlds, inputs=[s])
        self.physics()
        wp.launch(kernels.after, dim=self.worlds, inputs=[s])
        wp.launch(shared.collect, dim=(self._size, self.worlds), inputs=[s])

    def physics(self) -> None:
        """What MuJoCo does in a step of the environment."""
        _, mjw = modules()
        for what in self._law.calls:
            if what == "step":
                mjw.step(self._model, self._data)
            else:
                mjw.rne_postconstraint(self._model, self._data)

    def _clear(self, *, everything: bool) -> None:
        wp, _ = modules()
        d = self._data
        wp.launch(
            self._shared.clear,
            dim=self.worlds,
            inputs=[
                self._s,
                int(everything),
                self._qpos0,
                *(d.qpos, d.qvel, d.act, d.ctrl, d.qacc_warmstart, d.time),
            ],
        )

    def _download(self, trials: int) -> _Results:
        s, n, c = self._s, self._size, self.capacity

        def rows(array: Any) -> Array:
            return np.ascontiguousarray(array.numpy().reshape(n, c)[:, :trials].T)

        return _Results(
            s.returns.numpy()[:trials],
            s.bonuses.numpy()[:trials],
            s.lengths.numpy()[:trials].astype(np.int64),
            s.successes.numpy()[:trials].astype(np.float64),
            s.broken.numpy()[:trials] != 0,
            rows(s.means),
            rows(s.m2s),
        )


def _kernels(law: Traced, rows: dict[str, int], model: Any) -> tuple[Any, Any]:
    """The kernels of the environment, and those that all share."""
    shared: Any = import_module("gensmooth.rl.environments.warp_kernels")
    written = source(law, rows, forces_at_start=bool(model.sensor_rne_postconstraint))
    return _compiled(written), shared


@cache
def _compiled(written: Any) -> Any:
    shared: Any = import_module("gensmooth.rl.environments.warp_kernels")
    return shared.law_kernels(written)


def _announce_compilation(kernels: Any, name: str) -> None:
    """On a terminal, say so if the next seconds go into compiling."""
    if not getattr(sys.stderr, "isatty", bool)():
        return
    wp, _ = modules()
    folder = Path(wp.config.kernel_cache_dir)
    if not any(folder.glob(f"wp_{kernels.after.module.name}_*")):
        print(
            f"gensmooth: compiling {name} for {wp.get_device()}, once on this machine, up to two "
            "minutes…",
            file=sys.stderr,
        )


def _fill(target: Any, rows: NDArray[Any], stride: int, dtype: Any = np.float32) -> None:
    """Put rows on the device, entry by entry: entry ``e`` of row ``r`` at ``e * stride + r``."""
    padded = np.zeros((rows.shape[1], stride), dtype)
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and breaks its episode
        padded[:, : len(rows)] = rows.T
    target.assign(padded.reshape(-1))
