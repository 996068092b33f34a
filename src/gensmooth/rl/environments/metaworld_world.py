# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Meta-World's Sawyer arm with one object, compiled: reset, physics of a step, observation.

The hand is welded to a body that the action moves (MuJoCo's *mocap*); the gripper has two motors.
All tasks with one object share what is here; rewards are in
:mod:`gensmooth.rl.environments.metaworld_rewards`.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from gensmooth.rl.environments.native import Physics, call

HALF = 18  # entries of an observation of one moment: hand 3, opening 1, object 3 + 4, seven zeros
OBSERVATION = 2 * HALF + 3  # now, before, and the goal, hidden
_OBJECT = 9  # its place in qpos (7 + 2 joints of the arm before it) and in qvel

# What remains of `mj_step` when only the handle and the controls changed since `mj_forward`: the
# weld and whatever depends on it or on the controls. Bit for bit the same, an eighth of the time.
RESUME = (
    "mj_makeConstraint",
    "mj_island",
    "mj_projectConstraint",
    "mj_referenceConstraint",
    "mj_fwdActuation",
    "mj_fwdAcceleration",
    "mj_fwdConstraint",
    "mj_checkAcc",
    "mj_Euler",
)


class Views(NamedTuple):
    """Positions (3 entries each) and one matrix (9) in an MjData."""

    handle: np.ndarray
    hand: np.ndarray
    right_claw: np.ndarray
    left_claw: np.ndarray
    right_tip: np.ndarray
    left_tip: np.ndarray
    right_pad: np.ndarray
    left_pad: np.ndarray
    object: np.ndarray
    turn: np.ndarray


class State(NamedTuple):
    """What MuJoCo starts a step from: arrays in an MjData, or copies of them."""

    qpos: np.ndarray
    qvel: np.ndarray
    warmstart: np.ndarray
    ctrl: np.ndarray
    mocap_pos: np.ndarray
    mocap_quat: np.ndarray


class Limits(NamedTuple):
    """How far things go.

    Attributes:
        low: Of the handle, and
        high: likewise.
        hand_low: Of the hand's position as it is observed, and
        hand_high: likewise.
        scale: Metres that an action of 1 moves the handle.
        frames: Physics steps of a step.
    """

    low: np.ndarray
    high: np.ndarray
    hand_low: np.ndarray
    hand_high: np.ndarray
    scale: float
    frames: int


class Episode(NamedTuple):
    """What changes with an episode or a step and is not MuJoCo's.

    Attributes:
        target: Where the task leads to.
        object_start: Where the object was put.
        tip_start: The point between the fingertips when the hand had settled.
        tip: That point now.
        now: The observation of this moment, and
        before: of the one before.
    """

    target: np.ndarray
    object_start: np.ndarray
    tip_start: np.ndarray
    tip: np.ndarray
    now: np.ndarray
    before: np.ndarray


class World(NamedTuple):
    """One simulation.

    Attributes:
        physics: MuJoCo's model, data and functions.
        resume: The addresses of ``RESUME``; none: plain steps.
        views: Where things are.
        state: The arrays of the data.
        settled: What they hold when a reset has brought the hand to its place.
        limits: How far things go.
        episode: The rest.
    """

    physics: Physics
    resume: np.ndarray
    views: Views
    state: State
    settled: State
    limits: Limits
    episode: Episode


def views_of(model: Any, data: Any) -> Views:
    """Where things are in an MjData of a Sawyer model."""

    def body(name: str) -> Any:
        return data.xpos[model.body(name).id]

    def site(name: str) -> Any:
        return data.site_xpos[model.site(name).id]

    return Views(
        handle=body("mocap"),
        hand=body("hand"),
        right_claw=body("rightclaw"),
        left_claw=body("leftclaw"),
        right_tip=site("rightEndEffector"),
        left_tip=site("leftEndEffector"),
        right_pad=body("rightpad"),
        left_pad=body("leftpad"),
        object=body("obj"),
        turn=data.geom_xmat[model.geom("objGeom").id],
    )


def state_of(data: Any) -> State:
    """The arrays that a step starts from."""
    mocap = data.mocap_pos[0], data.mocap_quat[0]
    return State(data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, *mocap)


@njit(nogil=True, error_model="numpy")
def _clip(x, low, high):
    """The nearest number in [low, high]; NaN stays."""
    if x < low:
        return low
    return high if x > high else x


@njit(nogil=True, error_model="numpy")
def _quaternion(turn, out):
    """The rotation matrix ``turn`` as (x, y, z, w), the largest of the four positive."""
    trace = turn[0] + turn[4] + turn[8]
    largest, best = 3, trace
    for i in range(2, -1, -1):  # of equal ones the first
        if turn[4 * i] >= best:
            largest, best = i, turn[4 * i]
    if largest == 3:
        out[0], out[1], out[2] = turn[7] - turn[5], turn[2] - turn[6], turn[3] - turn[1]
        out[3] = 1.0 + trace
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        out[i] = 1.0 - trace + 2.0 * turn[4 * i]
        out[j] = turn[3 * j + i] + turn[3 * i + j]
        out[k] = turn[3 * k + i] + turn[3 * i + k]
        out[3] = turn[3 * k + j] - turn[3 * j + k]
    norm = sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2] + out[3] * out[3])
    for i in range(4):
        out[i] /= norm


