# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Contacts: which geoms touch, where, and which velocities move the contact."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gensmooth.physics.mechanics.algebra import (
    TINY,
    Matrix,
    Number,
    Vector,
    add,
    apply,
    clipped,
    column,
    cross,
    dot,
    minus,
    normalized,
    plus,
    product,
    scale,
    square_root,
    subtract,
    times,
    transposed,
)
from gensmooth.physics.mechanics.models import (
    CAPSULE,
    PARALLEL,
    PLANE,
    SPHERE,
    Pair,
    parallel_means_an_angle,
)
from gensmooth.physics.mechanics.placed import Placed
from gensmooth.physics.mechanics.softness import Softness, contact_law
from gensmooth.physics.symbols import choose

_FAR = 1e10  # the distance of a contact that does not exist in this state


class Touch(NamedTuple):
    """Where two geoms touch, relative to the root of the contact.

    Attributes:
        point: The point halfway between the two surfaces.
        normal: From the first geom to the second.
        along: A vector whose tangential part gives the first tangent its direction; ``None`` for
            MuJoCo's default.
    """

    point: Vector
    normal: Vector
    along: Vector | None


class Contact(NamedTuple):
    """Two geoms that may touch.

    Attributes:
        distance: The distance between them, negative where they overlap.
        geoms: The two geoms.
        bodies: Their bodies.
        parts: Their parts.
        root: The part in whose frame the contact is described.
        friction: The friction coefficient; 0 without friction.
        law: The softness of the contact, and the distance at which it starts to act.
        touch: Computes the rest, which is needed only if they touch.
    """

    distance: Number
    geoms: Pair
    bodies: tuple[int, int]
    parts: tuple[int, int]
    root: int
    friction: float
    law: "Softness"
    touch: Callable[[], Touch]


def contacts_of(placed: Placed) -> list[Contact]:
    """Return all contacts that a mechanism may have."""
    return [each for pair in placed.mechanism.pairs for each in _contacts_of_pair(placed, pair)]


def _contacts_of_pair(placed: Placed, pair: Pair) -> list[Contact]:
    m = placed.mechanism.model
    first, second = pair
    part1, at1, axes1 = placed.geom(first)
    part2, at2, axes2 = placed.geom(second)
    root = placed.root_of(part2 if part2 >= 0 else part1)
    plane = at1, column(axes1, 2)  # in the world, if the first geom is a plane
    at1, axes1 = _seen_from(placed, root, placed.root_of(part1), at1, axes1)
    at2, axes2 = _seen_from(placed, root, placed.root_of(part2), at2, axes2)
    radius1, radius2 = (float(m.geom_size[g, 0]) for g in pair)
    half1, half2 = (float(m.geom_size[g, 1]) for g in pair)
    law, friction = contact_law(m, pair)
    bodies = int(m.geom_bodyid[first]), int(m.geom_bodyid[second])

    def contact(distance: Number, touch: Callable[[], Touch]) -> Contact:
        return Contact(distance, pair, bodies, (part1, part2), root, friction, law, touch)

    if m.geom_type[first] == PLANE:
        normal, (point, upwards) = column(axes1, 2), plane
        height = dot(subtract(placed.root(root).origin, point), upwards)
        ends: list[tuple[Vector, Any]] = [(at2, None)]
        if m.geom_type[second] == CAPSULE:
            axis = column(axes2, 2)
            segment = scale(axis, half2)
            ends = [(add(at2, segment), axis), (subtract(at2, segment), axis)]
        contacts: list[Contact] = []
        for end, along in ends:
            distance = minus(plus(dot(end, normal), height), radius2)

            def where(end: Vector = end, along: Any = along, d: Number = distance) -> Touch:
                depth = plus(radius2, times(0.5, d))
                return Touch(subtract(end, scale(normal, depth)), normal, along)

            contacts.append(contact(distance, where))
        return contacts

    def between(point1: Vector, point2: Vector) -> tuple[Number, Callable[[], Touch]]:
        """Return the distance of spheres about two points, and where they touch."""
        apart = subtract(point2, point1)
        distance = minus(square_root(dot(apart, apart)), radius1 + radius2)

        def touch() -> Touch:
            # If the axes cross, the normal is perpendicular to both.
            both = normalized(cross(column(axes1, 2), column(axes2, 2)), _world_x(placed, root))
            normal = normalized(apart, both)
            depth = plus(radius1, times(0.5, distance))
            return Touch(add(point1, scale(normal, depth)), normal, None)

        return distance, touch

    segment1, segment2 = scale(column(axes1, 2), half1), scale(column(axes2, 2), half2)
    if m.geom_type[first] == SPHERE:
        point2 = at2 if m.geom_type[second] == SPHERE else _nearest(at1, at2, segment2)
        return [contact(*between(at1, point2))]
    segments = Segments(at1, segment1, at2, segment2)
    distance, touch = between(*segments.nearest())
    if pair not in placed.mechanism.parallel:
        return [contact(distance, touch)]
    if parallel_means_an_angle():
        ends = [between(*points) for points in segments.where_both_end()]
        shown = [each for each, _ in ends]
    else:
        ends = [between(*points) for points in segments.beside_the_ends()]
        shown = _first_two([each for each, _ in ends], law.margin)
    return [
        contact(choose(segments.flat, _FAR, distance), touch),
        *(
            contact(choose(segments.flat, each, _FAR), touch)
            for each, (_, touch) in zip(shown, ends, strict=True)
        ),
    ]


