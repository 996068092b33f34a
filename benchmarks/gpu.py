"""Training on a GPU: how much of the bare physics is left, and how long a robot takes to learn.

    python -m benchmarks.gpu speed Hopper-v5 2048 [Ant-v5 8192 ...]
    python -m benchmarks.gpu train HalfCheetah-v5 --target 3000 --seconds 90 [--seed 0]

``speed`` steps a batch of worlds, once whole (refill, observation, policy, physics, reward), once
the physics alone with the same controls. ``train`` trains with no option and tests each iteration
on 64 episodes; it says when a test first reaches the target, and when five in a row have (the
plateau); time counts from the first iteration's end if kernels had to be compiled, which is said.
Needs the extra ``gpu``; ``--device warp-cpu`` tries it without a GPU.
"""

import argparse
import time
from typing import Any

import numpy as np

import gensmooth as gs
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.environments.warp import modules
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear

PLATEAU = 5  # tests in a row


def speed(name: str, worlds: int, device: str, steps: int) -> str:
    """The whole step and the bare physics of so many worlds."""
    wp, _ = modules()
    simulator: Any = catalogue.make(name, device=device)
    info = simulator.info
    policy = Linear().policy(info.observation_size, info.action_size)
    x = 0.02 * np.random.default_rng(0).standard_normal((worlds, policy.num_parameters))
    starts = simulator.starts([np.random.default_rng(i) for i in range(worlds)])
    scalings = [identity(info.observation_size)]
    given = Grouped(x, starts, scalings, np.zeros(worlds, np.int64))
    batch = simulator._batch(policy, given)
    batch._s.horizon = 10**6

    def reset() -> None:
        batch._upload(given)
        batch._look_at_starts(worlds)
        batch._prepare_queue(worlds)

    with wp.ScopedDevice(batch._device):
        cuda = wp.get_device().is_cuda
        reset()
        batch._step()  # loads every kernel
        whole, bare = batch._step, batch.physics
        if cuda:
            batch._capture()
            with wp.ScopedCapture() as capture:
                batch.physics()
            whole, bare = (
                lambda graph=graph: wp.capture_launch(graph)
                for graph in (batch._graph, capture.graph)
            )
        reset()
        controls = []
        for _ in range(steps):
            whole()
            controls.append(wp.clone(batch._data.ctrl))
        best = {"whole": np.inf, "bare": np.inf}
        for _ in range(3):
            reset()
            wp.synchronize_device()
            began = time.perf_counter()
            for _ in range(steps):
                whole()
            wp.synchronize_device()
            best["whole"] = min(best["whole"], time.perf_counter() - began)
            reset()
            batch._clear(everything=True)
            wp.launch(batch._kernels.place, dim=worlds, inputs=[batch._s, 0])
            wp.synchronize_device()
            began = time.perf_counter()
            for given_controls in controls:
                wp.copy(batch._data.ctrl, given_controls)
                bare()
            wp.synchronize_device()
            best["bare"] = min(best["bare"], time.perf_counter() - began)
    return (
        f"| {name} | {worlds} | {1e3 * best['whole'] / steps:.2f} ms | "
        f"{worlds * steps / best['whole']:,.0f} | {best['bare'] / best['whole']:.3f} |"
    )


def train(name: str, target: float, seconds: float, seed: int, device: str) -> None:
    """Train with no option, and say when the target is reached, and when it is held."""
    began = time.perf_counter()
    held = 0

    def look(iteration: Any, test: Any, state: Any) -> bool:  # noqa: ARG001
        nonlocal held
        now = time.perf_counter() - began
        held = held + 1 if test.mean_return >= target else 0
        words = " reached" if held == 1 else f" held {held}" if held else ""
        print(
            f"{test.step:4} {now:7.1f} s {test.env_steps:13,} steps, length "
            f"{iteration.mean_length:4.0f}, test {test.mean_return:7.0f} ± "
            f"{test.deviation:.0f}{words}",
            flush=True,
        )
        return held == PLATEAU or now > seconds

    found = gs.rl.train(
        name,
        device=device,
        seed=seed,
        iterations=10**6,
        test_every=1,
        test_episodes=64,
        target=None,
        callback=look,
    )
    print(found)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed")
    fast.add_argument("what", nargs="+", help="environments, each with a number of worlds")
    fast.add_argument("--steps", type=int, default=100)
    learn = commands.add_parser("train")
    learn.add_argument("environment")
    learn.add_argument("--target", type=float, required=True)
    learn.add_argument("--seconds", type=float, default=300.0)
    learn.add_argument("--seed", type=int, default=0)
    for each in (fast, learn):
        each.add_argument("--device", default="cuda")
    given = parser.parse_args()
    if given.command == "train":
        train(given.environment, given.target, given.seconds, given.seed, given.device)
        return
    print("| environment | worlds | a step | env steps/s | of the bare physics |")
    print("|---|---|---|---|---|")
    for name, worlds in zip(given.what[0::2], given.what[1::2], strict=True):
        print(speed(name, int(worlds), given.device, given.steps), flush=True)


if __name__ == "__main__":
    main()
