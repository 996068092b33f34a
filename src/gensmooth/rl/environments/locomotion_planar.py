# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Hopper, Walker2d and HalfCheetah, compiled: robots that move in a plane.

What each function must equal is the method of the same meaning in Gymnasium's environment, up to
rounding; a test compares them step by step. The first coordinate is how far the robot has come.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from gensmooth.rl.environments.native import Physics, call


class World(NamedTuple):
    """What the functions see of a simulation.

    Attributes:
        physics: How MuJoCo is called.
        qpos: Positions.
        qvel: Velocities.
        ctrl: Controls; MuJoCo clips them to their range.
        frames: Steps of the physics in a step of the environment.
        dt: Seconds in a step of the environment.
        falling: The survival bonus of the step in which the robot falls: 1 in Gymnasium's v4,
            0 in v5.
        goal: One entry, the velocity that is wanted (HalfCheetahRandVel).
    """

    physics: Physics
    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    frames: int
    dt: float
    falling: float
    goal: np.ndarray


@register_jitable
def begin(world, start):
    """Start at ``start``: positions, then velocities."""
    positions = len(world.qpos)
    for i in range(positions):
        world.qpos[i] = start[i]
    for i in range(len(world.qvel)):
        world.qvel[i] = start[positions + i]
    call(world.physics.forward, world.physics)


@register_jitable
def begin_with_goal(world, start):
    """Start at ``start``: positions, velocities, and the hidden goal."""
    begin(world, start)
    world.goal[0] = start[len(world.qpos) + len(world.qvel)]


@register_jitable
def observe_but(hidden, world, out):
    """Positions without the first ``hidden``, velocities."""
    others = len(world.qpos) - hidden
    for i in range(others):
        out[i] = world.qpos[hidden + i]
    for i in range(len(world.qvel)):
        out[others + i] = world.qvel[i]


@register_jitable
def observe(world, out):
    """Positions without the first, velocities."""
    observe_but(1, world, out)


@register_jitable
def observe_clipped(world, out):
    """Positions without the first, velocities clipped to ±10."""
    observe(world, out)
    for i in range(len(world.qpos) - 1, len(out)):
        out[i] = min(max(out[i], -10.0), 10.0)


@register_jitable
def advance(world, action):
    """Let the physics run for one step of the environment; returns ‖action‖²."""
    square = 0.0
    for i in range(len(action)):
        world.ctrl[i] = action[i]
        square += action[i] * action[i]
    for _ in range(world.frames):
        call(world.physics.step, world.physics)
    return square


@register_jitable
def velocity(world, action):
    """Let the physics run for one step; returns forward velocity and ‖action‖²."""
    before = world.qpos[0]
    square = advance(world, action)
    return (world.qpos[0] - before) / world.dt, square


@register_jitable
def hopper(world, action):
    """Forward velocity + survival − 0.001 ‖a‖²; falls below 0.7 or beyond 0.2 rad."""
    forward, square = velocity(world, action)
    angle = world.qpos[2]
    healthy = world.qpos[1] > 0.7 and -0.2 < angle < 0.2
    for i in range(2, len(world.qpos)):
        healthy = healthy and -100.0 < world.qpos[i] < 100.0
    for i in range(len(world.qvel)):
        healthy = healthy and -100.0 < world.qvel[i] < 100.0
    bonus = 1.0 if healthy else world.falling
    return forward + bonus - 1e-3 * square, bonus, not healthy, False


@register_jitable
def walker(world, action):
    """Forward velocity + survival − 0.001 ‖a‖²; falls outside of (0.8, 2) or beyond 1 rad."""
    forward, square = velocity(world, action)
    healthy = 0.8 < world.qpos[1] < 2.0 and -1.0 < world.qpos[2] < 1.0
    bonus = 1.0 if healthy else world.falling
    return forward + bonus - 1e-3 * square, bonus, not healthy, False


@register_jitable
def cheetah(world, action):
    """Forward velocity − 0.1 ‖a‖²; never ends."""
    forward, square = velocity(world, action)
    return forward - 0.1 * square, 0.0, False, False


@register_jitable
def cheetah_at_velocity(world, action):
    """−|forward velocity − goal| − 0.05 ‖a‖²; never ends."""
    forward, square = velocity(world, action)
    return -abs(forward - world.goal[0]) - 0.05 * square, 0.0, False, False
