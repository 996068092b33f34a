"""
Directions of your own
======================

A family of directions is one class. It says how a block of directions is drawn, and gives the three
moments that determine the error of an estimate. Here, a direction is a random axis with a random
sign, so each difference changes one parameter. Shrinkage, `minimize` and everything else work with
it at once.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs
from gensmooth.directions import dense
from gensmooth.theory import Moments


@dataclass(frozen=True)
class Axes(gs.Directions):
    """±√d e_j, with j uniform on 1, …, d."""

    def draw(self, state, at):
        """A block of L rows; the same address gives the same rows."""
        rng = at.generator()
        block = np.zeros((at.num_directions, at.dim), at.dtype)
        axis = rng.integers(0, at.dim, at.num_directions)
        sign = rng.choice([-1, 1], at.num_directions)
        block[np.arange(at.num_directions), axis] = sign * np.sqrt(at.dim)
        return dense(block)

    def moments(self, dim, num_directions):
        """With A = (1/L) Σ εεᵀ: E A = I, E A² = (1 + (d − 1)/L) I, E ε‖ε‖²εᵀ = d I."""
        second = 1 + (dim - 1) / num_directions
        return Moments(1.0, second, float(dim), dim, num_directions)


# %%
# The moments predict the error of the estimate. We measure it on a linear function, where only the
# choice of the directions causes an error:

dim, gradient = 50, np.random.default_rng(0).standard_normal(50)
families = {"Axes": Axes(), "Axes, shrunk": gs.shrunk(Axes()), "Bernoulli": gs.Bernoulli()}
counts = [1, 2, 5, 10, 20, 50]


def measured(directions, num_directions):
    """The mean of ‖estimate − ∇F‖² / ‖∇F‖² over 400 estimates."""
    errors = [
        gs.gradient(
            lambda x: float(gradient @ x),
            np.zeros(dim),
            directions=directions,
            num_directions=num_directions,
            seed=seed,
        ).gradient
        - gradient
        for seed in range(400)
    ]
    return float(np.mean(np.square(errors).sum(axis=1)) / (gradient @ gradient))


figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for colour, (name, directions) in enumerate(families.items()):
    predicted = [gs.theory.relative_mse(directions.resolve(dim, L).moments(dim, L)) for L in counts]
    axes.plot(counts, predicted, color=f"C{colour}", label=f"{name}, predicted")
    axes.plot(counts, [measured(directions, L) for L in counts], "o", color=f"C{colour}")
axes.set(xscale="log", yscale="log", xlabel="directions, L", ylabel="error of the estimate")
axes.legend(frameon=False)
plt.show()

# %%
# A search with these directions:

res = gs.minimize(
    lambda x: float(((x - 1) ** 2).sum()),
    np.zeros(dim),
    directions=Axes(),
    num_directions=10,
    budget=5000,
    seed=0,
)
print(f"from {dim} to {res.fun:.2g} in {res.nfev} evaluations")
