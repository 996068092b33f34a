# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
"""Linear regression, compiled: its data, and an iteration of SGD on them.

Sums over entries and over data points may be reordered by the compiler (``reassoc``), which fixes
their order once for a CPU type; NaN and infinity keep their meaning. Sums over directions run in
the order of the directions.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gensmooth.kernels.sums import dots
from gensmooth.lab.paper.sampling import (
    normals,
    padded,
    set_step,
    squared_normals,
    subset,
    uniforms,
)
from gensmooth.streams import TILE


class RegressionSettings(NamedTuple):
    """The constants of a run."""

    spacing: float
    rate: float
    antithetic: bool
    limit2: float  # ‖θ‖² above which a run has diverged


class RegressionState(NamedTuple):
    """The buffers that an iteration writes to."""

    theta: np.ndarray
    gradient: np.ndarray
    exact: np.ndarray
    totals: np.ndarray


_SUMS = {"reassoc", "contract", "nsz"}
# The sequences of an iteration's data: entry i·d + j of the first three belongs to point i,
# coordinate j; entry i of the others to point i.
_DIRECTION, _LENGTH, _GAMMA, _NOISE, _VARIANCE = range(5)
_GROUP = TILE  # points made together: their entries begin and end with a tile, whatever d is


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def sample(key, x, y):
    """Fill ``x`` (n, d) and ``y`` (n) with the data at an address; exact, O(d) per point.

    γ ~ U([0,2]^d);  x = ‖√γ∘z‖ w/‖w‖ with z, w ~ N(0, I);  y = γᵀx + σ z₀, σ² ~ U(0, 2).
    """
    number, dim = x.shape
    size = min(number, _GROUP)
    w = np.empty(padded(size * dim), np.float32)
    z2 = np.empty(padded(size * dim), np.float32)
    gamma = np.empty(padded(size * dim), np.float32)
    noise = np.empty(padded(size), np.float32)
    variance = np.empty(padded(size), np.float32)
    for first in range(0, number, _GROUP):
        count = min(_GROUP, number - first)
        normals(key, _DIRECTION, first * dim, count * dim, w)
        squared_normals(key, _LENGTH, first * dim, count * dim, z2)
        uniforms(key, _GAMMA, first * dim, count * dim, 2.0, gamma)
        normals(key, _NOISE, first, count, noise)
        uniforms(key, _VARIANCE, first, count, 2.0, variance)
        for i in range(count):
            at = i * dim
            length2, unscaled2, response = 0.0, 0.0, 0.0
            for j in range(dim):
                g, a = np.float64(gamma[at + j]), np.float64(w[at + j])
                length2 += g * np.float64(z2[at + j])
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
    """Return the mean of (y − θᵀx)²/2 over the data."""
    total = 0.0
    for i in range(len(y)):
        e = y[i] - _dot(x[i], theta)
        total += e * e
    return 0.5 * total / len(y)


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _slopes(x, residual, first, second, spacing):
    """δ/c for two directions at once, each four points at a time: memory is read half as often.

    With the residuals e_i = y_i − θᵀx_i and a_i = εᵀx_i the loss along ε is ½(e − c a)², so
    δ/c is the mean over the data of ½c a² − a e: no difference of large numbers.
    """
    number, dim = x.shape
    linear0, square0, linear1, square1 = 0.0, 0.0, 0.0, 0.0
    whole = number - number % 4
    for i in range(0, whole, 4):
        xa, xb, xc, xd = x[i], x[i + 1], x[i + 2], x[i + 3]
        a0, b0, c0, d0, a1, b1, c1, d1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(dim):
            p, q = first[j], second[j]
            a0 += xa[j] * p
            b0 += xb[j] * p
            c0 += xc[j] * p
            d0 += xd[j] * p
            a1 += xa[j] * q
            b1 += xb[j] * q
            c1 += xc[j] * q
            d1 += xd[j] * q
        ea, eb, ec, ed = residual[i], residual[i + 1], residual[i + 2], residual[i + 3]
        linear0 += (a0 * ea + b0 * eb) + (c0 * ec + d0 * ed)
        linear1 += (a1 * ea + b1 * eb) + (c1 * ec + d1 * ed)
        square0 += (a0 * a0 + b0 * b0) + (c0 * c0 + d0 * d0)
        square1 += (a1 * a1 + b1 * b1) + (c1 * c1 + d1 * d1)
    for i in range(whole, number):
        a0, a1 = _dot(x[i], first), _dot(x[i], second)
        linear0 += a0 * residual[i]
        linear1 += a1 * residual[i]
        square0 += a0 * a0
        square1 += a1 * a1
    half = 0.5 * spacing
    return (half * square0 - linear0) / number, (half * square1 - linear1) / number


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def estimate(block, factor, x, y, theta, spacing, antithetic, gradient):
    """Put the finite-difference estimate on shared data into ``gradient``.

    The antithetic differences of a quadratic are its slopes: as if the spacing were zero.
    """
    number, dim = x.shape
    residual = np.empty(number)
    for i in range(number):
        residual[i] = y[i] - _dot(x[i], theta)
    c = 0.0 if antithetic else spacing
    gradient[:] = 0.0
    last = len(block) - 1
    for l in range(0, len(block), 2):  # noqa: E741
        first, second = block[l], block[min(l + 1, last)]
        slope0, slope1 = _slopes(x, residual, first, second, c)
        weight0 = factor * slope0 / len(block)
        weight1 = factor * slope1 / len(block) if l < last else 0.0
        for j in range(dim):
            gradient[j] = (gradient[j] + weight0 * first[j]) + weight1 * second[j]


@njit(nogil=True, error_model="numpy", fastmath=_SUMS)
def _descend(theta, gradient, exact, rate, totals):
    """Add the measurements of an iteration to ``totals``, step, and return ‖θ‖² after it.

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


@njit(cache=True, nogil=True, error_model="numpy")
def online(blocks, factor, settings, key, step, minimizer, data, state):
    """Make iterations from ``step`` on, one per block, on new data; return False if θ diverges."""
    x, y = data
    theta, gradient, exact, totals = state
    for i in range(len(blocks)):
        set_step(key, step + i)
        sample(key, x, y)
        c, antithetic = settings.spacing, settings.antithetic
        estimate(blocks[i], factor, x, y, theta, c, antithetic, gradient)
        for j in range(len(theta)):
            exact[j] = theta[j] - minimizer
        if not _descend(theta, gradient, exact, settings.rate, totals) <= settings.limit2:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def offline(blocks, factor, settings, key, step, dataset, quadratic, data, state):
    """Like :func:`online`, on distinct points of a data set with mean loss ½θᵀHθ − bᵀθ + constant.

    H is passed as the addresses of its rows, for :func:`dots`.
    """
    all_x, all_y, order = dataset
    hessian, moment = quadratic
    x, y = data
    theta, gradient, exact, totals = state
    chosen = np.empty(len(y), np.int64)
    for i in range(len(blocks)):
        set_step(key, step + i)
        subset(key, order, chosen)
        for n in range(len(chosen)):
            x[n] = all_x[chosen[n]]
            y[n] = all_y[chosen[n]]
        c, antithetic = settings.spacing, settings.antithetic
        estimate(blocks[i], factor, x, y, theta, c, antithetic, gradient)
        dots(hessian, theta, exact)
        exact -= moment
        if not _descend(theta, gradient, exact, settings.rate, totals) <= settings.limit2:
            return False
    return True
