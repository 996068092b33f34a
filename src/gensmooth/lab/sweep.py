"""``sweep``: try the options of a method on a function, and judge the best on fresh seeds.

Every cell of the grid is run on the same few seeds, and the cell with the best mean is chosen. The
best of many noisy numbers is biased, so the reported value is measured on other seeds, which had no
part in the choice.
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
from gensmooth.estimators import Samples
from gensmooth.lab.trials import sweep_page
from gensmooth.lab.trials.choices import Choice, parts
from gensmooth.lab.trials.engine import TrialEngine, python_call, read_seeds
from gensmooth.lab.trials.sweep_page import BestCell, CellScore
from gensmooth.lab.trials.table import TrialTable

Values = Sequence[float] | str | float | None

_FIRST_FRESH = 1001  # as in the paper's studies: disjoint from the default tuning seeds
_INTEGERS = ("num_directions", "population")  # options that are whole numbers
_RANGE = re.compile(r"([^:]+):([^:]+):(log|lin)(\d+)")
_DIGITS = 6  # significant digits of a computed value, which is part of a run's key
_FAR = 10  # values that differ by this factor are searched on a log scale


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep; ``print`` shows the best of each method.

    Attributes:
        best: The best options of each method, the best method first, judged on fresh seeds.
        cells: Every cell with its mean over the tuning seeds.
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


@checks.explains_unknown
def sweep(
    fun: Callable[..., Any] | str,
    x0: Any = None,
    *,
    method: str | Sequence[str] = "bes",
    spacing: Values = None,
    learning_rate: Values = None,
    num_directions: Values = None,
    population: Values = None,
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
    folder: str | PathLike[str] | None = None,
) -> Sweep:
    """Try the options of a method on a function, and judge the best of them on fresh seeds.

    Only missing runs are executed; :func:`compare` in the same folder shares them.

    Args:
        fun: As in :func:`gensmooth.compare`.
        x0: As in :func:`gensmooth.compare`.
        method: The method, or several.
        spacing: Values of c to try: numbers, or a text such as ``"0.01,0.1,1"`` or
            ``"0.01:1:log5"``, five values from 0.01 to 1 by equal factors (``lin5``: equal steps).
        learning_rate: Learning rates to try.
        num_directions: Values of L to try.
        population: Points per step to try, for ``"snes"``, ``"xnes"`` and ``"cma-es"``.
        x_scale: Scales to try, for ``"auto"``.
        vary: Values of any other numeric option of :func:`gensmooth.minimize`.
        search: Whether to try every combination (``"grid"``) or those that Optuna proposes
            (``"optuna"``): its TPE samples between the smallest and the largest value of each
            option. Needs the extra ``optuna``.
        trials: How many combinations Optuna proposes for each method.
        seeds: How many seeds choose (0, 1, …), or a list of them.
        fresh_seeds: How many seeds judge the best (1001, 1002, …), or a list of them.
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
        folder: The folder for runs, page and tables; by default runs/sweep-NAME.

    Raises:
        ValueError: If an option is unknown or invalid. It is raised before any run.

    >>> import gensmooth as gs
    >>> result = gs.sweep(lambda x: ((x - 1) ** 2).sum(), [0.0] * 4, spacing=[0.1],
    ...                   learning_rate="0.001:0.1:log2", seeds=2, fresh_seeds=2, budget=300,
    ...                   folder=getfixture("tmp_path"))
    >>> result.best[0].values
    {'spacing': 0.1, 'learning_rate': 0.1}
    """
    arguments = {name: value for name, value in locals().items() if name not in ("fun", "x0")}
    return run_sweep(fun, x0, arguments, command=python_call("sweep", fun, x0, arguments))


class _Axis(NamedTuple):
    """An option and its values."""

    name: str
    values: tuple[float, ...]
    log: bool


def run_sweep(fun: Any, x0: Any, arguments: Mapping[str, Any], *, command: str) -> Sweep:
    """See :func:`sweep`; ``arguments`` are its other arguments."""
    engine = TrialEngine.of("sweep", fun, x0, arguments, command)
    axes = _axes(arguments, engine.problem.options())
    methods = _methods(arguments["method"])
    fresh = read_seeds("fresh_seeds", arguments["fresh_seeds"], _FIRST_FRESH)
    if both := sorted(set(engine.seeds) & set(fresh)):
        raise ValueError(f"`fresh_seeds` must differ from `seeds`, but both have {both[0]}.")
    search = checks.one_of("search", arguments["search"], ("grid", "optuna"))
    names = [axis.name for axis in axes]
    combinations = list(product(*(axis.values for axis in axes)))
    cells = [_choice(m, dict(zip(names, v, strict=True))) for m in methods for v in combinations]
    engine.check(_corners(cells, methods))

    def table(cells: Sequence[Choice]) -> TrialTable:
        return engine.table(cells, fresh=fresh, search=search)

    if search == "optuna":
        trials = checks.count("trials", arguments["trials"])
        cells = [c for m in methods for c in _proposed(engine, table, m, axes, trials)]
    table(cells).write(engine.folder)
    conclusion = sweep_page.conclude(table(cells), engine.fetch(cells))
    return Sweep(
        tuple(conclusion.best),
        tuple(conclusion.cells),
        sweep_page.write_sweep(conclusion, engine.folder),
        engine.folder / "tables" / "runs.csv",
        sweep_page.summary(conclusion),
    )


def _proposed(
    engine: TrialEngine,
    table: Callable[[Sequence[Choice]], TrialTable],
    method: str,
    axes: Sequence[_Axis],
    trials: int,
) -> list[Choice]:
    """Return Optuna's proposals; an interruption does not change them."""
    try:
        optuna: Any = import_module("optuna")
    except ImportError as error:
        raise ImportError(
            "search='optuna' needs Optuna: pip install 'gensmooth[optuna]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    proposed: dict[str, Choice] = {}
    for number in range(trials):
        trial = study.ask()
        choice = _choice(method, {axis.name: _suggested(trial, axis) for axis in axes})
        proposed.setdefault(choice.label, choice)
        single = table([choice])
        title = f"{method}, trial {number + 1} of {trials}"
        records = engine.fetch([choice])(single.specs(), title)
        (score,) = sweep_page.scores(single, records)
        loss = -score.mean if single.maximize else score.mean
        if math.isfinite(loss):
            study.tell(trial, loss)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        table(list(proposed.values())).write(engine.folder)
    return list(proposed.values())


def _suggested(trial: Any, axis: _Axis) -> float:
    low, high = min(axis.values), max(axis.values)
    if axis.name in _INTEGERS:
        return int(trial.suggest_int(axis.name, int(low), int(high), log=axis.log))
    value = float(trial.suggest_float(axis.name, low, high, log=axis.log))
    return min(max(float(f"{value:.{_DIGITS}g}"), low), high)


# --- arguments -----------------------------------------------------------------------------------


def _methods(method: object) -> list[str]:
    names = parts(method) if isinstance(method, str) else list(cast(Sequence[Any], method))
    checked = [checks.text("method", name) for name in names]
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(f"`method` must be different names, but is {checks.shown(method)}.")
    return checked


def _axes(arguments: Mapping[str, Any], known: Sequence[str]) -> list[_Axis]:
    """Return the options to vary, all of which must be known."""
    names = ("spacing", "learning_rate", "num_directions", "population", "x_scale")
    varied: dict[str, Any] = {name: arguments[name] for name in names}
    varied |= checks.mapping("vary", arguments["vary"] or {})
    axes: list[_Axis] = []
    for name, values in varied.items():
        if values is None:
            continue
        if name not in known:
            hint = checks.did_you_mean(name, known)
            raise ValueError(
                f"`{name}` is not an option of a method here.{hint} Known: {', '.join(known)}. To "
                "vary a field of a custom search, register each value under its own name "
                "(docs/contributing/search.md), and pass the names as `method`."
            )
        axes.append(_Axis(name, *read_values(name, values)))
    if not axes:
        raise ValueError(
            "There is nothing to vary: pass values of an option, such as spacing=[0.01, 0.1, 1] "
            "or learning_rate='0.01:1:log5'."
        )
    return axes


def read_values(name: str, values: Any) -> tuple[tuple[float, ...], bool]:
    """Read the values of an option, and whether to search them on a log scale.

    >>> read_values("spacing", "0.01:1:log3")
    ((0.01, 0.1, 1.0), True)
    >>> read_values("num_directions", "4,8")
    ((4, 8), False)
    """
    log, many = False, values
    if isinstance(values, str):
        match = _RANGE.fullmatch(values.strip())
        try:
            if match:
                low, high = float(match[1]), float(match[2])
                log, count = match[3] == "log", int(match[4])
                if log and not 0 < low < high:
                    raise ValueError
                spread = np.geomspace if log else np.linspace
                numbers = [float(f"{v:.{_DIGITS}g}") for v in spread(low, high, count)]
            else:
                numbers = [float(part) for part in values.split(",")]
        except ValueError:
            numbers = []
    elif isinstance(values, Sequence) or hasattr(values, "tolist"):
        listed: Any = np.atleast_1d(many).tolist() if hasattr(many, "tolist") else list(many)
        numbers = [float(checks.finite(name, value)) for value in listed]
    else:
        numbers = [float(checks.finite(name, values))]
    if not numbers or not all(map(math.isfinite, numbers)) or len(set(numbers)) < len(numbers):
        raise ValueError(
            f"`{name}` must be different numbers such as 0.01,0.1,1, or a range such as "
            f"0.01:1:log5 or 1:9:lin5, but is {checks.shown(many)}."
        )
    log = log or (min(numbers) > 0 and max(numbers) >= _FAR * min(numbers))
    if name in _INTEGERS:
        if any(value != round(value) and not isinstance(values, str) for value in numbers):
            raise ValueError(f"`{name}` must be whole numbers, but is {checks.shown(many)}.")
        return tuple(dict.fromkeys(round(value) for value in numbers)), log
    return tuple(numbers), log


def _choice(method: str, options: Mapping[str, float]) -> Choice:
    words = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return Choice(f"{method}({words})", method, dict(options))


def _corners(grid: Sequence[Choice], methods: Sequence[str]) -> list[Choice]:
    """Return, for each method, cells that together contain every value of every option."""
    corners: dict[str, Choice] = {}
    for method in methods:
        seen: set[tuple[str, float]] = set()
        for choice in grid:
            added = {item for item in choice.options.items() if choice.method == method} - seen
            if added:
                seen |= added
                corners[choice.label] = choice
    return list(corners.values())
