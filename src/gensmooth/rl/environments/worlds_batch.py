# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false
"""Worlds of one environment on a device: their memory, their rollouts, and a step as one graph."""

import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.physics.drivers import (
    DevicePhysics,
    FusedPhysics,
    MujocoWarpPhysics,
    load_warp,
    qpos0,
    sizes,
)
from gensmooth.physics.tracing import Traced, source
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.policies import Policy

if TYPE_CHECKING:
    from gensmooth.rl.environments.warp import WarpSimulator

Array = NDArray[np.float64]

_CHECK_EVERY = 20  # steps between checks whether all episodes have ended

# While Warp captures a graph on the CPU, it records what any thread of the process launches there.
# It also captures only one graph at a time, on any device.
captures = threading.RLock()


def _forget_captures() -> None:
    """Reset the lock in a forked process: the thread that held it exists only in the parent."""
    global captures
    captures = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_captures)


class Results(NamedTuple):
    """The results of episodes, in the order of the trials."""

    returns: Array
    bonuses: Array
    lengths: NDArray[np.int64]
    successes: Array
    broken: NDArray[np.bool_]
    means: Array
    m2: Array

    @classmethod
    def joined(cls, parts: "Sequence[Results]", shares: Sequence[NDArray[np.int64]]) -> "Results":
        """Join the results of shares of the episodes, in their original order."""
        order = np.argsort(np.concatenate(shares))
        return cls(*(np.concatenate(column)[order] for column in zip(*parts, strict=True)))

    @classmethod
    def none(cls, size: int) -> "Results":
        """Return the results of no episodes, for observations of ``size`` entries."""
        zero, rows = np.zeros(0), np.zeros((0, size))
        return cls(zero, zero, np.zeros(0, np.int64), zero, np.zeros(0, np.bool_), rows, rows)


@final
class WorldsBatch:
    """Worlds of one environment, for policies of one shape.

    Args:
        owner: The simulator.
        policy: The shape of the policies.
        worlds: The number of worlds.
        capacity: The largest number of trials.
        groups: The largest number of scalings.

    Attributes:
        steps: The number of steps of the last rollout.
        seconds: The seconds that they took.
        stopped: Set it to stop the rollout before its episodes have ended.
    """

    def __init__(
        self, owner: "WarpSimulator", policy: Policy, worlds: int, capacity: int, groups: int
    ) -> None:
        wp = load_warp()
        self.worlds, self.capacity, self.groups = worlds, capacity, groups
        self.steps, self.seconds = 0, 0.0
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

    def run(self, grouped: Grouped) -> Results | None:
        """Run all episodes; ``None`` if there was no room for a contact or a constraint."""
        wp = load_warp()
        with wp.ScopedDevice(self._device):
            self._upload(grouped)
            self._derive_starts(len(grouped.parameters))
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

    def _derive_starts(self, trials: int) -> None:
        """Compute and store, for each start, what an observation needs before the first step."""
        wp = load_warp()
        s, kernels = self._s, self._kernels
        s.trials.fill_(trials)
        self.physics.begin()
        if not self._law.seen:
            return
        for first in range(0, max(trials, 1), self.worlds):
            self._clear(everything=True)
            wp.launch(kernels.place, dim=self.worlds, inputs=[s, first])
            self.physics.forward()
            wp.launch(kernels.store_start, dim=self.worlds, inputs=[s, first])

    def _prepare_queue(self, trials: int) -> None:
        s = self._s
        s.trials.fill_(trials)
        s.cursor.zero_()
        s.finished.zero_()
        s.trial.fill_(-1)
        s.done.fill_(1)

    def _steps(self, trials: int) -> None:
        wp = load_warp()
        s, self.steps = self._s, 0
        most = math.ceil(trials / self.worlds) * self._horizon
        while self.steps < most:
            for _ in range(min(_CHECK_EVERY, most - self.steps)):
                if self._graph is not None:
                    wp.capture_launch(self._graph)
                else:
                    self._step()
                self.steps += 1
            if self.stopped or int(s.finished.numpy()[0]) >= trials:
                break
        wp.synchronize_device()

    def _load(self) -> None:
        """Compile and load every kernel by a step without episodes."""
        self._derive_starts(0)
        self._prepare_queue(0)
        self._step()

    def _capture(self) -> None:
        """Capture a step as one graph.

        A dozen launches from Python take 200 microseconds, one graph takes 8. This matters on the
        CPU, where threads would wait for the interpreter's lock.
        """
        with captures, load_warp().ScopedCapture() as capture:
            self._step()
        self._graph = capture.graph

    def _step(self) -> None:
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

    def _download(self, trials: int) -> Results:
        s, n, c = self._s, self._size, self.capacity

        def rows(array: Any) -> Array:
            return np.ascontiguousarray(array.numpy().reshape(n, c)[:, :trials].T)

        return Results(
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
    """Print a line on a terminal if compiling will take a while."""
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
