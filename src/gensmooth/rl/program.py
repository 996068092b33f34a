"""A training as a program, and what it returns."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast, final

from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.describe import describe_parts, number, plain, whole
from gensmooth.observe import Seen, Start
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import Info
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.policies import Policy
from gensmooth.rl.policy_file import TrainedPolicy
from gensmooth.rl.rollouts import Rollouts
from gensmooth.rl.trainer import (
    Iteration,
    Test,
    Trainer,
    TrainState,
    pack_training,
    unpack_training,
)
from gensmooth.runs import (
    MESSAGES,
    SUCCESS,
    End,
    Execution,
    Journal,
    Program,
    Reason,
    Record,
    states,
)
from gensmooth.searches.files import from_parts, to_parts
from gensmooth.streams import check_seed

Array = NDArray[Any]
Callback = Callable[[Iteration, Test | None, TrainState], bool | None]

POLICY_BEST, POLICY_LAST = "policy-best", "policy-last"

_MESSAGES = {**MESSAGES, "target": "A test reached the target."}
_TEST_COUNTS = ("step", "trajectories", "env_steps", "episodes")
_WORDS = {
    "step": "iteration",
    "evaluations": "trajectories",
    "evaluations/s": "trajectories/s",
    "value": "training return",
}
_FEW_TESTS = 4  # say nothing of progress


@dataclass(frozen=True)
class TrainResult:
    """What a training found.

    Attributes:
        policy: The last policy.
        best: The policy with the best test; ``best.mean_return`` is that test's mean return, the
            largest of several noisy numbers and therefore somewhat too good.
        iterations: Iterations made.
        trajectories: Episodes of training.
        env_steps: Environment steps of training.
        success: Whether it ended as planned (iterations or target).
        status: The reason it ended.
        message: The reason in words.
        faults: What went wrong on the way, by kind.
        seed: The seed, drawn for you if you gave none.
        tests: The tests, in order.
        history: The iterations, in order.
        state: The state after the last iteration.
    """

    policy: TrainedPolicy = field(repr=False)
    best: TrainedPolicy = field(repr=False)
    iterations: int
    trajectories: int
    env_steps: int
    success: bool
    status: Reason
    message: str
    faults: Mapping[str, int]
    seed: int
    tests: tuple[Test, ...] = field(repr=False)
    history: tuple[Iteration, ...] = field(repr=False)
    state: TrainState = field(repr=False)

    def __repr__(self) -> str:
        """Where, how long, and how well."""
        tested = "no test"
        if self.tests:
            last, best = self.tests[-1].mean_return, self.best.mean_return
            tested = f"last test {last:.6g}, best {best:.6g} after {self.best.step}"
        return (
            f"TrainResult({self.policy.environment}: {self.iterations:,} iterations, "
            f"{self.trajectories:,} trajectories, {self.env_steps:,} steps; {tested}; "
            f"status={self.status!r}, seed={self.seed})"
        )


class Schedule(NamedTuple):
    """How long a training goes on, and when it is tested.

    Attributes:
        iterations: Iterations to make.
        test_every: Iterations between tests.
        test_episodes: Episodes of a test.
        target: Stop when a test's mean return reaches this.
    """

    iterations: int
    test_every: int
    test_episodes: int
    target: float | None = None

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Schedule":
        """A schedule from JSON, checked."""
        target = found["target"]
        counts = (whole(found[name]) for name in cls._fields[:3])
        return cls(*counts, target=None if target is None else number(target))


class TrainRecord(NamedTuple):
    """An iteration as ``metrics.jsonl`` tells it."""

    iteration: Iteration
    test: Test | None
    faults: Mapping[str, int]


@final
@dataclass(frozen=True, kw_only=True)
class Training(Program[TrainState, TrainRecord, TrainResult]):
    """Iterations of a trainer, with a test now and then.

    Attributes:
        trainer: Environment, policy and search.
        method: The name of the method, or of the directions' class.
        seed: Its seed.
        limits: How long it goes on.
        execution: How it is carried out; the result does not depend on it.
        rollouts: Who runs the episodes, and records them in a journal.
        callback: Called after each iteration; true stops.
    """

    kind: ClassVar[str] = "training"
    noun: ClassVar[str] = "training"
    unit: ClassVar[str] = "episodes"
    resumed_by: ClassVar[str | None] = "gs.rl.resume"
    limits_name: ClassVar[str] = "schedule"
    reasons: ClassVar[Sequence[str]] = (
        "iterations",
        "target",
        "callback",
        "interrupted",
        "diverged",
    )
    compared: ClassVar[Mapping[str, str | None] | None] = {
        "environment": "environment's {}",
        "policy": "`{}`",
        "standardize": None,
        "resets": "`{}`",
        "method": None,
        "seed": None,
        "search": "`{}`",
        "schedule": "`{}`",
    }

    trainer: Trainer
    method: str
    seed: int
    limits: Schedule = field()
    execution: Execution
    rollouts: Callable[[Journal | None], AbstractContextManager[Rollouts]] | None = None
    callback: Callback | None = None

    def init(self) -> TrainState:
        """See :class:`~gensmooth.runs.Program`."""
        return self.trainer.init(self.seed)

    def session(self, journal: Journal | None) -> AbstractContextManager[Rollouts]:
        """Start whoever runs the episodes."""
        assert self.rollouts is not None
        return self.rollouts(journal)

    def step(self, state: TrainState, session: Rollouts) -> tuple[TrainState, TrainRecord]:
        """An iteration and, when it is due, a test; both or nothing."""
        schedule = self.limits
        state, iteration = self.trainer.step(state, session)
        faults, test = Counter(session.faults), None
        step = state.search.step
        if step % schedule.test_every == 0 or step == schedule.iterations:
            state, test = self.trainer.test(state, session, schedule.test_episodes)
            faults.update(session.faults)
        return state, TrainRecord(iteration, test, dict(faults))

    def stop(self, state: TrainState, last: TrainRecord | None) -> End | None:
        """See :class:`~gensmooth.runs.Program`."""
        target = self.limits.target
        if last is not None:
            iteration, test, _ = last
            if iteration.info.diverged is not None:
                return End("diverged", iteration.info.diverged)
            if self.callback is not None and self.callback(iteration, test, state):
                return End("callback")
            if test is not None and target is not None and test.mean_return >= target:
                return End("target", self._solved(target))
        elif target is not None and state.best.mean_return >= target:  # of a test before now
            return End("target", self._solved(target))
        return End("iterations") if state.search.step >= self.limits.iterations else None

    def _solved(self, target: float) -> str:
        """Words on a target that is Gymnasium's."""
        name = self.trainer.info.name
        if target != catalogue.reward_threshold(name):
            return ""
        return f"{target:g}, at which Gymnasium calls {name} solved (no target: go on)"

    def result(self, state: TrainState, records: Sequence[TrainRecord], end: End) -> TrainResult:
        """See :class:`~gensmooth.runs.Program`."""
        tests = tuple(record.test for record in records if record.test is not None)
        faults: Counter[str] = Counter()
        for record in records:
            faults.update(record.faults)
        return TrainResult(
            policy=self._last(state, tests[-1] if tests else None),
            best=self._best(state),
            iterations=state.search.step,
            trajectories=state.search.evaluations,
            env_steps=state.env_steps,
            success=end.reason in SUCCESS,
            status=cast(Reason, end.reason),
            message=end.message(_MESSAGES) + _no_progress(tests, end),
            faults=dict(faults),
            seed=self.seed,
            tests=tests,
            history=tuple(record.iteration for record in records),
            state=state,
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        trainer, execution = self.trainer, self.execution.to_json()
        return {
            "environment": asdict(trainer.info),
            "policy": {"sizes": list(trainer.policy.sizes), "biases": trainer.policy.biases},
            "standardize": trainer.standardize,
            **({"resets": "shared-goal"} if trainer.shared_goal else {}),
            "method": self.method,
            "seed": self.seed,
            "search": to_parts(trainer.search),
            "schedule": describe_parts(self.limits, Schedule._fields),
            "execution": execution,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], trust: bool = False) -> "Training":
        """The training of a ``config.json``.

        Raises:
            ValueError: When it is not one, or has something that cannot be written down; so do
                ``TypeError`` and ``LookupError`` say.
        """
        info, policy = Info(**found["environment"]), found["policy"]
        if not isinstance(info.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the name of its environment is not one")
        search = from_parts(
            found["search"], trust=trust, again="repeat the call of gs.rl.train that began it"
        )
        return cls(
            trainer=Trainer(
                info,
                Policy(tuple(policy["sizes"]), policy["biases"]),
                search,
                standardize=bool(found["standardize"]),
                shared_goal=found.get("resets") == "shared-goal",
            ),
            method=str(found["method"]),
            seed=check_seed(found["seed"]),
            limits=Schedule.from_json(found["schedule"]),
            execution=Execution.from_json(found["execution"]),
        )

    def extended(self, limits: Schedule, step: int) -> "Training":  # noqa: ARG002
        """The training with another schedule."""
        return replace(self, limits=limits)

    def pack(self, state: TrainState) -> tuple[dict[str, Any], dict[str, Array]]:
        """See :class:`~gensmooth.runs.Program`."""
        return pack_training(self.trainer, state)

    def largest(self) -> int:
        """See :class:`~gensmooth.runs.Program`."""
        return states.largest(self.trainer.policy.num_parameters)

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> TrainState:
        """See :class:`~gensmooth.runs.Program`."""
        return unpack_training(self.trainer, meta, arrays, self.seed)

    def write_record(self, record: TrainRecord) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        iteration, test, faults = record
        told = None if test is None else {n: plain(v) for n, v in test._asdict().items()}
        return {
            **states.record_to_json(Record(iteration.info, faults)),
            "deviation": plain(iteration.deviation),
            "env_steps": iteration.env_steps,
            "mean_length": plain(iteration.mean_length),
            "test": told,
        }

    def read_record(self, found: dict[str, Any]) -> TrainRecord:
        """See :class:`~gensmooth.runs.Program`."""
        deviation, mean_length = (number(found.pop(n)) for n in ("deviation", "mean_length"))
        env_steps, told = whole(found.pop("env_steps")), found.pop("test")
        info, faults = states.record_from_json(found)
        test = None
        if told is not None:
            values: dict[str, Any] = {
                name: None if v is None else whole(v) if name in _TEST_COUNTS else number(v)
                for name, v in told.items()
            }
            test = Test(**values)
        return TrainRecord(Iteration(info, deviation, env_steps, mean_length), test, faults)

    def write_files(
        self, folder: Path, state: TrainState, records: Sequence[TrainRecord], *, saved: bool
    ) -> None:
        """The two policies: the last with each checkpoint, the best also when it is new."""
        test = records[-1].test if records else None
        improved = test is not None and state.best.step == state.search.step
        policies: dict[str, TrainedPolicy] = {}
        if saved:
            policies[POLICY_LAST] = self._last(state, test)
        if improved if not saved else any(record.test for record in records):
            policies[POLICY_BEST] = self._best(state)
        for name, policy in policies.items():
            policy.save(folder / name)

    def start(self, state: TrainState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        iterations = self.limits.iterations
        return start._replace(
            evaluations=state.search.evaluations,
            budget=self.trainer.search.evaluations_after(iterations),  # may depend on the returns
            max_steps=iterations,
            words=_WORDS,
        )

    def seen(self, state: TrainState, records: Sequence[TrainRecord], session: Rollouts) -> Seen:
        """See :class:`~gensmooth.runs.Program`."""
        iteration = records[-1].iteration
        more = {"environment steps": float(iteration.env_steps), "length": iteration.mean_length}
        test = next((record.test for record in reversed(records) if record.test is not None), None)
        if test is not None:
            more |= {"test return": test.mean_return, "best test": state.best.mean_return}
            if test.success is not None:
                more["success"] = test.success
        return Seen(iteration.info, session.workers, more)

    def summary(self, result: TrainResult) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        return {
            "status": result.status,
            "message": result.message,
            "success": result.success,
            "fun": result.tests[-1].mean_return if result.tests else float("nan"),
            "best_fun": result.best.mean_return,
            "nfev": result.trajectories,
            "nit": result.iterations,
        }

    def _last(self, state: TrainState, test: Test | None) -> TrainedPolicy:
        """The policy of a state, with its return if ``test`` is a test of it."""
        own = test is not None and test.step == state.search.step
        return self._policy(
            state.search.x,
            state.statistics,
            state.search.step,
            test.mean_return if test is not None and own else math.nan,
        )

    def _best(self, state: TrainState) -> TrainedPolicy:
        """The policy with the best test; before the first test, the initial one."""
        mean_return, step, parameters, statistics = state.best
        if not math.isfinite(mean_return):
            mean_return = math.nan
        return self._policy(parameters, statistics, step, mean_return)

    def _policy(
        self, parameters: Array, statistics: Statistics, step: int, mean_return: float
    ) -> TrainedPolicy:
        return TrainedPolicy(
            environment=self.trainer.info.name,
            policy=self.trainer.policy,
            parameters=parameters,
            statistics=statistics,
            standardize=self.trainer.standardize,
            method=self.method,
            seed=self.seed,
            step=step,
            mean_return=mean_return,
        )


def checked_schedule(
    iterations: int, test_every: int, test_episodes: int, target: float | None
) -> Schedule:
    """A schedule from a user, checked."""
    target = checks.optional(checks.number, "target", target)
    if target is not None and math.isnan(target):
        raise ValueError(f"`target` must be a number that a test can reach, but is {target!r}.")
    return Schedule(
        checks.count("iterations", iterations, 0),
        checks.count("test_every", test_every),
        checks.count("test_episodes", test_episodes),
        None if target is None else float(target),
    )


def _no_progress(tests: Sequence[Test], end: End) -> str:
    """What to try where no test was better than the first by more than their errors."""
    if len(tests) < _FEW_TESTS or end.reason != "iterations":
        return ""
    first, best = tests[0], max(tests, key=lambda test: test.mean_return)
    error2 = sum(test.deviation**2 / max(1, test.episodes) for test in (first, best))
    if best.mean_return - first.mean_return > 2 * math.sqrt(error2):
        return ""
    return (
        " No test was clearly better than the first. If that is not as good as it gets: another "
        "policy ('mlp' where a linear one cannot do it), more iterations, or more directions."
    )
