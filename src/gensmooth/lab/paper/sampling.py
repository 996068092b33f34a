# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Random numbers at an address: data, the noise of objectives, and directions of many steps.

The address is that of :mod:`gensmooth.streams`: the key holds seed, purpose and step, ``index``
names one sequence of the step, and entry i of the sequence is a pure function of i. So N points
are the first N of any longer draw.

Numbers are float32. Normals and their squares reach 6.7σ; uniforms are the midpoints of 2^16
cells of equal width, so that their mean is exact and their variance is too small by a factor of
1 − 2^-32. The 10^5 points of a study cannot resolve these errors, and everything computed
from the numbers is computed in float64.

Buffers are padded (:func:`padded`): whole blocks are written, so that every loop vectorises.
"""

import math

import numpy as np
from numba import njit

from gensmooth.kernels.laws import fill, with_own_key
from gensmooth.kernels.philox import philox
from gensmooth.kernels.tiles import normal_tile, uniform_tile
from gensmooth.streams import TILE

_f = np.float32
_HALF, _ONE, _TWO = _f(0.5), _f(1), _f(2)
_POSITIVE = np.int32(0x7FFFFFFF)
_ROOT_HALF = np.int32(0x3F3504F3)  # the bits of √½: puts the mantissa into [√½, √2)
_LN2 = _f(math.log(2.0))
_ANGLE = _f(math.pi * 2.0**-32)
_L3, _L5, _L7, _L9, _L11 = (_f(2 / n) for n in (3, 5, 7, 9, 11))
_S3, _S5, _S7, _S9, _S11 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (3, 5, 7, 9, 11))


@njit(inline="always")
def padded(count):
    """Return the length of a buffer that holds ``count`` entries: whole blocks."""
    return (count + 255) // 256 * 256


@njit(inline="always")
def set_step(key, step):
    """Move a key, whatever its step was, to another step."""
    key[2] = np.uint64(step) & np.uint64(0xFFFFFFFF)
    high = (np.uint64(step) >> np.uint64(32)) & np.uint64(0xFFFFFF)
    key[3] = (key[3] & np.uint64(0xFF000000)) | high


@njit(cache=True, nogil=True, error_model="numpy")
def fill_blocks(law, step, blocks):
    """``blocks[i]`` = the directions of step ``step + i``; only the law's key differs."""
    law = with_own_key(law)
    for i in range(len(blocks)):
        set_step(law.key, step + i)
        fill(law, np.int64(0), (blocks.shape[2] + TILE - 1) // TILE, blocks[i])


@njit(inline="always")
def _four_rows(words, first, index, key):
    """128 words from 32 counters."""
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    for i in range(32):
        a, b, c, d = philox(first + np.uint64(i), np.uint64(index), c2, c3, k0, k1)
        words[i] = np.uint32(a)
        words[32 + i] = np.uint32(b)
        words[64 + i] = np.uint32(c)
        words[96 + i] = np.uint32(d)


@njit(nogil=True, error_model="numpy")
def normals(key, index, first, count, out):
    """``out[i]`` ~ N(0, 1), entry ``first + i`` of the sequence; a tile begins at ``first``."""
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    for start in range(0, count, TILE):
        tile = (first + start) // TILE
        size = min(TILE, count - start)
        normal_tile(out[start:], size, tile, np.uint64(index), c2, c3, k0, k1)


@njit(nogil=True, error_model="numpy")
def squared_normals(key, index, first, count, out):
    """``out[i]`` ~ χ² with one degree of freedom, entry ``first + i`` of the sequence.

    Box–Muller, squared: −2 ln u · cos²φ = −ln u · (1 + cos 2φ), and with − for its partner. The
    cosine of a uniform angle is the sine of one in (−π/2, π/2).
    """
    words = np.empty(128, np.uint32)
    signed = words.view(np.int32)
    mantissa = np.empty(64, np.float32)
    bits = mantissa.view(np.int32)
    exponent = np.empty(64, np.float32)
    for start in range(0, count, 128):
        _four_rows(words, np.uint64((first + start) // 4), index, key)
        for i in range(64):
            mantissa[i] = _f(signed[i] & _POSITIVE) + _HALF  # u · 2^31
        for i in range(64):
            e = (bits[i] - _ROOT_HALF) >> np.int32(23)
            bits[i] = np.int32(bits[i] - (e << np.int32(23)))
            exponent[i] = _f(e - np.int32(31))
        block = out[start : start + 128]
        for i in range(64):
            f = mantissa[i] - _ONE
            s = f / (_TWO + f)
            q = s * s
            log = s * (_TWO + q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
            log += exponent[i] * _LN2
            x = _f(signed[64 + i]) * _ANGLE
            y = x * x
            sine = x * (_ONE + y * (_S3 + y * (_S5 + y * (_S7 + y * (_S9 + y * _S11)))))
            block[i] = -log * (_ONE + sine)
            block[64 + i] = -log * (_ONE - sine)


@njit(nogil=True, error_model="numpy")
def uniforms(key, index, first, count, width, out):
    """``out[i]`` ~ U(0, width), entry ``first + i`` of the sequence: two from each word."""
    scale = _f(width * 2.0**-16)
    words = np.empty(128, np.uint32)
    signed = words.view(np.int32)
    for start in range(0, count, 256):
        _four_rows(words, np.uint64((first + start) // 8), index, key)
        block = out[start : start + 256]
        for i in range(128):
            block[i] = (_f(signed[i] & np.int32(0xFFFF)) + _HALF) * scale
        for i in range(128):
            block[128 + i] = (_f(np.int32(words[i] >> np.uint32(16))) + _HALF) * scale


@njit(cache=True, nogil=True, error_model="numpy")
def subset(key, order, out):
    """``out`` = distinct members of ``order``, every ordered choice equally likely.

    Fisher–Yates, stopped after ``len(out)`` exchanges, which are then undone: ``order`` is the same
    before and after, so the choice depends on its address alone.
    """
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    u = np.empty(TILE + 1, np.float64)
    picks = np.empty(len(out), np.int64)
    for i in range(len(out)):
        if i % TILE == 0:
            uniform_tile(u, min(TILE, len(out) - i), i // TILE, np.uint64(0), c2, c3, k0, k1)
        left = len(order) - i
        picks[i] = i + min(np.int64(u[i % TILE] * left), left - 1)
        order[i], order[picks[i]] = order[picks[i]], order[i]
        out[i] = order[i]
    for i in range(len(out) - 1, -1, -1):
        order[i], order[picks[i]] = order[picks[i]], order[i]
