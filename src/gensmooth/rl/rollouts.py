"""Who runs the episodes of a training: this process, or the workers of an evaluator.

The result never depends on which. Workers are sent the simulator and the policy's shape once, and
the parameters and the scaling once per iteration; each makes its own parameter vectors and starts,
and sends back for each episode its numbers and the moments of its observations. Those are merged
by the training, in the order of the batch.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, Evaluator, Objective, Session
from gensmooth.rl.environments.base import Episodes, Simulator, split
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy
from gensmooth.search import Search, SearchState
from gensmooth.streams import Purpose

Array = NDArray[np.float64]

_NUMBERS = 5  # return, bonus, length, success, observations; means and m2 follow


class Rollouts(Protocol):
    """Runs the episodes of a training.

    Attributes:
        faults: What went wrong in the last call, by kind.
    """

    faults: Mapping[str, int]

    @property
    def workers(self) -> int:
        """How many workers there are."""
        ...

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """Run an episode for each evaluation of the batch, with moments of the observations."""
        ...

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """Run episodes of the parameters of ``state``, from starts that training never sees."""
        ...


# --- in this process ----------------------------------------------------------------------------


@final
class Local:
    """Runs episodes in this process, in the simulator's threads.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
        threads: At most this many; ``None``: one per core.
    """

    workers = 1

    def __init__(self, simulator: Simulator, policy: Policy, threads: int | None = None) -> None:
        self._simulator = simulator
        self._policy = policy
        self._threads = checks.optional(checks.count, "threads", threads)
        self.faults: Mapping[str, int] = {}

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:  # noqa: ARG002
        """See :class:`Rollouts`."""
        starts = batch_starts(self._simulator, batch)
        return self._run(batch.block(0, len(batch)), starts, scaling, observe=True)

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        parameters = np.broadcast_to(state.x, (episodes, state.x.size))
        starts = test_starts(self._simulator, state, episodes)
        return self._run(parameters, starts, scaling, observe=False)

    def _run(
        self, parameters: Array, starts: Array, scaling: Scaling, *, observe: bool
    ) -> Episodes:
        found = self._simulator.rollout(
            self._policy,
            parameters,
            scaling,
            starts,
            observe=observe,
            threads=self._threads,
        )
        self.faults = _broken(found)
        return found


@final
class SideBySide:
    """Runs episodes on a GPU, where a test costs nothing beside an iteration.

    The next iteration's episodes are known when a test is asked for (:meth:`Search.ask` is a pure
    function of the state), and have the same scaling. So they run together, and the iteration
    finds its own made.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
        search: The search.
    """

    workers = 1

    def __init__(self, simulator: Simulator, policy: Policy, search: Search) -> None:
        self._local = Local(simulator, policy)
        self._simulator, self._policy, self._search = simulator, policy, search
        self._ahead: tuple[SearchState, Scaling, Episodes] | None = None
        self.faults: Mapping[str, int] = {}

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """See :class:`Rollouts`."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is state and _equal(ahead[1], scaling):
            found = ahead[2]
        else:
            found = self._local.train(state, batch, scaling)
        self.faults = _broken(found)
        return found

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        batch = self._search.ask(state)
        here = np.broadcast_to(state.x, (episodes, state.x.size))
        fresh = test_starts(self._simulator, state, episodes)
        found = self._simulator.rollout(
            self._policy,
            np.concatenate((here, batch.block(0, len(batch)))),
            scaling,
            np.concatenate((fresh, batch_starts(self._simulator, batch))),
            observe=True,
        )
        tested, trained = split(found, [episodes, len(batch)])
        self._ahead = (state, scaling, trained)
        self.faults = _broken(tested)
        return tested._replace(moments=None)


def _equal(one: Scaling, other: Scaling) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _broken(found: Episodes) -> dict[str, int]:
    failed = int(np.count_nonzero(~np.isfinite(found.returns)))
    return {"non-finite": failed} if failed else {}


