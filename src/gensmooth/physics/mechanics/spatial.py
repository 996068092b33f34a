"""Velocities, forces and inertias of rigid bodies (Featherstone, 2008)."""

from collections.abc import Sequence
from typing import NamedTuple

from gensmooth.physics.mechanics.algebra import (
    Matrix,
    Number,
    Vector,
    add,
    apply,
    cross,
    dot,
    plus,
    scale,
    subtract,
)


class Spatial(NamedTuple):
    """A velocity, an acceleration, a momentum or a force: angular and linear part."""

    angular: Vector
    linear: Vector

    def __add__(self, other: "Spatial") -> "Spatial":  # type: ignore[override]
        return Spatial(add(self.angular, other.angular), add(self.linear, other.linear))

    def times(self, factor: Number) -> "Spatial":
        """Return a multiple."""
        return Spatial(scale(self.angular, factor), scale(self.linear, factor))

    def dot(self, other: "Spatial") -> Number:
        """Return the power of a force at a velocity."""
        return plus(dot(self.angular, other.angular), dot(self.linear, other.linear))

    def of_motion(self, other: "Spatial") -> "Spatial":
        """Return the rate of change of a motion vector that moves with this velocity."""
        return Spatial(
            cross(self.angular, other.angular),
            add(cross(self.angular, other.linear), cross(self.linear, other.angular)),
        )

    def of_force(self, other: "Spatial") -> "Spatial":
        """Return the rate of change of a force vector that moves with this velocity."""
        return Spatial(
            add(cross(self.angular, other.angular), cross(self.linear, other.linear)),
            cross(self.angular, other.linear),
        )

    def at(self, point: Sequence[Number]) -> Vector:
        """Return the velocity of a point."""
        return add(self.linear, cross(self.angular, point))


ZERO = Spatial([0.0] * 3, [0.0] * 3)


class Inertia(NamedTuple):
    """Mass, mass times centre, and moments about the reference point."""

    mass: Number
    moment: Vector
    matrix: Matrix

    def __add__(self, other: "Inertia") -> "Inertia":  # type: ignore[override]
        rows = [add(a, b) for a, b in zip(self.matrix, other.matrix, strict=True)]
        return Inertia(plus(self.mass, other.mass), add(self.moment, other.moment), rows)

    def times(self, motion: Spatial) -> Spatial:
        """Return the momentum of a velocity."""
        angular = add(apply(self.matrix, motion.angular), cross(self.moment, motion.linear))
        linear = subtract(scale(motion.linear, self.mass), cross(self.moment, motion.angular))
        return Spatial(angular, linear)
