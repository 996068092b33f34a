"""Execution of training episodes, in this process or by an evaluator's workers.

Both give the same result. Workers receive the simulator and the policy's shape once, and the
parameters and the scaling once per step. Each worker creates its own parameter vectors and
initial states. For each episode, it returns a few numbers and the moments of the observations,
which the training merges in the order of the batch.
"""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Literal, NamedTuple, Protocol, final, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluator, Objective, Session
from gensmooth.rl.environments.base import Episodes, Simulator, split, task_entries
from gensmooth.rl.normalize import EpisodeMoments, Scaling
from gensmooth.rl.policies import Policy
from gensmooth.runs.journal import SLOW, Journal, JournalEntry
from gensmooth.searches import Search, SearchState
from gensmooth.streams import Purpose

Array = NDArray[np.float64]

# How the starts of an iteration's episodes are drawn; see `train`.
Resets = Literal["independent", "shared-goal", "paired"]
RESETS: tuple[Resets, ...] = get_args(Resets)

_NUMBERS = 5  # return, bonus, length, success, observations; means and m2 follow


class Rollouts(Protocol):
    """Runs the episodes of a training.

    Attributes:
        faults: The number of faults in the last call, by kind.
    """

    faults: Mapping[str, int]

    @property
    def workers(self) -> int:
        """The number of workers."""
        ...

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """Run an episode for each evaluation in the batch, and compute observation moments."""
        ...

    def test(self, state: SearchState, x: Array, scaling: Scaling, episodes: int) -> Episodes:
        """Run test episodes with the parameters ``x``, from starts not used in training."""
        ...


def distinct_resets(resets: Resets, simulator: Simulator) -> Resets:
    """Return the resets, with ``"shared-goal"`` replaced if it equals another kind.

    Without tasks it equals ``"independent"``. If a start consists of a task only, as in Meta-World,
    it equals ``"paired"``.
    """
    if resets != "shared-goal":
        return resets
    entries = task_entries(simulator)
    if entries == 0:
        return "independent"
    size = simulator.starts([np.random.default_rng(0)]).shape[1]
    return "paired" if entries == size else "shared-goal"


# --- in this process ----------------------------------------------------------------------------


