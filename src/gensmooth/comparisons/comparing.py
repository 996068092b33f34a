"""``compare``: methods on one function, at equal evaluations, seed by seed."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

from gensmooth import checks
from gensmooth.comparisons import page
from gensmooth.comparisons.choices import PROBLEM, Choice, read_choices
from gensmooth.comparisons.plan import ask, maker_of
from gensmooth.comparisons.problems import CommonProblem, find_problem
from gensmooth.comparisons.ranking import Standing, Versus
from gensmooth.comparisons.trial import Minimized
from gensmooth.estimators import Samples
from gensmooth.evaluators import EvaluationError, cores
from gensmooth.rl.defaults import NUM_DIRECTIONS
from gensmooth.streams import check_seed
from gensmooth.studies.spec import RunRecord

METHODS = ("auto", "bes", "gs")
_SHARE, _MOST = 200, 30  # fresh values that judge a point: one in so many evaluations, at most


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison; ``print`` shows standings and verdicts.

    Attributes:
        standings: The methods, the best first.
        pairs: Every pair of methods, with the verdict in words.
        runs: The runs by method, in the order of the seeds; ``more`` has what is known of each.
        page: The page.
        csv: The numbers of every run.
        text: Standings and verdicts as a terminal shows them.
    """

    standings: tuple[Standing, ...]
    pairs: tuple[Versus, ...]
    runs: Mapping[str, Sequence[RunRecord]] = field(repr=False)
    page: Path
    csv: Path
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


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
    out: str | PathLike[str] | None = None,
) -> Comparison:
    """Compare methods on a function: equal evaluations, the same seeds, a verdict on every pair.

    Runs what is missing: the same call again continues what was interrupted, and a larger one takes
    over the runs that it shares with a smaller one. A function that was edited is another function.
    A method that fails or diverges has that as its result.

    Args:
        fun: The objective, as in :func:`gensmooth.minimize`; or a built-in problem:
            ``"noisy:sphere:100"``, ``"regression:6,15"``, ``"bbob:f8:20"``, ``"gym:Hopper-v5"``.
        x0: Where every method starts, an array or a structure of arrays; built-in problems have
            starts of their own.
        methods: Names of methods, perhaps with options of their own:
            ``["auto", "bes(spacing=0.01, optimizer=0.1)"]``, or a mapping from labels to options.
        seeds: How many seeds (0, 1, …), or which.
        budget: Evaluations of each run; by default 20,000, or what a built-in problem has.
        start_spread: The standard deviation of a normal vector that is added to x0, of each seed
            its own, the same for every method. By default all start at x0.
        score: What a point is worth without noise, ``score(x)``: methods are judged by it, and do
            not see it.
        values: Fresh values of the objective that judge the point a method recommends, where there
            is no score; outside of the budget. By default one for 200 evaluations, from 2 to 30.
        samples: As in :func:`gensmooth.minimize`.
        num_samples: As in :func:`gensmooth.minimize`.
        maximize: As in :func:`gensmooth.minimize`.
        bounds: As in :func:`gensmooth.minimize`.
        log_scale: As in :func:`gensmooth.minimize`.
        noise: As in :func:`gensmooth.minimize`.
        vectorized: As in :func:`gensmooth.minimize`.
        on_failure: As in :func:`gensmooth.minimize`.
        min_fraction: As in :func:`gensmooth.minimize`.
        workers: Runs at a time, each in a process of its own; −1 is one per core. With Ray, runs at
            a time.
        ray: Run on Ray: a cluster's address, "auto", or "local" to start one.
        out: The folder for runs, page and tables; by default runs/compare-NAME.

    Raises:
        ValueError: When a method is unknown, or cannot do what is asked, before anything is run.

    >>> import gensmooth as gs
    >>> found = gs.compare(lambda x: ((x - 1) ** 2).sum(), [0.0] * 4, methods=["auto", "gs"],
    ...                    seeds=3, budget=300, out=getfixture("tmp_path"))
    >>> found.standings[0].label
    'auto'
    """
    given = {name: value for name, value in locals().items() if name not in ("fun", "x0")}
    return run_comparison(fun, x0, given, command=python_call("compare", fun, x0, given))


