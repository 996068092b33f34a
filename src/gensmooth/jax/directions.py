# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""The random numbers of :mod:`gensmooth.streams` in JAX: Philox4x32-10, signs and normals.

Signs are bit-identical to those of :mod:`gensmooth.kernels.tiles`. Normals agree up to rounding,
because XLA has its own logarithm, sine and cosine.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gensmooth.models import Stream
from gensmooth.streams import TILE, Purpose

Array = jax.Array
Words = tuple[Array, Array, Array, Array]

MAX_ENTRIES = 2**34  # per parameter: each value of the 32-bit counter yields four normals

_M0, _M1 = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_LOW, _HALF = np.uint32(0xFFFF), np.uint32(16)
_SIGN, _ONE = np.uint32(0x80000000), np.uint32(0x3F800000)  # the bits of −0 and of 1
_SHIFTS = np.arange(31, -1, -1, dtype=np.uint32)


class StreamPlace(NamedTuple):
    """The address of a direction in the streams: its step and index, which may be traced."""

    step: Any
    index: Any


def philox(counter: Words, key: tuple[Any, Any]) -> Words:
    """Compute four random words for each four-word counter.

    The ten rounds are a loop, because XLA does not fuse a loop with the code that uses the words.
    Fused, the words would be computed again for each bit that is read.
    """
    start = (*jnp.broadcast_arrays(*counter), *(jnp.asarray(word, jnp.uint32) for word in key))
    return jax.lax.fori_loop(0, 10, _philox_round, start)[:4]


def _philox_round(_: int, state: Any) -> Any:
    # Not nested in `philox`: JAX compiles a loop once per function object.
    c0, c1, c2, c3, k0, k1 = state
    high0, low0 = _product(_M0, c0)
    high1, low1 = _product(_M1, c2)
    return high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0, k0 + _W0, k1 + _W1


def entries(stream: Stream, place: StreamPlace, shape: tuple[int, ...]) -> Array:
    """Return one parameter's direction in float32, in its shape, without the law's scale."""
    law, size = stream.law, math.prod(shape)
    if law.rank and len(shape) > 1:
        return _low_rank(stream, place, shape)
    flat = _independent(stream, Purpose.DIRECTION, place, size)
    if law.density < 1:
        flat = jnp.where(jnp.repeat(_chosen(stream, place.step, size), TILE)[:size], flat, 0)
    return flat.reshape(shape)


def _low_rank(stream: Stream, place: StreamPlace, shape: tuple[int, ...]) -> Array:
    """Compute Σ_k a_k b_kᵀ / √r; more than two dimensions become a matrix (first × all others)."""
    law, rows = stream.law, shape[0]
    columns, total = math.prod(shape[1:]), jnp.zeros((shape[0], math.prod(shape[1:])), jnp.float32)
    size = np.float32(law.rank**-0.5)
    for k in range(law.rank):
        at = StreamPlace(place.step, place.index * law.rank + k)
        left = size * _independent(stream, Purpose.LEFT, at, rows)
        total += left[:, None] * _independent(stream, Purpose.RIGHT, at, columns)[None, :]
    return total.reshape(shape)


def _independent(stream: Stream, purpose: Purpose, place: StreamPlace, size: int) -> Array:
    make = _signs if stream.law.entries == "coin" else _normals
    return make(stream, purpose, place, size)


def _words(stream: Stream, purpose: Purpose, place: StreamPlace, number: int) -> Words:
    """Return the Philox words for the first ``number`` counters of a direction."""
    k0, k1, _, purpose_word = stream.key(0, purpose)
    position = jnp.arange(number, dtype=jnp.uint32)
    index, step = (jnp.asarray(word).astype(jnp.uint32) for word in (place.index, place.step))
    return philox((position, index, step, jnp.uint32(purpose_word)), (k0, k1))


def _signs(stream: Stream, purpose: Purpose, place: StreamPlace, size: int) -> Array:
    """Return ±1: entry 64·j + k of a tile is bit j of its word k; a set bit means −1."""
    tiles = -(-size // TILE)
    words = _words(stream, purpose, place, 16 * tiles)
    by_tile = jnp.stack([word.reshape(tiles, 16) for word in words], 1).reshape(tiles, 1, 64)
    bits = (by_tile << _SHIFTS[:, None]) & _SIGN
    return jax.lax.bitcast_convert_type(bits | _ONE, jnp.float32).reshape(-1)[:size]


def _normals(stream: Stream, purpose: Purpose, place: StreamPlace, size: int) -> Array:
    """Return N(0, 1) by Box–Muller: 128 entries from 32 calls, cosines first."""
    blocks = -(-size // 128)
    a, b, c, d = (word.reshape(blocks, 32) for word in _words(stream, purpose, place, 32 * blocks))
    radius, angle = jnp.concatenate([a, b], 1), jnp.concatenate([c, d], 1)
    # log u, u = word · 2^-32; near u = 1, the word's complement is exact but 1 − u is not.
    near = radius >= np.uint32(0xB504F334)  # u > √½
    log_near = jnp.log1p(-(np.uint32(0) - radius).astype(jnp.float32) * np.float32(2.0**-32))
    far = jnp.maximum(radius.astype(jnp.float32), np.float32(0.5)) * np.float32(2.0**-32)
    length = jnp.sqrt(-2 * jnp.where(near, log_near, jnp.log(far)))
    # The angle: 29 bits within an octant, three bits for the swap and the signs.
    octant = (angle >> np.uint32(3)).astype(jnp.float32) + np.float32(0.5)
    octant = octant * np.float32(math.pi / 4 * 2.0**-29)
    sine, cosine = jnp.sin(octant), jnp.cos(octant)
    swap, first, second = ((angle >> np.uint32(bit)) & np.uint32(1) for bit in range(3))
    one = jnp.where(swap == 0, cosine, sine) * jnp.where(first == 0, 1, -1)
    other = jnp.where(swap == 0, sine, cosine) * jnp.where(second == 0, 1, -1)
    return jnp.concatenate([length * one, length * other], 1).reshape(-1)[:size]


def _chosen(stream: Stream, step: Any, size: int) -> Array:
    """Return the tiles that sparse directions move at a step: each with probability ``density``."""
    tiles = -(-size // TILE)
    a, b, c, d = _words(stream, Purpose.CHOICE, StreamPlace(step, 0), (tiles + 1) // 2)
    high = jnp.stack([a, c], 1).reshape(-1)[:tiles]
    low = jnp.stack([b, d], 1).reshape(-1)[:tiles] >> np.uint32(12)
    # A 52-bit uniform in two words: (high · 2^20 + low + ½) · 2^-52 < density.
    limit = math.ceil(stream.law.density * 2.0**52 - 0.5)
    limit_high, limit_low = np.uint32(limit >> 20), np.uint32(limit & 0xFFFFF)
    return (high < limit_high) | ((high == limit_high) & (low < limit_low))


def _product(one: np.uint32, other: Array) -> tuple[Array, Array]:
    """Return the upper and lower words of a product, without 64-bit integers."""
    one_low, one_high = one & _LOW, one >> _HALF
    low, high = other & _LOW, other >> _HALF
    first = one_low * low
    middle = one_high * low + (first >> _HALF)
    cross = one_low * high + (middle & _LOW)
    return one_high * high + (middle >> _HALF) + (cross >> _HALF), one * other
