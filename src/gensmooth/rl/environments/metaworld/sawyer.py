"""Meta-World's Sawyer arm with one object: reset, physics, observation; a task adds its reward.

The hand is welded to a body, the handle, which the action moves (MuJoCo's *mocap*). The gripper has
two motors. The model, its limits and the reset distribution are read from Meta-World's environment.

* **Action** (4): the first three, clipped to ±1, move the handle by up to 1 cm each; the fourth
  drives the fingers: 1 closes, −1 opens.
* **Observation** (39): 18 numbers of the current step, the same 18 of the step before, and three
  zeros for the hidden goal. The 18 are the hand's position (3, clipped to Meta-World's bounds), how
  far the gripper is open (distance of the claws / 0.1 m, clipped to [0, 1]), the object's position
  (3), its rotation as a quaternion (x, y, z, w) whose largest entry is positive, and seven zeros.
* **Reset**: 50 simulated steps bring the hand to its place. They are always the same, so they are
  simulated only once here. Then object and goal are drawn (:func:`draw`).
* **Ends** at the horizon of 150 steps only.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from gensmooth.kernels.memory import copy
from gensmooth.physics import registry
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.extras import missing_extra
from gensmooth.physics.mujoco_calls import Physics, address, call, load_mujoco
from gensmooth.physics.registry import GymnasiumSpec

Array = NDArray[np.float64]

HORIZON = 150
HALF = 18  # entries of the observation of one step
RADIUS = 0.05  # m: nearer to the goal than this is a success
_APART = 0.15  # m, at least, from the object to the goal, seen from above
_OBJECT = 9  # the object's index in qpos (7 + 2 joints of the arm come before it) and in qvel
_TAIL = 9.0  # 1/0.1 − 1: the tail 1/(1 + 9x²) is 0.1 at x = 1

# The parts of `mj_step` that are needed if only the handle and the controls have changed since
# `mj_forward`: the weld, and what depends on it or on the controls. They give the same bits in an
# eighth of the time.
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
_RESUMES = ("3.3.0",)  # the MuJoCo versions whose `mj_step` consists of `RESUME`
_NEWEST_MUJOCO = (3, 16)
_NEWEST_PYTHON = (3, 13)


class ArmViews(NamedTuple):
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
    rotation: np.ndarray


class ArmArrays(NamedTuple):
    """The arrays from which MuJoCo computes a step, in an MjData or copied."""

    qpos: np.ndarray
    qvel: np.ndarray
    warmstart: np.ndarray
    ctrl: np.ndarray
    mocap_pos: np.ndarray
    mocap_quat: np.ndarray


class ArmLimits(NamedTuple):
    """The bounds of positions, and the size of a step.

    Attributes:
        low: The lower bounds of the handle's position.
        high: The upper bounds.
        hand_low: The lower bounds of the hand's position as it is observed.
        hand_high: The upper bounds.
        scale: Metres that an action of 1 moves the handle.
        frames: Steps of the physics per step of the environment.
    """

    low: np.ndarray
    high: np.ndarray
    hand_low: np.ndarray
    hand_high: np.ndarray
    scale: float
    frames: int


class ArmEpisode(NamedTuple):
    """The state of an episode that is not in MuJoCo's data.

    Attributes:
        target: The goal of the task.
        object_start: Where the object was placed.
        tip_start: The point between the fingertips after the hand had settled.
        tip: The point between the fingertips now.
        now: The observation of the current step.
        before: The observation of the step before.
    """

    target: np.ndarray
    object_start: np.ndarray
    tip_start: np.ndarray
    tip: np.ndarray
    now: np.ndarray
    before: np.ndarray


class ArmState(NamedTuple):
    """One simulation, as compiled functions see it.

    Attributes:
        physics: How MuJoCo is called.
        resume: The addresses of ``RESUME``; empty: use plain steps.
        views: The positions of hand, gripper and object.
        arrays: The arrays from which MuJoCo computes a step.
        settled: Their values after a reset has brought the hand to its place.
        limits: The bounds of positions, and the size of a step.
        episode: The state of the episode that is not in MuJoCo's data.
    """

    physics: Physics
    resume: np.ndarray
    views: ArmViews
    arrays: ArmArrays
    settled: ArmArrays
    limits: ArmLimits
    episode: ArmEpisode


# --- compiled: reset, physics, observation ------------------------------------------------------


@njit(nogil=True, error_model="numpy")
def _clip(x, low, high):
    """Return the nearest number in [low, high]; NaN stays NaN."""
    if x < low:
        return low
    return high if x > high else x


@njit(nogil=True, error_model="numpy")
def _quaternion(turn, out):
    """Convert a rotation matrix to (x, y, z, w), with the largest of the four positive."""
    trace = turn[0] + turn[4] + turn[8]
    largest, best = 3, trace
    for i in range(2, -1, -1):  # on ties, the first
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
def _look(state):
    """Compute the current observation, not clipped, and the point between the fingertips."""
    views, now, tip = state.views, state.episode.now, state.episode.tip
    apart2 = 0.0
    for i in range(3):
        now[i] = views.hand[i]
        gap = views.right_claw[i] - views.left_claw[i]
        apart2 += gap * gap
        now[4 + i] = views.object[i]
        tip[i] = (views.right_tip[i] + views.left_tip[i]) / 2.0
    now[3] = _clip(sqrt(apart2) / 0.1, 0.0, 1.0)
    _quaternion(views.rotation, now[7:11])


@register_jitable
def begin(state, start):
    """Start from the settled arm, with the object (3 entries) and the target (3) of ``start``."""
    arrays, settled, episode = state.arrays, state.settled, state.episode
    copy(settled.qpos, arrays.qpos)
    copy(settled.qvel, arrays.qvel)
    copy(settled.warmstart, arrays.warmstart)
    copy(settled.ctrl, arrays.ctrl)
    copy(settled.mocap_pos, arrays.mocap_pos)
    copy(settled.mocap_quat, arrays.mocap_quat)
    for i in range(3):
        episode.object_start[i] = start[i]
        episode.target[i] = start[3 + i]
        arrays.qpos[_OBJECT + i] = start[i]
    for i in range(6):
        arrays.qvel[_OBJECT + i] = 0.0
    call(state.physics.forward, state.physics)
    _look(state)
    copy(episode.now, episode.before)


@register_jitable
def advance(state, action):
    """Move the handle, run the physics and observe; the last action closes the gripper."""
    arrays, limits, physics = state.arrays, state.limits, state.physics
    for i in range(3):
        moved = arrays.mocap_pos[i] + _clip(action[i], -1.0, 1.0) * limits.scale
        arrays.mocap_pos[i] = _clip(moved, limits.low[i], limits.high[i])
    arrays.ctrl[0] = action[3]
    arrays.ctrl[1] = -action[3]
    frames = limits.frames
    if len(state.resume) > 0:
        copy(arrays.mocap_pos, state.views.handle)
        for function in state.resume:
            call(function, physics)
        frames -= 1
    for _ in range(frames):
        call(physics.step, physics)
    call(physics.forward, physics)
    copy(state.episode.now, state.episode.before)
    _look(state)


@register_jitable
def observe(state, out):
    """Write this step's observation, the previous one, and three zeros for the hidden goal."""
    limits = state.limits
    for i in range(HALF):
        out[i] = state.episode.now[i]
        out[HALF + i] = state.episode.before[i]
    for i in range(3):
        out[i] = _clip(out[i], limits.hand_low[i], limits.hand_high[i])
        out[HALF + i] = _clip(out[HALF + i], limits.hand_low[i], limits.hand_high[i])
        out[2 * HALF + i] = 0.0


