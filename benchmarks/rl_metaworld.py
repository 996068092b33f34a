"""Speed of ML1-Reach and ML1-Push against Meta-World's own environments and against the physics.

    python -m benchmarks.rl_metaworld [--quick] [--out FILE.json]

All run the same linear policies from the same starts, in entire episodes with their resets: ours on
2 threads, Meta-World's in 2 processes, which are kept for all repeats. The floor replays the
recorded actions on 2 threads: in each step only Meta-World's calls of MuJoCo (five ``mj_step``, one
``mj_forward``). Ours can be faster, because its first ``mj_step`` reuses the results of the
``mj_forward`` before it. Competitors take turns, and each repeat gives one ratio of wall times, so
that waiting counts.
"""

import argparse
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.record import Row, save, show
from benchmarks.timing import Spread, spread
from gensmooth.physics.mujoco_calls import call, take
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.gymnasium import make_environment
from gensmooth.rl.environments.metaworld.sawyer import HORIZON
from gensmooth.rl.normalize import identity
from gensmooth.rl.policies import Policy

CORES = 2
POLICY = Policy((39, 4))
NAMES = ("ML1-Reach", "ML1-Push", "ML1-Reach-v3", "ML1-Push-v3")
OURS, THEIRS, FLOOR = "gensmooth", "Meta-World", "floor"


class Effort(NamedTuple):
    """The number of repeats, and of each competitor's episodes in a repeat."""

    repeats: int
    ours: int
    theirs: int


FULL = Effort(repeats=9, ours=80, theirs=8)
QUICK = Effort(repeats=3, ours=40, theirs=4)


def parameters_of(episodes: int) -> np.ndarray:
    return 0.2 * np.random.default_rng(0).standard_normal((episodes, POLICY.num_parameters))


# --- Meta-World's own, in processes -------------------------------------------------------------

_environments: dict[str, Any] = {}


def own_episodes(name: str, parameters: np.ndarray, starts: np.ndarray) -> int:
    """Run Meta-World's episodes in a worker process, which keeps its environment."""
    if name not in _environments:
        _environments[name] = make_environment(catalogue.reference(name))
    environment = _environments[name]
    steps = 0
    for flat, start in zip(parameters, starts, strict=True):
        weights = flat.reshape(4, 39)
        seen, _ = environment.reset(options={"start": start})
        truncated = False
        while not truncated:
            seen, _, _, truncated, _ = environment.step(weights @ seen)
            steps += 1
    return steps


# --- the floor ----------------------------------------------------------------------------------


@njit(nogil=True)
def replay(state, starts, actions, queue):
    """Replay the physics of recorded episodes."""
    physics, arrays, limits = state.physics, state.arrays, state.limits
    while True:
        episode = take(queue)
        if episode >= len(actions):
            break
        call(physics.reset, physics)
        arrays.qpos[:] = state.settled.qpos
        arrays.qvel[:] = state.settled.qvel
        arrays.warmstart[:] = state.settled.warmstart
        arrays.mocap_pos[:] = state.settled.mocap_pos
        arrays.mocap_quat[:] = state.settled.mocap_quat
        arrays.qpos[9:12] = starts[episode, :3]
        arrays.qvel[9:15] = 0.0
        call(physics.forward, physics)
        for t in range(actions.shape[1]):
            for i in range(3):
                moved = arrays.mocap_pos[i] + limits.scale * min(max(actions[episode, t, i], -1), 1)
                arrays.mocap_pos[i] = min(max(moved, limits.low[i]), limits.high[i])
            arrays.ctrl[0] = actions[episode, t, 3]
            arrays.ctrl[1] = -actions[episode, t, 3]
            for _ in range(limits.frames):
                call(physics.step, physics)
            call(physics.forward, physics)


class Floor:
    """Replays of episodes on threads."""

    def __init__(self, simulator: Any, starts: np.ndarray, actions: np.ndarray) -> None:
        self._starts, self._actions = starts, actions
        self._simulations = [simulator.simulation() for _ in range(CORES)]

    def __call__(self) -> None:
        queue = np.zeros(1, np.int64)
        threads = [
            threading.Thread(
                target=replay, args=(simulation.state, self._starts, self._actions, queue)
            )
            for simulation in self._simulations
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# --- the comparison -----------------------------------------------------------------------------


def measure(name: str, pool: Any, effort: Effort) -> list[Row]:
    simulator = catalogue.make(name)
    parameters = parameters_of(effort.ours)
    rngs = [np.random.default_rng(i) for i in range(effort.ours)]
    starts, scaling = simulator.starts(rngs), identity(39)
    trace = simulator.trace(POLICY, parameters, scaling, starts, steps=HORIZON)
    parts = [slice(i, effort.theirs, CORES) for i in range(CORES)]

    def ours() -> None:
        simulator.rollout(POLICY, parameters, scaling, starts, observe=True, threads=CORES)

    def theirs() -> None:
        pool.starmap(own_episodes, [(name, parameters[p], starts[p]) for p in parts], chunksize=1)

    steps = {OURS: effort.ours, FLOOR: effort.ours, THEIRS: effort.theirs}
    calls = {OURS: ours, FLOOR: Floor(simulator, starts, trace.actions), THEIRS: theirs}
    speeds = interleave(calls, effort.repeats)
    speeds = {who: HORIZON * steps[who] * speed for who, speed in speeds.items()}

    def times(who: str) -> Spread:
        return spread(speeds[OURS] / speeds[who])

    what = f"{name}, linear policy, {CORES} threads"
    return [
        Row(what, times(THEIRS), f"× Meta-World's own in {CORES} processes", 3.0, at_least=True),
        Row(what, times(FLOOR), "× the same physics calls alone"),
        Row(what, spread(speeds[OURS]), "env steps/s"),
        Row(f"{name}, Meta-World, {CORES} processes", spread(speeds[THEIRS]), "env steps/s"),
        Row(f"{name}, physics alone, {CORES} threads", spread(speeds[FLOOR]), "env steps/s"),
    ]


def interleave(calls: dict[str, Callable[[], None]], repeats: int) -> dict[str, np.ndarray]:
    """Calls per second in each repeat; the competitors start in turn."""
    for run in calls.values():
        run()
    measured: dict[str, list[float]] = {who: [] for who in calls}
    names = list(calls)
    for repeat in range(repeats):
        first = repeat % len(names)
        for who in names[first:] + names[:first]:
            start = time.perf_counter()
            calls[who]()
            measured[who].append(1.0 / (time.perf_counter() - start))
    return {who: np.array(speeds) for who, speeds in measured.items()}


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rl_metaworld", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        rows = [row for name in NAMES for row in measure(name, pool, effort)]
    show(rows, "Meta-World")
    if options.out:
        command = " ".join(["python -m benchmarks.rl_metaworld", *sys.argv[1:]])
        packages = ["gensmooth", "numpy", "numba", "gymnasium", "mujoco", "metaworld"]
        save(options.out, {"rl-metaworld": rows}, command, packages)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
