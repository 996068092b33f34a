"""Speed of rollouts: against the bare physics, Gymnasium in processes, and envpool.

    python -m benchmarks.rl [--quick] [--env Hopper ...] [--out FILE.json]

One batch is the 2L = 40 episodes of an iteration with L = 20, linear policies near zero, with
statistics of the observations, on two threads. Competitors take turns in one run. The bare physics
is a replay of the same calls with the same controls on two threads, compiled or from Python,
whichever is faster. Ratios are of steps per second in wall time; one is also given in CPU time,
for busy machines. For Ant there is also the share of a training iteration outside the simulator.
"""

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import rl_outside
from benchmarks.record import Row, commit, save, show
from benchmarks.rl_floor import Floor, Work, record
from benchmarks.rl_rivals import EnvPool, Processes
from benchmarks.timing import Spread, spread
from gensmooth.physics.robots.legged import ROBOTS
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.compiled import CompiledSimulator
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Linear
from gensmooth.streams import Purpose, generator

EPISODES = 40  # 2L, L = 20
SCALE = 0.05  # standard deviation of the policies' entries, as of x + cε at the start of training
THREADS = 2
BARS = {"Hopper": 0.85, "Walker2d": 0.85, "HalfCheetah": 0.75, "Ant": 0.85}
PACKAGES = ["gensmooth", "mujoco", "gymnasium", "numba", "numpy", "envpool"]


class Speeds(NamedTuple):
    """Steps per second in each repeat, in wall time and in CPU time of this process."""

    clock: np.ndarray
    cpu: np.ndarray


def work_of(simulator: CompiledSimulator) -> Work:
    """The batch of episodes, recorded for the replay."""
    info = simulator.info
    policy = Linear().policy(info.observation_size, info.action_size)
    rng = np.random.default_rng(0)
    parameters = SCALE * rng.standard_normal((EPISODES, policy.num_parameters))
    starts = simulator.starts([generator(i, Purpose.SAMPLE) for i in range(EPISODES)])
    return record(simulator, policy, parameters, identity(info.observation_size), starts)


def measure(competitors: dict[str, Callable[[], int]], repeats: int, seconds: float) -> dict:
    """Time the competitors in turns; each returns the number of its steps."""
    loops = {}
    for name, run in competitors.items():
        run()
        begin = time.perf_counter()
        run()
        loops[name] = max(1, round(seconds / (time.perf_counter() - begin)))
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in competitors}
    order = list(competitors)
    for repeat in range(repeats):
        gc.collect()
        first = repeat % len(order)  # the competitors start in turn
        for name in order[first:] + order[:first]:
            clock, cpu = time.perf_counter(), time.process_time()
            steps = sum(competitors[name]() for _ in range(loops[name]))
            clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            measured[name].append((steps / clock, steps / max(cpu, 1e-9)))
    return {name: Speeds(*np.array(speeds).T) for name, speeds in measured.items()}


def rows_of(name: str, repeats: int, seconds: float) -> list[Row]:
    """The rows of one environment."""
    full = catalogue.canonical(name)
    simulator, robot = catalogue.make(full), ROBOTS[full]
    work = work_of(simulator)
    floor = Floor(simulator.model, work, robot.frames, robot.observation_size > 100, THREADS)
    episodes = work.policy, work.parameters, work.scaling, work.starts

    def ours() -> int:
        simulator.rollout(*episodes, observe=True, threads=THREADS)
        return work.steps

    def counted(replay: Callable[[], None]) -> Callable[[], int]:
        return lambda: replay() or work.steps

    competitors = {"ours": ours, "compiled": counted(floor.compiled)}
    competitors["python"] = counted(floor.python)
    processes = Processes(full, work, THREADS, min(EPISODES, 8 if full[0] == "H" else EPISODES))
    competitors["gymnasium"] = processes
    with contextlib.suppress(ImportError):
        competitors["envpool"] = EnvPool("Ant-v4" if name == "Ant" else full, work, THREADS, 2000)
    try:
        speeds = measure(competitors, repeats, seconds)
    finally:
        processes.close()
    replay = max("compiled", "python", key=lambda who: np.median(speeds[who].clock))

    def ratio(who: str) -> Spread:
        return spread(speeds["ours"].clock / speeds[who].clock)

    unit = f"× replay ({replay})"
    envpool = ratio("envpool") if "envpool" in speeds else None
    note = "27 observations there" if name == "Ant" else ""
    return [
        Row(f"{name}: rollouts", spread(speeds["ours"].clock), "steps/s"),
        Row(f"{name}: of the bare physics", ratio(replay), unit, BARS[name], at_least=True),
        Row(
            f"{name}: of the bare physics, CPU time",
            spread(speeds["ours"].cpu / speeds[replay].cpu),
            unit,
        ),
        Row(f"{name}: against Gymnasium", ratio("gymnasium"), "× Gymnasium in 2 processes"),
        Row(f"{name}: against envpool", envpool, "× envpool", note=note if envpool else "missing"),
    ]


def main() -> int:
    """Measure, print, save; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less exact")
    parser.add_argument("--env", nargs="*", choices=list(BARS), default=list(BARS))
    parser.add_argument("--out", type=Path, help="write a JSON file")
    arguments = parser.parse_args()
    before = commit()
    repeats, seconds = (5, 0.3) if arguments.quick else (21, 1.0)
    groups = {}
    for name in arguments.env:
        groups[f"rollouts: {name}"] = rows_of(name, repeats, seconds)
        show(groups[f"rollouts: {name}"], f"{name}, {THREADS} threads")
    if "Ant" in arguments.env:
        groups["training: Ant"] = rl_outside.rows("Ant", 5 if arguments.quick else 15, THREADS)
        show(groups["training: Ant"], "A training iteration, Ant (111 observations)")
    if arguments.out:
        command = "python -m " + " ".join(["benchmarks.rl", *sys.argv[1:]])
        save(arguments.out, groups, command, PACKAGES, before)
    return int(any(row.ok is False for rows in groups.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
