"""Tiles: 2048 consecutive entries of one direction, generated from their address.

Every kernel works in tiles. A tile fits in the first-level cache, its position in the random stream
does not depend on the caller, and each law of the entries is one function.

* Signs: 64 words hold 2048 fair bits; entry 64·j + k of the tile is bit j of word k. Neighbouring
  entries come from neighbouring words, so the expansion of bits to floats vectorises.
* Normals: Box–Muller with a smallest uniform of about 2^-32 (float32) or 2^-64 (float64), so the
  tails reach 6.7σ and 9.4σ. log, sin and cos are Taylor series on reduced arguments, because calls
  of the C library would not vectorise.
"""

import math

import numpy as np
from numba import njit
from numba.extending import overload

from gensmooth.kernels.philox import philox
from gensmooth.streams import TILE

_ONE_BIT = np.uint32(1)
_NO_BIT = np.uint32(0)
_ALL_BITS = np.uint32(0xFFFFFFFF)


@njit(inline="always")
def parity(word):
    """Return the sum of the bits of a 64-bit word modulo 2, as an unsigned integer."""
    for shift in (32, 16, 8, 4, 2, 1):
        word = word ^ (word >> np.uint64(shift))
    return word & np.uint64(1)


@njit(inline="always")
def sign_words(words, tile, index, c2, c3, k0, k1):
    """Generate the 64 words of a tile of fair bits."""
    first = np.uint64(tile) * np.uint64(16)
    for i in range(16):
        a, b, c, d = philox(first + np.uint64(i), index, c2, c3, k0, k1)
        words[i] = np.uint32(a)
        words[16 + i] = np.uint32(b)
        words[32 + i] = np.uint32(c)
        words[48 + i] = np.uint32(d)


@njit(inline="always")
def hadamard_words(words, tile, row):
    """Multiply the tile's signs by those of one row of the Sylvester–Hadamard matrix.

    Entry i of row r is (−1)^popcount(r & i). With i = 2048·tile + 64·j + k, the parity is that of
    three parts: one bit for the tile, one word for j (bit j), and one bit per word for k.
    """
    high = parity(np.uint64(row) & (np.uint64(tile) << np.uint64(11)))
    across = _ALL_BITS if high else _NO_BIT
    for j in range(32):
        if parity(np.uint64(row >> 6) & np.uint64(j)):
            across ^= _ONE_BIT << np.uint32(j)
    for k in range(64):
        low = np.uint32(row & k)
        low ^= low >> np.uint32(4)
        low ^= low >> np.uint32(2)
        low ^= low >> np.uint32(1)
        words[k] ^= across ^ (_NO_BIT - (low & _ONE_BIT))


@njit(inline="always")
def expand_signs(out, count, words, scale):
    """Write ±scale to ``out[:count]``, with the signs from the words of a tile."""
    minus = -scale
    rows = count >> 6
    for j in range(rows):
        bit = _ONE_BIT << np.uint32(j)
        at = 64 * j
        for k in range(64):
            out[at + k] = scale if (words[k] & bit) == _NO_BIT else minus
    bit = _ONE_BIT << np.uint32(rows)
    at = 64 * rows
    for k in range(count & 63):
        out[at + k] = scale if (words[k] & bit) == _NO_BIT else minus


@njit(inline="always")
def add_signs(out, x, count, words, scale):
    """``out[:count] = x[:count] ± scale``, with the signs from the words of a tile."""
    minus = -scale
    rows = count >> 6
    for j in range(rows):
        bit = _ONE_BIT << np.uint32(j)
        at = 64 * j
        for k in range(64):
            out[at + k] = x[at + k] + (scale if (words[k] & bit) == _NO_BIT else minus)
    bit = _ONE_BIT << np.uint32(rows)
    at = 64 * rows
    for k in range(count & 63):
        out[at + k] = x[at + k] + (scale if (words[k] & bit) == _NO_BIT else minus)