@njit(nogil=True, error_model="numpy")
def _look(world):
    """Fill the observation of this moment, not clipped, and the point between the fingertips."""
    views, now, tip = world.views, world.episode.now, world.episode.tip
    apart2 = 0.0
    for i in range(3):
        now[i] = views.hand[i]
        gap = views.right_claw[i] - views.left_claw[i]
        apart2 += gap * gap
        now[4 + i] = views.object[i]
        tip[i] = (views.right_tip[i] + views.left_tip[i]) / 2.0
    now[3] = _clip(sqrt(apart2) / 0.1, 0.0, 1.0)
    _quaternion(views.turn, now[7:11])


@register_jitable
def begin(world, start):
    """The settled arm, and object (3 entries) and target (3) where ``start`` has them."""
    state, settled, episode = world.state, world.settled, world.episode
    state.qpos[:] = settled.qpos
    state.qvel[:] = settled.qvel
    state.warmstart[:] = settled.warmstart
    state.ctrl[:] = settled.ctrl
    state.mocap_pos[:] = settled.mocap_pos
    state.mocap_quat[:] = settled.mocap_quat
    for i in range(3):
        episode.object_start[i] = start[i]
        episode.target[i] = start[3 + i]
        state.qpos[_OBJECT + i] = start[i]
    for i in range(6):
        state.qvel[_OBJECT + i] = 0.0
    call(world.physics.forward, world.physics)
    _look(world)
    episode.before[:] = episode.now


@register_jitable
def advance(world, action):
    """Move the handle, run the physics, look; the action's last entry closes the gripper."""
    state, limits, physics = world.state, world.limits, world.physics
    for i in range(3):
        moved = state.mocap_pos[i] + _clip(action[i], -1.0, 1.0) * limits.scale
        state.mocap_pos[i] = _clip(moved, limits.low[i], limits.high[i])
    state.ctrl[0] = action[3]
    state.ctrl[1] = -action[3]
    frames = limits.frames
    if len(world.resume) > 0:
        world.views.handle[:] = state.mocap_pos
        for function in world.resume:
            call(function, physics)
        frames -= 1
    for _ in range(frames):
        call(physics.step, physics)
    call(physics.forward, physics)
    world.episode.before[:] = world.episode.now
    _look(world)


@register_jitable
def observe(world, out):
    """Now, before, and three zeros for the hidden goal; the hand within Meta-World's bounds."""
    limits = world.limits
    for i in range(HALF):
        out[i] = world.episode.now[i]
        out[HALF + i] = world.episode.before[i]
    for i in range(3):
        out[i] = _clip(out[i], limits.hand_low[i], limits.hand_high[i])
        out[HALF + i] = _clip(out[HALF + i], limits.hand_low[i], limits.hand_high[i])
        out[2 * HALF + i] = 0.0
