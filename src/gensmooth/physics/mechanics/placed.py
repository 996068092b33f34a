# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A mechanism in a configuration: its inertia, the forces on it, and MuJoCo's derived arrays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from gensmooth.physics.mechanics.algebra import (
    TINY,
    Matrix,
    Number,
    Vector,
    add,
    apply,
    clipped,
    column,
    constant_rotation,
    cross,
    dot,
    fixed_quaternion,
    identity,
    minus,
    normalized,
    plus,
    product,
    quaternion_product,
    rotation,
    rounded,
    scale,
    subtract,
    times,
    transposed,
    turn,
)
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import FREE, SLIDE, FixedPlace
from gensmooth.physics.mechanics.spatial import ZERO, Inertia, Spatial
from gensmooth.physics.symbols import ENTRYWISE, Symbol


class Frame(NamedTuple):
    """Where a part is: its root part, its origin relative to the root's, and its axes as columns.

    Position and axes are in the root part's axes if it moves freely, otherwise in the world's axes.
    """

    root: int
    position: Vector
    matrix: Matrix


class Root(NamedTuple):
    """Where the first part of a tree is in the world: its origin, its axes, and a quaternion.

    The axes are the world's unless the part moves freely.
    """

    origin: Vector
    matrix: Matrix
    spin: Vector


_WORLD = Root([0.0] * 3, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [1.0, 0.0, 0.0, 0.0])


def place(mechanism: Mechanism, q: Sequence[Number]) -> "Placed":
    """Compute where all parts are, and how each velocity moves the parts below it."""
    m = mechanism.model
    frames: list[Frame] = []
    roots: dict[int, Root] = {}
    motions: list[Spatial] = [ZERO] * mechanism.nv
    quaternions: list[Vector] = []
    for index, part in enumerate(mechanism.parts):
        fixed = mechanism.fixed[int(m.body_parentid[part.body])]
        offset_of_body = [float(each) for each in m.body_pos[part.body]]
        position = add(fixed.position, apply(fixed.matrix, offset_of_body))
        matrix = product(fixed.matrix, constant_rotation(m.body_quat[part.body]))
        spin = fixed_quaternion(matrix)
        root = index
        if part.parent >= 0:
            above = frames[part.parent]
            root = above.root
            position = add(above.position, apply(above.matrix, position))
            matrix = product(above.matrix, matrix)
            spin = quaternion_product(quaternions[part.parent], spin)
        moves: list[tuple[int, Vector | None, Vector]] = []  # velocity, anchor, axis
        for j in part.joints:
            kind, at, dof = int(m.jnt_type[j]), int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
            if kind == FREE:
                spun = normalized(q[at + 3 : at + 7], (1.0, 0.0, 0.0, 0.0))
                roots[index] = Root(list(q[at : at + 3]), rotation(spun), spun)
                position, matrix, spin = [0.0] * 3, identity(), [1.0, 0.0, 0.0, 0.0]
                moves += [(dof + k, None, unit) for k, unit in enumerate(identity())]
                moves += [(dof + 3 + k, position, unit) for k, unit in enumerate(identity())]
                continue
            value = minus(q[at], float(m.qpos0[at]))
            along = [rounded(float(each)) for each in m.jnt_axis[j]]
            axis = apply(matrix, along)
            if kind == SLIDE:
                position = add(position, scale(axis, value))
                moves.append((dof, None, axis))
                continue
            offset = [float(each) for each in m.jnt_pos[j]]
            anchor = add(position, apply(matrix, offset))
            matrix = product(matrix, turn(along, value))
            half = times(0.5, value)
            sine = ENTRYWISE["sin"](half)
            imaginary = [times(each, sine) for each in along]
            spin = quaternion_product(spin, [ENTRYWISE["cos"](half), *imaginary])
            position = subtract(anchor, apply(matrix, offset))
            moves.append((dof, anchor, axis))
        reference = position if root == index else [0.0] * 3
        if root == index:
            roots.setdefault(index, Root(position, identity(), [1.0, 0.0, 0.0, 0.0]))
        for dof, anchor, axis in moves:
            if anchor is None:
                motions[dof] = Spatial([0.0] * 3, list(axis))
            else:
                motions[dof] = Spatial(list(axis), cross(subtract(anchor, reference), axis))
        frames.append(Frame(root, subtract(position, reference), matrix))
        quaternions.append(spin)
    return Placed(mechanism, frames, roots, motions, quaternions)


