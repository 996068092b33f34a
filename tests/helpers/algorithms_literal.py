"""The published equations, transcribed literally: one step of each, fed with its directions.

Nothing here is the library's. Signs are for a minimum; letters are those of the sources.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def ars(theta: Array, delta: Array, plus: Array, minus: Array, *, alpha: float, b: int) -> Array:
    """Mania, Guy & Recht (2018), algorithm 2, lines 5 to 7, for rewards −F."""
    r_plus, r_minus = -plus, -minus
    order = sorted(range(len(delta)), key=lambda k: -max(r_plus[k], r_minus[k]))[:b]
    used = [r for k in order for r in (r_plus[k], r_minus[k])]
    sigma_R = math.sqrt(sum((r - sum(used) / len(used)) ** 2 for r in used) / len(used))
    total = np.zeros_like(theta)
    for k in order:
        total += (r_plus[k] - r_minus[k]) * delta[k]
    return theta + alpha / (b * sigma_R) * total


class OpenAI:
    """Salimans et al. (2017), and the Adam of their program (Kingma & Ba, algorithm 1)."""

    def __init__(self, dim: int, *, stepsize: float, l2coeff: float) -> None:
        self.m, self.v, self.t = np.zeros(dim), np.zeros(dim), 0
        self.stepsize, self.l2coeff = stepsize, l2coeff

    def step(self, theta: Array, noise: Array, plus: Array, minus: Array) -> Array:
        returns = -np.stack([plus, minus], axis=1)
        ranks = np.empty(returns.size)
        ranks[returns.ravel().argsort()] = np.arange(returns.size)
        shaped = (ranks / (returns.size - 1) - 0.5).reshape(returns.shape)
        g = np.zeros_like(theta)
        for i in range(len(noise)):
            g += (shaped[i, 0] - shaped[i, 1]) * noise[i]
        g /= returns.size
        g = -g + self.l2coeff * theta
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g * g
        m_hat, v_hat = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return theta - self.stepsize * m_hat / (np.sqrt(v_hat) + 1e-8)


def spsa(theta: Array, delta: Array, y: list[float], k: int, *, a: float, c: float, A: float):
    """Spall (1998), steps 2 to 5; with one value, Spall (1997)."""
    a_k, c_k = a / (A + k + 1) ** 0.602, c / (k + 1) ** 0.101
    ghat = (y[0] - y[1]) / (2 * c_k * delta) if len(y) == 2 else y[0] / (c_k * delta)
    return theta - a_k * ghat


def utilities(fitness: Array) -> Array:
    """Wierstra et al. (2014), section 3.1, for values of which the smallest is the best."""
    n = len(fitness)
    rank = {int(index): place for place, index in enumerate(np.argsort(fitness), 1)}
    raw = [max(0.0, math.log(n / 2 + 1) - math.log(rank[k])) for k in range(n)]
    return np.array([r / sum(raw) - 1 / n for r in raw])


def snes(mu: Array, sigma: Array, s: Array, fitness: Array) -> tuple[Array, Array]:
    """Algorithm 6, with the rates of table 1."""
    d, u = len(mu), utilities(fitness)
    grad_mu, grad_sigma = np.zeros(d), np.zeros(d)
    for k in range(len(s)):
        grad_mu += u[k] * s[k]
        grad_sigma += u[k] * (s[k] ** 2 - 1)
    eta_sigma = (3 + math.log(d)) / (5 * math.sqrt(d))
    return mu + sigma * grad_mu, sigma * np.exp(eta_sigma / 2 * grad_sigma)


def xnes(mu: Array, sigma: float, B: Array, s: Array, fitness: Array):
    """Algorithm 5, with the rates of table 1 and the exponential by eigenvectors."""
    d, u, one = len(mu), utilities(fitness), np.eye(len(mu))
    grad_delta = sum(u[k] * s[k] for k in range(len(s)))
    grad_M = sum(u[k] * (np.outer(s[k], s[k]) - one) for k in range(len(s)))
    grad_sigma = np.trace(grad_M) / d
    grad_B = grad_M - grad_sigma * one
    eta = (9 + 3 * math.log(d)) / (5 * d * math.sqrt(d))
    values, vectors = np.linalg.eigh(eta / 2 * grad_B)
    return (
        mu + sigma * B @ grad_delta,
        sigma * math.exp(eta / 2 * grad_sigma),
        B @ (vectors * np.exp(values)) @ vectors.T,
    )
