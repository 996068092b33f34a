"""HalfCheetah, and HalfCheetahRandVel: the same robot with a hidden target velocity.

Both:

* **Observation** (17): qpos without the first entry (8), qvel (9).
* **Ends** at the horizon only.
* **Reset**: initial qpos plus U(−0.1, 0.1), initial qvel plus 0.1 N(0, 1), in every entry.

HalfCheetah, as in Gymnasium's ``half_cheetah_v4.py`` and ``half_cheetah_v5.py``:

* **Reward**: forward velocity − 0.1 ‖a‖².

HalfCheetahRandVel, the meta-RL task of Finn et al. (2017) as in the ProMP repository (Rothfuss et
al., 2019), which the paper used; horizon 200:

* **Goal**: U(0, 3), drawn at every reset, after the positions and velocities; not observed.
* **Reward**: −|forward velocity − goal| − 0.05 ‖a‖².
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from gensmooth.physics.registry import GymnasiumSpec
from gensmooth.physics.robots.legged import (
    LeggedRobot,
    begin,
    observe,
    register,
    start_normal,
    velocity,
)


@register_jitable
def cheetah(state, action):
    """Pay forward velocity − 0.1 ‖a‖²; never end."""
    forward, square = velocity(state, action)
    return forward - 0.1 * square, 0.0, False, False


def start_with_goal(model: Any, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a start as HalfCheetah does, then the goal ~ U(0, 3)."""
    return np.concatenate((start_normal(model, rng), [rng.uniform(0.0, 3.0)]))


@register_jitable
def begin_with_goal(state, start):
    """Start at ``start``: positions, velocities, and the hidden goal."""
    begin(state, start)
    state.goal[0] = start[len(state.qpos) + len(state.qvel)]


@register_jitable
def cheetah_at_velocity(state, action):
    """Pay −|forward velocity − goal| − 0.05 ‖a‖²; never end."""
    forward, square = velocity(state, action)
    return -abs(forward - state.goal[0]) - 0.05 * square, 0.0, False, False


CHEETAH = LeggedRobot(
    "half_cheetah.xml",
    frames=5,
    observation_size=17,
    action_size=6,
    start=start_normal,
    observe=observe,
    step=cheetah,
    bonus=0.0,
)
register("HalfCheetah-v4", CHEETAH, alias="HalfCheetah")
register("HalfCheetah-v5", CHEETAH)
register(
    "HalfCheetahRandVel",
    replace(
        CHEETAH,
        start=start_with_goal,
        begin=begin_with_goal,
        step=cheetah_at_velocity,
        horizon=200,
        task_entries=1,
    ),
    spec=GymnasiumSpec(
        "gensmooth/HalfCheetahRandVel-v0",
        "gensmooth.physics.reference:HalfCheetahRandVel",
        horizon=200,
    ),
)
