"""The common parts of Gymnasium's robots: model files, resets, positions and velocities.

A robot's file has its observation, reward and termination as compiled functions. Each function
equals the corresponding method of Gymnasium's environment up to rounding; a test compares them step
by step.

The control cost uses the action as the policy computed it. MuJoCo clips the control of a motor to
its range.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from gensmooth.physics import registry
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.extras import missing_extra
from gensmooth.physics.mujoco_calls import Physics, call, load_mujoco, quiet
from gensmooth.physics.registry import GymnasiumSpec

Array = NDArray[np.float64]


class LeggedState(NamedTuple):
    """One simulation, as compiled functions see it; arrays are views of the ``MjData``.

    Attributes:
        physics: How MuJoCo is called.
        qpos: Positions; the first is the distance that the robot has covered.
        qvel: Velocities.
        ctrl: Controls.
        frames: Steps of the physics per step of the environment (the frame skip).
        dt: Seconds per step of the environment.
        falling: The survival bonus of the step in which the robot falls.
        goal: One entry, the target velocity (HalfCheetahRandVel).
        torso: The position of the first body. MuJoCo computes it, and all fields after it, at the
            beginning of a physics step, so they are one physics step behind ``qpos``.
        sites: The positions of the model's sites, one row of three each.
        centre: The robot's centre of mass.
        inertias: The inertia of all bodies (``cinert``), one row of ten per body.
        velocities: Their velocities (``cvel``), one row of six per body.
        motor_forces: The forces of the actuators along each joint (``qfrc_actuator``).
        constraint_forces: The forces of limits and contacts along each (``qfrc_constraint``).
        forces: The external forces on all bodies, one row of six per body.
        observed_forces: The rows of ``forces`` that are observed.
    """

    physics: Physics
    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    frames: int
    dt: float
    falling: float
    goal: np.ndarray
    torso: np.ndarray
    sites: np.ndarray
    centre: np.ndarray
    inertias: np.ndarray
    velocities: np.ndarray
    motor_forces: np.ndarray
    constraint_forces: np.ndarray
    forces: np.ndarray
    observed_forces: np.ndarray


# --- resets -------------------------------------------------------------------------------------


def start_uniform(model: Any, rng: np.random.Generator, *, spread: float = 5e-3) -> Array:
    """Draw initial positions and velocities plus U(−spread, spread) in every entry."""
    return np.concatenate(
        (
            model.qpos0 + rng.uniform(-spread, spread, model.nq),
            rng.uniform(-spread, spread, model.nv),
        )
    )


def start_normal(model: Any, rng: np.random.Generator) -> Array:
    """Draw initial positions plus U(−0.1, 0.1), initial velocities plus 0.1 N(0, 1)."""
    return np.concatenate(
        (model.qpos0 + rng.uniform(-0.1, 0.1, model.nq), 0.1 * rng.standard_normal(model.nv))
    )


@register_jitable
def begin(state, start):
    """Start at ``start``: positions, then velocities."""
    positions = len(state.qpos)
    for i in range(positions):
        state.qpos[i] = start[i]
    for i in range(len(state.qvel)):
        state.qvel[i] = start[positions + i]
    call(state.physics.forward, state.physics)


# --- observations and steps ---------------------------------------------------------------------


@register_jitable
def observe_without(hidden, state, out):
    """Observe positions without the first ``hidden``, then velocities."""
    others = len(state.qpos) - hidden
    for i in range(others):
        out[i] = state.qpos[hidden + i]
    for i in range(len(state.qvel)):
        out[others + i] = state.qvel[i]


@register_jitable
def observe(state, out):
    """Observe positions without the first, then velocities."""
    observe_without(1, state, out)


@register_jitable
def observe_clipped(state, out):
    """Observe positions without the first, then velocities clipped to ±10."""
    observe(state, out)
    for i in range(len(state.qpos) - 1, len(out)):
        out[i] = min(max(out[i], -10.0), 10.0)


@register_jitable
def advance(state, action):
    """Run the physics for one step of the environment and return ‖action‖²."""
    square = 0.0
    for i in range(len(action)):
        state.ctrl[i] = action[i]
        square += action[i] * action[i]
    for _ in range(state.frames):
        call(state.physics.step, state.physics)
    return square


@register_jitable
def velocity(state, action):
    """Run the physics for one environment step; return the forward velocity and ‖action‖²."""
    before = state.qpos[0]
    square = advance(state, action)
    return (state.qpos[0] - before) / state.dt, square


# --- the definition ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class LeggedRobot:
    """One of Gymnasium's robots.

    Attributes:
        file: Gymnasium's model file.
        frames: Steps of the physics per step of the environment (the frame skip).
        observation_size: Entries of an observation.
        action_size: Entries of an action.
        start: ``start(model, rng)`` draws positions, velocities and the goal, if there is one.
        observe: A compiled function; see :mod:`gensmooth.physics.environment`.
        step: A compiled function.
        begin: A compiled function.
        horizon: Steps per episode.
        bonus: The survival bonus per step; 0 for a robot that cannot fall, or whose only task is
            not to fall.
        falling: The survival bonus of the step in which it falls: in Gymnasium's v4 the same as for
            any other step, in v5 zero.
        unobserved_forces: How many rows of contact forces, from the first, are not observed.
        task_entries: How many entries at the end of a start describe the task, such as a goal.
    """

    file: str
    frames: int
    observation_size: int
    action_size: int
    start: Callable[[Any, np.random.Generator], Array]
    observe: Callable[..., Any]
    step: Callable[..., Any]
    begin: Callable[..., Any] = begin
    horizon: int = 1000
    bonus: float = 1.0
    falling: float = 1.0
    unobserved_forces: int = 0
    task_entries: int = 0

    def environment(self, name: str) -> CompiledEnvironment:
        """Return the definition of the environment, under its name."""
        return CompiledEnvironment(
            name,
            self.observation_size,
            self.action_size,
            self.horizon,
            model=self._model,
            state=self._state,
            start=self.start,
            begin=self.begin,
            observe=self.observe,
            step=self.step,
            survival_bonus=self.bonus,
            task_entries=self.task_entries,
        )

    def _model(self) -> Any:
        mujoco = load_mujoco()
        try:
            from gymnasium.envs.mujoco.mujoco_env import expand_model_path
        except ImportError as error:
            raise missing_extra(error) from error
        with quiet():  # newer MuJoCo warns that parts of Gymnasium's files are deprecated
            return mujoco.MjModel.from_xml_path(expand_model_path(self.file))

    def _state(self, model: Any, data: Any, physics: Physics) -> LeggedState:
        return LeggedState(
            physics,
            data.qpos,
            data.qvel,
            data.ctrl,
            self.frames,
            self.frames * model.opt.timestep,
            self.falling,
            np.zeros(1),
            data.xpos[1],
            data.site_xpos,
            data.subtree_com[1],
            data.cinert,
            data.cvel,
            data.qfrc_actuator,
            data.qfrc_constraint,
            data.cfrc_ext,
            data.cfrc_ext[self.unobserved_forces :],
        )


def register(
    name: str, robot: LeggedRobot, *, alias: str | None = None, spec: GymnasiumSpec | None = None
) -> None:
    """Register a robot under its full name; see :func:`gensmooth.physics.registry.register`."""
    registry.register(name, partial(robot.environment, name), alias=alias, spec=spec)
    ROBOTS[name] = robot


ROBOTS: dict[str, LeggedRobot] = {}
