"""Laws of directions, and their three operations: fill a block, perturb a point, combine.

A law defines how the tiles of the L directions of a step are generated. The kernels process
directions tile by tile, so perturb and combine never hold L × d numbers. All kernels use the same
tiles, so they see the same numbers, and sums over directions run in the order of the directions.

Kernels work on a range of tiles and release the interpreter's lock, so a call can be split among
threads at tile boundaries without changing a bit of the result. The class of the law selects the
code when a kernel is compiled, so a run compiles only what it uses.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from gensmooth.kernels import signs
from gensmooth.kernels.memory import clear, copy, part
from gensmooth.kernels.signs import SignLaw
from gensmooth.kernels.sums import tile_dot
from gensmooth.kernels.sums import totals as sum_totals
from gensmooth.kernels.tiles import normal_tile, uniform_tile
from gensmooth.streams import TILE

_OPTIONS: Any = {"error_model": "numpy", "nogil": True}


class NormalLaw(NamedTuple):
    """Entries scale · N(0, 1). Arrays have one entry per direction."""

    key: np.ndarray  # uint64 (k0, k1, c2, c3): seed, purpose and step, see streams
    scale: np.ndarray  # in the directions' dtype
    stream: np.ndarray  # uint64, the index of the direction's stream

    def scaled(self, size):
        """Return the law of the same directions multiplied by ``size``."""
        return self._replace(scale=self.scale * size)


class DenseLaw(NamedTuple):
    """Directions stored in memory, each multiplied by a scale."""

    key: np.ndarray  # unused; every law has a key
    scale: np.ndarray
    block: np.ndarray  # (L, d)

    def scaled(self, size):
        """Return the law of the same directions multiplied by ``size``."""
        return self._replace(scale=self.scale * size)


class GuidedLaw(NamedTuple):
    """Entries scale · N(0, 1), plus a linear combination of k other vectors."""

    key: np.ndarray
    scale: np.ndarray
    stream: np.ndarray
    rows: np.ndarray  # uint64, the addresses of the vectors; the law's creator keeps them alive
    mix: np.ndarray  # (L, k), the coefficients of each direction

    def scaled(self, size):
        """Return the law of the same directions multiplied by ``size``."""
        return self._replace(scale=self.scale * size, mix=self.mix * size)


# --- a tile of one direction, by the class of the law ------------------------------------------


@njit(inline="always")
def _normal(law, z, index, tile, start, count):  # noqa: ARG001
    k0, k1, c2, c3 = law.key[0], law.key[1], law.key[2], law.key[3]
    normal_tile(z, count, tile, law.stream[index], c2, c3, k0, k1)
    scale = law.scale[index]
    for i in range(count):
        z[i] = scale * z[i]


def _dense(law, z, index, tile, start, count):  # noqa: ARG001
    scale, row = law.scale[index], law.block[index, start : start + count]
    for i in range(count):
        z[i] = scale * row[i]


@njit(inline="always")
def _guided(law, z, index, tile, start, count):
    _normal(law, z, index, tile, start, count)
    _add_rows(z, count, law.rows, start, law.mix[index])


@njit(nogil=True, error_model="numpy")
def _add_rows(z, count, rows, start, weights):
    """z += Σ_m weights[m] · row m, in the order of m, four rows per pass to reduce memory traffic.

    With pieces of 512 entries, 50 rows stay in the second-level cache.
    """
    number = len(weights)
    whole = number - number % 4
    for piece in range(0, count, 512):
        length = min(512, count - piece)
        here = z[piece : piece + length]
        left, right = start + piece, start + piece + length
        for m in range(0, whole, 4):
            a, b, c, d = weights[m], weights[m + 1], weights[m + 2], weights[m + 3]
            ra, rb = part(rows[m], left, right, z), part(rows[m + 1], left, right, z)
            rc, rd = part(rows[m + 2], left, right, z), part(rows[m + 3], left, right, z)
            for i in range(length):
                here[i] = (((here[i] + a * ra[i]) + b * rb[i]) + c * rc[i]) + d * rd[i]
        for m in range(whole, number):
            a, ra = weights[m], part(rows[m], left, right, z)
            for i in range(length):
                here[i] = here[i] + a * ra[i]


@njit(nogil=True, error_model="numpy")
def _add_rows_to_two(z, count, rows, start, mix, index):
    """Do what :func:`_add_rows` does for two directions at once, reading each row once."""
    number = mix.shape[1]
    whole = number - number % 4
    for piece in range(0, count, 1024):
        length = min(1024, count - piece)
        left, right = start + piece, start + piece + length
        one, two = z[0, piece : piece + length], z[1, piece : piece + length]
        for m in range(0, whole, 4):
            a, b, c, d = mix[index, m], mix[index, m + 1], mix[index, m + 2], mix[index, m + 3]
            e, f = mix[index + 1, m], mix[index + 1, m + 1]
            g, h = mix[index + 1, m + 2], mix[index + 1, m + 3]
            ra, rb = part(rows[m], left, right, z), part(rows[m + 1], left, right, z)
            rc, rd = part(rows[m + 2], left, right, z), part(rows[m + 3], left, right, z)
            for i in range(length):
                p, q, r, s = ra[i], rb[i], rc[i], rd[i]
                one[i] = (((one[i] + a * p) + b * q) + c * r) + d * s
                two[i] = (((two[i] + e * p) + f * q) + g * r) + h * s
        if number - whole >= 2:
            a, b = mix[index, whole], mix[index, whole + 1]
            e, f = mix[index + 1, whole], mix[index + 1, whole + 1]
            ra, rb = part(rows[whole], left, right, z), part(rows[whole + 1], left, right, z)
            for i in range(length):
                p, q = ra[i], rb[i]
                one[i] = (one[i] + a * p) + b * q
                two[i] = (two[i] + e * p) + f * q
        if number % 2:
            a, e = mix[index, number - 1], mix[index + 1, number - 1]
            ra = part(rows[number - 1], left, right, z)
            for i in range(length):
                one[i] = one[i] + a * ra[i]
                two[i] = two[i] + e * ra[i]


_TILES = {NormalLaw: _normal.py_func, DenseLaw: _dense, GuidedLaw: _guided.py_func}


def fill_tile(law, z, index, tile, start, count):
    """Write entries ``start`` to ``start + count − 1`` of direction ``index`` to ``z[:count]``."""
    raise NotImplementedError("inside compiled code only")


@overload(fill_tile, jit_options=_OPTIONS)
def _fill_tile(law, z, index, tile, start, count):  # noqa: ARG001
    return _TILES[law.instance_class]


def _copied_signs(law):
    return SignLaw(law.key.copy(), law.scale, law.stream, law.row)


def _copied_normal(law):
    return NormalLaw(law.key.copy(), law.scale, law.stream)


# laws in which only the key depends on the step
_COPIES = {SignLaw: _copied_signs, NormalLaw: _copied_normal}


def with_own_key(law):
    """Return the law with a copy of its key, which may be changed to move it to another step."""
    raise NotImplementedError("inside compiled code only")


@overload(with_own_key, jit_options=_OPTIONS)
def _with_own_key(law):
    return _COPIES[law.instance_class]


# --- kernels -----------------------------------------------------------------------------------


def _fill_tiles(law, first_tile, last_tile, out):
    z = np.empty(TILE, out.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, out.shape[1] - start)
        for index in range(out.shape[0]):
            fill_tile(law, z, index, tile, start, count)
            copy(z, out[index, start : start + count])


def _fill_signs(law, first_tile, last_tile, out):
    signs.fill(law.key, law.scale, law.stream, law.row, first_tile, last_tile, out)


def _fill_dense(law, first_tile, last_tile, out):
    left, right = first_tile * TILE, min(last_tile * TILE, out.shape[1])
    for index in range(out.shape[0]):
        scale, row, target = law.scale[index], law.block[index, left:right], out[index, left:right]
        for i in range(right - left):
            target[i] = scale * row[i]


def _fill_guided(law, first_tile, last_tile, out):
    """Fill all directions tile by tile, so that the rows are read from memory only once."""
    z = np.empty((2, TILE), out.dtype)
    number, dim = out.shape
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        for index in range(0, number - 1, 2):
            _normal(law, z[0], index, tile, start, count)
            _normal(law, z[1], index + 1, tile, start, count)
            _add_rows_to_two(z, count, law.rows, start, law.mix, index)
            copy(z[0], out[index, start : start + count])
            copy(z[1], out[index + 1, start : start + count])
        if number % 2:
            _guided(law, z[0], number - 1, tile, start, count)
            copy(z[0], out[number - 1, start : start + count])


_FILLS = {SignLaw: _fill_signs, DenseLaw: _fill_dense, GuidedLaw: _fill_guided}


def _fill(law, first_tile, last_tile, out):
    raise NotImplementedError("inside compiled code only")


@overload(_fill, jit_options=_OPTIONS)
def _fill_by_class(law, first_tile, last_tile, out):  # noqa: ARG001
    return _FILLS.get(law.instance_class, _fill_tiles)


@njit(cache=True, nogil=True, error_model="numpy")
def fill(law, first_tile, last_tile, out):
    """``out[l] = ε_l`` for all directions of any law."""
    _fill(law, first_tile, last_tile, out)


def _perturb_tiles(law, first_tile, last_tile, x, directions, spacings, out):
    dim = len(x)
    z = np.empty(TILE, x.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        center = x[start : start + count]
        last = -1
        for r in range(out.shape[0]):
            target, c = out[r, start : start + count], x.dtype.type(spacings[r])
            if c == 0:
                copy(center, target)
                continue
            if directions[r] != last:
                last = directions[r]
                fill_tile(law, z, last, tile, start, count)
            for i in range(count):
                target[i] = center[i] + c * z[i]


def _perturb_dense(law, first_tile, last_tile, x, directions, spacings, out):
    left, right = first_tile * TILE, min(last_tile * TILE, len(x))
    center = x[left:right]
    for r in range(out.shape[0]):
        target, c = out[r, left:right], x.dtype.type(spacings[r])
        if c == 0:
            copy(center, target)
            continue
        scale, row = law.scale[directions[r]], law.block[directions[r], left:right]
        for i in range(right - left):
            target[i] = center[i] + c * (scale * row[i])


_PERTURBS = {DenseLaw: _perturb_dense}


def _perturb(law, first_tile, last_tile, x, directions, spacings, out):
    raise NotImplementedError("inside compiled code only")


@overload(_perturb, jit_options=_OPTIONS)
def _perturb_by_class(law, first_tile, last_tile, x, directions, spacings, out):  # noqa: ARG001
    return _PERTURBS.get(law.instance_class, _perturb_tiles)


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(law, first_tile, last_tile, x, directions, spacings, out):
    """``out[r] = x + spacings[r] · ε_{directions[r]}`` for each row of ``out``."""
    _perturb(law, first_tile, last_tile, x, directions, spacings, out)


def _add_tile(law, z, index, tile, start, count, weight, total):
    """Write a tile of a direction to ``z``, and add ``weight`` times it to ``total``."""
    fill_tile(law, z, index, tile, start, count)
    for i in range(count):
        total[i] = total[i] + weight * z[i]


def _add_dense(law, z, index, tile, start, count, weight, total):  # noqa: ARG001
    scale, row = law.scale[index], law.block[index, start : start + count]
    for i in range(count):
        v = scale * row[i]
        z[i] = v
        total[i] = total[i] + weight * v


_ADDS = {DenseLaw: _add_dense}


def _add(law, z, index, tile, start, count, weight, total):
    raise NotImplementedError("inside compiled code only")


@overload(_add, jit_options=_OPTIONS)
def _add_by_class(law, z, index, tile, start, count, weight, total):  # noqa: ARG001
    return _ADDS.get(law.instance_class, _add_tile)


@njit(cache=True, nogil=True, error_model="numpy")
def combine(law, first_tile, last_tile, weights, out, squares):
    """``out = Σ_l weights[l] ε_l`` and ``squares[tile, l] = Σ_{i in tile} ε_li²``."""
    dim = len(out)
    z = np.empty(TILE, out.dtype)
    total = np.empty(TILE, out.dtype)
    lanes = np.empty(32, np.float64)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        clear(total, count)
        for index in range(len(weights)):
            weight = out.dtype.type(weights[index])
            _add(law, z, index, tile, start, count, weight, total)
            squares[tile, index] = tile_dot(z, z, 0, count, lanes)
        copy(total, out[start : start + count])


@njit(cache=True, nogil=True, error_model="numpy")
def estimate(law, delta, unit, out):
    """Call :func:`combine` with weights ``unit · delta`` over all tiles, then :func:`totals`."""
    weights = np.empty(len(delta))
    for index in range(len(delta)):
        weights[index] = unit * delta[index]
    squares = np.empty(((len(out) + TILE - 1) // TILE, len(weights)))
    first = np.int64(0)  # a literal would compile `combine` once more
    combine(law, first, len(squares), weights, out, squares)
    return sum_totals(weights, out, squares)


def totals(law, weights, out, squares):  # noqa: ARG001
    """Return ``‖out‖²`` and ``Σ_l ‖weights[l] ε_l‖²``, after :func:`combine`."""
    return sum_totals(weights, out, squares)


@njit(cache=True, nogil=True, error_model="numpy")
def squared_lengths(law, first_tile, last_tile, dim, squares):
    """``squares[tile, l] = Σ_{i in tile} ε_li²``."""
    z = np.empty(TILE, law.scale.dtype)
    lanes = np.empty(32, np.float64)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        for index in range(len(law.scale)):
            fill_tile(law, z, index, tile, start, count)
            squares[tile, index] = tile_dot(z, z, 0, count, lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def uniforms(key, first_index, first_tile, out):
    """Fill ``out[l]`` with uniforms of stream ``first_index + l``, starting at ``first_tile``."""
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    z = np.empty(TILE + 1, np.float64)
    for l in range(out.shape[0]):  # noqa: E741
        index = np.uint64(first_index + l)
        for start in range(0, out.shape[1], TILE):
            count = min(TILE, out.shape[1] - start)
            tile = first_tile + start // TILE
            uniform_tile(z, count, tile, index, c2, c3, k0, k1)
            for i in range(count):
                out[l, start + i] = z[i]
