"""InvertedPendulum: a pole on a cart, to be balanced.

* **Observation** (4): qpos (the cart's place, the pole's angle), qvel.
* **Reward**: 1 per step. Staying up is all there is to learn, so this is not a survival bonus, and
  training includes it.
* **Ends** when |angle of the pole| > 0.2.
* **Reset**: initial qpos and qvel plus U(−0.01, 0.01) in every entry.

As in Gymnasium's ``inverted_pendulum_v4.py`` and ``inverted_pendulum_v5.py``; v5 pays nothing for
the step in which the pole falls.
"""

from dataclasses import replace
from functools import partial

from numba.extending import register_jitable

from gensmooth.physics.robots.legged import (
    LeggedRobot,
    advance,
    observe_without,
    register,
    start_uniform,
)


@register_jitable
def observe(state, out):
    """Observe positions, then velocities."""
    observe_without(0, state, out)


@register_jitable
def pendulum(state, action):
    """Pay 1; end when the pole is more than 0.2 rad from upright."""
    advance(state, action)
    ended = not -0.2 <= state.qpos[1] <= 0.2
    reward = state.falling if ended else 1.0
    return reward, 0.0, ended, False


PENDULUM = LeggedRobot(
    "inverted_pendulum.xml",
    frames=2,
    observation_size=4,
    action_size=1,
    start=partial(start_uniform, spread=0.01),
    observe=observe,
    step=pendulum,
    bonus=0.0,
)
register("InvertedPendulum-v4", PENDULUM, alias="InvertedPendulum")
register("InvertedPendulum-v5", replace(PENDULUM, falling=0.0))
