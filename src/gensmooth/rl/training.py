"""``train`` and ``resume``: a training as a program, and what it gives."""

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast, final

from numpy.typing import NDArray

import gensmooth.algorithms as algorithms
from gensmooth import checks, optimizers
from gensmooth.describe import describe_parts, is_given, number, plain, rebuild, whole
from gensmooth.directions import Directions
from gensmooth.estimators import ESTIMATORS, Estimator, Samples
from gensmooth.evaluators import Evaluator, as_evaluator
from gensmooth.methods import choose_directions
from gensmooth.observe import Observers, Seen, Start, Tracker
from gensmooth.optimizers import Optimizer
from gensmooth.pilot import AUTO, Pilot
from gensmooth.resuming import evaluator_again
from gensmooth.rl.defaults import (
    GPU_DIRECTIONS,
    NUM_DIRECTIONS,
    PILOT_SCALE,
    default_iterations,
    defaults,
    gpu_points,
)
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentLike, Info, Simulator
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.policies import MLP, Linear, Policy, architecture
from gensmooth.rl.policy_file import TrainedPolicy
from gensmooth.rl.rollouts import Local, Rollouts, SideBySide, distributed
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
    CheckpointError,
    End,
    Every,
    Execution,
    Program,
    Reason,
    Record,
    Run,
    RunFolder,
    run,
    seed_in,
    states,
)
from gensmooth.runs.folder import read_config
from gensmooth.search import FailurePolicy, RandomSearch, Search
from gensmooth.streams import check_seed

Array = NDArray[Any]
Callback = Callable[[Iteration, Test | None, TrainState], bool | None]

ON_GPU = "islands"  # the method of a training on a GPU, where nothing is chosen
THRESHOLD = "threshold"  # the target that is Gymnasium's
POLICY_BEST, POLICY_LAST = "policy-best", "policy-last"

_MESSAGES = {**MESSAGES, "target": "A test reached the target."}
_SEARCH = ("directions", "estimator", "optimizer", "num_directions", "spacing", "samples")
_FAILURES = ("on_failure", "min_fraction")
_POPULATION = ("num_directions", "spacing", "x_scale", "samples")
_TEST_COUNTS = ("step", "trajectories", "env_steps", "episodes")
_WORDS = {
    "step": "iteration",
    "evaluations": "trajectories",
    "evaluations/s": "trajectories/s",
    "value": "training return",
}
_log = logging.getLogger("gensmooth")
_FEW_TESTS = 4  # say nothing of progress
_NO_BUDGET = 2**53  # a training ends by its iterations


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


