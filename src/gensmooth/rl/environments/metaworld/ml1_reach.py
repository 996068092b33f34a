"""ML1-Reach: bring the fingertips to a point in the air.

With t the point midway between the fingertips, t⁰ the same when the hand had settled, g the goal,
and d = ‖t − g‖:

* **V1 reward** (``ML1-Reach``, as in the paper): P(‖t⁰ − g‖, d), where
  P(D, d) = max(0, 1000 (D − d) + 1000 (e^{−d²/0.01} + e^{−d²/0.001})).
* **Current reward** (``ML1-Reach-v3``): 10 T(d; 0, 0.05, ‖h − g‖), where h = (0, 0.6, 0.2) and T is
  :func:`~.sawyer.inside`.
* **Success** of a step: d ≤ 0.05.

Arm, observation and reset: :mod:`gensmooth.rl.environments.metaworld.sawyer`.
"""

from math import exp

from numba import njit
from numba.extending import register_jitable

from gensmooth.rl.environments.metaworld.sawyer import (
    RADIUS,
    ArmTask,
    advance,
    distance,
    inside,
    register,
)

HAND_START = (0.0, 0.6, 0.2)  # h, where a reset brings the hand, m


@njit(nogil=True, error_model="numpy")
def progress(start, d):
    """Return P(D, d), where D is the distance at the start."""
    bells = exp(-(d * d) / 0.01) + exp(-(d * d) / 0.001)
    return max(1000.0 * (start - d) + 1000.0 * bells, 0.0)


@register_jitable
def step_reach_v1(state, action):
    """Step ML1-Reach."""
    advance(state, action)
    e = state.episode
    d = distance(e.tip, e.target)
    return progress(distance(e.tip_start, e.target), d), 0.0, False, d <= RADIUS


@register_jitable
def step_reach_current(state, action):
    """Step ML1-Reach-v3."""
    advance(state, action)
    e = state.episode
    d = distance(e.tip, e.target)
    return 10.0 * inside(d, 0.0, RADIUS, distance(HAND_START, e.target)), 0.0, False, d <= RADIUS


TASKS = {
    "ML1-Reach": ArmTask("SawyerReachEnvV3", "v1", step_reach_v1),
    "ML1-Reach-v3": ArmTask("SawyerReachEnvV3", "v2", step_reach_current),
}
register("ML1-Reach", "gensmooth/ML1-Reach-v1", TASKS["ML1-Reach"])
register("ML1-Reach-v3", "gensmooth/ML1-Reach-v3", TASKS["ML1-Reach-v3"])
