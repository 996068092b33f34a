"""The default call on COCO's problems, beside pycma, cmaes, SciPy, NLopt and Nevergrad.

    python -m benchmarks.coco [--dimensions 20] [--noise relative:0.1] [--out FILE.json]

A number is the share of 51 targets (precision 1e2 … 1e-8) that a method has reached within a
budget of evaluations, averaged over functions and instances. All methods start at the same point,
uniform in [−4, 4]^d. This program adds noise to noise-free suites; a target is reached when the
noise-free value of an evaluated point is at least that good. Our default call was tuned on
instances 1–5; by default 6–15 are run. A run ends when its last target is reached.

With --out, methods that the file already has for the same problems stay, so a table can be filled
in parts. With --runs, each run is written to a file when it ends, and runs that the file has are
not repeated, so a long measurement can be interrupted.

It needs coco-experiment, and those of cma, cmaes, scipy, nlopt and nevergrad that are compared.
"""

import argparse
import contextlib
import io
import json
import multiprocessing as mp
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, replace
from datetime import date
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import CORES
from benchmarks.coco_methods import CONTROLS, METHODS, start
from benchmarks.coco_scores import OURS, TARGETS, against, of_method, show
from benchmarks.record import commit, machine

if hasattr(os, "sched_setaffinity"):  # the package leaves one core; workers need their own
    os.sched_setaffinity(0, CORES)

PACKAGES = ["gensmooth", "numpy", "coco-experiment", "cma", "cmaes", "scipy", "nlopt", "nevergrad"]
OPTIMUM_FILE = "._bbob_problem_best_parameter.txt"  # COCO writes it where it runs
LAST_TARGET = float(TARGETS[-1])
STARTS, SEEDS, NOISE = range(3)  # what a generator is for


@dataclass(frozen=True)
class Noise:
    """The noise that is added to values.

    Attributes:
        kind: ``"none"``, ``"relative"`` (to the distance from the optimal value) or ``"additive"``.
        size: The standard deviation, relative to that distance or absolute.
    """

    kind: str = "none"
    size: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.size:g}"

    def of(self, precision: float, rng: np.random.Generator) -> float:
        """Draw noise for a value this far above the optimum."""
        if self.kind == "none":
            return 0.0
        scale = precision if self.kind == "relative" else 1.0
        return self.size * scale * float(rng.standard_normal())


@dataclass(frozen=True)
class Problem:
    """One of COCO's functions, and a seed for all random numbers."""

    suite: str
    function: int
    dimension: int
    instance: int
    seed: int

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator that depends on the problem and the purpose alone."""
        return np.random.default_rng(
            [self.seed, self.function, self.dimension, self.instance, purpose]
        )


@dataclass(frozen=True)
class Task:
    """Problems that one process solves by some methods, one after the other.

    Attributes:
        problems: The problems.
        methods: Names of methods.
        noise: The noise that is added to values.
        multipliers: Budgets divided by the dimension; runs end with the largest.
        shifted: Whether methods see f − f* instead of COCO's f.
        observer: A folder for COCO's own output, if any.
    """

    problems: tuple[Problem, ...]
    methods: tuple[str, ...]
    noise: Noise
    multipliers: tuple[int, ...]
    shifted: bool = False
    observer: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        problem: The problem.
        method: The method's name.
        best: The best precision after each budget, to four digits.
        seconds: CPU time.
        evaluations: The number of evaluations.
        failure: The error that ended the run before its budget was spent, if any.
    """

    problem: Problem
    method: str
    best: tuple[float, ...]
    seconds: float
    evaluations: int
    failure: str = ""


class OverError(Exception):
    """The budget is spent, or every target is reached."""


class Objective:
    """Counts evaluations, adds noise, and remembers the best precision after each budget."""

    def __init__(
        self,
        problem: Any,
        optimal: float,
        budgets: Sequence[int],
        noise: Noise,
        rng: np.random.Generator,
        shifted: bool,
    ) -> None:
        self._problem, self._optimal, self._budgets = problem, optimal, budgets
        self._noise = None if noise.kind == "none" else noise
        self._rng, self._shifted = rng, shifted
        self._best, self._reached, self._next = np.inf, list[float](), budgets[0]
        self.used, self.over = 0, False

    @property
    def best(self) -> tuple[float, ...]:
        """The best precision after each budget; after an early stop, the last one stays."""
        rest = len(self._budgets) - len(self._reached)
        if self._best < -1e-9 * max(1.0, abs(self._optimal)):
            raise RuntimeError(f"{self._problem.id}: {self._best!r} below COCO's optimal value")
        reached = [*self._reached, *[self._best] * rest]
        return tuple(float(f"{max(best, 0.0):.4g}") for best in reached)

    def __call__(self, x: np.ndarray) -> float:
        if self.over:
            raise OverError
        value = self._problem(x)
        precision = value - self._optimal
        self.used += 1
        if precision < self._best:
            self._best = precision
            self.over = precision <= LAST_TARGET
        if self.used == self._next:
            self._reached.append(self._best)
            if len(self._reached) == len(self._budgets):
                self.over = True
            else:
                self._next = self._budgets[len(self._reached)]
        shown = precision if self._shifted else value
        return shown if self._noise is None else shown + self._noise.of(precision, self._rng)


