"""``train`` and ``resume``, the functions that users call."""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

from gensmooth import checks, optimizers
from gensmooth.describe import number
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, as_estimator
from gensmooth.evaluators import Evaluator, as_evaluator
from gensmooth.evaluators.base import retries_of
from gensmooth.observe import Observers, Tracker
from gensmooth.optimize.files import resumed_evaluator
from gensmooth.optimizers import Optimizer
from gensmooth.rl.defaults import (
    GPU_DIRECTIONS,
    NUM_DIRECTIONS,
    PILOT_SCALE,
    default_steps,
    defaults,
    gpu_points,
)
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import EnvironmentLike, Simulator
from gensmooth.rl.policies import MLP, Linear, architecture
from gensmooth.rl.program import Callback, Training, TrainResult, checked_schedule
from gensmooth.rl.rollouts import (
    RESETS,
    Local,
    Resets,
    Rollouts,
    SideBySide,
    distinct_resets,
    distributed,
)
from gensmooth.rl.trainer import Trainer
from gensmooth.runs import (
    CheckpointError,
    Every,
    Execution,
    Journal,
    RunFolder,
    resumed_run,
    run,
    seed_in,
)
from gensmooth.runs.folder import read_config
from gensmooth.searches import AUTO, Search, algorithms
from gensmooth.searches.choose import choose, is_left_to_pilot
from gensmooth.searches.wanted import Wanted
from gensmooth.streams import check_seed

ON_GPU = "islands"  # the default method on a GPU
THRESHOLD = "threshold"  # the target is Gymnasium's
_NO_BUDGET = 2**53  # a training ends by its number of steps
_log = logging.getLogger("gensmooth")