# --- compiled: building blocks of rewards --------------------------------------------------------


@njit(nogil=True, error_model="numpy")
def distance(a, b):
    """Return ‖a − b‖."""
    x, y, z = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return sqrt(x * x + y * y + z * z)


@njit(nogil=True, error_model="numpy")
def inside(x, low, high, margin):
    """Return 1 for x in [low, high], and 1/(1 + 9 (distance/margin)²) outside."""
    if low <= x <= high:
        return 1.0
    if margin == 0.0:
        return 0.0
    far = (low - x if x < low else x - high) / margin
    return 1.0 / (far * far * _TAIL + 1.0)


# --- the definition ------------------------------------------------------------------------------


def draw(low: NDArray[Any], high: NDArray[Any], rng: np.random.Generator) -> Array:
    """Draw the object (3 entries) and the goal (3) uniformly, subject to a minimum distance."""
    while True:
        start = rng.uniform(low, high)
        if np.linalg.norm(start[:2] - start[3:5]) >= _APART:
            return start


class ArmTask(NamedTuple):
    """A task for the arm.

    Attributes:
        environment: Meta-World's class, such as ``"SawyerReachEnvV3"``.
        reward: The version of the reward, as that class names it.
        step: The compiled step.
        on_table: Whether object and goal are at the height at which the object came to rest.
    """

    environment: str
    reward: str
    step: Callable[..., Any]
    on_table: bool = False


def make(name: str, task: ArmTask, *, resume: bool = True) -> CompiledEnvironment:
    """Return the definition of a task.

    Args:
        name: The name of the environment.
        task: The task.
        resume: Whether the first physics step of a step may reuse the forward pass before it. It
            gives the same bits in less time, and is only done with the MuJoCo version that
            Meta-World requires.
    """
    arm_environment = require().ML1(task.environment, task.reward).unwrapped
    arm = settle(arm_environment)
    space = arm_environment._random_reset_space
    resume = resume and load_mujoco().__version__ in _RESUMES

    def start(_: Any, rng: np.random.Generator) -> Array:
        row = draw(space.low, space.high, rng)
        if task.on_table:
            row[2] = row[5] = arm.height
        return row

    return CompiledEnvironment(
        name,
        2 * HALF + 3,
        4,
        HORIZON,
        model=lambda: arm_environment.model,
        state=partial(_state, arm, read_limits(arm_environment), resume),
        start=start,
        begin=begin,
        observe=observe,
        step=task.step,
        goal=True,
        task_entries=6,  # Meta-World's tasks: the object's place as well as the goal
    )