@checks.explains_unknown
def train(
    environment: EnvironmentLike,
    *,
    env_args: Mapping[str, Any] | None = None,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int | None = None,
    spacing: float | None = None,
    x_scale: float | None = None,
    learning_rate: float | None = None,
    optimizer: Optimizer | None = None,
    policy: str | Linear | MLP = "linear",
    hidden: Sequence[int] | None = None,
    estimator: str | Estimator | None = None,
    paired_resets: bool = False,
    standardize: bool | None = None,
    iterations: int | None = None,
    test_every: int = 10,
    test_episodes: int = 50,
    target: float | Literal["threshold"] | None = "threshold",
    on_failure: Literal["raise", "drop"] = "raise",
    min_fraction: float = 0.5,
    device: str = "cpu",
    threads: int | None = None,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 0,
    out: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    seed: int | None = None,
) -> TrainResult:
    """Train a policy by random search.

    With no further choices the pilot (:class:`~gensmooth.pilot.Pilot`) finds spacing, step and
    population by itself, from the order of the returns alone. Whoever gives a method, directions,
    an estimator, a spacing, a learning rate or an optimiser trains by the paper's protocol.

    Args:
        environment: Its name: one with a fast simulator (``"Hopper-v5"``, ``"Ant"``,
            ``"ML1-Reach"``, …) or any Gymnasium id, also ``"module:Name-v0"`` and
            ``"Pendulum-v1(g=5.0)"``; or a Gymnasium environment; or a function that makes one; or
            a simulator. A name without a version is the paper's: ``"Hopper"`` is Hopper-v4.
        env_args: Arguments for an environment that is given by its name.
        method: The name of a method; ``"auto"``, the default, is the pilot; on a GPU the default is
            ``"islands"``, which makes use of thousands of episodes per iteration. With any of the
            other choices the default is ``"bes"``. ``"ars-v1"``, ``"ars-v1-t"``, ``"ars-v2"`` and
            ``"ars-v2-t"`` (or ``"ars"``) are ARS as published, ``"openai-es"``, ``"snes"``,
            ``"cma-es"`` and others as in :func:`~gensmooth.optimize.minimize`: with numbers of
            their own for all that follows, which yours override.
        directions: Directions of your own choice, instead of a method.
        num_directions: L, directions per iteration, which runs 2L episodes; by default 20. The
            pilot takes more as noise asks for them, unless you give their number; to measure the
            noise it repeats one episode in 30.
        spacing: c; by default chosen for the environment, see :mod:`gensmooth.rl.defaults`.
        x_scale: How far apart interesting weights of the policy are, for the pilot, ``"islands"``,
            ``"cma-es"``, ``"snes"`` and ``"xnes"``; by default 0.1. More where a policy must act
            hard before anything comes of it, as on ``"Pendulum-v1"``.
        learning_rate: η of gradient ascent on returns divided by their deviation; by default
            chosen for the environment. With an algorithm, its own step size.
        optimizer: Another optimiser, instead of ``learning_rate``.
        policy: What acts: ``"linear"``, ``"mlp"``, or ``gs.rl.MLP(hidden=(64, 64))``.
        hidden: Sizes of the hidden layers of ``"mlp"``; by default the paper's one of 32.
        estimator: How returns become an estimate of the gradient: ``"antithetic"`` (the default of
            a method), ``"forward"`` (the paper's), ``"one-point"``, ``"ranked"`` or an estimator.
        paired_resets: Let both episodes of a direction start alike, instead of every episode
            having its own start.
        standardize: Standardise observations by running statistics; by default yes, except with
            ``"ars-v1"`` and ``"ars-v1-t"``, which are without.
        iterations: How many iterations; by default chosen for the environment.
        test_every: Iterations between tests; there is one after the last iteration, too.
        test_episodes: Episodes of a test.
        target: Stop when a test's mean return reaches this. By default that is Gymnasium's
            ``reward_threshold``, at which it calls the environment solved, if it has one; ``None``
            makes all iterations.
        on_failure: What to do about an episode in which the environment raises or something is
            not finite: ``"raise"``, or ``"drop"`` its direction.
        min_fraction: The smallest share of directions that makes a step under ``"drop"``.
        device: Where episodes run: ``"cpu"``, by MuJoCo; or a GPU, ``"cuda"`` or ``"cuda:1"``, on
            which all episodes of an iteration run side by side; or ``"warp-cpu"``, the same code
            on the cores of the processor, many times as fast as MuJoCo. On the last three an
            iteration has more directions by default
            (:data:`gensmooth.rl.defaults.GPU_DIRECTIONS`). They take
            ``pip install 'gensmooth[rl,cuda]'``.
        threads: Threads of a fast simulator in this process; by default one per core. The result
            does not depend on it.
        workers: 1 runs episodes here, n in n processes, −1 in one per core; or a map-like
            callable; or an evaluator such as ``gs.evaluators.Ray()``.
        timeout: Seconds that an episode may take, where there is a process to stop.
        retries: How often a failed episode is tried again, with the same start; with workers.
        out: A folder for the training: configuration, metrics, checkpoint, ``policy-best`` and
            ``policy-last``. If it holds this very training already, interrupted, it goes on.
        every: As in :func:`~gensmooth.optimize.minimize`.
        callback: ``callback(iteration, test, state)`` after each iteration, where ``test`` is
            ``None`` if there was none; return True to stop.
        progress: Show how it goes: a live table on a terminal, lines elsewhere. By default only
            on a terminal.
        trackers: Who else follows the training, such as ``gs.observe.TensorBoard("logs")``.
        seed: Makes the training repeatable.

    Returns:
        The result. Ctrl-C returns what was found so far, with ``status="interrupted"``.

    Raises:
        UnknownEnvironmentError: When there is no such environment; near matches are named.
        EvaluationError: When the environment breaks down; its ``result`` holds the training until
            then.
    """
    simulator = catalogue.make(environment, env_args=env_args, device=device)
    info = simulator.info
    on_gpu = info.device != "cpu"
    if on_gpu and not (_is_one(workers) and timeout is None):
        raise ValueError(
            f"`device` is {device!r}, where all episodes run side by side: leave `workers` and "
            "`timeout` out."
        )
    if isinstance(environment, str) and _version(info.name) != _version(environment):
        _log.warning("%s means %s; name another version in full.", environment, info.name)
    if hidden is not None and not (isinstance(policy, str) and policy == "mlp"):
        raise ValueError(
            f"`hidden` is for policy='mlp', but `policy` is {checks.shown(policy)}, which has no "
            "use for it."
        )
    if out is None and every is not None:
        raise ValueError("`every` is how often a checkpoint is written: give `out` too.")
    if optimizer is not None and learning_rate is not None:
        raise ValueError("Give either `learning_rate` or `optimizer`, not both.")
    sizes = (32,) if hidden is None else hidden
    shape = architecture(policy, sizes).policy(info.observation_size, info.action_size)
    dim = shape.num_parameters
    asked = checks.optional(checks.count, "num_directions", num_directions)
    usual_number = GPU_DIRECTIONS if on_gpu else NUM_DIRECTIONS
    num_directions = usual_number if asked is None else asked
    samples: Samples = "paired" if checks.flag("paired_resets", paired_resets) else "independent"
    rest = (directions, spacing, learning_rate, optimizer, estimator)
    search: Search
    if on_gpu and method is None and all(choice is None for choice in rest):
        method, asked = ON_GPU, gpu_points(dim) if asked is None else asked
    entry = None if method is None else algorithms.find(method)
    standardize = _standardize(standardize, method, entry)
    named = isinstance(method, str) and method == AUTO
    piloted = named or (method is None and all(choice is None for choice in rest))
    unit = PILOT_SCALE if x_scale is None else checks.positive("x_scale", x_scale)
    if x_scale is not None and not piloted and method not in algorithms.POPULATIONS:
        raise ValueError(
            "`x_scale` is for the pilot and for "
            f"{', '.join(repr(name) for name in algorithms.POPULATIONS)}; other methods go as far "
            "as `spacing` says."
        )
    if piloted:
        if any(choice is not None for choice in rest):
            raise ValueError(
                "method='auto' chooses directions, spacing, learning rate, optimiser and estimator "
                "itself: leave them out, or name a method."
            )
        usual, method = default_iterations(info.name), AUTO
        search = _pilot(num_directions, samples, on_failure, min_fraction, asked, unit)
    elif entry is not None:
        if directions is not None:
            raise ValueError(f"method={method!r} has its own directions: leave `directions` out.")
        usual = default_iterations(info.name)
        wanted = algorithms.Wanted(
            name=str(method),
            num_directions=asked,
            spacing=spacing,
            estimator=None if estimator is None else _estimator(estimator),
            optimizer=learning_rate if optimizer is None else optimizer,
            x_scale=unit if method in algorithms.POPULATIONS else None,
            max_steps=checks.count("iterations", usual if iterations is None else iterations, 0),
            samples=samples,
            maximize=True,
            on_failure=on_failure,
            min_fraction=min_fraction,
        )
        search = algorithms.make(shape.initial(0), wanted, training=True)
    else:
        chosen = choose_directions(method, directions, also=algorithms.names(training=True))
        chosen = chosen.shaped(shape.shapes)
        spacing = checks.optional(checks.positive, "spacing", spacing)
        rate = checks.optional(checks.positive, "learning_rate", learning_rate)
        rate = rate if optimizer is None else 0.0  # an optimiser has its own
        found = defaults(
            info.name, chosen, dim, num_directions, spacing=spacing, learning_rate=rate
        )
        usual = found.iterations
        search = RandomSearch(
            directions=chosen.resolve(dim, num_directions),
            num_directions=num_directions,
            spacing=found.spacing,
            estimator=_estimator("antithetic" if estimator is None else estimator),
            optimizer=optimizers.sgd(found.learning_rate) if optimizer is None else optimizer,
            samples=samples,
            maximize=True,
            on_failure=on_failure,
            min_fraction=min_fraction,
        )
    trainer = Trainer(info, shape, search, standardize)
    folder = checks.optional(checks.path, "out", out)
    threads = checks.optional(checks.count, "threads", threads)
    evaluator = None
    if timeout is not None or not _is_one(workers):
        evaluator = as_evaluator(workers, timeout=timeout, retries=retries)
    program = Training(
        trainer=trainer,
        method=(method or "bes") if directions is None else type(directions).__name__,
        seed=check_seed(seed_in(folder) if seed is None else seed),
        limits=_schedule(
            usual if iterations is None else iterations,
            test_every,
            test_episodes,
            _target(target, info.name, folder),
        ),
        execution=Execution.of(
            workers, timeout=timeout, retries=retries, threads=threads or 0, every=every
        ),
        rollouts=_rollouts(trainer, simulator, evaluator, threads),
        callback=checks.optional(checks.function, "callback", callback),
    )
    observers = Observers(trackers, progress=progress)
    return run(program, folder=folder, every=every, observers=observers, go_on=True)