@final
class Placed:
    """A mechanism in a configuration.

    Args:
        mechanism: The mechanism.
        frames: The frame of each part.
        roots: Where the first part of each tree is, by the part's number.
        motions: Each velocity as a spatial velocity at its root's origin, along its root's axes.
            The translations of a free joint are along these axes too, see :meth:`along_roots`.
        quaternions: The orientation of each part, relative to the root's axes.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        frames: list[Frame],
        roots: dict[int, Root],
        motions: list[Spatial],
        quaternions: list[Vector],
    ) -> None:
        self.mechanism = mechanism
        self.frames, self._roots, self.motions = frames, roots, motions
        self._quaternions = quaternions
        self._inertias = [self._inertia(k) for k in range(len(frames))]

    def along_roots(self, v: Sequence[Number]) -> Vector:
        """Express the translations of free joints in the roots' axes instead of the world's.

        ``v`` has velocities or accelerations. M, forces and Jacobians use this basis, so they do
        not depend on the orientation of a robot that moves freely. :meth:`along_world` is the
        inverse.
        """
        return self._turned(v, transposed)

    def along_world(self, v: Sequence[Number]) -> Vector:
        """Invert :meth:`along_roots`."""
        return self._turned(v, list)

    def _turned(self, v: Sequence[Number], how: Callable[[Matrix], Matrix]) -> Vector:
        turned = list(v)
        for first, part in self.mechanism.free_translations():
            turn = how(self._roots[part].matrix)
            turned[first : first + 3] = apply(turn, turned[first : first + 3])
        return turned

    def root(self, index: int) -> Root:
        """Return the root with a number; -1 is the world."""
        return _WORLD if index < 0 else self._roots[index]

    def root_of(self, part: int) -> int:
        """Return the root of a part's tree; -1 for the world."""
        return -1 if part < 0 else self.frames[part].root

    def in_world(self, root: int, position: Vector) -> Vector:
        """Convert a position relative to a root to world coordinates."""
        frame = self.root(root)
        return add(frame.origin, apply(frame.matrix, position))

    def _inertia(self, index: int) -> Inertia:
        """Return the inertia of a part at its root's origin, along its root's axes."""
        part, frame = self.mechanism.parts[index], self.frames[index]
        matrix = frame.matrix
        centre = add(frame.position, apply(matrix, part.centre))
        turned = product(matrix, part.inertia)
        rows: Matrix = [[0.0] * 3 for _ in range(3)]
        square = dot(centre, centre)
        for i in range(3):
            for j in range(i + 1):
                away = times(part.mass, times(centre[i], centre[j]))
                value = minus(dot(turned[i], matrix[j]), away)
                if i == j:
                    value = plus(value, times(part.mass, square))
                rows[i][j] = rows[j][i] = value
        return Inertia(part.mass, scale(centre, part.mass), rows)

    def _up(self, values: Sequence[Any]) -> list[Any]:
        """Sum over each part and all parts below it."""
        sums = list(values)
        for index in reversed(range(len(sums))):
            parent = self.mechanism.parts[index].parent
            if parent >= 0:
                sums[parent] = sums[parent] + sums[index]
        return sums

    def mass_matrix(self) -> dict[tuple[int, int], Number]:
        """Return M by composite rigid bodies: entries (i, j), j <= i, that are not always 0."""
        mechanism, entries = self.mechanism, dict[tuple[int, int], Number]()
        composite = self._up(self._inertias)
        for i in range(mechanism.nv):
            momentum = composite[mechanism.dof_part(i)].times(self.motions[i])
            for j in mechanism.ancestors(i):
                value = self.motions[j].dot(momentum)
                if i == j:
                    value = plus(value, float(mechanism.model.dof_armature[i]))
                if isinstance(value, Symbol) or value != 0.0:
                    entries[i, j] = value
        return entries

    def velocities(self, v: Sequence[Number]) -> tuple[list[Spatial], list[Spatial]]:
        """Return the velocity of each part, and its acceleration when no joint accelerates."""
        mechanism = self.mechanism
        m, velocities, drift = mechanism.model, list[Spatial](), list[Spatial]()
        upwards = [-float(each) for each in m.opt.gravity]
        for index, part in enumerate(mechanism.parts):
            if part.parent >= 0:
                velocity, change = velocities[part.parent], drift[part.parent]
            else:
                turn = transposed(self._roots[index].matrix)
                velocity, change = ZERO, Spatial([0.0] * 3, apply(turn, upwards))
            for j in part.joints:
                dof, free = int(m.jnt_dofadr[j]), m.jnt_type[j] == FREE
                if free:
                    velocity = velocity + Spatial([0.0] * 3, list(v[dof : dof + 3]))
                    dof += 3
                dofs = range(dof, dof + (3 if free else 1))
                change = self._drift(change, velocity, dofs, v)
                for k in dofs:
                    velocity = velocity + self.motions[k].times(v[k])
            velocities.append(velocity)
            drift.append(change)
        return velocities, drift

    def _drift(
        self, change: Spatial, velocity: Spatial, dofs: Sequence[int], v: Sequence[Number]
    ) -> Spatial:
        """Add to ``change`` the acceleration from the motion of a joint's axes (Coriolis)."""
        for k in dofs:
            change = change + velocity.of_motion(self.motions[k]).times(v[k])
        return change

    def smooth_force(self, q: Sequence[Number], v: Sequence[Number], u: Sequence[Number]) -> Vector:
        """Return τ - c: all forces except those of constraints; ``v`` is along the roots' axes."""
        velocities, drifts = self.velocities(v)
        forces = self._without_fluid(self._inertial_forces(velocities, drifts), velocities)
        return add(self._with_joints(q, v, self._along_joints(forces)), self.actuation(q, v, u))

    def bias(self, v: Sequence[Number]) -> Vector:
        """Return MuJoCo's ``qfrc_bias``: gravity, Coriolis and centrifugal forces."""
        return self._along_joints(self._inertial_forces(*self.velocities(v)))

    def passive(self, q: Sequence[Number], v: Sequence[Number]) -> Vector:
        """Return MuJoCo's ``qfrc_passive``: the forces of springs, dampers and fluid."""
        forces = self._without_fluid([ZERO for _ in self.frames], self.velocities(v)[0])
        return self._with_joints(q, v, self._along_joints(forces))

    def _inertial_forces(
        self, velocities: Sequence[Spatial], drifts: Sequence[Spatial]
    ) -> list[Spatial]:
        """Return the force that moves each part while no joint accelerates (Newton-Euler)."""
        return [
            inertia.times(drift) + velocity.of_force(inertia.times(velocity))
            for inertia, drift, velocity in zip(self._inertias, drifts, velocities, strict=True)
        ]

    def _without_fluid(self, forces: list[Spatial], velocities: Sequence[Spatial]) -> list[Spatial]:
        """Subtract the forces of the fluid from forces on parts."""
        m = self.mechanism.model
        if m.opt.density > 0.0 or m.opt.viscosity > 0.0:
            for body in range(1, m.nbody):
                part = self.mechanism.part_of(body)
                if part >= 0 and m.body_mass[body] >= TINY:
                    fluid = self._fluid(body, velocities[part])
                    forces[part] = forces[part] + fluid.times(-1.0)
        return forces

    def _along_joints(self, forces: Sequence[Spatial]) -> Vector:
        """Project forces on parts onto each velocity."""
        sums = self._up(forces)
        dofs = range(self.mechanism.nv)
        return [self.motions[i].dot(sums[self.mechanism.dof_part(i)]) for i in dofs]

    def _with_joints(
        self, q: Sequence[Number], v: Sequence[Number], opposing: Sequence[Number]
    ) -> Vector:
        """Return the forces of dampers and springs, minus the ``opposing`` forces."""
        m, damping = self.mechanism.model, self.mechanism.damping
        forces = [minus(times(-damping[i], v[i]), opposing[i]) for i in range(self.mechanism.nv)]
        for j in range(m.njnt):
            if m.jnt_stiffness[j]:
                at, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
                stretch = minus(q[at], float(m.qpos_spring[at]))
                forces[dof] = minus(forces[dof], times(float(m.jnt_stiffness[j]), stretch))
        return forces

    def actuation(self, q: Sequence[Number], v: Sequence[Number], u: Sequence[Number]) -> Vector:
        """Return MuJoCo's ``qfrc_actuator``."""
        mechanism = self.mechanism
        m = mechanism.model
        forces: Vector = [0.0] * mechanism.nv
        for i in range(m.nu):
            j = int(m.actuator_trnid[i, 0])
            at, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
            gear = float(m.actuator_gear[i, 0])
            control = u[i]
            if m.actuator_ctrllimited[i]:
                control = clipped(control, *map(float, m.actuator_ctrlrange[i]))
            length, speed = times(gear, q[at]), times(gear, v[dof])

            def linear(coefficients: Any, length: Number = length, speed: Number = speed) -> Number:
                a, b, c = map(float, coefficients[:3])
                return plus(plus(a, times(b, length)), times(c, speed))

            gain = linear(m.actuator_gainprm[i])
            if m.actuator_gaintype[i] == 0:
                gain = float(m.actuator_gainprm[i, 0])
            force = times(gain, control)
            if m.actuator_biastype[i]:
                force = plus(force, linear(m.actuator_biasprm[i]))
            if m.actuator_forcelimited[i]:
                force = clipped(force, *map(float, m.actuator_forcerange[i]))
            forces[dof] = plus(forces[dof], times(gear, force))
        for j in range(m.njnt):
            if m.nu and m.jnt_actfrclimited[j]:  # without actuators, MuJoCo ignores the range
                dof = int(m.jnt_dofadr[j])
                forces[dof] = clipped(forces[dof], *map(float, m.jnt_actfrcrange[j]))
        return forces

    def _fluid(self, body: int, velocity: Spatial) -> Spatial:
        """Return the force of the fluid on a body, computed as for a box of the same inertia."""
        m = self.mechanism.model
        mass, inertia = float(m.body_mass[body]), m.body_inertia[body]
        box = [
            float(np.sqrt(max(TINY, inertia.sum() - 2.0 * inertia[k]) / mass * 6.0))
            for k in range(3)
        ]
        place = self.mechanism.fixed[body]
        frame = self.frames[place.part]
        principal = product(place.matrix, constant_rotation(m.body_iquat[body]))
        axes = product(frame.matrix, principal)
        ipos = [float(each) for each in m.body_ipos[body]]
        inside = add(place.position, apply(place.matrix, ipos))
        centre = add(frame.position, apply(frame.matrix, inside))
        columns = [column(axes, k) for k in range(3)]
        spin = [dot(each, velocity.angular) for each in columns]
        flow = [dot(each, velocity.at(centre)) for each in columns]
        viscosity, density = max(float(m.opt.viscosity), 0.0), max(float(m.opt.density), 0.0)
        mean = sum(box) / 3.0
        torque, force = [], []
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            drag = density * box[k] * (box[i] ** 4 + box[j] ** 4) / 64.0
            push = 0.5 * density * box[i] * box[j]
            torque.append(
                minus(
                    times(-np.pi * mean**3 * viscosity, spin[k]),
                    times(drag, times(abs(spin[k]), spin[k])),
                )
            )
            force.append(
                minus(
                    times(-3.0 * np.pi * mean * viscosity, flow[k]),
                    times(push, times(abs(flow[k]), flow[k])),
                )
            )
        pushed = apply(axes, force)
        return Spatial(add(apply(axes, torque), cross(centre, pushed)), pushed)

    # --- the arrays of MuJoCo's data that an environment reads -----------------------------------

    def body_position(self, body: int) -> Vector:
        """Return MuJoCo's ``xpos``."""
        return self._in_world(self.mechanism.fixed[body])

    def body_quaternion(self, body: int) -> Vector:
        """Return MuJoCo's ``xquat``."""
        place = self.mechanism.fixed[body]
        relative = fixed_quaternion(place.matrix)
        if place.part < 0:
            return relative
        above = self._roots[self.frames[place.part].root].spin
        return quaternion_product(
            quaternion_product(above, self._quaternions[place.part]), relative
        )

    def geom(self, geom: int) -> tuple[int, Vector, Matrix]:
        """Return a geom's part, and its centre and axes relative to its root (-1: in the world)."""
        m = self.mechanism.model
        place = self.mechanism.fixed[int(m.geom_bodyid[geom])]
        offset = [float(each) for each in m.geom_pos[geom]]
        inside = add(place.position, apply(place.matrix, offset))
        turned = product(place.matrix, constant_rotation(m.geom_quat[geom]))
        if place.part < 0:
            return -1, inside, turned
        frame = self.frames[place.part]
        position = add(frame.position, apply(frame.matrix, inside))
        return place.part, position, product(frame.matrix, turned)

    def geom_position(self, geom: int) -> Vector:
        """Return MuJoCo's ``geom_xpos``."""
        part, position, _ = self.geom(geom)
        return self.in_world(self.root_of(part), position)

    def site_position(self, site: int) -> Vector:
        """Return MuJoCo's ``site_xpos``."""
        m = self.mechanism.model
        place = self.mechanism.fixed[int(m.site_bodyid[site])]
        offset = [float(each) for each in m.site_pos[site]]
        inside = add(place.position, apply(place.matrix, offset))
        return self._in_world(FixedPlace(place.part, inside, place.matrix))

    def _in_world(self, place: FixedPlace) -> Vector:
        if place.part < 0:
            return place.position
        frame = self.frames[place.part]
        position = add(frame.position, apply(frame.matrix, place.position))
        return self.in_world(frame.root, position)

    def centre(self, body: int) -> Vector:
        """Return MuJoCo's ``subtree_com``: the centre of mass of a body and all bodies below it."""
        m = self.mechanism.model
        members = [body]
        for other in range(body + 1, m.nbody):
            if int(m.body_parentid[other]) in members:
                members.append(other)
        mass = float(sum(m.body_mass[each] for each in members))
        if mass < TINY:
            return self._centre_of_body(body)
        centre: Vector = [0.0] * 3
        for each in members:
            centre = add(centre, scale(self._centre_of_body(each), float(m.body_mass[each]) / mass))
        return centre

    def _centre_of_body(self, body: int) -> Vector:
        """Return MuJoCo's ``xipos``: the centre of mass of a single body."""
        place = self.mechanism.fixed[body]
        ipos = [float(each) for each in self.mechanism.model.body_ipos[body]]
        inside = add(place.position, apply(place.matrix, ipos))
        return self._in_world(FixedPlace(place.part, inside, place.matrix))

    def body_inertia(self, body: int) -> Vector:
        """Return MuJoCo's ``cinert``: moments, mass times position, and mass, at its tree's centre.

        The moments are those about x, y and z, then the products xy, xz and yz.
        """
        if body == 0:
            return [0.0] * 10
        m = self.mechanism.model
        place, mass = self.mechanism.fixed[body], float(m.body_mass[body])
        away = subtract(self._centre_of_body(body), self.centre(int(m.body_rootid[body])))
        axes = product(place.matrix, constant_rotation(m.body_iquat[body]))
        if place.part >= 0:
            frame = self.frames[place.part]
            axes = product(product(self._roots[frame.root].matrix, frame.matrix), axes)
        weighted = [list(map(times, map(float, m.body_inertia[body]), row)) for row in axes]
        moments: Vector = []
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)):
            value = minus(dot(weighted[i], axes[j]), times(mass, times(away[i], away[j])))
            if i == j:
                value = plus(value, times(mass, dot(away, away)))
            moments.append(value)
        return [*moments, *scale(away, mass), mass]

    def body_velocity(self, body: int, v: Sequence[Number]) -> Vector:
        """Return MuJoCo's ``cvel``: angular and linear velocity, at the centre of its tree."""
        part = self.mechanism.part_of(body)
        if part < 0:
            return [0.0] * 6
        root = self._roots[self.frames[part].root]
        motion = self.velocities(v)[0][part]
        centre = self.centre(int(self.mechanism.model.body_rootid[body]))
        angular = apply(root.matrix, motion.angular)
        moved = cross(angular, subtract(centre, root.origin))
        return [*angular, *add(apply(root.matrix, motion.linear), moved)]
