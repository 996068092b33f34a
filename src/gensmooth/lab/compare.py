"""``compare``: methods on one function, with equal budgets, seed by seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from gensmooth import checks
from gensmooth.estimators import Samples
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.trials import comparison_page
from gensmooth.lab.trials.choices import read_choices
from gensmooth.lab.trials.engine import TrialEngine, python_call
from gensmooth.lab.trials.ranking import Standing, Versus

METHODS = ("auto", "bes", "gs")


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; ``print`` shows standings and verdicts.

    Attributes:
        standings: The methods, the best first.
        pairs: Every pair of methods, with the verdict in words.
        runs: The runs of each method, in the order of the seeds; details are in their ``more``.
        page: The page.
        csv: The numbers of every run.
        text: The standings and verdicts as text, as ``print`` shows them.
    """

    standings: tuple[Standing, ...]
    pairs: tuple[Versus, ...]
    runs: Mapping[str, Sequence[RunRecord]] = field(repr=False)
    page: Path
    csv: Path
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


@checks.explains_unknown
def compare(
    fun: Callable[..., Any] | str,
    x0: Any = None,
    *,
    methods: Sequence[str] | Mapping[str, Any] = METHODS,
    seeds: int | Sequence[int] = 10,
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
) -> Comparison:
    """Compare methods on a function, with equal budgets and seeds, and a verdict on every pair.

    Only missing runs are executed: the same call continues after an interruption, and a larger call
    reuses the runs that it shares with a smaller one. An edited function counts as a new one. If a
    method fails or diverges, that is its result.

    Args:
        fun: The objective, as in :func:`gensmooth.minimize`; or a built-in problem:
            ``"noisy:sphere:100"``, ``"regression:6,15"``, ``"bbob:f8:20"``, ``"gym:Hopper-v5"``.
        x0: Where every method starts, an array or a structure of arrays; built-in problems have
            their own starts.
        methods: Names of methods, with options if you like:
            ``["auto", "bes(spacing=0.01, learning_rate=0.1)"]``, or a mapping from labels to
            options.
        seeds: How many seeds (0, 1, …), or a list of them.
        budget: Evaluations of each run; by default 20,000, or a built-in problem's budget.
        start_spread: The standard deviation of a normal vector that is added to x0: a different
            one for each seed, the same for every method. By default all start at x0.
        score: The value of a point without noise, ``score(x)``: methods are judged by it, but do
            not see it.
        values: Without a score, how many fresh values of the objective judge the point that a
            method recommends. They do not count towards the budget. By default one per 200
            evaluations of the budget, but at least 2 and at most 30.
        samples: As in :func:`gensmooth.minimize`.
        num_samples: As in :func:`gensmooth.minimize`.
        maximize: As in :func:`gensmooth.minimize`.
        bounds: As in :func:`gensmooth.minimize`.
        log_scale: As in :func:`gensmooth.minimize`.
        noise: As in :func:`gensmooth.minimize`.
        vectorized: As in :func:`gensmooth.minimize`.
        on_failure: As in :func:`gensmooth.minimize`.
        min_fraction: As in :func:`gensmooth.minimize`.
        workers: Runs at a time, each in its own process (or Ray task); −1 is one per core.
        ray: Run on Ray: a cluster's address, "auto", or "local" to start one.
        folder: The folder for runs, page and tables; by default runs/compare-NAME.

    Raises:
        ValueError: If a method is unknown or cannot be run as asked. It is raised before any run.

    >>> import gensmooth as gs
    >>> result = gs.compare(lambda x: ((x - 1) ** 2).sum(), [0.0] * 4, methods=["auto", "gs"],
    ...                     seeds=3, budget=300, folder=getfixture("tmp_path"))
    >>> result.standings[0].label
    'auto'
    """
    arguments = {name: value for name, value in locals().items() if name not in ("fun", "x0")}
    command = python_call("compare", fun, x0, arguments)
    return run_comparison(fun, x0, arguments, command=command)


def run_comparison(fun: Any, x0: Any, arguments: Mapping[str, Any], *, command: str) -> Comparison:
    """See :func:`compare`; ``arguments`` are its other arguments."""
    engine = TrialEngine.of("comparison", fun, x0, arguments, command)
    choices = read_choices(arguments["methods"], allowed=engine.problem.options)
    engine.check(choices)
    table = engine.table(choices)
    table.write(engine.folder)
    ranking = comparison_page.conclude(table, engine.fetch(choices))
    return Comparison(
        tuple(ranking.standings),
        tuple(ranking.pairs),
        ranking.runs,
        comparison_page.write_comparison(ranking, engine.folder),
        engine.folder / "tables" / "runs.csv",
        comparison_page.summary(ranking),
    )
