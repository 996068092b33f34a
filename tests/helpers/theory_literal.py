"""Directions and estimators written out literally, as the yardstick for `gensmooth.theory`.

Nothing here uses the package: every direction is drawn by its definition and every estimate is
computed from function values, many replicates at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard as hadamard_matrix

Array = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int, int, int], Array]


def z_score(samples: Array, expected: float) -> float:
    """Distance of the sample mean from `expected` in Monte Carlo standard errors."""
    error = samples.mean() - expected
    standard_error = samples.std(ddof=1) / np.sqrt(len(samples))
    # Quantities that do not vary (a whole orthogonal group) must agree to rounding.
    return float(error / max(standard_error, 1e-12 * (1 + abs(expected))))


# Directions, each (replicates, L, d).


def gaussian(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    return rng.standard_normal((reps, L, d))


def bernoulli(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    return 2.0 * rng.integers(0, 2, (reps, L, d)) - 1.0


def skewed_bernoulli(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """(B_p − p)/m with p = 0.2 and m = 0.5: variance 0.64, kurtosis 3.25."""
    return ((rng.random((reps, L, d)) < 0.2) - 0.2) / 0.5


def uniform(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """Variance 1, kurtosis 9/5, sixth moment 27/7."""
    return rng.uniform(-np.sqrt(3), np.sqrt(3), (reps, L, d))


def laplace(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """Variance 1, kurtosis 6."""
    return rng.laplace(scale=np.sqrt(0.5), size=(reps, L, d))


def three_point(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """±2 with probability 1/8 each, else 0: variance 1, kurtosis 4, sixth moment 16."""
    return 2.0 * bernoulli(rng, reps, L, d) * (rng.random((reps, L, d)) < 0.25)


def sphere(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    rows = gaussian(rng, reps, L, d)
    return np.sqrt(d) * rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def orthogonal(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """QR of Gaussian columns, signs fixed so that the law is the uniform one."""

    def group(n: int) -> Array:
        q, r = np.linalg.qr(rng.standard_normal((reps, d, n)))
        signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
        return np.sqrt(d) * np.swapaxes(q * signs[:, None, :], 1, 2)

    return _in_groups(group, L, d)


def gram_schmidt(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """Each Gaussian row less its projections on the earlier ones, its length left as it is."""

    def group(n: int) -> Array:
        rows = rng.standard_normal((reps, n, d))
        for i in range(n):
            for j in range(i):
                earlier = rows[:, j]
                weight = (rows[:, i] * earlier).sum(-1) / (earlier**2).sum(-1)
                rows[:, i] -= weight[:, None] * earlier
        return rows

    return _in_groups(group, L, d)


def hadamard(rng: np.random.Generator, reps: int, L: int, d: int) -> Array:
    """Distinct rows of Sylvester's matrix, cut to d columns; a sign for each row and column."""
    order = 1
    while order < d:
        order *= 2
    matrix = hadamard_matrix(order).astype(float)

    def group(n: int) -> Array:
        rows = np.argsort(rng.random((reps, order)), axis=1)[:, :n]
        columns = 2.0 * rng.integers(0, 2, (reps, 1, d)) - 1.0
        return matrix[rows][:, :, :d] * columns * bernoulli(rng, reps, n, 1)

    return _in_groups(group, L, order)


def lean(L: int, d: int) -> float:
    """The twin of Hadamard rows: what E‖mean of ε‖² would have on top if rows had no signs.

    Column 0 is constant, and rows without replacement agree in the others by −1/(order − 1).
    """
    order = 1
    while order < d:
        order *= 2
    sizes = [min(order, L - first) for first in range(0, L, order)]
    pairs = sum(n * (n - 1) for n in sizes)
    return pairs / L**2 * (1 - (d - 1) / (order - 1))


def _in_groups(group: Callable[[int], Array], L: int, size: int) -> Array:
    return np.concatenate([group(min(size, L - first)) for first in range(0, L, size)], axis=1)


# Estimators.


class Objective(NamedTuple):
    """F(δ) = value + g·δ + ½ δᵀHδ, plus u + n·δ + ½ τ δᵀKδ with random u, n, τ for each sample.

    u has the variance `value_variance`, n independent entries of the variances `noise`, τ the
    variance `twist2`; u and τ have the correlation `correlation`, and n leans on u too.
    """

    gradient: Array
    noise: Array
    value_variance: float = 0.0
    value: float = 0.0
    hessian: Array | None = None
    twist: Array | None = None  # K
    twist2: float = 0.0
    correlation: float = 0.0


def squared_errors(
    rng: np.random.Generator,
    eps: Array,
    objective: Objective,
    *,
    samples: str,
    estimator: str,
    num_samples: int,
    spacing: float,
) -> Array:
    """‖ĝ − ∇F‖² of each replicate, the estimate computed from noisy values at literal points."""
    reps, L, d = eps.shape
    points = {
        "forward": [spacing * eps, 0.0 * eps],
        "antithetic": [spacing * eps, -spacing * eps],
        "one-point": [spacing * eps],
    }[estimator]
    draws = {
        "shared": (reps, 1, 1, num_samples),
        "paired": (reps, L, 1, num_samples),
        "independent": (reps, L, len(points), num_samples),
    }[samples]
    delta = np.stack(points, axis=2)[:, :, :, None, :]  # replicate, direction, point, sample, d

    w = rng.standard_normal(draws)
    u = np.sqrt(objective.value_variance) * w
    n = rng.standard_normal((*draws, d))
    n[..., 0] = 0.6 * w + 0.8 * n[..., 0]
    n *= np.sqrt(objective.noise)
    values = objective.value + u + (delta * (objective.gradient + n)).sum(-1)
    if objective.hessian is not None:
        values = values + 0.5 * ((delta @ objective.hessian) * delta).sum(-1)
    if objective.twist is not None:
        rho = objective.correlation
        tau = rho * w + np.sqrt(1 - rho**2) * rng.standard_normal(draws)
        tau *= np.sqrt(objective.twist2)
        values = values + 0.5 * tau * ((delta @ objective.twist) * delta).sum(-1)
    values = np.broadcast_to(values, (reps, L, len(points), num_samples)).mean(-1)

    if estimator == "forward":
        slopes = (values[..., 0] - values[..., 1]) / spacing
    elif estimator == "antithetic":
        slopes = (values[..., 0] - values[..., 1]) / (2 * spacing)
    else:
        slopes = values[..., 0] / spacing
    estimate = (slopes[:, :, None] * eps).mean(1)
    return ((estimate - objective.gradient) ** 2).sum(-1)
