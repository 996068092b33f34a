"""Humanoid: a body with two legs and two arms that learns to walk.

* **Observation**: qpos without the first two entries (22), qvel (23), inertias (``cinert``, ten
  entries for each body), body velocities (``cvel``, six for each body), motor forces
  (``qfrc_actuator``, one for each velocity) and external forces (``cfrc_ext``, six for each body,
  from ``mj_rnePostConstraint``; zero at the start of an episode). ``Humanoid-v4`` has them for all
  14 bodies and all 23 velocities (376). ``Humanoid-v5`` leaves out the world and the six velocities
  of the root, which no motor moves (348).
* **Reward**: 1.25 times the forward velocity of the centre of mass + 5 (survival) − 0.1 ‖a‖² and,
  in v5, − 5e-7 ‖external forces‖², but never more than 10.
* **Ends** when the height of the torso is not in (1, 2).
* **Reset**: initial qpos and qvel plus U(−0.01, 0.01) in every entry.

As in Gymnasium's ``humanoid_v4.py`` and ``humanoid_v5.py``; in v5 the step in which the robot falls
has no survival bonus. The centre of mass is MuJoCo's ``subtree_com``, which equals Gymnasium's sum
over the bodies up to rounding.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numba.extending import register_jitable

from gensmooth.physics.mujoco_calls import call
from gensmooth.physics.robots.legged import (
    LeggedRobot,
    advance,
    observe_without,
    register,
    start_uniform,
)


@register_jitable
def observe_from(first_body, first_velocity, state, out):
    """Observe positions without the first two, velocities, and the arrays of the bodies."""
    observe_without(2, state, out)
    place = len(state.qpos) - 2 + len(state.qvel)
    for body in range(first_body, len(state.inertias)):
        for i in range(10):
            out[place] = state.inertias[body, i]
            place += 1
    for body in range(first_body, len(state.velocities)):
        for i in range(6):
            out[place] = state.velocities[body, i]
            place += 1
    for i in range(first_velocity, len(state.motor_forces)):
        out[place] = state.motor_forces[i]
        place += 1
    for body in range(first_body, len(state.forces)):
        for i in range(6):
            out[place] = state.forces[body, i]
            place += 1


@register_jitable
def observe_all(state, out):
    """Observe all bodies and velocities."""
    observe_from(0, 0, state, out)


@register_jitable
def observe(state, out):
    """Observe all but the world and the velocities that no motor moves."""
    observe_from(1, 6, state, out)


@register_jitable
def walk(state, action):
    """Pay 1.25 forward velocity + survival − 0.1 ‖a‖²; end when the torso leaves (1, 2)."""
    before = state.centre[0]
    square = advance(state, action)
    forward = (state.centre[0] - before) / state.dt
    healthy = 1.0 < state.qpos[2] < 2.0
    for i in range(2):  # not observed, so the loop over steps does not check them
        if not np.isfinite(state.qpos[i]):
            forward = np.nan
    bonus = 5.0 if healthy else state.falling
    return 1.25 * forward + bonus - 0.1 * square, bonus, not healthy, False


@register_jitable
def humanoid_v4(state, action):
    """Pay as :func:`walk`, and compute the external forces, which are observed."""
    paid = walk(state, action)
    call(state.physics.forces, state.physics)
    return paid


@register_jitable
def humanoid(state, action):
    """Pay as :func:`walk`, less 5e-7 ‖external forces‖², which is at most 10."""
    reward, bonus, ended, success = walk(state, action)
    call(state.physics.forces, state.physics)
    square = 0.0
    for body in range(len(state.forces)):
        for i in range(6):
            square += state.forces[body, i] * state.forces[body, i]
    return reward - min(5e-7 * square, 10.0), bonus, ended, success


HUMANOID_V4 = LeggedRobot(
    "humanoid.xml",
    frames=5,
    observation_size=376,
    action_size=17,
    start=partial(start_uniform, spread=0.01),
    observe=observe_all,
    step=humanoid_v4,
    bonus=5.0,
    falling=5.0,
)
register("Humanoid-v4", HUMANOID_V4, alias="Humanoid")
register(
    "Humanoid-v5",
    replace(HUMANOID_V4, observation_size=348, observe=observe, step=humanoid, falling=0.0),
)
