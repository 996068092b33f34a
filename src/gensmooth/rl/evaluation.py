"""Evaluation of a policy: its mean return over new episodes, with a confidence interval."""

import math
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.evaluators import EvaluationError
from gensmooth.physics.extras import missing_extra
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentLike, Simulator
from gensmooth.rl.policy_file import TrainedPolicy, as_policy
from gensmooth.rl.rollouts import test_rngs
from gensmooth.streams import check_seed

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating a policy; returns include the survival bonus.

    Attributes:
        environment: The name of the environment.
        episodes: The number of episodes that did not fail.
        mean_return: Their mean return.
        deviation: The standard deviation of their returns; NaN if there is only one.
        low: The lower end of the confidence interval of the mean (Student's t).
        high: The upper end.
        confidence: The level of the interval.
        mean_length: Their mean length.
        success: The fraction that reached the goal; ``None`` if the environment has none.
        failed: The number of failed episodes, with ``on_failure="drop"``.
        seed: The seed of the initial states.
        returns: The returns, in order.
        lengths: The lengths, in order.
    """

    environment: str
    episodes: int
    mean_return: float
    deviation: float
    low: float
    high: float
    confidence: float
    mean_length: float
    success: float | None
    failed: int
    seed: int
    returns: Array = field(repr=False)
    lengths: NDArray[np.int64] = field(repr=False)


def evaluate(
    policy: TrainedPolicy | str | PathLike[str],
    *,
    episodes: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
    environment: EnvironmentLike | None = None,
    on_failure: Literal["raise", "drop"] = "raise",
    device: str = "cpu",
    threads: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Run a policy from new initial states, which its training and its tests have not used.

    Args:
        policy: A policy, its file, a training's folder (which means its best policy), or
            ``"zoo:hopper"``, one of the trained policies that come with the package.
        episodes: The number of episodes.
        seed: The seed of the initial states.
        confidence: The level of the confidence interval.
        environment: The environment, as in :func:`train`; by default the one that the policy
            names. It must be the one that the policy was trained in.
        on_failure: Whether a failed episode is an error (``"raise"``) or is dropped (``"drop"``).
        device: The device that runs the episodes: ``"cpu"``, or a GPU such as ``"cuda"``. It may
            differ from the training's.
        threads: The number of threads of a fast simulator; by default one per core.
        trust: Whether to import a module that the policy's file names, as in an environment
            ``"module:Name"``. A module that you name or import yourself needs no trust.

    Raises:
        EvaluationError: If an episode fails; its cause is the environment's exception, if any.
    """
    episodes = checks.count("episodes", episodes)
    confidence = checks.share("confidence", confidence)
    checks.one_of("on_failure", on_failure, ("raise", "drop"))
    threads = checks.optional(checks.count, "threads", threads)
    trust = checks.flag("trust", trust)
    seed = check_seed(seed)
    trained = as_policy(policy)
    simulator = simulator_of(trained, environment, trust=trust, device=device)
    parameters = np.broadcast_to(trained.parameters, (episodes, trained.parameters.size))
    starts = simulator.starts(test_rngs(seed, 0, episodes))  # training's tests have step > 0
    run = simulator.rollout(trained.policy, parameters, trained.scaling, starts, threads=threads)
    kept = np.isfinite(run.returns)
    if not kept.all() and (on_failure == "raise" or not kept.any()):
        bad = int(np.argmin(kept))
        raise EvaluationError(
            f"{simulator.info.name} failed in episode {bad}: it raised an exception, became "
            "unstable, or returned an observation or reward that is not finite. The traceback of "
            "an exception is in the log. on_failure='drop' drops failed episodes, unless all fail.",
            step=0,
            index=bad,
        ) from run.failure
    returns, lengths = run.returns[kept], run.lengths[kept]
    mean, deviation, half = interval(returns, confidence)
    return Evaluation(
        environment=simulator.info.name,
        episodes=len(returns),
        mean_return=mean,
        deviation=deviation,
        low=mean - half,
        high=mean + half,
        confidence=confidence,
        mean_length=float(lengths.mean()),
        success=None if run.successes is None else float(run.successes[kept].mean()),
        failed=int(np.count_nonzero(~kept)),
        seed=seed,
        returns=returns,
        lengths=lengths,
    )


def simulator_of(
    policy: TrainedPolicy,
    environment: EnvironmentLike | None = None,
    *,
    trust: bool = False,
    device: str = "cpu",
) -> Simulator:
    """Create the simulator of a policy's environment; any other environment is an error."""
    if environment is None:
        catalogue.check_trusted(policy.environment, trust=trust)
        return catalogue.make(policy.environment, device=device)
    if isinstance(environment, str):
        policy.check_environment(environment)  # before anything is imported or created
    simulator = catalogue.make(environment, device=device)
    policy.check_environment(simulator.info.name)
    return simulator


def interval(values: Array, confidence: float) -> tuple[float, float, float]:
    r"""Return the mean, the deviation s, and the half-width :math:`t_{n-1} s / \sqrt n`."""
    mean, n = float(values.mean()), len(values)
    if n == 1:
        return mean, math.nan, math.inf
    try:
        special: Any = import_module("scipy.special")
    except ImportError as error:
        raise missing_extra(error) from None
    deviation = float(values.std(ddof=1))
    quantile = float(special.stdtrit(n - 1, 0.5 + confidence / 2))
    return mean, deviation, quantile * deviation / math.sqrt(n)
