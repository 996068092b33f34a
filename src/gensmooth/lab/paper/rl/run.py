"""One run of the reinforcement-learning study: rounds of iterations, each with a test at its end.

A run may take hours, so it is a program with a checkpoint in its scratch folder. After an
interruption it continues from there, to the same record to the last bit.
"""

import json
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from gensmooth.lab.experiments.progress import tell
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.runs import STOPPED, End, Every, Journal, Program, Run, Scratch, states

if TYPE_CHECKING:
    from gensmooth.rl.rollouts import Local, Rollouts
    from gensmooth.rl.trainer import PolicyTest, Trainer, TrainState

_EVERY = 20.0  # seconds between checkpoints; a kill loses at most these and a test in progress

# Series of a record: one number per test.
SERIES = ("return", "deviation", "trajectories", "env_steps", "success")


class LongRunState(NamedTuple):
    """The state of a run.

    Attributes:
        state: The training's state.
        series: The tests so far.
        seconds: Time spent so far, over all attempts.
        diverged: Whether it has diverged.
    """

    state: "TrainState"
    series: Mapping[str, list[float]]
    seconds: float
    diverged: bool = False


@final
class LongRun(Program[LongRunState, Mapping[str, Any], LongRunState | None]):
    """A run of the study as a program. Its result is the last state, or ``None`` if interrupted.

    Args:
        config: The configuration.
        trainer: The training.
        rollouts: Runs its episodes.
        began: When this attempt began, by :func:`time.perf_counter`.
    """

    kind = "study"

    def __init__(
        self, config: Mapping[str, Any], trainer: "Trainer", rollouts: "Local", began: float
    ) -> None:
        self._config = config
        self._trainer = trainer
        self._rollouts = rollouts
        self._clock = began

    def init(self) -> LongRunState:
        """See :class:`~gensmooth.runs.Program`."""
        return LongRunState(self._trainer.init(self._config["seed"]), {}, 0.0)

    def session(self, journal: Journal | None) -> AbstractContextManager["Rollouts"]:
        """See :class:`~gensmooth.runs.Program`."""
        return nullcontext(self._rollouts.journaled(journal))

    def step(
        self, state: LongRunState, session: "Rollouts"
    ) -> tuple[LongRunState, Mapping[str, Any]]:
        """Run one more iteration or one more test."""
        after = advance(state, self._config, self._trainer, session)
        now = time.perf_counter()
        after = after._replace(seconds=state.seconds + now - self._clock)
        self._clock = now
        tell(after.state.search.step / (self._config["rounds"] * self._config["iterations"]))
        return after, {}

    def stop(self, state: LongRunState, last: Any) -> End | None:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        if state.diverged:
            return End("diverged")
        made = _tests(state) == self._config["rounds"] // self._config["test_every"]
        return End("finished") if made else None

    def result(self, state: LongRunState, records: Any, end: End) -> LongRunState | None:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        return None if end.reason in STOPPED else state

    def pack(self, state: LongRunState) -> tuple[dict[str, Any], dict[str, Any]]:
        """See :class:`~gensmooth.runs.Program`."""
        from gensmooth.rl.trainer import pack_training

        training, arrays = pack_training(self._trainer, state.state)
        meta = {
            "config": dict(self._config),
            "state": training,
            "series": {name: [value.hex() for value in s] for name, s in state.series.items()},
            "seconds": state.seconds,
            "diverged": state.diverged,
        }
        return meta, arrays

    def largest(self) -> int:
        """See :class:`~gensmooth.runs.Program`."""
        return states.largest(self._trainer.policy.num_parameters)

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> LongRunState:
        """See :class:`~gensmooth.runs.Program`."""
        from gensmooth.rl.trainer import unpack_training

        if meta["config"] != json.loads(json.dumps(dict(self._config))):
            raise ValueError("it belongs to another run")
        state = unpack_training(self._trainer, meta["state"], arrays, self._config["seed"])
        series = {name: [float.fromhex(v) for v in row] for name, row in meta["series"].items()}
        return LongRunState(state, series, float(meta["seconds"]), bool(meta["diverged"]))


def execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:
    """Execute a run, or continue it."""
    began = time.perf_counter()
    trainer, rollouts, member = prepare(config)
    program = LongRun(config, trainer, rollouts, began)
    folder = Scratch(scratch)
    with member:
        progress = Run(
            program, folder.load(program), folder=folder, every=Every(seconds=_EVERY)
        ).execute()
    if progress is None:
        raise KeyboardInterrupt
    last = progress.series.get("return", [])
    final = math.inf if progress.diverged or not last else -last[-1]
    return RunRecord(config, progress.series, final, progress.diverged, progress.seconds)


def prepare(config: Mapping[str, Any]) -> tuple["Trainer", "Local", AbstractContextManager[None]]:
    """Return the training of a run, its rollouts, and a context to run it in.

    On the CPU, a run uses one thread; on a GPU, all runs of the process share the simulator.
    """
    from gensmooth.directions import named
    from gensmooth.estimators import Antithetic, ForwardDifference
    from gensmooth.lab.paper.rl.settings import MOMENTUM
    from gensmooth.lab.paper.tables import RL_HIDDEN
    from gensmooth.optimizers import momentum, sgd
    from gensmooth.rl.environments.catalogue import make
    from gensmooth.rl.environments.gathering import gathering
    from gensmooth.rl.policies import architecture
    from gensmooth.rl.rollouts import Local
    from gensmooth.rl.trainer import Trainer
    from gensmooth.searches import RandomSearch

    device, member = config.get("device"), nullcontext()
    if device is None:
        simulator = make(config["environment"])
    else:
        name = config["environment"]
        simulator = gathering((name, device), lambda: make(name, device=device))
        member = simulator.member()
    info = simulator.info
    policy = architecture(config["policy"], (RL_HIDDEN,)).policy(
        info.observation_size, info.action_size
    )
    estimator = {"forward-difference": ForwardDifference, "antithetic": Antithetic}
    number, rate = config["num_directions"], config["learning_rate"]
    # The steps that momentum takes for one estimate add up to the step without momentum.
    slowed = config.get("optimizer") == "momentum"
    optimizer = momentum(rate * (1 - MOMENTUM), MOMENTUM) if slowed else sgd(rate)
    shared_goal = config["samples"] == "shared-goal"
    search = RandomSearch(
        named(config["method"], dim=policy.num_parameters, num_directions=number),
        num_directions=number,
        spacing=config["spacing"],
        estimator=estimator[config["estimator"]](),
        optimizer=optimizer,
        samples="independent" if shared_goal else config["samples"],
        maximize=True,
        on_failure="drop",
        min_fraction=1 / number,
    )
    rollouts = Local(simulator, policy, threads=1, search=search, shared_goal=shared_goal)
    return Trainer(info, policy, search, shared_goal=shared_goal), rollouts, member


def advance(
    progress: LongRunState, config: Mapping[str, Any], trainer: "Trainer", rollouts: "Rollouts"
) -> LongRunState:
    """Run one more iteration or one more test."""
    from gensmooth.evaluators import EvaluationError

    state = progress.state
    due = (_tests(progress) + 1) * config["test_every"] * config["iterations"]
    try:
        if state.search.step == due:
            last = due == config["rounds"] * config["iterations"]
            trials = config.get("last_trials" if last else "test_trials", config["test_trials"])
            state, test = trainer.test(state, rollouts, trials)
            return progress._replace(state=state, series=_extended(progress.series, test))
        state, iteration = trainer.step(state, rollouts)
    except (EvaluationError, ValueError):
        # No episode of a direction, or of the test, could be simulated: the policy has diverged. At
        # the first step it would be a bug.
        if state.search.step == 0:
            raise
        return progress._replace(diverged=True)
    return progress._replace(state=state, diverged=iteration.info.diverged is not None)


def _tests(progress: LongRunState) -> int:
    return len(progress.series.get("return", ()))


def _extended(series: Mapping[str, list[float]], test: "PolicyTest") -> dict[str, list[float]]:
    values = (test.mean_return, test.deviation, test.trajectories, test.env_steps, test.success)
    now = {name: float(v) for name, v in zip(SERIES, values, strict=True) if v is not None}
    return {name: [*series.get(name, ()), value] for name, value in now.items()}