def resume(
    folder: str | PathLike[str],
    *,
    iterations: int | None = None,
    target: float | None = None,
    threads: int | None = None,
    workers: Any = None,
    timeout: float | None = None,
    retries: int | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    trust: bool = False,
) -> TrainResult:
    """Go on with a training from its last checkpoint, to the same result as without the stop.

    A training that has ended is told again, without an episode; more iterations let it go on.

    Args:
        folder: What was given to :func:`train` as ``out``.
        iterations: Iterations in all, instead of before's.
        target: Stop when a test's mean return reaches this.
        threads: As in :func:`train`; by default what the training had.
        workers: As in :func:`train`; by default what the training had.
        timeout: As in :func:`train`; by default what the training had.
        retries: As in :func:`train`; by default what the training had.
        every: As in :func:`train`; by default what the training had.
        callback: As in :func:`train`.
        progress: As in :func:`train`.
        trackers: As in :func:`train`.
        trust: Whether a module may be imported because the folder names it, as the environment
            ``"module:Name"`` does. One that you import yourself needs no trust.

    Raises:
        CheckpointError: When the folder holds no training, or one that cannot go on.
    """
    trust = checks.flag("trust", trust)
    threads = checks.optional(checks.count, "threads", threads)
    with RunFolder(checks.path("folder", folder), create=False) as held:
        program = held.read(Training.kind, lambda found, _: Training.from_json(found, trust))
        trainer, before = program.trainer, program.execution
        info = trainer.info
        catalogue.check_trusted(info.name, trust=trust)
        simulator = catalogue.make(info.name, fast=info.fast, device=info.device)
        if simulator.info != info:
            raise CheckpointError(
                held.path,
                f"holds a training in {info}, which is not what {info.name} is here: repeat the "
                "call of gs.rl.train that began it.",
            )
        evaluator = None
        if timeout is not None or not _is_one(
            (before.workers or 1) if workers is None else workers
        ):
            evaluator = evaluator_again(workers, timeout, retries, before)
        threads = (before.threads or None) if threads is None else threads
        rollouts = _rollouts(trainer, simulator, evaluator, threads)
        callback = checks.optional(checks.function, "callback", callback)
        program = replace(program, rollouts=rollouts, callback=callback)
        observers = Observers(trackers, progress=progress)
        found, old = held.load(program), program.limits
        schedule = _schedule(
            old.iterations if iterations is None else iterations,
            old.test_every,
            old.test_episodes,
            old.target if target is None else target,
        )
        if schedule != old:
            program = replace(program, limits=schedule)
            found = held.load(program)
            held.write(program)
        often = before.every if every is None else every
        resumed = Run(program, found, folder=held, every=often, observers=observers)
        return resumed.execute(go_on=True)


