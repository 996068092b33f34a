"""Episodes on a GPU: steps per second, and the share of physics in their time.

    python -m benchmarks.gpu speed Hopper-v5 2048 [Ant-v5 8192 ...] [--physics mujoco-warp]
    python -m benchmarks.gpu core Hopper-v5 Walker2d-v5 HalfCheetah-v5 Ant-v5
    python -m benchmarks.gpu groups Ant-v5 1200 [Ant-v5 3264 ...]
    python -m benchmarks.gpu live Hopper-v5 [Walker2d-v5 ...] [--device warp-cpu]

``speed`` steps a batch of worlds, first entire steps (refill, observation, policy, physics,
reward), then the physics alone, from states in between. A world whose episode ends gets another
one, as in a training; the last column is the share of worlds that still had one at the end.
``core`` runs the same episodes by MuJoCo and by fused physics on one core of the processor, in
turns. ``groups`` runs entire episodes with the worlds split into one, two and four groups of 32
threads per multiprocessor, in turns. ``live`` trains by the default method and prints the share of
an H200's threads that had an episode: first of the threads of all worlds until the last episode
ends, then of the groups of 32 with at least one episode, since the others cost nothing.
(``benchmarks.training`` measures how fast a robot learns.)
Needs the extra ``cuda`` or ``gpu``; ``--device warp-cpu`` tries it without a GPU.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import numpy as np

import gensmooth as gs
from gensmooth.physics import drivers
from gensmooth.physics.drivers import load_warp
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.environments.gathering import Grouped
from gensmooth.rl.environments.warp import WarpOptions, WarpSimulator, check_device
from gensmooth.rl.environments.worlds_batch import WorldsBatch
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear

EPISODES = 8  # for each world
PIECE = 10  # steps of bare physics from each state
STATE = ("qpos", "qvel", "ctrl", "warm")
MULTIPROCESSORS = 132  # of an H200


def speed(name: str, worlds: int, device: str, steps: int, physics: str | None) -> str:
    """Time entire steps and bare physics of a number of worlds."""
    wp = load_warp()
    made: Any = catalogue.make(name)
    options = WarpOptions(worlds=worlds, physics=physics)
    simulator = WarpSimulator(made._environment, check_device(device), (int, ()), options)
    info, trials = simulator.info, EPISODES * worlds
    policy = Linear().policy(info.observation_size, info.action_size)
    x = 0.02 * np.random.default_rng(0).standard_normal((trials, policy.num_parameters))
    starts = simulator.starts([np.random.default_rng(i) for i in range(trials)])
    episodes = Grouped(x, starts, [identity(info.observation_size)], np.zeros(trials, np.int64))
    batch = WorldsBatch(simulator, policy, worlds, trials, 1)
    s = batch._s

    def reset() -> None:
        batch._upload(episodes)
        batch._derive_starts(trials)
        batch._prepare_queue(trials)

    def seconds(what: Callable[[], Any], times: int) -> float:
        wp.synchronize_device()
        began = time.perf_counter()
        for _ in range(times):
            what()
        wp.synchronize_device()
        return time.perf_counter() - began

    with wp.ScopedDevice(batch._device):
        reset()
        batch._step()  # loads every kernel
        whole, bare = batch._step, batch.physics.step
        if wp.get_device().is_cuda:
            batch._capture()
            with wp.ScopedCapture() as capture:
                batch.physics.step()
            graphs = batch._graph, capture.graph
            whole, bare = (lambda graph=graph: wp.capture_launch(graph) for graph in graphs)
        reset()
        states: list[dict[str, Any]] = []
        for step in range(steps):
            whole()
            if step % PIECE == 0:
                states.append({each: wp.clone(getattr(s, each)) for each in STATE})
        live = (s.trial.numpy() >= 0).mean()
        everything, alone = np.inf, np.inf
        for _ in range(3):
            reset()
            everything = min(everything, seconds(whole, steps))
            parts = 0.0
            for state in states:
                for each, values in state.items():
                    wp.copy(getattr(s, each), values)
                parts += seconds(bare, PIECE)
            alone = min(alone, parts * steps / (PIECE * len(states)))
    engine = "MuJoCo Warp" if simulator.fused is None else "fused"
    return (
        f"| {name} | {engine} | {worlds} | {1e3 * everything / steps:.2f} ms | "
        f"{worlds * steps / everything:,.0f} | {alone / everything:.2f} | {live:.0%} |"
    )


def core(name: str, episodes: int = 64, steps: int = 100, rounds: int = 5) -> str:
    """Episodes on one core, by MuJoCo and by fused physics."""
    made: Any = catalogue.make(name)
    environment = replace(made._environment, horizon=steps)
    simulators = [
        CompiledSimulator(environment, (int, ())),
        WarpSimulator(environment, check_device("warp-cpu"), (int, ()), WarpOptions()),
    ]
    info = environment
    policy = Linear().policy(info.observation_size, info.action_size)
    x = 0.02 * np.random.default_rng(0).standard_normal((episodes, policy.num_parameters))
    starts = simulators[0].starts([np.random.default_rng(i) for i in range(episodes)])
    best, lengths = [np.inf, np.inf], 0
    for turn in range(rounds + 1):  # the first compiles
        for k, simulator in enumerate(simulators):
            began = time.perf_counter()
            done = simulator.rollout(policy, x, identity(info.observation_size), starts, threads=1)
            if turn:
                best[k] = min(best[k], time.perf_counter() - began)
            lengths = int(done.lengths.sum())
    mujoco, fused = (f"{lengths / seconds:,.0f}" for seconds in best)
    return f"| {name} | {mujoco} | {fused} | {best[0] / best[1]:.1f} |"


def groups(name: str, episodes: int, device: str, rounds: int = 2) -> str:
    """Time episodes with one, two and four groups of threads on each multiprocessor."""
    made: Any = catalogue.make(name)
    info = made.info
    policy = Linear().policy(info.observation_size, info.action_size)
    x = 0.02 * np.random.default_rng(0).standard_normal((episodes, policy.num_parameters))
    starts = made.starts([np.random.default_rng(i) for i in range(episodes)])
    simulators: dict[int, Any] = {}
    best = dict.fromkeys((1, 2, 4), np.inf)
    usual = drivers._GROUPS
    for turn in range(rounds + 1):  # the first compiles, and makes the worlds
        for number in best:
            if not turn:
                drivers._GROUPS = number
                simulators[number] = WarpSimulator(
                    made._environment, check_device(device), (int, ()), WarpOptions()
                )
            began = time.perf_counter()
            simulators[number].rollout(policy, x, identity(info.observation_size), starts)
            if turn:
                best[number] = min(best[number], time.perf_counter() - began)
    drivers._GROUPS = usual
    cells = " | ".join(f"{seconds:.3f} s" for seconds in best.values())
    return f"| {name} | {episodes} | {cells} |"


@final
class Watched:
    """A simulator that records the lengths of its episodes."""

    def __init__(self, simulator: WarpSimulator) -> None:
        self._simulator, self.lengths = simulator, list[np.ndarray]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)

    def rollout(self, *arguments: Any, **options: Any) -> Any:
        episodes = self._simulator.rollout(*arguments, **options)
        self.lengths.append(episodes.lengths)
        return episodes


def live(name: str, device: str, iterations: int) -> str:
    """The shares of a training's threads that have an episode; each thread has one world."""
    made: Any = catalogue.make(name)
    watched: Any = Watched(
        WarpSimulator(made._environment, check_device(device), (int, ()), WarpOptions())
    )
    gs.rl.train(watched, max_steps=iterations, test_every=1, test_episodes=64, target=None, seed=0)
    steps = worlds_steps = groups_steps = 0
    for lengths in watched.lengths:
        worlds = 1 << (len(lengths) - 1).bit_length()
        number = max(math.ceil(worlds / 32), min(worlds, MULTIPROCESSORS))
        longest = [lengths[k::number].max(initial=0) for k in range(number)]
        steps += int(lengths.sum())
        worlds_steps += worlds * int(lengths.max())
        groups_steps += 32 * int(sum(longest))
    shares = f"{steps / worlds_steps:.0%} | {steps / groups_steps:.0%}"
    return f"| {name} | {iterations} | {steps:,} | {shares} |"


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed")
    fast.add_argument("what", nargs="+", help="environments, each with a number of worlds")
    fast.add_argument("--steps", type=int, default=100)
    fast.add_argument("--physics", choices=["fused", "mujoco-warp"])
    single = commands.add_parser("core")
    single.add_argument("what", nargs="+", help="environments")
    apart = commands.add_parser("groups")
    apart.add_argument("what", nargs="+", help="environments, each with a number of episodes")
    busy = commands.add_parser("live")
    busy.add_argument("what", nargs="+", help="environments")
    busy.add_argument("--iterations", type=int, default=20)
    for command in (fast, apart, busy):
        command.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.command == "core":
        print("| environment | MuJoCo, steps/s | fused, steps/s | ratio |")
        print("|---|---|---|---|")
        for name in options.what:
            print(core(name), flush=True)
        return
    if options.command == "live":
        print("| environment | iterations | steps | of all worlds | of the groups that run |")
        print("|---|---|---|---|---|")
        for name in options.what:
            print(live(name, options.device, options.iterations), flush=True)
        return
    pairs = list(zip(options.what[0::2], map(int, options.what[1::2]), strict=True))
    if options.command == "groups":
        print("| environment | episodes | 1 group | 2 groups | 4 groups |")
        print("|---|---|---|---|---|")
        for name, episodes in pairs:
            print(groups(name, episodes, options.device), flush=True)
        return
    print("| environment | physics | worlds | a step | env steps/s | physics' share | live |")
    print("|---|---|---|---|---|---|---|")
    for name, worlds in pairs:
        print(speed(name, worlds, options.device, options.steps, options.physics), flush=True)


if __name__ == "__main__":
    main()
