"""Episodes over processes, Ray or any other evaluator: an objective with a context and extras.

Workers are sent the simulator and the policy's shape once, the parameters and the scaling once an
iteration; each makes its own parameter vectors and starts, and sends back for each episode its
numbers and the moments of its observations. Those are merged where the training is, in the order
of the batch.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, Evaluator, Objective, Session
from gensmooth.rl.environments.base import Episodes, Simulator
from gensmooth.rl.normalize import Moments, Scaling
from gensmooth.rl.policies import Policy
from gensmooth.search import RandomSearch, SearchState
from gensmooth.streams import Purpose

Array = NDArray[np.float64]

_NUMBERS = 5  # return, bonus, length, success, observations; then means and m2


@final
class Rewards:
    """The objective: a training reward, and all that the trainer wants to know beside it.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
    """

    def __init__(self, simulator: Simulator, policy: Policy) -> None:
        self._simulator = simulator
        self._policy = policy

    @property
    def extras(self) -> int:
        """Numbers of an episode beside its reward."""
        return _NUMBERS + 2 * self._policy.sizes[0]

    def __call__(self, points: Array, rngs: list[np.random.Generator], context: Array) -> Array:
        """A row an episode: the reward, then the extras."""
        observe, size = bool(context[0]), self._policy.sizes[0]
        scaling = Scaling(*context[1:].reshape(2, size))
        starts = self._simulator.starts(rngs)
        found = self._simulator.rollout(
            self._policy, points, scaling, starts, observe=observe, threads=1
        )
        rows = np.zeros((len(points), 1 + self.extras))
        rows[:, 0] = found.returns - found.bonuses
        rows[:, 1] = found.returns
        rows[:, 2] = found.bonuses
        rows[:, 3] = found.lengths
        rows[:, 4] = np.nan if found.successes is None else found.successes
        if found.moments is not None:
            rows[:, 5] = found.moments.counts
            rows[:, 6 : 6 + size] = found.moments.means
            rows[:, 6 + size :] = found.moments.m2
        return rows


@final
class Distributed:
    """Runs episodes through an evaluator's session.

    Args:
        session: The session.
        search: The search, which plans tests too.
        size: Entries of an observation.
        goal: Whether episodes tell of success.
    """

    def __init__(self, session: Session, search: RandomSearch, size: int, goal: bool) -> None:
        self._session = session
        self._search = search
        self._size = size
        self._goal = goal
        self.faults: Mapping[str, int] = {}

    @property
    def workers(self) -> int:
        """See :class:`~gensmooth.rl.rollouts.Rollouts`."""
        return self._session.workers

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """See :class:`~gensmooth.rl.rollouts.Rollouts`."""
        return self._run(state, batch, scaling, observe=True)

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`~gensmooth.rl.rollouts.Rollouts`."""
        here = np.zeros(episodes, np.int64)
        plan = Plan(here, here, np.arange(episodes))
        batch = self._search.ask(state).planned(plan, Purpose.TEST)
        return self._run(state, batch, scaling, observe=False)

    def _run(
        self, state: SearchState, batch: Batch, scaling: Scaling, *, observe: bool
    ) -> Episodes:
        context = np.concatenate(([float(observe)], scaling.mean, scaling.inverse))
        evaluated = self._session.evaluate(state, batch.given(context))
        self.faults = evaluated.faults
        return self._episodes(evaluated, observe)

    def _episodes(self, evaluated: Evaluated, observe: bool) -> Episodes:
        extras = evaluated.extras
        assert extras is not None
        # An episode that was let go (a worker died, time was up) has NaN throughout.
        counts = np.nan_to_num(extras[:, [2, 4]], nan=0.0).astype(np.int64)
        moments = None
        if observe:
            means, m2 = extras[:, _NUMBERS:].reshape(-1, 2, self._size).transpose(1, 0, 2)
            moments = Moments(counts[:, 1], means, m2)
        successes = extras[:, 3].copy() if self._goal else None
        return Episodes(extras[:, 0].copy(), extras[:, 1].copy(), counts[:, 0], moments, successes)


@contextmanager
def distributed(
    evaluator: Evaluator, simulator: Simulator, policy: Policy, search: RandomSearch
) -> Generator[Distributed]:
    """Workers for a training; leaving the context stops them."""
    rewards = Rewards(simulator, policy)
    objective = Objective(rewards, sampled=True, vectorized=1, extras=rewards.extras)
    with evaluator.session(search, objective) as session:
        info = simulator.info
        yield Distributed(session, search, info.observation_size, info.goal)