@final
class Local:
    """Runs episodes in this process, in the simulator's threads.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
        threads: The maximum number of threads; ``None`` means one per core.
        shared_goal: Whether the episodes of a direction share one task.
        search: The search; needed with a journal, to identify test episodes.
        journal: Where episodes are recorded; see :mod:`gensmooth.runs.journal`.
    """

    workers = 1

    def __init__(
        self,
        simulator: Simulator,
        policy: Policy,
        threads: int | None = None,
        *,
        shared_goal: bool = False,
        search: Search | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._simulator = simulator
        self._shared_goal = shared_goal
        self._policy = policy
        self._threads = checks.optional(checks.count, "threads", threads)
        self._search = search
        self._journal = None if search is None else journal
        self.faults: Mapping[str, int] = {}

    def journaled(self, journal: Journal | None) -> "Local":
        """Return a copy that records episodes in a journal."""
        copied = copy(self)
        copied._journal = None if self._search is None else journal
        return copied

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:  # noqa: ARG002
        """See :class:`Rollouts`."""
        starts = batch_starts(self._simulator, batch, shared_goal=self._shared_goal)
        return self._run(batch, batch.block(0, len(batch)), starts, scaling, observe=True)

    def test(self, state: SearchState, x: Array, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        parameters = np.broadcast_to(x, (episodes, x.size))
        starts = test_starts(self._simulator, state, episodes)
        batch = None
        if self._journal is not None and self._search is not None:
            batch = test_batch(self._search, state._replace(x=x), episodes)
        return self._run(batch, parameters, starts, scaling, observe=False)

    def _run(
        self,
        batch: Batch | None,
        parameters: Array,
        starts: Array,
        scaling: Scaling,
        *,
        observe: bool,
    ) -> Episodes:
        def rollout(first: int, last: int) -> Episodes:
            return self._simulator.rollout(
                self._policy,
                parameters[first:last],
                scaling,
                starts[first:last],
                observe=observe,
                threads=self._threads,
            )

        def opened(journal: Journal, batch: Batch) -> JournalEntry:
            return open_entry(journal, self._policy, batch, scaling, observe=observe)

        info, journal, entry = self._simulator.info, self._journal, None
        together = info.fast or info.device != "cpu"  # all episodes in one call
        if journal is not None and batch is not None and (journal.has_stored or not together):
            entry = opened(journal, batch)
        if entry is not None and not (together and entry.is_empty):
            episodes = self._recorded(entry, rollout, observe)
        else:
            began = time.perf_counter()
            episodes = rollout(0, len(parameters))
            seconds = time.perf_counter() - began
            if journal is not None and batch is not None and seconds >= SLOW:
                rows = to_rows(episodes, self._policy.sizes[0])
                opened(journal, batch).put(0, rows, seconds)
        self.faults = _failed(episodes)
        return episodes

    def _recorded(
        self, entry: JournalEntry, rollout: Callable[[int, int], Episodes], observe: bool
    ) -> Episodes:
        """Run the episodes that are missing in the journal, one by one, and record each."""
        rows, size, failure = entry.values.copy(), self._policy.sizes[0], None
        for index in np.flatnonzero(~entry.known).tolist():
            began = time.perf_counter()
            episodes = rollout(index, index + 1)
            part = to_rows(episodes, size)
            entry.put(index, part, time.perf_counter() - began)
            rows[index] = part[0]
            failure = failure or episodes.failure
        goal = self._simulator.info.goal
        return from_rows(rows, size, goal=goal, observe=observe)._replace(failure=failure)


@final
class SideBySide:
    """Runs each test together with the next step on a GPU, where the test then takes no extra time.

    When a test is requested, the next step's episodes are already known, because
    :meth:`Search.ask` is a pure function of the state, and they have the same scaling. So both run
    together, and the next step uses the stored episodes.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
        search: The search.
        shared_goal: Whether the episodes of a direction share one task.
        journal: Where episodes are recorded.
    """

    workers = 1

    def __init__(
        self,
        simulator: Simulator,
        policy: Policy,
        search: Search,
        *,
        shared_goal: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self._local = Local(
            simulator, policy, search=search, shared_goal=shared_goal, journal=journal
        )
        self._simulator, self._policy, self._search = simulator, policy, search
        self._shared_goal = shared_goal
        self._journal = journal
        self._ahead: tuple[SearchState, Scaling, Episodes] | None = None
        self.faults: Mapping[str, int] = {}

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """See :class:`Rollouts`."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is state and all(map(np.array_equal, ahead[1], scaling)):
            episodes = ahead[2]
            if self._journal is not None:
                entry = open_entry(self._journal, self._policy, batch, scaling, observe=True)
                entry.put(0, to_rows(episodes, self._policy.sizes[0]), SLOW)
        else:
            episodes = self._local.train(state, batch, scaling)
        self.faults = _failed(episodes)
        return episodes

    def test(self, state: SearchState, x: Array, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        entry = None
        if self._journal is not None:
            tests = test_batch(self._search, state._replace(x=x), episodes)
            entry = open_entry(self._journal, self._policy, tests, scaling, observe=False)
            if not entry.is_empty:
                tested = self._local.test(state, x, scaling, episodes)
                self.faults = self._local.faults
                return tested
        batch = self._search.ask(state)
        center = np.broadcast_to(x, (episodes, x.size))
        starts = test_starts(self._simulator, state, episodes)
        trained_starts = batch_starts(self._simulator, batch, shared_goal=self._shared_goal)
        both = self._simulator.rollout(
            self._policy,
            np.concatenate((center, batch.block(0, len(batch)))),
            scaling,
            np.concatenate((starts, trained_starts)),
            observe=True,
        )
        tested, trained = split(both, [episodes, len(batch)])
        self._ahead = (state, scaling, trained)
        self.faults = _failed(tested)
        tested = tested._replace(moments=None)
        if entry is not None:
            entry.put(0, to_rows(tested, self._policy.sizes[0]), SLOW)
        return tested


def _failed(episodes: Episodes) -> dict[str, int]:
    failed = int(np.count_nonzero(~np.isfinite(episodes.returns)))
    return {"non-finite": failed} if failed else {}


def batch_starts(simulator: Simulator, batch: Batch, *, shared_goal: bool = False) -> Array:
    """Return the initial states of a batch's episodes, shape (B, S).

    With ``shared_goal``, all episodes of a direction get the task of its first episode.
    """
    samples = tuple(batch.plan.sample.tolist())
    starts = _starts(simulator, _StartsAddress(batch.seed, batch.purpose, batch.step, samples))
    if shared_goal:
        first: dict[int, int] = {}
        directions = enumerate(batch.plan.direction.tolist())
        rows = [first.setdefault(direction, row) for row, direction in directions]
        starts = starts.copy()
        entries = task_entries(simulator)
        starts[:, -entries:] = starts[rows, -entries:]
    return starts


def test_starts(simulator: Simulator, state: SearchState, episodes: int) -> Array:
    """Return the initial states of test episodes, shape (B, S)."""
    samples = tuple(range(episodes))
    return _starts(simulator, _StartsAddress(state.seed, Purpose.TEST, state.step, samples))


class _StartsAddress(NamedTuple):
    """The random-number addresses that determine initial states in an environment."""

    seed: int
    purpose: Purpose
    step: int
    samples: tuple[int, ...]


def _starts(simulator: Simulator, at: _StartsAddress) -> Array:
    """Return an initial state for each sample; equal samples have equal states."""

    def draw() -> Array:
        rows = {sample: row for row, sample in enumerate(dict.fromkeys(at.samples))}
        starts = simulator.starts([streams.generator(*at[:2], step=at.step, index=i) for i in rows])
        if len(rows) == len(at.samples):
            return starts
        return starts[[rows[sample] for sample in at.samples]]

    # A simulator shared by several trainings (gathering.py) keeps initial states for the others.
    shared: Callable[[object, Callable[[], Array]], Array] | None
    shared = getattr(simulator, "remembered", None)
    return draw() if shared is None else shared(at, draw)


def test_rngs(seed: int, step: int, episodes: int) -> list[np.random.Generator]:
    """Return the generators for test episodes after ``step`` steps; nothing else uses them."""
    return [
        streams.generator(seed, Purpose.TEST, step=step, index=index) for index in range(episodes)
    ]


# --- episodes as rows of numbers ----------------------------------------------------------------


def to_rows(episodes: Episodes, size: int) -> Array:
    """Convert episodes to one row each: the training reward, then further numbers.

    Args:
        episodes: The episodes.
        size: The number of entries of an observation.
    """
    rows = np.zeros((len(episodes.returns), 1 + _NUMBERS + 2 * size))
    rows[:, 0] = episodes.returns - episodes.bonuses
    rows[:, 1] = episodes.returns
    rows[:, 2] = episodes.bonuses
    rows[:, 3] = episodes.lengths
    rows[:, 4] = np.nan if episodes.successes is None else episodes.successes
    if episodes.moments is not None:
        rows[:, 5] = episodes.moments.counts
        rows[:, 6 : 6 + size] = episodes.moments.means
        rows[:, 6 + size :] = episodes.moments.m2
    return rows


def from_rows(rows: Array, size: int, *, goal: bool, observe: bool) -> Episodes:
    """Convert rows to episodes, the inverse of :func:`to_rows`.

    A dropped episode (its worker died or it timed out) has NaN in all columns.

    Args:
        rows: The rows.
        size: The number of entries of an observation.
        goal: Whether the environment has a goal.
        observe: Whether the rows have moments of the observations.
    """
    counts = np.nan_to_num(rows[:, [3, 5]], nan=0.0).astype(np.int64)
    moments = None
    if observe:
        means, m2 = rows[:, 1 + _NUMBERS :].reshape(-1, 2, size).transpose(1, 0, 2)
        moments = EpisodeMoments(counts[:, 1], means, m2)
    successes = rows[:, 4].copy() if goal else None
    return Episodes(rows[:, 1].copy(), rows[:, 2].copy(), counts[:, 0], moments, successes)


def test_batch(search: Search, state: SearchState, episodes: int) -> Batch:
    """Return the test episodes as a batch of evaluations."""
    center = np.zeros(episodes, np.int64)
    plan = Plan(center, center, np.arange(episodes))
    return search.ask(state).planned(plan, Purpose.TEST)


def open_entry(
    journal: Journal, policy: Policy, batch: Batch, scaling: Scaling, *, observe: bool
) -> JournalEntry:
    """Open the entry of a journal for the episodes of a batch."""
    columns = 1 + _NUMBERS + 2 * policy.sizes[0]
    return journal.open(batch.with_context(_context(scaling, observe)), columns)


def _context(scaling: Scaling, observe: bool, tasks: Array | None = None) -> Array:
    """Return the numbers that all episodes of a batch share."""
    more = [] if tasks is None else [tasks]
    return np.concatenate(([float(observe)], scaling.mean, scaling.inverse, *more))


# --- by workers ---------------------------------------------------------------------------------


@final
class Rewards:
    """The objective in a worker: the training reward, and additional numbers for the training.

    Args:
        simulator: The simulator.
        policy: The shape of the policy.
    """

    def __init__(self, simulator: Simulator, policy: Policy) -> None:
        self._simulator = simulator
        self._policy = policy

    @property
    def extras(self) -> int:
        """The number of additional numbers per episode."""
        return _NUMBERS + 2 * self._policy.sizes[0]

    def __call__(self, points: Array, rngs: list[np.random.Generator], context: Array) -> Array:
        """Return one row per episode: the reward, then the extras."""
        observe, size = bool(context[0]), self._policy.sizes[0]
        scaling = Scaling(*context[1 : 1 + 2 * size].reshape(2, size))
        starts = self._simulator.starts(rngs)
        tasks = context[1 + 2 * size :]
        if len(tasks):  # of all episodes of the iteration, in the order of their samples
            entries = task_entries(self._simulator)
            samples = [streams.index_of(rng) for rng in rngs]
            starts[:, -entries:] = tasks.reshape(-1, entries)[samples]
        episodes = self._simulator.rollout(
            self._policy, points, scaling, starts, observe=observe, threads=1
        )
        return to_rows(episodes, size)


@final
class Distributed:
    """Runs episodes through an evaluator's session.

    Args:
        session: The session.
        search: The search; it provides the batches for tests too.
        simulator: The simulator.
        shared_goal: Whether the episodes of a direction share one task.
    """

    def __init__(
        self, session: Session, search: Search, simulator: Simulator, *, shared_goal: bool = False
    ) -> None:
        self._session = session
        self._search = search
        self._simulator = simulator
        self._observation_size = simulator.info.observation_size
        self._goal = simulator.info.goal
        self._shared_goal = shared_goal
        self.faults: Mapping[str, int] = {}

    @property
    def workers(self) -> int:
        """See :class:`Rollouts`."""
        return self._session.workers

    def train(self, state: SearchState, batch: Batch, scaling: Scaling) -> Episodes:
        """See :class:`Rollouts`."""
        tasks = np.empty(0)
        if self._shared_goal:
            starts = batch_starts(self._simulator, batch, shared_goal=True)
            tasks = starts[:, -task_entries(self._simulator) :].ravel()
        return self._run(state, batch, scaling, tasks, observe=True)

    def test(self, state: SearchState, x: Array, scaling: Scaling, episodes: int) -> Episodes:
        """See :class:`Rollouts`."""
        state = state._replace(x=x)
        batch = test_batch(self._search, state, episodes)
        return self._run(state, batch, scaling, np.empty(0), observe=False)

    def _run(
        self, state: SearchState, batch: Batch, scaling: Scaling, tasks: Array, *, observe: bool
    ) -> Episodes:
        context = _context(scaling, observe, tasks)
        evaluated = self._session.evaluate(state, batch.with_context(context))
        self.faults = evaluated.faults
        assert evaluated.extras is not None
        rows = np.column_stack((evaluated.values, evaluated.extras))
        return from_rows(rows, self._observation_size, goal=self._goal, observe=observe)


@contextmanager
def distributed(
    evaluator: Evaluator,
    simulator: Simulator,
    policy: Policy,
    search: Search,
    *,
    shared_goal: bool = False,
    journal: Journal | None = None,
) -> Generator[Distributed]:
    """Start workers for a training; leaving the context stops them."""
    rewards = Rewards(simulator, policy)
    objective = Objective(
        rewards, sampled=True, vectorized=1, extras=rewards.extras, journal=journal
    )
    with evaluator.session(search, objective) as session:
        yield Distributed(session, search, simulator, shared_goal=shared_goal)