def _first_two(distances: Sequence[Number], margin: float) -> Vector:
    """Keep the two of four distances that become contacts: the first two below the margin."""
    a, b, c, d = distances
    at_a, at_b, at_c = a < margin, b < margin, c < margin
    last = choose(at_c, _FAR, d)  # if only one of a and b is a contact
    return [
        a,
        b,
        choose(at_a, choose(at_b, _FAR, c), c),
        choose(at_a, choose(at_b, _FAR, last), choose(at_b, last, d)),
    ]


def axes_of(placed: Placed, contact: Contact, touch: Touch) -> Matrix:
    """Return a contact's axes, relative to its root: the normal and two tangents."""
    normal, along = touch.normal, touch.along
    if along is None:  # the world's y axis, or its z axis if y is close to the normal
        turn = placed.root(contact.root).matrix
        upright: Any = abs(apply(turn, normal)[1]) < 0.5
        along = apply(transposed(turn), [0.0, choose(upright, 1.0, 0.0), choose(upright, 0.0, 1.0)])
    flat = subtract(along, scale(normal, dot(normal, along)))
    first = normalized(flat, _world_x(placed, contact.root))
    return [normal, first, cross(normal, first)]


def _world_x(placed: Placed, root: int) -> Vector:
    """Return the world's x axis relative to a root, MuJoCo's choice for an undefined direction."""
    return placed.root(root).matrix[0]


def moving(placed: Placed, contact: Contact) -> tuple[set[int], set[int]]:
    """Return the velocities that move only the first geom, and only the second."""
    one, two = (set(placed.mechanism.dofs_of(part)) for part in contact.parts)
    return one - two, two - one


def jacobian(placed: Placed, contact: Contact, point: Vector, axes: Matrix, dof: int) -> Vector:
    """Return the velocity at a contact, along its axes, per unit of a joint velocity.

    The sign is for the second geom; for the first it is the opposite.
    """
    root = placed.root_of(placed.mechanism.dof_part(dof))
    at, columns = _seen_from(placed, root, contact.root, point, transposed(axes))
    moved = placed.motions[dof].at(at)
    return [dot(axis, moved) for axis in transposed(columns)]


