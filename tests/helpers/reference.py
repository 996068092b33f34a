"""The random numbers of the kernels written out in plain NumPy: what the kernels must equal.

Nothing here uses the package. Words are unsigned 64-bit integers whose upper half is zero, as
Philox4x32 is defined; normals are computed in extended precision from the same words.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Array = NDArray[np.float64]

TILE = 2048
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF


class Stream(NamedTuple):
    """The words of a counter and key beside the position: seed, purpose and step, and an index."""

    k0: int
    k1: int
    c2: int
    c3: int
    index: int = 0


def stream(seed: int, purpose: int, step: int, index: int = 0) -> Stream:
    """The address as the package documents it."""
    return Stream(
        seed & LOW, seed >> 32, step & LOW, (purpose << 24) | (step >> 32 & 0xFFFFFF), index
    )


def philox(counter, key) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10 (Salmon et al., 2011), for arrays of counters."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = key
    low, half = np.uint64(LOW), np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(M0) * c0, np.uint64(M1) * c2
        c0, c1 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & low
        c2, c3 = (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return c0, c1, c2, c3


def counter_of(words, key) -> tuple[int, int, int, int]:
    """The counter whose four words are ``words``: Philox is a bijection, here run backwards."""
    c0, c1, c2, c3 = words
    keys = [((key[0] + i * W0) & LOW, (key[1] + i * W1) & LOW) for i in range(10)]
    for k0, k1 in reversed(keys):
        b2 = c1 * pow(M1, -1, 2**32) & LOW
        b0 = c3 * pow(M0, -1, 2**32) & LOW
        b1 = c0 ^ (M1 * b2 >> 32) ^ k0
        b3 = c2 ^ (M0 * b0 >> 32) ^ k1
        c0, c1, c2, c3 = b0, b1, b2, b3
    return c0, c1, c2, c3


def _words(at: Stream, count: int) -> tuple[Words, Words, Words, Words]:
    """The words at positions 0 … count−1."""
    positions = np.arange(count, dtype=np.uint64)
    index, c2, c3 = (np.full(count, c, np.uint64) for c in (at.index, at.c2, at.c3))
    return philox((positions, index, c2, c3), (at.k0, at.k1))


def signs(at: Stream, dim: int) -> NDArray[np.int64]:
    """Bit j of word k of a tile is the sign of its entry 64j + k; a set bit is −1."""
    tiles = -(-dim // TILE)
    words = np.stack(_words(at, 16 * tiles)).reshape(4, tiles, 16)
    words = words.transpose(1, 0, 2).reshape(tiles, 1, 64)
    bits = (words >> np.arange(32, dtype=np.uint64)[None, :, None]) & np.uint64(1)
    return 1 - 2 * bits.reshape(-1)[:dim].astype(np.int64)


def hadamard_row(row: int, dim: int) -> NDArray[np.int64]:
    """(−1)^popcount(row & i), the definition of Sylvester's matrix."""
    ones = np.array([(row & i).bit_count() for i in range(dim)])
    return 1 - 2 * (ones % 2)


def normals(at: Stream, dim: int, dtype: type) -> NDArray[np.longdouble]:
    """Box–Muller: each radius word makes a cosine entry and a sine entry half a block later."""
    per_block = 128 if dtype == np.float32 else 64
    blocks = -(-dim // per_block)
    a, b, c, d = (w.reshape(blocks, 32) for w in _words(at, 32 * blocks))
    if dtype == np.float32:
        pair = box_muller(np.hstack([a, b]), np.hstack([c, d]), 32)
    else:
        half = np.uint64(32)
        pair = box_muller(a << half | b, c << half | d, 64)
    return np.hstack(pair).reshape(-1)[:dim]


def box_muller(radius: Words, angle: Words, bits: int) -> tuple[NDArray, NDArray]:
    """Two normals from a word for u = word·2^-bits (not 0) and one for an angle.

    The angle's word has, from its lowest bit, a swap of sine and cosine, the sign of the first,
    the sign of the second, and the place inside an octant.
    """
    wide = np.longdouble
    top = np.uint64(1 << (bits - 1))
    complement = (np.uint64(0) - radius) & np.uint64(2**bits - 1)
    small = np.log(np.maximum(radius.astype(wide), wide(0.5)) / wide(2) ** bits)
    near_one = np.log1p(-complement.astype(wide) / wide(2) ** bits)
    length = np.sqrt(-2 * np.where(radius >= top, near_one, small))
    pi = 4 * np.arctan(wide(1))
    turn = ((angle >> np.uint64(3)).astype(wide) + wide(0.5)) * pi / 4 / wide(2) ** (bits - 3)
    swap, first, second = (angle >> np.uint64(i) & np.uint64(1) for i in range(3))
    one = np.where(swap, np.sin(turn), np.cos(turn)) * (1 - 2 * first.astype(wide))
    two = np.where(swap, np.cos(turn), np.sin(turn)) * (1 - 2 * second.astype(wide))
    return length * one, length * two


def uniforms(at: Stream, dim: int) -> Array:
    """52 bits and a half."""
    a, b, c, d = _words(at, -(-dim // 2))
    half, cut = np.uint64(32), np.uint64(12)
    pair = np.stack([(a << half | b) >> cut, (c << half | d) >> cut], axis=1)
    return ((pair.astype(np.float64) + 0.5) * 2.0**-52).reshape(-1)[:dim]