def batch_starts(simulator: Simulator, batch: Batch) -> Array:
    """Where the episodes of a batch start, shape (B, S)."""
    samples = tuple(batch.plan.sample.tolist())
    return _starts(simulator, _Drawn(batch.seed, batch.purpose, batch.step, samples))


def test_starts(simulator: Simulator, state: SearchState, episodes: int) -> Array:
    """Where test episodes start, shape (B, S)."""
    samples = tuple(range(episodes))
    return _starts(simulator, _Drawn(state.seed, Purpose.TEST, state.step, samples))


class _Drawn(NamedTuple):
    """Of starts: what they are a function of, for one environment."""

    seed: int
    purpose: Purpose
    step: int
    samples: tuple[int, ...]


def _starts(simulator: Simulator, at: _Drawn) -> Array:
    """A start for each sample, the same one for the same."""

    def draw() -> Array:
        rows = {sample: row for row, sample in enumerate(dict.fromkeys(at.samples))}
        starts = simulator.starts([streams.generator(*at[:2], step=at.step, index=i) for i in rows])
        if len(rows) == len(at.samples):
            return starts
        return starts[[rows[sample] for sample in at.samples]]

    # A simulator that several trainings share (gathering.py) keeps starts for the others.
    shared: Callable[[object, Callable[[], Array]], Array] | None
    shared = getattr(simulator, "remembered", None)
    return draw() if shared is None else shared(at, draw)


def test_rngs(seed: int, step: int, episodes: int) -> list[np.random.Generator]:
    """The generators of test episodes after ``step`` iterations, which nothing else uses."""
    return [
        streams.generator(seed, Purpose.TEST, step=step, index=index) for index in range(episodes)
    ]


# --- by workers ---------------------------------------------------------------------------------


@final
class Rewards:
    """The objective of a worker: the training reward, and what else the training needs to know.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
    """

    def __init__(self, simulator: Simulator, policy: Policy) -> None:
        self._simulator = simulator
        self._policy = policy

    @property
    def extras(self) -> int:
        """How many numbers there are per episode beside its reward."""
        return _NUMBERS + 2 * self._policy.sizes[0]

    def __call__(self, points: Array, rngs: list[np.random.Generator], context: Array) -> Array:
        """One row per episode: the reward, then the extras."""
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
        observation_size: Entries of an observation.
        goal: Whether episodes can succeed.
    """

    def __init__(self, session: Session, search: Search, observation_size: int, goal: bool) -> None:
        self._session = session
        self._search = search
        self._observation_size = observation_size
        self._goal = goal
        self.faults: Mapping[str, int] = {}

    @property
    def workers(self) -> int:
        """See :class:`Rollouts`."""
        return self._session.workers

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """See :class:`Rollouts`."""
        return self._run(state, batch, scaling, observe=True)

    def test(self, state: SearchState, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
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
        # An episode that was given up (a worker died, time was up) has NaN throughout.
        counts = np.nan_to_num(extras[:, [2, 4]], nan=0.0).astype(np.int64)
        moments = None
        if observe:
            means, m2 = (
                extras[:, _NUMBERS:].reshape(-1, 2, self._observation_size).transpose(1, 0, 2)
            )
            moments = EpisodeMoments(counts[:, 1], means, m2)
        successes = extras[:, 3].copy() if self._goal else None
        return Episodes(extras[:, 0].copy(), extras[:, 1].copy(), counts[:, 0], moments, successes)


@contextmanager
def distributed(
    evaluator: Evaluator, simulator: Simulator, policy: Policy, search: Search
) -> Generator[Distributed]:
    """Start workers for a training; leaving the context stops them."""
    rewards = Rewards(simulator, policy)
    objective = Objective(rewards, sampled=True, vectorized=1, extras=rewards.extras)
    with evaluator.session(search, objective) as session:
        info = simulator.info
        yield Distributed(session, search, info.observation_size, info.goal)
