"""Hopper: a leg with one foot that hops in a plane.

* **Observation** (11): qpos without the first entry (height, torso angle, three joints), qvel (6)
  clipped to ±10.
* **Reward**: forward velocity + 1 (survival) − 0.001 ‖a‖².
* **Ends** when height ≤ 0.7, |torso angle| ≥ 0.2, or an entry of qpos[2:] or qvel is outside of
  (−100, 100).
* **Reset**: initial qpos and qvel plus U(−0.005, 0.005) in every entry.

As in Gymnasium's ``hopper_v4.py`` and ``hopper_v5.py``; in v5 the step in which the robot falls has
no survival bonus.
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
def hopper(state, action):
    """Pay forward velocity + survival − 0.001 ‖a‖²; end below 0.7 or beyond 0.2 rad."""
    forward, square = velocity(state, action)
    angle = state.qpos[2]
    healthy = state.qpos[1] > 0.7 and -0.2 < angle < 0.2
    for i in range(2, len(state.qpos)):
        healthy = healthy and -100.0 < state.qpos[i] < 100.0
    for i in range(len(state.qvel)):
        healthy = healthy and -100.0 < state.qvel[i] < 100.0
    bonus = 1.0 if healthy else state.falling
    return forward + bonus - 1e-3 * square, bonus, not healthy, False


HOPPER = LeggedRobot(
    "hopper.xml",
    frames=4,
    observation_size=11,
    action_size=3,
    start=start_uniform,
    observe=observe_clipped,
    step=hopper,
)
register("Hopper-v4", HOPPER, alias="Hopper")
register("Hopper-v5", replace(HOPPER, falling=0.0))
