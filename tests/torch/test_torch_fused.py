"""Which products of the series of normals may be fused with a sum: those that change no normal.

Triton's kernels do so (gensmooth/torch/gpu_normals.py) and give the bits of kernels/tiles.py all
the same. Here all the numbers that the series can meet are tried, and a step too many is found out.
No GPU is needed: float64 shows what one rounding would give.
"""

import math

import numpy as np
from numba import njit

from gensmooth.kernels import tiles

f32, f64 = np.float32, np.float64
L3, L5, L7, L9, L11 = (tiles._L3, tiles._L5, tiles._L7, tiles._L9, tiles._L11)
C2, C4, C6, C8, C10 = (tiles._C2, tiles._C4, tiles._C6, tiles._C8, tiles._C10)
S3, S5, S7, S9 = (tiles._S3, tiles._S5, tiles._S7, tiles._S9)
ONE, TWO, HALF, LN2, ANGLE = f32(1), f32(2), f32(0.5), tiles._LN2_32, tiles._ANGLE32


@njit(inline="always")
def fused(a, b, c):
    """``a·b + c`` of float32, rounded once."""
    product, last = f64(a) * f64(b), f64(c)  # exact
    total = product + last
    back = total - product
    error = (product - (total - back)) + (last - back)
    found = f32(total)
    beyond = total - f64(found)
    other = f64(found) + 2 * beyond
    if beyond != 0 and f64(f32(other)) == other and error * beyond > 0:
        return f32(other)  # it only seemed to be half-way between the two
    return found


@njit(inline="always")
def radius(s, tail, exponent):
    q = s * s
    log_u = s * (TWO + q * (L3 + q * tail))
    return f32(math.sqrt(-TWO * (log_u + exponent * LN2)))


def counted(last):
    """How many whole numbers float32 has from 0 to one with these bits, beyond 2^24."""
    return 2**24 + last - 0x4B800000 + 1


@njit(inline="always")
def put_whole(bits, number):
    """Put the bits of such a number there."""
    if number < 2**24:
        bits.view(f32)[0] = f32(number)
    else:
        bits[0] = 0x4B800000 + number - 2**24


@njit
def radii_changed(near, far):
    """How many radii are others if two steps are fused, and if three are.

    ``near`` is the number of differences from 2^32, and ``far`` that of words far from it.
    """
    bits, changed = np.empty(1, np.int32), np.zeros(2, np.int64)
    value = bits.view(f32)
    for number in range(1, near + far):
        if number < near:  # words near 2^32: f is their difference from it
            put_whole(bits, number)
            f, exponent = -value[0] * f32(2.0**-32), f32(0)
        else:
            put_whole(bits, number - near + 1)
            e = (bits[0] - 0x4F3504F3) >> 23
            bits[0] -= (e << 23) + 0x10000000
            f, exponent = value[0] - ONE, f32(e)
        s = f / (TWO + f)
        q = s * s
        plain = L5 + q * (L7 + q * (L9 + q * L11))
        inside = fused(q, fused(q, L11, L9), L7)
        others = (L5 + q * inside, fused(q, inside, L5))
        for i in range(2):
            if plain != others[i]:
                changed[i] += radius(s, plain, exponent) != radius(s, others[i], exponent)
    return changed[0], changed[1]


@njit
def angles_changed(numbers):
    """How many cosines are others if one step is fused, and if two are; and sines, by one."""
    bits, changed = np.empty(1, np.int32), np.zeros(3, np.int64)
    for number in range(numbers):
        put_whole(bits, number)
        x = (bits.view(f32)[0] + HALF) * ANGLE
        y = x * x
        plain = C6 + y * (C8 + y * C10)
        inside = fused(y, C10, C8)
        others = (C6 + y * inside, fused(y, inside, C6))
        for i in range(2):
            if plain != others[i]:
                changed[i] += cosine(y, plain) != cosine(y, others[i])
        plain, other = S7 + y * S9, fused(y, S9, S7)
        if plain != other:
            changed[2] += sine(x, y, plain) != sine(x, y, other)
    return changed[0], changed[1], changed[2]


@njit(inline="always")
def cosine(y, tail):
    return ONE + y * (C2 + y * (C4 + y * tail))


@njit(inline="always")
def sine(x, y, tail):
    return x * (ONE + y * (S3 + y * (S5 + y * tail)))


def test_two_steps_of_the_logarithm_may_be_fused_and_a_third_may_not():
    near, far = counted(0x4E95F61B), counted(0x4F3504F2)  # up to 2^32 (1 − √½) and to 2^32 √½
    assert radii_changed(near, far) == (0, 7)


def test_a_step_of_the_cosine_may_be_fused_and_none_of_the_sine():
    assert angles_changed(counted(0x4E000000)) == (0, 6, 1)  # up to 2^29
