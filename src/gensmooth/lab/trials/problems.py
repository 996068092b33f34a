"""Problems on which methods are compared: the user's function, or a built-in problem."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, naming, streams
from gensmooth.lab.paper import protocol
from gensmooth.lab.paper.dfo import model as noisy
from gensmooth.lab.paper.linreg import model as regression
from gensmooth.lab.trials.choices import Choice, option_names
from gensmooth.lab.trials.identity import described, identity
from gensmooth.lab.trials.judging import Judged, Score
from gensmooth.lab.trials.trial import POINTS, Clock, Minimized, Outline, Task
from gensmooth.parameters import Bounds, as_bounds, as_parameters, is_tree
from gensmooth.streams import Purpose
from gensmooth.trees import Tree

Array = NDArray[Any]

_BUDGET = 20_000
_EPISODES = 500
_REGRESSION_DIM = 100
_SOLVED = 1e-8  # COCO's last target: values closer to the optimum count as equal
_INSTANCES = 15  # of a bbob function; seeds cycle through them


@dataclass(frozen=True)
class CommonProblem:
    """A problem that all methods share.

    Attributes:
        name: Its name.
        identity: Its identity, as plain JSON: part of the configuration of a run.
        at: Returns the problem with a seed: the same start and the same samples for every method.
        budget: The default budget of a run.
        maximize: Whether larger values are better.
        scored: How points are judged, if not by fresh values of the objective.
        unit: The name of the evaluations.
        options: Returns the options that a method may have here.
    """

    name: str
    identity: Mapping[str, Any]
    at: Callable[[int], Task]
    budget: int = _BUDGET
    maximize: bool = False
    scored: str = ""
    unit: str = "evaluations"
    options: Callable[[], Sequence[str]] = field(default=option_names)


def find_problem(
    fun: object,
    x0: object = None,
    *,
    start_spread: float = 0.0,
    score: Callable[..., Any] | None = None,
    how: Mapping[str, Any] | None = None,
) -> CommonProblem:
    """Return the problem that the arguments describe.

    Args:
        fun: A function; ``"module:function"``; or a built-in problem, ``"noisy:sphere:100"``.
        x0: Where to start; a built-in problem has its own starts.
        start_spread: The standard deviation of a normal vector that is added to x0, a different
            one for each seed.
        score: Returns the value of a point without noise.
        how: Arguments of ``minimize`` that describe the problem.
    """
    passed = {name: value for name, value in (how or {}).items() if value is not None}
    if isinstance(fun, str):
        kind = fun.partition(":")[0]
        if kind in BUILT_IN:
            fixed = {"x0": x0, "score": score, "start_spread": start_spread or None, **passed}
            for name, value in fixed.items():
                if value is not None and value is not False:
                    raise ValueError(f"`{name}` cannot be changed for the built-in problem {fun}.")
            return BUILT_IN[kind].make(fun, fun.split(":")[1:])
        fun = _function(fun)
    checks.function("fun", fun)
    if x0 is None:
        raise ValueError(
            "`x0` is missing: pass the point at which every method starts, such as np.zeros(12)."
        )
    return _custom_problem(
        cast(Callable[..., Any], fun),
        x0,
        checks.nonnegative("start_spread", start_spread),
        None if score is None else checks.function("score", score),
        passed,
    )


def _function(name: str) -> Callable[..., Any]:
    known = f"Built-in problems: {', '.join(entry.example for entry in BUILT_IN.values())}."
    kind, colon, _ = name.partition(":")
    if not colon:
        raise ValueError(
            f"There is no problem {name!r}: write a function as module:function, such as "
            f"model:loss. {known}"
        )
    try:
        return naming.find_function(name)
    except ValueError as error:
        hint = checks.did_you_mean(kind, BUILT_IN)
        raise ValueError(f"{error}{hint} {known}") from None


def _custom_problem(
    fun: Callable[..., Any], x0: Any, spread: float, score: Score | None, how: dict[str, Any]
) -> CommonProblem:
    flat, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
    recorded, limits, logs = dict(how), how.get("bounds"), how.get("log_scale")
    if limits is not None:
        limits = as_bounds(limits if tree is None else tree.bounds(limits), flat, equal=True)
        how["bounds"] = limits if tree is None else Bounds(*map(tree.build, limits))
        recorded["bounds"] = limits
    if tree is not None and logs is not None:
        recorded["log_scale"] = np.asarray(tree.like("log_scale", logs))
    function = identity(fun)
    structure = {} if tree is None else {"structure": tree.to_json()}
    described_problem = {
        "objective": function,
        "x0": described(flat) | {"dtype": flat.dtype.name} | structure,
        "start_spread": float(spread),
        "score": None if score is None else identity(score),
        "how": {name: described(value) for name, value in sorted(recorded.items())},
    }
    scored = "" if score is None else f"by the score {getattr(score, '__name__', 'passed')}"
    return CommonProblem(
        str(function["name"]),
        described_problem,
        partial(_start, Minimized(fun, flat, how, score, tree=tree), float(spread), limits),
        maximize=bool(how.get("maximize", False)),
        scored=scored,
    )


def _start(task: Minimized, spread: float, limits: Bounds | None, seed: int) -> Minimized:
    """Return the problem with the starting point of a seed, within the bounds."""
    x, dtype = task.x0, task.x0.dtype
    if spread:
        away = streams.generator(seed, Purpose.START).standard_normal(x.shape)
        x = (x + spread * away).astype(dtype)
    if limits is not None:
        x = np.clip(x, limits.lower, limits.upper).astype(dtype)
    return replace(task, x0=x)


# --- built in ------------------------------------------------------------------------------------


def _noisy(name: str, parts: Sequence[str]) -> CommonProblem:
    """Make ``noisy:FUNCTION:DIM``, the paper's noisy benchmark, judged without noise."""
    if len(parts) < 2:
        raise _misread(name, "noisy:FUNCTION:DIM")
    function, dim = ":".join(parts[:-1]), _number(name, parts[-1], "noisy:FUNCTION:DIM")
    noisy.noisy_objective(function, dim=dim)  # raises for an unknown one, and lists the known ones
    return CommonProblem(
        name, {"problem": name}, partial(_noisy_at, function, dim), scored="without noise"
    )