def run_comparison(fun: Any, x0: Any, given: Mapping[str, Any], *, command: str) -> Comparison:
    """See :func:`compare`; ``given`` has its other arguments."""
    problem = problem_of(fun, x0, given)
    choices = read_choices(given["methods"], allowed=problem.options)
    seeds = seeds_of("seeds", given["seeds"])
    budget, values = budget_of(problem, given)
    out = folder_of(given["out"], "compare", problem)
    check(problem, choices, seeds[0], budget)
    asked = ask(
        "comparison",
        problem,
        [(choice, {}) for choice in choices],
        seeds=seeds,
        budget=budget,
        values=values,
        command=command,
    )
    maker = maker_of(
        problem,
        choices,
        folder=out,
        values=values,
        workers=workers_of(given["workers"]),
        ray=given["ray"],
        say=say,
    )
    asked.write(out)
    told = f"{problem.name}: {page.how_many(len(choices), 'method')}"
    records = maker.complete(asked.specs(), told).records
    found = page.conclude(asked, records)
    where = page.write_comparison(found, out)
    return Comparison(
        tuple(found.standings),
        tuple(found.pairs),
        found.records,
        where,
        out / "tables" / "runs.csv",
        page.summary(found),
    )


# --- arguments -----------------------------------------------------------------------------------


def problem_of(fun: Any, x0: Any, given: Mapping[str, Any]) -> CommonProblem:
    """The problem that some arguments mean."""
    how = {name: given[name] for name in PROBLEM if given[name] is not None}
    for name in ("maximize", "vectorized"):  # False is the default, and says nothing
        if how.get(name) is False:
            del how[name]
    if "maximize" in how:
        checks.flag("maximize", how["maximize"])
    return find_problem(fun, x0, start_spread=given["start_spread"], score=given["score"], how=how)


def seeds_of(name: str, given: object, first: int = 0) -> list[int]:
    """Seeds from a number of them, or from themselves."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        listed = list(cast(Sequence[Any], given))
        found = [check_seed(seed) for seed in listed]
        if not found or len(set(found)) < len(found):
            raise ValueError(f"`{name}` must be different seeds, but is {checks.shown(listed)}.")
        return found
    return list(range(first, first + checks.count(name, given)))


def budget_of(problem: CommonProblem, given: Mapping[str, Any]) -> tuple[int, int]:
    """The budget of a run, and how many fresh values judge its point."""
    budget = given["budget"]
    if isinstance(budget, float) and budget.is_integer():
        budget = int(budget)
    budget = problem.budget if budget is None else checks.count("budget", budget)
    if given["values"] is not None:
        return budget, checks.count("values", given["values"])
    if problem.unit == "episodes":
        return budget, _MOST
    return budget, min(max(budget // _SHARE, 2), _MOST)


def workers_of(given: Any) -> int | None:
    """Runs at a time."""
    if given == -1:
        return cores()
    return checks.optional(checks.count, "workers", given)


def folder_of(given: Any, what: str, problem: CommonProblem) -> Path:
    """The folder, whose default has the problem's name."""
    if given is not None:
        return checks.path("out", given)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", problem.name).strip("-.") or "function"
    return Path("runs") / f"{what}-{name}"


class _Reached(Exception):  # noqa: N818
    """The arguments of a run are in order: it would begin."""


def _reached(*_: Any) -> Any:
    raise _Reached


def check(problem: CommonProblem, choices: Sequence[Choice], seed: int, budget: int) -> None:
    """Refuse what cannot be run, before anything is: a method's options, then the objective.

    Every method is set up as for its run, up to its first evaluation, which is not made; then the
    objective is evaluated once.
    """
    task = problem.at(seed)
    if not isinstance(task, Minimized):
        for choice in choices:
            least = 2 * int(choice.options.get("num_directions", NUM_DIRECTIONS)) + 1
            if budget < least:
                raise ValueError(
                    f"{choice.label}: `budget` is {budget} {problem.unit}, but one iteration takes "
                    f"{least - 1}: allow at least {least}, or lower `num_directions`."
                )
        return
    how = {"on_failure": "raise", "retries": 0, "fun": _reached, "workers": 1}
    for choice in choices:
        try:
            task.call(choice, budget, seed, **how)
        except EvaluationError as error:
            if not isinstance(error.__cause__, _Reached):
                raise
        except (ValueError, TypeError, ImportError) as error:
            raise type(error)(f"{choice.label}: {error}") from error
    task.judge(task.x0, seed, 1)


def say(line: str) -> None:
    """Say what a user should know."""
    print(line, file=sys.stderr)


def python_call(name: str, fun: Any, x0: Any, given: Mapping[str, Any]) -> str:
    """A call as one would write it, for the page."""
    from inspect import signature

    import gensmooth

    defaults = signature(getattr(gensmooth, name)).parameters
    first = repr(fun) if isinstance(fun, str) else getattr(fun, "__name__", "fun")
    words = [first, *([] if x0 is None else ["x0"])]
    for key, value in given.items():
        if value is None or (key in defaults and value is defaults[key].default):
            continue
        if callable(value):
            value = getattr(value, "__name__", "…")
            words.append(f"{key}={value}")
        else:
            words.append(f"{key}={checks.shown(str(value) if isinstance(value, Path) else value)}")
    return f"gs.{name}({', '.join(words)})"