# --- a training as a program ---------------------------------------------------------------------


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


class Line(NamedTuple):
    """An iteration as ``metrics.jsonl`` tells it."""

    iteration: Iteration
    test: Test | None
    faults: Mapping[str, int]


@final
@dataclass(frozen=True, kw_only=True)
class Training(Program[TrainState, Line, TrainResult]):
    """Iterations of a trainer, with a test now and then.

    Attributes:
        trainer: Environment, policy and search.
        method: The name of the method, or of the directions' class.
        seed: Its seed.
        limits: How long it goes on.
        execution: How it is carried out; the result does not depend on it.
        rollouts: Who runs the episodes.
        callback: Called after each iteration; true stops.
    """

    kind: ClassVar[str] = "training"
    noun: ClassVar[str] = "training"
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
    rollouts: AbstractContextManager[Rollouts] | None = None
    callback: Callback | None = None

    def init(self) -> TrainState:
        """See :class:`~gensmooth.runs.Program`."""
        return self.trainer.init(self.seed)

    def session(self) -> AbstractContextManager[Rollouts]:
        """Who runs the episodes."""
        assert self.rollouts is not None
        return self.rollouts

    def step(self, state: TrainState, session: Rollouts) -> tuple[TrainState, Line]:
        """An iteration and, when it is due, a test; both or nothing."""
        schedule = self.limits
        state, iteration = self.trainer.step(state, session)
        faults, test = Counter(session.faults), None
        step = state.search.step
        if step % schedule.test_every == 0 or step == schedule.iterations:
            state, test = self.trainer.test(state, session, schedule.test_episodes)
            faults.update(session.faults)
        return state, Line(iteration, test, dict(faults))

    def stop(self, state: TrainState, last: Line | None) -> End | None:
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

    def result(self, state: TrainState, records: Sequence[Line], end: End | None) -> TrainResult:
        """See :class:`~gensmooth.runs.Program`."""
        tests = tuple(line.test for line in records if line.test is not None)
        faults: Counter[str] = Counter()
        for line in records:
            faults.update(line.faults)
        told = end or End("interrupted")
        return TrainResult(
            policy=self._last(state, tests[-1] if tests else None),
            best=self._best(state),
            iterations=state.search.step,
            trajectories=state.search.evaluations,
            env_steps=state.env_steps,
            success=told.reason in SUCCESS,
            status=cast(Reason, told.reason),
            message=told.message(_MESSAGES) + _no_progress(tests, told),
            faults=dict(faults),
            seed=self.seed,
            tests=tests,
            history=tuple(line.iteration for line in records),
            state=state,
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        trainer, execution = self.trainer, self.execution.to_json()
        return {
            "environment": asdict(trainer.info),
            "policy": {"sizes": list(trainer.policy.sizes), "biases": trainer.policy.biases},
            "standardize": trainer.standardize,
            "method": self.method,
            "seed": self.seed,
            "search": _search_to_json(trainer.search),
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
        search = _search_from_json(found["search"], trust=trust)
        return cls(
            trainer=Trainer(
                info,
                Policy(tuple(policy["sizes"]), policy["biases"]),
                search,
                standardize=bool(found["standardize"]),
            ),
            method=str(found["method"]),
            seed=check_seed(found["seed"]),
            limits=Schedule.from_json(found["schedule"]),
            execution=Execution.from_json(found["execution"]),
        )

    def pack(self, state: TrainState) -> tuple[dict[str, Any], dict[str, Array]]:
        """See :class:`~gensmooth.runs.Program`."""
        return pack_training(self.trainer, state)

    def largest(self) -> int:
        """See :class:`~gensmooth.runs.Program`."""
        return states.largest(self.trainer.policy.num_parameters)

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> TrainState:
        """See :class:`~gensmooth.runs.Program`."""
        return unpack_training(self.trainer, meta, arrays, self.seed)

    def write_record(self, record: Line) -> dict[str, Any]:
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

    def read_record(self, found: dict[str, Any]) -> Line:
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
        return Line(Iteration(info, deviation, env_steps, mean_length), test, faults)

    def write_files(
        self, folder: Path, state: TrainState, records: Sequence[Line], *, saved: bool
    ) -> None:
        """The two policies: the last with each checkpoint, the best also when it is new."""
        test = records[-1].test if records else None
        improved = test is not None and state.best.step == state.search.step
        policies: dict[str, TrainedPolicy] = {}
        if saved:
            policies[POLICY_LAST] = self._last(state, test)
        if improved if not saved else any(line.test for line in records):
            policies[POLICY_BEST] = self._best(state)
        for name, policy in policies.items():
            policy.save(folder / name)

    def start(self, state: TrainState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        iterations = self.limits.iterations
        return start._replace(
            evaluations=state.search.evaluations,
            budget=iterations * self.trainer.search.next_evaluations(state.search),
            max_steps=iterations,
            words=_WORDS,
        )

    def seen(self, state: TrainState, records: Sequence[Line], session: Rollouts) -> Seen:
        """See :class:`~gensmooth.runs.Program`."""
        iteration = records[-1].iteration
        more = {"environment steps": float(iteration.env_steps), "length": iteration.mean_length}
        test = next((line.test for line in reversed(records) if line.test is not None), None)
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


def _schedule(
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


def _standardize(given: object, method: object, entry: algorithms.Algorithm | None) -> bool:
    """Whether observations are standardised; some algorithms are named by it."""
    own = None if entry is None else entry.standardize
    if given is None:
        return True if own is None else own
    chosen = checks.flag("standardize", given)
    if own is not None and chosen != own:
        does = "standardises observations" if own else "is without standardised observations"
        other = str(method).replace("v2", "v1") if own else str(method).replace("v1", "v2")
        other = "ars-v1-t" if method == "ars" else other
        raise ValueError(
            f"`standardize` is {chosen}, but {method!r} {does}: {other!r} is the same otherwise."
        )
    return chosen


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


def _target(
    given: float | Literal["threshold"] | None, name: str, folder: Path | None
) -> float | None:
    """The target of a training: by default that of the folder, if it has one, or Gymnasium's."""
    if not (isinstance(given, str) and given == THRESHOLD):
        return given
    if folder is not None and (folder / "config.json").is_file():
        found = read_config(folder / "config.json").get("schedule")
        if isinstance(found, dict):
            kept: Any = cast(dict[str, Any], found).get("target")
            return number(kept) if isinstance(kept, int | float | str) else None
    return catalogue.reward_threshold(name)


def _version(name: str) -> str:
    """The version in the name of an environment, if it has one."""
    found = re.search(r"-v\d+", name)
    return found[0] if found else ""


def _is_one(workers: Any) -> bool:
    """Whether episodes are run here."""
    return isinstance(workers, int) and workers == 1


def _rollouts(
    trainer: Trainer, simulator: Simulator, evaluator: Evaluator | None, threads: int | None
) -> AbstractContextManager[Rollouts]:
    """Who runs the episodes: this process and its threads, or the workers of an evaluator."""
    if trainer.info.device != "cpu":
        return nullcontext(SideBySide(simulator, trainer.policy, trainer.search))
    if evaluator is None:
        return nullcontext(Local(simulator, trainer.policy, threads))
    return distributed(evaluator, simulator, trainer.policy, trainer.search)


def _pilot(
    num_directions: int,
    samples: Samples,
    on_failure: FailurePolicy,
    min_fraction: float,
    bound: int | None = None,
    unit: float = PILOT_SCALE,
) -> Pilot:
    return Pilot(
        budget=_NO_BUDGET,
        num_directions=num_directions,
        most_directions=None if bound is None else max(bound, 2),
        x_scale=unit,
        widest=1.0,
        by_rank=True,
        samples=samples,
        maximize=True,
        on_failure=on_failure,
        min_fraction=min_fraction,
    )


def _search_to_json(search: Search) -> dict[str, Any]:
    if isinstance(search, Pilot):
        names = ("num_directions", "most_directions", "x_scale", "samples", *_FAILURES)
        return {"method": AUTO, **describe_parts(search, names)}
    if isinstance(search, algorithms.Population):
        names = (*_POPULATION, *_FAILURES, *search.rates())
        return {"method": search.method, **describe_parts(search, names)}
    return describe_parts(search, (*_SEARCH, *_FAILURES))


def _search_from_json(described: Mapping[str, Any], *, trust: bool) -> Search:
    if described.get("method") == AUTO:
        names = ("num_directions", "samples", *_FAILURES)
        pilot = _pilot(*(rebuild(described[name]) for name in names))
        return replace(
            pilot,
            x_scale=rebuild(described["x_scale"]),
            most_directions=rebuild(described["most_directions"]),
        )
    if "method" in described:
        kind = algorithms.POPULATIONS.get(str(described["method"]))
        if kind is None:
            raise ValueError(f"there is no search {str(described['method'])[:80]!r}")
        names = (*_POPULATION, *_FAILURES, *kind.rates())
        return kind(**{name: rebuild(described[name]) for name in names}, maximize=True)
    for name in _SEARCH:
        if is_given(described[name]):
            raise ValueError(
                f"its {name} are a {described[name]['given']}, which cannot be written down: "
                "repeat the call of gs.rl.train that began it"
            )
    return RandomSearch(
        **{name: rebuild(described[name], trust=trust) for name in (*_SEARCH, *_FAILURES)},
        maximize=True,
    )


def _estimator(given: str | Estimator) -> Estimator:
    if isinstance(given, str):
        if given not in ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {', '.join(ESTIMATORS)}, or an estimator such as "
                f"gs.Antithetic(), but is {given!r}."
            )
        return ESTIMATORS[given]
    return given
