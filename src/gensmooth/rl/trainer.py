"""Training as pure functions of an explicit state: one step, and one test.

The protocol is the paper's, which follows ARS (Mania et al., 2018). Observations are standardised
by statistics that are frozen within a step. Rewards exclude the survival bonus and are divided by
the standard deviation of the step's rewards. Then the parameters move along the estimated gradient.
See ``docs/rl.md`` for details.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.describe import number, plain, whole
from gensmooth.evaluators import EvaluationError
from gensmooth.evaluators.base import tell
from gensmooth.rl.environments.base import EnvironmentInfo, Episodes
from gensmooth.rl.normalize import Scaling, Statistics, identity, statistics
from gensmooth.rl.policies import Policy
from gensmooth.rl.rollouts import Rollouts
from gensmooth.runs import states
from gensmooth.searches import Search, SearchState, StepInfo

Array = NDArray[np.float64]

_SAME = 1e-10  # the relative difference below which rewards count as equal

_LOGGED = "The traceback of an exception is in the log."
_CAUSES = (
    "it raised an exception, became unstable, or returned an observation or reward that is not "
    f"finite. {_LOGGED}"
)


class BestPolicy(NamedTuple):
    """The policy with the best test so far.

    Attributes:
        mean_return: The mean return of its test; −∞ before the first test.
        step: The number of steps before its test.
        parameters: Its parameters.
        statistics: The observation statistics used in its test.
    """

    mean_return: float
    step: int
    parameters: Array
    statistics: Statistics


class TrainState(NamedTuple):
    """The state of a training.

    Attributes:
        search: The search's state; ``search.x`` are the policy's parameters.
        statistics: The statistics of all training observations.
        env_steps: The number of environment steps in training.
        best: The policy with the best test so far.
    """

    search: SearchState
    statistics: Statistics
    env_steps: int
    best: BestPolicy


class Iteration(NamedTuple):
    """The record of one step of a training.

    Attributes:
        info: The search's step. Its values are returns without the survival bonus, before the
            division; its ``evaluations`` are trajectories.
        deviation: The standard deviation by which the returns were divided.
        env_steps: The number of environment steps in training so far.
        mean_length: The mean length of the step's episodes.
    """

    info: StepInfo
    deviation: float
    env_steps: int
    mean_length: float


class PolicyTest(NamedTuple):
    """The result of a test: episodes from new initial states, with the survival bonus.

    A test does not change the observation statistics.

    Attributes:
        step: The number of steps before the test.
        trajectories: The number of training trajectories before the test.
        env_steps: The number of training environment steps before the test.
        episodes: The number of episodes that did not fail.
        mean_return: Their mean return.
        deviation: The standard deviation of their returns.
        mean_length: Their mean length.
        success: The fraction that reached the goal; ``None`` if the environment has none.
    """

    step: int
    trajectories: int
    env_steps: int
    episodes: int
    mean_return: float
    deviation: float
    mean_length: float
    success: float | None


@final
@dataclass(frozen=True)
class Trainer:
    """Trains one policy in one environment.

    Args:
        info: The environment.
        policy: The policy's shape.
        search: The search; it must maximise and use samples.
        standardize: Whether observations are standardised.
        shared_goal: Whether the episodes of a direction have one task, from different starts.
    """

    info: EnvironmentInfo
    policy: Policy
    search: Search
    standardize: bool = True
    shared_goal: bool = False

    def init(self, seed: int) -> TrainState:
        """Return the state before the first step."""
        search = self.search.init(self.policy.initial(seed), seed=seed)
        nothing_seen = statistics(self.info.observation_size)
        best = BestPolicy(-math.inf, 0, search.x, nothing_seen)
        return TrainState(search, nothing_seen, 0, best)

    def scaling(self, state: TrainState) -> Scaling:
        """Return the scaling of observations in the next step and in a test of this state."""
        if not self.standardize:
            return identity(self.info.observation_size)
        return state.statistics.scaling()

    def step(self, state: TrainState, rollouts: Rollouts) -> tuple[TrainState, Iteration]:
        """Take one step; a pure function of the state, wherever the episodes run."""
        batch = self.search.ask(state.search)
        episodes = rollouts.train(state.search, batch, self.scaling(state))
        rewards = episodes.returns - episodes.bonuses
        self._check(batch, rewards, episodes.failure)
        deviation = reward_deviation(rewards)
        search, info = tell(
            self.search, state.search, batch, rewards / deviation, explain=self._too_many_failures
        )
        value = self.search.value_at(state.search, rewards)
        info = info._replace(value=value, best_value=float(rewards[info.best_index]))
        merged = state.statistics
        if episodes.moments is not None:
            merged = merged.merged(episodes.moments)
        env_steps = state.env_steps + int(episodes.lengths.sum())
        after = TrainState(search, merged, env_steps, state.best)
        return after, Iteration(info, deviation, env_steps, float(episodes.lengths.mean()))

    def test(
        self, state: TrainState, rollouts: Rollouts, episodes: int
    ) -> tuple[TrainState, PolicyTest]:
        """Test the recommended policy; in the state, only the best policy may change."""
        x = self.search.recommend(state.search)
        tested = rollouts.test(state.search, x, self.scaling(state), episodes)
        finite = np.isfinite(tested.returns)
        if not finite.all() and (self.search.on_failure == "raise" or not finite.any()):
            bad = int(np.argmin(finite))
            raise EvaluationError(
                f"{self.info.name} failed in test episode {bad} after {state.search.step} steps: "
                f"{_CAUSES}",
                step=state.search.step,
                index=bad,
            ) from tested.failure
        test = summary(tested, state.search.step, state.search.evaluations, state.env_steps)
        if test.mean_return > state.best.mean_return:
            best = BestPolicy(test.mean_return, test.step, x, state.statistics)
            state = state._replace(best=best)
        return state, test

    def _too_many_failures(self, error: ValueError) -> str:
        return f"Too many episodes of {self.info.name} failed: {error} {_LOGGED}"

    def _check(self, batch: Batch, rewards: Array, failure: BaseException | None) -> None:
        """With ``on_failure="raise"``, raise an error if an episode failed."""
        if self.search.on_failure != "raise" or np.isfinite(rewards).all():
            return
        bad = np.flatnonzero(~np.isfinite(rewards))
        raise EvaluationError(
            f"{self.info.name} failed in {batch.describe(int(bad[0]))}"
            f"{f' and in {len(bad) - 1} more' if len(bad) > 1 else ''}: {_CAUSES} "
            "on_failure='drop' drops such directions.",
            step=batch.step,
            index=int(bad[0]),
        ) from failure


def reward_deviation(rewards: Array) -> float:
    """Return the standard deviation of a step's rewards, or 1 if they are all equal.

    Rewards that differ only by rounding count as equal, because dividing by their deviation would
    amplify the rounding. Failed episodes are ignored.
    """
    finite = rewards
    if not (kept := np.isfinite(rewards)).all():
        finite = rewards[kept]
    if not len(finite):
        return 1.0
    deviation = float(finite.std())
    return deviation if deviation > _SAME * float(np.abs(finite).max()) else 1.0


def summary(tested: Episodes, step: int, trajectories: int, env_steps: int) -> PolicyTest:
    """Summarise the episodes of a test; failed ones are ignored."""
    kept = np.isfinite(tested.returns)
    returns = tested.returns[kept]
    return PolicyTest(
        step=step,
        trajectories=trajectories,
        env_steps=env_steps,
        episodes=len(returns),
        mean_return=float(returns.mean()),
        deviation=float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        mean_length=float(tested.lengths[kept].mean()),
        success=None if tested.successes is None else float(tested.successes[kept].mean()),
    )


def pack_training(
    trainer: Trainer, state: TrainState
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Convert a training's state to plain JSON and named arrays."""
    search, best = state.search, state.best
    skeleton, arrays = states.pack_search(trainer.search, search)
    meta = {
        "step": search.step,
        "evaluations": search.evaluations,
        "seed": search.seed,
        "env_steps": state.env_steps,
        "observations": state.statistics.seen,
        "kept": skeleton,
        "best": {
            "mean_return": plain(best.mean_return),
            "step": best.step,
            "observations": best.statistics.seen,
        },
    }
    named = {
        "x": search.x,
        "mean": state.statistics.mean,
        "m2": state.statistics.m2,
        "best_x": best.parameters,
        "best_mean": best.statistics.mean,
        "best_m2": best.statistics.m2,
    }
    return meta, named | arrays


def unpack_training(
    trainer: Trainer, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], seed: int
) -> TrainState:
    """Restore a packed state.

    Raises:
        ValueError, TypeError or LookupError: If it does not match this training.
    """
    if meta["seed"] != seed:
        raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {seed}")
    x0, best = trainer.policy.initial(seed), meta["best"]
    observation = np.zeros(trainer.info.observation_size)

    def moments(stored: Mapping[str, Any], prefix: str) -> Statistics:
        mean, m2 = (states.like(observation, arrays, f"{prefix}{name}") for name in ("mean", "m2"))
        return Statistics(whole(stored["observations"]), mean, m2)

    search = states.unpack_search(trainer.search, meta, arrays, x0=x0)
    mean_return, step = number(best["mean_return"]), whole(best["step"])
    best_x = states.like(x0, arrays, "best_x")
    best_policy = BestPolicy(mean_return, step, best_x, moments(best, "best_"))
    return TrainState(search, moments(meta, ""), whole(meta["env_steps"]), best_policy)
