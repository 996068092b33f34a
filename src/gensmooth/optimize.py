"""``minimize`` and ``gradient``: a search, an evaluator, and a loop that stops for a reason."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import optimizers
from gensmooth.batch import Batch
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, ForwardDifference, Samples
from gensmooth.evaluators import EvaluationError, Objective, Serial
from gensmooth.methods import choose_directions
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import as_parameters
from gensmooth.search import (
    FailurePolicy,
    GradientEstimate,
    RandomSearch,
    SearchState,
    StepInfo,
)

Array = NDArray[Any]
Reason = Literal[
    "budget", "max_steps", "target", "tolerance", "callback", "interrupted", "diverged"
]

_MESSAGES: dict[Reason, str] = {
    "budget": "The next step does not fit the budget of evaluations.",
    "max_steps": "The largest number of steps was made.",
    "target": "The objective reached the target.",
    "tolerance": "Ten steps in a row were shorter than the tolerance.",
    "callback": "The callback asked to stop.",
    "interrupted": "Interrupted from the keyboard.",
    "diverged": "The search diverged",
}
_SUCCESS: tuple[Reason, ...] = ("budget", "max_steps", "target", "tolerance")
_SHORT_STEPS = 10


class History(NamedTuple):
    """One entry a step.

    Attributes:
        evaluations: Evaluations so far.
        value: The objective as each step saw it.
        gradient_norm: ‖estimate‖.
        standard_error: NaN where there is none.
        step_size: ‖change of x‖.
    """

    evaluations: NDArray[np.int64]
    value: NDArray[np.float64]
    gradient_norm: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    step_size: NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """What a run found; SciPy's names where SciPy has one.

    Attributes:
        x: The last iterate: the recommended point when values are noisy, because the best of
            many noisy values is mostly luck.
        fun: The objective there, evaluated once more at the end (N samples if sampled).
        best_x: The point of the best single value seen: the recommended point of an
            objective without noise.
        best_fun: That value; under noise it is too good to be true.
        nfev: Evaluations made.
        nit: Steps made.
        success: Whether the run ended as planned (budget, steps, target or tolerance).
        status: The reason it ended.
        message: The reason in words.
        dropped: Directions left out because a value was not finite.
        seed: The seed, drawn for you if you gave none: with it the run repeats exactly.
        history: One entry a step.
        state: The state after the last step: :meth:`RandomSearch.ask` goes on from it.
    """

    x: Array
    fun: float
    best_x: Array
    best_fun: float
    nfev: int
    nit: int
    success: bool
    status: Reason
    message: str
    dropped: int
    seed: int
    history: History = field(repr=False)
    state: SearchState = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        """``res["x"]``, as SciPy's result allows."""
        return getattr(self, name)


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
    vectorized: bool = False,
    on_failure: FailurePolicy = "raise",
    min_fraction: float = 0.5,
    callback: Callable[[StepInfo, SearchState], bool | None] | None = None,
    progress: bool | None = None,
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
        vectorized: ``fun`` takes points stacked along a first axis.
        on_failure: ``"raise"`` on NaN, inf or an exception, or ``"drop"`` that direction.
        min_fraction: The smallest share of directions that makes a step under ``"drop"``.
        callback: ``callback(info, state)`` after each step; return True to stop.
        progress: Show a progress bar; by default only on a terminal.
        threads: Threads of the kernels on large problems; the result does not depend on it.
        seed: Makes the run repeatable.

    Returns:
        The result. Ctrl-C returns what was found so far, with ``status="interrupted"``.

    Raises:
        EvaluationError: When the objective fails; its ``result`` holds the run until then.

    >>> import gensmooth as gs
    >>> res = gs.minimize(lambda x: ((x - 3) ** 2).sum(), [0.0, 0.0], budget=2000, seed=0)
    >>> res.x.round(1)
    array([3., 3.])
    """
    x = as_parameters(x0)
    number = 4 + int(3 * math.log(x.size)) if num_directions is None else num_directions
    search = RandomSearch(
        directions=choose_directions(method, directions),
        num_directions=number,
        spacing=spacing,
        estimator=estimator if estimator is not None else ForwardDifference(),
        samples=samples,
        num_samples=num_samples,
        maximize=maximize,
        bounds=bounds,
        on_failure=on_failure,
        min_fraction=min_fraction,
        threads=threads,
    )
    objective = Objective(fun, samples is not None, vectorized, keep_going=on_failure == "drop")
    per_step = len(search.plan)
    if budget < per_step + num_samples:
        raise ValueError(
            f"`budget` is {budget}, but one step takes {per_step} evaluations and the final value "
            f"{num_samples}: allow at least {per_step + num_samples}, or lower `num_directions`."
        )
    search = replace(
        search,
        directions=search.directions.resolve(x.size, number),
        optimizer=_optimizer(optimizer, per_step, budget, max_steps),
    )
    run = _Run(search, objective, search.init(x, seed=seed))
    limits = _Limits(budget - num_samples, max_steps, target, tolerance)
    with _bar(progress, budget) as advance:
        try:
            reason = run.loop(limits, callback, advance)
            return run.result(reason, final=True)
        except KeyboardInterrupt:
            return run.result("interrupted", final=False)
        except EvaluationError as error:
            error.result = run.result("interrupted", final=False)
            raise


def gradient(
    fun: Callable[..., Any],
    x: ArrayLike,
    *,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int = 20,
    spacing: float = 0.1,
    estimator: Estimator | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    vectorized: bool = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    threads: int = 1,
    seed: int | None = None,
) -> GradientEstimate:
    """Estimate the gradient of a black box at a point. Arguments as in :func:`minimize`.

    >>> import gensmooth as gs
    >>> import numpy as np
    >>> est = gs.gradient(lambda x: x @ x, np.ones(3), method="orthogonal", num_directions=3,
    ...                   estimator=gs.Antithetic(), seed=0)
    >>> est.gradient.round(6), est.evaluations
    (array([2., 2., 2.]), 6)
    """
    search = RandomSearch(
        directions=choose_directions(method, directions),
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimator if estimator is not None else ForwardDifference(),
        samples=samples,
        num_samples=num_samples,
        bounds=bounds,
        on_failure=on_failure,
        threads=threads,
    )
    state = search.init(x, seed=seed)
    batch = search.ask(state)
    objective = Objective(fun, samples is not None, vectorized, keep_going=on_failure == "drop")
    return search.estimate(batch, Serial().evaluate(objective, batch))


class _Limits(NamedTuple):
    evaluations: int
    steps: int | None
    target: float | None
    tolerance: float | None


class _Run:
    """A run in progress: the state, and what the result will tell."""

    def __init__(self, search: RandomSearch, objective: Objective, state: SearchState) -> None:
        self.search = search
        self.objective = objective
        self.state = state
        self.infos: list[StepInfo] = []
        self.best_x = state.x
        self.best = -math.inf if search.maximize else math.inf
        self.why = ""

    def loop(
        self,
        limits: _Limits,
        callback: Callable[[StepInfo, SearchState], bool | None] | None,
        advance: Callable[[StepInfo], None],
    ) -> Reason:
        """Step until there is a reason to stop."""
        per_step = len(self.search.plan)
        short = 0
        while True:
            if self.state.evaluations + per_step > limits.evaluations:
                return "budget"
            if limits.steps is not None and self.state.step >= limits.steps:
                return "max_steps"
            info = self.step()
            advance(info)
            if info.diverged is not None:
                self.why = info.diverged
                return "diverged"
            if callback is not None and callback(info, self.state):
                return "callback"
            if limits.target is not None and self._reached(info.value, limits.target):
                return "target"
            if limits.tolerance is not None:
                size = 1 + float(np.linalg.norm(self.state.x.reshape(-1).astype(np.float64)))
                short = short + 1 if info.step_size <= limits.tolerance * size else 0
                if short == _SHORT_STEPS:
                    return "tolerance"

    def step(self) -> StepInfo:
        """Ask, evaluate, tell."""
        batch = self.search.ask(self.state)
        values = Serial().evaluate(self.objective, batch)
        try:
            self.state, info = self.search.tell(self.state, batch, values)
        except ValueError as error:
            bad = np.flatnonzero(~np.isfinite(values))
            if not len(bad):
                raise
            raise EvaluationError(str(error), step=batch.step, index=int(bad[0])) from None
        self.infos.append(info)
        self._remember(batch, info)
        return info

    def _remember(self, batch: Batch, info: StepInfo) -> None:
        if self._reached(info.best_value, self.best) and info.best_value != self.best:
            self.best, self.best_x = info.best_value, batch.point(info.best_index)

    def _reached(self, value: float, target: float) -> bool:
        return value >= target if self.search.maximize else value <= target

    def result(self, reason: Reason, *, final: bool) -> Result:
        """The result so far; ``final`` evaluates the objective at the last iterate."""
        value = self.infos[-1].value if self.infos else float("nan")
        evaluations = self.state.evaluations
        if final:
            value = self._final_value()
            evaluations += self.search.num_samples
            if math.isfinite(value) and self._reached(value, self.best):
                self.best, self.best_x = value, self.state.x
        message = f"{_MESSAGES[reason]}: {self.why}." if self.why else _MESSAGES[reason]
        infos = self.infos
        return Result(
            x=self.state.x.copy(),
            fun=value,
            best_x=self.best_x.copy(),
            best_fun=self.best,
            nfev=evaluations,
            nit=self.state.step,
            success=reason in _SUCCESS,
            status=reason,
            message=message,
            dropped=sum(info.dropped for info in infos),
            seed=self.state.seed,
            history=History(
                np.array([info.evaluations for info in infos], np.int64),
                np.array([info.value for info in infos]),
                np.array([info.gradient_norm for info in infos]),
                np.array([info.standard_error for info in infos], np.float64),
                np.array([info.step_size for info in infos]),
            ),
            state=self.state,
        )

    def _final_value(self) -> float:
        """The mean of N values at the last iterate, with the samples of the next step."""
        search = RandomSearch(
            directions=self.search.directions,
            num_directions=1,
            spacing=self.search.spacing,
            estimator=ForwardDifference(),
            samples=None if self.search.samples is None else "shared",
            num_samples=self.search.num_samples,
        )
        batch = search.ask(self.state).head(self.search.num_samples)
        return float(np.mean(Serial().evaluate(self.objective, batch)))


def _optimizer(
    given: Optimizer | float | None, per_step: int, budget: int, max_steps: int | None
) -> Optimizer:
    if given is None:
        given = 0.1
    if not isinstance(given, int | float):
        if not (hasattr(given, "init") and hasattr(given, "update")):
            raise TypeError(
                "`optimizer` must be an (init, update) pair such as gs.sgd(0.01), an Optax "
                f"transformation, or a learning rate, but is {given!r}."
            )
        return given
    if not (given > 0 and math.isfinite(given)):
        raise ValueError(f"`optimizer` as a learning rate must be positive, but is {given}.")
    steps = max(1, budget // per_step)
    if max_steps is not None:
        steps = min(steps, max_steps)
    return optimizers.adam(optimizers.cosine_decay(float(given), steps=steps))


class _bar:  # noqa: N801 (used like a function)
    """A progress bar over evaluations, on a terminal unless told otherwise."""

    def __init__(self, wanted: bool | None, budget: int) -> None:
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.budget = budget
        self.progress: Any = None

    def __enter__(self) -> Callable[[StepInfo], None]:
        if not self.wanted:
            return lambda info: None  # noqa: ARG005
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            TextColumn("value {task.fields[value]:.6g}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("evaluations"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.progress.start()
        task = self.progress.add_task("", total=self.budget, value=math.nan)
        return lambda info: self.progress.update(task, completed=info.evaluations, value=info.value)

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()
