# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false
# pyright: reportUnknownArgumentType=false
"""The equations of motion of jointed bodies, as expressions.

MuJoCo computes them for any model, step by step through its arrays. Here the model is known when
the code is written, so that everything that does not depend on the state is a number already, and
what is left is a list of operations on positions, velocities and controls: for a planar robot,
whose rotations have one axis, a small part of the general ones. All functions take numbers or
symbols (:mod:`gensmooth.rl.environments.symbols`), so they are checked on numbers, against MuJoCo
itself, and written as C on symbols.

The law is that of MuJoCo's documentation ("Computation"):

    M(q) a + c(q, v) = τ + Jᵀ f,

with the inertia M by composite rigid bodies, the bias c by recursive Newton-Euler (Featherstone,
2008), and soft constraints: f minimises, over accelerations a,

    ½ (a - a₀)ᵀ M (a - a₀) + Σ ½ Dᵢ min(0, Jᵢ a - arefᵢ)²,

where a₀ is the acceleration without constraints. Spatial vectors have their angular part first and
are taken at a point that moves with the robot, the origin of its first body.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np

from gensmooth.rl.environments.physics import load_mujoco
from gensmooth.rl.environments.symbols import ENTRYWISE, Symbol, choose

Number = Any  # a float or a symbol
Vector = list[Number]
Matrix = list[Vector]

_TINY = 1e-15  # MuJoCo's mjMINVAL
_IMPEDANCE = (1e-4, 1.0 - 1e-4)  # its mjMINIMP and mjMAXIMP
_LEAST_FRICTION = 1e-5  # its mjMINMU

# mjtGeom, mjtJoint and so on: MuJoCo's own numbers.
_PLANE, _SPHERE, _CAPSULE = 0, 2, 3
FREE, _BALL, _SLIDE, _HINGE = 0, 1, 2, 3
EULER, RUNGE_KUTTA = 0, 1


# --- arithmetic that leaves out what is nothing --------------------------------------------------


def times(a: Number, b: Number) -> Number:
    """The product; 0 and ±1 cost nothing."""
    if not isinstance(a, Symbol) and not isinstance(b, Symbol):
        return a * b
    if isinstance(a, Symbol):
        a, b = b, a
    if isinstance(a, Symbol):
        return a * b
    if a == 0.0:
        return 0.0
    return b if a == 1.0 else -b if a == -1.0 else a * b


def plus(a: Number, b: Number) -> Number:
    """The sum; 0 costs nothing."""
    if not isinstance(a, Symbol) and a == 0.0:
        return b
    if not isinstance(b, Symbol) and b == 0.0:
        return a
    return a + b


def minus(a: Number, b: Number) -> Number:
    """The difference; 0 costs nothing, and what is the same cancels."""
    if not isinstance(b, Symbol) and b == 0.0:
        return a
    if not isinstance(a, Symbol) and a == 0.0:
        return -b
    return 0.0 if a is b else a - b


def total(values: Iterable[Number]) -> Number:
    """The sum of numbers."""
    found: Number = 0.0
    for value in values:
        found = plus(found, value)
    return found


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    """The scalar product."""
    return total(map(times, a, b))


def add(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """The sum of vectors."""
    return list(map(plus, a, b))


def subtract(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """The difference of vectors."""
    return list(map(minus, a, b))


def scale(a: Sequence[Number], factor: Number) -> Vector:
    """A multiple of a vector."""
    return [times(factor, each) for each in a]


def cross(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """The vector product."""
    return [
        minus(times(a[1], b[2]), times(a[2], b[1])),
        minus(times(a[2], b[0]), times(a[0], b[2])),
        minus(times(a[0], b[1]), times(a[1], b[0])),
    ]


def apply(matrix: Sequence[Sequence[Number]], vector: Sequence[Number]) -> Vector:
    """A matrix times a vector."""
    return [dot(row, vector) for row in matrix]


def product(a: Sequence[Sequence[Number]], b: Sequence[Sequence[Number]]) -> Matrix:
    """A matrix times a matrix."""
    columns = list(zip(*b, strict=True))
    return [[dot(row, column) for column in columns] for row in a]


def column(matrix: Sequence[Sequence[Number]], index: int) -> Vector:
    """A column of a matrix."""
    return [row[index] for row in matrix]


def _root(value: Number) -> Number:
    return ENTRYWISE["sqrt"](value)


def _clip(value: Number, low: float, high: float) -> Number:
    return choose(value < low, low, choose(value > high, high, value))


def _normalized(vector: Sequence[Number], otherwise: Sequence[float]) -> Vector:
    length = _root(dot(vector, vector))
    short = length < _TINY
    inverse = 1.0 / choose(short, 1.0, length)
    return [
        choose(short, other, times(inverse, each))
        for each, other in zip(vector, otherwise, strict=True)
    ]


def _turn(axis: Sequence[float], angle: Number) -> Matrix:
    """The rotation by an angle about an axis of length one (Rodrigues)."""
    c, s = ENTRYWISE["cos"](angle), ENTRYWISE["sin"](angle)
    x, y, z = (_round(each) for each in axis)
    rest = minus(1.0, c)

    def entry(a: float, b: float, signed: float, same: bool) -> Number:
        mixed = times(a * b, rest)
        return plus(plus(mixed, c if same else 0.0), times(signed, s))

    return (
        [
            [entry(x, x, 0.0, True), entry(x, y, -z, False), entry(x, z, y, False)],
            [entry(x, y, z, False), entry(y, y, 0.0, True), entry(y, z, -x, False)],
            [entry(x, z, -y, False), entry(y, z, x, False), entry(z, z, 0.0, True)],
        ]
        if _is_general(x, y, z)
        else _plain_turn((x, y, z), c, s)
    )


def _is_general(*axis: float) -> bool:
    return sum(1 for each in axis if each != 0.0) > 1


def _plain_turn(axis: tuple[float, float, float], c: Number, s: Number) -> Matrix:
    """A rotation about one of the frame's own axes."""
    k = next(index for index, each in enumerate(axis) if each != 0.0)
    s = times(axis[k], s)
    i, j = (k + 1) % 3, (k + 2) % 3
    found: Matrix = [[0.0] * 3 for _ in range(3)]
    found[k][k] = 1.0
    found[i][i] = found[j][j] = c
    found[i][j], found[j][i] = -s, s
    return found


