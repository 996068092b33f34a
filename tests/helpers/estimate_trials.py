"""Experiments on the error of estimates, for tests and for `python -m benchmarks.errors`."""

import math
from typing import Any

import numpy as np

import gensmooth as gs
import theory_literal as literal
from gensmooth import theory


def cosines(
    family: Any, seed: int, rate: float, *, d: int = 60, k: int = 3, steps: int = 150, L: int = 5
) -> float:
    """cos² between estimate and gradient, of a function of k combinations of its parameters."""
    rng = np.random.default_rng(1000 + seed)
    active, _ = np.linalg.qr(rng.standard_normal((d, k)))
    curvature = np.array([1.0, 0.6, 0.3])

    def fun(x):
        return float(curvature @ (active.T @ x - 1) ** 2)

    search = gs.RandomSearch(
        family, num_directions=L,
        spacing=1e-3 * math.sqrt(d) if isinstance(family, gs.Guided) else 1e-3,
        estimator=gs.Antithetic(), optimizer=gs.sgd(rate),
    )  # fmt: skip
    state, found = search.init(np.zeros(d), seed=seed), []
    for step in range(steps):
        gradient = active @ (2 * curvature * (active.T @ state.x - 1))
        batch = search.ask(state)
        values = [fun(x) for x in batch.points()]
        estimate = search.estimate(batch, values).gradient
        if step >= 50:
            scale = (estimate @ estimate) * (gradient @ gradient)
            found.append((estimate @ gradient) ** 2 / scale)
        state, _ = search.tell(state, batch, values)
    return float(np.mean(found))


class Trial:
    """Estimates of unit gradients (G = 1) by coins at c = 1, and shares of some steps' values."""

    def __init__(self, seed, *, d=50, L=10, ratio, repeats, steps, estimator="antithetic"):
        rng, reps = np.random.default_rng(seed), 4_000
        self.moments = theory.iid(d, L, kurtosis=1.0)
        self.true_share = ratio / (1 + ratio)
        s2 = ratio / theory.slope_noise(1.0, spacing=1.0, estimator=estimator)
        self.gradient = literal.sphere(rng, reps, 1, d)[:, 0] / np.sqrt(d)
        self.squares = np.zeros(reps)
        total = np.zeros(reps)
        for _ in range(steps):
            eps = literal.bernoulli(rng, reps, L, d)
            here = np.sqrt(s2) * rng.standard_normal((reps, L))
            there = np.sqrt(s2) * rng.standard_normal((reps, L if estimator == "antithetic" else 1))
            slopes = np.einsum("rld,rd->rl", eps, self.gradient)
            slopes += (here - there) / (2 if estimator == "antithetic" else 1)
            squares = (slopes**2).mean(1)
            variance = s2 * (rng.standard_normal((reps, repeats)) ** 2).mean(1)
            noise = [theory.slope_noise(v, spacing=1.0, estimator=estimator) for v in variance]
            total += (L - 2) / L * np.array(noise) / squares
        self.slope_squares = squares
        self.shares = total / steps
        self.estimate = (slopes[:, :, None] * eps).mean(1)

    def errors(self, factors) -> literal.Array:
        return ((np.reshape(factors, (-1, 1)) * self.estimate - self.gradient) ** 2).sum(-1)

    @property
    def blind(self) -> literal.Array:
        return self.errors(theory.optimal_scale(self.moments))

    @property
    def known(self) -> literal.Array:
        return self.errors(theory.noisy_scale(self.moments, self.true_share))

    @property
    def estimated(self) -> literal.Array:
        return self.errors([theory.noisy_scale(self.moments, share) for share in self.shares])