def _noisy_at(function: str, dim: int, seed: int) -> Minimized:
    fun = noisy.noisy_objective(function, dim=dim)
    how = {"samples": "independent", "vectorized": True}
    return Minimized(fun, protocol.start(seed, dim), how, partial(_oracle, fun))


def _oracle(fun: noisy.NoisyObjective, x: Array) -> float:
    return float(fun.oracle(x))


def _regression(name: str, parts: Sequence[str]) -> CommonProblem:
    """Make ``regression:L,N``, the paper's linear regression, judged by the expected loss."""
    form = "regression:L,N"
    if len(parts) != 1 or parts[0].count(",") != 1:
        raise _misread(name, form)
    directions, samples = (_number(name, part, form) for part in parts[0].split(","))
    return CommonProblem(
        name,
        {"problem": name},
        partial(_regression_at, directions, samples),
        budget=1000 * (directions + 1) * samples,
        scored="by the expected loss",
    )


def _regression_at(directions: int, samples: int, seed: int) -> Minimized:
    untuned: Any = import_module("gensmooth.lab.paper.untuned.model")
    return Minimized(
        untuned.point_losses,
        protocol.start(seed, _REGRESSION_DIM),
        {"samples": "shared", "num_samples": samples, "vectorized": True},
        regression.objective,
        untuned.OncePerSample(),
        {"num_directions": directions},
    )


def _bbob(name: str, parts: Sequence[str]) -> CommonProblem:
    """Make ``bbob:fN:DIM``, COCO's function N minus its optimum; seeds cycle through instances."""
    form = "bbob:f8:20, or bbob:f8:20:3 for its third instance"
    if len(parts) not in (2, 3) or not parts[0].startswith("f"):
        raise _misread(name, form)
    function, dim = _number(name, parts[0][1:], form), _number(name, parts[1], form)
    instance = _number(name, parts[2], form) if len(parts) == 3 else None
    if not 1 <= function <= 24 or dim not in (2, 3, 5, 10, 20, 40):
        raise ValueError(f"{name}: COCO has f1 … f24 in 2, 3, 5, 10, 20 and 40 dimensions.")
    _cocoex()
    return CommonProblem(
        name,
        {"problem": name},
        partial(_bbob_at, function, dim, instance),
        budget=300 * dim,
        scored=f"by the distance from the optimal value (at least {_SOLVED:g}, COCO's last target)",
    )


@cache
def _cocoex() -> Any:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        cocoex = import_module("cocoex")
    except ImportError as error:
        raise ImportError(
            "bbob problems need COCO: pip install 'gensmooth[coco]' (wheels for Python 3.11 and "
            "3.12)"
        ) from error
    if allowed is not None:
        os.sched_setaffinity(0, allowed)  # some versions of COCO bind the process to one core
    return cocoex


def _bbob_at(function: int, dim: int, instance: int | None, seed: int) -> Minimized:
    which = 1 + seed % _INSTANCES if instance is None else instance
    start = streams.generator(seed, Purpose.START).uniform(-4, 4, dim)
    above = AboveOptimum(function, dim, which)
    return Minimized(above, start, {}, partial(_precision, above))