def _round(value: float) -> float:
    """A number of a rotation, as it was meant: 1e-17 for 0 would cost operations."""
    nearest = float(np.round(value))
    return nearest if abs(value - nearest) < 1e-14 else float(value)


def _matrix(quaternion: Sequence[Number]) -> Matrix:
    """The rotation of a quaternion of length one."""
    w, x, y, z = quaternion

    def twice(a: Number, b: Number) -> Number:
        return times(2.0, times(a, b))

    return [
        [
            minus(1.0, plus(twice(y, y), twice(z, z))),
            minus(twice(x, y), twice(w, z)),
            plus(twice(x, z), twice(w, y)),
        ],
        [
            plus(twice(x, y), twice(w, z)),
            minus(1.0, plus(twice(x, x), twice(z, z))),
            minus(twice(y, z), twice(w, x)),
        ],
        [
            minus(twice(x, z), twice(w, y)),
            plus(twice(y, z), twice(w, x)),
            minus(1.0, plus(twice(x, x), twice(y, y))),
        ],
    ]


def _constant_matrix(quaternion: Sequence[float]) -> Matrix:
    unit = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    return [[_round(each) for each in row] for row in _matrix(unit.tolist())]


def quaternion_product(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """The rotation ``b``, then ``a``."""
    real = minus(times(a[0], b[0]), dot(a[1:], b[1:]))
    imaginary = add(add(scale(b[1:], a[0]), scale(a[1:], b[0])), cross(a[1:], b[1:]))
    return [real, *imaginary]


# --- spatial vectors ----------------------------------------------------------------------------


class Spatial(NamedTuple):
    """A velocity, an acceleration, a momentum or a force: angular and linear part."""

    angular: Vector
    linear: Vector

    def __add__(self, other: "Spatial") -> "Spatial":  # type: ignore[override]
        return Spatial(add(self.angular, other.angular), add(self.linear, other.linear))

    def times(self, factor: Number) -> "Spatial":
        """A multiple."""
        return Spatial(scale(self.angular, factor), scale(self.linear, factor))

    def dot(self, other: "Spatial") -> Number:
        """The power of a force at a velocity."""
        return plus(dot(self.angular, other.angular), dot(self.linear, other.linear))

    def of_motion(self, other: "Spatial") -> "Spatial":
        """How a motion changes that is carried along by this velocity."""
        return Spatial(
            cross(self.angular, other.angular),
            add(cross(self.angular, other.linear), cross(self.linear, other.angular)),
        )

    def of_force(self, other: "Spatial") -> "Spatial":
        """How a momentum changes that is carried along by this velocity."""
        return Spatial(
            add(cross(self.angular, other.angular), cross(self.linear, other.linear)),
            cross(self.angular, other.linear),
        )

    def at(self, point: Sequence[Number]) -> Vector:
        """The velocity of a point."""
        return add(self.linear, cross(self.angular, point))


ZERO = Spatial([0.0] * 3, [0.0] * 3)


class Inertia(NamedTuple):
    """Mass, mass times centre, and moments about the point of reference."""

    mass: Number
    moment: Vector
    matrix: Matrix

    def __add__(self, other: "Inertia") -> "Inertia":  # type: ignore[override]
        rows = [add(a, b) for a, b in zip(self.matrix, other.matrix, strict=True)]
        return Inertia(plus(self.mass, other.mass), add(self.moment, other.moment), rows)

    def times(self, motion: Spatial) -> Spatial:
        """The momentum of a velocity."""
        angular = add(apply(self.matrix, motion.angular), cross(self.moment, motion.linear))
        linear = subtract(scale(motion.linear, self.mass), cross(self.moment, motion.angular))
        return Spatial(angular, linear)


# --- the model ----------------------------------------------------------------------------------


class UnsupportedMechanismError(ValueError):
    """A model has something that is not written down here."""


class _Part(NamedTuple):
    """Bodies without joints between them, which move as one.

    Attributes:
        body: The first of them, whose frame is the part's.
        parent: The part that it hangs on; -1 for the world itself.
        joints: The joints of the first body.
        mass: The mass of all.
        centre: Where it is, in the part's frame.
        inertia: About the centre, in the part's frame.
    """

    body: int
    parent: int
    joints: tuple[int, ...]
    mass: float
    centre: tuple[float, ...]
    inertia: Matrix


class _Place(NamedTuple):
    """Where something is fixed on a part: the part, a position and an orientation in its frame."""

    part: int
    position: Vector
    matrix: Matrix


class Frame(NamedTuple):
    """Where a part is: its root part, its origin from the root's, and its axes as columns.

    Both along the axes of the root: the world's, or, if the root moves freely, its own.
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


class Touch(NamedTuple):
    """Where two things touch, from the root of the contact: a point, the normal, a tangent.

    Attributes:
        point: Half way between them.
        normal: From the first to the second.
        along: The first tangent, as far as it is tangential; ``None``: MuJoCo's choice.
    """

    point: Vector
    normal: Vector
    along: Vector | None


class Contact(NamedTuple):
    """Two things that may touch.

    Attributes:
        distance: Between them, negative where they overlap.
        bodies: The two.
        parts: Their parts.
        root: The part from whose origin, along whose axes, the contact is described.
        friction: 0 without friction.
        law: How it gives way, and at which distance.
        touch: What is only needed if they touch.
    """

    distance: Number
    bodies: tuple[int, int]
    parts: tuple[int, int]
    root: int
    friction: float
    law: "Softness"
    touch: Callable[[], Touch]


@final
@dataclass(frozen=True)
class Softness:
    """How a constraint gives way (MuJoCo's solref and solimp).

    Attributes:
        stiffness: K.
        damping: B.
        impedance: dmin, dmax, width, midpoint and power.
        inertia: The inverse inertia that the regularisation is in proportion to.
        factor: What a friction pyramid multiplies the regularisation with.
        margin: Distances count from here.
    """

    stiffness: float
    damping: float
    impedance: tuple[float, ...]
    inertia: float
    factor: float
    margin: float

    def pull(self, distance: Number) -> tuple[Number, Number]:
        """The stiffness D of the constraint, and K d (x - margin), which ``-aref`` begins with."""
        low, high, width, middle, power = self.impedance
        depth = minus(distance, self.margin)
        if low == high or width <= _TINY:
            d: Number = 0.5 * (low + high)
        else:
            x = abs(depth) * (1.0 / width)
            if power == 1.0:
                y = x
            else:
                small = (1.0 / middle ** (power - 1.0)) * x**power
                rest = 1.0 - x
                large = 1.0 - (1.0 / (1.0 - middle) ** (power - 1.0)) * rest**power
                y = choose(x <= middle, small, large)
            d = choose(x >= 1.0, high, low + y * (high - low))
        regular = (1.0 - d) * self.inertia / d
        regular = choose(regular < _TINY, _TINY, regular) * self.factor
        return 1.0 / regular, times(self.stiffness, times(d, depth))


class Limit(NamedTuple):
    """A joint's range: its numbers in qpos and among the velocities, and how it gives way."""

    position: int
    velocity: int
    low: float
    high: float
    law: Softness


@final
class Mechanism:
    """A MuJoCo model whose physics can be written down.

    Args:
        model: The ``MjModel``.

    Raises:
        UnsupportedMechanismError: When it has something that is not written down here.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.nq, self.nv, self.nu = int(model.nq), int(model.nv), int(model.nu)
        self.timestep = float(model.opt.timestep)
        self.integrator = int(model.opt.integrator)
        _refuse(model)
        self._parts, self._fixed = _parts(model)
        self._dof_part = [self._part_of(int(b)) for b in model.dof_bodyid]
        self.damping = [float(each) for each in model.dof_damping]
        self.limits = self._limits()
        self.pairs = _pairs(model)
        self.corrected = self.integrator == RUNGE_KUTTA and _rotations_are_corrected()
        self._refuse_parallel_capsules()

    def _refuse_parallel_capsules(self) -> None:
        """Parallel capsules touch in two points: those that are never otherwise are left to MuJoCo.

        Others are parallel for a moment only, if at all, and then touch in one point here.
        """
        kinds = self.model.geom_type
        both = [pair for pair in self.pairs if all(kinds[g] == _CAPSULE for g in pair)]
        if not both:
            return
        rng = np.random.default_rng(0)
        placed = self.place((self.model.qpos0 + rng.uniform(-1.0, 1.0, self.nq)).tolist())
        for pair in both:
            one, two = (np.array(placed.geom_axis(g), float) for g in pair)
            if np.linalg.norm(np.cross(one, two)) < 1e-9:
                raise UnsupportedMechanismError("capsules that stay parallel and may touch")

    def _part_of(self, body: int) -> int:
        return self._fixed[body].part

    def ancestors(self, dof: int) -> list[int]:
        """The velocities that move with one: itself, and those nearer to the root."""
        found: list[int] = []
        while dof >= 0:
            found.append(dof)
            dof = int(self.model.dof_parentid[dof])
        return found

    def dofs_of(self, part: int) -> list[int]:
        """The velocities that move a part, from the root on."""
        found: list[int] = []
        while part >= 0:
            body = self._parts[part].body
            first, number = int(self.model.body_dofadr[body]), int(self.model.body_dofnum[body])
            found = [*range(first, first + number), *found]
            part = self._parts[part].parent
        return found

    def _limits(self) -> list[Limit]:
        m, found = self.model, list[Limit]()
        for j in range(m.njnt):
            if not m.jnt_limited[j]:
                continue
            dof, margin = int(m.jnt_dofadr[j]), float(m.jnt_margin[j])
            low, high = map(float, m.jnt_range[j])
            if high - low <= 2.0 * margin:
                raise UnsupportedMechanismError("a joint whose two limits act at once")
            law = self._softness(
                m.jnt_solref[j], m.jnt_solimp[j], float(m.dof_invweight0[dof]), 1.0, margin
            )
            found.append(Limit(int(m.jnt_qposadr[j]), dof, low, high, law))
        return found

    def _softness(
        self, reference: Any, impedance: Any, inertia: float, factor: float, margin: float
    ) -> Softness:
        """MuJoCo's ``mj_makeImpedance``."""
        low, high = (float(np.clip(each, *_IMPEDANCE)) for each in impedance[:2])
        width, middle = max(0.0, float(impedance[2])), float(np.clip(impedance[3], *_IMPEDANCE))
        power = max(1.0, float(impedance[4]))
        first, second = map(float, reference)
        if first > 0.0:
            if not int(self.model.opt.disableflags) & _flag("refsafe"):
                first = max(first, 2.0 * self.timestep)
            stiffness = 1.0 / max(_TINY, high**2 * first**2 * second**2)
            damping = 2.0 / max(_TINY, high * first)
        else:
            stiffness = -first / max(_TINY, high**2)
            damping = -second / max(_TINY, high)
        return Softness(
            stiffness, damping, (low, high, width, middle, power), inertia, factor, margin
        )

    # --- where everything is ----------------------------------------------------------------------

    def place(self, q: Sequence[Number]) -> "Placed":
        """Where all parts are, and how each velocity moves what hangs on it."""
        m = self.model
        frames: list[Frame] = []
        roots: dict[int, Root] = {}
        motions: list[Spatial] = [ZERO] * self.nv
        quaternions: list[Vector] = []
        for index, part in enumerate(self._parts):
            fixed = self._fixed[int(m.body_parentid[part.body])]
            own = [float(each) for each in m.body_pos[part.body]]
            position = add(fixed.position, apply(fixed.matrix, own))
            matrix = product(fixed.matrix, _constant_matrix(m.body_quat[part.body]))
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
                    turn = _normalized(q[at + 3 : at + 7], (1.0, 0.0, 0.0, 0.0))
                    roots[index] = Root(list(q[at : at + 3]), _matrix(turn), turn)
                    position, matrix, spin = [0.0] * 3, identity(), [1.0, 0.0, 0.0, 0.0]
                    moves += [(dof + k, None, unit) for k, unit in enumerate(identity())]
                    moves += [(dof + 3 + k, position, unit) for k, unit in enumerate(identity())]
                    continue
                value = minus(q[at], float(m.qpos0[at]))
                along = [_round(float(each)) for each in m.jnt_axis[j]]
                axis = apply(matrix, along)
                if kind == _SLIDE:
                    position = add(position, scale(axis, value))
                    moves.append((dof, None, axis))
                    continue
                offset = [float(each) for each in m.jnt_pos[j]]
                anchor = add(position, apply(matrix, offset))
                matrix = product(matrix, _turn(along, value))
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
        return Placed(self, frames, roots, motions, quaternions)

    def free_translations(self) -> list[tuple[int, int]]:
        """The first velocity of each free joint, and its part."""
        m = self.model
        return [
            (int(m.jnt_dofadr[j]), self._part_of(int(m.jnt_bodyid[j])))
            for j in range(m.njnt)
            if m.jnt_type[j] == FREE
        ]

    def dof_part(self, dof: int) -> int:
        """The part that a velocity moves first."""
        return self._dof_part[dof]


def identity() -> Matrix:
    """The rotation by nothing."""
    return [[float(i == j) for j in range(3)] for i in range(3)]


def transposed(matrix: Sequence[Sequence[Number]]) -> Matrix:
    """A matrix with rows for columns: of a rotation, its inverse."""
    return [list(each) for each in zip(*matrix, strict=True)]


def fixed_quaternion(matrix: Matrix) -> Vector:
    """The quaternion of a rotation that is known."""
    m = np.array(matrix, float)
    w = np.sqrt(max(0.0, 1.0 + np.trace(m))) / 2.0
    if w > 1e-6:
        rest = [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]
        return [_round(float(w)), *(_round(float(each / (4.0 * w))) for each in rest)]
    # half a turn: the axis is the column of (m + 1) / 2 with the largest entry
    half = (m + np.eye(3)) / 2.0
    axis = half[:, int(np.argmax(np.diag(half)))]
    return [0.0, *(_round(float(each)) for each in axis / np.linalg.norm(axis))]


def _flag(name: str) -> int:
    """A bit of ``mjtDisableBit``; 0 where this version of MuJoCo does not have it."""
    return int(getattr(load_mujoco().mjtDisableBit, f"mjDSBL_{name.upper()}", 0))


@cache
def _margins_add() -> bool:
    """Whether two margins add up (later versions of MuJoCo) or the larger counts: we look."""
    ball = '<body pos="{} 0 0"><freejoint/><geom size="0.1" margin="0.1"/></body>'
    mujoco = load_mujoco()
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{ball.format(0)}{ball.format(0.35)}</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.ncon)


@cache
def _rotations_are_corrected() -> bool:
    """Whether Runge-Kutta's stages know that rotations do not add up (later versions of MuJoCo).

    We look: a body that tumbles freely turns a little otherwise.
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
        spin, rate, whole = begin, begin, np.zeros(3)
        for share, step in ((1 / 6, h / 2), (1 / 3, h / 2), (1 / 3, h), (1 / 6, 0.0)):
            whole = whole + share * rate
            change = -np.cross(spin, inertia * spin) / inertia
            spin, angle = begin + step * change, step * rate
            rate = spin
            if corrected:  # to the second order, which is enough to tell
                twist = np.cross(angle, spin)
                rate = spin + twist / 2 + np.cross(angle, twist) / 12
        angle = h * float(np.linalg.norm(whole))
        return np.array([np.cos(angle / 2), *(np.sin(angle / 2) / angle * h * whole)])

    plain, other = (float(np.abs(turned(each) - data.qpos[3:]).max()) for each in (False, True))
    return other < plain


# What a model may not switch off. Dampers and springs were one bit, later two.
_NEEDED = (
    "constraint",
    "limit",
    "contact",
    "gravity",
    "clampctrl",
    "actuation",
    "eulerdamp",
    "passive",
    "spring",
    "damper",
)


def _refuse(m: Any) -> None:
    """Say what of a model is not written down here."""

    def unless(fine: Any, what: str) -> None:
        if not fine:
            raise UnsupportedMechanismError(what)

    unless(m.opt.integrator in (EULER, RUNGE_KUTTA), "an implicit integrator")
    unless(m.opt.cone == 0, "elliptic friction cones")
    flags = int(m.opt.disableflags)
    for name in _NEEDED:
        unless(not flags & _flag(name), f"physics without {name}")
    unless(int(m.opt.enableflags) == 0, "an option of mjtEnableBit")
    unless(m.opt.noslip_iterations == 0, "friction without slip (noslip_iterations)")
    unless(m.opt.disableactuator == 0, "actuators that are switched off")
    unless(m.nv > 0, "nothing that moves")
    for name, what in (
        ("neq", "equality constraints"),
        ("npair", "contact pairs of its own"),
        ("nmocap", "mocap bodies"),
        ("nflex", "flexible bodies"),
        ("na", "actuators with a state"),
        ("nplugin", "plugins"),
    ):
        unless(not getattr(m, name, 0), what)
    for name in ("limited", "stiffness", "damping", "frictionloss", "armature", "actfrclimited"):
        unless(not np.any(getattr(m, f"tendon_{name}", 0)), "tendons that pull")
    unless(not np.any(m.geom_gap), "gaps between things that touch")
    unless(not np.any(m.jnt_type == _BALL), "ball joints")
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
        unless(kind in (_SLIDE, _HINGE), "an actuator at a free joint")
        unless(m.actuator_dyntype[i] == 0, "actuators with dynamics")
        unless(m.actuator_gaintype[i] in (0, 1), "muscles and other gains")
        unless(m.actuator_biastype[i] in (0, 1), "muscles and other biases")
    for name in ("actuator_delay", "actuator_dampratio", "actuator_damping"):
        unless(not np.any(getattr(m, name, 0)), "actuators with delay or damping")


def _parts(m: Any) -> tuple[list[_Part], list[_Place]]:
    """The parts of a model, and where each body is fixed on its part (-1: on the world)."""
    fixed: list[_Place] = []
    bodies: list[list[int]] = []
    parents: list[int] = []
    for body in range(m.nbody):
        parent = int(m.body_parentid[body])
        if body == 0:
            fixed.append(_Place(-1, [0.0] * 3, identity()))
        elif m.body_jntnum[body]:
            parents.append(fixed[parent].part)
            bodies.append([body])
            fixed.append(_Place(len(bodies) - 1, [0.0] * 3, identity()))
        else:
            above = fixed[parent]
            own = [float(each) for each in m.body_pos[body]]
            position = add(above.position, apply(above.matrix, own))
            matrix = product(above.matrix, _constant_matrix(m.body_quat[body]))
            fixed.append(_Place(above.part, position, matrix))
            if above.part >= 0:
                bodies[above.part].append(body)
    parts: list[_Part] = []
    for members, parent in zip(bodies, parents, strict=True):
        mass = float(sum(m.body_mass[b] for b in members))
        turns = {b: np.array(fixed[b].matrix) for b in members}
        centres = {b: turns[b] @ m.body_ipos[b] + fixed[b].position for b in members}
        weighted: Any = sum(m.body_mass[b] * centres[b] for b in members)
        centre = weighted / max(mass, _TINY)
        inertia = np.zeros((3, 3))
        for b in members:
            axes = turns[b] @ np.array(_constant_matrix(m.body_iquat[b]))
            away = centres[b] - centre
            inertia += axes @ np.diag(m.body_inertia[b]) @ axes.T
            inertia += m.body_mass[b] * (away @ away * np.eye(3) - np.outer(away, away))
        inertia[np.abs(inertia) < 1e-15 * np.abs(inertia).max()] = 0.0
        first = members[0]
        joints = range(m.body_jntadr[first], m.body_jntadr[first] + m.body_jntnum[first])
        parts.append(
            _Part(first, parent, tuple(joints), mass, tuple(centre.tolist()), inertia.tolist())
        )
    return parts, fixed


class _Pair(NamedTuple):
    """Two geoms that may touch, by number; the first has the simpler shape."""

    first: int
    second: int


def _pairs(m: Any) -> list[_Pair]:
    """The geoms that MuJoCo would look at."""
    found: list[_Pair] = []
    excluded = {int(each) for each in m.exclude_signature}
    weld = [int(each) for each in m.body_weldid]
    above = [weld[int(m.body_parentid[w])] for w in weld]
    filtered = not int(m.opt.disableflags) & _flag("filterparent")
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
            if not set(shapes) <= {_PLANE, _SPHERE, _CAPSULE}:
                raise UnsupportedMechanismError(
                    "things that touch and are no plane, sphere or capsule"
                )
            if max(int(m.geom_condim[a]), int(m.geom_condim[b])) not in (1, 3):
                raise UnsupportedMechanismError("friction that resists rolling or spinning")
            found.append(_Pair(a, b))
    return found


# --- a state ------------------------------------------------------------------------------------


@final
class Placed:
    """A mechanism somewhere: its frames and motions, and what follows from them.

    Args:
        mechanism: The mechanism.
        frames: Of the parts.
        roots: Where each tree's first part is, by its number.
        motions: What each velocity is, as a spatial velocity at its root's origin, along its root's
            axes; those of a free joint's translation stand for velocities along these axes, see
            :meth:`along_roots`.
        quaternions: Of the parts, from the root's axes.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        frames: list[Frame],
        roots: dict[int, Root],
        motions: list[Spatial],
        quaternions: list[Vector],
    ) -> None:
        self._mechanism = mechanism
        self._frames, self._roots, self.motions = frames, roots, motions
        self._quaternions = quaternions
        self._inertias = [self._inertia(k) for k in range(len(frames))]

    def along_roots(self, v: Sequence[Number]) -> Vector:
        """Velocities or accelerations with each free translation along the root's own axes.

        M, forces and Jacobians are with respect to these: so they do not depend on how a robot
        that moves freely is turned. A change of basis like any other, which the inverse,
        :meth:`along_world`, undoes.
        """
        return self._turned(v, transposed)

    def along_world(self, v: Sequence[Number]) -> Vector:
        """The inverse of :meth:`along_roots`."""
        return self._turned(v, list)

    def _turned(self, v: Sequence[Number], how: Callable[[Matrix], Matrix]) -> Vector:
        found = list(v)
        for first, part in self._mechanism.free_translations():
            turn = how(self._roots[part].matrix)
            found[first : first + 3] = apply(turn, found[first : first + 3])
        return found

    def _inertia(self, index: int) -> Inertia:
        """Of a part, at its root's origin, along its root's axes."""
        part, frame = self._mechanism._parts[index], self._frames[index]
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
        """Each part's value and those of all that hang on it."""
        found = list(values)
        for index in reversed(range(len(found))):
            parent = self._mechanism._parts[index].parent
            if parent >= 0:
                found[parent] = found[parent] + found[index]
        return found

    def mass_matrix(self) -> dict[tuple[int, int], Number]:
        """M by composite rigid bodies: entries (i, j) with j <= i that are not always 0."""
        mechanism, found = self._mechanism, dict[tuple[int, int], Number]()
        whole = self._up(self._inertias)
        for i in range(mechanism.nv):
            momentum = whole[mechanism.dof_part(i)].times(self.motions[i])
            for j in mechanism.ancestors(i):
                value = self.motions[j].dot(momentum)
                if i == j:
                    value = plus(value, float(mechanism.model.dof_armature[i]))
                if isinstance(value, Symbol) or value != 0.0:
                    found[i, j] = value
        return found

    def velocities(self, v: Sequence[Number]) -> tuple[list[Spatial], list[Spatial]]:
        """The velocity of each part, and its acceleration when no joint accelerates."""
        mechanism = self._mechanism
        m, found, drift = mechanism.model, list[Spatial](), list[Spatial]()
        upwards = [-float(each) for each in m.opt.gravity]
        for index, part in enumerate(mechanism._parts):
            if part.parent >= 0:
                velocity, change = found[part.parent], drift[part.parent]
            else:
                turn = transposed(self._roots[index].matrix)
                velocity, change = ZERO, Spatial([0.0] * 3, apply(turn, upwards))
            for j in part.joints:
                dof, free = int(m.jnt_dofadr[j]), m.jnt_type[j] == FREE
                if free:
                    velocity = velocity + Spatial([0.0] * 3, list(v[dof : dof + 3]))
                    dof += 3
                before = velocity
                for k in range(dof, dof + (3 if free else 1)):
                    motion = self.motions[k]
                    change = change + before.of_motion(motion).times(v[k])
                    velocity = velocity + motion.times(v[k])
            found.append(velocity)
            drift.append(change)
        return found, drift

    def smooth_force(self, q: Sequence[Number], v: Sequence[Number], u: Sequence[Number]) -> Vector:
        """τ - c: gravity, Coriolis, springs, dampers, fluid and actuators; ``v`` along roots."""
        mechanism = self._mechanism
        m = mechanism.model
        velocities, drifts = self.velocities(v)
        forces = [
            inertia.times(drift) + velocity.of_force(inertia.times(velocity))
            for inertia, drift, velocity in zip(self._inertias, drifts, velocities, strict=True)
        ]
        if m.opt.density > 0.0 or m.opt.viscosity > 0.0:
            for body in range(1, m.nbody):
                part = mechanism._part_of(body)
                if part >= 0 and m.body_mass[body] >= _TINY:
                    fluid = self._fluid(body, velocities[part])
                    forces[part] = forces[part] + fluid.times(-1.0)
        whole = self._up(forces)
        found: Vector = []
        for i in range(mechanism.nv):
            bias = self.motions[i].dot(whole[mechanism.dof_part(i)])
            found.append(minus(times(-mechanism.damping[i], v[i]), bias))
        for j in range(m.njnt):
            if m.jnt_stiffness[j]:
                at, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
                stretch = minus(q[at], float(m.qpos_spring[at]))
                found[dof] = minus(found[dof], times(float(m.jnt_stiffness[j]), stretch))
        driven = self.actuation(q, v, u)
        return add(found, driven)

    def actuation(self, q: Sequence[Number], v: Sequence[Number], u: Sequence[Number]) -> Vector:
        """MuJoCo's ``qfrc_actuator``."""
        mechanism = self._mechanism
        m = mechanism.model
        found: Vector = [0.0] * mechanism.nv
        for i in range(m.nu):
            j = int(m.actuator_trnid[i, 0])
            at, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
            gear = float(m.actuator_gear[i, 0])
            control = u[i]
            if m.actuator_ctrllimited[i]:
                control = _clip(control, *map(float, m.actuator_ctrlrange[i]))
            length, speed = times(gear, q[at]), times(gear, v[dof])

            def linear(given: Any, length: Number = length, speed: Number = speed) -> Number:
                a, b, c = map(float, given[:3])
                return plus(plus(a, times(b, length)), times(c, speed))

            gain = linear(m.actuator_gainprm[i])
            if m.actuator_gaintype[i] == 0:
                gain = float(m.actuator_gainprm[i, 0])
            force = times(gain, control)
            if m.actuator_biastype[i]:
                force = plus(force, linear(m.actuator_biasprm[i]))
            if m.actuator_forcelimited[i]:
                force = _clip(force, *map(float, m.actuator_forcerange[i]))
            found[dof] = plus(found[dof], times(gear, force))
        for j in range(m.njnt):
            if m.jnt_actfrclimited[j]:
                dof = int(m.jnt_dofadr[j])
                found[dof] = _clip(found[dof], *map(float, m.jnt_actfrcrange[j]))
        return found

    def _fluid(self, body: int, velocity: Spatial) -> Spatial:
        """The force of the fluid on a body: that on a box of the same inertia."""
        m = self._mechanism.model
        mass, inertia = float(m.body_mass[body]), m.body_inertia[body]
        box = [
            float(np.sqrt(max(_TINY, inertia.sum() - 2.0 * inertia[k]) / mass * 6.0))
            for k in range(3)
        ]
        place = self._mechanism._fixed[body]
        frame = self._frames[place.part]
        own = product(place.matrix, _constant_matrix(m.body_iquat[body]))
        axes = product(frame.matrix, own)
        ipos = [float(each) for each in m.body_ipos[body]]
        inside = add(place.position, apply(place.matrix, ipos))
        centre = add(frame.position, apply(frame.matrix, inside))
        columns = [column(axes, k) for k in range(3)]
        spin = [dot(each, velocity.angular) for each in columns]
        flow = [dot(each, velocity.at(centre)) for each in columns]
        viscosity, density = float(m.opt.viscosity), float(m.opt.density)
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

    # --- contacts ---------------------------------------------------------------------------------

    def contacts(self) -> list[Contact]:
        """All that may touch."""
        return [each for pair in self._mechanism.pairs for each in self._contacts_of(pair)]

    def _geom(self, geom: int) -> tuple[int, Vector, Matrix]:
        """A geom's part, its centre and its axes, from its root; in the world for -1."""
        m = self._mechanism.model
        place = self._mechanism._fixed[int(m.geom_bodyid[geom])]
        own = [float(each) for each in m.geom_pos[geom]]
        inside = add(place.position, apply(place.matrix, own))
        turned = product(place.matrix, _constant_matrix(m.geom_quat[geom]))
        if place.part < 0:
            return -1, inside, turned
        frame = self._frames[place.part]
        position = add(frame.position, apply(frame.matrix, inside))
        return place.part, position, product(frame.matrix, turned)

    def _root_of(self, part: int) -> int:
        return -1 if part < 0 else self._frames[part].root

    def root(self, index: int) -> Root:
        """The root with a number; -1 is the world."""
        return _WORLD if index < 0 else self._roots[index]

    def _seen_from(
        self, root: int, other: int, position: Vector, axes: Matrix
    ) -> tuple[Vector, Matrix]:
        """A place and axes from another root (or the world) as they are from this one."""
        if root == other:
            return position, axes
        here, there = self.root(root), self.root(other)
        back = transposed(here.matrix)
        in_world = add(there.origin, apply(there.matrix, position))
        return (
            apply(back, subtract(in_world, here.origin)),
            product(back, product(there.matrix, axes)),
        )

    def _contacts_of(self, pair: _Pair) -> list[Contact]:
        m = self._mechanism.model
        first, second = pair
        part1, at1, axes1 = self._geom(first)
        part2, at2, axes2 = self._geom(second)
        root = self._root_of(part2 if part2 >= 0 else part1)
        plane = at1, column(axes1, 2)  # if it is one: in the world
        at1, axes1 = self._seen_from(root, self._root_of(part1), at1, axes1)
        at2, axes2 = self._seen_from(root, self._root_of(part2), at2, axes2)
        radius1, radius2 = (float(m.geom_size[g, 0]) for g in pair)
        half1, half2 = (float(m.geom_size[g, 1]) for g in pair)
        law, friction = self._contact_law(pair)
        bodies = int(m.geom_bodyid[first]), int(m.geom_bodyid[second])

        def contact(distance: Number, touch: Callable[[], Touch]) -> Contact:
            return Contact(distance, bodies, (part1, part2), root, friction, law, touch)

        if m.geom_type[first] == _PLANE:
            normal, (point, upwards) = column(axes1, 2), plane
            height = dot(subtract(self.root(root).origin, point), upwards)
            ends: list[tuple[Vector, Any]] = [(at2, None)]
            if m.geom_type[second] == _CAPSULE:
                axis = column(axes2, 2)
                segment = scale(axis, half2)
                ends = [(add(at2, segment), axis), (subtract(at2, segment), axis)]
            found: list[Contact] = []
            for end, along in ends:
                distance = minus(plus(dot(end, normal), height), radius2)

                def where(end: Vector = end, along: Any = along, d: Number = distance) -> Touch:
                    depth = plus(radius2, times(0.5, d))
                    return Touch(subtract(end, scale(normal, depth)), normal, along)

                found.append(contact(distance, where))
            return found
        segment1, segment2 = scale(column(axes1, 2), half1), scale(column(axes2, 2), half2)
        if m.geom_type[first] == _SPHERE:
            point1 = at1
            point2 = at2 if m.geom_type[second] == _SPHERE else _nearest(at1, at2, segment2)
        else:
            point1, point2 = _nearest_of_two(at1, segment1, at2, segment2)
        apart = subtract(point2, point1)
        distance = minus(_root(dot(apart, apart)), radius1 + radius2)

        def between() -> Touch:
            normal = _normalized(apart, (1.0, 0.0, 0.0))
            depth = plus(radius1, times(0.5, distance))
            return Touch(add(point1, scale(normal, depth)), normal, None)

        return [contact(distance, between)]

    def axes(self, contact: Contact, touch: Touch) -> Matrix:
        """A contact's axes, from its root: the normal and two tangents."""
        normal, along = touch.normal, touch.along
        if along is None:  # the world's y axis, or its z axis where y is near to the normal
            turn = self.root(contact.root).matrix
            upright: Any = abs(apply(turn, normal)[1]) < 0.5
            along = apply(
                transposed(turn), [0.0, choose(upright, 1.0, 0.0), choose(upright, 0.0, 1.0)]
            )
        flat = subtract(along, scale(normal, dot(normal, along)))
        first = _normalized(flat, (1.0, 0.0, 0.0))
        return [normal, first, cross(normal, first)]

    def moving(self, contact: Contact) -> tuple[set[int], set[int]]:
        """The velocities that move only the first thing, and only the second."""
        one, two = (set(self._mechanism.dofs_of(part)) for part in contact.parts)
        return one - two, two - one

    def jacobian(self, contact: Contact, point: Vector, axes: Matrix, dof: int) -> Vector:
        """What a velocity does to the velocity at a contact, along its axes.

        The sign is for the second thing; for the first it is the opposite.
        """
        root = self._root_of(self._mechanism.dof_part(dof))
        at, columns = self._seen_from(root, contact.root, point, transposed(axes))
        moved = self.motions[dof].at(at)
        return [dot(axis, moved) for axis in transposed(columns)]

    def _contact_law(self, pair: _Pair) -> tuple[Softness, float]:
        """MuJoCo's ``mj_contactParam``, and what it makes of it in ``mj_makeImpedance``."""
        m = self._mechanism.model
        a, b = pair
        rank = int(m.geom_priority[a]) - int(m.geom_priority[b])
        margins = [float(m.geom_margin[g]) for g in pair]
        margin = sum(margins) if _margins_add() else max(margins)
        if rank:
            one = a if rank > 0 else b
            dimension, friction = int(m.geom_condim[one]), float(m.geom_friction[one, 0])
            reference, impedance = m.geom_solref[one], m.geom_solimp[one]
        else:
            dimension = max(int(m.geom_condim[a]), int(m.geom_condim[b]))
            friction = float(max(m.geom_friction[a, 0], m.geom_friction[b, 0]))
            weight, other = float(m.geom_solmix[a]), float(m.geom_solmix[b])
            if weight >= _TINY and other >= _TINY:
                share = weight / (weight + other)
            elif weight < _TINY and other < _TINY:
                share = 0.5
            else:
                share = 0.0 if weight < _TINY else 1.0
            if m.geom_solref[a, 0] > 0 and m.geom_solref[b, 0] > 0:
                reference = share * m.geom_solref[a] + (1.0 - share) * m.geom_solref[b]
            else:
                reference = np.minimum(m.geom_solref[a], m.geom_solref[b])
            impedance = share * m.geom_solimp[a] + (1.0 - share) * m.geom_solimp[b]
        friction = max(_LEAST_FRICTION, friction)
        weights = [float(m.body_invweight0[int(m.geom_bodyid[g]), 0]) for g in pair]
        inertia, factor = sum(weights), 1.0
        if dimension == 1:
            friction = 0.0
        else:
            inertia *= 1.0 + friction**2
            factor = 2.0 * friction**2 / max(_TINY, float(m.opt.impratio))
        law = self._mechanism._softness(reference, impedance, inertia, factor, margin)
        return law, friction

    # --- what an environment reads ----------------------------------------------------------------

    def body_position(self, body: int) -> Vector:
        """MuJoCo's ``xpos``."""
        return self._in_world(self._mechanism._fixed[body])

    def body_quaternion(self, body: int) -> Vector:
        """MuJoCo's ``xquat``."""
        place = self._mechanism._fixed[body]
        own = fixed_quaternion(place.matrix)
        if place.part < 0:
            return own
        above = self._roots[self._frames[place.part].root].spin
        return quaternion_product(quaternion_product(above, self._quaternions[place.part]), own)

    def geom_position(self, geom: int) -> Vector:
        """MuJoCo's ``geom_xpos``."""
        part, position, _ = self._geom(geom)
        return self.in_world(self._root_of(part), position)

    def geom_axis(self, geom: int) -> Vector:
        """A geom's own z axis, in the world."""
        part, _, axes = self._geom(geom)
        return apply(self.root(self._root_of(part)).matrix, column(axes, 2))

    def in_world(self, root: int, position: Vector) -> Vector:
        """A place from a root, in the world."""
        found = self.root(root)
        return add(found.origin, apply(found.matrix, position))

    def site_position(self, site: int) -> Vector:
        """MuJoCo's ``site_xpos``."""
        m = self._mechanism.model
        place = self._mechanism._fixed[int(m.site_bodyid[site])]
        own = [float(each) for each in m.site_pos[site]]
        inside = add(place.position, apply(place.matrix, own))
        return self._in_world(_Place(place.part, inside, place.matrix))

    def _in_world(self, place: _Place) -> Vector:
        if place.part < 0:
            return place.position
        frame = self._frames[place.part]
        position = add(frame.position, apply(frame.matrix, place.position))
        return self.in_world(frame.root, position)

    def centre(self, body: int) -> Vector:
        """MuJoCo's ``subtree_com``: the centre of a body and of all that hangs on it."""
        m = self._mechanism.model
        members = [body]
        for other in range(body + 1, m.nbody):
            if int(m.body_parentid[other]) in members:
                members.append(other)
        mass = float(sum(m.body_mass[each] for each in members))
        if mass < _TINY:
            return self.body_position(body)
        found: Vector = [0.0] * 3
        for each in members:
            place = self._mechanism._fixed[each]
            ipos = [float(value) for value in m.body_ipos[each]]
            inside = add(place.position, apply(place.matrix, ipos))
            where = self._in_world(_Place(place.part, inside, place.matrix))
            found = add(found, scale(where, float(m.body_mass[each]) / mass))
        return found

    def body_inertia(self, body: int) -> Vector:
        """MuJoCo's ``cinert``: moments, mass times place and mass, at the centre of its tree.

        The moments are those about x, y and z, then the products xy, xz and yz.
        """
        if body == 0:
            return [0.0] * 10
        m = self._mechanism.model
        place, mass = self._mechanism._fixed[body], float(m.body_mass[body])
        ipos = [float(each) for each in m.body_ipos[body]]
        inside = add(place.position, apply(place.matrix, ipos))
        at = self._in_world(_Place(place.part, inside, place.matrix))
        away = subtract(at, self.centre(int(m.body_rootid[body])))
        own = product(place.matrix, _constant_matrix(m.body_iquat[body]))
        if place.part >= 0:
            frame = self._frames[place.part]
            own = product(product(self._roots[frame.root].matrix, frame.matrix), own)
        weighted = [list(map(times, map(float, m.body_inertia[body]), row)) for row in own]
        found: Vector = []
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)):
            value = minus(dot(weighted[i], own[j]), times(mass, times(away[i], away[j])))
            if i == j:
                value = plus(value, times(mass, dot(away, away)))
            found.append(value)
        return [*found, *scale(away, mass), mass]

    def body_velocity(self, body: int, v: Sequence[Number]) -> Vector:
        """MuJoCo's ``cvel``: angular and linear, at the centre of its tree; ``v`` along roots."""
        part = self._mechanism._part_of(body)
        if part < 0:
            return [0.0] * 6
        root = self._roots[self._frames[part].root]
        motion = self.velocities(v)[0][part]
        centre = self.centre(int(self._mechanism.model.body_rootid[body]))
        angular = apply(root.matrix, motion.angular)
        moved = cross(angular, subtract(centre, root.origin))
        return [*angular, *add(apply(root.matrix, motion.linear), moved)]


