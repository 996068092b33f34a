"""Minimise a shifted ellipsoid in four dimensions."""

import optuna
import optunahub

module = optunahub.load_module("samplers/gensmooth")


def objective(trial: optuna.Trial) -> float:
    """One parameter per axis, each with a curvature of its own."""
    total = 0.0
    for i in range(4):
        x = trial.suggest_float(f"x{i}", -5, 5)
        total += 10 ** (i / 3) * (x - 1) ** 2
    return total


study = optuna.create_study(sampler=module.GensmoothSampler(budget=300, seed=0))
study.optimize(objective, n_trials=300)
print(study.best_value, study.best_params)
