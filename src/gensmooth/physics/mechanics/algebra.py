"""Arithmetic of numbers or symbols, vectors and rotations, without operations on 0 and 1."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gensmooth.physics.symbols import ENTRYWISE, Symbol, choose

Number = Any  # a float or a symbol
Vector = list[Number]
Matrix = list[Vector]

TINY = 1e-15  # MuJoCo's mjMINVAL


def times(a: Number, b: Number) -> Number:
    """Return the product; factors 0 and ±1 need no operation."""
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
    """Return the sum; a term 0 needs no operation."""
    if not isinstance(a, Symbol) and a == 0.0:
        return b
    if not isinstance(b, Symbol) and b == 0.0:
        return a
    return a + b


def minus(a: Number, b: Number) -> Number:
    """Return the difference; a term 0 needs no operation, and equal symbols cancel."""
    if not isinstance(b, Symbol) and b == 0.0:
        return a
    if not isinstance(a, Symbol) and a == 0.0:
        return -b
    return 0.0 if a is b else a - b


def total(values: Iterable[Number]) -> Number:
    """Return the sum of numbers."""
    result: Number = 0.0
    for value in values:
        result = plus(result, value)
    return result


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    """Return the scalar product."""
    return total(map(times, a, b))


def add(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """Return the sum of vectors."""
    return list(map(plus, a, b))


def subtract(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """Return the difference of vectors."""
    return list(map(minus, a, b))


def scale(a: Sequence[Number], factor: Number) -> Vector:
    """Return a multiple of a vector."""
    return [times(factor, each) for each in a]


def cross(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """Return the vector product."""
    return [
        minus(times(a[1], b[2]), times(a[2], b[1])),
        minus(times(a[2], b[0]), times(a[0], b[2])),
        minus(times(a[0], b[1]), times(a[1], b[0])),
    ]


def apply(matrix: Sequence[Sequence[Number]], vector: Sequence[Number]) -> Vector:
    """Return a matrix times a vector."""
    return [dot(row, vector) for row in matrix]


def product(a: Sequence[Sequence[Number]], b: Sequence[Sequence[Number]]) -> Matrix:
    """Return a matrix times a matrix."""
    columns = list(zip(*b, strict=True))
    return [[dot(row, column) for column in columns] for row in a]


def column(matrix: Sequence[Sequence[Number]], index: int) -> Vector:
    """Return a column of a matrix."""
    return [row[index] for row in matrix]


def identity() -> Matrix:
    """Return the identity rotation."""
    return [[float(i == j) for j in range(3)] for i in range(3)]


def transposed(matrix: Sequence[Sequence[Number]]) -> Matrix:
    """Return the transpose of a matrix; for a rotation, its inverse."""
    return [list(each) for each in zip(*matrix, strict=True)]


def square_root(value: Number) -> Number:
    """Return the square root."""
    return ENTRYWISE["sqrt"](value)


def clipped(value: Number, low: float, high: float) -> Number:
    """Return the nearest number in a range; NaN stays NaN."""
    return choose(value < low, low, choose(value > high, high, value))


def normalized(vector: Sequence[Number], otherwise: Sequence[Number]) -> Vector:
    """Return the unit vector in the same direction, or ``otherwise`` if the vector is 0."""
    length = square_root(dot(vector, vector))
    short = length < TINY
    inverse = 1.0 / choose(short, 1.0, length)
    return [
        choose(short, other, times(inverse, each))
        for each, other in zip(vector, otherwise, strict=True)
    ]


# --- rotations ----------------------------------------------------------------------------------


def turn(axis: Sequence[float], angle: Number) -> Matrix:
    """Return the rotation by an angle about a unit axis (Rodrigues)."""
    c, s = ENTRYWISE["cos"](angle), ENTRYWISE["sin"](angle)
    x, y, z = (rounded(each) for each in axis)
    if (x, y, z).count(0.0) == 2:
        return _turn_about_coordinate_axis((x, y, z), c, s)
    rest = minus(1.0, c)

    def entry(a: float, b: float, signed: float, same: bool) -> Number:
        mixed = times(a * b, rest)
        return plus(plus(mixed, c if same else 0.0), times(signed, s))

    return [
        [entry(x, x, 0.0, True), entry(x, y, -z, False), entry(x, z, y, False)],
        [entry(x, y, z, False), entry(y, y, 0.0, True), entry(y, z, -x, False)],
        [entry(x, z, -y, False), entry(y, z, x, False), entry(z, z, 0.0, True)],
    ]


def _turn_about_coordinate_axis(axis: Sequence[float], c: Number, s: Number) -> Matrix:
    k = next(index for index, each in enumerate(axis) if each != 0.0)
    s = times(axis[k], s)
    i, j = (k + 1) % 3, (k + 2) % 3
    matrix: Matrix = [[0.0] * 3 for _ in range(3)]
    matrix[k][k] = 1.0
    matrix[i][i] = matrix[j][j] = c
    matrix[i][j], matrix[j][i] = -s, s
    return matrix


def rounded(value: float) -> float:
    """Remove the rounding error of an entry of a rotation; 1e-17 instead of 0 costs operations."""
    nearest = float(np.round(value))
    return nearest if abs(value - nearest) < 1e-14 else float(value)


def rotation(quaternion: Sequence[Number]) -> Matrix:
    """Return the rotation matrix of a unit quaternion."""
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


def constant_rotation(quaternion: Sequence[float]) -> Matrix:
    """Return the rotation matrix of a quaternion of numbers."""
    unit = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    return [[rounded(each) for each in row] for row in rotation(unit.tolist())]


def quaternion_product(a: Sequence[Number], b: Sequence[Number]) -> Vector:
    """Return the rotation ``b`` followed by ``a``."""
    real = minus(times(a[0], b[0]), dot(a[1:], b[1:]))
    imaginary = add(add(scale(b[1:], a[0]), scale(a[1:], b[0])), cross(a[1:], b[1:]))
    return [real, *imaginary]


def fixed_quaternion(matrix: Matrix) -> Vector:
    """Return the quaternion of a rotation of numbers, with a real part that is not negative.

    Four times the products of the quaternion's entries are sums of the matrix's entries. The row of
    products with the largest square is the quaternion, up to its length and sign.
    """
    m = np.array(matrix, float)
    x, y, z = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    products = np.empty((4, 4))
    products[0, 0] = 1.0 + np.trace(m)
    products[0, 1:] = products[1:, 0] = x, y, z
    products[1:, 1:] = m + m.T + (1.0 - np.trace(m)) * np.eye(3)
    row = products[int(np.argmax(np.diag(products)))]
    quaternion = row / np.linalg.norm(row)
    sign = -1.0 if quaternion[0] < 0.0 else 1.0
    return [rounded(float(sign * each)) for each in quaternion]
