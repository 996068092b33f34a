"""Swimmer: three links in a plane, in a fluid that resists.

* **Observation** (8): qpos without the first two entries (the angle of the first link, two joints),
  qvel (5).
* **Reward**: forward velocity − 0.0001 ‖a‖².
* **Ends** at the horizon only.
* **Reset**: initial qpos and qvel plus U(−0.1, 0.1) in every entry.

As in Gymnasium's ``swimmer_v4.py`` and ``swimmer_v5.py``, which do not differ in this respect.
"""

from functools import partial

import numpy as np
from numba.extending import register_jitable

from gensmooth.physics.robots.legged import (
    LeggedRobot,
    observe_without,
    register,
    start_uniform,
    velocity,
)


@register_jitable
def observe(state, out):
    """Observe positions without the first two, then velocities."""
    observe_without(2, state, out)


@register_jitable
def swimmer(state, action):
    """Pay forward velocity − 0.0001 ‖a‖²; never end."""
    forward, square = velocity(state, action)
    if not np.isfinite(state.qpos[1]):  # it enters neither the reward nor the observation
        forward = np.nan
    return forward - 1e-4 * square, 0.0, False, False


SWIMMER = LeggedRobot(
    "swimmer.xml",
    frames=4,
    observation_size=8,
    action_size=2,
    start=partial(start_uniform, spread=0.1),
    observe=observe,
    step=swimmer,
    bonus=0.0,
)
register("Swimmer-v4", SWIMMER, alias="Swimmer")
register("Swimmer-v5", SWIMMER)
