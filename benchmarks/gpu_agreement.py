"""How closely physics on a GPU agrees with MuJoCo: returns of the same episodes, by each engine.

    python -m benchmarks.gpu_agreement [--device cuda]

Random linear policies, the same starts, episodes cut off after some steps; |Δ| is the difference of
returns. For comparison, the last columns have the differences when MuJoCo itself starts from
rounded starts and policies, to float32 or, for fused physics, by one unit in the last place of
float64: so large an error is chaos. ``Ant-v5, elliptic`` is Ant-v5 with elliptic friction cones.
Needs the extra ``cuda``; rows of MuJoCo Warp are left out if the extra ``gpu`` is not installed.
"""

import argparse
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from gensmooth.physics.mujoco_calls import load_mujoco
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.environments.warp import WarpOptions, WarpSimulator, check_device
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear

NAMES = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Ant-v5, elliptic")


def differences(
    name: str, physics: str, device: str, *, steps: int, episodes: int, scale: float
) -> Any:
    """|Δ| of each episode by Warp and by rounding, and the share with the same length by Warp."""
    simulator: Any = catalogue.make(name.partition(",")[0])
    model = simulator.model
    if name.endswith("elliptic"):
        model.opt.cone = load_mujoco().mjtCone.mjCONE_ELLIPTIC
    environment = replace(simulator._environment, horizon=steps, model=lambda: model)
    info = environment
    policy = Linear().policy(info.observation_size, info.action_size)
    x = scale * np.random.default_rng(1).standard_normal((episodes, policy.num_parameters))
    starts = simulator.starts([np.random.default_rng(i) for i in range(episodes)])
    asked = (policy, x, identity(info.observation_size), starts)
    mujoco = CompiledSimulator(environment, (int, ()))
    cpu = mujoco.rollout(*asked)
    options = WarpOptions(worlds=episodes, physics=physics)
    gpu = WarpSimulator(environment, device, (int, ()), options).rollout(*asked)
    once = mujoco.rollout(policy, rounded(x, physics), asked[2], rounded(starts, physics))
    by_warp, by_rounding = (np.abs(cpu.returns - other.returns) for other in (gpu, once))
    return by_warp, by_rounding, (cpu.lengths == gpu.lengths).mean()


def rounded(values: Any, physics: str) -> Any:
    """The values as float32 or, for fused physics, the next larger float64 numbers."""
    return np.nextafter(values, np.inf) if physics == "fused" else values.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="warp-cpu")
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--scale", type=float, default=0.1)
    options = parser.parse_args()
    device = check_device(options.device)
    head = ("environment", "physics", "steps", "median", "largest", "by rounding: median")
    print("|", " | ".join([*head, "largest", "same length"]), "|")
    print("|---|---|---|---|---|---|---|---|")
    engines = ["fused", *(["mujoco-warp"] if find_spec("mujoco_warp") else [])]
    for name in NAMES:
        for physics in engines:
            if physics == "fused" and name.endswith("elliptic"):
                continue
            for steps in options.steps:
                *gaps, equal = differences(
                    *(name, physics, device),
                    steps=steps,
                    episodes=options.episodes,
                    scale=options.scale,
                )
                numbers = [f"{of(gap):.0e}" for gap in gaps for of in (np.median, np.max)]
                row = [name, physics, str(steps), *numbers, f"{equal:.0%}"]
                print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
