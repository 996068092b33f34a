"""Minimise a noisy function with the paper's six methods and plot their progress.

Run it with: python examples/six_methods.py --out demo
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gensmooth as gs

PAPER = [name for name, entry in gs.directions.METHODS.items() if entry.in_paper]
SEEDS = 5


def objective(x, rng):
    """An ellipsoid in 100 dimensions, with noise."""
    scales = np.linspace(0.5, 2.0, x.size)
    return float(scales @ (x - 1) ** 2 + 0.1 * rng.standard_normal())


def runs(method):
    """The true value after each step, for each seed."""
    scales = np.linspace(0.5, 2.0, 100)
    curves = []
    for seed in range(SEEDS):
        curve = []
        gs.minimize(
            objective,
            np.zeros(100),
            method=method,
            num_directions=20,
            samples="independent",
            optimizer=gs.adam(0.02),
            max_steps=300,
            budget=100_000,
            callback=lambda now, curve=curve: curve.append(scales @ (now.x - 1) ** 2),
            seed=seed,
        )
        curves.append(curve)
    return np.array(curves)


def main():
    """Run all methods, draw the figure and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the figure")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for method in PAPER:
        curves = runs(method)
        mean = curves.mean(axis=0)
        evaluations = 40 * np.arange(1, curves.shape[1] + 1)
        (line,) = axes.plot(evaluations, mean, label=gs.directions.METHODS[method].title)
        axes.fill_between(
            evaluations, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.15
        )
        print(f"{gs.directions.METHODS[method].title:15} {mean[-1]:8.4f}")
    axes.set(yscale="log", xlabel="evaluations", ylabel="objective without noise")
    axes.set_title(f"A noisy ellipsoid, d = 100, L = 20: mean and range of {SEEDS} seeds")
    axes.legend(frameon=False)
    figure.savefig(out / "six_methods.png", dpi=150)
    print(f"\nfigure: {out / 'six_methods.png'}")


if __name__ == "__main__":
    main()
