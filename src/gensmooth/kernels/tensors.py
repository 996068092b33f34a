"""Kernels for the parameters of a model, in half, single and double precision.

A parameter is a flat array with its own random key. One formula covers both operations,

    out = round(keep · w + Σ_l amounts[l] · ε_l),

a perturbation (one direction, into another buffer) and an update (L directions, in place). Sums are
computed in float32 (float64 for a float64 parameter) in the order of the directions, and the result
is rounded once, to nearest, ties to even. Half-precision numbers are read and written as integers:
``uint16`` means bfloat16, ``int16`` means float16.

Normals are always generated in float32, so that copies of a model in different precisions get the
same directions.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload, register_jitable

from gensmooth.kernels.tiles import add_signs, normal_tile, sign_words
from gensmooth.streams import TILE

_OPTIONS: Any = {"error_model": "numpy", "nogil": True}

COIN, NORMAL = 0, 1

# --- half precision ----------------------------------------------------------------------------

_HALVES32 = np.uint32(16)
_ONE32 = np.uint32(1)
_BIAS32 = np.uint32(0x7FFF)
_MAGNITUDE32 = np.uint32(0x7FFFFFFF)
_INFINITY32 = np.uint32(0x7F800000)
_QUIET_BFLOAT = np.uint16(0x0040)
_SIGN16 = np.uint32(0x8000)
_MAGNITUDE16 = np.uint32(0x7FFF)
_INFINITY16 = np.uint32(0x7C00)
_QUIET16 = np.uint32(0x7E00)
_SHIFT13 = np.uint32(13)
_UP112 = np.float32(2.0**112)  # the exponents of float16 and float32 differ by 112
_TOP16 = np.uint32(0x47800000)  # 2^16: from here on, a float16 is infinite
_LEAST16 = np.uint32(0x38800000)  # 2^-14: below this, a float16 is subnormal
_HALF = np.float32(0.5)  # adding it moves the bits of a subnormal to the end of the mantissa
_HALF_BITS = np.uint32(0x3F000000)
_REBIAS = np.uint32((15 - 127) & 0xFFFFFFFF) << np.uint32(23)
_ROUND16 = np.uint32(0xFFF)


@register_jitable
def _load_bfloat16(source, start, count, x):
    bits = x.view(np.uint32)
    for i in range(count):
        bits[i] = np.uint32(source[start + i]) << _HALVES32


@register_jitable
def _store_bfloat16(x, count, target, start):
    bits = x.view(np.uint32)
    for i in range(count):
        word = bits[i]
        rounded = (word + _BIAS32 + ((word >> _HALVES32) & _ONE32)) >> _HALVES32
        nan = (word & _MAGNITUDE32) > _INFINITY32
        target[start + i] = (
            np.uint16(word >> _HALVES32) | _QUIET_BFLOAT if nan else np.uint16(rounded)
        )


@register_jitable
def _load_float16(source, start, count, x):
    bits = x.view(np.uint32)
    for i in range(count):
        word = np.uint32(np.uint16(source[start + i]))
        bits[i] = (word & _MAGNITUDE16) << _SHIFT13
        x[i] = x[i] * _UP112  # exact, also for subnormal numbers
        special = (word & _INFINITY16) == _INFINITY16
        bits[i] = (bits[i] | _INFINITY32 if special else bits[i]) | (word & _SIGN16) << _HALVES32


@register_jitable
def _store_float16(x, count, target, start):
    bits = x.view(np.uint32)
    for i in range(count):
        word = bits[i]
        sign = (word >> _HALVES32) & _SIGN16
        size = word & _MAGNITUDE32
        bits[i] = size
        x[i] = x[i] + _HALF
        small = bits[i] - _HALF_BITS
        normal = (size + _REBIAS + _ROUND16 + ((size >> _SHIFT13) & _ONE32)) >> _SHIFT13
        large = _QUIET16 if size > _INFINITY32 else _INFINITY16
        half = large if size >= _TOP16 else (small if size < _LEAST16 else normal)
        target[start + i] = np.int16(np.uint16(half | sign))


@register_jitable
def _load_plain(source, start, count, x):
    for i in range(count):
        x[i] = source[start + i]


@register_jitable
def _store_plain(x, count, target, start):
    for i in range(count):
        target[start + i] = x[i]


def load(source, start, count, x):
    """Read entries ``start …`` of a parameter into ``x[:count]``, without rounding."""
    raise NotImplementedError("inside compiled code only")


def store(x, count, target, start):
    """Write ``x[:count]`` to entries ``start …`` of a parameter, rounded; overwrites ``x``."""
    raise NotImplementedError("inside compiled code only")


def _kind(array):
    return {"uint16": 1, "int16": 2}.get(str(array.dtype), 0)


@overload(load, jit_options=_OPTIONS)
def _load(source, start, count, x):  # noqa: ARG001
    impl = (_load_plain, _load_bfloat16, _load_float16)[_kind(source)]

    def call(source, start, count, x):
        impl(source, start, count, x)

    return call


@overload(store, jit_options=_OPTIONS)
def _store(x, count, target, start):  # noqa: ARG001
    impl = (_store_plain, _store_bfloat16, _store_float16)[_kind(target)]

    def call(x, count, target, start):
        impl(x, count, target, start)

    return call


# --- sums of directions ------------------------------------------------------------------------


@njit(inline="always")
def _add(total, count, z, words, law, amount, index, tile, key):
    """``total += amount · ε_index`` on a tile."""
    if law == COIN:
        sign_words(words, tile, index, key[2], key[3], key[0], key[1])
        add_signs(total, total, count, words, amount)
    else:
        normal_tile(z, count, tile, index, key[2], key[3], key[0], key[1])
        for i in range(count):
            total[i] = total[i] + amount * z[i]


@njit(cache=True, nogil=True, error_model="numpy")
def fill(key, law, index, first_tile, last_tile, out):
    """``out = ε_index`` on a range of tiles; ``out[0]`` is the first entry of the first tile."""
    z = np.empty(TILE, np.float32)
    total = np.empty(TILE, np.float32)
    words = np.empty(64, np.uint32)
    first = first_tile * TILE
    for tile in range(first_tile, last_tile):
        start = tile * TILE - first
        count = min(TILE, len(out) - start)
        total[:count] = 0
        _add(total, count, z, words, law, np.float32(1), np.uint64(index), tile, key)
        out[start : start + count] = total[:count]


@njit(cache=True, nogil=True, error_model="numpy")
def move(key, law, chosen, first_tile, last_tile, w, indices, amounts, keep, out):
    """``out = round(keep · w + Σ_l amounts[l] ε_{indices[l]})`` on a range of tiles.

    Args:
        key: The random key of the parameter at this step.
        law: ``COIN`` or ``NORMAL``.
        chosen: Which tiles to perturb (the others are copied); an empty array means all.
        first_tile: The first tile of the range.
        last_tile: The first tile after the range.
        w: The parameter.
        indices: The index l of each direction, uint64.
        amounts: The coefficients of the directions; sums are computed in their dtype.
        keep: The factor of ``w``, in the same dtype.
        out: The parameter itself, or another array like it.
    """
    z = np.empty(TILE, np.float32)
    words = np.empty(64, np.uint32)
    x = np.empty(TILE, amounts.dtype)
    total = np.empty(TILE, amounts.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(w) - start)
        if len(chosen) != 0 and chosen[tile] == 0:
            out[start : start + count] = w[start : start + count]
            continue
        load(w, start, count, x)
        if keep != 1:
            for i in range(count):
                x[i] = keep * x[i]
        if len(indices) == 1 and law == COIN:
            _add(x, count, z, words, law, amounts[0], indices[0], tile, key)
        else:
            total[:count] = 0
            for l in range(len(indices)):  # noqa: E741
                _add(total, count, z, words, law, amounts[l], indices[l], tile, key)
            for i in range(count):
                x[i] = x[i] + total[i]
        store(x, count, out, start)


@njit(cache=True, nogil=True, error_model="numpy")
def add_one_coin(key, first_tile, last_tile, w, index, amount, out):
    """Do what :func:`move` does for one coin direction in single precision, without a buffer."""
    words = np.empty(64, np.uint32)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(w) - start)
        sign_words(words, tile, index, key[2], key[3], key[0], key[1])
        add_signs(out[start : start + count], w[start : start + count], count, words, amount)


@njit(cache=True, nogil=True, error_model="numpy")
def gather(key, law, chosen, first_tile, last_tile, indices, amounts, keep, out):
    """``out = keep · out + Σ_l amounts[l] ε_{indices[l]}``, for momentum; no extra rounding."""
    z = np.empty(TILE, np.float32)
    words = np.empty(64, np.uint32)
    total = np.empty(TILE, amounts.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(out) - start)
        total[:count] = 0
        if len(chosen) == 0 or chosen[tile] != 0:
            for l in range(len(indices)):  # noqa: E741
                _add(total, count, z, words, law, amounts[l], indices[l], tile, key)
        for i in range(count):
            out[start + i] = keep * out[start + i] + total[i]


@njit(cache=True, nogil=True, error_model="numpy")
def follow(first_tile, last_tile, w, velocity, amount, keep, out):
    """``out = round(keep · w + amount · velocity)`` on a range of tiles."""
    x = np.empty(TILE, velocity.dtype)
    for tile in range(first_tile, last_tile):
        start = tile * TILE
        count = min(TILE, len(w) - start)
        load(w, start, count, x)
        for i in range(count):
            x[i] = keep * x[i] + amount * velocity[start + i]
        store(x, count, out, start)


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(left, right, first_row, last_row, w, keep, out):
    """``out[i, j] = round(keep · w[i, j] + Σ_k left[k, i] · right[k, j])`` on a range of rows.

    ``w`` and ``out`` are flat arrays whose rows have ``right.shape[1]`` entries.
    """
    columns = right.shape[1]
    x = np.empty(TILE, left.dtype)
    total = np.empty(TILE, left.dtype)
    for row in range(first_row, last_row):
        for first in range(0, columns, TILE):
            start = row * columns + first
            count = min(TILE, columns - first)
            load(w, start, count, x)
            total[:count] = 0
            for k in range(left.shape[0]):
                amount, factor = left[k, row], right[k, first : first + count]
                for i in range(count):
                    total[i] = total[i] + amount * factor[i]
            for i in range(count):
                x[i] = keep * x[i] + total[i]
            store(x, count, out, start)


@njit(cache=True, nogil=True, error_model="numpy")
def gather_products(left, right, first_row, last_row, keep, out):
    """``out[i, j] = keep · out[i, j] + Σ_k left[k, i] · right[k, j]``, for low-rank momentum."""
    columns = right.shape[1]
    total = np.empty(TILE, left.dtype)
    for row in range(first_row, last_row):
        for first in range(0, columns, TILE):
            start = row * columns + first
            count = min(TILE, columns - first)
            total[:count] = 0
            for k in range(left.shape[0]):
                amount, factor = left[k, row], right[k, first : first + count]
                for i in range(count):
                    total[i] = total[i] + amount * factor[i]
            for i in range(count):
                out[start + i] = keep * out[start + i] + total[i]
