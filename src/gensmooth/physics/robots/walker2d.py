"""Walker2d: two legs in a plane.

* **Observation** (17): qpos without the first entry (8), qvel (9) clipped to ±10.
* **Reward**: forward velocity + 1 (survival) − 0.001 ‖a‖².
* **Ends** when the height is not in (0.8, 2) or |torso angle| ≥ 1.
* **Reset**: initial qpos and qvel plus U(−0.005, 0.005) in every entry.

As in Gymnasium's ``walker2d_v4.py`` and ``walker2d_v5.py``. In v5 both feet have the same friction,
and the step in which the robot falls has no survival bonus.
"""

from dataclasses import replace

from numba.extending import register_jitable

from gensmooth.physics.robots.legged import (
    LeggedRobot,
    observe_clipped,
    register,
    start_uniform,
    velocity,
)


@register_jitable
def walker(state, action):
    """Pay forward velocity + survival − 0.001 ‖a‖²; end outside (0.8, 2) or beyond 1 rad."""
    forward, square = velocity(state, action)
    healthy = 0.8 < state.qpos[1] < 2.0 and -1.0 < state.qpos[2] < 1.0
    bonus = 1.0 if healthy else state.falling
    return forward + bonus - 1e-3 * square, bonus, not healthy, False


WALKER = LeggedRobot(
    "walker2d.xml",
    frames=4,
    observation_size=17,
    action_size=6,
    start=start_uniform,
    observe=observe_clipped,
    step=walker,
)
register("Walker2d-v4", WALKER, alias="Walker2d")
register("Walker2d-v5", replace(WALKER, file="walker2d_v5.xml", falling=0.0))
