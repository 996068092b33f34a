# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Read a MuJoCo model: its parts, the pairs of geoms that may touch; refuse unsupported models."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gensmooth.physics.mechanics.algebra import (
    TINY,
    Matrix,
    Vector,
    add,
    apply,
    constant_rotation,
    identity,
    product,
)
from gensmooth.physics.mujoco_calls import load_mujoco

# MuJoCo's numbers: mjtGeom, mjtJoint, mjtIntegrator.
PLANE, SPHERE, CAPSULE = 0, 2, 3
FREE, BALL, SLIDE, HINGE = 0, 1, 2, 3
EULER, RUNGE_KUTTA = 0, 1

PARALLEL = 1e-4  # below this angle, later versions of MuJoCo treat capsules as parallel


class UnsupportedMechanismError(ValueError):
    """A model has an unsupported feature."""


def disabling(name: str) -> int:
    """Return a bit of ``mjtDisableBit``; 0 if this version of MuJoCo does not have it."""
    return int(getattr(load_mujoco().mjtDisableBit, f"mjDSBL_{name.upper()}", 0))


@cache
def margins_add() -> bool:
    """Return whether the margins of two geoms add up, as in later versions of MuJoCo.

    In earlier versions the larger margin counts. A small model shows which rule is used.
    """
    ball = '<body pos="{} 0 0"><freejoint/><geom size="0.1" margin="0.1"/></body>'
    mujoco = load_mujoco()
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{ball.format(0)}{ball.format(0.35)}</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.ncon)


@cache
def parallel_means_an_angle() -> bool:
    """Return whether MuJoCo compares an angle to decide if capsules are parallel.

    Later versions do. Earlier versions compare an area, so short capsules count as parallel at a
    larger angle. A small model shows which rule is used.
    """
    needle = '<geom type="capsule" size="0.001 0.002"/></body>'
    mujoco = load_mujoco()
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody><body euler="0 0.3 0">{needle}
        <body pos="0 0.0018 0"><freejoint/>{needle}</worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data.ncon == 1


@cache
def rotations_are_corrected() -> bool:
    """Return whether Runge-Kutta corrects for rotations that do not commute (later MuJoCo).

    A small model shows it: a body that tumbles freely turns slightly differently.
    """
    mujoco = load_mujoco()
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><option integrator="RK4" timestep="0.1" gravity="0 0 0"/><worldbody>
        <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="2 3 4"/></body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    inertia, begin, h = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0]), 0.1
    data.qvel[3:] = begin
    mujoco.mj_step(model, data)

    def turned(corrected: bool) -> np.ndarray:
        spin, rate, mean_rate = begin, begin, np.zeros(3)
        for share, step in ((1 / 6, h / 2), (1 / 3, h / 2), (1 / 3, h), (1 / 6, 0.0)):
            mean_rate = mean_rate + share * rate
            change = -np.cross(spin, inertia * spin) / inertia
            spin, angle = begin + step * change, step * rate
            rate = spin
            if corrected:  # to second order, which is enough to distinguish the two
                twist = np.cross(angle, spin)
                rate = spin + twist / 2 + np.cross(angle, twist) / 12
        angle = h * float(np.linalg.norm(mean_rate))
        return np.array([np.cos(angle / 2), *(np.sin(angle / 2) / angle * h * mean_rate)])

    plain, other = (float(np.abs(turned(each) - data.qpos[3:]).max()) for each in (False, True))
    return other < plain


def _enabling() -> list[tuple[str, int]]:
    kinds = load_mujoco().mjtEnableBit
    names = [name for name in dir(kinds) if name.startswith("mjENBL_")]
    return [(name.removeprefix("mjENBL_").lower(), int(getattr(kinds, name))) for name in names]


# The parts of physics that a model must not disable. Dampers and springs (now two bits) were one
# bit, "passive", in earlier versions.
_NEEDED = (
    *("constraint", "limit", "contact", "gravity", "clampctrl", "actuation", "eulerdamp"),
    *("passive", "spring", "damper"),
)


