# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Linear regression, compiled: its data, the estimate of one iteration, and the step.

Sums over entries and over data points may be reordered by the compiler (``reassoc``), which fixes
their order once for a CPU type; NaN and infinity keep their meaning. Sums over directions run in
the order of the directions.
"""

import numpy as np
from numba import njit

from gensmooth.kernels.laws import fill
from gensmooth.problems.sampling import normals, uniforms
from gensmooth.streams import TILE

_SUMS = {"reassoc", "contract", "nsz"}
# The sequences of an iteration's data: entry i·d + j of the first three belongs to point i,
# coordinate j; entry i of the others to point i.
_DIRECTION, _LENGTH, _GAMMA, _NOISE, _VARIANCE = range(5)
_GROUP = 2048  # points made together: their entries begin and end with a tile, whatever d is


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def sample(key, x, y):
    """Fill ``x`` (n, d) and ``y`` (n) with the data at an address; exact, O(d) a point.

    γ ~ U([0,2]^d);  x = ‖√γ∘z‖ w/‖w‖ with z, w ~ N(0, I);  y = γᵀx + σ z₀, σ² ~ U(0, 2).
    """
    number, dim = x.shape
    size = min(number, _GROUP)
    w = np.empty(size * dim, np.float32)
    z = np.empty(size * dim, np.float32)
    gamma = np.empty(size * dim, np.float32)
    noise = np.empty(size, np.float32)
    variance = np.empty(size, np.float32)
    for first in range(0, number, _GROUP):
        count = min(_GROUP, number - first)
        entries = count * dim
        tile = first * dim // TILE
        normals(key, _DIRECTION, tile, w[:entries])
        normals(key, _LENGTH, tile, z[:entries])
        uniforms(key, _GAMMA, tile, 2.0, gamma[:entries])
        normals(key, _NOISE, first // TILE, noise[:count])
        uniforms(key, _VARIANCE, first // TILE, 2.0, variance[:count])
        for i in range(count):
            at = i * dim
            length2, unscaled2, response = 0.0, 0.0, 0.0
            for j in range(dim):
                g, a, b = np.float64(gamma[at + j]), np.float64(w[at + j]), np.float64(z[at + j])
                length2 += g * b * b
                unscaled2 += a * a
                response += g * a
            scale = np.sqrt(length2 / unscaled2)
            row = x[first + i]
            for j in range(dim):
                row[j] = scale * w[at + j]
            y[first + i] = scale * response + np.sqrt(np.float64(variance[i])) * noise[i]


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def loss(x, y, theta):
    """The mean of (y − θᵀx)²/2 over the data."""
    total = 0.0
    for i in range(len(y)):
        e = y[i] - _dot(x[i], theta)
        total += e * e
    return 0.5 * total / len(y)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def estimate(law, factor, x, y, theta, spacing, antithetic, block, gradient):
    """Put the finite-difference estimate on shared data into ``gradient``.

    With the residuals e_i = y_i − θᵀx_i and a_il = ε_lᵀx_i the loss along ε_l is
    ½(e − c a)², so δ_l is the mean over the data of ½c a (c a − 2e) (forward) or of −c a e
    (antithetic): no difference of large numbers, and one inner product for each (i, l).
    """
    number, dim = x.shape
    fill(law, 0, (dim + TILE - 1) // TILE, block)
    residual = np.empty(number)
    for i in range(number):
        residual[i] = y[i] - _dot(x[i], theta)
    gradient[:] = 0.0
    for l in range(len(block)):  # noqa: E741
        row = block[l]
        linear, square = 0.0, 0.0
        for i in range(number):
            a = _dot(x[i], row)
            linear -= a * residual[i]
            square += a * a
        slope = linear if antithetic else linear + 0.5 * spacing * square
        weight = factor * slope / (number * len(block))
        for j in range(dim):
            gradient[j] += weight * row[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def descend(theta, gradient, exact, rate, totals):
    """Add what this iteration measured to ``totals``, step, and return ‖θ‖² after the step.

    Totals: ‖ĝ − ∇F‖², ‖∇F‖², Σθ and ‖θ‖² before the step.
    """
    error2, exact2, total, before2, after2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(theta)):
        g, e, t = gradient[j], exact[j], theta[j]
        error2 += (g - e) * (g - e)
        exact2 += e * e
        total += t
        before2 += t * t
        t -= rate * g
        after2 += t * t
        theta[j] = t
    totals[0] += error2
    totals[1] += exact2
    totals[2] += total
    totals[3] += before2
    return after2
