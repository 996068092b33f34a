"""How far physics on a GPU stays with MuJoCo's: returns of the same episodes, by each engine.

    python -m benchmarks.gpu_agreement [--device cuda]

Random linear policies, the same starts, episodes cut off after some steps; |Δ| is the difference of
returns. Beside it stands what MuJoCo itself makes of starts and policies that are rounded once, to
float32 or, for fused physics, in the last digit of float64: that much is chaos. ``Ant-v5,
elliptic`` is Ant-v5 with elliptic friction cones. Needs the extra ``cuda``; rows of MuJoCo Warp are
left out where the extra ``gpu`` is not installed.
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
    """|Δ| of each episode by Warp and by rounding alone, and how many last equally long by Warp."""
    found: Any = catalogue.make(name.partition(",")[0])
    model = found.model
    if name.endswith("elliptic"):
        model.opt.cone = load_mujoco().mjtCone.mjCONE_ELLIPTIC
    environment = replace(found._environment, horizon=steps, model=lambda: model)
    info = environment
    policy = Linear().policy(info.observation_size, info.action_size)
    x = scale * np.random.default_rng(1).standard_normal((episodes, policy.num_parameters))
    starts = found.starts([np.random.default_rng(i) for i in range(episodes)])
    asked = (policy, x, identity(info.observation_size), starts)
    mujoco = CompiledSimulator(environment, (int, ()))
    cpu = mujoco.rollout(*asked)
    options = WarpOptions(worlds=episodes, physics=physics)
    gpu = WarpSimulator(environment, device, (int, ()), options).rollout(*asked)
    once = mujoco.rollout(policy, rounded(x, physics), asked[2], rounded(starts, physics))
    by_warp, by_rounding = (np.abs(cpu.returns - each.returns) for each in (gpu, once))
    return by_warp, by_rounding, (cpu.lengths == gpu.lengths).mean()


def rounded(values: Any, physics: str) -> Any:
    """As float32, or the next number in float64."""
    return np.nextafter(values, np.inf) if physics == "fused" else values.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="warp-cpu")
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--scale", type=float, default=0.1)
    given = parser.parse_args()
    device = check_device(given.device)
    head = ("environment", "physics", "steps", "median", "largest", "by rounding: median")
    print("|", " | ".join([*head, "largest", "same length"]), "|")
    print("|---|---|---|---|---|---|---|---|")
    engines = ["fused", *(["mujoco-warp"] if find_spec("mujoco_warp") else [])]
    for name in NAMES:
        for physics in engines:
            if physics == "fused" and name.endswith("elliptic"):
                continue
            for steps in given.steps:
                *found, equal = differences(
                    *(name, physics, device),
                    steps=steps,
                    episodes=given.episodes,
                    scale=given.scale,
                )
                numbers = [f"{of(each):.0e}" for each in found for of in (np.median, np.max)]
                row = [name, physics, str(steps), *numbers, f"{equal:.0%}"]
                print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