def _nearest(point: Vector, centre: Vector, segment: Vector) -> Vector:
    """The point of a segment that is nearest to another."""
    length = dot(segment, segment)
    share = _clip(dot(segment, subtract(point, centre)) / length, -1.0, 1.0)
    return add(centre, scale(segment, share))


def _nearest_of_two(
    centre1: Vector, segment1: Vector, centre2: Vector, segment2: Vector
) -> tuple[Vector, Vector]:
    """The points of two segments that are nearest to each other."""
    apart = subtract(centre1, centre2)
    a, b, c = dot(segment1, segment1), -dot(segment1, segment2), dot(segment2, segment2)
    u, v = -dot(segment1, apart), dot(segment2, apart)
    area = a * c - b * b
    flat = abs(area) < _TINY
    inverse = 1.0 / choose(flat, 1.0, area)
    x = choose(flat, 0.0, (c * u - b * v) * inverse)
    y = choose(flat, v / c, (a * v - b * u) * inverse)
    above, below = x > 1.0, x < -1.0
    y = choose(above, (v - b) / c, choose(below, (v + b) / c, y))
    x = _clip(x, -1.0, 1.0)
    above, below = y > 1.0, y < -1.0
    high, low = _clip((u - b) / a, -1.0, 1.0), _clip((u + b) / a, -1.0, 1.0)
    x = choose(above, high, choose(below, low, x))
    y = _clip(y, -1.0, 1.0)
    return add(centre1, scale(segment1, x)), add(centre2, scale(segment2, y))
