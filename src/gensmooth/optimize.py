"""``minimize``, ``resume`` and ``gradient``: a search, an evaluator, and a reason to stop."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Literal, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

import gensmooth.algorithms as algorithms
from gensmooth import checks, optimizers
from gensmooth.advice import advice
from gensmooth.batch import Batch
from gensmooth.coordinates import Coordinates, Held, inward
from gensmooth.describe import (
    describe_parts,
    number,
    plain,
    whole,
)
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, ForwardDifference, Plan, Samples
from gensmooth.evaluators import (
    Evaluated,
    EvaluationError,
    Evaluator,
    Objective,
    Session,
    as_evaluator,
)
from gensmooth.evaluators.base import tell
from gensmooth.methods import choose_directions
from gensmooth.naming import find_objective, identity, name_of
from gensmooth.observe import Observers, Seen, Start, Tracker
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import (
    LogScale,
    as_bounds,
    as_parameters,
    is_tree,
    with_arguments,
)
from gensmooth.pilot import AUTO, Pilot
from gensmooth.results import Result, history_of
from gensmooth.resuming import (
    CHOICES,
    NUMBERS,
    PILOT,
    PLAIN,
    POPULATION,
    evaluator_again,
    falling,
    held_from_json,
    log_scale_from_json,
    search_from_json,
    tree_from_json,
)
from gensmooth.runs import (
    MESSAGES,
    SOURCE,
    SUCCESS,
    CheckpointError,
    End,
    Every,
    Execution,
    Limits,
    Program,
    Reason,
    Record,
    Run,
    RunFolder,
    array_from_json,
    array_to_json,
    reached,
    run,
    seed_in,
    states,
)
from gensmooth.search import (
    FailurePolicy,
    GradientEstimate,
    RandomSearch,
    Search,
    SearchState,
    StepInfo,
)
from gensmooth.streams import check_seed
from gensmooth.trees import Tree

__all__ = [
    "RETURNED",
    "Minimization",
    "MinimizeState",
    "gradient",
    "minimize",
    "resume",
]

Array = NDArray[Any]
Callback = Callable[[StepInfo, SearchState], bool | None]

_RATE = 0.1  # Adam's, when no optimiser is given
_NO_VALUE = "At the point to use there is no value: the objective failed there."
_NOT_THERE = "`fun` is what the last step saw: at `x` nothing was evaluated any more."
RETURNED = "returned"  # noise: the objective returns it
_SHORT_STEPS = 10  # in a row, and it is the end
_RETRIES = 2  # under on_failure="retry", when no number is given
_log = logging.getLogger("gensmooth")


# --- what a user calls ---------------------------------------------------------------------------


@checks.explains_unknown
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    *,
    args: Any = (),
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int | None = None,
    spacing: float | optimizers.Schedule | None = None,
    estimator: Estimator | None = None,
    optimizer: Optimizer | float | None = None,
    x_scale: Any = None,
    log_scale: Any = None,
    noise: Literal["returned"] | float | None = None,
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

    With nothing but ``fun`` and ``x0``, the pilot (:class:`~gensmooth.pilot.Pilot`) finds scale,
    spacing, step and population by itself. Whoever gives a method, directions, an estimator, a
    spacing or an optimiser has them instead, as the paper does.

    Args:
        fun: The objective, ``fun(x)``; with ``samples=``, ``fun(x, rng)`` whose noise must come
            from the generator it is handed. It returns a number, or two, see ``noise``.
        x0: Where to start: any shape, float32 or float64 (integers become float64). Or a structure
            of such arrays (dicts, lists, tuples, dataclasses), which ``fun`` is then called with
            and ``x`` comes back in; ``x_scale``, ``log_scale`` and ``bounds`` may have it too.
        args: More arguments of ``fun``, after ``x`` and ``rng``: a tuple, or one that is none.
        method: The name of a method; ``"auto"``, the default, is the pilot. With any of the next
            five arguments but ``num_directions``, the default is ``"bes"``. ``"ars"``,
            ``"openai-es"``, ``"spsa"``, ``"snes"``, ``"xnes"`` and ``"cma-es"`` are algorithms with
            numbers of their own for all that follows, which yours override.
        directions: Directions of your own choice, instead of a method.
        num_directions: L, directions per step; by default 4 + ⌊3 ln d⌋.
        spacing: c, how far from x the objective is evaluated, in units of a direction. Larger
            than the objective's fine print and noise, smaller than the features you seek. With a
            method of the paper 0.1 by default; the pilot finds its own. A schedule, such as
            ``gs.inverse_decay(0.1, power=0.101)``, changes it from step to step.
        estimator: How values become an estimate of the gradient; forward differences by default.
        optimizer: What the estimate does to x: an ``(init, update)`` pair such as
            ``gs.sgd(0.01)`` or any Optax transformation; a number η stands for Adam whose steps
            fall from η to 0 over the budget along half a cosine. With a method of the paper
            η = 0.1 by default. With an algorithm, a number is its own step size.
        x_scale: For the pilot, ``"snes"``, ``"xnes"`` and ``"cma-es"``: how far apart interesting
            values of a parameter are, a number or one for each parameter. By default a quarter of
            what the bounds leave, or else the size of x0.
        log_scale: Which parameters are searched on a log scale: ``True``, or one truth value for
            each. They must be above zero; a spacing or ``x_scale`` of 1 is then a factor of e,
            which is their unit where bounds say no other.
        noise: What is known of the noise of values: ``"returned"`` if ``fun`` returns a value and
            its standard error; a number if that is always the same. Directions are weighted
            accordingly, and the pilot measures nothing twice.
        budget: Evaluations to spend at most.
        max_steps: Steps to make at most.
        target: Stop when a step's value reaches this.
        tolerance: Stop when ten steps in a row move x by less than this times 1 + ‖x‖.
        samples: How the samples of a noisy objective are drawn: ``"shared"``, ``"paired"`` or
            ``"independent"``; see the docs on noise.
        num_samples: N, samples averaged at each point.
        maximize: Maximise instead; values keep your sign.
        bounds: Limits of x: ``(lower, upper)``, two numbers for all parameters or two arrays in
            the shape of x0; ``gs.Bounds`` or SciPy's; or a pair for each parameter. With two
            parameters, write pairs as tuples: ``[(0, 1), (0, 2)]``. Of a structure, also a dict or
            dataclass with a pair for each array. A parameter whose two limits are equal is held
            there, and the search has the others alone.
        vectorized: ``fun`` takes points stacked along a first axis; a number says how many.
        on_failure: What to do about NaN, inf, an exception, a time-out or a dead worker:
            ``"raise"``, ``"drop"`` that direction, or ``"retry"`` and then raise.
        min_fraction: The smallest share of directions that makes a step under ``"drop"``.
        workers: 1 evaluates here, n in n processes, −1 in one per core; or a map-like callable such
            as ``executor.map``; or an evaluator such as ``gs.evaluators.Ray()``. The result does
            not depend on it.
        timeout: Seconds that one evaluation may take, where there is a process to stop.
        retries: How often a failed evaluation is tried again with the same seeds, before
            ``on_failure``; 2 by default under ``on_failure="retry"``.
        checkpoint: A folder for the run. If it holds this very run already, interrupted, the run
            goes on from its last checkpoint; if it has ended, its result is told again. Both are
            said, and so is it if the source of ``fun`` has changed. See also :func:`resume`.
        every: How often a checkpoint is written: 100 steps, ``"30s"``, ``"5m"``, or
            ``"100,30s"`` for whichever is first. By default every 30 seconds, or less often if
            that took more than a tenth of the time.
        callback: ``callback(info, state)`` after each step; return True to stop.
        progress: Show how it goes: a live table on a terminal, lines elsewhere. By default only
            on a terminal.
        trackers: Who else follows the run, such as ``gs.observe.TensorBoard("logs")``.
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
    own_rate, given = _optimizer(optimizer)
    coordinates = Coordinates()
    if bounds is None and log_scale is None and not is_tree(x0):
        x = as_parameters(x0)
    else:  # what the search has is something else than what the objective has
        found = inward(x0, bounds=bounds, x_scale=x_scale, log_scale=log_scale)
        coordinates, x, bounds, x_scale = found
    tree, held, logs = coordinates.tree, coordinates.held, coordinates.log_scale
    checks.one_of("on_failure", on_failure, ("raise", "drop", "retry"))
    retries = checks.count("retries", retries, 0)
    if on_failure == "retry" and retries == 0:
        if getattr(workers, "retries", None) == 0:
            raise ValueError(
                "`on_failure` is 'retry', but `workers` is an evaluator that tries nothing again: "
                f"give `retries` to it, as in {type(workers).__name__}(..., retries={_RETRIES})."
            )
        retries = 0 if hasattr(workers, "session") else _RETRIES
    checks.function("fun", fun)
    noise = _noise(noise)
    if checkpoint is None and every is not None:
        raise ValueError("`every` is how often a checkpoint is written: give `checkpoint` too.")
    shared: dict[str, Any] = {
        "samples": samples,
        "num_samples": num_samples,
        "maximize": maximize,
        "bounds": bounds,
        "on_failure": "drop" if on_failure == "drop" else "raise",
        "min_fraction": min_fraction,
        "threads": threads,
    }
    asked = Limits(budget, max_steps, target, tolerance)
    chosen = (method, directions, estimator, spacing, optimizer)
    rate: float | None = None
    search: Search
    if (isinstance(method, str) and method == AUTO) or all(each is None for each in chosen):
        _check_left_to_pilot(chosen[1:])
        if logs is not None and x_scale is None:
            x_scale = logs.units(x, bounds)
        search = Pilot(
            budget=_count("budget", budget),
            num_directions=num_directions,
            x_scale=x_scale,
            **shared,
        )
        limits = _limits(search, asked, x)
    elif algorithms.find(method) is not None:
        if directions is not None:
            raise ValueError(
                f"method={method!r} has directions of its own: leave `directions` out."
            )
        if x_scale is None and logs is not None and method in algorithms.POPULATIONS:
            x_scale = logs.units(x, bounds)
        wanted = algorithms.Wanted(
            name=str(method),
            num_directions=num_directions,
            spacing=spacing,
            estimator=estimator,
            optimizer=optimizer,
            x_scale=x_scale,
            budget=_count("budget", budget),
            max_steps=checks.optional(_count, "max_steps", max_steps),
            noise=noise,
            **shared,
        )
        search = algorithms.make(x, wanted)
        limits = _limits(search, asked, x)
    else:
        if x_scale is not None:
            raise ValueError(
                "`x_scale` is for the pilot, method='auto', and for 'snes', 'xnes' and 'cma-es'; "
                "with a method of your choice `spacing` is in the parameters' own units: scale "
                "them yourself."
            )
        number = 4 + int(3 * math.log(x.size)) if num_directions is None else num_directions
        family = choose_directions(method, directions, also=algorithms.names())
        family = family.shaped(x.shape if tree is None else coordinates.shapes(x))
        search = RandomSearch(
            directions=family,
            num_directions=number,
            spacing=family.usual_spacing if spacing is None else spacing,
            estimator=estimator if estimator is not None else ForwardDifference(),
            **shared,
        )
        limits = _limits(search, asked, x)
        search = search.changed(
            directions=search.directions.resolve(x.size, number),
            optimizer=falling(own_rate, search, limits) if given is None else given,
        )
        rate = own_rate if given is None else None
    folder = checks.optional(checks.path, "checkpoint", checkpoint)
    called = fun if isinstance(args, tuple) and not args else with_arguments(fun, args)
    name, source = identity(fun, getattr(called, "arguments", ()))
    if coordinates != Coordinates():
        called = coordinates.objective(called)
    objective = Objective(called, samples is not None, vectorized, int(noise == RETURNED))
    program = Minimization(
        objective=name,
        source=source,
        x0=x,
        seed=check_seed(seed_in(folder) if seed is None else seed),
        search=search,
        noise=noise,
        log_scale=logs,
        held=held,
        tree=tree,
        learning_rate=rate,
        vectorized=objective.vectorized,
        limits=limits,
        execution=Execution.of(
            workers, timeout=timeout, retries=retries, threads=threads, every=every
        ),
        fun=objective,
        evaluator=as_evaluator(workers, timeout=timeout, retries=retries),
        callback=checks.optional(checks.function, "callback", callback),
    )
    observers = Observers(trackers, progress=progress)
    return _spoken(run(program, folder=folder, every=every, observers=observers))


@checks.explains_unknown
def resume(
    folder: str | PathLike[str],
    fun: Callable[..., Any] | None = None,
    *,
    args: Any = (),
    x0: Any = None,
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
    trust: bool = False,
) -> Result:
    """Go on with a run from its last checkpoint, to the same result as if it had never stopped.

    A run that has ended is told again, without an evaluation; other limits let it go on.

    Args:
        folder: What was given to :func:`minimize` as ``checkpoint``.
        fun: The objective. With ``trust`` not needed if it has a name, ``module:function``, that
            can be imported from here.
        args: As in :func:`minimize`.
        x0: Parameters in the structure that the run has, whatever their numbers; needed if they
            are of a class of your own that has no name.
        budget: Evaluations to spend at most, from the run's beginning. If the optimiser was left
            to :func:`minimize`, its rate falls anew, as half a cosine over this budget does.
        max_steps: Steps to make at most, from the run's beginning.
        target: Stop when a step's value reaches this.
        tolerance: Stop when ten steps in a row are shorter than this times 1 + ‖x‖.
        directions: The run's directions; needed if they are of a class of your own that has no
            name.
        estimator: The run's estimator; likewise.
        optimizer: The run's optimiser; needed if it is Optax's or has a schedule of your own.
        workers: As in :func:`minimize`; by default the number that the run had, but at most one
            per core, because a file says it; or 1 if that was an evaluator or a map, which must be
            passed again.
        timeout: As in :func:`minimize`; by default what the run had.
        retries: As in :func:`minimize`; by default what the run had.
        every: As in :func:`minimize`; by default what the run had.
        callback: As in :func:`minimize`.
        progress: As in :func:`minimize`.
        trackers: As in :func:`minimize`.
        trust: Whether the folder's word is enough for a module to be imported and its function to
            be called: that of the objective, or of directions of your own. Look at its
            ``config.json`` first if the folder is not yours.

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
    given = {"directions": directions, "estimator": estimator, "optimizer": optimizer, "x0": x0}
    checks.optional(checks.function, "fun", fun)
    trust = checks.flag("trust", trust)
    with RunFolder(checks.path("folder", folder), create=False) as held:
        program = held.read(
            Minimization.kind,
            lambda found, large: Minimization.from_json(found, large, given, trust=trust),
        )
        if fun is None:
            if program.objective is None:
                raise CheckpointError(
                    held.path, "holds a run whose objective has no name: gs.resume(folder, fun)."
                )
            try:
                fun = find_objective(program.objective, trust=trust)
            except ValueError as error:
                raise CheckpointError(held.path, f"does not go on by itself: {error}.") from error
        before = program.execution
        called = with_arguments(fun, args)
        program = replace(
            program,
            fun=Objective(
                program.coordinates.objective(called),
                program.search.samples is not None,
                program.vectorized,
                int(program.noise == RETURNED),
            ),
            evaluator=evaluator_again(workers, timeout, retries, before),
            callback=checks.optional(checks.function, "callback", callback),
        )
        observers = Observers(trackers, progress=progress)
        found = held.load(program)
        held.compare_source(identity(fun, getattr(called, "arguments", ())).source)
        old = program.limits
        asked = Limits(
            old.budget if budget is None else budget,
            old.max_steps if max_steps is None else max_steps,
            old.target if target is None else target,
            old.tolerance if tolerance is None else tolerance,
        )
        limits = _limits(program.search, asked, program.x0)
        if limits != old:
            program = program.extended(limits, found.step)
            found = held.load(program)
            held.write(program)
        often = before.every if every is None else every
        again = Run(program, found, folder=held, every=often, observers=observers)
        if again.end is None:
            _say_what_changes(program, fun, workers)
        return _spoken(again.execute(go_on=True))