@checks.explains_unknown
def train(
    environment: EnvironmentLike,
    *,
    # the problem
    env_args: Mapping[str, Any] | None = None,
    policy: str | Linear | MLP = "linear",
    hidden: Sequence[int] | None = None,
    standardize: bool | None = None,
    resets: Resets = "independent",
    # the search
    search: Search | None = None,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int | None = None,
    population: int | None = None,
    spacing: float | None = None,
    x_scale: float | None = None,
    learning_rate: float | None = None,
    optimizer: Optimizer | None = None,
    estimator: str | Estimator | None = None,
    # limits and tests
    max_steps: int | None = None,
    max_seconds: float | None = None,
    target: float | Literal["threshold"] | None = "threshold",
    test_every: int = 10,
    test_episodes: int = 50,
    # the episodes
    device: str = "cpu",
    threads: int | None = None,
    workers: Any = 1,
    timeout: float | None = None,
    on_failure: Literal["raise", "drop", "retry"] = "raise",
    min_fraction: float = 0.5,
    retries: int | None = None,
    # the run
    folder: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    seed: int | None = None,
) -> TrainResult:
    """Train a policy by random search.

    By default, the pilot (:class:`~gensmooth.Pilot`) chooses the spacing, step and population from
    the ranks of the returns alone. If you pass a method, directions, an estimator, a spacing, a
    learning rate or an optimiser, training follows the paper's protocol.

    Args:
        environment: The environment's name: one with a fast simulator (``"Hopper-v5"``, ``"Ant"``,
            ``"ML1-Reach"``, …) or any Gymnasium id, also ``"module:Name-v0"`` and
            ``"Pendulum-v1(g=5.0)"``; or a Gymnasium environment; or a function that makes one; or
            a simulator. A name without a version is the paper's: ``"Hopper"`` is Hopper-v4.
        env_args: Arguments for an environment that you pass by name.
        policy: The policy: ``"linear"``, ``"mlp"``, or ``gs.rl.MLP(hidden=(64, 64))``.
        hidden: Sizes of the hidden layers of ``"mlp"``; by default the paper's one of 32.
        standardize: Standardise observations by running statistics. The default is yes, except with
            ``"ars-v1"`` and ``"ars-v1-t"``.
        resets: How the episodes of a step start: ``"independent"`` gives every episode its
            own start and goal; ``"shared-goal"`` gives the two episodes of a direction one goal
            and a start each; ``"paired"`` gives them one start and one goal. In an environment
            without a hidden goal, the first two are the same.
        search: A complete search, as in :func:`~gensmooth.minimize`. It must maximise and have
            ``samples="independent"`` or ``"paired"``.
        method: The name of a method. The default is ``"auto"``, the pilot; on a GPU it is
            ``"islands"``, which uses thousands of episodes per step; if you pass an estimator, a
            spacing, a learning rate or an optimiser, it is ``"bes"``. ``"ars-v1"``,
            ``"ars-v1-t"``, ``"ars-v2"`` and ``"ars-v2-t"`` (or ``"ars"``) are ARS as published.
            ``"openai-es"``, ``"snes"``, ``"cma-es"`` and others are as in
            :func:`~gensmooth.minimize`. These algorithms have their own defaults for the arguments
            below.
        directions: Directions as an object, instead of a method.
        num_directions: L, the directions per step; by default 20. A step runs 2L episodes. Unless
            you pass a number, the pilot uses more if the noise requires it; it repeats one episode
            in 30 to measure the noise.
        population: The episodes per step of ``"islands"``, ``"cma-es"``, ``"snes"`` and ``"xnes"``,
            instead of ``num_directions``.
        spacing: c, how far the policy is perturbed; by default chosen for the environment, see
            :mod:`gensmooth.rl.defaults`.
        x_scale: How far apart interesting weights of the policy are; by default 0.1 for the pilot,
            ``"islands"``, ``"cma-es"``, ``"snes"`` and ``"xnes"``. Other methods multiply their
            spacing by it. Pass a larger value if small actions have no effect, as in
            ``"Pendulum-v1"``.
        learning_rate: η, short for ``optimizer=gs.sgd(η)``: gradient ascent on returns divided by
            their deviation. By default chosen for the environment. Algorithms such as ARS use it as
            their own step size.
        optimizer: Another optimiser, instead of ``learning_rate``.
        estimator: How returns become an estimate of the gradient: ``"forward"`` (the default, as
            in the paper), ``"antithetic"``, ``"one-point"``, ``"ranked"``, or an object such as
            ``gs.BestPairs(4)``. Both of the first two run 2L episodes; if every episode has its own
            start, ``"antithetic"`` has a quarter of the noise variance.
        max_steps: The number of steps; by default chosen for the environment.
        max_seconds: Stop after the first step that ends later than this many seconds after the
            call. A later call with the same ``folder`` continues, with its own seconds.
        target: Stop when the mean return of a test reaches this. The default is Gymnasium's
            ``reward_threshold``, at which it calls the environment solved, if there is one; with
            ``None``, training takes all steps.
        test_every: The number of steps between tests. There is also a test after the last step.
        test_episodes: The number of episodes in a test.
        device: Where episodes run: ``"cpu"``, by MuJoCo; or a GPU, ``"cuda"`` or ``"cuda:1"``, on
            which all episodes of a step run side by side; or ``"warp-cpu"``, the same code on the
            processor's cores, many times as fast as MuJoCo. All but ``"cpu"`` have more directions
            per step by default (:data:`gensmooth.rl.defaults.GPU_DIRECTIONS`) and need
            ``pip install 'gensmooth[rl,cuda]'``.
        threads: The threads of a fast simulator in this process; by default one per core. The
            result does not depend on it.
        workers: 1 runs episodes in this process, n in n processes, −1 in one process per core; or a
            map-like callable; or an evaluator such as ``gs.evaluators.Ray()``.
        timeout: The time limit for an episode, in seconds. Requires worker processes.
        on_failure: What to do about an episode in which the environment raises an error or returns
            something that is not finite: ``"raise"``, ``"drop"`` its direction, or ``"retry"`` it
            with the same start and then raise.
        min_fraction: With ``"drop"``, the smallest fraction of directions that a step needs.
        retries: With ``"retry"``, how often a failed episode is tried again; by default twice.
        folder: A folder for the training: configuration, metrics, checkpoint, ``policy-best`` and
            ``policy-last``. If it already holds this training, the training continues.
        every: As in :func:`~gensmooth.minimize`.
        callback: ``callback(intermediate_result)`` after each step, as in SciPy: an object with
            ``x``, ``fun``, ``nfev``, ``nit``, ``env_steps``, ``test`` (``None`` if there was none),
            ``info`` and ``state``. Return True or raise ``StopIteration`` to stop.
        progress: Show progress: a live table on a terminal, lines elsewhere. By default only on a
            terminal.
        trackers: Experiment trackers that follow the training, such as
            ``gs.observe.TensorBoard("logs")``.
        seed: Makes the training repeatable.

    Returns:
        The result. Ctrl-C returns the result so far, with ``reason="interrupted"``.

    Raises:
        UnknownEnvironmentError: If there is no such environment; the message names near matches.
        EvaluationError: If the environment fails; its ``result`` is the result so far.
    """
    simulator = catalogue.make(environment, env_args=env_args, device=device)
    info = simulator.info
    on_gpu = info.device != "cpu"
    tries = retries_of(on_failure, retries, workers)
    if on_gpu and not (_is_one(workers) and timeout is None and not tries):
        raise ValueError(
            f"`device` is {device!r}, where all episodes run side by side: omit `workers`, "
            "`timeout` and `retries`."
        )
    if isinstance(environment, str) and _version(info.name) != _version(environment):
        _log.warning("%s means %s; name another version in full.", environment, info.name)
    checks.one_of("resets", resets, RESETS)
    resets = distinct_resets(resets, simulator)
    if hidden is not None and not (isinstance(policy, str) and policy == "mlp"):
        raise ValueError(
            f"`hidden` is for policy='mlp', but `policy` is {checks.shown(policy)}, which does not "
            "use it."
        )
    if folder is None and every is not None:
        raise ValueError("`every` is how often a checkpoint is written: pass `folder` too.")
    if optimizer is not None and learning_rate is not None:
        raise ValueError("Pass either `learning_rate` or `optimizer`, not both.")
    sizes = (32,) if hidden is None else hidden
    shape = architecture(policy, sizes).policy(info.observation_size, info.action_size)
    dim = shape.num_parameters
    asked = checks.optional(checks.count, "num_directions", num_directions)
    usual_number = GPU_DIRECTIONS if on_gpu else NUM_DIRECTIONS
    wanted = Wanted(
        search=search,
        method=method,
        directions=directions,
        num_directions=asked,
        population=checks.optional(checks.count, "population", population),
        spacing=spacing,
        estimator=None if estimator is None else as_estimator(estimator),
        optimizer=optimizer,
        learning_rate=learning_rate,
        x_scale=checks.optional(checks.positive, "x_scale", x_scale),
        on_failure="raise" if on_failure == "retry" else on_failure,
        min_fraction=min_fraction,
        samples="paired" if resets == "paired" else None,
    )
    if on_gpu and search is None and is_left_to_pilot(wanted) and method is None:
        wanted = replace(wanted, method=ON_GPU, population=wanted.population or gpu_points(dim))
    steps = default_steps(info.name) if max_steps is None else max_steps
    if search is None:
        wanted = replace(
            wanted,
            unit=PILOT_SCALE,
            max_steps=checks.count("max_steps", steps, 0),
            budget=_NO_BUDGET,
            pilot={
                "num_directions": usual_number if asked is None else asked,
                "most_directions": None if asked is None else max(asked, 2),
                "widest": 1.0,
                "by_rank": True,
            },
            samples=wanted.samples or "independent",
            maximize=True,
        )
    entry = algorithms.find(wanted.method)
    standardize = _standardize(standardize, wanted.method, entry)

    def fill(wanted: Wanted, family: Directions) -> Wanted:
        """Fill in the numbers for this environment that the user did not pass."""
        number = usual_number if asked is None else asked
        rate = checks.optional(checks.positive, "learning_rate", learning_rate)
        usual = defaults(
            info.name,
            family,
            dim,
            number,
            spacing=checks.optional(checks.positive, "spacing", spacing),
            learning_rate=rate if optimizer is None else 0.0,  # the optimiser has its own
        )
        return replace(
            wanted,
            num_directions=number,
            spacing=usual.spacing,
            optimizer=optimizers.sgd(usual.learning_rate) if optimizer is None else optimizer,
            learning_rate=None,
        )

    chosen = choose(shape.initial(0), wanted, shape=shape.shapes, training=True, fill=fill)
    search = _check_trains(chosen.search)
    if is_left_to_pilot(wanted):
        method = AUTO
    elif directions is not None:
        method = type(directions).__name__
    else:
        method = wanted.method or "bes"
    shared_goal = resets == "shared-goal"
    if shared_goal and search.samples != "independent":
        raise ValueError(
            "`resets` is 'shared-goal', which needs a `search` with samples='independent', but it "
            f"has samples={search.samples!r}."
        )
    trainer = Trainer(info, shape, search, standardize, shared_goal)
    folder = checks.optional(checks.path, "folder", folder)
    threads = checks.optional(checks.count, "threads", threads)
    evaluator = None
    if timeout is not None or tries or not _is_one(workers):
        evaluator = as_evaluator(workers, timeout=timeout, retries=tries)
    program = Training(
        trainer=trainer,
        method=method,
        seed=check_seed(seed_in(folder) if seed is None else seed),
        limits=checked_schedule(
            steps, test_every, test_episodes, _target(target, info.name, folder)
        ),
        execution=Execution.of(
            workers, timeout=timeout, retries=tries, threads=threads or 0, every=every
        ),
        rollouts=partial(_rollouts, trainer, simulator, evaluator, threads),
        callback=checks.optional(checks.callback, "callback", callback),
    )
    observers = Observers(trackers, progress=progress)
    return run(
        program,
        folder=folder,
        every=every,
        observers=observers,
        go_on=True,
        max_seconds=checks.optional(checks.positive, "max_seconds", max_seconds),
    )


