"""Ant: a body on four legs, with and without contact forces.

* **Observation**: qpos without the first two entries (13), qvel (14), and, except in ``Ant-v4``,
  the external forces on the bodies (six entries each, from ``mj_rnePostConstraint``) clipped to
  ±1. ``Ant`` has all 14 bodies (27 + 84 = 111), ``Ant-v5`` leaves out the world (105). They are
  zero at the start of an episode.
* **Reward**: forward velocity of the torso + 1 (survival) − 0.5 ‖a‖² and, except in ``Ant-v4``,
  − 0.0005 ‖forces clipped to ±1‖².
* **Ends** when the height of the torso is not in [0.2, 1].
* **Reset**: initial qpos plus U(−0.1, 0.1), initial qvel plus 0.1 N(0, 1), in every entry.

As in Gymnasium's ``ant_v4.py`` and ``ant_v5.py``. ``Ant`` is v4 with ``use_contact_forces=True``,
the layout of Gym's v2, which the paper used. The position of the torso is MuJoCo's ``xpos``, as in
Gymnasium. In v5 the step in which the robot falls has no survival bonus.
"""

from dataclasses import replace

import numpy as np
from numba.extending import register_jitable

from gensmooth.physics.mujoco_calls import call
from gensmooth.physics.registry import GymnasiumSpec
from gensmooth.physics.robots.legged import (
    LeggedRobot,
    advance,
    observe_without,
    register,
    start_normal,
)


@register_jitable
def observe(state, out):
    """Observe positions without the first two, then velocities."""
    observe_without(2, state, out)


@register_jitable
def observe_forces(state, out):
    """Observe positions without the first two, velocities, and contact forces clipped to ±1."""
    observe(state, out)
    place = len(state.qpos) - 2 + len(state.qvel)
    for body in range(len(state.observed_forces)):
        for i in range(6):
            out[place] = min(max(state.observed_forces[body, i], -1.0), 1.0)
            place += 1


@register_jitable
def ant(state, action):
    """Pay forward velocity + survival − 0.5 ‖a‖²; end when the torso leaves [0.2, 1]."""
    before = state.torso[0]
    square = advance(state, action)
    forward = (state.torso[0] - before) / state.dt
    healthy = 0.2 <= state.qpos[2] <= 1.0
    for i in range(2):  # not observed, so the loop over steps does not check them
        if not np.isfinite(state.qpos[i]):
            forward = np.nan
    bonus = 1.0 if healthy else state.falling
    return forward + bonus - 0.5 * square, bonus, not healthy, False


@register_jitable
def ant_forces(state, action):
    """Pay as :func:`ant`, less 0.0005 ‖contact forces clipped to ±1‖²."""
    reward, bonus, ended, success = ant(state, action)
    call(state.physics.forces, state.physics)
    square = 0.0
    for body in range(len(state.forces)):
        for i in range(6):
            force = min(max(state.forces[body, i], -1.0), 1.0)
            square += force * force
    return reward - 5e-4 * square, bonus, ended, success


ANT_V4 = LeggedRobot(
    "ant.xml",
    frames=5,
    observation_size=27,
    action_size=8,
    start=start_normal,
    observe=observe,
    step=ant,
)
ANT = replace(ANT_V4, observation_size=111, observe=observe_forces, step=ant_forces)

register(
    "Ant",
    ANT,
    spec=GymnasiumSpec(
        "gensmooth/Ant-v2",  # Gym's v2 had this layout
        "gymnasium.envs.mujoco.ant_v4:AntEnv",
        horizon=1000,
        arguments={"use_contact_forces": True},
    ),
)
register("Ant-v4", ANT_V4)
register("Ant-v5", replace(ANT, observation_size=105, falling=0.0, unobserved_forces=1))
