"""The share of a training iteration that is not the simulator's: directions, starts, update."""

import time
from typing import Any, final

import numpy as np

from benchmarks.record import Row
from benchmarks.timing import spread
from gensmooth import optimizers
from gensmooth.directions import named
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentInfo, Episodes, Simulator
from gensmooth.rl.policies import Linear
from gensmooth.rl.rollouts import Local
from gensmooth.rl.trainer import Trainer
from gensmooth.searches import RandomSearch

METHODS = ("bes", "gs", "orthogonal-es", "guided-es")
BAR = 0.01


@final
class Timed:
    """A simulator that measures the time of its rollouts."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.seconds = 0.0

    @property
    def info(self) -> EnvironmentInfo:
        return self._simulator.info

    def starts(self, rngs: Any) -> Any:  # not measured: it is Python code of ours
        return self._simulator.starts(rngs)

    def rollout(self, *arguments: Any, **options: Any) -> Episodes:
        begin = time.perf_counter()
        episodes = self._simulator.rollout(*arguments, **options)
        self.seconds += time.perf_counter() - begin
        return episodes


def rows(name: str, iterations: int, threads: int) -> list[Row]:
    """A row for each method: the share of an iteration's time outside the simulator."""
    return [_row(name, directions, iterations, threads) for directions in METHODS]


def _row(name: str, directions: str, iterations: int, threads: int) -> Row:
    simulator = Timed(catalogue.make(name))
    info = simulator.info
    policy = Linear().policy(info.observation_size, info.action_size)
    search = RandomSearch(
        named(directions, dim=policy.num_parameters, num_directions=20),
        num_directions=20,
        spacing=0.05,
        optimizer=optimizers.sgd(1e-3),
        samples="independent",
        maximize=True,
    )
    trainer, rollouts = Trainer(info, policy, search), Local(simulator, policy, threads)
    state = trainer.init(0)
    shares: list[float] = []
    for _ in range(iterations + 2):  # the first two compile and fill caches
        simulator.seconds = 0.0
        begin = time.perf_counter()
        state, _ = trainer.step(state, rollouts)
        total = time.perf_counter() - begin
        shares.append((total - simulator.seconds) / total)
    label = f"{name}, L = 20, {directions}: outside the simulator"
    return Row(label, spread(np.array(shares[2:])), "of an iteration", BAR)
