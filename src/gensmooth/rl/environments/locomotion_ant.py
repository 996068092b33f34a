# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Ant, compiled, with and without contact forces in observation and reward.

As in Gymnasium, how far the ant has come is read from the torso's ``xpos``, which MuJoCo computes
at the beginning of a step and so lags a step of the physics behind ``qpos``.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from gensmooth.rl.environments.locomotion_planar import advance, observe_but
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
        falling: The survival bonus of the step in which the ant falls: 1 in v4, 0 in v5.
        torso: The torso's position in space.
        forces: The external forces on all bodies, one row of six a body.
        observed: The rows of it that are observed: all in v4, all but the world's in v5.
    """

    physics: Physics
    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    frames: int
    dt: float
    falling: float
    torso: np.ndarray
    forces: np.ndarray
    observed: np.ndarray


@register_jitable
def observe(world, out):
    """Positions without the first two, velocities."""
    observe_but(2, world, out)


@register_jitable
def observe_forces(world, out):
    """Positions without the first two, velocities, contact forces clipped to ±1."""
    observe(world, out)
    place = len(world.qpos) - 2 + len(world.qvel)
    for body in range(len(world.observed)):
        for i in range(6):
            out[place] = min(max(world.observed[body, i], -1.0), 1.0)
            place += 1


@register_jitable
def ant(world, action):
    """Forward velocity + survival − 0.5 ‖a‖²; falls when the torso leaves [0.2, 1]."""
    before = world.torso[0]
    square = advance(world, action)
    forward = (world.torso[0] - before) / world.dt
    healthy = 0.2 <= world.qpos[2] <= 1.0
    for i in range(2):  # the others are observed, and the loop over steps looks at those
        if not np.isfinite(world.qpos[i]):
            forward = np.nan
    bonus = 1.0 if healthy else world.falling
    return forward + bonus - 0.5 * square, bonus, not healthy, False


@register_jitable
def ant_forces(world, action):
    """The same less 0.0005 ‖contact forces, clipped to ±1‖²."""
    reward, bonus, ended, success = ant(world, action)
    call(world.physics.forces, world.physics)
    square = 0.0
    for body in range(len(world.forces)):
        for i in range(6):
            force = min(max(world.forces[body, i], -1.0), 1.0)
            square += force * force
    return reward - 5e-4 * square, bonus, ended, success
