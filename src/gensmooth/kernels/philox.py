"""Philox4x32-10 (Salmon et al., SC 2011) for Numba, one call per counter.

Words are stored in 64-bit integers whose upper half is zero. The 32×32→64 product is then one
vector instruction, and LLVM vectorises a loop of calls over consecutive counters.
"""

import numpy as np
from numba import njit

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@njit(inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Return four random words for a counter of four words and a key of two."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c1 = p1 & _LOW
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c3 = p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3
