"""What a training found, and the reasons a training ends for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gensmooth.rl.config import TrainConfig
from gensmooth.rl.policy_file import TrainedPolicy
from gensmooth.rl.trainer import Iteration, Test, TrainState

Reason = Literal["iterations", "target", "callback", "interrupted", "diverged"]

MESSAGES: dict[Reason, str] = {
    "iterations": "All iterations were made.",
    "target": "A test reached the target.",
    "callback": "The callback asked to stop.",
    "interrupted": "Interrupted from the keyboard.",
    "diverged": "The search diverged",
}
SUCCESS: tuple[Reason, ...] = ("iterations", "target")


@dataclass(frozen=True)
class TrainResult:
    """What a training found.

    Attributes:
        policy: The last policy.
        best: The policy with the best test; ``best.mean_return`` is that test's mean return, the
            largest of several noisy numbers and therefore somewhat too good.
        iterations: Iterations made.
        trajectories: Episodes of training.
        env_steps: Environment steps of training.
        success: Whether it ended as planned (iterations or target).
        status: The reason it ended.
        message: The reason in words.
        faults: What went wrong on the way, by kind.
        seed: The seed, drawn for you if you gave none.
        tests: The tests, in order.
        history: The iterations, in order.
        state: The state after the last iteration.
    """

    policy: TrainedPolicy = field(repr=False)
    best: TrainedPolicy = field(repr=False)
    iterations: int
    trajectories: int
    env_steps: int
    success: bool
    status: Reason
    message: str
    faults: Mapping[str, int]
    seed: int
    tests: tuple[Test, ...] = field(repr=False)
    history: tuple[Iteration, ...] = field(repr=False)
    state: TrainState = field(repr=False)


def last_policy(config: TrainConfig, state: TrainState, test: Test | None) -> TrainedPolicy:
    """The policy of a state, with its return if ``test`` is a test of it."""
    own = test is not None and test.step == state.search.step
    return TrainedPolicy(
        environment=config.trainer.info.name,
        policy=config.trainer.policy,
        parameters=state.search.x,
        statistics=state.statistics,
        standardize=config.trainer.standardize,
        method=config.method,
        seed=config.seed,
        step=state.search.step,
        mean_return=test.mean_return if test is not None and own else math.nan,
    )


def best_policy(config: TrainConfig, state: TrainState) -> TrainedPolicy:
    """The policy with the best test; before the first test, the initial one."""
    best = state.best
    return TrainedPolicy(
        environment=config.trainer.info.name,
        policy=config.trainer.policy,
        parameters=best.parameters,
        statistics=best.statistics,
        standardize=config.trainer.standardize,
        method=config.method,
        seed=config.seed,
        step=best.step,
        mean_return=best.mean_return if math.isfinite(best.mean_return) else math.nan,
    )