def _seen_from(
    placed: Placed, root: int, other: int, position: Vector, axes: Matrix
) -> tuple[Vector, Matrix]:
    """Convert a position and axes from another root (or the world) to this one."""
    if root == other:
        return position, axes
    here, there = placed.root(root), placed.root(other)
    back = transposed(here.matrix)
    in_world = add(there.origin, apply(there.matrix, position))
    return (
        apply(back, subtract(in_world, here.origin)),
        product(back, product(there.matrix, axes)),
    )


def _nearest(point: Vector, centre: Vector, segment: Vector) -> Vector:
    """Return the point of a segment that is nearest to another."""
    length = dot(segment, segment)
    share = clipped(dot(segment, subtract(point, centre)) / length, -1.0, 1.0)
    return add(centre, scale(segment, share))


class Segments:
    """Two line segments, each described by its centre and the vector from there to its end."""

    def __init__(
        self, centre1: Vector, segment1: Vector, centre2: Vector, segment2: Vector
    ) -> None:
        self._first, self._second = (centre1, segment1), (centre2, segment2)
        # The points centre1 + x segment1 and centre2 + y segment2 have the squared distance
        # a x² + 2b xy + c y² - 2u x - 2v y + ‖apart‖².
        apart = subtract(centre1, centre2)
        self._a, self._c = dot(segment1, segment1), dot(segment2, segment2)
        self._b = -dot(segment1, segment2)
        self._u, self._v = -dot(segment1, apart), dot(segment2, apart)
        self._area = self._a * self._c - self._b * self._b
        least = TINY  # MuJoCo treats segments with a smaller area as parallel
        if parallel_means_an_angle():
            least = times(PARALLEL**2, times(self._a, self._c))
        self.flat: Any = abs(self._area) < least

    def nearest(self) -> tuple[Vector, Vector]:
        """Return the two nearest points; if the segments are parallel, any such pair."""
        a, b, c, u, v = self._a, self._b, self._c, self._u, self._v
        inverse = 1.0 / choose(self.flat, 1.0, self._area)
        x = choose(self.flat, 0.0, (c * u - b * v) * inverse)
        y = choose(self.flat, v / c, (a * v - b * u) * inverse)
        above, below = x > 1.0, x < -1.0
        y = choose(above, (v - b) / c, choose(below, (v + b) / c, y))
        x = clipped(x, -1.0, 1.0)
        above, below = y > 1.0, y < -1.0
        high, low = clipped((u - b) / a, -1.0, 1.0), clipped((u + b) / a, -1.0, 1.0)
        x = choose(above, high, choose(below, low, x))
        y = clipped(y, -1.0, 1.0)
        return self._at(x, y)

    def beside_the_ends(self) -> list[tuple[Vector, Vector]]:
        """Return the four ends, each with the nearest point on the other segment."""
        a, b, c, u, v = self._a, self._b, self._c, self._u, self._v
        return [
            self._at(1.0, clipped((v - b) / c, -1.0, 1.0)),
            self._at(-1.0, clipped((v + b) / c, -1.0, 1.0)),
            self._at(clipped((u - b) / a, -1.0, 1.0), 1.0),
            self._at(clipped((u + b) / a, -1.0, 1.0), -1.0),
        ]

    def where_both_end(self) -> list[tuple[Vector, Vector]]:
        """Return the two ends of the stretch in which parallel segments overlap."""
        a, b, c, u, v = self._a, self._b, self._c, self._u, self._v
        points: list[tuple[Vector, Vector]] = []
        for end in (1.0, -1.0):  # an end of the second, or of the first if that comes before
            beside = (u - end * b) / a
            x = clipped(beside, -1.0, 1.0)
            within: Any = abs(beside) <= 1.0
            points.append(self._at(x, choose(within, end, clipped((v - x * b) / c, -1.0, 1.0))))
        return points

    def _at(self, x: Number, y: Number) -> tuple[Vector, Vector]:
        (centre1, segment1), (centre2, segment2) = self._first, self._second
        return add(centre1, scale(segment1, x)), add(centre2, scale(segment2, y))
