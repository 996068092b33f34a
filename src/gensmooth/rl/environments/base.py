"""What the rest of the program knows of an environment, and how trajectories are asked for.

The interface is batched (many parameter vectors, many starts, one call), so that a simulator may
use threads or a GPU inside. A simulator has no random state of its own: where a trajectory starts
comes from the generator that is handed in, and nothing is left over from one trajectory to the
next. Results therefore do not depend on threads, order, or what ran before.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.evaluators import cores
from gensmooth.rl.normalize import Moments, Scaling
from gensmooth.rl.policies import Policy

Array = NDArray[np.float64]


class UnknownEnvironmentError(ValueError):
    """There is no environment of this name."""


class UnsupportedEnvironmentError(ValueError):
    """The environment exists, but a policy here cannot see or act in it."""


@final
@dataclass(frozen=True)
class Info:
    """What is known of an environment before it runs.

    Attributes:
        name: Its full name, such as ``"Hopper-v4"``.
        observation_size: Entries of an observation.
        action_size: Entries of an action; of a discrete action space, the number of actions: the
            policy gives each a score, and the largest is played.
        horizon: Steps after which an episode ends in any case.
        survival_bonus: What each step survived adds to the reward; 0 where there is no such term.
            Training leaves it out, tests do not.
        discrete: Whether the action space is discrete.
        fast: Whether trajectories run compiled, outside the interpreter's lock.
        goal: Whether there is a notion of success (Meta-World).
    """

    name: str
    observation_size: int
    action_size: int
    horizon: int
    survival_bonus: float = 0.0
    discrete: bool = False
    fast: bool = False
    goal: bool = False


class Episodes(NamedTuple):
    """A batch of B episodes; every array is in the order of the batch.

    An episode in which the simulation broke down (MuJoCo's warnings of an unstable simulation, an
    exception, an observation or a reward that is not finite) has return and bonus NaN and no
    observations in the moments.

    Attributes:
        returns: Sums of rewards, shape (B,), as tests count them.
        bonuses: The part of it that is survival bonus, shape (B,); training uses the difference.
        lengths: Steps, shape (B,).
        moments: Of the observations that were acted upon (so as many as steps), one row an
            episode, in the order of the steps; ``None`` unless asked for.
        successes: 1.0 where the goal was reached in some step, shape (B,); ``None`` where there
            is no such notion.
    """

    returns: Array
    bonuses: Array
    lengths: NDArray[np.int64]
    moments: Moments | None = None
    successes: Array | None = None


class Simulator(Protocol):
    """Runs batches of trajectories of one environment. Simulators can be pickled."""

    @property
    def info(self) -> Info:
        """What is known of the environment."""
        ...

    def starts(self, rngs: Sequence[np.random.Generator]) -> Array:
        """Draw a start from each generator by the environment's own reset law, shape (B, S).

        A generator that is handed to the reference environment in place of its own gives the same
        start there.
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
            scaling: What is done to observations before the policy sees them.
            starts: Where the episodes start, shape (B, S).
            observe: Whether to return moments of the observations.
            threads: At most so many at a time; ``None``: as many as there are cores. Results
                do not depend on it.
        """
        ...


class Request(NamedTuple):
    """The arguments of a rollout, checked: contiguous float64 arrays that fit together."""

    parameters: Array
    scaling: Scaling
    starts: Array


def check(
    info: Info, start_size: int, policy: Policy, parameters: Array, scaling: Scaling, starts: Array
) -> Request:
    """The arguments of :meth:`Simulator.rollout`, or an error that says what does not fit."""
    expected = (info.observation_size, info.action_size)
    if (policy.sizes[0], policy.sizes[-1]) != expected:
        raise ValueError(
            f"{info.name} has {expected[0]} observations and {expected[1]} "
            f"{'discrete actions' if info.discrete else 'entries of an action'}, but the policy "
            f"is made for {policy.sizes[0]} and {policy.sizes[-1]}."
        )
    x = np.ascontiguousarray(parameters, np.float64)
    if x.ndim != 2 or x.shape[1] != policy.num_parameters:
        raise ValueError(
            f"`parameters` must have one row of {policy.num_parameters} an episode, but has shape "
            f"{x.shape}."
        )
    begin = np.ascontiguousarray(starts, np.float64)
    if begin.shape != (len(x), start_size):
        raise ValueError(
            f"`starts` must have shape {(len(x), start_size)}, one row for each row of "
            f"`parameters`, but has {begin.shape}."
        )
    mean, inverse = (np.ascontiguousarray(part, np.float64) for part in scaling)
    if mean.shape != (expected[0],) or inverse.shape != (expected[0],):
        raise ValueError(
            f"`scaling` must have {expected[0]} entries as the observations of {info.name}, but "
            f"has {mean.shape} and {inverse.shape}."
        )
    return Request(x, Scaling(mean, inverse), begin)


def thread_count(threads: int | None, episodes: int) -> int:
    """How many threads to use for a batch."""
    if threads is None:
        threads = cores()
    if threads < 1:
        raise ValueError(f"`threads` must be at least 1, but is {threads}.")
    return max(1, min(threads, episodes))


def missing_extra(error: ImportError) -> ImportError:
    """The error to raise when a package of the RL extra is not there."""
    how = "pip install 'gensmooth[rl]'"
    if sys.version_info >= (3, 14):
        how = f"it has no release for Python {sys.version_info[0]}.{sys.version_info[1]} that " + (
            f"Meta-World can use, so take Python 3.11 to 3.13 and {how}"
        )
    return ImportError(
        f"Reinforcement learning needs {error.name or 'Gymnasium and MuJoCo'}: {how}",
        name=error.name,
    )