def refuse(m: Any) -> None:
    """Raise an error that names the first unsupported feature of a model, if there is one."""

    def unless(fine: Any, feature: str) -> None:
        if not fine:
            raise UnsupportedMechanismError(feature)

    unless(m.opt.integrator in (EULER, RUNGE_KUTTA), "an implicit integrator")
    unless(m.opt.cone == 0, "elliptic friction cones")
    flags = int(m.opt.disableflags)
    for name in _NEEDED:
        unless(not flags & disabling(name), f"physics without {name}")
    enabled = [name for name, bit in _enabling() if int(m.opt.enableflags) & bit]
    unless(not enabled, f"the flag {' and '.join(enabled)} enabled")
    unless(m.opt.noslip_iterations == 0, "friction without slip (noslip_iterations)")
    unless(m.opt.disableactuator == 0, "actuators that are switched off")
    unless(m.nv > 0, "nothing that moves")
    unless(m.nv <= 64, "more than 64 velocities")
    for name, feature in (
        ("neq", "equality constraints"),
        ("npair", "explicit contact pairs"),
        ("nmocap", "mocap bodies"),
        ("nflex", "flexible bodies"),
        ("na", "actuators with a state"),
        ("nplugin", "plugins"),
    ):
        unless(not getattr(m, name, 0), feature)
    for name in ("limited", "stiffness", "damping", "frictionloss", "armature", "actfrclimited"):
        unless(not np.any(getattr(m, f"tendon_{name}", 0)), "tendons that pull")
    unless(not np.any(m.geom_gap), "geoms with a gap")
    unless(not np.any(m.geom_margin < 0.0), "geoms with a negative margin")
    unless(not np.any(m.jnt_type == BALL), "ball joints")
    unless(not np.any(m.dof_frictionloss), "friction in joints")
    unless(not np.any(m.body_gravcomp), "gravity compensation")
    unless(not np.any(m.opt.wind), "wind")
    unless(not np.any(m.geom_fluid[:, 0]), "the ellipsoid model of fluids")
    free = m.jnt_type == FREE
    unless(not np.any(m.jnt_stiffness[free]), "a spring at a free joint")
    unless(not np.any(m.jnt_limited[free]), "a limit of a free joint")
    for name in ("jnt_stiffnesspoly", "dof_dampingpoly"):
        unless(not np.any(getattr(m, name, 0)), "springs or dampers that are not linear")
    for i in range(m.nu):
        unless(m.actuator_trntype[i] == 0, "actuators that do not act on a joint")
        kind = m.jnt_type[int(m.actuator_trnid[i, 0])]
        unless(kind in (SLIDE, HINGE), "an actuator at a free joint")
        unless(m.actuator_dyntype[i] == 0, "actuators with dynamics")
        unless(m.actuator_gaintype[i] in (0, 1), "muscles and other gains")
        unless(m.actuator_biastype[i] in (0, 1), "muscles and other biases")
    for name in ("actuator_delay", "actuator_dampratio", "actuator_damping"):
        unless(not np.any(getattr(m, name, 0)), "actuators with delay or damping")


class Part(NamedTuple):
    """Bodies without joints between them, which move as one.

    Attributes:
        body: The first of these bodies, whose frame is the part's frame.
        parent: The part that it is attached to; -1 for the world.
        joints: The joints of the first body.
        mass: The total mass.
        centre: The centre of mass, in the part's frame.
        inertia: The moments about the centre, in the part's frame.
    """

    body: int
    parent: int
    joints: tuple[int, ...]
    mass: float
    centre: tuple[float, ...]
    inertia: Matrix


class FixedPlace(NamedTuple):
    """Where something is fixed: the part, and the position and orientation in its frame."""

    part: int
    position: Vector
    matrix: Matrix


def parts(m: Any) -> tuple[list[Part], list[FixedPlace]]:
    """Return the parts of a model, and where each body is fixed on its part (-1: on the world)."""
    fixed: list[FixedPlace] = []
    bodies: list[list[int]] = []
    parents: list[int] = []
    for body in range(m.nbody):
        parent = int(m.body_parentid[body])
        if body == 0:
            fixed.append(FixedPlace(-1, [0.0] * 3, identity()))
        elif m.body_jntnum[body]:
            parents.append(fixed[parent].part)
            bodies.append([body])
            fixed.append(FixedPlace(len(bodies) - 1, [0.0] * 3, identity()))
        else:
            above = fixed[parent]
            offset = [float(each) for each in m.body_pos[body]]
            position = add(above.position, apply(above.matrix, offset))
            matrix = product(above.matrix, constant_rotation(m.body_quat[body]))
            fixed.append(FixedPlace(above.part, position, matrix))
            if above.part >= 0:
                bodies[above.part].append(body)
    parts: list[Part] = []
    for members, parent in zip(bodies, parents, strict=True):
        mass, centre, inertia = rigid_inertia(m, members, fixed)
        first = members[0]
        joints = range(m.body_jntadr[first], m.body_jntadr[first] + m.body_jntnum[first])
        parts.append(Part(first, parent, tuple(joints), mass, centre, inertia))
    return parts, fixed