@checks.explains_unknown
def gradient(
    fun: Callable[..., Any],
    x: Any,
    *,
    args: Any = (),
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int = 20,
    spacing: float = 0.1,
    estimator: Estimator | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    vectorized: bool | int = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    workers: Any = 1,
    threads: int = 1,
    seed: int | None = None,
) -> GradientEstimate:
    """Estimate the gradient of a black box at a point. Arguments as in :func:`minimize`.

    At a structure of arrays the estimate has that structure.

    >>> import gensmooth as gs
    >>> import numpy as np
    >>> est = gs.gradient(lambda x: x @ x, np.ones(3), method="orthogonal", num_directions=3,
    ...                   estimator=gs.Antithetic(), seed=0)
    >>> est.gradient.round(6), est.evaluations
    (array([2., 2., 2.]), 6)
    """
    tree = None
    if is_tree(x):
        x, tree = Tree.of(x)
        bounds = None if bounds is None else tree.bounds(bounds)
    family = choose_directions(method, directions)
    search = RandomSearch(
        directions=family if tree is None else family.shaped(tree.shapes),
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimator if estimator is not None else ForwardDifference(),
        samples=samples,
        num_samples=num_samples,
        bounds=bounds,
        on_failure=on_failure,
        threads=threads,
    )
    called = with_arguments(checks.function("fun", fun), args)
    called = called if tree is None else tree.objective(called)
    objective = Objective(called, samples is not None, vectorized)
    state = search.init(x, seed=seed)
    batch = search.ask(state)
    with as_evaluator(workers).session(search, objective) as session:
        values = session.evaluate(state, batch).values
    if on_failure == "raise":
        _check_finite(batch, values)
    found = search.estimate(batch, values)
    if not np.isfinite(found.gradient).all():
        raise ValueError(
            f"The estimate is not finite: values whose differences are divided by a `spacing` of "
            f"{batch.spacing:g} overflow."
        )
    estimate = found.gradient.reshape(state.x.shape)
    return found._replace(gradient=estimate if tree is None else tree.build(estimate))