@lru_cache(maxsize=1)
def suite_of(name: str, dimension: int, instances: tuple[int, ...]) -> Any:
    """COCO's suite, with the instances of these numbers (COCO's ``instance_indices`` differ)."""
    import cocoex

    cocoex.log_level("error")
    numbers = ",".join(map(str, instances))
    return cocoex.Suite(name, f"instances:{numbers}", f"dimensions:{dimension}")


@contextlib.contextmanager
def opened(problem: Problem, observer: Any = None) -> Iterator[Any]:
    """COCO's problem, which must be freed before the next one is observed."""
    suite = suite_of(problem.suite, problem.dimension, (problem.instance,))
    coco_problem = suite.get_problem_by_function_dimension_instance(
        problem.function, problem.dimension, problem.instance, observer
    )
    try:
        yield coco_problem
    finally:
        coco_problem.free()


def optimum(problem: Problem) -> tuple[np.ndarray, float]:
    """The optimum and its value. COCO writes the optimum to a file in the working folder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        opened(problem) as coco_problem,
    ):
        coco_problem._best_parameter("print")
        x = np.loadtxt(OPTIMUM_FILE)
        return x, float(coco_problem(x))


def solve(problem: Problem, name: str, task: Task, observer: Any) -> Outcome:
    """One run of one method."""
    best, optimal = optimum(problem)
    method = (METHODS | CONTROLS)[name]
    budgets = [
        multiplier * problem.dimension
        for multiplier in task.multipliers
        if method.up_to is None or multiplier <= method.up_to
    ]
    x0 = start(problem.rng(STARTS), problem.dimension)
    seed = int(problem.rng(SEEDS).integers(1, 2**31))
    failure = ""
    with opened(problem, observer) as coco, quiet():
        fun = Objective(coco, optimal, budgets, task.noise, problem.rng(NOISE), task.shifted)
        began = time.process_time()
        try:
            if name == "optimum":
                fun(best)
            else:
                method.run(fun, x0, budgets[-1], seed)
        except Exception as error:  # a rival's error is recorded; libraries may wrap OverError
            if not fun.over:
                failure = f"{type(error).__name__}: {error}"[:200]
        seconds = time.process_time() - began
    return Outcome(problem, name, fun.best, seconds, fun.used, failure)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard the output and the warnings of methods."""
    nowhere = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        yield


def do(task: Task) -> list[Outcome]:
    """All runs of a task; each task has its own folder for COCO's output."""
    observer = None
    if task.observer:
        import cocoex

        cocoex.log_level("error")
        observer = cocoex.Observer(
            "bbob", f"result_folder: {task.observer} algorithm_name: {task.methods[0]}"
        )
    return [solve(p, name, task, observer) for p in task.problems for name in task.methods]


def tasks(
    problems: Sequence[Problem],
    methods: Sequence[str],
    noise: Noise,
    multipliers: tuple[int, ...],
    shifted: bool,
    observer: str | None = None,
) -> list[Task]:
    """One task for each problem; with COCO's observer, one for each method and seed."""
    if observer is None:
        return [Task((p,), tuple(methods), noise, multipliers, shifted) for p in problems]
    seeds = dict.fromkeys(p.seed for p in problems)
    kind, dimension = str(noise).replace(":", "-"), problems[0].dimension
    return [
        Task(
            tuple(p for p in problems if p.seed == seed),
            (name,),
            noise,
            multipliers,
            shifted,
            f"{observer}/{name}-{kind}-seed-{seed}/d-{dimension}",
        )
        for name in methods
        for seed in seeds
    ]