# --- normals, float32 -------------------------------------------------------------------------
# One call of Philox gives four words: two radii and two angles, hence four normals. 32 calls fill
# 128 entries: radius · cosine in the first 64, radius · sine in the others.

_f = np.float32
_HALF32, _ONE32, _TWO32, _ZERO32 = _f(0.5), _f(1), _f(2), _f(0)
_LN2_32 = _f(math.log(2.0))
_ULP32 = _f(2.0**-32)
_ANGLE32 = _f(math.pi / 4 * 2.0**-29)
_ROOT_HALF32 = np.int32(0x3F3504F3)  # the bits of √½; they move the mantissa into [√½, √2)
_L3, _L5, _L7, _L9, _L11 = (_f(2 / n) for n in (3, 5, 7, 9, 11))
_S3, _S5, _S7, _S9 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (3, 5, 7, 9))
_C2, _C4, _C6, _C8, _C10 = (_f((-1) ** (n // 2) / math.factorial(n)) for n in (2, 4, 6, 8, 10))


def _normals32(z, count, tile, index, c2, c3, k0, k1):
    words = np.empty(128, np.uint32)
    mantissa = np.empty(64, np.float32)
    bits = mantissa.view(np.int32)
    exponent = np.empty(64, np.float32)
    for block in range((count + 127) // 128):
        first = np.uint64(tile) * np.uint64(TILE // 4) + np.uint64(block) * np.uint64(32)
        for i in range(32):
            a, b, c, d = philox(first + np.uint64(i), index, c2, c3, k0, k1)
            words[i] = np.uint32(a)
            words[32 + i] = np.uint32(b)
            words[64 + i] = np.uint32(c)
            words[96 + i] = np.uint32(d)
        for i in range(64):
            mantissa[i] = max(np.float32(words[i]), _HALF32)
        for i in range(64):
            e = (bits[i] - _ROOT_HALF32) >> np.int32(23)
            bits[i] = np.int32(bits[i] - (e << np.int32(23)))
            exponent[i] = np.float32(e - np.int32(32))
        at = 128 * block
        for i in range(64):
            # log u with u = word · 2^-32. Near u = 1, the word's complement is exact; 1 − u is not.
            complement = np.float32(np.uint32(-words[i])) * _ULP32
            f = -complement if exponent[i] == _ZERO32 else mantissa[i] - _ONE32
            s = f / (_TWO32 + f)
            q = s * s
            log_u = s * (_TWO32 + q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
            radius = math.sqrt(-_TWO32 * (log_u + exponent[i] * _LN2_32))
            # The angle: 29 bits within an octant, and three bits for the swap and the signs.
            word = words[64 + i]
            x = (np.float32(np.int32(word >> np.uint32(3))) + _HALF32) * _ANGLE32
            y = x * x
            sine = x * (_ONE32 + y * (_S3 + y * (_S5 + y * (_S7 + y * _S9))))
            cosine = _ONE32 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
            swap = (word & np.uint32(1)) != _NO_BIT
            p = sine if swap else cosine
            r = cosine if swap else sine
            z[at + i] = radius * (-p if (word & np.uint32(2)) != _NO_BIT else p)
            z[at + 64 + i] = radius * (-r if (word & np.uint32(4)) != _NO_BIT else r)


# --- normals, float64 -------------------------------------------------------------------------
# One call gives a 64-bit radius and a 64-bit angle, hence two normals; 32 calls fill 64 entries.

_LN2_64 = math.log(2.0)
_ULP64 = 2.0**-64
_ANGLE64 = math.pi / 4 * 2.0**-61
_ROOT_HALF64 = np.int64(0x3FE6A09E667F3BCD)
_A3, _A5, _A7, _A9, _A11, _A13, _A15, _A17, _A19, _A21 = (2 / n for n in range(3, 22, 2))
_D3, _D5, _D7, _D9, _D11, _D13, _D15, _D17 = (
    (-1) ** (n // 2) / math.factorial(n) for n in range(3, 18, 2)
)
_E2, _E4, _E6, _E8, _E10, _E12, _E14, _E16 = (
    (-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2)
)


def _normals64(z, count, tile, index, c2, c3, k0, k1):
    words = np.empty(64, np.uint64)
    mantissa = np.empty(32, np.float64)
    bits = mantissa.view(np.int64)
    exponent = np.empty(32, np.float64)
    high = np.uint64(32)
    for block in range((count + 63) // 64):
        first = np.uint64(tile) * np.uint64(TILE // 2) + np.uint64(block) * np.uint64(32)
        for i in range(32):
            a, b, c, d = philox(first + np.uint64(i), index, c2, c3, k0, k1)
            words[i] = (a << high) | b
            words[32 + i] = (c << high) | d
        for i in range(32):
            mantissa[i] = max(np.float64(words[i]), 0.5)
        for i in range(32):
            e = (bits[i] - _ROOT_HALF64) >> np.int64(52)
            bits[i] = bits[i] - (e << np.int64(52))
            exponent[i] = np.float64(e - np.int64(64))
        at = 64 * block
        for i in range(32):
            complement = np.float64(np.uint64(0) - words[i]) * _ULP64
            f = -complement if exponent[i] == 0.0 else mantissa[i] - 1.0
            s = f / (2.0 + f)
            q = s * s
            tail = _A11 + q * (_A13 + q * (_A15 + q * (_A17 + q * (_A19 + q * _A21))))
            log_u = s * (2.0 + q * (_A3 + q * (_A5 + q * (_A7 + q * (_A9 + q * tail)))))
            radius = math.sqrt(-2.0 * (log_u + exponent[i] * _LN2_64))
            word = words[32 + i]
            x = (np.float64(np.int64(word >> np.uint64(3))) + 0.5) * _ANGLE64
            y = x * x
            tail = _D9 + y * (_D11 + y * (_D13 + y * (_D15 + y * _D17)))
            sine = x * (1.0 + y * (_D3 + y * (_D5 + y * (_D7 + y * tail))))
            tail = _E8 + y * (_E10 + y * (_E12 + y * (_E14 + y * _E16)))
            cosine = 1.0 + y * (_E2 + y * (_E4 + y * (_E6 + y * tail)))
            swap = (word & np.uint64(1)) != np.uint64(0)
            p = sine if swap else cosine
            r = cosine if swap else sine
            z[at + i] = radius * (-p if (word & np.uint64(2)) != np.uint64(0) else p)
            z[at + 32 + i] = radius * (-r if (word & np.uint64(4)) != np.uint64(0) else r)


def normal_tile(z, count, tile, index, c2, c3, k0, k1):
    """Fill ``z[:count]``, rounded up to a whole block, with the N(0, 1) entries of a tile."""
    raise NotImplementedError("inside compiled code only")


@overload(normal_tile, jit_options={"error_model": "numpy", "nogil": True})
def _normal_tile(z, count, tile, index, c2, c3, k0, k1):  # noqa: ARG001
    return _normals32 if z.dtype.bitwidth == 32 else _normals64


@njit(inline="always")
def uniform_tile(z, count, tile, index, c2, c3, k0, k1):
    """Fill ``z[:count]`` with uniforms in (0, 1), which are (n + ½) · 2^-52 for integers n."""
    for i in range((count + 1) // 2):
        counter = np.uint64(tile) * np.uint64(TILE // 2) + np.uint64(i)
        a, b, c, d = philox(counter, index, c2, c3, k0, k1)
        left = ((a << np.uint64(32)) | b) >> np.uint64(12)
        right = ((c << np.uint64(32)) | d) >> np.uint64(12)
        z[2 * i] = (np.float64(np.int64(left)) + 0.5) * 2.0**-52
        z[2 * i + 1] = (np.float64(np.int64(right)) + 0.5) * 2.0**-52
