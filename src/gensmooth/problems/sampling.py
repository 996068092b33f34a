# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Long runs of random numbers at an address, for data sets and for the noise of objectives.

The address is that of :mod:`gensmooth.streams`: the key holds seed, purpose and step, ``index``
names one sequence of the step, and entry i of the sequence is a pure function of i. So N points
are the first N of any longer draw, whoever draws them.

Numbers are float32 made from 32 random bits: normals reach 6.7σ, uniforms are the midpoints of
2^23 cells of equal width. What is lost is of relative size 2^-23, below anything that the runs
of a study (some 10^5 points) can resolve; what is computed from them is computed in float64.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.philox import philox
from gensmooth.kernels.tiles import normal_tile, uniform_tile
from gensmooth.streams import TILE

_MIDPOINT = np.float32(0.5)
_CELL = np.float32(2.0**-23)
_QUARTER = TILE // 4


@njit(cache=True, nogil=True, error_model="numpy")
def normals(key, index, first_tile, out):
    """``out[i]`` ~ N(0, 1), entry 2048·first_tile + i of the sequence."""
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    z = np.empty(TILE, np.float32)
    for start in range(0, len(out), TILE):
        count = min(TILE, len(out) - start)
        tile = first_tile + start // TILE
        normal_tile(z, count, tile, np.uint64(index), c2, c3, k0, k1)
        out[start : start + count] = z[:count]


@njit(cache=True, nogil=True, error_model="numpy")
def uniforms(key, index, first_tile, width, out):
    """``out[i]`` ~ U(0, width), entry 2048·first_tile + i of the sequence."""
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    scale = np.float32(width) * _CELL
    words = np.empty(TILE, np.uint32)
    for start in range(0, len(out), TILE):
        count = min(TILE, len(out) - start)
        first = np.uint64(first_tile + start // TILE) * np.uint64(_QUARTER)
        # Four words a counter, laid out in blocks of 32 counters, so that both loops vectorise.
        for block in range((count + 127) // 128):
            at = 128 * block
            for i in range(32):
                counter = first + np.uint64(32 * block + i)
                a, b, c, d = philox(counter, np.uint64(index), c2, c3, k0, k1)
                words[at + i] = np.uint32(a)
                words[at + 32 + i] = np.uint32(b)
                words[at + 64 + i] = np.uint32(c)
                words[at + 96 + i] = np.uint32(d)
        target = out[start : start + count]
        for i in range(count):
            target[i] = (np.float32(np.int32(words[i] >> np.uint32(9))) + _MIDPOINT) * scale


@njit(cache=True, nogil=True, error_model="numpy")
def subset(key, index, order, out):
    """``out`` = distinct members of ``order``, every ordered choice equally likely.

    Fisher–Yates, stopped after ``len(out)`` exchanges, which are then taken back: ``order`` is
    the same before and after, so the choice depends on its address alone.
    """
    k0, k1, c2, c3 = key[0], key[1], key[2], key[3]
    u = np.empty(TILE + 1, np.float64)
    picks = np.empty(len(out), np.int64)
    for i in range(len(out)):
        if i % TILE == 0:
            count = min(TILE, len(out) - i)
            uniform_tile(u, count, i // TILE, np.uint64(index), c2, c3, k0, k1)
        left = len(order) - i
        picks[i] = i + min(np.int64(u[i % TILE] * left), left - 1)
        order[i], order[picks[i]] = order[picks[i]], order[i]
        out[i] = order[i]
    for i in range(len(out) - 1, -1, -1):
        order[i], order[picks[i]] = order[picks[i]], order[i]
