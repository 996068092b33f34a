"""``resume``: from a training's folder to the training."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from gensmooth.checkpoint import CheckpointError, Every, parse_every
from gensmooth.evaluators import as_evaluator
from gensmooth.observe import Observers, Tracker, display
from gensmooth.rl.config import TrainConfig, make_schedule
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import Simulator
from gensmooth.rl.folder import Found, TrainFolder
from gensmooth.rl.result import TrainResult
from gensmooth.rl.rollouts import Local, Rollouts, distributed
from gensmooth.rl.run import Callback, TrainRun


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
) -> TrainResult:
    """Go on with a training from its last checkpoint, to the same result as without the stop.

    A training that has ended is told again, without an episode; more iterations let it go on.

    Args:
        folder: What was given to :func:`train` as ``out``.
        iterations: Iterations in all, instead of before's.
        target: Stop when a test's mean return reaches this.
        threads: As in :func:`train`; by default what the training had.
        workers: Likewise.
        timeout: Likewise.
        retries: Likewise.
        every: Likewise.
        callback: As in :func:`train`.
        progress: As in :func:`train`.
        trackers: As in :func:`train`.

    Raises:
        CheckpointError: When the folder holds no training, or one that cannot go on.
    """
    with TrainFolder(Path(folder), create=False) as held:
        config = held.read()
        info, before = config.trainer.info, config.execution
        simulator = catalogue.make(info.name, fast=info.fast)
        if simulator.info != info:
            raise CheckpointError(
                held.path,
                f"holds a training in {info}, which is not what {info.name} is here: repeat the "
                "call of gs.rl.train that began it.",
            )
        schedule = config.schedule
        config = held.extend(
            config,
            make_schedule(
                schedule.iterations if iterations is None else iterations,
                schedule.test_every,
                schedule.test_episodes,
                schedule.target if target is None else target,
            ),
        )
        runner = runner_of(
            config,
            simulator,
            before.workers or 1 if workers is None else workers,
            before.timeout if timeout is None and workers is None else timeout,
            (before.retries if retries is None and workers is None else retries) or 0,
            before.threads or None if threads is None else threads,
        )
        observers = Observers([*trackers, *display(progress)])
        often = before.every if every is None else parse_every(every)
        return go_on(held, held.load(config), often, callback, observers, runner)


def go_on(
    folder: TrainFolder,
    found: Found,
    every: Every | None,
    callback: Callback | None,
    observers: Observers,
    runner: AbstractContextManager[Rollouts],
) -> TrainResult:
    """Run the training of a folder to its end, or tell what came of it."""
    run = TrainRun(found, folder=folder, callback=callback, observers=observers)
    ended = run.ended()
    if ended is not None:
        return ended
    folder.open(found, every)
    with runner as rollouts:
        return run.execute(rollouts)


def runner_of(
    config: TrainConfig,
    simulator: Simulator,
    workers: Any,
    timeout: float | None,
    retries: int,
    threads: int | None,
) -> AbstractContextManager[Rollouts]:
    """Who runs the episodes: this process and its threads, or the workers of an evaluator."""
    evaluator = as_evaluator(workers, timeout=timeout, retries=retries)
    trainer = config.trainer
    if isinstance(workers, int) and workers == 1:
        return nullcontext(Local(simulator, trainer.policy, threads))
    return distributed(evaluator, simulator, trainer.policy, trainer.search)
