"""The interface of a simulator: facts about its environment, and how to run trajectories.

One call runs a batch of many parameter vectors and many starts, so that a simulator can use threads
or a GPU inside. A simulator has no random state. The start of a trajectory comes from the generator
that is passed in, and nothing carries over from one trajectory to the next. Results therefore do
not depend on threads, on the order, or on what ran before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.evaluators import cores
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]


class UnknownEnvironmentError(ValueError):
    """There is no environment of this name."""


class UnsupportedEnvironmentError(ValueError):
    """The environment exists, but its observations, actions or functions are not supported."""


@final
@dataclass(frozen=True)
class EnvironmentInfo:
    """Facts about an environment, known before it runs.

    Attributes:
        name: Its full name, such as ``"Hopper-v4"``.
        observation_size: Entries of an observation.
        action_size: Entries of an action. For a discrete action space, the number of actions: the
            policy scores each of them, and the one with the largest score is taken.
        horizon: The largest number of steps in an episode.
        survival_bonus: The part of the reward for each step survived; 0 if there is no such part.
            Training leaves it out, tests count it.
        discrete: Whether the action space is discrete.
        fast: Whether trajectories run as compiled code, outside the interpreter's lock.
        goal: Whether episodes can succeed (Meta-World).
        device: Where trajectories run: ``"cpu"``, or a GPU such as ``"cuda"``.
    """

    name: str
    observation_size: int
    action_size: int
    horizon: int
    survival_bonus: float = 0.0
    discrete: bool = False
    fast: bool = False
    goal: bool = False
    device: str = "cpu"


class Episodes(NamedTuple):
    """A batch of B episodes; every array is in the order of the batch.

    If the simulation breaks down in an episode (MuJoCo warns of an unstable simulation, there is an
    exception, or an observation or a reward is not finite), its return and bonus are NaN, and its
    observations are not in the moments.

    Attributes:
        returns: Sums of rewards, including the survival bonus, shape (B,).
        bonuses: The survival bonus in each return, shape (B,). Training subtracts it.
        lengths: Steps, shape (B,).
        moments: Moments of the observations that the policy acted on (as many as steps), one row
            per episode; ``None`` unless requested.
        successes: 1.0 if the goal was reached in some step, shape (B,); ``None`` if the
            environment has no goal.
        failure: The first exception that the environment raised, if any.
    """

    returns: Array
    bonuses: Array
    lengths: NDArray[np.int64]
    moments: EpisodeMoments | None = None
    successes: Array | None = None
    failure: BaseException | None = None


def split(batch: Episodes, sizes: Sequence[int]) -> list[Episodes]:
    """Split a batch into batches of these sizes."""
    parts: list[Episodes] = []
    first = 0
    for size in sizes:
        part = slice(first, first + size)
        returns, bonuses, lengths, moments, successes, failure = batch
        if moments is not None:
            counts, means, m2 = moments
            moments = EpisodeMoments(counts[part], means[part], m2[part])
        successes = None if successes is None else successes[part]
        arrays = (returns[part], bonuses[part], lengths[part])
        parts.append(Episodes(*arrays, moments, successes, failure))
        first += size
    return parts


class Simulator(Protocol):
    """Runs batches of trajectories of one environment. Simulators can be pickled.

    A simulator whose episodes have different tasks may have an attribute ``task_entries``: the
    number of entries at the end of a start that describe the task, such as a hidden goal.
    """

    @property
    def info(self) -> EnvironmentInfo:
        """The sizes, horizon and other facts of the environment."""
        ...

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a start from each generator by the environment's reset distribution, shape (B, S).

        Gymnasium's environment starts in the same state if it uses that generator.
        """
        ...

    def rollout(
        self,
        policy: Policy,
        parameters: Array,
        scaling: Scaling,
        starts: Array,
        *,
        observe: bool = False,
        threads: int | None = None,
    ) -> Episodes:
        """Run one episode from each start.

        Args:
            policy: The shape of the policy.
            parameters: Its parameters in each episode, shape (B, P).
            scaling: The standardisation of observations before the policy sees them.
            starts: Where the episodes start, shape (B, S).
            observe: Whether to return moments of the observations.
            threads: The largest number of threads; ``None``: one per core. Results do not depend
                on it.
        """
        ...


def task_entries(simulator: object) -> int:
    """Return how many entries at the end of a start describe the task; 0 without tasks."""
    return int(getattr(simulator, "task_entries", 0))


# An environment can be passed as a name, a simulator, or what Gymnasium makes (an environment,
# or a function that makes one), whose types are known only if Gymnasium is installed.
EnvironmentLike = str | Simulator | object


class Request(NamedTuple):
    """The checked arguments of a rollout: contiguous float64 arrays that fit together."""

    parameters: Array
    scaling: Scaling
    starts: Array


def check(
    info: EnvironmentInfo,
    start_size: int,
    policy: Policy,
    parameters: Array,
    scaling: Scaling,
    starts: Array,
) -> Request:
    """Check the arguments of :meth:`Simulator.rollout`; an error names what does not fit."""
    expected = (info.observation_size, info.action_size)
    if (policy.sizes[0], policy.sizes[-1]) != expected:
        raise ValueError(
            f"{info.name} has {expected[0]} observations and {expected[1]} "
            f"{'discrete actions' if info.discrete else 'entries of an action'}, but the policy "
            f"is made for {policy.sizes[0]} and {policy.sizes[-1]}."
        )
    x = _owned(parameters)
    if x.ndim != 2 or x.shape[1] != policy.num_parameters:
        raise ValueError(
            f"`parameters` must have one row of {policy.num_parameters} per episode, but has shape "
            f"{x.shape}."
        )
    begin = _owned(starts)
    if begin.shape != (len(x), start_size):
        raise ValueError(
            f"`starts` must have shape {(len(x), start_size)}, one row for each row of "
            f"`parameters`, but has {begin.shape}."
        )
    mean, inverse = (_owned(part) for part in scaling)
    if mean.shape != (expected[0],) or inverse.shape != (expected[0],):
        raise ValueError(
            f"`scaling` must have {expected[0]} entries, as observations of {info.name} do, but "
            f"has shapes {mean.shape} and {inverse.shape}."
        )
    return Request(x, Scaling(mean, inverse), begin)


def thread_count(threads: int | None, episodes: int) -> int:
    """Return how many threads to use for a batch."""
    threads = cores() if threads is None else checks.count("threads", threads)
    return max(1, min(threads, episodes))


def _owned(array: Array) -> Array:
    """Return a writeable, contiguous array: Numba would compile the loop again for other kinds."""
    return np.require(array, np.float64, ["C", "W"])
