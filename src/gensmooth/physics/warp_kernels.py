# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportPrivateImportUsage=false, reportUnusedFunction=false, reportUntypedClassDecorator=false
# pyright: reportOperatorIssue=false, reportAssignmentType=false
"""Warp kernels of the physics and of the environment: refill, observe, step, pay.

Arrays are ordered by world (``entry * worlds + world``) or by trial (``entry * capacity + trial``),
so that neighbouring threads read neighbouring addresses. A trial is an episode to run; a world is
where it runs. When the episode of a world has ended, the world takes the next trial that no world
has taken, in the order of the worlds.
"""

from typing import Any, NamedTuple

import warp as wp

from gensmooth.physics.fused.lanes import opening
from gensmooth.physics.fused.source import FusedSource
from gensmooth.physics.tracing import LawSource

_TOO_LARGE = 1e10  # MuJoCo's mjMAXVAL: beyond it a simulation has diverged


@wp.struct
class Worlds:
    """The data of all worlds and trials. Arrays of MuJoCo's data have MuJoCo's names."""

    worlds: int
    capacity: int
    groups: int
    horizon: int
    positions: int
    velocities: int
    controls: int
    block: int  # how many trials have their parameters side by side
    parameters_each: int
    qpos: wp.array(dtype=wp.float64)
    qvel: wp.array(dtype=wp.float64)
    act: wp.array(dtype=wp.float64)
    ctrl: wp.array(dtype=wp.float64)
    warm: wp.array(dtype=wp.float64)  # the accelerations of the last step
    sensordata: wp.array(dtype=wp.float64)
    xpos: wp.array(dtype=wp.float64)
    xquat: wp.array(dtype=wp.float64)
    site_xpos: wp.array(dtype=wp.float64)
    geom_xpos: wp.array(dtype=wp.float64)
    subtree_com: wp.array(dtype=wp.float64)
    cinert: wp.array(dtype=wp.float64)
    cvel: wp.array(dtype=wp.float64)
    qfrc_actuator: wp.array(dtype=wp.float64)
    qfrc_constraint: wp.array(dtype=wp.float64)
    cfrc_ext: wp.array(dtype=wp.float64)
    # per world
    trial: wp.array(dtype=wp.int32)  # the episode that runs here; -1: none is left
    done: wp.array(dtype=wp.int32)  # 1 if it has ended
    order: wp.array(dtype=wp.int32)  # how many worlds before this one are done
    length: wp.array(dtype=wp.int32)
    total: wp.array(dtype=wp.float64)
    bonus: wp.array(dtype=wp.float64)
    success: wp.array(dtype=wp.float64)
    memory: wp.array(dtype=wp.float64)
    saved: wp.array(dtype=wp.float64)
    seen: wp.array(dtype=wp.float64)
    observation: wp.array(dtype=wp.float64)
    standard: wp.array(dtype=wp.float64)
    action: wp.array(dtype=wp.float64)
    paid: wp.array(dtype=wp.float64)
    mean: wp.array(dtype=wp.float64)
    m2: wp.array(dtype=wp.float64)
    # shared by all worlds
    first: wp.array(dtype=wp.int32)  # the next trial at the beginning of this step
    cursor: wp.array(dtype=wp.int32)  # the next trial
    trials: wp.array(dtype=wp.int32)
    finished: wp.array(dtype=wp.int32)
    # per trial
    parameters: wp.array(dtype=wp.float64)
    starts: wp.array(dtype=wp.float64)
    start_seen: wp.array(dtype=wp.float64)
    group: wp.array(dtype=wp.int32)
    returns: wp.array(dtype=wp.float64)
    bonuses: wp.array(dtype=wp.float64)
    lengths: wp.array(dtype=wp.int32)
    successes: wp.array(dtype=wp.float64)
    broken: wp.array(dtype=wp.int32)
    means: wp.array(dtype=wp.float64)
    m2s: wp.array(dtype=wp.float64)
    # per group of trials with the same scaling
    scale_mean: wp.array(dtype=wp.float64)
    scale_inverse: wp.array(dtype=wp.float64)