def resume(
    folder: str | PathLike[str],
    *,
    max_steps: int | None = None,
    max_seconds: float | None = None,
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
    """Continue a training from its last checkpoint, with the same result as without the stop.

    A finished training returns its stored result; with more steps it continues.

    Args:
        folder: The folder that was passed to :func:`train`.
        max_steps: The total number of steps.
        max_seconds: As in :func:`train`, counted from this call.
        target: Stop when the mean return of a test reaches this.
        threads: As in :func:`train`; by default as before.
        workers: As in :func:`train`; by default as before.
        timeout: As in :func:`train`; by default as before.
        retries: How often a failed episode is tried again; by default as before.
        every: As in :func:`train`; by default as before.
        callback: As in :func:`train`.
        progress: As in :func:`train`.
        trackers: As in :func:`train`.
        trust: Whether modules that the folder names may be imported, such as that of an environment
            ``"module:Name"``. A module that you have imported yourself needs no trust.

    Raises:
        CheckpointError: If the folder holds no training, or one that cannot continue.
    """
    trust = checks.flag("trust", trust)
    threads = checks.optional(checks.count, "threads", threads)
    with RunFolder(checks.path("folder", folder), create=False) as held:
        program = held.read(Training.kind, lambda config, _: Training.from_json(config, trust))
        trainer, before = program.trainer, program.execution
        info = trainer.info
        catalogue.check_trusted(info.name, trust=trust)
        simulator = catalogue.make(info.name, fast=info.fast, device=info.device)
        if simulator.info != info:
            raise CheckpointError(
                held.path,
                f"holds a training in {info}, but {info.name} is different here: repeat the call "
                "of gs.rl.train that started it.",
            )
        evaluator = None
        tries = before.retries if retries is None else retries
        if (
            timeout is not None
            or tries
            or not _is_one((before.workers or 1) if workers is None else workers)
        ):
            evaluator = resumed_evaluator(workers, timeout, retries, before)
        threads = (before.threads or None) if threads is None else threads
        rollouts = partial(_rollouts, trainer, simulator, evaluator, threads)
        callback = checks.optional(checks.callback, "callback", callback)
        program = replace(program, rollouts=rollouts, callback=callback)
        observers = Observers(trackers, progress=progress)
        old = program.limits
        schedule = checked_schedule(
            old.max_steps if max_steps is None else max_steps,
            old.test_every,
            old.test_episodes,
            old.target if target is None else target,
        )
        every = before.every if every is None else every
        resumed = resumed_run(held, program, schedule, every=every, observers=observers)
        seconds = checks.optional(checks.positive, "max_seconds", max_seconds)
        return resumed.execute(go_on=True, max_seconds=seconds)


def _standardize(
    standardize: object, method: object, algorithm: algorithms.Algorithm | None
) -> bool:
    """Return whether observations are standardised; some algorithms prescribe it."""
    fixed = None if algorithm is None else algorithm.standardize
    if standardize is None:
        return True if fixed is None else fixed
    chosen = checks.flag("standardize", standardize)
    if fixed is not None and chosen != fixed:
        does = "standardises observations" if fixed else "does not standardise observations"
        other = str(method).replace("v2", "v1") if fixed else str(method).replace("v1", "v2")
        other = "ars-v1-t" if method == "ars" else other
        raise ValueError(
            f"`standardize` is {chosen}, but {method!r} {does}: use {other!r}, which is otherwise "
            "the same."
        )
    return chosen


def _target(
    target: float | Literal["threshold"] | None, name: str, folder: Path | None
) -> float | None:
    """Return the target of a training: by default the folder's, if it has one, or Gymnasium's."""
    if not (isinstance(target, str) and target == THRESHOLD):
        return target
    if folder is not None and (folder / "config.json").is_file():
        schedule = read_config(folder / "config.json").get("schedule")
        if isinstance(schedule, dict):
            stored: Any = cast(dict[str, Any], schedule).get("target")
            return number(stored) if isinstance(stored, int | float | str) else None
    return catalogue.reward_threshold(name)


def _version(name: str) -> str:
    match = re.search(r"-v\d+", name)
    return match[0] if match else ""


def _is_one(workers: Any) -> bool:  # episodes then run in this process
    return isinstance(workers, int) and workers == 1


def _rollouts(
    trainer: Trainer,
    simulator: Simulator,
    evaluator: Evaluator | None,
    threads: int | None,
    journal: Journal | None,
) -> AbstractContextManager[Rollouts]:
    """Start the rollouts: in this process and its threads, on a GPU, or in workers."""
    policy, search, shared_goal = trainer.policy, trainer.search, trainer.shared_goal
    if trainer.info.device != "cpu":
        together = SideBySide(simulator, policy, search, shared_goal=shared_goal, journal=journal)
        return nullcontext(together)
    if evaluator is None:
        local = Local(
            simulator, policy, threads, search=search, shared_goal=shared_goal, journal=journal
        )
        return nullcontext(local)
    return distributed(
        evaluator, simulator, policy, search, shared_goal=shared_goal, journal=journal
    )


def _check_trains(search: Search) -> Search:
    """Return the search if it can train: it maximises, and each episode has its own seed."""
    if not search.maximize or search.samples is None or search.num_samples != 1:
        raise ValueError(
            "A `search` for training must have maximize=True, samples='independent' or 'paired', "
            f"and one sample, but has maximize={search.maximize}, samples={search.samples!r}, "
            f"num_samples={search.num_samples}."
        )
    return search
