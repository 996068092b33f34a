"""``train`` and ``resume``: what users call."""

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
from gensmooth.estimators import ESTIMATORS, Estimator
from gensmooth.evaluators import Evaluator, as_evaluator
from gensmooth.observe import Observers, Tracker
from gensmooth.optimize.files import evaluator_again
from gensmooth.optimizers import Optimizer
from gensmooth.rl.defaults import (
    GPU_DIRECTIONS,
    NUM_DIRECTIONS,
    PILOT_SCALE,
    default_iterations,
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
from gensmooth.rl.trainer import (
    Trainer,
)
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

ON_GPU = "islands"  # the method of a training on a GPU, where nothing is chosen
THRESHOLD = "threshold"  # the target that is Gymnasium's
_NO_BUDGET = 2**53  # a training ends by its iterations
_log = logging.getLogger("gensmooth")


@checks.explains_unknown
def train(
    environment: EnvironmentLike,
    *,
    # what is trained
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
    spacing: float | None = None,
    x_scale: float | None = None,
    learning_rate: float | None = None,
    optimizer: Optimizer | None = None,
    estimator: str | Estimator | None = None,
    # when it ends, and how it is tested
    iterations: int | None = None,
    target: float | Literal["threshold"] | None = "threshold",
    test_every: int = 10,
    test_episodes: int = 50,
    # the episodes
    device: str = "cpu",
    threads: int | None = None,
    workers: Any = 1,
    timeout: float | None = None,
    on_failure: Literal["raise", "drop"] = "raise",
    min_fraction: float = 0.5,
    retries: int = 0,
    # the run
    folder: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    seed: int | None = None,
) -> TrainResult:
    """Train a policy by random search.

    With no further choices the pilot (:class:`~gensmooth.Pilot`) finds the spacing, step and
    population by itself, from the ranks of the returns alone. If you pass a method, directions, an
    estimator, a spacing, a learning rate or an optimiser, training follows the paper's protocol.

    Args:
        environment: Its name: one with a fast simulator (``"Hopper-v5"``, ``"Ant"``,
            ``"ML1-Reach"``, …) or any Gymnasium id, also ``"module:Name-v0"`` and
            ``"Pendulum-v1(g=5.0)"``; or a Gymnasium environment; or a function that makes one; or
            a simulator. A name without a version is the paper's: ``"Hopper"`` is Hopper-v4.
        env_args: Arguments for an environment that is given by its name.
        policy: What acts: ``"linear"``, ``"mlp"``, or ``gs.rl.MLP(hidden=(64, 64))``.
        hidden: Sizes of the hidden layers of ``"mlp"``; by default the paper's one of 32.
        standardize: Standardise observations by running statistics. The default is yes, except with
            ``"ars-v1"`` and ``"ars-v1-t"``.
        resets: How the episodes of an iteration start: ``"independent"`` gives every episode its
            own start and goal; ``"shared-goal"`` gives the two episodes of a direction one goal
            and a start each; ``"paired"`` gives them one start and one goal. In an environment
            without a hidden goal, the second is the same as the first.
        search: A search, complete, as in :func:`~gensmooth.minimize`. It must maximise and have
            ``samples="independent"`` or ``"paired"``.
        method: The name of a method. The default is ``"auto"``, the pilot; on a GPU it is
            ``"islands"``, which makes use of thousands of episodes per iteration; with any of the
            other choices it is ``"bes"``. ``"ars-v1"``, ``"ars-v1-t"``, ``"ars-v2"`` and
            ``"ars-v2-t"`` (or ``"ars"``) are ARS as published. ``"openai-es"``, ``"snes"``,
            ``"cma-es"`` and others are as in :func:`~gensmooth.minimize`. These have their own
            defaults for the arguments below, which yours override.
        directions: Directions as an object, instead of a method.
        num_directions: L, the directions per iteration, which runs 2L episodes; by default 20. The
            pilot takes more if noise requires it, unless you pass a number; it repeats one episode
            in 30 to measure the noise.
        spacing: c; by default chosen for the environment, see :mod:`gensmooth.rl.defaults`.
        x_scale: How far apart interesting weights of the policy are; by default 0.1 for the pilot,
            ``"islands"``, ``"cma-es"``, ``"snes"`` and ``"xnes"``. Other methods multiply their
            spacing by it. Pass more if a policy must act hard before it achieves anything, as on
            ``"Pendulum-v1"``.
        learning_rate: η of gradient ascent on returns divided by their deviation; by default
            chosen for the environment. With an algorithm, its own step size.
        optimizer: Another optimiser, instead of ``learning_rate``.
        estimator: How returns become an estimate of the gradient: ``"antithetic"`` (the default of
            a method), ``"forward"`` (the paper's), ``"one-point"``, ``"ranked"`` or an estimator.
        iterations: The number of iterations; by default chosen for the environment.
        target: Stop when a test's mean return reaches this. The default is Gymnasium's
            ``reward_threshold``, at which it calls the environment solved, if there is one;
            ``None`` makes all iterations.
        test_every: Iterations between tests. There is also one after the last iteration.
        test_episodes: Episodes of a test.
        device: Where episodes run: ``"cpu"``, by MuJoCo; or a GPU, ``"cuda"`` or ``"cuda:1"``, on
            which all episodes of an iteration run side by side; or ``"warp-cpu"``, the same code
            on the processor's cores, many times as fast as MuJoCo. The last three have more
            directions per iteration by default (:data:`gensmooth.rl.defaults.GPU_DIRECTIONS`) and
            need ``pip install 'gensmooth[rl,cuda]'``.
        threads: Threads of a fast simulator in this process; by default one per core. The result
            does not depend on it.
        workers: 1 runs episodes in this process, n in n processes, −1 in one process per core; or a
            map-like callable; or an evaluator such as ``gs.evaluators.Ray()``.
        timeout: The seconds that an episode may take, where there is a process to stop.
        on_failure: What happens on an episode in which the environment raises or something is not
            finite: ``"raise"``, or ``"drop"`` its direction.
        min_fraction: Under ``"drop"``, the smallest share of directions that makes a step.
        retries: How often a failed episode is tried again, with the same start.
        folder: A folder for the training: configuration, metrics, checkpoint, ``policy-best`` and
            ``policy-last``. If it already holds this training, interrupted, the training continues.
        every: As in :func:`~gensmooth.minimize`.
        callback: ``callback(iteration, test, state)`` after each iteration, where ``test`` is
            ``None`` if there was none; return True to stop.
        progress: Show progress: a live table on a terminal, lines elsewhere. By default only on a
            terminal.
        trackers: Experiment trackers that follow the training, such as
            ``gs.observe.TensorBoard("logs")``.
        seed: Makes the training repeatable.

    Returns:
        The result. Ctrl-C returns what has been found so far, with ``status="interrupted"``.

    Raises:
        UnknownEnvironmentError: If there is no such environment; the message names near matches.
        EvaluationError: If the environment breaks down; its ``result`` holds the training until
            then.
    """
    simulator = catalogue.make(environment, env_args=env_args, device=device)
    info = simulator.info
    on_gpu = info.device != "cpu"
    if on_gpu and not (_is_one(workers) and timeout is None and not retries):
        raise ValueError(
            f"`device` is {device!r}, where all episodes run side by side: leave `workers`, "
            "`timeout` and `retries` out."
        )
    if isinstance(environment, str) and _version(info.name) != _version(environment):
        _log.warning("%s means %s; name another version in full.", environment, info.name)
    checks.one_of("resets", resets, RESETS)
    resets = distinct_resets(resets, simulator)
    if hidden is not None and not (isinstance(policy, str) and policy == "mlp"):
        raise ValueError(
            f"`hidden` is for policy='mlp', but `policy` is {checks.shown(policy)}, which has no "
            "use for it."
        )
    if folder is None and every is not None:
        raise ValueError("`every` is how often a checkpoint is written: pass `folder` too.")
    if optimizer is not None and learning_rate is not None:
        raise ValueError("Give either `learning_rate` or `optimizer`, not both.")
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
        spacing=spacing,
        estimator=None if estimator is None else _estimator(estimator),
        optimizer=learning_rate if optimizer is None else optimizer,
        x_scale=checks.optional(checks.positive, "x_scale", x_scale),
        on_failure=on_failure,
        min_fraction=min_fraction,
        samples="paired" if resets == "paired" else None,
    )
    if on_gpu and search is None and is_left_to_pilot(wanted) and method is None:
        wanted = replace(wanted, method=ON_GPU, num_directions=asked or gpu_points(dim))
    if search is None:
        wanted = replace(
            wanted,
            unit=PILOT_SCALE,
            max_steps=default_iterations(info.name)
            if iterations is None
            else checks.count("iterations", iterations, 0),
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
        """The numbers for this environment, where the user gives none."""
        number = usual_number if asked is None else asked
        rate = checks.optional(checks.positive, "learning_rate", learning_rate)
        usual = defaults(
            info.name,
            family,
            dim,
            number,
            spacing=checks.optional(checks.positive, "spacing", spacing),
            learning_rate=rate if optimizer is None else 0.0,  # an optimiser has its own
        )
        return replace(
            wanted,
            num_directions=number,
            spacing=usual.spacing,
            estimator=wanted.estimator or ESTIMATORS["antithetic"],
            optimizer=optimizers.sgd(usual.learning_rate) if optimizer is None else optimizer,
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
    if timeout is not None or checks.count("retries", retries, 0) or not _is_one(workers):
        evaluator = as_evaluator(workers, timeout=timeout, retries=retries)
    program = Training(
        trainer=trainer,
        method=method,
        seed=check_seed(seed_in(folder) if seed is None else seed),
        limits=checked_schedule(
            default_iterations(info.name) if iterations is None else iterations,
            test_every,
            test_episodes,
            _target(target, info.name, folder),
        ),
        execution=Execution.of(
            workers, timeout=timeout, retries=retries, threads=threads or 0, every=every
        ),
        rollouts=partial(_rollouts, trainer, simulator, evaluator, threads),
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
    """Continue a training from its last checkpoint, with the same result as without the stop.

    A finished training returns its stored result; with more iterations it continues.

    Args:
        folder: The folder that was passed to :func:`train`.
        iterations: The number of iterations in all.
        target: Stop when a test's mean return reaches this.
        threads: As in :func:`train`; by default what the training had.
        workers: As in :func:`train`; by default what the training had.
        timeout: As in :func:`train`; by default what the training had.
        retries: As in :func:`train`; by default what the training had.
        every: As in :func:`train`; by default what the training had.
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
        again = before.retries if retries is None else retries
        if (
            timeout is not None
            or again
            or not _is_one((before.workers or 1) if workers is None else workers)
        ):
            evaluator = evaluator_again(workers, timeout, retries, before)
        threads = (before.threads or None) if threads is None else threads
        rollouts = partial(_rollouts, trainer, simulator, evaluator, threads)
        callback = checks.optional(checks.function, "callback", callback)
        program = replace(program, rollouts=rollouts, callback=callback)
        observers = Observers(trackers, progress=progress)
        old = program.limits
        schedule = checked_schedule(
            old.iterations if iterations is None else iterations,
            old.test_every,
            old.test_episodes,
            old.target if target is None else target,
        )
        often = before.every if every is None else every
        resumed = resumed_run(held, program, schedule, every=often, observers=observers)
        return resumed.execute(go_on=True)


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
    trainer: Trainer,
    simulator: Simulator,
    evaluator: Evaluator | None,
    threads: int | None,
    journal: Journal | None,
) -> AbstractContextManager[Rollouts]:
    """Who runs the episodes: this process and its threads, or the workers of an evaluator."""
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
    """A search that can train: returns are maximised, and each episode has its own seed."""
    if not search.maximize or search.samples is None or search.num_samples != 1:
        raise ValueError(
            "A `search` for training must have maximize=True, samples='independent' or 'paired', "
            f"and one sample, but has maximize={search.maximize}, samples={search.samples!r}, "
            f"num_samples={search.num_samples}."
        )
    return search


def _estimator(given: str | Estimator) -> Estimator:
    if isinstance(given, str):
        if given not in ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {', '.join(ESTIMATORS)}, or an estimator such as "
                f"gs.Antithetic(), but is {given!r}."
            )
        return ESTIMATORS[given]
    return given
