"""``minimize`` and ``resume``, the functions that users call."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from numpy.typing import NDArray

from gensmooth import checks, optimizers
from gensmooth.coordinates import Coordinates, inward
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, Samples, as_estimator
from gensmooth.evaluators import Objective, as_evaluator
from gensmooth.evaluators.base import retries_of
from gensmooth.naming import find_objective, identity, name_of
from gensmooth.observe import Observers, Tracker
from gensmooth.optimize.files import resumed_evaluator
from gensmooth.optimize.program import RETURNED, Minimization, checked_limits, count, known_noise
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import as_parameters, is_tree, with_arguments
from gensmooth.results import IntermediateResult, Result
from gensmooth.runs import (
    CheckpointError,
    Every,
    Execution,
    Limits,
    RunFolder,
    resumed_run,
    run,
    seed_in,
)
from gensmooth.searches import Search
from gensmooth.searches.choose import choose
from gensmooth.searches.wanted import Wanted
from gensmooth.streams import check_seed

Array = NDArray[Any]
Callback = Callable[[IntermediateResult], bool | None]

_log = logging.getLogger("gensmooth")


@checks.explains_unknown
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    *,
    # the problem
    args: Any = (),
    bounds: Any = None,
    maximize: bool = False,
    samples: Samples | None = None,
    num_samples: int = 1,
    noise: Literal["returned"] | float | None = None,
    log_scale: Any = None,
    vectorized: bool | int = False,
    # the search
    search: Search | None = None,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int | None = None,
    population: int | None = None,
    spacing: float | optimizers.Schedule | None = None,
    estimator: Estimator | str | None = None,
    optimizer: Optimizer | None = None,
    learning_rate: float | None = None,
    x_scale: Any = None,
    threads: int = 1,
    # when it ends
    budget: int | None = 10_000,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    target: float | None = None,
    tolerance: float | None = None,
    restarts: bool | None = None,
    # the evaluations
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
) -> Result:
    """Minimise a black box by random search.

    With only ``fun`` and ``x0``, the pilot (:class:`~gensmooth.Pilot`) finds the scale, spacing,
    step and population by itself. If you pass a method, directions, an estimator, a spacing or an
    optimiser, the pilot is not used.

    Args:
        fun: The objective, ``fun(x)``; with ``samples=``, ``fun(x, rng)``, which must draw its
            noise from the generator it receives. It returns a number, or two: see ``noise``.
        x0: The start: an array of any shape, float32 or float64 (integers become float64). Or a
            structure of such arrays (dicts, lists, tuples, dataclasses): ``fun`` is then called
            with that structure, and the result's ``x`` has it too; ``x_scale``, ``log_scale`` and
            ``bounds`` may have it.
        args: Extra arguments for ``fun``, after ``x`` and ``rng``. A single value may be passed
            without a tuple.
        bounds: The limits of x: ``(lower, upper)``, two numbers for all parameters or two arrays in
            the shape of x0; ``gs.Bounds`` or SciPy's; or one pair per parameter. With two
            parameters, write the pairs as tuples: ``[(0, 1), (0, 2)]``. For a structure, also a
            dict or dataclass with one pair per array. A parameter whose limits are equal is held
            fixed.
        maximize: Maximise instead. Values keep your sign.
        samples: How the samples of a noisy objective are drawn: ``"shared"``, ``"paired"`` or
            ``"independent"``; see docs/noise.md.
        num_samples: N, the samples averaged at each point.
        noise: What is known about the noise of values: ``"returned"`` if ``fun`` returns a value
            and its standard error; a number if the standard error is always the same. Directions
            are weighted accordingly, and the pilot does not measure the noise itself.
        log_scale: Which parameters are searched on a log scale: ``True``, or one truth value per
            parameter. They must be positive. A spacing or ``x_scale`` of 1 is then a factor of e,
            which is also their unit unless bounds suggest another.
        vectorized: ``fun`` takes points stacked along a first axis; a number limits how many.
        search: A search, such as ``gs.RandomSearch(...)``, or a custom subclass of ``gs.Search``.
            Pass ``samples``, ``bounds``, ``maximize`` and the other arguments of a search to it
            instead of here.
        method: The name of a method. The default is ``"auto"``, the pilot; with directions, a
            spacing, an estimator or an optimiser it is ``"bes"``. Algorithms such as ``"ars"``,
            ``"openai-es"``, ``"spsa"``, ``"snes"``, ``"xnes"`` and ``"cma-es"`` have their own
            defaults for the arguments below, which yours override. ``module:name`` imports a custom
            method.
        directions: Directions as an object, instead of a method.
        num_directions: L, the directions per step; by default 4 + ⌊3 ln d⌋.
        population: The points per step of ``"snes"``, ``"xnes"`` and ``"cma-es"``, which draw them
            from a distribution; by default 4 + ⌊3 ln d⌋.
        spacing: c, how far from x the objective is evaluated, in units of a direction. Choose it
            larger than the objective's noise and fine structure, and smaller than the features you
            seek. The default is 0.1 with a method of the paper; the pilot finds its own. A schedule
            such as ``gs.inverse_decay(0.1, power=0.101)`` changes it from step to step.
        estimator: How values become an estimate of the gradient: ``"forward"`` (the default),
            ``"antithetic"``, ``"one-point"``, ``"ranked"``, ``"centered-ranks"``, ``"best-pairs"``,
            or an object such as ``gs.OnePoint(baseline=0.5)``.
        optimizer: How the estimate changes x: an ``(init, update)`` pair such as ``gs.sgd(0.01)``
            or any Optax transformation. The default is Adam whose rate falls from 0.1 to 0 over
            the budget along half a cosine.
        learning_rate: Short for ``optimizer=gs.sgd(learning_rate)``. With an algorithm, its own
            step size.
        x_scale: How far apart interesting values of a parameter are: one number, or one per
            parameter with the pilot, ``"snes"``, ``"xnes"`` and ``"cma-es"``. By default a quarter
            of the distance between the bounds, or else the size of x0. Other methods multiply their
            spacing by it.
        threads: Threads of the kernels on large problems. The result does not depend on it.
        budget: The maximum number of evaluations, 10,000 by default; ``None`` if you do not know
            it. The run then ends as the other limits say, or once the default search has converged
            on exact values. A warning says so if it may never end.
        max_steps: The maximum number of steps.
        max_seconds: Stop after the first step that ends later than this many seconds after the
            call. A later call with the same ``folder`` continues, with its own time limit.
        target: Stop when a step's value reaches this.
        tolerance: Stop when ten steps in a row move x by less than this times 1 + ‖x‖.
        restarts: What the default search does once it has converged on exact values and evaluations
            are left: start again elsewhere (the default with a budget), or with ``False`` stop.
        workers: 1 evaluates in this process, n in n processes, −1 in one process per core; or a
            map-like callable such as ``executor.map``; or an evaluator such as
            ``gs.evaluators.Ray()``. The result does not depend on it.
        timeout: The seconds that one evaluation may take; needs worker processes or Ray.
        on_failure: What happens on NaN, inf, an exception, a time-out or a dead worker:
            ``"raise"``, ``"drop"`` the direction, or ``"retry"`` and then raise.
        min_fraction: With ``"drop"``, the smallest share of directions that suffices for a step.
        retries: With ``"retry"``, how often a failed evaluation is tried again, with the same
            seeds; 2 by default.
        folder: A folder for the run. If it already holds this run, interrupted, the run
            continues from its last checkpoint; if it has finished, its stored result is returned.
            Both cases are logged, as is a change in the source of ``fun``. See also :func:`resume`.
        every: How often a checkpoint is written: 100 steps, ``"30s"``, ``"5m"``, or ``"100,30s"``
            for whichever comes first. By default every 30 seconds, or less often if writing would
            take more than a tenth of the time.
        callback: ``callback(intermediate_result)`` after each step, as in SciPy: an object with
            ``x``, ``fun``, ``nfev``, ``nit``, the step's ``info``, and the ``search`` with its
            ``state``. Return True or raise ``StopIteration`` to stop.
        progress: Show progress: a live table on a terminal, lines elsewhere. By default only on a
            terminal.
        trackers: Experiment trackers that follow the run, such as
            ``gs.observe.TensorBoard("logs")``.
        seed: Makes the run repeatable.

    Returns:
        The result. Ctrl-C returns the result so far, with ``reason="interrupted"``; a second
        Ctrl-C quits at once.

    Raises:
        EvaluationError: If the objective fails; its ``result`` holds the result so far.
        CheckpointError: If ``folder`` cannot be used.

    >>> import gensmooth as gs
    >>> res = gs.minimize(lambda x: ((x - 3) ** 2).sum(), [0.0, 0.0], budget=2000, seed=0)
    >>> res.x.round(1)
    array([3., 3.])
    """
    coordinates = Coordinates()
    if bounds is None and log_scale is None and not is_tree(x0):
        x = as_parameters(x0)
    else:  # the search's parameters may differ from the objective's
        coordinates, x, bounds, x_scale = inward(
            x0, bounds=bounds, x_scale=x_scale, log_scale=log_scale
        )
    logs = coordinates.log_scale
    retries = retries_of(on_failure, retries, workers)
    checks.function("fun", fun)
    max_seconds = checks.optional(checks.positive, "max_seconds", max_seconds)
    noise = known_noise(noise)
    if folder is None and every is not None:
        raise ValueError("`every` is how often a checkpoint is written: also pass `folder`.")
    chosen = choose(
        x,
        Wanted(
            search=search,
            method=method,
            directions=directions,
            num_directions=num_directions,
            population=population,
            spacing=spacing,
            estimator=estimator,
            optimizer=optimizer,
            learning_rate=learning_rate,
            x_scale=x_scale,
            unit=None if logs is None else logs.units(x, bounds),
            budget=None if budget is None else count("budget", budget),
            max_steps=checks.optional(count, "max_steps", max_steps),
            noise=noise,
            restarts=checks.optional(checks.flag, "restarts", restarts),
            samples=samples,
            num_samples=num_samples,
            maximize=maximize,
            bounds=bounds,
            on_failure="drop" if on_failure == "drop" else "raise",
            min_fraction=min_fraction,
            threads=threads,
        ),
        shape=None if coordinates.tree is None else coordinates.shapes(x),
    )
    search, samples = chosen.search, chosen.search.samples
    limits = checked_limits(search, Limits(budget, max_steps, target, tolerance), x)
    folder = checks.optional(checks.path, "folder", folder)
    function = fun if isinstance(args, tuple) and not args else with_arguments(fun, args)
    name, source = identity(fun, getattr(function, "arguments", ()))
    if coordinates != Coordinates():
        function = coordinates.objective(function)
    objective = Objective(function, samples is not None, vectorized, int(noise == RETURNED))
    program = Minimization(
        objective=name,
        source=source,
        x0=x,
        seed=check_seed(seed_in(folder) if seed is None else seed),
        search=search,
        noise=noise,
        coordinates=coordinates,
        falling_rate=chosen.falling_rate,
        vectorized=objective.vectorized,
        limits=limits,
        execution=Execution.of(
            workers, timeout=timeout, retries=retries, threads=threads, every=every
        ),
        fun=objective,
        evaluator=as_evaluator(workers, timeout=timeout, retries=retries),
        callback=checks.optional(checks.callback, "callback", callback),
    )
    observers = Observers(trackers, progress=progress)
    return _log_warnings(
        run(program, folder=folder, every=every, observers=observers, max_seconds=max_seconds)
    )


@checks.explains_unknown
def resume(
    folder: str | PathLike[str],
    fun: Callable[..., Any] | None = None,
    *,
    args: Any = (),
    x0: Any = None,
    budget: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    target: float | None = None,
    tolerance: float | None = None,
    directions: Directions | None = None,
    estimator: Estimator | str | None = None,
    optimizer: Optimizer | None = None,
    search: Search | None = None,
    workers: Any = None,
    timeout: float | None = None,
    on_failure: Literal["raise", "retry"] | None = None,
    retries: int | None = None,
    every: int | str | Every | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    trackers: Sequence[Tracker] = (),
    trust: bool = False,
) -> Result:
    """Continue a run from its last checkpoint, with the same result as if it had never stopped.

    A finished run returns its stored result; with other limits it continues.

    Args:
        folder: The run's folder.
        fun: The objective. With ``trust=True`` it may be left out if it can be imported under the
            name ``module:function``.
        args: As in :func:`minimize`.
        x0: Parameters with the structure of the run's, whatever their values; needed if they are of
            a custom class that cannot be imported.
        budget: The maximum number of evaluations, counted from the start of the run. If
            :func:`minimize` chose the optimiser, its rate falls anew over this budget.
        max_steps: The maximum number of steps, counted from the start of the run.
        max_seconds: As in :func:`minimize`, counted from this call.
        target: Stop when a step's value reaches this.
        tolerance: As in :func:`minimize`.
        directions: The run's directions; needed if their class cannot be imported.
        estimator: The run's estimator; needed if its class cannot be imported.
        optimizer: The run's optimiser; needed if it is Optax's or has a custom schedule.
        search: The run's search; needed if it was passed to :func:`minimize` and its class cannot
            be imported.
        workers: As in :func:`minimize`. By default the number that the run had, but at most one per
            core; 1 if it had an evaluator or a map, which must be passed again.
        timeout: As in :func:`minimize`; by default what the run had.
        on_failure: ``"raise"`` or ``"retry"``, as in :func:`minimize`; by default what the run had.
        retries: As in :func:`minimize`.
        every: As in :func:`minimize`; by default what the run had.
        callback: As in :func:`minimize`.
        progress: As in :func:`minimize`.
        trackers: As in :func:`minimize`.
        trust: Whether modules that the folder names, such as the objective's, may be imported.
            Read the folder's ``config.json`` first if it is not yours.

    Raises:
        CheckpointError: If the folder holds no run, or one that cannot continue. The message names
            the file; nothing in the folder is changed.

    >>> import gensmooth as gs
    >>> fun = lambda x: ((x - 3) ** 2).sum()
    >>> folder = getfixture("tmp_path") / "run"
    >>> res = gs.minimize(fun, [0.0], budget=100, seed=0, folder=folder)
    >>> gs.resume(folder, fun, budget=1000).x.round(1)
    array([3.])
    """
    passed = {
        "directions": directions,
        "estimator": None if estimator is None else as_estimator(estimator),
        "optimizer": optimizer,
        "search": search,
        "x0": x0,
    }
    checks.optional(checks.function, "fun", fun)
    max_seconds = checks.optional(checks.positive, "max_seconds", max_seconds)
    trust = checks.flag("trust", trust)
    checks.optional(checks.one_of, "on_failure", on_failure, options=("raise", "retry"))
    with RunFolder(checks.path("folder", folder), create=False) as opened:
        program = opened.read(
            Minimization.kind,
            lambda config, large: Minimization.from_json(config, large, passed, trust=trust),
        )
        if fun is None:
            if program.objective is None:
                raise CheckpointError(
                    opened.path,
                    "holds a run whose objective has no name: pass it, gs.resume(folder, fun).",
                )
            try:
                fun = find_objective(program.objective, trust=trust)
            except ValueError as error:
                raise CheckpointError(
                    opened.path, f"cannot continue without `fun`: {error}."
                ) from error
        before = program.execution
        if on_failure is None and before.retries and retries is not None:
            on_failure = "retry"  # the run's own policy
        if on_failure is not None or retries is not None:
            retries = retries_of(on_failure or "raise", retries, workers)
        function = with_arguments(fun, args)
        program = replace(
            program,
            fun=Objective(
                program.coordinates.objective(function),
                program.search.samples is not None,
                program.vectorized,
                int(program.noise == RETURNED),
            ),
            evaluator=resumed_evaluator(workers, timeout, retries, before),
            callback=checks.optional(checks.callback, "callback", callback),
        )
        observers = Observers(trackers, progress=progress)
        changed = Limits(budget, max_steps, target, tolerance)._asdict()
        changed = {name: limit for name, limit in changed.items() if limit is not None}
        limits = checked_limits(program.search, program.limits._replace(**changed), program.x0)
        every = before.every if every is None else every
        resumed = resumed_run(opened, program, limits, every=every, observers=observers)
        opened.compare_source(identity(fun, getattr(function, "arguments", ())).source)
        if resumed.end is None:
            _warn_of_changes(program, fun, workers)
        return _log_warnings(resumed.execute(go_on=True, max_seconds=max_seconds))


def _log_warnings(result: Result) -> Result:
    for warning in result.warnings:
        _log.warning("%s", warning)
    return result


def _warn_of_changes(program: Minimization, fun: Callable[..., Any], workers: Any) -> None:
    """Warn if a run continues with another objective or evaluator, perhaps by mistake."""
    name = name_of(fun)
    if program.objective is not None and name is not None and name != program.objective:
        before = program.objective[:200]
        _log.warning("The run began with %s and continues with %s.", before, name)
    if workers is None and program.execution.workers is None:
        _log.warning(
            "The run had an evaluator, which cannot be stored: it continues in this process, one "
            "evaluation after the other. To change that, pass `workers`."
        )
