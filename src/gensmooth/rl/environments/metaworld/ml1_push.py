"""ML1-Push: push an object over the table to a point.

With t the point midway between the fingertips, o the object, g the goal, and a superscript 0 for
the moment after the reset:

* **V1 reward** (``ML1-Push``, as in the paper): −‖t − o‖, plus P(‖o⁰ − g‖, ‖o − g‖), distances
  in the plane of the table, while ‖t − o‖ < 0.05. P is :func:`~.ml1_reach.progress`.
* **Current reward** (``ML1-Push-v3``): 10 if ‖o − g‖ < 0.05; else 1 + 4 G + 5 T(‖o − g‖; 0, 0.05,
  ‖o⁰ − g‖) if ‖t − o‖ < 0.02 and the gripper is not shut; else 2 G. T is :func:`~.sawyer.inside`,
  and G ∈ [0, 1] measures how well the object is held.
* **Success** of a step: ‖o − g‖ ≤ 0.05 (V1: in the plane of the table).

Arm, observation and reset: :mod:`gensmooth.rl.environments.metaworld.sawyer`.
"""

from math import sqrt

from numba import njit
from numba.extending import register_jitable

from gensmooth.rl.environments.metaworld.ml1_reach import progress
from gensmooth.rl.environments.metaworld.sawyer import (
    RADIUS,
    ArmTask,
    advance,
    distance,
    inside,
    register,
)

_PADS = (0.015, 0.05)  # distance of a pad from the centre of an object between the pads, m
_ABOVE = 0.005  # largest distance of the object from the middle of the fingertips in x and z, m


@njit(nogil=True, error_model="numpy")
def _distance_in(i, j, a, b):
    """Return ‖a − b‖ in the plane of coordinates i and j."""
    x, y = a[i] - b[i], a[j] - b[j]
    return sqrt(x * x + y * y)


@njit(nogil=True, error_model="numpy")
def _push_v1(state):
    """Return the V1 reward, and the distance that decides success."""
    e, thing = state.episode, state.views.object
    r = distance(e.tip, thing)
    d = _distance_in(0, 1, thing, e.target)
    if r < 0.05:
        return progress(_distance_in(0, 1, e.object_start, e.target), d) - r, d
    return -r, d


@njit(nogil=True, error_model="numpy")
def _both(a, b):
    """Return Hamacher's product ab/(a + b − ab)."""
    total = a + b - a * b
    return a * b / total if total > 0.0 else 0.0


@njit(nogil=True, error_model="numpy")
def _between_pads(pad, thing, start):
    """Return how close the object is to a pad in y; the margin depends on where it started."""
    margin = abs(abs(pad[1] - start[1]) - _PADS[1])
    return inside(abs(pad[1] - thing[1]), _PADS[0], _PADS[1], margin)


@njit(nogil=True, error_model="numpy")
def _grasp(state, effort):
    """Return G: the mean of "caged" and "caged (to 0.97 or more) and the gripper closing"."""
    e, views = state.episode, state.views
    thing, start = views.object, e.object_start
    left = _between_pads(views.left_pad, thing, start)
    right = _between_pads(views.right_pad, thing, start)
    margin = _distance_in(0, 2, start, e.tip_start) - _ABOVE
    above = inside(_distance_in(0, 2, e.tip, thing), 0.0, _ABOVE, margin)
    caged = _both(_both(left, right), above)
    closing = min(max(effort, 0.0), 1.0) if caged > 0.97 else 0.0
    return (_both(caged, closing) + caged) / 2.0


@njit(nogil=True, error_model="numpy")
def _push_current(state, effort):
    """Return the current reward, and the distance that decides success."""
    e, thing = state.episode, state.views.object
    d = distance(thing, e.target)
    if d < RADIUS:
        return 10.0, d
    grasp = 2.0 * _grasp(state, effort)
    if distance(thing, e.tip) < 0.02 and e.now[3] > 0.0:
        placed = inside(d, 0.0, RADIUS, distance(e.object_start, e.target))
        return 1.0 + 2.0 * grasp + 5.0 * placed, d
    return grasp, d


@register_jitable
def step_push_v1(state, action):
    """Step ML1-Push."""
    advance(state, action)
    reward, d = _push_v1(state)
    return reward, 0.0, False, d <= RADIUS


@register_jitable
def step_push_current(state, action):
    """Step ML1-Push-v3."""
    advance(state, action)
    reward, d = _push_current(state, action[3])
    return reward, 0.0, False, d <= RADIUS


TASKS = {
    "ML1-Push": ArmTask("SawyerPushEnvV3", "v1", step_push_v1, on_table=True),
    "ML1-Push-v3": ArmTask("SawyerPushEnvV3", "v2", step_push_current, on_table=True),
}
register("ML1-Push", "gensmooth/ML1-Push-v1", TASKS["ML1-Push"])
register("ML1-Push-v3", "gensmooth/ML1-Push-v3", TASKS["ML1-Push-v3"])
