"""Training as pure functions of an explicit state: one iteration, and one test.

The protocol is the paper's, which follows ARS (Mania et al., 2018): observations standardised by
statistics that are frozen within an iteration, rewards without the survival bonus and divided by
the deviation of the iteration's rewards, a gradient ascent step. ``docs/rl.md`` has the details.
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
from gensmooth.rl.environments.base import Episodes, Info
from gensmooth.rl.normalize import Scaling, Statistics, identity, statistics
from gensmooth.rl.policies import Policy
from gensmooth.rl.rollouts import Rollouts
from gensmooth.runs import states
from gensmooth.search import Search, SearchState, StepInfo

Array = NDArray[np.float64]

_SAME = 1e-10  # rewards that differ by less than this, relative to their size, are the same


class Best(NamedTuple):
    """The policy with the best test so far.

    Attributes:
        mean_return: Its test's mean return; −∞ before the first test.
        step: Iterations made when it was tested.
        parameters: Its parameters.
        statistics: The observation statistics it was tested with.
    """

    mean_return: float
    step: int
    parameters: Array
    statistics: Statistics


class TrainState(NamedTuple):
    """What the next iteration needs.

    Attributes:
        search: The search's state; ``search.x`` are the policy's parameters.
        statistics: Of all observations of training.
        env_steps: Environment steps of training.
        best: The policy with the best test so far.
    """

    search: SearchState
    statistics: Statistics
    env_steps: int
    best: Best


class Iteration(NamedTuple):
    """What a reader wants to know of an iteration.

    Attributes:
        info: The search's step, whose values are returns as training sees them: without the
            survival bonus, not divided. ``evaluations`` are trajectories.
        deviation: What the returns were divided by.
        env_steps: Environment steps of training so far.
        mean_length: Mean length of the iteration's episodes.
    """

    info: StepInfo
    deviation: float
    env_steps: int
    mean_length: float


class Test(NamedTuple):
    """A test: episodes from fresh starts, survival bonus counted, statistics left as they are.

    Attributes:
        step: Iterations made before.
        trajectories: Trajectories of training before.
        env_steps: Environment steps of training before.
        episodes: How many episodes.
        mean_return: Their mean return.
        deviation: The standard deviation of their returns.
        mean_length: Their mean length.
        success: The share of episodes that reached the goal; ``None`` where there is none.
    """

    __test__ = False  # not a test of pytest's

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
        search: Directions, estimator, optimiser; it must maximise, and have samples.
        standardize: Whether observations are standardised.
    """

    info: Info
    policy: Policy
    search: Search
    standardize: bool = True

    def init(self, seed: int) -> TrainState:
        """The state before the first iteration."""
        search = self.search.init(self.policy.initial(seed), seed=seed)
        none = statistics(self.info.observation_size)
        return TrainState(search, none, 0, Best(-math.inf, 0, search.x, none))

    def scaling(self, state: TrainState) -> Scaling:
        """What is done to observations in the next iteration, and in tests now."""
        if not self.standardize:
            return identity(self.info.observation_size)
        return state.statistics.scaling()

    def step(self, state: TrainState, rollouts: Rollouts) -> tuple[TrainState, Iteration]:
        """One iteration: a pure function of the state, whoever runs the episodes."""
        batch = self.search.ask(state.search)
        episodes = rollouts.train(state.search, batch, self.scaling(state))
        rewards = episodes.returns - episodes.bonuses
        self._check(batch, rewards, episodes.failure)
        deviation = reward_deviation(rewards)
        search, info = tell(
            self.search, state.search, batch, rewards / deviation, explain=self._broke_down
        )
        value = self.search.value_at(state.search, rewards)
        info = info._replace(value=value, best_value=float(rewards[info.best_index]))
        merged = state.statistics
        if episodes.moments is not None:
            merged = merged.merged(episodes.moments)
        env_steps = state.env_steps + int(episodes.lengths.sum())
        after = TrainState(search, merged, env_steps, state.best)
        return after, Iteration(info, deviation, env_steps, float(episodes.lengths.mean()))

    def test(self, state: TrainState, rollouts: Rollouts, episodes: int) -> tuple[TrainState, Test]:
        """Test the policy; of the state only the best policy may change."""
        found = rollouts.test(state.search, self.scaling(state), episodes)
        finite = np.isfinite(found.returns)
        if not finite.all() and (self.search.on_failure == "raise" or not finite.any()):
            bad = int(np.argmin(finite))
            raise EvaluationError(
                f"{self.info.name} broke down in test episode {bad} after {state.search.step} "
                "iterations: it raised, or an observation or reward was not finite. The log has "
                "what it said.",
                step=state.search.step,
                index=bad,
            ) from found.failure
        test = summary(found, state.search.step, state.search.evaluations, state.env_steps)
        if test.mean_return > state.best.mean_return:
            here = Best(test.mean_return, test.step, state.search.x, state.statistics)
            state = state._replace(best=here)
        return state, test

    def _broke_down(self, error: ValueError) -> str:
        return f"{self.info.name} broke down too often: {error} The log has what it said."

    def _check(self, batch: Batch, rewards: Array, failure: BaseException | None) -> None:
        """Under ``on_failure="raise"``, an episode that broke down ends the training."""
        if self.search.on_failure != "raise" or np.isfinite(rewards).all():
            return
        bad = np.flatnonzero(~np.isfinite(rewards))
        raise EvaluationError(
            f"{self.info.name} broke down in {batch.describe(int(bad[0]))}"
            f"{f' and in {len(bad) - 1} more' if len(bad) > 1 else ''}: it raised, or an "
            "observation or reward was not finite. The log has what it said; "
            "on_failure='drop' leaves such directions out.",
            step=batch.step,
            index=int(bad[0]),
        ) from failure


