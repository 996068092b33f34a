"""
A noisy experiment, with error bars
===================================

The yield of a reaction depends on temperature, time, pH and stirring, and no two measurements
agree. The default notices the noise, and its answer has an error bar. The figure shows five budgets
with ten repetitions each, next to the true yield, which the search never sees.
"""

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs

BEST = np.array([70.0, 30.0, 7.2, 300.0])
UNITS = np.array([20.0, 15.0, 1.0, 150.0])  # how far apart interesting values are
NOISE = 2.0  # percent


def true_yield(x):
    """The yield without noise: at best 90 %."""
    away = (x - BEST) / UNITS
    return 90 * float(np.exp(-0.5 * (away @ away + away[0] * away[1])))


def measured(x, rng):
    """One experiment."""
    return true_yield(x) + NOISE * rng.standard_normal()


start = BEST + UNITS * [1, -1, 0.5, 1]
print(f"start: a yield of {true_yield(start):.0f} %")
budgets = [50, 100, 200, 400, 800]
found = {
    budget: [
        gs.minimize(
            measured,
            start,
            maximize=True,
            samples="independent",
            x_scale=UNITS,
            budget=budget,
            seed=seed,
        )
        for seed in range(10)
    ]
    for budget in budgets
}

last = found[800][0]
print(f"after 800 experiments: {last.fun:.1f} ± {last.error:.1f} %, at {last.x.round(1)}")
print(f"the truth there: {true_yield(last.x):.1f} %; the noise was estimated at {last.noise:.1f}")

# %%
# Estimates with their standard errors, and the true yield at the same points (crosses).

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for place, (_, results) in enumerate(found.items()):
    where = place + np.linspace(-0.3, 0.3, len(results))
    errors = [each.error or 0 for each in results]
    axes.errorbar(where, [each.fun for each in results], errors, fmt="o", ms=3, color="C0")
    axes.plot(where, [true_yield(each.x) for each in results], "x", color="C1")
axes.plot([], [], "o", ms=3, color="C0", label="what the run reports")
axes.plot([], [], "x", color="C1", label="the truth")
axes.axhline(90, color="black", linewidth=0.8, linestyle=":")
axes.set(xticks=range(len(budgets)), xticklabels=budgets, xlabel="experiments", ylabel="yield, %")
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Are the error bars right? The truth should be within two of them in about 95 of 100 runs.

runs = [each for results in found.values() for each in results if each.error]
reached = sum(abs(each.fun - true_yield(each.x)) < 2 * each.error for each in runs)
print(f"it is in {reached} of {len(runs)}")
