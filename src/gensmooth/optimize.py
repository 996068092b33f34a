"""``minimize``: from a user's arguments to a run."""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any, Literal, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike

from gensmooth.checkpoint import (
    Every,
    Execution,
    Found,
    RunConfig,
    RunFolder,
    falling,
    make_limits,
    name_of,
    parse_every,
)
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, ForwardDifference, Samples
from gensmooth.evaluators import Objective, as_evaluator
from gensmooth.methods import choose_directions
from gensmooth.observe import Observers, Tracker, display
from gensmooth.optimize.result import Result
from gensmooth.optimize.run import Callback, Run
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import as_parameters
from gensmooth.search import RandomSearch
from gensmooth.streams import check_seed

_RATE = 0.1  # Adam's, when no optimiser is given
_RETRIES = 2  # under on_failure="retry", when no number is given


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    *,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int | None = None,
    spacing: float = 0.1,
    estimator: Estimator | None = None,
    optimizer: Optimizer | float | None = None,
    budget: int = 10_000,
    max_steps: int | None = None,
    target: float | None = None,
    tolerance: float | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    maximize: bool = False,
    bounds: Any = None,
    vectorized: bool | int = False,
    on_failure: Literal["raise", "drop", "retry"] = "raise",
    min_fraction: float = 0.5,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    threads: int = 1,
    seed: int | None = None,
) -> Result:
    """Minimise a black box by random search.

    Args:
        fun: The objective, ``fun(x)``; with ``samples=``, ``fun(x, rng)`` whose noise must come
            from the generator it is handed.
        x0: Where to start: any shape, float32 or float64 (integers become float64).
        method: The name of a method (default ``"bes"``), or
        directions: directions of your own choice.
        num_directions: L; by default 4 + ⌊3 ln d⌋.
        spacing: c, how far from x the objective is evaluated, in units of a direction. Larger
            than the objective's fine print and noise, smaller than the features you seek.
        estimator: By default forward differences.
        optimizer: An ``(init, update)`` pair such as ``gs.sgd(0.01)`` or any Optax
            transformation; a number η stands for Adam whose steps fall from η to 0 over the
            budget along half a cosine. By default η = 0.1.
        budget: Evaluations to spend at most.
        max_steps: Steps to make at most.
        target: Stop when a step's value reaches this.
        tolerance: Stop when ten steps in a row move x by less than this times 1 + ‖x‖.
        samples: ``"shared"``, ``"paired"`` or ``"independent"``; see the docs on noise.
        num_samples: N, samples averaged at each point.
        maximize: Maximise instead; values keep your sign.
        bounds: ``(lower, upper)``, ``gs.Bounds``, or SciPy's forms.
        vectorized: ``fun`` takes points stacked along a first axis; a number says how many.
        on_failure: What to do about NaN, inf, an exception, a time-out or a dead worker:
            ``"raise"``, ``"drop"`` that direction, or ``"retry"`` and then raise.
        min_fraction: The smallest share of directions that makes a step under ``"drop"``.
        workers: 1 evaluates here, n in n processes, −1 in one a core; or a map-like callable such
            as ``executor.map``; or an evaluator such as ``gs.evaluators.Ray()``. The result does
            not depend on it.
        timeout: Seconds that one evaluation may take, where there is a process to stop.
        retries: How often a failed evaluation is tried again with the same seeds, before
            ``on_failure``; 2 by default under ``on_failure="retry"``.
        checkpoint: A folder for the run. If it holds this very run already, interrupted, the run
            goes on from its last checkpoint. See also :func:`resume`.
        every: How often a checkpoint is written: 100 steps, ``"30s"``, ``"5m"``, or
            ``"100,30s"`` for whichever is first. By default every 30 seconds, or less often if
            that took more than a tenth of the time.
        callback: ``callback(info, state)`` after each step; return True to stop.
        progress: Show how it goes: a live table on a terminal, lines elsewhere. By default only
            on a terminal.
        trackers: Such as ``gs.observe.TensorBoard("logs")``.
        threads: Threads of the kernels on large problems; the result does not depend on it.
        seed: Makes the run repeatable.

    Returns:
        The result. Ctrl-C returns what was found so far, with ``status="interrupted"``; a second
        Ctrl-C leaves at once.

    Raises:
        EvaluationError: When the objective fails; its ``result`` holds the run until then.
        CheckpointError: When ``checkpoint`` cannot be used.

    >>> import gensmooth as gs
    >>> res = gs.minimize(lambda x: ((x - 3) ** 2).sum(), [0.0, 0.0], budget=2000, seed=0)
    >>> res.x.round(1)
    array([3., 3.])
    """
    x = as_parameters(x0)
    number = 4 + int(3 * math.log(x.size)) if num_directions is None else num_directions
    rate, given = _optimizer(optimizer)
    if on_failure not in ("raise", "drop", "retry"):
        raise ValueError(f"`on_failure` must be 'raise', 'drop' or 'retry', not {on_failure!r}.")
    if on_failure == "retry" and retries == 0:
        if getattr(workers, "retries", None) == 0:
            raise ValueError(
                "`on_failure` is 'retry', but `workers` is an evaluator that tries nothing again: "
                f"give `retries` to it, as in {type(workers).__name__}(..., retries={_RETRIES})."
            )
        retries = 0 if hasattr(workers, "session") else _RETRIES
    if isinstance(vectorized, np.generic):
        vectorized = cast(bool | int, vectorized.item())
    search = RandomSearch(
        directions=choose_directions(method, directions),
        num_directions=number,
        spacing=spacing,
        estimator=estimator if estimator is not None else ForwardDifference(),
        samples=samples,
        num_samples=num_samples,
        maximize=maximize,
        bounds=bounds,
        on_failure="drop" if on_failure == "drop" else "raise",
        min_fraction=min_fraction,
        threads=threads,
    )
    limits = make_limits(search, budget, max_steps, target, tolerance)
    search = replace(
        search,
        directions=search.directions.resolve(x.size, number),
        optimizer=falling(rate, search, limits) if given is None else given,
    )
    config = RunConfig(
        run=secrets.token_hex(8),
        objective=name_of(fun),
        x0=x,
        seed=check_seed(seed),
        search=search,
        learning_rate=rate if given is None else None,
        vectorized=vectorized,
        limits=limits,
        execution=Execution(
            workers=index(workers) if isinstance(workers, SupportsIndex) else None,
            timeout=timeout,
            retries=retries,
            threads=threads,
            every=parse_every(every),
        ),
    )
    objective = Objective(fun, samples is not None, vectorized)
    evaluator = as_evaluator(workers, timeout=timeout, retries=retries)
    observers = Observers([*trackers, *display(progress)])
    if checkpoint is None:
        if every is not None:
            raise ValueError("`every` is how often a checkpoint is written: give `checkpoint` too.")
        found = Found(config, None, [])
        run = Run(found, objective, folder=None, callback=callback, observers=observers)
        return run.execute(evaluator, go_on=False)
    with RunFolder(Path(checkpoint), create=True) as folder:
        if folder.holds_run:
            config = folder.adopt(config, seed_given=seed is not None)
        else:
            folder.begin(config)
        found = folder.load(config)
        folder.open(found, config.execution.every)
        run = Run(found, objective, folder=folder, callback=callback, observers=observers)
        return run.execute(evaluator, go_on=False)


def _optimizer(given: Optimizer | float | None) -> tuple[float, Optimizer | None]:
    """A learning rate for Adam, or an optimiser."""
    if given is None:
        return _RATE, None
    if not isinstance(given, int | float):
        if not (hasattr(given, "init") and hasattr(given, "update")):
            raise TypeError(
                "`optimizer` must be an (init, update) pair such as gs.sgd(0.01), an Optax "
                f"transformation, or a learning rate, but is {given!r}."
            )
        return _RATE, given
    if not (given > 0 and math.isfinite(given)):
        raise ValueError(f"`optimizer` as a learning rate must be positive, but is {given}.")
    return float(given), None
