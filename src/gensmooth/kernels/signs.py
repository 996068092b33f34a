"""Directions with entries ±scale, fair coins and Hadamard rows, as packed bits.

The bits are generated from their address and applied at once, so a direction is never stored as
floats (except by ``fill``). A default run spends its time in these kernels. Kernels that Python
calls every step take the fields of the law one by one, because a tuple would cost half a
microsecond per call.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gensmooth.kernels.memory import clear, copy
from gensmooth.kernels.sums import dot
from gensmooth.kernels.tiles import add_signs, expand_signs, hadamard_words, sign_words
from gensmooth.streams import TILE


class SignLaw(NamedTuple):
    """Entries ±scale. Arrays have one entry per direction."""

    key: np.ndarray  # uint64 (k0, k1, c2, c3): seed, purpose and step, see streams
    scale: np.ndarray  # in the directions' dtype
    stream: np.ndarray  # uint64, the index of the stream that holds the direction's bits
    row: np.ndarray  # int64, the Hadamard row that multiplies the signs (row 0: all ones)

    def scaled(self, size):
        """Return the law of the same directions multiplied by ``size``."""
        return SignLaw(self.key, self.scale * size, self.stream, self.row)


@njit(inline="always")
def _generate(words, key, stream, row, index, tile):
    """Generate the sign bits of one tile of a direction."""
    sign_words(words, tile, stream[index], key[2], key[3], key[0], key[1])
    if row[index] != 0:
        hadamard_words(words, tile, row[index])


@njit(nogil=True, error_model="numpy")
def _words(words, key, stream, row, index, tile):
    """Do what :func:`_generate` does, but as one compiled function instead of inlined copies."""
    _generate(words, key, stream, row, index, tile)


@njit(cache=True, nogil=True, error_model="numpy")
def fill(key, scale, stream, row, first_tile, last_tile, out):
    """``out[l] = ε_l``, row by row, written directly: as fast as memory allows."""
    words = np.empty(64, np.uint32)
    for index in range(out.shape[0]):
        for tile in range(first_tile, last_tile):
            start = tile * TILE
            count = min(TILE, out.shape[1] - start)
            _generate(words, key, stream, row, index, tile)
            expand_signs(out[index, start : start + count], count, words, scale[index])


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(key, scale, stream, row, first_tile, last_tile, x, directions, spacings, out):
    """``out[r] = x + spacings[r] · ε_{directions[r]}`` for each row of ``out``."""
    words = np.empty(64, np.uint32)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(x) - start)
        center = x[start : start + count]
        last = -1
        for r in range(out.shape[0]):
            target, c = out[r, start : start + count], x.dtype.type(spacings[r])
            if c == 0:
                copy(center, target)
                continue
            if directions[r] != last:
                last = directions[r]
                _words(words, key, stream, row, last, tile)
            add_signs(target, center, count, words, c * scale[last])


@njit(cache=True, nogil=True, error_model="numpy")
def combine(key, scale, stream, row, first_tile, last_tile, weights, out, squares):
    """``out = Σ_l weights[l] ε_l`` and ``squares[tile, l] = Σ_{i in tile} ε_li²``."""
    words = np.empty(64, np.uint32)
    total = np.empty(TILE, out.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(out) - start)
        clear(total, count)
        for index in range(len(weights)):
            _words(words, key, stream, row, index, tile)
            weight = out.dtype.type(weights[index])
            add_signs(total, total, count, words, weight * scale[index])
            squares[tile, index] = count * np.float64(scale[index]) ** 2
        copy(total, out[start : start + count])


@njit(cache=True, nogil=True, error_model="numpy")
def totals(key, scale, stream, row, weights, out, squares):  # noqa: ARG001
    """Return ``‖out‖²`` and ``Σ_l ‖weights[l] ε_l‖²``, with ``‖ε_l‖² = d · scale²``."""
    squared = 0.0
    for index in range(len(weights)):
        squared += len(out) * (weights[index] * np.float64(scale[index])) ** 2
    return dot(out, out), squared


@njit(cache=True, nogil=True, error_model="numpy")
def estimate(key, scale, stream, row, delta, unit, out):
    """Call :func:`combine` with weights ``unit · delta`` over all tiles, then :func:`totals`."""
    weights = np.empty(len(delta))
    for index in range(len(delta)):
        weights[index] = unit * delta[index]
    squares = np.empty(((len(out) + TILE - 1) // TILE, len(weights)))
    first = np.int64(0)  # a literal would compile `combine` once more
    combine(key, scale, stream, row, first, len(squares), weights, out, squares)
    return totals(key, scale, stream, row, weights, out, squares)