class LawKernels(NamedTuple):
    """The kernels of an environment."""

    place: Any
    store_start: Any
    refill: Any
    observe: Any
    before: Any
    after: Any


def law_kernels(source: LawSource) -> LawKernels:
    """Make the kernels of an environment from its law as C."""

    @wp.func_native(source.begin)
    def begin(s: Worlds, world: int, trial: int): ...

    @wp.func_native(source.store_start or ";")
    def store(s: Worlds, world: int, trial: int): ...

    @wp.func_native(source.restore_start or ";")
    def restore(s: Worlds, world: int, trial: int): ...

    @wp.func_native(source.observe)
    def write_observation(s: Worlds, world: int): ...

    @wp.func_native(source.before)
    def prepare(s: Worlds, world: int): ...

    @wp.func_native(source.after)
    def pay(s: Worlds, world: int): ...

    @wp.kernel(module="unique", enable_backward=False)
    def place(s: Worlds, first: int):
        world = wp.tid()
        trial = first + world
        if trial < s.trials[0]:
            begin(s, world, trial)

    @wp.kernel(module="unique", enable_backward=False)
    def store_start(s: Worlds, first: int):
        world = wp.tid()
        trial = first + world
        if trial < s.trials[0]:
            store(s, world, trial)

    @wp.kernel(module="unique", enable_backward=False)
    def refill(s: Worlds):
        world = wp.tid()
        if s.done[world] == 0:
            return
        s.done[world] = 0
        trial = s.first[0] + s.order[world]
        if trial >= s.trials[0]:
            s.trial[world] = -1
            return
        s.trial[world] = trial
        s.length[world] = 0
        s.total[world] = wp.float64(0.0)
        s.bonus[world] = wp.float64(0.0)
        s.success[world] = wp.float64(0.0)
        begin(s, world, trial)
        restore(s, world, trial)

    @wp.kernel(module="unique", enable_backward=False)
    def observe(s: Worlds):
        world = wp.tid()
        if s.trial[world] >= 0:
            write_observation(s, world)

    @wp.kernel(module="unique", enable_backward=False)
    def before(s: Worlds):
        world = wp.tid()
        if s.trial[world] >= 0:
            prepare(s, world)

    @wp.kernel(module="unique", enable_backward=False)
    def after(s: Worlds):
        world = wp.tid()
        trial = s.trial[world]
        if trial < 0:
            return
        pay(s, world)
        total = s.total[world] + s.paid[world]
        bonus = s.bonus[world] + s.paid[s.worlds + world]
        success = wp.max(s.success[world], s.paid[3 * s.worlds + world])
        length = s.length[world] + 1
        limit = wp.float64(_TOO_LARGE)
        broken = int(0)  # noqa: RUF046, UP018 (a variable for Warp, not a constant)
        for i in range(s.positions):
            if not (wp.abs(s.qpos[i * s.worlds + world]) < limit):
                broken = 1
        for i in range(s.velocities):
            if not (wp.abs(s.qvel[i * s.worlds + world]) < limit):
                broken = 1
            if not (wp.abs(s.warm[i * s.worlds + world]) < limit):  # the acceleration
                broken = 1
        for i in range(s.controls):
            if not (wp.abs(s.ctrl[i * s.worlds + world]) < limit):
                broken = 1
        if not wp.isfinite(total):
            broken = 1
        s.total[world] = total
        s.bonus[world] = bonus
        s.success[world] = success
        s.length[world] = length
        if broken != 0 or s.paid[2 * s.worlds + world] != wp.float64(0.0) or length >= s.horizon:
            s.returns[trial] = total
            s.bonuses[trial] = bonus
            s.lengths[trial] = length
            s.successes[trial] = success
            s.broken[trial] = broken
            s.done[world] = 1
            wp.atomic_add(s.finished, 0, 1)

    return LawKernels(place, store_start, refill, observe, before, after)


