"""A training as a program, and its result."""

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
from gensmooth.observe import Start, StepData
from gensmooth.results import status_of, table
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentInfo
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.policies import Policy
from gensmooth.rl.policy_file import TrainedPolicy
from gensmooth.rl.rollouts import Rollouts
from gensmooth.rl.trainer import (
    Iteration,
    PolicyTest,
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
from gensmooth.searches import StepInfo
from gensmooth.searches.files import from_parts, to_parts
from gensmooth.streams import check_seed

Array = NDArray[Any]
Callback = Callable[["IntermediateTraining"], bool | None]

POLICY_BEST, POLICY_LAST = "policy-best", "policy-last"

TRAINING_MESSAGES = {**MESSAGES, "target": "A test reached the target."}
_TEST_COUNTS = ("step", "trajectories", "env_steps", "episodes")
_WORDS = {
    "evaluations": "episodes",
    "evaluations/s": "episodes/s",
    "value": "training return",
    "fun": "test return",
}
_FEW_TESTS = 4  # fewer do not show whether there is progress


@dataclass(frozen=True)
class IntermediateTraining:
    """The argument of a callback after each step of a training, with SciPy's names.

    Attributes:
        x: The policy's parameters.
        fun: The mean training return of the step, without the survival bonus.
        nfev: The number of training episodes so far.
        nit: The number of steps so far.
        env_steps: The number of environment steps in training so far.
        test: The test after this step; ``None`` if there was none.
        info: More about the step of the search.
        state: The state of the training.
    """

    x: Array
    fun: float
    nfev: int
    nit: int
    env_steps: int
    test: PolicyTest | None
    info: StepInfo
    state: TrainState


@dataclass(frozen=True, repr=False)
class TrainResult:
    """The result of a training, with the names of :class:`~gensmooth.Result`.

    Attributes:
        policy: The last policy.
        best: The policy with the best test. ``best.mean_return`` is the mean return of that test;
            as the largest of several noisy numbers, it is biased upwards.
        nfev: The number of training episodes (trajectories).
        nit: The number of steps.
        env_steps: The number of environment steps in training.
        success: Whether the training ended as planned (steps, time or target).
        status: A number, as in :class:`~gensmooth.Result`: 0 if it ended as planned.
        reason: The reason it ended: ``"max_steps"``, ``"max_seconds"``, ``"target"``,
            ``"diverged"``, ``"interrupted"`` or ``"callback"``.
        message: The reason as a sentence.
        dropped: The number of directions dropped because an episode failed.
        faults: The number of failures by kind.
        seed: The seed, drawn for you if you passed none. With it, the training repeats exactly.
        tests: The tests, in order.
        history: One record per step.
        state: The state after the last step.
    """

    policy: TrainedPolicy
    best: TrainedPolicy
    nfev: int
    nit: int
    env_steps: int
    success: bool
    status: int
    reason: Reason
    message: str
    dropped: int
    faults: Mapping[str, int]
    seed: int
    tests: tuple[PolicyTest, ...]
    history: tuple[Iteration, ...]
    state: TrainState

    @property
    def x(self) -> Array:
        """The parameters of the last policy."""
        return self.policy.parameters

    @property
    def fun(self) -> float:
        """The mean return of the last test; NaN if there was none."""
        return self.tests[-1].mean_return if self.tests else math.nan

    @property
    def best_x(self) -> Array:
        """The parameters of the policy with the best test."""
        return self.best.parameters

    @property
    def best_fun(self) -> float:
        """The mean return of the best test."""
        return self.best.mean_return

    def __getitem__(self, name: str) -> Any:
        """Return an attribute by name, as in ``result["nit"]``."""
        return getattr(self, name)

    def __repr__(self) -> str:
        """Return a small table; the policies, the history and the state are left out."""
        shown = (
            *("message", "success", "status", "reason", "fun", "best_fun", "nfev", "nit"),
            *("env_steps", "dropped", "faults", "seed"),
        )
        rows = {"environment": self.policy.environment}
        rows |= {name: getattr(self, name) for name in shown}
        rows["best_fun"] = f"{self.best_fun:.6g} after {self.best.step} steps"
        left_out = {name for name in ("dropped", "faults") if not rows[name]}
        left_out |= set() if self.tests else {"fun", "best_fun"}
        return table({name: value for name, value in rows.items() if name not in left_out})


class Schedule(NamedTuple):
    """The length of a training, and its tests.

    Attributes:
        max_steps: The number of steps.
        test_every: The number of steps between tests.
        test_episodes: The number of episodes in a test.
        target: Stop when the mean return of a test reaches this.
    """

    max_steps: int
    test_every: int
    test_episodes: int
    target: float | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Schedule":
        """Read and check a schedule from JSON."""
        target = stored["target"]
        counts = (whole(stored[name]) for name in cls._fields[:3])
        return cls(*counts, target=None if target is None else number(target))


class TrainRecord(NamedTuple):
    """A step as it is stored in ``metrics.jsonl``."""

    iteration: Iteration
    test: PolicyTest | None
    faults: Mapping[str, int]


@final
@dataclass(frozen=True, kw_only=True)
class Training(Program[TrainState, TrainRecord, TrainResult]):
    """The steps of a trainer, with tests in between.

    Attributes:
        trainer: The environment, policy and search.
        method: The name of the method, or of the directions' class.
        seed: The seed.
        limits: The length of the training, and its tests.
        execution: How it is executed; the result does not depend on it.
        rollouts: Starts the rollouts of the episodes, which are recorded in a journal.
        callback: Called after each step; the training stops if it returns true.
    """

    kind: ClassVar[str] = "training"
    noun: ClassVar[str] = "training"
    unit: ClassVar[str] = "episodes"
    resumed_by: ClassVar[str | None] = "gs.rl.resume"
    limits_name: ClassVar[str] = "schedule"
    reasons: ClassVar[Sequence[str]] = (
        *("max_steps", "max_seconds", "target", "callback", "interrupted", "diverged"),
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
        """See :class:`~gensmooth.runs.Program`."""
        assert self.rollouts is not None
        return self.rollouts(journal)

    def step(self, state: TrainState, session: Rollouts) -> tuple[TrainState, TrainRecord]:
        """Take a step and, if one is due, make a test."""
        schedule = self.limits
        state, iteration = self.trainer.step(state, session)
        faults, test = Counter(session.faults), None
        step = state.search.step
        if step % schedule.test_every == 0 or step == schedule.max_steps:
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
            if self.callback is not None and self._is_stopped(self.callback, last, state):
                return End("callback")
            if test is not None and target is not None and test.mean_return >= target:
                return End("target", self._solved(target))
        elif target is not None and state.best.mean_return >= target:  # before resuming
            return End("target", self._solved(target))
        return End("max_steps") if state.search.step >= self.limits.max_steps else None

    def _is_stopped(self, callback: Callback, last: TrainRecord, state: TrainState) -> bool:
        now = IntermediateTraining(
            x=state.search.x,
            fun=last.iteration.info.value,
            nfev=state.search.evaluations,
            nit=state.search.step,
            env_steps=state.env_steps,
            test=last.test,
            info=last.iteration.info,
            state=state,
        )
        try:
            return bool(callback(now))
        except StopIteration:
            return True

    def _solved(self, target: float) -> str:
        """Explain a target that is Gymnasium's threshold; otherwise return an empty string."""
        name = self.trainer.info.name
        if target != catalogue.reward_threshold(name):
            return ""
        return f"{target:g}, at which Gymnasium considers {name} solved (target=None goes on)"

    def result(self, state: TrainState, records: Sequence[TrainRecord], end: End) -> TrainResult:
        """See :class:`~gensmooth.runs.Program`."""
        tests = tuple(record.test for record in records if record.test is not None)
        faults: Counter[str] = Counter()
        for record in records:
            faults.update(record.faults)
        success = end.reason in SUCCESS
        return TrainResult(
            policy=self._last(state, tests[-1] if tests else None),
            best=self._best(state),
            nit=state.search.step,
            nfev=state.search.evaluations,
            env_steps=state.env_steps,
            success=success,
            status=status_of(end.reason, success=success),
            reason=cast(Reason, end.reason),
            message=end.message(TRAINING_MESSAGES) + _no_progress(tests, end),
            dropped=sum(record.iteration.info.dropped for record in records),
            faults=dict(faults),
            seed=self.seed,
            tests=tests,
            history=tuple(record.iteration for record in records),
            state=state,
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        trainer = self.trainer
        return {
            "environment": asdict(trainer.info),
            "policy": {"sizes": list(trainer.policy.sizes), "biases": trainer.policy.biases},
            "standardize": trainer.standardize,
            **({"resets": "shared-goal"} if trainer.shared_goal else {}),
            "method": self.method,
            "seed": self.seed,
            "search": to_parts(trainer.search),
            "schedule": describe_parts(self.limits, Schedule._fields),
            "execution": self.execution.to_json(),
        }

    @classmethod
    def from_json(cls, config: Mapping[str, Any], trust: bool = False) -> "Training":
        """Restore the training of a ``config.json``.

        Raises:
            ValueError: If it is invalid or contains something that cannot be restored;
                ``TypeError`` and ``LookupError`` mean the same.
        """
        info, policy = EnvironmentInfo(**config["environment"]), config["policy"]
        if not isinstance(info.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the name of its environment is not a string")
        search = from_parts(
            config["search"], trust=trust, again="repeat the call of gs.rl.train that began it"
        )
        return cls(
            trainer=Trainer(
                info,
                Policy(tuple(policy["sizes"]), policy["biases"]),
                search,
                standardize=bool(config["standardize"]),
                shared_goal=config.get("resets") == "shared-goal",
            ),
            method=str(config["method"]),
            seed=check_seed(config["seed"]),
            limits=Schedule.from_json(config["schedule"]),
            execution=Execution.from_json(config["execution"]),
        )

    def extended(self, limits: Schedule, step: int) -> "Training":  # noqa: ARG002
        """Return the training with another schedule."""
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
        tested = None if test is None else {n: plain(v) for n, v in test._asdict().items()}
        return {
            **states.record_to_json(Record(iteration.info, faults)),
            "deviation": plain(iteration.deviation),
            "env_steps": iteration.env_steps,
            "mean_length": plain(iteration.mean_length),
            "test": tested,
        }

    def read_record(self, stored: dict[str, Any]) -> TrainRecord:
        """See :class:`~gensmooth.runs.Program`."""
        deviation, mean_length = (number(stored.pop(n)) for n in ("deviation", "mean_length"))
        env_steps, tested = whole(stored.pop("env_steps")), stored.pop("test")
        info, faults = states.record_from_json(stored)
        test = None
        if tested is not None:
            values: dict[str, Any] = {
                name: None if v is None else whole(v) if name in _TEST_COUNTS else number(v)
                for name, v in tested.items()
            }
            test = PolicyTest(**values)
        return TrainRecord(Iteration(info, deviation, env_steps, mean_length), test, faults)

    def write_files(
        self, folder: Path, state: TrainState, records: Sequence[TrainRecord], *, saved: bool
    ) -> None:
        """Write the last policy with each checkpoint, and the best one also when it is new."""
        test = records[-1].test if records else None
        improved = test is not None and state.best.step == state.search.step
        policies: dict[str, TrainedPolicy] = {}
        if saved:
            policies[POLICY_LAST] = self._last(state, test)
        if any(record.test for record in records) if saved else improved:
            policies[POLICY_BEST] = self._best(state)
        for name, policy in policies.items():
            policy.save(folder / name)

    def start(self, state: TrainState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        max_steps = self.limits.max_steps
        return start._replace(
            evaluations=state.search.evaluations,
            budget=self.trainer.search.evaluations_after(max_steps),  # may depend on the returns
            max_steps=max_steps,
            words=_WORDS,
        )

    def step_data(
        self, state: TrainState, records: Sequence[TrainRecord], session: Rollouts
    ) -> StepData:
        """See :class:`~gensmooth.runs.Program`."""
        iteration = records[-1].iteration
        more = {"environment steps": float(iteration.env_steps), "length": iteration.mean_length}
        test = next((record.test for record in reversed(records) if record.test is not None), None)
        if test is not None:
            more |= {"test return": test.mean_return, "best test": state.best.mean_return}
            if test.success is not None:
                more["success"] = test.success
        return StepData(iteration.info, session.workers, more)

    def summary(self, result: TrainResult) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        return {
            name: result[name]
            for name in ("reason", "message", "success", "fun", "best_fun", "nfev", "nit")
        }

    def _last(self, state: TrainState, test: PolicyTest | None) -> TrainedPolicy:
        """Return the policy that the search recommends, with its return if ``test`` is its test."""
        step, x = state.search.step, self.trainer.search.recommend(state.search)
        tested = test is not None and test.step == step
        mean_return = test.mean_return if test is not None and tested else math.nan
        return self._policy(x, state.statistics, step, mean_return)

    def _best(self, state: TrainState) -> TrainedPolicy:
        """Return the policy with the best test; before the first test, the initial one."""
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
    max_steps: int, test_every: int, test_episodes: int, target: float | None
) -> Schedule:
    """Check a user's schedule."""
    target = checks.optional(checks.number, "target", target)
    if target is not None and math.isnan(target):
        raise ValueError(f"`target` must be a number that a test can reach, but is {target!r}.")
    return Schedule(
        checks.count("max_steps", max_steps, 0),
        checks.count("test_every", test_every),
        checks.count("test_episodes", test_episodes),
        None if target is None else float(target),
    )


def _no_progress(tests: Sequence[PolicyTest], end: End) -> str:
    """Return advice if no test was better than the first by more than their standard errors."""
    if len(tests) < _FEW_TESTS or end.reason != "max_steps":
        return ""
    first, best = tests[0], max(tests, key=lambda test: test.mean_return)
    error2 = sum(test.deviation**2 / max(1, test.episodes) for test in (first, best))
    if best.mean_return - first.mean_return > 2 * math.sqrt(error2):
        return ""
    return (
        " No test was clearly better than the first. If a better policy exists, try another kind "
        "of policy ('mlp'), more steps, or more directions."
    )