def _precision(above: "AboveOptimum", x: Array) -> float:
    return max(above(x), _SOLVED)


@dataclass(frozen=True)
class AboveOptimum:
    """An instance of a bbob function, minus its smallest value."""

    function: int
    dim: int
    instance: int

    def __call__(self, x: Array) -> float:
        """Return the value at x minus the optimal value."""
        problem, best = _coco_problem(self.function, self.dim, self.instance)
        return float(problem(x)) - best


@cache
def _coco_problem(function: int, dim: int, instance: int) -> tuple[Any, float]:
    problem = _cocoex().BareProblem("bbob", function, dim, instance)
    return problem, float(problem.best_value())


# --- policies ------------------------------------------------------------------------------------


def _gym(name: str, parts: Sequence[str]) -> CommonProblem:
    """Make ``gym:ENVIRONMENT``, a linear policy, judged by its mean return in fresh episodes."""
    environment = ":".join(parts)
    if not environment:
        raise _misread(name, "gym:Hopper-v5")
    catalogue: Any = import_module("gensmooth.rl.environments.catalogue")
    catalogue.make(environment)  # raises for an unknown one or a missing extra
    return CommonProblem(
        name,
        {"problem": name},
        partial(Trained, environment),
        budget=_EPISODES,
        maximize=True,
        scored="by the mean return of fresh episodes, the same starts for every method",
        unit="episodes",
        options=_training_options,
    )


def _training_options() -> Sequence[str]:
    return (
        *("num_directions", "population", "spacing", "learning_rate", "optimizer", "estimator"),
        *("directions", "policy", "hidden", "resets", "standardize"),
    )


@dataclass(frozen=True)
class Trained:
    """An environment in which ``gs.rl.train`` trains a policy; an evaluation is an episode."""

    environment: str
    seed: int

    def run(self, choice: Choice, budget: int, seed: int, values: int, scratch: Path) -> Outline:
        """See :class:`~gensmooth.lab.trials.trial.Task`."""
        rl: Any = import_module("gensmooth.rl")
        clock = Clock()
        before = 0

        def follow(intermediate_result: Any) -> bool:
            nonlocal before
            made = intermediate_result.nfev
            clock.tick(made)
            last = made - before if before else made // intermediate_result.nit
            before = made
            return made + last > budget  # assuming that the next step is as long

        options = dict(choice.options)
        method = None if "directions" in options else choice.method
        result = rl.train(
            self.environment,
            method=method,
            max_steps=budget,  # the budget of episodes ends it earlier
            test_every=budget,
            test_episodes=1,
            callback=follow,
            progress=False,
            threads=1,
            seed=seed,
            folder=scratch / "run",
            **options,
        )
        if result.reason in ("interrupted", "terminated"):
            raise KeyboardInterrupt
        judged = rl.evaluate(result.policy, episodes=values, seed=seed, threads=1)
        steps = [line.info for line in result.history]
        start = steps[0].value if steps else float("nan")
        series = _returns(steps, budget, start)
        error = judged.deviation / judged.episodes**0.5 if judged.episodes > 1 else None
        more = {
            "status": result.reason,
            "message": result.message,
            "evaluations": result.nfev,
            "steps": result.nit,
            "best": judged.mean_return,
            "seconds_per_evaluation": clock.each,
            "faults": dict(result.faults),
        }
        return Outline(series, Judged(start), Judged(judged.mean_return, error, False), more)


def _returns(steps: Sequence[Any], budget: int, start: float) -> dict[str, list[float]]:
    value, now = list[float](), start
    for part in range(POINTS):
        upto = (part + 1) * budget // POINTS
        from_ = part * budget // POINTS
        here = [info.value for info in steps if from_ < info.evaluations <= upto]
        now = sum(here) / len(here) if here else now
        value.append(now)
    return {"value": value}


class BuiltIn(NamedTuple):
    """A kind of built-in problem.

    Attributes:
        example: An example of its name.
        make: Makes the problem from its name and the parts of it.
    """

    example: str
    make: Callable[[str, Sequence[str]], CommonProblem]


BUILT_IN = {
    "noisy": BuiltIn("noisy:sphere:100", _noisy),
    "regression": BuiltIn("regression:6,15", _regression),
    "bbob": BuiltIn("bbob:f8:20", _bbob),
    "gym": BuiltIn("gym:Hopper-v5", _gym),
}


def _misread(name: str, form: str) -> ValueError:
    return ValueError(f"{name!r} must be written {form}.")


def _number(name: str, text: str, form: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise _misread(name, form)
    return int(text)