def rigid_inertia(
    m: Any, members: Sequence[int], fixed: Sequence[FixedPlace]
) -> tuple[float, tuple[float, ...], Matrix]:
    """Return mass, centre and moments about it of bodies that form one part, in its frame."""
    mass = float(sum(m.body_mass[b] for b in members))
    turns = {b: np.array(fixed[b].matrix) for b in members}
    centres = {b: turns[b] @ m.body_ipos[b] + fixed[b].position for b in members}
    weighted: Any = sum(m.body_mass[b] * centres[b] for b in members)
    centre = weighted / max(mass, TINY)
    inertia = np.zeros((3, 3))
    for b in members:
        axes = turns[b] @ np.array(constant_rotation(m.body_iquat[b]))
        away = centres[b] - centre
        inertia += axes @ np.diag(m.body_inertia[b]) @ axes.T
        inertia += m.body_mass[b] * (away @ away * np.eye(3) - np.outer(away, away))
    inertia[np.abs(inertia) < 1e-15 * np.abs(inertia).max()] = 0.0
    return mass, tuple(centre.tolist()), inertia.tolist()


class Pair(NamedTuple):
    """Two geoms that may touch, by number; the first has the simpler shape."""

    first: int
    second: int


def pairs(m: Any) -> list[Pair]:
    """Return the pairs of geoms that MuJoCo would test for contact."""
    touching: list[Pair] = []
    excluded = {int(each) for each in m.exclude_signature}
    weld = [int(each) for each in m.body_weldid]
    above = [weld[int(m.body_parentid[w])] for w in weld]
    filtered = not int(m.opt.disableflags) & disabling("filterparent")
    for one in range(m.ngeom):
        for two in range(one + 1, m.ngeom):
            a, b = sorted((one, two), key=lambda g: (int(m.geom_type[g]), g))
            first, second = (int(m.geom_bodyid[g]) for g in (one, two))
            wanted = (m.geom_contype[a] & m.geom_conaffinity[b]) or (
                m.geom_contype[b] & m.geom_conaffinity[a]
            )
            if not wanted or weld[first] == weld[second]:
                continue
            low, high = sorted((first, second))
            if (low << 16) + high in excluded:
                continue
            related = above[first] == weld[second] or above[second] == weld[first]
            if filtered and related and weld[first] and weld[second]:
                continue
            shapes = int(m.geom_type[a]), int(m.geom_type[b])
            if not set(shapes) <= {PLANE, SPHERE, CAPSULE}:
                raise UnsupportedMechanismError(
                    "geoms that touch and are not planes, spheres or capsules"
                )
            if max(int(m.geom_condim[a]), int(m.geom_condim[b])) not in (1, 3):
                raise UnsupportedMechanismError("friction that resists rolling or spinning")
            touching.append(Pair(a, b))
    return touching


def parallel(m: Any, touching: Sequence[Pair]) -> set[Pair]:
    """Return the pairs of capsules that may be parallel, and then touch in two points.

    These are pairs that are always parallel; pairs that are parallel in the initial state and touch
    there or belong to different trees (two logs on the floor); and pairs so short that MuJoCo
    treats them as parallel at an angle of more than ``PARALLEL``. Other pairs are parallel for a
    moment at most, and are treated as touching at one point.
    """
    parallel_pairs: set[Pair] = set()
    both = [pair for pair in touching if all(m.geom_type[geom] == CAPSULE for geom in pair)]
    if not both:
        return parallel_pairs
    mujoco = load_mujoco()
    start, other = mujoco.MjData(m), mujoco.MjData(m)
    other.qpos[:] = m.qpos0 + np.random.default_rng(0).uniform(-1.0, 1.0, m.nq)
    for data in (start, other):
        mujoco.mj_kinematics(m, data)
    for pair in both:
        lengths = float(m.geom_size[pair.first, 1] * m.geom_size[pair.second, 1])
        limit = PARALLEL
        always = _angle(other, pair) < 1e-9
        if not parallel_means_an_angle():
            limit = np.sqrt(TINY) / max(lengths, TINY)  # (l₁ l₂ sin)² < mjMINVAL
            if always and lengths > 1.0:  # rounding decides whether MuJoCo notices
                raise UnsupportedMechanismError("long capsules that stay parallel and may touch")
        at_start = _angle(start, pair) < limit and _may_meet_as_they_start(m, start, pair)
        if always or limit > PARALLEL or at_start:
            parallel_pairs.add(pair)
    return parallel_pairs


def _may_meet_as_they_start(m: Any, start: Any, pair: Pair) -> bool:
    """Return whether two geoms belong to different trees, or touch in the initial state."""
    one, two = (int(m.body_rootid[int(m.geom_bodyid[geom])]) for geom in pair)
    margin = float(m.geom_margin[list(pair)].sum())
    far = 2.0 * margin + 1.0
    return one != two or load_mujoco().mj_geomDistance(m, start, *pair, far, None) <= margin


def _angle(data: Any, pair: Pair) -> float:
    """Return the sine of the angle between the axes of two geoms."""
    one, two = (data.geom_xmat[geom].reshape(3, 3)[:, 2] for geom in pair)
    return float(np.linalg.norm(np.cross(one, two)))
