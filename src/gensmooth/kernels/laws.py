# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""What a direction is, and the three things one can ask of it.

A :class:`Law` says how the tiles of the L directions of one step are made. Given a law, the
kernels fill a block of directions, perturb a point along some of them, or combine all of them
with weights, tile by tile: the last two never hold L × d numbers. All three read the same tiles,
so they see the same numbers, and sums over directions run in the order of the directions.

Kernels work on a range of tiles and release the interpreter's lock, so a caller may split a call
over threads at tile boundaries without changing a bit of the result.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gensmooth.kernels.tiles import (
    expand_signs,
    hadamard_words,
    normal_tile,
    sign_words,
    uniform_tile,
)
from gensmooth.streams import TILE

SIGNS, NORMAL, DENSE, GUIDED = 0, 1, 2, 3


class Law(NamedTuple):
    """The law of the directions of one step. Arrays have one entry (or row) a direction."""

    kind: int  # SIGNS, NORMAL, DENSE or GUIDED
    key: np.ndarray  # uint64 (k0, k1, c2, c3): seed, purpose and step, see streams
    scale: np.ndarray  # factor of each direction, in the directions' dtype
    stream: np.ndarray  # uint64, the index each direction reads its stream at
    row: np.ndarray  # int64, SIGNS: the Hadamard row that multiplies the signs (row 0: all ones)
    basis: np.ndarray  # DENSE: the directions themselves; GUIDED: the history (k, d)
    mix: np.ndarray  # GUIDED: (L, k) coefficients of each direction in the history


@njit(nogil=True, error_model="numpy")
def _sign_tile(law, z, words, index, tile, count):
    k0, k1, c2, c3 = law.key[0], law.key[1], law.key[2], law.key[3]
    sign_words(words, tile, law.stream[index], c2, c3, k0, k1)
    if law.row[index] != 0:
        hadamard_words(words, tile, law.row[index])
    expand_signs(z, count, words, law.scale[index])


@njit(nogil=True, error_model="numpy")
def _tile(law, z, words, index, tile, start, count):
    """Put entries ``start … start+count`` of direction ``index`` into ``z[:count]``."""
    scale = law.scale[index]
    if law.kind == SIGNS:
        _sign_tile(law, z, words, index, tile, count)
    elif law.kind == DENSE:
        row = law.basis[index, start : start + count]
        for i in range(count):
            z[i] = scale * row[i]
    else:
        k0, k1, c2, c3 = law.key[0], law.key[1], law.key[2], law.key[3]
        normal_tile(z, count, tile, law.stream[index], c2, c3, k0, k1)
        for i in range(count):
            z[i] = scale * z[i]
        if law.kind == GUIDED:
            _add_rows(z, count, law.basis, start, law.mix[index])


@njit(nogil=True, error_model="numpy")
def _add_rows(z, count, rows, start, weights):
    """Z += Σ_m weights[m] · rows[m], in the order of m, four rows a pass to spare memory traffic.

    Pieces of 512 entries keep 50 rows of the history in the second-level cache.
    """
    number = len(weights)
    whole = number - number % 4
    for piece in range(0, count, 512):
        length = min(512, count - piece)
        here = z[piece : piece + length]
        left, right = start + piece, start + piece + length
        for m in range(0, whole, 4):
            a, b, c, d = weights[m], weights[m + 1], weights[m + 2], weights[m + 3]
            ra, rb = rows[m, left:right], rows[m + 1, left:right]
            rc, rd = rows[m + 2, left:right], rows[m + 3, left:right]
            for i in range(length):
                here[i] = (((here[i] + a * ra[i]) + b * rb[i]) + c * rc[i]) + d * rd[i]
        for m in range(whole, number):
            a, ra = weights[m], rows[m, left:right]
            for i in range(length):
                here[i] = here[i] + a * ra[i]


