# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""Hopper, Walker2d, HalfCheetah, HalfCheetahRandVel and Ant: one table, from names to tasks.

The models are Gymnasium's own files. Observation, reward, termination and reset law of each stand
in docs/environments.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.rl.environments import library
from gensmooth.rl.environments import locomotion_ant as ants
from gensmooth.rl.environments import locomotion_planar as planar
from gensmooth.rl.environments.base import Info, missing_extra
from gensmooth.rl.environments.engine import Compiled, Task
from gensmooth.rl.environments.native import Physics

Array = NDArray[np.float64]
Law = Callable[[Any, np.random.Generator], Array]


def _uniform(model: Any, rng: np.random.Generator) -> Array:
    """Positions and velocities ± 0.005, uniform: Hopper and Walker2d."""
    return np.concatenate(
        (model.qpos0 + rng.uniform(-5e-3, 5e-3, model.nq), rng.uniform(-5e-3, 5e-3, model.nv))
    )


def _normal(model: Any, rng: np.random.Generator) -> Array:
    """Positions ± 0.1 uniform, velocities 0.1 N(0, 1): HalfCheetah and Ant."""
    return np.concatenate(
        (model.qpos0 + rng.uniform(-0.1, 0.1, model.nq), 0.1 * rng.standard_normal(model.nv))
    )


def _normal_with_goal(model: Any, rng: np.random.Generator) -> Array:
    """As HalfCheetah, then the goal ~ U(0, 3)."""
    return np.concatenate((_normal(model, rng), [rng.uniform(0.0, 3.0)]))


def _planar_world(robot: "Robot", model: Any, data: Any, physics: Physics) -> planar.World:
    return planar.World(
        physics,
        data.qpos,
        data.qvel,
        data.ctrl,
        robot.frames,
        robot.frames * model.opt.timestep,
        robot.falling,
        np.zeros(1),
    )


def _ant_world(robot: "Robot", model: Any, data: Any, physics: Physics) -> ants.World:
    return ants.World(
        physics,
        data.qpos,
        data.qvel,
        data.ctrl,
        robot.frames,
        robot.frames * model.opt.timestep,
        robot.falling,
        data.xpos[model.body("torso").id],
        data.cfrc_ext,
        data.cfrc_ext[robot.unobserved :],
    )


@final
@dataclass(frozen=True)
class Robot:
    """One line of the table.

    Attributes:
        file: Gymnasium's model file.
        frames: Steps of the physics in a step of the environment.
        sizes: Entries of observation and action.
        start: Draws positions, velocities and hidden goal.
        observe: Compiled functions; see :mod:`gensmooth.rl.environments.trajectories`.
        step: Likewise.
        begin: Likewise.
        world: Makes what these functions see of a simulation.
        horizon: Steps of an episode.
        bonus: The survival bonus.
        falling: The survival bonus of the step in which it falls.
        unobserved: Rows of contact forces that are not observed.
    """

    file: str
    frames: int
    sizes: tuple[int, int]
    start: Law
    observe: Callable[..., Any]
    step: Callable[..., Any]
    begin: Callable[..., Any] = planar.begin
    world: Callable[..., Any] = _planar_world
    horizon: int = 1000
    bonus: float = 1.0
    falling: float = 1.0
    unobserved: int = 0


_hopper = partial(Robot, "hopper.xml", 4, (11, 3), _uniform, planar.observe_clipped, planar.hopper)
_walker = partial(
    Robot,
    frames=4,
    sizes=(17, 6),
    start=_uniform,
    observe=planar.observe_clipped,
    step=planar.walker,
)
_cheetah = partial(Robot, "half_cheetah.xml", 5, (17, 6), bonus=0.0, observe=planar.observe)
_ant = partial(Robot, "ant.xml", 5, start=_normal, world=_ant_world)

ROBOTS: dict[str, Robot] = {
    "Hopper-v4": _hopper(),
    "Hopper-v5": _hopper(falling=0.0),
    "Walker2d-v4": _walker(file="walker2d.xml"),
    "Walker2d-v5": _walker(file="walker2d_v5.xml", falling=0.0),
    "HalfCheetah-v4": _cheetah(start=_normal, step=planar.cheetah),
    "HalfCheetah-v5": _cheetah(start=_normal, step=planar.cheetah),
    "HalfCheetahRandVel": _cheetah(
        start=_normal_with_goal,
        begin=planar.begin_with_goal,
        step=planar.cheetah_at_velocity,
        horizon=200,
    ),
    "Ant": _ant(sizes=(111, 8), observe=ants.observe_forces, step=ants.ant_forces),
    "Ant-v4": _ant(sizes=(27, 8), observe=ants.observe, step=ants.ant),
    "Ant-v5": _ant(
        sizes=(105, 8), observe=ants.observe_forces, step=ants.ant_forces, falling=0.0, unobserved=1
    ),
}


def make(name: str) -> Compiled:
    """The simulator of an environment in the table."""
    return simulator(name, ROBOTS[name])


def simulator(name: str, robot: Robot) -> Compiled:
    """The simulator of a robot."""
    observations, actions = robot.sizes
    info = Info(name, observations, actions, robot.horizon, robot.bonus, fast=True)
    task = Task(
        info,
        model=partial(_model, robot.file),
        world=partial(robot.world, robot),
        start=robot.start,
        begin=robot.begin,
        observe=robot.observe,
        step=robot.step,
    )
    return Compiled(task, (make, (name,)))


def _model(file: str) -> Any:
    mujoco = library.load()
    try:
        from gymnasium.envs.mujoco.mujoco_env import expand_model_path
    except ImportError as error:
        raise missing_extra(error) from error
    with library.quiet():  # newer versions call parts of Gymnasium's files deprecated
        return mujoco.MjModel.from_xml_path(expand_model_path(file))
