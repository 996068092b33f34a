"""``sweep``: the options of a method on one function, and the best of them on fresh seeds.

Every cell of the grid is run on the same few seeds, and the cell with the lowest mean is chosen.
The best of many noisy numbers is too good to be true, so what is reported of it is measured on
other seeds, which had no part in choosing it.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from gensmooth import checks
from gensmooth.comparisons import sweep_page
from gensmooth.comparisons.choices import Choice, parts
from gensmooth.comparisons.comparing import (
    budget_of,
    check,
    folder_of,
    problem_of,
    python_call,
    say,
    seeds_of,
    workers_of,
)
from gensmooth.comparisons.plan import Order, ask, maker_of
from gensmooth.comparisons.problems import CommonProblem
from gensmooth.comparisons.sweep_page import BestCell, CellScore
from gensmooth.estimators import Samples
from gensmooth.studies.spec import RunRecord, RunSpec

Values = Sequence[float] | str | float | None

_FIRST_FRESH = 1001  # as in the paper's studies: disjoint from the seeds that choose
_WHOLE = ("num_directions",)  # options that are whole numbers
_RANGE = re.compile(r"([^:]+):([^:]+):(log|lin)(\d+)")
_DIGITS = 6  # of a value that is computed: it is part of a run's name
_FAR = 10  # values that differ by this factor are searched on a log scale


@dataclass(frozen=True)
class Sweep:
    """What came of a sweep; ``print`` shows the best of each method.

    Attributes:
        best: The best options of each method, the best method first, judged on fresh seeds.
        cells: Every cell with its mean over the seeds that choose.
        page: The page.
        csv: The numbers of every run.
        text: The best as a terminal shows them.
    """

    best: tuple[BestCell, ...]
    cells: tuple[CellScore, ...] = field(repr=False)
    page: Path
    csv: Path
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


def sweep(
    fun: Callable[..., Any] | str,
    x0: Any = None,
    *,
    method: str | Sequence[str] = "bes",
    spacing: Values = None,
    optimizer: Values = None,
    num_directions: Values = None,
    x_scale: Values = None,
    vary: Mapping[str, Values] | None = None,
    search: Literal["grid", "optuna"] = "grid",
    trials: int = 30,
    seeds: int | Sequence[int] = 3,
    fresh_seeds: int | Sequence[int] = 10,
    budget: int | None = None,
    start_spread: float = 0.0,
    score: Callable[[Any], float] | None = None,
    values: int | None = None,
    samples: Samples | None = None,
    num_samples: int | None = None,
    maximize: bool = False,
    bounds: Any = None,
    log_scale: Any = None,
    noise: Literal["returned"] | float | None = None,
    vectorized: bool | int = False,
    on_failure: Literal["raise", "drop", "retry"] | None = None,
    min_fraction: float | None = None,
    workers: int | None = 1,
    ray: str | None = None,
    out: str | PathLike[str] | None = None,
) -> Sweep:
    """Try the options of a method on a function, and judge the best of them on fresh seeds.

    Runs what is missing, and shares its runs with :func:`compare` in the same folder.

    Args:
        fun: As in :func:`gensmooth.compare`.
        x0: As in :func:`gensmooth.compare`.
        method: The method, or several.
        spacing: Values of c to try: numbers, or a text such as ``"0.01,0.1,1"`` or
            ``"0.01:1:log5"``, five values from 0.01 to 1 by equal factors (``lin5``: equal steps).
        optimizer: Learning rates to try, from which Adam's falls to zero over the budget.
        num_directions: Values of L to try.
        x_scale: Scales to try, for ``"auto"``.
        vary: Values of any other numeric option of :func:`gensmooth.minimize`.
        search: Whether every combination is tried, or those that Optuna's TPE proposes between the
            smallest and the largest value of each option (which needs the extra ``optuna``).
        trials: How many combinations Optuna proposes for each method.
        seeds: How many seeds choose (0, 1, …), or which.
        fresh_seeds: How many seeds judge the best (1001, 1002, …), or which.
        budget: As in :func:`gensmooth.compare`.
        start_spread: As in :func:`gensmooth.compare`.
        score: As in :func:`gensmooth.compare`.
        values: As in :func:`gensmooth.compare`.
        samples: As in :func:`gensmooth.minimize`.
        num_samples: As in :func:`gensmooth.minimize`.
        maximize: As in :func:`gensmooth.minimize`.
        bounds: As in :func:`gensmooth.minimize`.
        log_scale: As in :func:`gensmooth.minimize`.
        noise: As in :func:`gensmooth.minimize`.
        vectorized: As in :func:`gensmooth.minimize`.
        on_failure: As in :func:`gensmooth.minimize`.
        min_fraction: As in :func:`gensmooth.minimize`.
        workers: As in :func:`gensmooth.compare`.
        ray: As in :func:`gensmooth.compare`.
        out: The folder for runs, page and tables; by default runs/sweep-NAME.

    Raises:
        ValueError: When an option is not one, or cannot be what is asked, before anything is run.

    >>> import gensmooth as gs
    >>> found = gs.sweep(lambda x: ((x - 1) ** 2).sum(), [0.0] * 4, spacing=[0.1],
    ...                  optimizer="0.001:0.1:log2", seeds=2, fresh_seeds=2, budget=300,
    ...                  out=getfixture("tmp_path"))
    >>> found.best[0].values
    {'spacing': 0.1, 'optimizer': 0.1}
    """
    given = {name: value for name, value in locals().items() if name not in ("fun", "x0")}
    return run_sweep(fun, x0, given, command=python_call("sweep", fun, x0, given))


class _Axis(NamedTuple):
    """An option and its values."""

    name: str
    values: tuple[float, ...]
    log: bool


def run_sweep(fun: Any, x0: Any, given: Mapping[str, Any], *, command: str) -> Sweep:
    """See :func:`sweep`; ``given`` has its other arguments."""
    problem = problem_of(fun, x0, given)
    axes = _axes(given, problem)
    methods = _methods(given["method"])
    seeds = seeds_of("seeds", given["seeds"])
    fresh = seeds_of("fresh_seeds", given["fresh_seeds"], _FIRST_FRESH)
    if both := sorted(set(seeds) & set(fresh)):
        raise ValueError(f"`fresh_seeds` must be others than `seeds`, but both have {both[0]}.")
    budget, number = budget_of(problem, given)
    out = folder_of(given["out"], "sweep", problem)
    search = checks.one_of("search", given["search"], ("grid", "optuna"))
    grid = [
        _choice(m, dict(zip(_names(axes), v, strict=True))) for m in methods for v in _all(axes)
    ]
    check(problem, _corners(grid, methods), seeds[0], budget)
    task = _Task(problem, seeds, fresh, budget, number, out, given, command, search)
    if search == "optuna":
        trials = checks.count("trials", given["trials"])
        cells = [cell for m in methods for cell in _proposed(task, m, axes, trials)]
    else:
        cells = grid
    order = task.order(cells)
    order.write(out)
    records = task.make(cells, order.specs(), f"{problem.name}: {len(cells)} cells")
    scores = sweep_page.scores(order, records)
    best = sweep_page.chosen(scores, maximize=problem.maximize)
    best = [each for each in best if math.isfinite(each.mean)]
    chosen = [c for c in order.cells if c["label"] in [each.label for each in best]]
    specs = [order.spec(cell, seed) for cell in chosen for seed in order.fresh]
    again = task.make(cells, specs, f"{problem.name}: the best, on fresh seeds")
    found = sweep_page.conclude(order, records, again)
    page = sweep_page.write_sweep(found, out)
    return Sweep(
        tuple(found.best),
        tuple(found.cells),
        page,
        out / "tables" / "runs.csv",
        sweep_page.summary(found),
    )


class _Task(NamedTuple):
    """What is swept, and where it is kept."""

    problem: CommonProblem
    seeds: Sequence[int]
    fresh: Sequence[int]
    budget: int
    values: int
    out: Path
    given: Mapping[str, Any]
    command: str
    search: str

    def order(self, cells: Sequence[Choice]) -> Order:
        return ask(
            "sweep",
            self.problem,
            [(c, {"method": c.method, "values": dict(c.options)}) for c in cells],
            seeds=self.seeds,
            budget=self.budget,
            values=self.values,
            command=self.command,
            fresh=self.fresh,
            search=self.search,
        )

    def make(
        self, cells: Sequence[Choice], specs: Sequence[RunSpec], title: str
    ) -> list[RunRecord]:
        maker = maker_of(
            self.problem,
            cells,
            folder=self.out,
            values=self.values,
            workers=workers_of(self.given["workers"]),
            ray=self.given["ray"],
            say=say,
        )
        return maker.complete(specs, title).records


def _proposed(task: _Task, method: str, axes: Sequence[_Axis], trials: int) -> list[Choice]:
    """What Optuna proposes, each told what came of those before: the same again after a kill."""
    try:
        optuna: Any = import_module("optuna")
    except ImportError as error:
        raise ImportError(
            "search='optuna' needs Optuna: pip install 'gensmooth[optuna]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    found: list[Choice] = []
    for number in range(trials):
        trial = study.ask()
        choice = _choice(method, {axis.name: _suggested(trial, axis) for axis in axes})
        if choice.label not in [each.label for each in found]:
            found.append(choice)
        order = task.order([choice])
        title = f"{task.problem.name}: {method}, trial {number + 1} of {trials}"
        records = task.make([choice], order.specs(), title)
        (score,) = sweep_page.scores(order, records)
        worst = -score.mean if task.problem.maximize else score.mean
        if math.isfinite(worst):
            study.tell(trial, worst)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        task.order(found).write(task.out)
    return found


def _suggested(trial: Any, axis: _Axis) -> float:
    low, high = min(axis.values), max(axis.values)
    if axis.name in _WHOLE:
        return int(trial.suggest_int(axis.name, int(low), int(high), log=axis.log))
    value = float(trial.suggest_float(axis.name, low, high, log=axis.log))
    return min(max(float(f"{value:.{_DIGITS}g}"), low), high)


# --- arguments -----------------------------------------------------------------------------------


def _methods(given: object) -> list[str]:
    names = parts(given) if isinstance(given, str) else list(cast(Sequence[Any], given))
    found = [checks.text("method", name) for name in names]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"`method` must be different names, but is {checks.shown(given)}.")
    return found


def _axes(given: Mapping[str, Any], problem: CommonProblem) -> list[_Axis]:
    told: dict[str, Any] = {
        name: given[name] for name in ("spacing", "optimizer", "num_directions", "x_scale")
    }
    told |= checks.mapping("vary", given["vary"] or {})
    axes: list[_Axis] = []
    for name, values in told.items():
        if values is None:
            continue
        if name not in problem.options():
            hint = checks.did_you_mean(name, problem.options())
            raise ValueError(
                f"`{name}` is no option of a method here.{hint} Known: "
                f"{', '.join(problem.options())}."
            )
        axes.append(_Axis(name, *read_values(name, values)))
    if not axes:
        raise ValueError(
            "There is nothing to vary: give values of an option, such as spacing=[0.01, 0.1, 1] "
            "or optimizer='0.01:1:log5'."
        )
    return axes


def read_values(name: str, given: Any) -> tuple[tuple[float, ...], bool]:
    """The values of an option, and whether they are spread by factors, or far apart.

    >>> read_values("spacing", "0.01:1:log3")
    ((0.01, 0.1, 1.0), True)
    >>> read_values("num_directions", "4,8")
    ((4, 8), False)
    """
    log, many = False, given
    if isinstance(given, str):
        match = _RANGE.fullmatch(given.strip())
        try:
            if match:
                low, high = float(match[1]), float(match[2])
                log, count = match[3] == "log", int(match[4])
                if log and not 0 < low < high:
                    raise ValueError
                spread = np.geomspace if log else np.linspace
                found = [float(f"{v:.{_DIGITS}g}") for v in spread(low, high, count)]
            else:
                found = [float(part) for part in given.split(",")]
        except ValueError:
            found = []
    elif isinstance(given, Sequence) or hasattr(given, "tolist"):
        listed: Any = many.tolist() if hasattr(many, "tolist") else list(many)
        found = [float(checks.finite(name, value)) for value in listed]
    else:
        found = [float(checks.finite(name, given))]
    if not found or not all(map(math.isfinite, found)) or len(set(found)) < len(found):
        raise ValueError(
            f"`{name}` must be different numbers such as 0.01,0.1,1, or a range such as "
            f"0.01:1:log5 or 1:9:lin5, but is {checks.shown(many)}."
        )
    log = log or (min(found) > 0 and max(found) >= _FAR * min(found))
    if name in _WHOLE:
        if any(value != round(value) and not isinstance(given, str) for value in found):
            raise ValueError(f"`{name}` must be whole numbers, but is {checks.shown(many)}.")
        return tuple(dict.fromkeys(round(value) for value in found)), log
    return tuple(found), log


def _names(axes: Sequence[_Axis]) -> list[str]:
    return [axis.name for axis in axes]


def _all(axes: Sequence[_Axis]) -> list[tuple[float, ...]]:
    return list(product(*(axis.values for axis in axes)))


def _choice(method: str, options: Mapping[str, float]) -> Choice:
    words = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return Choice(f"{method}({words})", method, dict(options))


def _corners(grid: Sequence[Choice], methods: Sequence[str]) -> list[Choice]:
    """Of each method the cells that have every value of every option among them."""
    found: dict[str, Choice] = {}
    for method in methods:
        seen: set[tuple[str, float]] = set()
        for choice in grid:
            added = {item for item in choice.options.items() if choice.method == method} - seen
            if added:
                seen |= added
                found[choice.label] = choice
    return list(found.values())
