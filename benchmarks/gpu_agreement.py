"""How far MuJoCo Warp's float32 physics stays with MuJoCo's: returns of the same episodes.

    python -m benchmarks.gpu_agreement [--device cuda]

Random linear policies, the same starts, episodes cut off after some steps; |Δ| is the difference of
returns. Beside it stands what MuJoCo itself makes of starts and policies that are rounded to
float32 once: that much is chaos. ``Ant-v5, elliptic`` is Ant-v5 with elliptic friction cones. Needs
the extra ``gpu``.
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.environments.physics import load_mujoco
from gensmooth.rl.environments.warp import WarpOptions, WarpSimulator, check_device
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear

NAMES = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Ant-v5, elliptic")


def differences(name: str, device: str, steps: int, episodes: int, scale: float) -> Any:
    """|Δ| of each episode by Warp and by rounding alone, and how many last equally long by Warp."""
    found: Any = catalogue.make(name.partition(",")[0])
    model = found.model
    if name.endswith("elliptic"):
        model.opt.cone = load_mujoco().mjtCone.mjCONE_ELLIPTIC
    environment = replace(
        found._environment, info=replace(found.info, horizon=steps), model=lambda: model
    )
    info = environment.info
    policy = Linear().policy(info.observation_size, info.action_size)
    x = scale * np.random.default_rng(1).standard_normal((episodes, policy.num_parameters))
    starts = found.starts([np.random.default_rng(i) for i in range(episodes)])
    asked = (policy, x, identity(info.observation_size), starts)
    mujoco = CompiledSimulator(environment, (int, ()))
    cpu = mujoco.rollout(*asked)
    gpu = WarpSimulator(environment, device, (int, ()), WarpOptions(worlds=episodes)).rollout(
        *asked
    )
    once = mujoco.rollout(policy, x.astype(np.float32), asked[2], starts.astype(np.float32))
    by_warp, by_rounding = (np.abs(cpu.returns - each.returns) for each in (gpu, once))
    return by_warp, by_rounding, (cpu.lengths == gpu.lengths).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="warp-cpu")
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--scale", type=float, default=0.1)
    given = parser.parse_args()
    device = check_device(given.device)
    print(
        "| environment | steps | median | largest | by rounding: median | largest | same length |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in NAMES:
        for steps in given.steps:
            *found, equal = differences(name, device, steps, given.episodes, given.scale)
            numbers = [f"{of(each):.0e}" for each in found for of in (np.median, np.max)]
            print("|", " | ".join([name, str(steps), *numbers, f"{equal:.0%}"]), "|", flush=True)


if __name__ == "__main__":
    main()