def reward_deviation(rewards: Array) -> float:
    """The standard deviation of an iteration's rewards, or 1 where they are all the same.

    Dividing by the deviation of rewards that differ by rounding alone would blow that up. Rewards
    of episodes that broke down do not count.
    """
    finite = rewards
    if not (kept := np.isfinite(rewards)).all():
        finite = rewards[kept]
    if not len(finite):
        return 1.0
    deviation = float(finite.std())
    return deviation if deviation > _SAME * float(np.abs(finite).max()) else 1.0


def summary(found: Episodes, step: int, trajectories: int, env_steps: int) -> Test:
    """A test from its episodes; those that broke down do not count."""
    whole = np.isfinite(found.returns)
    returns = found.returns[whole]
    return Test(
        step=step,
        trajectories=trajectories,
        env_steps=env_steps,
        episodes=len(returns),
        mean_return=float(returns.mean()),
        deviation=float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        mean_length=float(found.lengths[whole].mean()),
        success=None if found.successes is None else float(found.successes[whole].mean()),
    )


def pack_training(
    trainer: Trainer, state: TrainState
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A training's state as plain JSON and named arrays."""
    search, best = state.search, state.best
    skeleton, arrays = states.pack_search(trainer.search, search)
    meta = {
        "step": search.step,
        "evaluations": search.evaluations,
        "seed": search.seed,
        "env_steps": state.env_steps,
        "observations": state.statistics.seen,
        "optimizer": skeleton,
        "best": {
            "mean_return": plain(best.mean_return),
            "step": best.step,
            "observations": best.statistics.seen,
        },
    }
    own = {
        "x": search.x,
        "mean": state.statistics.mean,
        "m2": state.statistics.m2,
        "best_x": best.parameters,
        "best_mean": best.statistics.mean,
        "best_m2": best.statistics.m2,
    }
    return meta, own | arrays


def unpack_training(
    trainer: Trainer, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], seed: int
) -> TrainState:
    """The state that was packed.

    Raises:
        ValueError: When it is not of this training; so do ``TypeError`` and ``LookupError`` say.
    """
    if meta["seed"] != seed:
        raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {seed}")
    x0, best = trainer.policy.initial(seed), meta["best"]
    observation = np.zeros(trainer.info.observation_size)
    return TrainState(
        states.unpack_search(trainer.search, meta, arrays, x0=x0),
        Statistics(
            whole(meta["observations"]),
            states.like(observation, arrays, "mean"),
            states.like(observation, arrays, "m2"),
        ),
        whole(meta["env_steps"]),
        Best(
            number(best["mean_return"]),
            whole(best["step"]),
            states.like(x0, arrays, "best_x"),
            Statistics(
                whole(best["observations"]),
                states.like(observation, arrays, "best_mean"),
                states.like(observation, arrays, "best_m2"),
            ),
        ),
    )