# --- a minimisation as a program -----------------------------------------------------------------


class MinimizeState(NamedTuple):
    """A minimisation between two steps.

    Attributes:
        search: The search's state.
        best_x: The point of the best single value seen.
        best: That value.
        short_steps: How many of the last steps, in a row, were shorter than the tolerance.
    """

    search: SearchState
    best_x: Array
    best: float
    short_steps: int


@final
@dataclass(frozen=True, kw_only=True)
class Minimization(Program[MinimizeState, Record, Result]):
    """Random search on an objective, until a limit is reached.

    Attributes:
        objective: ``module:function``, or ``None`` for a function without a name.
        source: The hash of its source when the run began, if it was known.
        x0: Where it starts.
        seed: Its seed.
        search: Directions, estimator, optimiser and the rest.
        learning_rate: If not ``None``, the optimiser is Adam whose rate falls from this to 0
            over the budget, and is made anew when the budget is extended.
        vectorized: Whether the objective takes stacked points, or how many.
        noise: What is known of the noise of values.
        log_scale: Which parameters ``x0`` and the state have as logarithms.
        held: Which parameters ``x0`` and the state do not have, because bounds hold them.
        tree: The structure in which the objective has them; ``x0`` and the state are flat.
        limits: When it stops.
        execution: How it is carried out.
        extensions: The limits that earlier parts of it had, each with the step it went on from.
        fun: The objective itself.
        evaluator: Who evaluates it.
        callback: Called after each step; true stops.
    """

    kind: ClassVar[str] = "minimisation"
    resumed_by: ClassVar[str | None] = "gs.resume"
    reasons: ClassVar[Sequence[str]] = tuple(sorted(set(MESSAGES) - {"iterations"}))
    compared: ClassVar[Mapping[str, str | None] | None] = {
        **dict.fromkeys(("objective", "seed", "x0")),
        **dict.fromkeys(("search", "limits"), "`{}`"),
    }

    objective: str | None
    x0: Array
    seed: int
    search: Search
    learning_rate: float | None
    vectorized: bool | int
    noise: Literal["returned"] | float | None = None
    log_scale: LogScale | None = None
    held: Held | None = None
    tree: Tree | None = None
    limits: Limits = field()
    execution: Execution
    extensions: tuple[Mapping[str, Any], ...] = ()
    source: str | None = None
    fun: Objective | None = None
    evaluator: Evaluator | None = None
    callback: Callback | None = None

    def init(self) -> MinimizeState:
        """See :class:`~gensmooth.runs.Program`."""
        state = self.search.init(self.x0, seed=self.seed)
        return MinimizeState(state, state.x, -math.inf if self.search.maximize else math.inf, 0)

    def session(self) -> AbstractContextManager[Session]:
        """Workers."""
        assert self.fun is not None
        assert self.evaluator is not None
        return self.evaluator.session(self.search, self.fun)

    def step(self, state: MinimizeState, session: Session) -> tuple[MinimizeState, Record]:
        """Ask, evaluate, tell."""
        search, before = self.search, state.search
        batch = search.ask(before)
        evaluated = self._evaluate(session, before, batch)
        errors = self._errors(batch, evaluated)
        after, info = tell(search, before, batch, evaluated.values, errors)
        best_x, best = state.best_x, state.best
        if info.best_value != best and reached(info.best_value, best, search.maximize):
            best_x, best = batch.point(info.best_index), info.best_value
        short_steps, tolerance = 0, self.limits.tolerance
        if tolerance is not None:
            length = float(np.linalg.norm(after.x.reshape(-1).astype(np.float64)))
            if isinstance(search, Pilot) and search.looks(before) and info.step_size == 0:
                short_steps = state.short_steps  # it was not to move x
            elif info.step_size <= tolerance * (1 + length):
                short_steps = state.short_steps + 1
        return MinimizeState(after, best_x, best, short_steps), Record(info, evaluated.faults)

    def stop(self, state: MinimizeState, last: Record | None) -> End | None:
        """See :class:`~gensmooth.runs.Program`."""
        limits, search = self.limits, self.search
        if last is not None:
            if last.info.diverged is not None:
                return End("diverged", last.info.diverged)
            if self.callback is not None and self.callback(last.info, self._shown(state)):
                return End("callback")
            if limits.target is not None and reached(
                last.info.value, limits.target, search.maximize
            ):
                return End("target")
            if state.short_steps == _SHORT_STEPS:
                return End("tolerance")
        needed = search.next_evaluations(state.search) + self._finals(state)
        if limits.budget is not None and state.search.evaluations + needed > limits.budget:
            return End("budget")
        if limits.max_steps is not None and state.search.step >= limits.max_steps:
            return End("max_steps")
        return None

    def finish(self, state: MinimizeState, end: End, session: Session) -> End:
        """The mean of some values at the point to use, with the samples of the next step."""
        n = self._finals(state, end)
        here = np.zeros(n, np.int64)
        at = state.search._replace(x=self._recommended(state))
        batch: Batch = self.search.ask(at).planned(Plan(here, here, np.arange(n)))
        evaluated = self._evaluate(session, at, batch)
        values, known = evaluated.values, self._errors(batch, evaluated)
        kept = np.isfinite(values)
        if isinstance(self.search, Pilot) and kept.any():  # those that failed are dropped
            values, known = values[kept], None if known is None else known[kept]
        value = float(np.mean(values))
        error = None
        if known is not None:
            error = math.sqrt(float(np.square(known).sum())) / len(values)
        elif isinstance(self.search, Pilot) and self.search.num_samples == 1:
            error = self.search.error(state.search, values) if math.isfinite(value) else None
        elif len(values) > 1 and math.isfinite(value):
            error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return end._replace(
            more={
                "value": plain(value),
                "error": plain(error),
                "evaluations": n,
                "faults": dict(evaluated.faults),
            }
        )

    def _errors(self, batch: Batch, evaluated: Evaluated) -> NDArray[np.float64] | None:
        """The standard errors of values, where they are known."""
        if self.noise is None:
            return None
        if evaluated.extras is not None:
            errors = evaluated.extras[:, 0]
            if (errors < 0).any():
                first = int((errors < 0).argmax())
                raise EvaluationError(
                    f"The objective returned a standard error of {errors[first]:g}, at "
                    f"{batch.describe(first)}.",
                    step=batch.step,
                    index=first,
                    kind="return",
                )
            return errors
        return np.full(len(evaluated.values), float(self.noise))

    def _finals(self, state: MinimizeState, end: End | None = None) -> int:
        """How many values are taken at the point to use: several where one would say little.

        At the end of the budget those are all that is left of it.
        """
        n, search, budget = self.search.num_samples, self.search, self.limits.budget
        if not isinstance(search, Pilot):
            return n
        finals = search.final_evaluations(state.search)
        if end is None or budget is None or not search.noise(state.search):
            return finals
        left = max((budget - state.search.evaluations) // n * n, n)
        return left if end.reason == "budget" else min(finals, left)

    def _shown(self, state: MinimizeState) -> SearchState:
        """The search's state as users see it, with the structure of the parameters."""
        if self.tree is None or self.held is not None:
            return state.search
        return state.search._replace(tree=self.tree)

    @property
    def coordinates(self) -> Coordinates:
        """The way from what the search has to what the objective has."""
        return Coordinates(self.tree, self.held, self.log_scale)

    def _recommended(self, state: MinimizeState) -> Array:
        if isinstance(self.search, Pilot):
            return self.search.recommend(state.search)
        return state.search.x

    def result(self, state: MinimizeState, records: Sequence[Record], end: End | None) -> Result:
        """See :class:`~gensmooth.runs.Program`."""
        value = records[-1].info.value if records else float("nan")
        evaluations = state.search.evaluations
        best, best_x = state.best, state.best_x
        x, error = self._recommended(state), None
        faults: Counter[str] = Counter()
        for record in records:
            faults.update(record.faults)
        if end is not None:
            value, at_end = number(end.more["value"]), states.faults_from_json(end.more["faults"])
            evaluations += whole(end.more["evaluations"])
            if end.more["error"] is not None:
                error = number(end.more["error"])
            faults.update(at_end)
            if math.isfinite(value) and reached(value, best, self.search.maximize):
                best, best_x = value, x
        told = end or End("interrupted")
        lost = end is not None and not math.isfinite(value)  # that of a direction is dropped
        search = self.search
        unseen = end is None and bool(records)
        if unseen and isinstance(search, Pilot) and np.array_equal(x, best_x):
            value, unseen = best, False  # where values are exact, the best one is the point to use
        noise = search.noise(state.search) if isinstance(search, Pilot) else None
        warnings = advice(
            search,
            self.x0,
            state.search,
            [record.info for record in records],
            value=value,
            error=error,
            noise=noise,
            budget=self.limits.budget,
        )
        return Result(
            x=self.coordinates.outward(x),
            fun=value,
            best_x=self.coordinates.outward(best_x),
            best_fun=best,
            nfev=evaluations,
            nit=state.search.step,
            success=told.reason in SUCCESS and not lost,
            status=cast(Reason, told.reason),
            message=" ".join(
                [told.message(), *[_NO_VALUE] * lost, *[_NOT_THERE] * unseen, *warnings]
            ),
            dropped=sum(record.info.dropped for record in records),
            faults=dict(faults),
            seed=state.search.seed,
            history=history_of(records),
            state=self._shown(state),
            error=error,
            noise=noise,
            warnings=tuple(warnings),
        )

    def settings(self, large: dict[str, Array]) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        search, bounds, execution = self.search, None, self.execution.to_json()
        if isinstance(search, Pilot):
            described = {"method": AUTO, **describe_parts(search, PILOT)}
            scale = search.x_scale
            if scale is not None:
                scale = array_to_json("x_scale", np.asarray(scale, np.float64), large)
            described["x_scale"] = scale
        elif isinstance(search, algorithms.Population):
            described = {"method": search.method, **describe_parts(search, POPULATION)}
            described |= describe_parts(search, search.rates())
            described["x_scale"] = None
            if search.x_scale is not None:
                scale = np.asarray(search.x_scale, np.float64)
                described["x_scale"] = array_to_json("x_scale", scale, large)
        else:
            described = describe_parts(search, (*CHOICES, *NUMBERS, *PLAIN))
        if self.learning_rate is not None:
            described["optimizer"] = {"learning_rate": self.learning_rate}
        log_scale = held = None
        if self.log_scale is not None:
            mask = self.log_scale.mask.astype(np.float64)
            log_scale = array_to_json("log_scale", mask, large)
        if self.held is not None:
            free = self.held.free.astype(np.float64)
            held = {
                "free": array_to_json("free", free, large),
                "values": array_to_json("held", self.held.values, large),
            }
        described |= {
            "noise": self.noise,
            "log_scale": log_scale,
            "held": held,
            "structure": None if self.tree is None else self.tree.to_json(),
        }
        limits = describe_parts(self.limits, Limits._fields)
        x0 = array_to_json("x0", self.x0, large)
        if search.bounds is not None:
            bounds = {
                name: array_to_json(name, _one(limit), large)
                for name, limit in as_bounds(search.bounds, self.x0)._asdict().items()
            }
        return {
            "objective": self.objective,
            SOURCE: self.source,
            "seed": self.seed,
            "x0": x0,
            "search": {**described, "vectorized": self.vectorized, "bounds": bounds},
            "limits": limits,
            "execution": execution,
            "extensions": list(self.extensions),
        }

    @classmethod
    def from_json(
        cls,
        found: Mapping[str, Any],
        large: Mapping[str, Array],
        given: Mapping[str, Any],
        *,
        trust: bool = False,
    ) -> "Minimization":
        """The run of a ``config.json``; ``given`` has the choices that the caller passed again.

        Raises:
            ValueError: When it is not one, or when a choice must be passed again; so do
                ``TypeError`` and ``LookupError`` say.
        """
        x0 = as_parameters(array_from_json(found["x0"], large))
        described: dict[str, Any] = dict(found["search"])
        execution = Execution.from_json(found["execution"])
        limits = Limits.from_json(found["limits"])
        rate, search = search_from_json(
            described, large, given, limits, execution, x0=x0, trust=trust
        )
        if not isinstance(described["vectorized"], int):
            raise TypeError(f"`vectorized` is {str(described['vectorized'])[:80]}")
        search.init(x0, seed=found["seed"])  # complains about what does not fit together
        held = held_from_json(described["held"], large, x0)
        size = x0.shape if held is None else held.free.shape
        return cls(
            objective=None if found["objective"] is None else str(found["objective"]),
            source=None if found[SOURCE] is None else str(found[SOURCE])[:64],
            x0=x0,
            seed=found["seed"],
            search=search,
            learning_rate=rate,
            vectorized=described["vectorized"],
            noise=_noise(described["noise"]),
            log_scale=log_scale_from_json(described["log_scale"], large, x0),
            held=held,
            tree=tree_from_json(described["structure"], given.get("x0"), size, trust=trust),
            limits=limits,
            execution=execution,
            extensions=tuple(found["extensions"]),
        )

    def extended(self, limits: Limits, step: int) -> "Minimization":
        """The run with other limits from ``step`` on."""
        before = {"until_step": step, **describe_parts(self.limits, Limits._fields)}
        search = self.search
        if isinstance(search, Pilot):
            search = replace(search, budget=limits.budget or 0)
        elif self.learning_rate is not None and isinstance(search, RandomSearch):
            search = search.changed(optimizer=falling(self.learning_rate, search, limits))
        return replace(self, limits=limits, search=search, extensions=(*self.extensions, before))

    def pack(self, state: MinimizeState) -> tuple[dict[str, Any], dict[str, Array]]:
        """See :class:`~gensmooth.runs.Program`."""
        search = state.search
        skeleton, arrays = states.pack_search(self.search, search)
        meta = {
            "evaluations": search.evaluations,
            "seed": search.seed,
            "best": plain(state.best),
            "short_steps": state.short_steps,
            "optimizer": skeleton,
        }
        return meta, {"x": search.x, "best_x": np.asarray(state.best_x), **arrays}

    def largest(self) -> int:
        """See :class:`~gensmooth.runs.Program`."""
        return states.largest(self.x0.size)

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> MinimizeState:
        """See :class:`~gensmooth.runs.Program`."""
        if meta["seed"] != self.seed:
            raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {self.seed}")
        search = states.unpack_search(self.search, meta, arrays, x0=self.x0)
        if whole(meta["evaluations"]) != search.evaluations:  # the pilot's depend on the values
            raise ValueError(f"{search.step} steps do not take {meta['evaluations']} evaluations")
        best = number(meta["best"])
        if math.isnan(best):
            raise ValueError("its best value is not a number")
        short_steps = whole(meta["short_steps"])
        if Limits.from_json(meta["limits"]).tolerance != self.limits.tolerance:
            short_steps = 0
        return MinimizeState(search, states.like(self.x0, arrays, "best_x"), best, short_steps)

    def write_record(self, record: Record) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        return states.record_to_json(record)

    def read_record(self, found: dict[str, Any]) -> Record:
        """See :class:`~gensmooth.runs.Program`."""
        return states.record_from_json(found)

    def start(self, state: MinimizeState, start: Start) -> Start:
        """See :class:`~gensmooth.runs.Program`."""
        return start._replace(
            evaluations=state.search.evaluations,
            budget=self.limits.budget or 0,
            max_steps=self.limits.max_steps,
        )

    def seen(self, state: MinimizeState, records: Sequence[Record], session: Session) -> Seen:  # noqa: ARG002
        """See :class:`~gensmooth.runs.Program`."""
        return Seen(records[-1].info, session.workers)

    def summary(self, result: Result) -> dict[str, Any]:
        """See :class:`~gensmooth.runs.Program`."""
        names = ("status", "message", "success", "fun", "best_fun", "nfev", "nit")
        return {name: result[name] for name in names}

    def _evaluate(self, session: Session, state: SearchState, batch: Batch) -> Evaluated:
        evaluated = session.evaluate(state, batch)
        if self.search.on_failure == "raise":
            _check_finite(batch, evaluated.values)
        return evaluated


def _noise(given: object) -> Literal["returned"] | float | None:
    """What is known of the noise of values, checked."""
    if given is None:
        return None
    if isinstance(given, str):
        if given == RETURNED:
            return RETURNED
        raise ValueError(f"`noise` must be 'returned', a standard error or None, but is {given!r}.")
    return float(checks.nonnegative("noise", given))


def _spoken(result: Result) -> Result:
    """Log what went wrong without failing."""
    for warning in result.warnings:
        _log.warning("%s", warning)
    return result


def _check_left_to_pilot(chosen: Sequence[Any]) -> None:
    """With ``method="auto"`` the rest is left to the pilot."""
    names = ("directions", "estimator", "spacing", "optimizer")
    given = [f"`{name}`" for name, choice in zip(names, chosen, strict=True) if choice is not None]
    if given:
        raise ValueError(
            f"method='auto' chooses {' and '.join(given)} itself: leave {given[0]} out, or name a "
            "method."
        )


def _limits(search: Search, asked: Limits, x: Array) -> Limits:
    """Check a user's limits: they must allow a first step and the values at the end."""
    first, num_samples = search.next_evaluations(search.init(x, seed=0)), search.num_samples
    least = first + num_samples
    budget = _count("budget", asked.budget)
    if budget < least:
        raise ValueError(
            f"`budget` is {budget}, but one step takes {first} evaluations and the "
            f"final value {num_samples}: allow at least {least}, or lower `num_directions`."
        )
    target = checks.optional(checks.number, "target", asked.target)
    tolerance = checks.optional(checks.nonnegative, "tolerance", asked.tolerance)
    if target is not None and math.isnan(target):
        raise ValueError("`target` must be a number that a value can reach, but is nan.")
    return Limits(
        budget,
        checks.optional(_count, "max_steps", asked.max_steps),
        None if target is None else float(target),
        None if tolerance is None else float(tolerance),
    )


def _count(name: str, value: object) -> int:
    """A count, which people also write as 1e5."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checks.count(name, value, 0)


def _optimizer(given: object) -> tuple[float, Optimizer | None]:
    """A learning rate for Adam, or an optimiser."""
    if given is None:
        return _RATE, None
    if isinstance(given, bool) or not isinstance(given, Real):
        if not (hasattr(given, "init") and hasattr(given, "update")):
            raise TypeError(
                "`optimizer` must be an (init, update) pair such as gs.sgd(0.01), an Optax "
                f"transformation, or a learning rate, but is {checks.shown(given)}."
            )
        return _RATE, cast(Optimizer, given)
    return float(checks.positive("optimizer", given)), None


def _check_finite(batch: Batch, values: NDArray[np.float64]) -> None:
    """Name the first value that is not finite."""
    finite = np.isfinite(values)
    if finite.all():
        return
    first = int(finite.argmin())
    raise EvaluationError(
        f"The objective returned {values[first]} (on_failure='drop' would leave its direction "
        f"out), at {batch.describe(first)}.",
        step=batch.step,
        index=first,
        kind="non-finite",
    )


def _say_what_changes(program: Minimization, fun: Callable[..., Any], workers: Any) -> None:
    """Log what goes on otherwise than it began, where nobody may have meant it."""
    name = name_of(fun)
    if program.objective is not None and name is not None and name != program.objective:
        before = program.objective[:200]
        _log.warning("The run began with %s, and goes on with %s.", before, name)
    if workers is None and program.execution.workers is None:
        _log.warning(
            "The run had an evaluator, which cannot be written down: it goes on here, one "
            "evaluation after the other. To change that, pass `workers`."
        )


def _one(limit: Array) -> Array:
    """One number for limits that are all the same; they are broadcast when they are used."""
    flat = limit.reshape(-1)
    return flat[0].reshape(()) if (flat == flat[0]).all() else limit
