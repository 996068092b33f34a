# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Meta-World's rewards for reaching and pushing, compiled: V1 (of 2019) and the current one.

A reward sees the world after a step and returns the reward and the distance that is a success at
``RADIUS``. Each has its own ``step_...`` for the trajectory loop.
"""

from math import exp, sqrt

from numba import njit
from numba.extending import register_jitable

from gensmooth.rl.environments.metaworld_world import advance

RADIUS = 0.05  # m
HAND_START = (0.0, 0.6, 0.2)  # where a reset brings the hand, m

_TAIL = 9.0  # 1/0.1 − 1: the tail 1/(1 + 9x²) is 0.1 at x = 1
_PADS = (0.015, 0.05)  # how far from a pad the object's centre lies when it is between them, m
_ABOVE = 0.005  # how far from the fingertips' middle it may be then, in x and z, m


@njit(nogil=True, error_model="numpy")
def _distance(a, b):
    x, y, z = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return sqrt(x * x + y * y + z * z)


@njit(nogil=True, error_model="numpy")
def _distance_in(i, j, a, b):
    """‖a − b‖ in the plane of coordinates i and j."""
    x, y = a[i] - b[i], a[j] - b[j]
    return sqrt(x * x + y * y)


@njit(nogil=True, error_model="numpy")
def _progress(start, d):
    """max(0, 1000 (D − d) + 1000 (e^{−d²/0.01} + e^{−d²/0.001})), D the distance at the start."""
    bells = exp(-(d * d) / 0.01) + exp(-(d * d) / 0.001)
    return max(1000.0 * (start - d) + 1000.0 * bells, 0.0)


@njit(nogil=True, error_model="numpy")
def _inside(x, low, high, margin):
    """1 for x in [low, high]; outside 1/(1 + 9 (distance/margin)²)."""
    if low <= x <= high:
        return 1.0
    if margin == 0.0:
        return 0.0
    far = (low - x if x < low else x - high) / margin
    return 1.0 / (far * far * _TAIL + 1.0)


@njit(nogil=True, error_model="numpy")
def _both(a, b):
    """Hamacher's product ab/(a + b − ab)."""
    total = a + b - a * b
    return a * b / total if total > 0.0 else 0.0


@njit(nogil=True, error_model="numpy")
def _reach_v1(world):
    e = world.episode
    d = _distance(e.tip, e.target)
    return _progress(_distance(e.tip_start, e.target), d), d


@njit(nogil=True, error_model="numpy")
def _push_v1(world):
    """−r, r from fingertips to object; while r < 5 cm also the object's progress in the plane."""
    e, thing = world.episode, world.views.object
    r = _distance(e.tip, thing)
    d = _distance_in(0, 1, thing, e.target)
    if r < 0.05:
        return _progress(_distance_in(0, 1, e.object_start, e.target), d) - r, d
    return -r, d


@njit(nogil=True, error_model="numpy")
def _reach_current(world):
    e = world.episode
    d = _distance(e.tip, e.target)
    return 10.0 * _inside(d, 0.0, RADIUS, _distance(HAND_START, e.target)), d


@njit(nogil=True, error_model="numpy")
def _between_pads(pad, thing, start):
    """How well the object lies at a pad in y; the margin is measured from where it started."""
    margin = abs(abs(pad[1] - start[1]) - _PADS[1])
    return _inside(abs(pad[1] - thing[1]), _PADS[0], _PADS[1], margin)


@njit(nogil=True, error_model="numpy")
def _grasp(world, effort):
    """Mean of: object caged; caged (0.97 or more of it) and gripper closing."""
    e, views = world.episode, world.views
    thing, start = views.object, e.object_start
    left = _between_pads(views.left_pad, thing, start)
    right = _between_pads(views.right_pad, thing, start)
    margin = _distance_in(0, 2, start, e.tip_start) - _ABOVE
    above = _inside(_distance_in(0, 2, e.tip, thing), 0.0, _ABOVE, margin)
    caged = _both(_both(left, right), above)
    closing = min(max(effort, 0.0), 1.0) if caged > 0.97 else 0.0
    return (_both(caged, closing) + caged) / 2.0


@njit(nogil=True, error_model="numpy")
def _push_current(world, effort):
    """2 g for the grasp; 1 + 4 g + 5 p, p the place, when held; 10 at the target."""
    e, thing = world.episode, world.views.object
    d = _distance(thing, e.target)
    if d < RADIUS:
        return 10.0, d
    grasp = 2.0 * _grasp(world, effort)
    if _distance(thing, e.tip) < 0.02 and e.now[3] > 0.0:
        placed = _inside(d, 0.0, RADIUS, _distance(e.object_start, e.target))
        return 1.0 + 2.0 * grasp + 5.0 * placed, d
    return grasp, d


@register_jitable
def step_reach_v1(world, action):
    """A step of ML1-Reach."""
    advance(world, action)
    reward, d = _reach_v1(world)
    return reward, 0.0, False, d <= RADIUS


@register_jitable
def step_push_v1(world, action):
    """A step of ML1-Push."""
    advance(world, action)
    reward, d = _push_v1(world)
    return reward, 0.0, False, d <= RADIUS


@register_jitable
def step_reach_current(world, action):
    """A step of ML1-Reach-v3."""
    advance(world, action)
    reward, d = _reach_current(world)
    return reward, 0.0, False, d <= RADIUS


@register_jitable
def step_push_current(world, action):
    """A step of ML1-Push-v3."""
    advance(world, action)
    reward, d = _push_current(world, action[3])
    return reward, 0.0, False, d <= RADIUS
