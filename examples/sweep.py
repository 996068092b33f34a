"""
Which settings for my method?
=============================

``gs.sweep`` tries spacings, learning rates or other options of a method on a grid. It chooses on
some seeds and judges the best settings on fresh ones, because the winner among many was partly
lucky.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs


def loss(x, rng):
    """A noisy bowl: small spacings measure only noise, large ones are far from local."""
    return float(((x - 1) ** 2).sum() + 0.1 * rng.standard_normal())


spacings, rates = [0.01, 0.1, 1.0], [0.01, 0.03, 0.1]
with tempfile.TemporaryDirectory() as out:
    found = gs.sweep(
        loss,
        np.zeros(10),
        method="bes",
        spacing=spacings,
        learning_rate=rates,
        seeds=3,
        fresh_seeds=5,
        budget=400,
        samples="independent",
        score=lambda x: float(((x - 1) ** 2).sum()),
        folder=Path(out),
    )
print(found)

# %%
# The mean final value of each pair; the best is marked.

means = {(cell.values["spacing"], cell.values["learning_rate"]): cell.mean for cell in found.cells}
table = np.array([[means[c, rate] for rate in rates] for c in spacings])
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
image = axes.imshow(np.log10(table), cmap="viridis_r")
best = found.best[0].values
axes.plot(rates.index(best["learning_rate"]), spacings.index(best["spacing"]), "r*", markersize=16)
axes.set(xlabel="learning rate η", ylabel="spacing c")
axes.set_xticks(range(len(rates)), rates)
axes.set_yticks(range(len(spacings)), spacings)
figure.colorbar(image, label="log₁₀ of the final value")
plt.show()