def run(todo: Sequence[Task], workers: int, record: Path | None = None) -> list[Outcome]:
    """Execute the tasks in worker processes, or in this one, and print the progress.

    With a file, outcomes are added to it, and outcomes that it has are not computed again.
    """
    known = recorded(record)
    outcomes: list[Outcome] = []
    open_tasks: list[Task] = []
    for task in todo:
        keys = {name: [key(task, p, name) for p in task.problems] for name in task.methods}
        done = [name for name in task.methods if all(k in known for k in keys[name])]
        outcomes += [known[k] for name in done for k in keys[name]]
        if rest := tuple(name for name in task.methods if name not in done):
            open_tasks.append(replace(task, methods=rest))
    with contextlib.ExitStack() as stack:
        results: Iterable[list[Outcome]] = map(do, open_tasks)
        if workers > 1:
            # Not forked: NumPy and Numba may have threads.
            pool = ProcessPoolExecutor(workers, mp_context=mp.get_context("spawn"))
            results = stack.enter_context(pool).map(do, open_tasks)
        for n, (task, new) in enumerate(zip(open_tasks, results, strict=True), 1):
            outcomes += new
            if record:
                with record.open("a", encoding="utf-8") as file:
                    for o in new:
                        line = [*key(task, o.problem, o.method), *astuple(o)[2:]]
                        file.write(json.dumps(line) + "\n")
            if n % max(1, len(open_tasks) // 10) == 0:
                print(f"  {n} of {len(open_tasks)} done", file=sys.stderr, flush=True)
    return outcomes


def key(task: Task, problem: Problem, method: str) -> tuple[Any, ...]:
    """The identity of a run."""
    budgets = "-".join(map(str, task.multipliers))
    return (*astuple(problem), method, str(task.noise), task.shifted, budgets)


def recorded(path: Path | None) -> dict[tuple[Any, ...], Outcome]:
    """The outcomes in a file, by the keys of their runs; none if there is no file."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        tuple(line[:9]): Outcome(Problem(*line[:5]), line[5], tuple(line[9]), *line[10:])
        for line in lines
    }


def table_of(
    task: Task,
    problems: Sequence[Problem],
    outcomes: Sequence[Outcome],
    origin: dict[str, str],
) -> dict[str, Any]:
    """The results for one suite, dimension and noise; :func:`save` adds the scores."""
    methods: dict[str, Any] = {}
    for name in dict.fromkeys(o.method for o in outcomes):
        of = {o.problem: o for o in outcomes if o.method == name}
        rows = [[best if np.isfinite(best) else None for best in of[p].best] for p in problems]
        failures = [o.failure for o in of.values() if o.failure]
        methods[name] = {
            "best": [list(column) for column in zip(*rows, strict=True)],
            "microseconds": round(
                1e6 * sum(o.seconds for o in of.values()) / sum(o.evaluations for o in of.values()),
                2,
            ),
            "failed": len(failures),
            "failure": failures[0] if failures else "",
            **origin,
        }
    return {
        "suite": problems[0].suite,
        "dimension": problems[0].dimension,
        "noise": str(task.noise),
        "shifted": task.shifted,
        "multipliers": list(task.multipliers),
        "functions": [p.function for p in problems],
        "instances": [p.instance for p in problems],
        "seeds": [p.seed for p in problems],
        "methods": methods,
    }


def merged(known: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Replace tables of the same problems by a new one, at the end, that keeps their methods.

    Their budgets may be fewer or more than the new ones if those in common come first.
    """
    keys = [key for key in new if key not in ("methods", "multipliers")]
    multipliers = new["multipliers"]
    same: list[dict[str, Any]] = []
    for table in known:
        shorter, longer = sorted([table["multipliers"], multipliers], key=len)
        if all(table[key] == new[key] for key in keys) and longer[: len(shorter)] == shorter:
            same.append(table)
            multipliers = longer
    methods = new["methods"]
    for table in same:
        methods = {**table["methods"], **methods}
    order = [name for name in (*METHODS, *CONTROLS) if name in methods]
    complete = {
        **new,
        "multipliers": multipliers,
        "methods": {name: methods[name] for name in order},
    }
    return [*(table for table in known if table not in same), complete]


def with_scores(table: dict[str, Any]) -> dict[str, Any]:
    """A table with shares and paired differences added to the values they are computed from."""
    methods: dict[str, Any] = {}
    for name, method in table["methods"].items():
        estimates = of_method(table, name)
        scores = {"shares": _means(estimates), "errors": _errors(estimates)}
        if OURS in table["methods"] and name != OURS:
            paired = against(table, name)
            scores |= {"ours_minus": _means(paired), "ours_minus_errors": _errors(paired)}
        methods[name] = {**method, **scores}
    return {**table, "methods": methods}


def _means(estimates: Iterable[Any]) -> list[float]:
    return [round(e.mean, 6) for e in estimates]


def _errors(estimates: Iterable[Any]) -> list[float | None]:
    return [None if np.isnan(e.error) else round(e.error, 6) for e in estimates]


def load(path: Path | None) -> list[dict[str, Any]]:
    """The tables in a file; none if there is no file."""
    if path is None or not path.exists():
        return []
    return json.loads(path.read_text(encoding="utf-8"))["tables"]


def save(path: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Write tables, with each list of numbers on one line."""
    targets = [float(f"{target:.6g}") for target in TARGETS]
    content = {"targets": targets, "tables": [with_scores(table) for table in tables]}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(path)


def numbers(words: str) -> tuple[int, ...]:
    """Numbers and ranges, separated by commas.

    >>> numbers("1,6-8")
    (1, 6, 7, 8)
    """
    parsed: list[int] = []
    for word in words.split(","):
        first, _, last = word.partition("-")
        parsed += range(int(first), int(last or first) + 1)
    if not parsed or min(parsed) < 0:
        raise ValueError(words)
    return tuple(dict.fromkeys(parsed))


def noises(words: str) -> tuple[Noise, ...]:
    """Kinds of noise, separated by commas, such as ``none,relative:0.1,additive:1``."""
    parsed: list[Noise] = []
    for word in words.split(","):
        kind, _, size = word.partition(":")
        if kind not in ("none", "relative", "additive") or (kind == "none") == bool(size):
            raise ValueError(word)
        parsed.append(Noise(kind, float(size or 0)))
    return tuple(parsed)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coco",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = [*METHODS, *CONTROLS]
    add = parser.add_argument
    add("--suite", default="bbob", help="bbob or bbob-largescale; default: bbob")
    add("--dimensions", "--dimension", type=numbers, default=(20,), help="such as 5,10; default 20")
    add("--functions", type=numbers, default=numbers("1-24"), help="default: 1-24")
    add("--instances", type=numbers, default=numbers("6-15"), help="default: 6-15")
    add(
        "--budget-multipliers",
        type=numbers,
        default=(10, 30, 100, 300),
        help="evaluations over d, such as 10,30,100,300,1000,3000,10000; default 10,30,100,300",
    )
    add(
        "--noise", type=noises, default=(Noise(),), help="none, relative:0.1, additive:1, by commas"
    )
    add("--seeds", "--seed", type=numbers, default=(1,), help="of starts, noise and methods")
    add("--rivals", default=",".join(METHODS), help=f"what to run, of: {', '.join(known)}")
    add("--shifted", action="store_true", help="show methods f − f* in place of COCO's f")
    add("--workers", type=int, default=1, help="processes")
    add("--out", type=Path, help="JSON file to add the results to")
    add("--runs", type=Path, help="file for each run; runs that it has are not repeated")
    add(
        "--observer",
        metavar="NAME",
        help="also write COCO's own output, as its archive takes it, to exdata/NAME",
    )
    options = parser.parse_args(arguments)
    options.rivals = options.rivals.split(",")
    if unknown := set(options.rivals) - set(known):
        parser.error(f"no method named {', '.join(unknown)}; known: {', '.join(known)}")
    options.budget_multipliers = tuple(sorted(options.budget_multipliers))
    if options.suite not in ("bbob", "bbob-largescale"):
        parser.error(f"--suite must be bbob or bbob-largescale, not {options.suite}")
    if options.budget_multipliers[0] < 1:
        parser.error("--budget-multipliers must be at least 1")
    if min(options.instances) < 1 or not set(options.functions) <= set(range(1, 25)):
        parser.error("--functions are 1 to 24, and --instances count from 1")
    return options


def installed(names: Sequence[str]) -> list[str]:
    """The methods whose package is installed; the others are printed."""
    present: list[str] = []
    for name in names:
        package = (METHODS | CONTROLS)[name].package
        try:
            version(package)
        except PackageNotFoundError:
            if package != "gensmooth":  # it can be run from its sources
                print(f"{name}: {package} is not installed", file=sys.stderr)
                continue
        present.append(name)
    return present


def main() -> int:
    """Run, print, save after each table; 1 when a run of ours ended with an error."""
    options = parse()
    try:
        import cocoex
    except ImportError:
        sys.exit("This needs COCO: pip install coco-experiment")
    methods = installed(options.rivals)
    if not methods:
        sys.exit("Nothing to run.")
    failed = 0
    origin = {
        "command": " ".join(["python -m benchmarks.coco", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "commit": commit(),
        "machine": machine(PACKAGES),
    }
    for dimension in options.dimensions:
        try:
            suite_of(options.suite, dimension, options.instances)
        except cocoex.exceptions.NoSuchSuiteException:
            sys.exit(f"{options.suite} has no problems with d = {dimension}")
    for dimension in options.dimensions:
        problems = [
            Problem(options.suite, function, dimension, instance, seed)
            for function in options.functions
            for instance in options.instances
            for seed in options.seeds
        ]
        for noise in options.noise:
            print(f"{options.suite}, d = {dimension}, noise {noise} …", file=sys.stderr, flush=True)
            budgets = options.budget_multipliers
            todo = tasks(problems, methods, noise, budgets, options.shifted, options.observer)
            outcomes = run(todo, options.workers, options.runs)
            table = table_of(todo[0], problems, outcomes, origin)
            tables = merged(load(options.out), table)
            if options.out:
                save(options.out, tables)
            show(tables[-1])
            failed += table["methods"].get(OURS, {"failed": 0})["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
