"""InvertedDoublePendulum: a pole on a pole on a cart, to be balanced.

* **Observation** (9): the cart's position, sines and cosines of the two angles, qvel (3) clipped
  to ±10, and the force of the ends of the rail on the cart (``qfrc_constraint``) clipped to ±10. v4
  also has the constraint forces of the poles' joints, which have no limits (11).
* **Reward**: 10 − 0.01 x² − (y − 2)² − 0.001 ω₁² − 0.005 ω₂², where (x, y) is the position of the
  tip and ω are the angular velocities of the joints. The 10 is not a survival bonus, so training
  includes it: without it, falling would increase the return.
* **Ends** when the tip is not above 1.
* **Reset**: initial qpos plus U(−0.1, 0.1), initial qvel plus 0.1 N(0, 1), in every entry.

As in Gymnasium's ``inverted_double_pendulum_v4.py`` and ``inverted_double_pendulum_v5.py``; v5 does
not pay the 10 in the step in which the poles fall.
"""

from dataclasses import replace

import numpy as np
from numba.extending import register_jitable

from gensmooth.physics.robots.legged import LeggedRobot, advance, register, start_normal


@register_jitable
def observe(state, out):
    """Observe the cart, sines, cosines, velocities, and constraint forces to fill ``out``."""
    out[0] = state.qpos[0]
    for i in range(2):
        out[1 + i] = np.sin(state.qpos[1 + i])
        out[3 + i] = np.cos(state.qpos[1 + i])
    for i in range(3):
        out[5 + i] = min(max(state.qvel[i], -10.0), 10.0)
    for i in range(len(out) - 8):
        out[8 + i] = min(max(state.constraint_forces[i], -10.0), 10.0)


@register_jitable
def double_pendulum(state, action):
    """Pay 10 minus the tip's squared distance from upright and the squared speeds; end at y ≤ 1."""
    advance(state, action)
    x, y = state.sites[0, 0], state.sites[0, 2]
    first, second = state.qvel[1], state.qvel[2]
    away = 0.01 * x * x + (y - 2.0) * (y - 2.0)
    turning = 1e-3 * first * first + 5e-3 * second * second
    ended = y <= 1.0
    alive = state.falling if ended else 10.0
    return alive - away - turning, 0.0, ended, False


DOUBLE_PENDULUM = LeggedRobot(
    "inverted_double_pendulum.xml",
    frames=5,
    observation_size=11,
    action_size=1,
    start=start_normal,
    observe=observe,
    step=double_pendulum,
    bonus=0.0,
    falling=10.0,
)
register("InvertedDoublePendulum-v4", DOUBLE_PENDULUM, alias="InvertedDoublePendulum")
register("InvertedDoublePendulum-v5", replace(DOUBLE_PENDULUM, observation_size=9, falling=0.0))
