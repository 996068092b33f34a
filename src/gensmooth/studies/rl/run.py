"""One run of the reinforcement-learning study: rounds of iterations, each with a test at its end.

A run may take hours, so it keeps a checkpoint in its scratch folder every some seconds; a run that
is made again goes on from there, to the same record to the last bit.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gensmooth.studies.spec import RunRecord

if TYPE_CHECKING:
    from gensmooth.rl.rollouts import Rollouts
    from gensmooth.rl.trainer import Test, Trainer, TrainState

_EVERY = 20.0  # seconds between checkpoints: what a kill costs at most, one test apart

# Series of a record: one number a test.
SERIES = ("return", "deviation", "trajectories", "env_steps", "success")


class Progress(NamedTuple):
    """How far a run is.

    Attributes:
        state: The training's state.
        series: The tests so far.
        seconds: Time spent so far, over all attempts.
        diverged: Whether it can go no further.
    """

    state: "TrainState"
    series: Mapping[str, list[float]]
    seconds: float
    diverged: bool = False


def execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:
    """Make a run, or the rest of it."""
    from gensmooth.studies.rl.checkpoint import load, save

    saved = clock = time.perf_counter()
    trainer, rollouts = prepare(config)
    path = scratch / "checkpoint"
    progress = load(path, trainer, config) or Progress(trainer.init(config["seed"]), {}, 0.0)
    while not finished(progress, config):
        after = advance(progress, config, trainer, rollouts)
        now = time.perf_counter()
        progress = after._replace(seconds=progress.seconds + now - clock)
        clock = now
        if now - saved > _EVERY:
            save(path, trainer, config, progress)
            saved = now
    last = progress.series.get("return", [])
    final = math.inf if progress.diverged or not last else -last[-1]
    return RunRecord(config, progress.series, final, progress.diverged, progress.seconds)


def prepare(config: Mapping[str, Any]) -> tuple["Trainer", "Rollouts"]:
    """The training of a run, and who runs its episodes: one thread, since runs are many."""
    from gensmooth.estimators import Antithetic, ForwardDifference
    from gensmooth.methods import method
    from gensmooth.optimizers import sgd
    from gensmooth.rl.environments.catalogue import make
    from gensmooth.rl.policies import architecture
    from gensmooth.rl.rollouts import Local
    from gensmooth.rl.trainer import Trainer
    from gensmooth.search import RandomSearch
    from gensmooth.studies.paper import RL_HIDDEN

    simulator = make(config["environment"])
    info = simulator.info
    policy = architecture(config["policy"], (RL_HIDDEN,)).policy(
        info.observation_size, info.action_size
    )
    estimator = {"forward-difference": ForwardDifference, "antithetic": Antithetic}
    number = config["num_directions"]
    search = RandomSearch(
        method(config["method"], dim=policy.num_parameters, num_directions=number),
        number,
        config["spacing"],
        estimator=estimator[config["estimator"]](),
        optimizer=sgd(config["learning_rate"]),
        samples=config["samples"],
        maximize=True,
        on_failure="drop",
        min_fraction=1 / number,
    )
    return Trainer(info, policy, search), Local(simulator, policy, threads=1)


def finished(progress: Progress, config: Mapping[str, Any]) -> bool:
    """Whether all iterations and tests are made, or no more can be."""
    if progress.diverged:
        return True
    return _tests(progress) == config["rounds"] // config["test_every"]


def advance(
    progress: Progress, config: Mapping[str, Any], trainer: "Trainer", rollouts: "Rollouts"
) -> Progress:
    """One more iteration, or one more test."""
    from gensmooth.evaluators import EvaluationError

    state = progress.state
    due = (_tests(progress) + 1) * config["test_every"] * config["iterations"]
    try:
        if state.search.step == due:
            state, test = trainer.test(state, rollouts, config["test_trials"])
            return progress._replace(state=state, series=_extended(progress.series, test))
        state, iteration = trainer.step(state, rollouts)
    except (EvaluationError, ValueError):
        # No episode of a direction, or of the test, came to an end: the policy has left what the
        # simulator can compute. Not so at the very beginning: there it is a mistake of ours.
        if state.search.step == 0:
            raise
        return progress._replace(diverged=True)
    return progress._replace(state=state, diverged=iteration.info.diverged is not None)


def _tests(progress: Progress) -> int:
    return len(progress.series.get("return", ()))


def _extended(series: Mapping[str, list[float]], test: "Test") -> dict[str, list[float]]:
    values = (test.mean_return, test.deviation, test.trajectories, test.env_steps, test.success)
    now = {name: float(v) for name, v in zip(SERIES, values, strict=True) if v is not None}
    return {name: [*series.get(name, ()), value] for name, value in now.items()}