@njit(cache=True, nogil=True, error_model="numpy")
def fill(law, first_tile, last_tile, out):
    """``out[l] = ε_l`` for all directions."""
    dim = out.shape[1]
    z = np.empty(TILE, out.dtype)
    words = np.empty(64, np.uint32)
    if law.kind == SIGNS:  # row by row, straight into place: as fast as memory
        for index in range(out.shape[0]):
            for tile in range(first_tile, last_tile):
                start = tile * TILE
                count = min(TILE, dim - start)
                target = out[index, start : start + count]
                _sign_tile(law, target, words, index, tile, count)
        return
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        for index in range(out.shape[0]):
            _tile(law, z, words, index, tile, start, count)
            out[index, start : start + count] = z[:count]


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(law, first_tile, last_tile, x, directions, spacings, out):
    """``out[r] = x + spacings[r] · ε_{directions[r]}`` for each row of ``out``."""
    dim = len(x)
    z = np.empty(TILE, x.dtype)
    words = np.empty(64, np.uint32)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        center = x[start : start + count]
        last = -1
        for r in range(out.shape[0]):
            target = out[r, start : start + count]
            c = spacings[r]
            if c == 0:
                target[:] = center
                continue
            if directions[r] != last:
                last = directions[r]
                _tile(law, z, words, last, tile, start, count)
            for i in range(count):
                target[i] = center[i] + c * z[i]


@njit(cache=True, nogil=True, error_model="numpy")
def combine(law, first_tile, last_tile, weights, out, squares):
    """``out = Σ_l weights[l] ε_l`` and ``squares[tile, l] = Σ_{i in tile} ε_li²``."""
    dim = len(out)
    z = np.empty(TILE, out.dtype)
    words = np.empty(64, np.uint32)
    total = np.empty(TILE, out.dtype)
    lanes = np.empty(32, np.float64)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        total[:count] = 0
        for index in range(len(weights)):
            _tile(law, z, words, index, tile, start, count)
            w = weights[index]
            for i in range(count):
                total[i] = total[i] + w * z[i]
            if law.kind == SIGNS:
                squares[tile, index] = count * np.float64(law.scale[index]) ** 2
            else:
                squares[tile, index] = _dot(z, z, 0, count, lanes)
        out[start : start + count] = total[:count]


@njit(nogil=True, error_model="numpy")
def _dot(a, b, start, count, lanes):
    """Σ a_i b_i over a tile in a fixed order: 32 interleaved float64 sums, then those in turn."""
    lanes[:] = 0.0
    whole = count - count % 32
    for i in range(start, start + whole, 32):
        for j in range(32):
            lanes[j] += np.float64(a[i + j]) * np.float64(b[i + j])
    for j in range(count - whole):
        lanes[j] += np.float64(a[start + whole + j]) * np.float64(b[start + whole + j])
    total = 0.0
    for j in range(32):
        total += lanes[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def dot(a, b):
    """Σ a_i b_i in a fixed order, float64 (BLAS changes its order with its threads)."""
    lanes = np.empty(32, np.float64)
    total = 0.0
    for start in range(0, len(a), TILE):
        total += _dot(a, b, start, min(TILE, len(a) - start), lanes)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def step_lengths(before, after):
    """‖after‖² and ‖after − before‖² in a fixed order."""
    lanes = np.zeros((2, 16))
    whole = len(before) - len(before) % 16
    for i in range(0, whole, 16):
        for j in range(16):
            now = np.float64(after[i + j])
            lanes[0, j] += now * now
            lanes[1, j] += (now - np.float64(before[i + j])) ** 2
    for i in range(whole, len(before)):
        now = np.float64(after[i])
        lanes[0, i - whole] += now * now
        lanes[1, i - whole] += (now - np.float64(before[i])) ** 2
    return lanes[0].sum(), lanes[1].sum()


@njit(cache=True, nogil=True, error_model="numpy")
def dots(rows, b, out):
    """``out[m] = rows[m] · b`` in the order of :func:`dot`."""
    for m in range(len(rows)):
        out[m] = dot(rows[m], b)


@njit(cache=True, nogil=True, error_model="numpy")
def squared_lengths(law, first_tile, last_tile, dim, squares):
    """``squares[tile, l] = Σ_{i in tile} ε_li²`` alone."""
    z = np.empty(TILE, law.scale.dtype)
    words = np.empty(64, np.uint32)
    lanes = np.empty(32, np.float64)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, dim - start)
        for index in range(len(law.scale)):
            _tile(law, z, words, index, tile, start, count)
            squares[tile, index] = _dot(z, z, 0, count, lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def uniforms(key, first_index, first_tile, out):
    """``out[l]`` = uniforms in (0, 1) of stream ``first_index + l`` from tile ``first_tile`` on."""
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
