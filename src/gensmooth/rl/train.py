"""``train``: from a user's arguments to a training."""

import secrets
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from gensmooth import optimizers
from gensmooth.checkpoint import Every, parse_every
from gensmooth.checkpoint.metrics import Position
from gensmooth.directions import Directions
from gensmooth.estimators import Antithetic, Estimator, ForwardDifference, OnePoint
from gensmooth.methods import choose_directions
from gensmooth.observe import Observers, Tracker, display
from gensmooth.optimizers import Optimizer
from gensmooth.rl.config import TrainConfig, make_execution, make_schedule
from gensmooth.rl.defaults import NUM_DIRECTIONS, defaults
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import Simulator
from gensmooth.rl.folder import Found, TrainFolder
from gensmooth.rl.policies import MLP, Linear, architecture
from gensmooth.rl.result import TrainResult
from gensmooth.rl.resuming import go_on, runner_of
from gensmooth.rl.run import Callback, TrainRun
from gensmooth.rl.trainer import Trainer
from gensmooth.search import RandomSearch
from gensmooth.streams import check_seed

ESTIMATORS = {
    "forward": ForwardDifference(),
    "antithetic": Antithetic(),
    "one-point": OnePoint("others"),
}


def train(
    environment: str | Simulator,
    *,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int = NUM_DIRECTIONS,
    spacing: float | None = None,
    learning_rate: float | None = None,
    optimizer: Optimizer | None = None,
    policy: str | Linear | MLP = "linear",
    hidden: Sequence[int] | None = None,
    estimator: str | Estimator = "antithetic",
    paired_resets: bool = False,
    standardize: bool = True,
    iterations: int | None = None,
    test_every: int = 10,
    test_episodes: int = 50,
    target: float | None = None,
    on_failure: Literal["raise", "drop"] = "raise",
    min_fraction: float = 0.5,
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
    """Train a policy by random search, following the paper's protocol.

    Args:
        environment: Its name: one with a fast simulator (``"Hopper-v5"``, ``"Ant"``,
            ``"ML1-Reach"``, …) or any id of Gymnasium; or a simulator.
        method: The name of a method (default ``"bes"``), or
        directions: directions of your own choice.
        num_directions: L; an iteration runs 2L episodes.
        spacing: c; by default chosen for the environment, see :mod:`gensmooth.rl.defaults`.
        learning_rate: η of gradient ascent on returns divided by their deviation; likewise.
        optimizer: Another optimiser, instead of ``learning_rate``.
        policy: ``"linear"``, ``"mlp"``, or ``gs.rl.MLP(hidden=(64, 64))``.
        hidden: Sizes of the hidden layers of ``"mlp"``; by default the paper's one of 32.
        estimator: ``"antithetic"``, ``"forward"`` (the paper's), ``"one-point"`` or an estimator.
        paired_resets: Let both episodes of a direction start alike, instead of every episode
            having its own start.
        standardize: Standardise observations by running statistics.
        iterations: By default chosen for the environment.
        test_every: Iterations between tests; there is one after the last iteration, too.
        test_episodes: Episodes of a test.
        target: Stop when a test's mean return reaches this.
        on_failure: What to do about an episode in which the environment raises or something is
            not finite: ``"raise"``, or ``"drop"`` its direction.
        min_fraction: The smallest share of directions that makes a step under ``"drop"``.
        threads: Threads of a fast simulator in this process; by default one a core. The result
            does not depend on it, nor on
        workers: 1 runs episodes here, n in n processes, −1 in one a core; or a map-like
            callable; or an evaluator such as ``gs.evaluators.Ray()``.
        timeout: Seconds that an episode may take, where there is a process to stop.
        retries: How often a failed episode is tried again, with the same start; with workers.
        out: A folder for the training: configuration, metrics, checkpoint, ``policy-best`` and
            ``policy-last``. If it holds this very training already, interrupted, it goes on.
        every: How often a checkpoint is written, as in :func:`gensmooth.minimize`.
        callback: ``callback(iteration, test, state)`` after each iteration, where ``test`` is
            ``None`` if there was none; return True to stop.
        progress: Show how it goes: a live table on a terminal, lines elsewhere. By default only
            on a terminal.
        trackers: Such as ``gs.observe.TensorBoard("logs")``.
        seed: Makes the training repeatable.

    Returns:
        The result. Ctrl-C returns what was found so far, with ``status="interrupted"``.

    Raises:
        UnknownEnvironmentError: When there is no such environment; near matches are named.
        EvaluationError: When the environment breaks down; its ``result`` holds the training until
            then.
    """
    simulator = catalogue.make(environment) if isinstance(environment, str) else environment
    info = simulator.info
    if hidden is not None and policy != "mlp":
        raise ValueError(
            f"`hidden` is for policy='mlp', but `policy` is {policy!r}, which has no use for it."
        )
    sizes = (32,) if hidden is None else hidden
    shape = architecture(policy, sizes).policy(info.observation_size, info.action_size)
    dim = shape.num_parameters
    chosen = choose_directions(method, directions)
    search = RandomSearch(  # complains about L before anything else is made of it
        directions=chosen,
        num_directions=num_directions,
        spacing=1.0 if spacing is None else spacing,
        estimator=_estimator(estimator),
        samples="paired" if paired_resets else "independent",
        maximize=True,
        on_failure=on_failure,
        min_fraction=min_fraction,
    )
    found = defaults(info.name, chosen, dim, num_directions)
    if optimizer is not None and learning_rate is not None:
        raise ValueError("Give either `learning_rate` or `optimizer`, not both.")
    rate = found.learning_rate if learning_rate is None else learning_rate
    search = RandomSearch(
        directions=chosen.resolve(dim, num_directions),
        num_directions=num_directions,
        spacing=found.spacing if spacing is None else spacing,
        estimator=search.estimator,
        optimizer=optimizers.sgd(rate) if optimizer is None else optimizer,
        samples=search.samples,
        maximize=True,
        on_failure=on_failure,
        min_fraction=min_fraction,
    )
    config = TrainConfig(
        run=secrets.token_hex(8),
        trainer=Trainer(info, shape, search, standardize),
        method=(method or "bes") if directions is None else type(directions).__name__,
        seed=check_seed(seed),
        schedule=make_schedule(
            found.iterations if iterations is None else iterations,
            test_every,
            test_episodes,
            target,
        ),
        execution=make_execution(workers, timeout, retries, threads, parse_every(every)),
    )
    runner = runner_of(config, simulator, workers, timeout, retries, threads)
    observers = Observers([*trackers, *display(progress)])
    if out is None:
        if every is not None:
            raise ValueError("`every` is how often a checkpoint is written: give `out` too.")
        begun = Found(config, None, [], Position())
        run = TrainRun(begun, folder=None, callback=callback, observers=observers)
        with runner as rollouts:
            return run.execute(rollouts)
    with TrainFolder(Path(out), create=True) as folder:
        if folder.holds_run:
            config = folder.adopt(config, seed_given=seed is not None)
        else:
            folder.begin(config)
        return go_on(
            folder, folder.load(config), config.execution.every, callback, observers, runner
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
