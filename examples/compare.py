"""
Which method for my function?
=============================

``gs.compare`` runs several methods on one function, with equal budgets and the same seeds. For
every pair it says which is better, and whether the difference is more than chance. It also writes a
page with curves and tables.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs


def loss(x, rng):
    """An ellipsoid with noise."""
    return float(np.linspace(0.5, 5, x.size) @ (x - 1) ** 2 + 0.3 * rng.standard_normal())


def truth(x):
    """The value without noise. It judges the methods, which do not see it."""
    return float(np.linspace(0.5, 5, x.size) @ (x - 1) ** 2)


with tempfile.TemporaryDirectory() as out:
    found = gs.compare(
        loss,
        np.zeros(20),
        methods=["auto", "gs", "bes", "bes-shrinkage"],
        seeds=6,
        budget=600,
        samples="independent",
        score=truth,
        folder=Path(out),
    )
print(found)

# %%
# The final values of each method: a point for each seed, and the mean with its 95 % interval.

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for place, standing in enumerate(found.standings):
    axes.plot(standing.values, np.full(len(standing.values), place), "o", alpha=0.4)
    ends = [[standing.mean - standing.low], [standing.high - standing.mean]]
    axes.errorbar([standing.mean], [place], xerr=ends, fmt="k|", capsize=3)
axes.set(xscale="log", xlabel="final value without noise; lower is better")
axes.set_yticks(range(len(found.standings)), [standing.label for standing in found.standings])
axes.invert_yaxis()
plt.show()