def register(name: str, id: str, task: ArmTask) -> None:
    """Register a task under its name, and its ordinary environment under ``id``."""
    arguments = {"environment": task.environment, "reward": task.reward}
    entry_point = "gensmooth.rl.environments.reference:ML1"
    spec = GymnasiumSpec(id, entry_point, HORIZON, arguments, require)
    registry.register(name, partial(make, name, task), spec=spec)


def require() -> Any:
    """Import the ordinary environments, or raise an error that says what to install."""
    version: str = load_mujoco().__version__
    if tuple(int(part) for part in version.split(".")[:2]) > _NEWEST_MUJOCO:
        newest = ".".join(map(str, _NEWEST_MUJOCO))
        raise ImportError(
            f"Meta-World works with MuJoCo 3.3.0 (and up to {newest}), but {version} is "
            "installed: pip install 'mujoco==3.3.0'",
            name="mujoco",
        )
    try:
        import_module("metaworld.envs")
        return import_module("gensmooth.rl.environments.reference")
    except ImportError as error:
        if sys.version_info[:2] > _NEWEST_PYTHON:
            newest = ".".join(map(str, _NEWEST_PYTHON))
            raise ImportError(
                f"Meta-World runs on Python up to {newest}, but this is Python "
                f"{sys.version_info[0]}.{sys.version_info[1]}: use an environment with an older "
                "Python and pip install 'gensmooth[rl]' there.",
                name=error.name,
            ) from error
        raise missing_extra(error) from error


class SettledArm(NamedTuple):
    """The arm after the part of a reset that is always the same.

    Attributes:
        arrays: The arrays from which MuJoCo computes a step.
        tip: The point between the fingertips.
        height: The height at which the object came to rest.
    """

    arrays: ArmArrays
    tip: Array
    height: float


def settle(environment: Any) -> SettledArm:
    """Simulate 50 steps with the handle held still and the gripper open, as Meta-World does."""
    mujoco = load_mujoco()
    data = mujoco.MjData(environment.model)
    for _ in range(50):
        data.mocap_pos[0] = environment.hand_init_pos
        data.mocap_quat[0] = (1.0, 0.0, 1.0, 0.0)
        data.ctrl[:] = (-1.0, 1.0)
        mujoco.mj_step(environment.model, data, environment.frame_skip)
    views = _views(environment.model, data)
    copies = ArmArrays(*(array.copy() for array in _arrays(data)))
    return SettledArm(copies, (views.right_tip + views.left_tip) / 2.0, float(views.object[2]))


def read_limits(environment: Any) -> ArmLimits:
    """Read the limits of Meta-World's environment."""
    hand = environment._HAND_SPACE
    return ArmLimits(
        np.array(environment.mocap_low, np.float64),
        np.array(environment.mocap_high, np.float64),
        np.array(hand.low, np.float64),
        np.array(hand.high, np.float64),
        float(environment.action_scale),
        int(environment.frame_skip),
    )


def _views(model: Any, data: Any) -> ArmViews:
    def body(name: str) -> Any:
        return data.xpos[model.body(name).id]

    def site(name: str) -> Any:
        return data.site_xpos[model.site(name).id]

    return ArmViews(
        handle=body("mocap"),
        hand=body("hand"),
        right_claw=body("rightclaw"),
        left_claw=body("leftclaw"),
        right_tip=site("rightEndEffector"),
        left_tip=site("leftEndEffector"),
        right_pad=body("rightpad"),
        left_pad=body("leftpad"),
        object=body("obj"),
        rotation=data.geom_xmat[model.geom("objGeom").id],
    )


def _arrays(data: Any) -> ArmArrays:
    mocap = data.mocap_pos[0], data.mocap_quat[0]
    return ArmArrays(data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, *mocap)


def _state(
    arm: SettledArm, limits: ArmLimits, resume: bool, model: Any, data: Any, physics: Physics
) -> ArmState:
    functions = [address(name) for name in RESUME] if resume else []
    episode = ArmEpisode(
        target=np.zeros(3),
        object_start=np.zeros(3),
        tip_start=arm.tip,
        tip=np.zeros(3),
        now=np.zeros(HALF),
        before=np.zeros(HALF),
    )
    return ArmState(
        physics,
        np.array(functions, np.int64),
        _views(model, data),
        _arrays(data),
        arm.arrays,
        limits,
        episode,
    )
