"""``resume``: from a run's folder to the run."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from gensmooth.checkpoint import (
    CheckpointError,
    Every,
    Execution,
    Limits,
    RunFolder,
    find_function,
    make_limits,
    parse_every,
)
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator
from gensmooth.evaluators import Evaluator, Objective, as_evaluator
from gensmooth.observe import Observers, Tracker, display
from gensmooth.optimize.result import Result
from gensmooth.optimize.run import Callback, Run
from gensmooth.optimizers import Optimizer


def resume(
    folder: str | PathLike[str],
    fun: Callable[..., Any] | None = None,
    *,
    budget: int | None = None,
    max_steps: int | None = None,
    target: float | None = None,
    tolerance: float | None = None,
    directions: Directions | None = None,
    estimator: Estimator | None = None,
    optimizer: Optimizer | None = None,
    workers: Any = None,
    timeout: float | None = None,
    retries: int | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
) -> Result:
    """Go on with a run from its last checkpoint, to the same result as if it had never stopped.

    A run that has ended is told again, without an evaluation; other limits let it go on.

    Args:
        folder: What was given to :func:`minimize` as ``checkpoint``.
        fun: The objective. Not needed if it has a name, ``module:function``, that can be imported
            from here: then it is, so look at ``config.json`` first if the folder is not yours.
        budget: Evaluations to spend at most, from the run's beginning. If the optimiser was left
            to :func:`minimize`, its rate falls anew, as half a cosine over this budget does.
        max_steps: Steps to make at most, from the run's beginning.
        target: Stop when a step's value reaches this.
        tolerance: Stop when ten steps in a row are shorter than this times 1 + ‖x‖.
        directions: Needed if they are of a class of your own; the same goes for
        estimator: and for
        optimizer: which is also needed if it is Optax's or has a schedule of your own.
        workers: As in :func:`minimize`; by default what the run had.
        timeout: Likewise.
        retries: Likewise.
        every: Likewise.
        callback: As in :func:`minimize`.
        progress: As in :func:`minimize`.
        trackers: As in :func:`minimize`.

    Raises:
        CheckpointError: When the folder holds no run, or one that cannot go on; the message names
            the file, and nothing in the folder is changed.

    >>> import gensmooth as gs
    >>> fun = lambda x: ((x - 3) ** 2).sum()
    >>> folder = getfixture("tmp_path") / "run"
    >>> res = gs.minimize(fun, [0.0], budget=100, seed=0, checkpoint=folder)
    >>> gs.resume(folder, fun, budget=1000).x.round(1)
    array([3.])
    """
    given = {"directions": directions, "estimator": estimator, "optimizer": optimizer}
    with RunFolder(Path(folder), create=False) as held:
        config = held.read(given)
        if fun is None:
            if config.objective is None:
                raise CheckpointError(
                    held.path, "holds a run whose objective has no name: gs.resume(folder, fun)."
                )
            fun = find_function(config.objective)
        search, execution = config.search, config.execution
        objective = Objective(fun, search.samples is not None, config.vectorized)
        evaluator = _evaluator(workers, timeout, retries, execution)
        observers = Observers([*trackers, *display(progress)])
        found = held.load(config)
        asked = Limits(
            config.limits.budget if budget is None else budget,
            config.limits.max_steps if max_steps is None else max_steps,
            config.limits.target if target is None else target,
            config.limits.tolerance if tolerance is None else tolerance,
        )
        step = 0 if found.snapshot is None else found.snapshot.state.step
        config = held.extend(config, make_limits(search, *asked), step)
        found = found._replace(config=config)
        held.open(found, execution.every if every is None else parse_every(every))
        run = Run(found, objective, folder=held, callback=callback, observers=observers)
        return run.execute(evaluator, go_on=True)


def _evaluator(
    workers: Any, timeout: float | None, retries: int | None, before: Execution
) -> Evaluator:
    """Who evaluates: what is given now, or else what the run had."""
    if hasattr(workers, "session"):
        return as_evaluator(workers, timeout=timeout, retries=retries or 0)
    chosen = (before.workers or 1) if workers is None else workers
    limit = before.timeout if timeout is None else timeout
    if timeout is None and (callable(chosen) or chosen == 1):
        limit = None  # the run's processes had one, this one has nothing to stop
    return as_evaluator(
        chosen, timeout=limit, retries=before.retries if retries is None else retries
    )
