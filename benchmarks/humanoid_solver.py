"""How exactly Humanoid's contacts are solved: returns of the same episodes by several solvers.

    python -m benchmarks.humanoid_solver [--device cuda]

Gymnasium's model asks for 50 sweeps of projected Gauss-Seidel (PGS), which do not reach the
minimum. Fused physics (docs/gpu.md) finds the minimum whatever the model asks for. |Δ| is the
difference of returns from MuJoCo's Newton method at full accuracy: for the model as it is, for PGS
with 2000 sweeps, for MuJoCo's Newton method at its usual tolerance, and for fused physics. All use
the same random linear policies and initial states; episodes are cut off after some steps. Needs the
extra ``cuda``.
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.mujoco_calls import load_mujoco
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.environments.warp import WarpOptions, WarpSimulator, check_device
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear

NAME = "Humanoid-v5"
NEWTON = load_mujoco().mjtSolver.mjSOL_NEWTON
SOLVERS: dict[str, dict[str, Any]] = {
    "exact": {"solver": NEWTON, "iterations": 200, "ls_iterations": 200, "tolerance": 0.0},
    "PGS, 50 sweeps": {},
    "PGS, 2000 sweeps": {"iterations": 2000, "tolerance": 0.0},
    "Newton": {"solver": NEWTON},
}


def environment(steps: int, options: dict[str, Any]) -> CompiledEnvironment:
    """The robot with short episodes and another solver."""
    original: Any = catalogue.make(NAME)._environment  # type: ignore[attr-defined]
    model = original.model()
    for name, value in options.items():
        setattr(model.opt, name, value)
    return replace(original, horizon=steps, model=lambda: model)


def returns(device: str, steps: int, episodes: int, scale: float) -> dict[str, np.ndarray]:
    """The returns of the same episodes, by solver."""
    simulator: Any = catalogue.make(NAME)
    info = simulator.info
    policy = Linear().policy(info.observation_size, info.action_size)
    x = scale * np.random.default_rng(1).standard_normal((episodes, policy.num_parameters))
    starts = simulator.starts([np.random.default_rng(i) for i in range(episodes)])
    asked = (policy, x, identity(info.observation_size), starts)
    by_solver = {
        name: CompiledSimulator(environment(steps, options), (int, ())).rollout(*asked).returns
        for name, options in SOLVERS.items()
    }
    options = WarpOptions(worlds=episodes, physics="fused")
    one = WarpSimulator(environment(steps, {}), device, (int, ()), options)
    return {**by_solver, "fused": one.rollout(*asked).returns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="warp-cpu")
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--scale", type=float, default=0.003)
    options = parser.parse_args()
    device = check_device(options.device)
    for index, steps in enumerate(options.steps):
        by_solver = returns(device, steps, options.episodes, options.scale)
        exact = by_solver.pop("exact")
        if not index:
            print("| steps | mean return |", " | ".join(by_solver), "|")
            print(f"|---|---|{'---|' * len(by_solver)}")
        gaps = [np.abs(values - exact) for values in by_solver.values()]
        cells = [f"{np.median(gap):.0e}, at most {gap.max():.0e}" for gap in gaps]
        print(f"| {steps} | {exact.mean():.1f} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
