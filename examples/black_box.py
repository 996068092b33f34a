"""
A black box with bounds and failures
====================================

We look for the lightest cantilever beam that carries its load. It has five segments with heights
between 1 and 10. The simulator raises an error if the beam bends too far, and the best beam almost
does. With ``on_failure="drop"``, a point that fails counts as worse than any other.
"""

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs

BEST = 1.33996  # the lightest beam, known from the literature


class WeakBeamError(Exception):
    """The beam bends too far."""


def weight(heights):
    """The weight of a beam that is stiff enough (Svanberg's problem)."""
    if (np.array([61, 37, 19, 7, 1]) / heights**3).sum() > 1:
        raise WeakBeamError
    return 0.0624 * heights.sum()


tried = []


def recorded(heights):
    try:
        tried.append(weight(heights))
    except WeakBeamError:
        tried.append(np.nan)
        raise
    return tried[-1]


start = np.full(5, 9.0)
res = gs.minimize(recorded, start, bounds=(1, 10), on_failure="drop", budget=3000, seed=0)
print(f"heights {res.x.round(2)}, weight {res.fun:.4f}; the best is {BEST}")
print(f"{res.nfev} evaluations, {res.faults['exception']} of them failed")

# %%
# All beams that carry the load, the lightest so far, and the evaluations that failed.

values = np.array(tried)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(values, ".", color="C0", alpha=0.25, label="a beam that carries the load")
axes.plot(np.fmin.accumulate(values), color="C0", label="the lightest so far")
failed = np.flatnonzero(np.isnan(values))
axes.plot(failed, np.full(failed.size, 1.2), "|", color="C3", label="failed")
axes.axhline(BEST, color="black", linewidth=0.8, linestyle=":", label="the optimum")
axes.set(xlabel="evaluations", ylabel="weight", ylim=(1.1, 3.2))
axes.legend(frameon=False)
plt.show()
