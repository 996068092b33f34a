"""The problems written out by their definitions, as the yardstick for `gensmooth.problems`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import special_ortho_group

Array = NDArray[np.float64]


class Points(NamedTuple):
    """Data points with the parameters behind them."""

    x: Array
    y: Array
    gamma: Array
    rotation: Array


def points(rng: np.random.Generator, number: int, dim: int) -> Points:
    """Eq. `linregmodel`, literally: a special orthogonal matrix for every point."""
    gamma = rng.uniform(0, 2, (number, dim))
    rotation = special_ortho_group.rvs(dim, size=number, random_state=rng)
    z = rng.standard_normal((number, dim))
    x = np.einsum("nij,nj->ni", rotation, np.sqrt(gamma) * z)
    noise = np.sqrt(rng.uniform(0, 2, number)) * rng.standard_normal(number)
    return Points(x, (gamma * x).sum(axis=1) + noise, gamma, rotation)


def another_gamma(rng: np.random.Generator, number: int, dim: int) -> Points:
    """A twin: the response forgets the γ that its point was drawn with."""
    p = points(rng, number, dim)
    y = (rng.uniform(0, 2, (number, dim)) * p.x).sum(axis=1)
    y += np.sqrt(rng.uniform(0, 2, number)) * rng.standard_normal(number)
    return p._replace(y=y)


def one_gamma(rng: np.random.Generator, number: int, dim: int) -> Points:
    """A twin: γ is drawn once for all points."""
    gamma = np.broadcast_to(rng.uniform(0, 2, dim), (number, dim))
    z = rng.standard_normal((number, dim))
    rotation = special_ortho_group.rvs(dim, size=number, random_state=rng)
    x = np.einsum("nij,nj->ni", rotation, np.sqrt(gamma) * z)
    noise = np.sqrt(rng.uniform(0, 2, number)) * rng.standard_normal(number)
    return Points(x, (gamma * x).sum(axis=1) + noise, gamma, rotation)


def isotropic(rng: np.random.Generator, number: int, dim: int) -> Points:
    """A twin with the right E[xxᵀ] = I: standard normal x."""
    gamma = rng.uniform(0, 2, (number, dim))
    x = rng.standard_normal((number, dim))
    noise = np.sqrt(rng.uniform(0, 2, number)) * rng.standard_normal(number)
    eye = np.broadcast_to(np.eye(dim), (number, dim, dim))
    return Points(x, (gamma * x).sum(axis=1) + noise, gamma, eye)


def z_score(samples: Array, expected: float) -> float:
    """Distance of the mean from ``expected`` in Monte Carlo standard errors."""
    return float((samples.mean() - expected) / (samples.std(ddof=1) / np.sqrt(len(samples))))


def z_between(first: Array, second: Array) -> float:
    """Distance of two means in standard errors of their difference."""
    error2 = first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second)
    return float((first.mean() - second.mean()) / np.sqrt(error2))
