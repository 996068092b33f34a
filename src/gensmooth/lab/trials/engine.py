"""The engine of `compare` and `sweep`: reads and checks their arguments, and executes the runs."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cloudpickle

from gensmooth import checks
from gensmooth._version import __version__
from gensmooth.evaluators import EvaluationError, cores
from gensmooth.lab.experiments.progress import print_line
from gensmooth.lab.experiments.runner import Runner
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.trials.choices import PROBLEM, Choice
from gensmooth.lab.trials.identity import short
from gensmooth.lab.trials.problems import CommonProblem, find_problem
from gensmooth.lab.trials.table import STUDY, Fetch, Kind, TrialTable, store_of
from gensmooth.lab.trials.trial import Minimized, Trials
from gensmooth.rl.defaults import NUM_DIRECTIONS
from gensmooth.streams import check_seed

# One fresh value per this many evaluations of the budget judges a point; at most this many values.
_EVALUATIONS_PER_VALUE, _MAX_VALUES = 200, 30


@dataclass(frozen=True)
class TrialEngine:
    """A problem, and how the trials on it are run.

    Attributes:
        kind: A comparison or a sweep.
        problem: The problem.
        seeds: The seeds of every cell.
        budget: Evaluations of each run.
        values: How many fresh values judge a point.
        folder: Where runs, page and tables are kept.
        workers: Runs at a time.
        ray: The address of a Ray cluster, if the runs are executed there.
        command: The command or call that repeats the experiment.
    """

    kind: Kind
    problem: CommonProblem
    seeds: tuple[int, ...]
    budget: int
    values: int
    folder: Path
    workers: int | None
    ray: str | None
    command: str

    @classmethod
    def of(
        cls, kind: Kind, fun: Any, x0: Any, arguments: Mapping[str, Any], command: str
    ) -> "TrialEngine":
        """Create an engine from the arguments that `compare` and `sweep` share."""
        problem = _problem(fun, x0, arguments)
        seeds = read_seeds("seeds", arguments["seeds"])
        budget, values = _budget(problem, arguments)
        name = "compare" if kind == "comparison" else "sweep"
        return cls(
            kind,
            problem,
            seeds,
            budget,
            values,
            _folder(arguments["folder"], name, problem),
            _workers(arguments["workers"]),
            arguments["ray"],
            command,
        )

    def table(
        self, choices: Sequence[Choice], *, fresh: Sequence[int] = (), search: str = "grid"
    ) -> TrialTable:
        """Return the table whose cells are these choices."""
        sweeps = self.kind == "sweep"
        return TrialTable(
            kind=self.kind,
            problem=self.problem.name,
            unit=self.problem.unit,
            scored=self.problem.scored,
            maximize=self.problem.maximize,
            values=self.values,
            budget=self.budget,
            seeds=self.seeds,
            cells=tuple(
                {"label": choice.label, "config": choice.config()}
                | ({"method": choice.method, "values": dict(choice.options)} if sweeps else {})
                for choice in choices
            ),
            config={
                "gensmooth": __version__,
                "problem": self.problem.identity,
                "budget": self.budget,
                "values": self.values,
            },
            command=self.command,
            fresh=tuple(fresh),
            search=search,
        )

    def fetch(self, choices: Sequence[Choice]) -> Fetch:
        """Return a function that returns runs of these choices, and executes the missing ones."""
        by_hash = {short(choice.config()): choice for choice in choices}
        trials = Trials(self.problem.at, by_hash, self.problem.maximize, self.values)
        packed: bytes = cast(Any, cloudpickle).dumps(trials)
        store = store_of(self.folder)
        runner = Runner(STUDY, store, self.workers, self.ray, print_line, function=packed)

        def fetch(specs: Sequence[RunSpec], title: str) -> list[RunRecord]:
            return runner.complete(specs, f"{self.problem.name}: {title}").records

        return fetch

    def check(self, choices: Sequence[Choice]) -> None:
        """Raise an error before the first run if a method or the objective cannot be run.

        Every method is set up as for its run, up to its first evaluation. Then the objective is
        evaluated once.
        """
        seed = self.seeds[0]
        task = self.problem.at(seed)
        if not isinstance(task, Minimized):
            self._check_episodes(choices)
            return
        how = {"on_failure": "raise", "fun": _reach, "workers": 1}
        for choice in choices:
            try:
                if task.call(choice, self.budget, seed, **how).reason == "interrupted":
                    raise KeyboardInterrupt
            except EvaluationError as error:
                if not isinstance(error.__cause__, _Reached):
                    raise
            except (ValueError, TypeError, ImportError) as error:
                raise type(error)(f"{choice.label}: {error}") from error
        task.judge(task.x0, seed, 1)

    def _check_episodes(self, choices: Sequence[Choice]) -> None:
        for choice in choices:
            pairs = int(choice.options.get("num_directions", NUM_DIRECTIONS))
            least = int(choice.options.get("population", 2 * pairs)) + 1
            if self.budget < least:
                raise ValueError(
                    f"{choice.label}: `budget` is {self.budget} {self.problem.unit}, but one "
                    f"iteration takes {least - 1}: allow at least {least}, or lower "
                    "`num_directions` or `population`."
                )


class _Reached(Exception):  # noqa: N818
    """Raised at the first evaluation: the arguments of the run are valid."""


def _reach(*_: Any) -> Any:
    raise _Reached


# --- arguments -----------------------------------------------------------------------------------


def _problem(fun: Any, x0: Any, arguments: Mapping[str, Any]) -> CommonProblem:
    how = {name: arguments[name] for name in PROBLEM if arguments[name] is not None}
    for name in ("maximize", "vectorized"):  # False is the default, and not part of the identity
        if how.get(name) is False:
            del how[name]
    if "maximize" in how:
        checks.flag("maximize", how["maximize"])
    if "on_failure" in how:
        checks.one_of("on_failure", how["on_failure"], ("raise", "drop", "retry"))
    spread, score = arguments["start_spread"], arguments["score"]
    return find_problem(fun, x0, start_spread=spread, score=score, how=how)


def read_seeds(name: str, seeds: object, first: int = 0) -> tuple[int, ...]:
    """Return the seeds that the user lists, or a number of seeds from ``first`` on."""
    if isinstance(seeds, Sequence) and not isinstance(seeds, str):
        listed = list(cast(Sequence[Any], seeds))
        checked = tuple(check_seed(seed) for seed in listed)
        if not checked or len(set(checked)) < len(checked):
            raise ValueError(f"`{name}` must be different seeds, but is {checks.shown(listed)}.")
        return checked
    return tuple(range(first, first + checks.count(name, seeds)))


def _budget(problem: CommonProblem, arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Return the budget of a run, and how many fresh values judge its point."""
    budget = arguments["budget"]
    if isinstance(budget, float) and budget.is_integer():
        budget = int(budget)
    budget = problem.budget if budget is None else checks.count("budget", budget)
    if arguments["values"] is not None:
        return budget, checks.count("values", arguments["values"])
    if problem.unit == "episodes":
        return budget, _MAX_VALUES
    return budget, min(max(budget // _EVALUATIONS_PER_VALUE, 2), _MAX_VALUES)


def _workers(workers: Any) -> int | None:
    return cores() if workers == -1 else checks.optional(checks.count, "workers", workers)


def _folder(folder: Any, name: str, problem: CommonProblem) -> Path:
    if folder is not None:
        return checks.path("folder", folder)
    words = re.sub(r"[^A-Za-z0-9.]+", "-", problem.name).strip("-.") or "function"
    return Path("runs") / f"{name}-{words}"


def python_call(name: str, fun: Any, x0: Any, arguments: Mapping[str, Any]) -> str:
    """Return the call of ``gs.compare`` or ``gs.sweep`` as Python code, for the page."""
    import gensmooth

    parameters = inspect.signature(getattr(gensmooth, name)).parameters
    first = repr(fun) if isinstance(fun, str) else getattr(fun, "__name__", "fun")
    words = [first, *([] if x0 is None else ["x0"])]
    for key, value in arguments.items():
        if value is None or (key in parameters and value is parameters[key].default):
            continue
        if callable(value):
            words.append(f"{key}={getattr(value, '__name__', '…')}")
        else:
            words.append(f"{key}={checks.shown(str(value) if isinstance(value, Path) else value)}")
    return f"gs.{name}({', '.join(words)})"
