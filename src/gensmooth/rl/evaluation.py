"""How good a policy is: episodes from fresh starts, their mean return, and its interval."""

import math
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.evaluators import EvaluationError
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentLike, Simulator, missing_extra
from gensmooth.rl.policy_file import TrainedPolicy, as_policy
from gensmooth.rl.rollouts import test_rngs
from gensmooth.streams import check_seed

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Episodes of a policy; returns include the survival bonus.

    Attributes:
        environment: The name of the environment.
        episodes: How many episodes did not break down.
        mean_return: Their mean return.
        deviation: The standard deviation of their returns; NaN if there is only one.
        low: The lower end of the confidence interval of the mean (Student's t).
        high: The upper end.
        confidence: The level of the interval.
        mean_length: Their mean length.
        success: The share that reached the goal; ``None`` if the environment has none.
        failed: Episodes that broke down, under ``on_failure="drop"``.
        seed: The seed of the starts.
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
    """Run a policy from fresh starts, none of which its training or its tests have seen.

    Args:
        policy: A policy, its file, or a training's folder (then the best policy); or "zoo:hopper",
            one of the trained policies that come with the package.
        episodes: How many episodes.
        seed: The seed of the starts.
        confidence: The level of the confidence interval.
        environment: The environment, as in :func:`train`; by default by the name in the policy.
            It must be the one that the policy was trained in.
        on_failure: Whether an episode that breaks down is an error (``"raise"``), or is left out
            (``"drop"``).
        device: Where episodes run: ``"cpu"``, or a GPU such as ``"cuda"``, whichever it was trained
            on.
        threads: Threads of a fast simulator; by default one per core.
        trust: Whether a module may be imported because the policy's file names it, as the
            environment ``"module:Name"`` does. One that you name or import yourself needs no
            trust.

    Raises:
        EvaluationError: When an episode breaks down; what the environment raised is its cause.
    """
    episodes = checks.count("episodes", episodes)
    confidence = checks.share("confidence", confidence)
    checks.one_of("on_failure", on_failure, ("raise", "drop"))
    threads = checks.optional(checks.count, "threads", threads)
    trust = checks.flag("trust", trust)
    seed = check_seed(seed)
    given = as_policy(policy)
    simulator = simulator_of(given, environment, trust=trust, device=device)
    parameters = np.broadcast_to(given.parameters, (episodes, given.parameters.size))
    starts = simulator.starts(test_rngs(seed, 0, episodes))  # training's tests have step > 0
    found = simulator.rollout(given.policy, parameters, given.scaling, starts, threads=threads)
    kept = np.isfinite(found.returns)
    if not kept.all() and (on_failure == "raise" or not kept.any()):
        bad = int(np.argmin(kept))
        raise EvaluationError(
            f"{simulator.info.name} broke down in episode {bad}: it raised, or an observation or "
            "reward was not finite. The log has what it said; on_failure='drop' leaves such "
            "episodes out.",
            step=0,
            index=bad,
        ) from found.failure
    returns, lengths = found.returns[kept], found.lengths[kept]
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
        success=None if found.successes is None else float(found.successes[kept].mean()),
        failed=int(np.count_nonzero(~kept)),
        seed=seed,
        returns=returns,
        lengths=lengths,
    )


def simulator_of(
    policy: TrainedPolicy,
    given: EnvironmentLike | None = None,
    *,
    trust: bool = False,
    device: str = "cpu",
) -> Simulator:
    """The simulator of a policy's environment; another one is refused."""
    if given is None:
        catalogue.check_trusted(policy.environment, trust=trust)
        return catalogue.make(policy.environment, device=device)
    if isinstance(given, str):
        policy.check_environment(given)  # before anything is imported or made
    simulator = catalogue.make(given, device=device)
    policy.check_environment(simulator.info.name)
    return simulator


def interval(values: Array, confidence: float) -> tuple[float, float, float]:
    r"""Mean, standard deviation s, and half the interval's width, :math:`t_{n-1} s / \sqrt n`."""
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