class PhysicsKernels(NamedTuple):
    """The kernels of a robot's physics: a thread moves one world, or several side by side."""

    step: Any
    forward: Any


def physics_kernels(source: FusedSource) -> PhysicsKernels:
    """Make the kernels of a robot's physics from its C."""

    @wp.func_native(f"{opening(source.lanes)}\n{source.step}")
    def move(s: Worlds, world: int): ...

    @wp.func_native(f"{opening(1)}\n{source.forward}")
    def derive(s: Worlds, world: int): ...

    @wp.kernel(module="unique", enable_backward=False)
    def step(s: Worlds, groups: int):
        thread = wp.tid()
        world = thread // 32 + thread % 32 * groups
        if world < s.worlds and s.trial[world] >= 0:
            move(s, world)

    @wp.kernel(module="unique", enable_backward=False)
    def step_side_by_side(s: Worlds):
        move(s, wp.tid() * wp.static(source.lanes))

    @wp.kernel(module="unique", enable_backward=False)
    def forward(s: Worlds):
        derive(s, wp.tid())

    return PhysicsKernels(step if source.lanes == 1 else step_side_by_side, forward)


@wp.kernel(enable_backward=False)
def exchange(
    ours: wp.array(dtype=wp.float64), theirs: wp.array(dtype=wp.float32), width: int, to_theirs: int
):
    """Copy between our arrays, ordered by entry, and MuJoCo Warp's, with a row per world."""
    entry, world = wp.tid()
    worlds = ours.shape[0] // width
    here, there = entry * worlds + world, world * (theirs.shape[0] // worlds) + entry
    if to_theirs != 0:
        theirs[there] = wp.float32(ours[here])
    else:
        ours[here] = wp.float64(theirs[there])


# --- kernels that all environments share ---------------------------------------------------------


@wp.kernel(enable_backward=False)
def clear(s: Worlds, everything: int, activations: int, qpos0: wp.array(dtype=wp.float64)):
    """Reset worlds that are done or have no trial to the model's initial state, at rest."""
    world = wp.tid()
    if everything == 0 and s.done[world] == 0 and s.trial[world] >= 0:
        return
    for i in range(s.positions):
        s.qpos[i * s.worlds + world] = qpos0[i]
    for i in range(s.velocities):
        s.qvel[i * s.worlds + world] = wp.float64(0.0)
        s.warm[i * s.worlds + world] = wp.float64(0.0)
    for i in range(activations):
        s.act[i * s.worlds + world] = wp.float64(0.0)
    for i in range(s.controls):
        s.ctrl[i * s.worlds + world] = wp.float64(0.0)


@wp.kernel(enable_backward=False)
def lay_out(rows: wp.array2d(dtype=wp.float64), block: int, target: wp.array(dtype=wp.float64)):
    """Copy rows block by block: within a block, entry e of row r is at ``e * block + r``."""
    row, entry = wp.tid()
    first = row // block * block
    target[first * rows.shape[1] + entry * block + row - first] = rows[row, entry]


@wp.kernel(enable_backward=False)
def count(s: Worlds):
    """Advance the queue of trials; ``order`` counts the worlds before each that are done."""
    last = s.worlds - 1
    s.first[0] = s.cursor[0]
    s.cursor[0] = s.cursor[0] + s.order[last] + s.done[last]


@wp.kernel(enable_backward=False)
def collect(s: Worlds, size: int):
    """Store the moments of an episode that has ended."""
    world = wp.tid()
    trial = s.trial[world]
    if trial < 0 or s.done[world] == 0:
        return
    for entry in range(size):
        here = entry * s.worlds + world
        s.means[entry * s.capacity + trial] = s.mean[here]
        s.m2s[entry * s.capacity + trial] = s.m2[here]
        if not (wp.isfinite(s.mean[here]) and wp.isfinite(s.m2[here])):
            s.broken[trial] = 1  # an observation was not finite, which tanh may hide
