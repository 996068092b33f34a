# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""The noisy benchmark, compiled: its functions, and iterations of SGD on their noisy values.

Sums over coordinates may be reordered by the compiler (``reassoc``), which fixes their order once
for a CPU type; NaN and infinity keep their meaning. Sums over directions run in the order of the
directions.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from gensmooth.lab.paper.sampling import normals, padded, set_step

_SUMS = {"reassoc", "contract", "nsz"}
SPHERE, ROSENBROCK, CIGAR, HM = range(4)

# π in three parts of 33, 33 and 53 bits: multiples of the first two are exact up to 2^20.
_PI_1 = float.fromhex("0x1.921fb544p+1")
_PI_2 = float.fromhex("0x1.0b4611a6p-33")
_PI_3 = float.fromhex("0x1.3198a2e037073p-68")
_C = tuple((-1) ** k / math.factorial(2 * k) for k in range(12))


@njit(nogil=True, error_model="numpy")
def _cosine(t):
    """Return cos t, in a form that vectorises.

    Up to |t| = 10^6 the error is that of rounding the result; beyond, that of rounding t. With
    t = qπ + r and |r| ≤ π/2, cos t = (−1)^q cos r, and cos r is computed by its Taylor series. The
    compiler must not reorder the three subtractions: their order makes r exact.
    """
    q = np.floor(t * (1.0 / math.pi) + 0.5)
    r = ((t - q * _PI_1) - q * _PI_2) - q * _PI_3
    y = min(r * r, 2.5)  # (π/2)² < 2.5: keeps |cos| ≤ 1 where no bit of r is right
    tail = _C[8] + y * (_C[9] + y * (_C[10] + y * _C[11]))
    tail = _C[4] + y * (_C[5] + y * (_C[6] + y * (_C[7] + y * tail)))
    cosine = 1.0 + y * (_C[1] + y * (_C[2] + y * (_C[3] + y * tail)))
    return cosine * (1.0 - 2.0 * (q - 2.0 * np.floor(0.5 * q)))


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _sphere(x):
    total = 0.0
    for j in range(len(x)):
        total += x[j] * x[j]
    return total


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _rosenbrock(x):
    valley, slope = 0.0, 0.0
    for j in range(len(x) - 1):
        bend = x[j] * x[j] - x[j + 1]
        valley += bend * bend
        slope += (x[j] - 1.0) * (x[j] - 1.0)
    return 100.0 * valley + slope


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _hm(x):
    total = 0.0
    for j in range(len(x)):
        v = x[j] if abs(x[j]) > 1e-150 else 1e-150  # 1/0 has no cosine; the limit is 0
        total += x[j] * x[j] * (1.1 + _cosine(1.0 / v))
    return total


@njit(nogil=True, error_model="numpy")
def _value(kind, x):
    if kind == SPHERE:
        return _sphere(x)
    if kind == ROSENBROCK:
        return _rosenbrock(x)
    if kind == CIGAR:
        return x[0] * x[0] + 1e6 * _sphere(x[1:])
    return _hm(x)


@njit(cache=True, nogil=True, error_model="numpy")
def values(kind, x, out):
    """``out[i]`` = f(x[i])."""
    for i in range(len(x)):
        out[i] = _value(kind, x[i])


@njit(cache=True, nogil=True, error_model="numpy")
def noise(key, index, out):
    """``out`` = the normals of one noisy evaluation: d for the side point, one for its weight."""
    buffer = np.empty(padded(len(out)), np.float32)
    normals(key, index, 0, len(out), buffer)
    out[:] = buffer[: len(out)]


@njit(nogil=True, error_model="numpy")
def _noisy_mean(settings, key, first, x, value, side, buffer):
    """Return the mean of the noisy values of evaluations ``first``, … at x; f(x) = ``value``."""
    if settings.level == 0.0:
        return value
    dim = len(x)
    total = 0.0
    for index in range(first, first + settings.samples):
        normals(key, index, 0, dim + 1, buffer)
        for j in range(dim):
            side[j] = x[j] + buffer[j]
        total += settings.level * np.float64(buffer[dim]) * (_value(settings.kind, side) - value)
    return value + total / settings.samples


class NoisySettings(NamedTuple):
    """The constants of a run."""

    kind: int
    level: float
    samples: int
    spacing: float
    rate: float
    limit2: float  # ‖θ‖² above which a run has diverged


class NoisyState(NamedTuple):
    """The buffers that an iteration writes to."""

    theta: np.ndarray
    gradient: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def advance(blocks, factor, settings, key, step, state):
    """Make iterations from ``step`` on, one per block of directions; return False if θ diverges.

    Direction l has evaluations 2lN, …, 2lN + N − 1 at θ + cε_l and the next N at θ.
    """
    theta, gradient = state
    _, number, dim = blocks.shape
    point, side = np.empty(dim), np.empty(dim)
    buffer = np.empty(padded(dim + 1), np.float32)
    c, N = settings.spacing, settings.samples
    for i in range(len(blocks)):
        set_step(key, step + i)
        centre = _value(settings.kind, theta)
        gradient[:] = 0.0
        for l in range(number):  # noqa: E741
            row = blocks[i, l]
            for j in range(dim):
                point[j] = theta[j] + c * row[j]
            value = _value(settings.kind, point)
            up = _noisy_mean(settings, key, 2 * l * N, point, value, side, buffer)
            down = _noisy_mean(settings, key, (2 * l + 1) * N, theta, centre, side, buffer)
            weight = factor * (up - down) / (c * number)
            for j in range(dim):
                gradient[j] += weight * row[j]
        for j in range(dim):
            theta[j] -= settings.rate * gradient[j]
        if not _sphere(theta) <= settings.limit2:
            return False
    return True
