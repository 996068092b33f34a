"""Nonsense for every argument of every public function.

Each call must work or raise a ``ValueError`` or ``TypeError`` that names the argument, or an error
that the function's docstring promises. It must not hang or write outside its folder.
``python -m benchmarks.fuzz_arguments`` makes all calls, which takes minutes; the tests make some.
"""

import argparse
import contextlib
import datetime
import inspect
import io
import math
import os
import re
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gensmooth as gs
from gensmooth import directions, theory
from gensmooth.evaluators import as_evaluator

SECONDS = 20  # CPU time that a call may take; wall time would depend on other processes


class Hostile:
    """An object that raises on every use."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __bool__ = __repr__  # type: ignore[assignment]


NONSENSE: dict[str, Any] = {
    "None": None,
    "True": True,
    "a word": "x",
    "an empty word": "",
    "bytes": b"x",
    "a number as a word": "1",
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "-0.5": -0.5,
    "2**63": 2**63,
    "10**400": 10**400,
    "10**5000": 10**5000,
    "1e300": 1e300,
    "-1e300": -1e300,
    "5e-324": 5e-324,
    "an empty list": [],
    "a list": [1, 2],
    "a list of words": ["a", "b"],
    "a ragged list": [[1], [1, 2]],
    "an empty mapping": {},
    "a mapping": {1: 2},
    "an array of words": np.array(["1", "2"]),
    "an array with nan": np.array([1.0, np.nan]),
    "an array of objects": np.array([None, "x"], object),
    "a complex array": np.array([1j, 2.0]),
    "a scalar array": np.array(0.5),
    "complex": 1 + 2j,
    "an object": object(),
    "a hostile object": Hostile(),
    "float32": np.float32(0.3),
    "float32 nan": np.float32(np.nan),
    "float16": np.float16(0.3),
    "longdouble": np.longdouble("0.3"),
    "int8": np.int8(2),
    "uint64": np.uint64(2**63 + 1),
    "bool_": np.bool_(True),
    "a decimal": Decimal("0.1"),
    "a fraction": Fraction(1, 3),
    "a date": datetime.datetime(2020, 1, 1),
    "a function": lambda *_, **__: None,
    "a class": int,
    "a path with a zero": "a\0b",
}


class Case(NamedTuple):
    """A function to call.

    Attributes:
        function: The function.
        good: Arguments with which it works.
        promised: The other errors that its docstring promises.
        use: Called with the returned value, to find late errors.
        skip: Arguments that are not tried.
    """

    function: Callable[..., Any]
    good: Mapping[str, Any]
    promised: tuple[type[Exception], ...] = ()
    use: Callable[[Any], Any] = lambda made: made
    skip: tuple[str, ...] = ()


def fun(x: Any) -> float:
    """A small objective, finite everywhere."""
    return float(np.tanh(x).sum())


def cases(folder: Path) -> dict[str, Case]:
    """The functions by name; they may write to ``folder``."""
    run, training = folder / "run", folder / "training"
    small = {"num_directions": 2, "seed": 0}
    if not run.exists():
        gs.minimize(fun, [1.0, 2.0], budget=7, folder=run, **small)
    evaluation, checkpoint = gs.EvaluationError, gs.CheckpointError
    moments = theory.iid(4, 2)
    size = {"dim": 4, "num_directions": 2}
    squares = {"spacing": 0.1, "trace2": 1.0, "frobenius2": 1.0}
    noise = {"gradient_norm2": 1.0, "noise_trace": 1.0, "num_samples": 2}

    def searched(search: gs.RandomSearch) -> None:
        state = search.init([1.0, 2.0], seed=0)
        batch = search.ask(state)
        search.tell(state, batch, [fun(x) for x in batch.points()])

    def drawn(directions: Any) -> None:
        gs.gradient(fun, [1.0, 2.0], directions=directions, **small)

    def optimized(optimizer: Any) -> None:
        searched(gs.RandomSearch(gs.Gaussian(), num_directions=2, spacing=0.1, optimizer=optimizer))

    def scheduled(schedule: Any) -> None:
        assert not any(math.isnan(schedule(step)) for step in range(5))

    def told(values: Any) -> None:
        search = gs.RandomSearch(gs.Gaussian(), num_directions=2, spacing=0.1)
        state = search.init([1.0, 2.0], seed=0)
        search.tell(state, search.ask(state), values)

    def updated(optimizer_change: Any) -> None:
        optimizer = gs.Optimizer(lambda _: (), lambda *_: (optimizer_change, ()))
        searched(gs.RandomSearch(gs.Gaussian(), num_directions=2, spacing=0.1, optimizer=optimizer))

    def bounded(bounds: Any) -> None:
        gs.minimize(fun, [1.0, 2.0], bounds=bounds, budget=7, **small)

    by_name = {
        "minimize": Case(
            gs.minimize,
            {"fun": fun, "x0": [1.0, 2.0], "budget": 7, "max_steps": 1, **small},
            (evaluation,),
        ),
        "minimize sampled": Case(
            lambda samples, num_samples: gs.minimize(
                lambda x, rng: fun(x) + rng.normal(),
                [1.0],
                samples=samples,
                num_samples=num_samples,
                max_steps=1,
                **small,
            ),
            {"samples": "shared", "num_samples": 2},
            (evaluation,),
        ),
        "minimize in a folder": Case(
            lambda where, every: gs.minimize(
                fun, [1.0], folder=where, every=every, max_steps=1, **small
            ),
            {"where": folder / "every", "every": 1},
            (checkpoint,),
        ),
        "resume": Case(gs.resume, {"folder": run, "fun": fun}, (evaluation, checkpoint)),
        "gradient": Case(gs.gradient, {"fun": fun, "x": [1.0, 2.0], **small}, (evaluation,)),
        "RandomSearch": Case(
            gs.RandomSearch,
            {"directions": gs.Gaussian(), "num_directions": 2, "spacing": 0.1},
            use=searched,
        ),
        "RandomSearch.tell": Case(told, {"values": [1.0, 2.0, 3.0]}),
        "Optimizer": Case(updated, {"optimizer_change": np.zeros(2)}),
        "named": Case(directions.named, {"name": "bes"}),
        "predictions": Case(directions.predictions, {"dim": 4, "num_directions": 2}),
        "Bernoulli": Case(gs.Bernoulli, {}, use=drawn),
        "Guided": Case(gs.Guided, {}, use=drawn),
        "Orthogonal": Case(gs.Orthogonal, {}, use=drawn),
        "shrunk": Case(gs.shrunk, {"directions": gs.Bernoulli()}, use=drawn),
        "OnePoint": Case(
            gs.OnePoint,
            {},
            use=lambda made: gs.gradient(fun, [1.0], estimator=made, **small),
        ),
        "sgd": Case(gs.sgd, {"learning_rate": 0.1}, use=optimized),
        "momentum": Case(gs.momentum, {"learning_rate": 0.1}, use=optimized),
        "adam": Case(gs.adam, {"learning_rate": 0.1}, use=optimized),
        "greedy": Case(gs.greedy, {}, use=optimized),
        "cosine_decay": Case(gs.cosine_decay, {"initial": 0.1, "steps": 3}, use=scheduled),
        "exponential_decay": Case(
            gs.exponential_decay, {"initial": 0.1, "rate": 0.5, "steps": 3}, use=scheduled
        ),
        "inverse_decay": Case(gs.inverse_decay, {"initial": 0.1}, use=scheduled),
        "Bounds": Case(
            lambda lower, upper: bounded(gs.Bounds(lower, upper)), {"lower": -3.0, "upper": 3.0}
        ),
        "bounds as a pair": Case(
            lambda lower, upper: bounded((lower, upper)), {"lower": -3.0, "upper": 3.0}
        ),
        "Serial": Case(gs.evaluators.Serial, {}),
        "Threads": Case(gs.evaluators.Threads, {"num_workers": 1}),
        "Processes": Case(gs.evaluators.Processes, {"num_workers": 1}),
        "Ray": Case(gs.evaluators.Ray, {}),
        "MapLike": Case(gs.evaluators.MapLike, {"workers": map}),
        "as_evaluator": Case(as_evaluator, {}),
        "MLP": Case(gs.rl.MLP, {}, use=lambda made: made.policy(3, 2)),
        "Policy": Case(gs.rl.Policy, {"sizes": (3, 2)}),
        "load_policy": Case(gs.rl.load_policy, {"path": folder / "none"}, (checkpoint,)),
        "iid": Case(theory.iid, size),
        **{
            family.__name__: Case(family, size)
            for family in (theory.sphere, theory.orthogonal, theory.gram_schmidt, theory.hadamard)
        },
        "Moments.scaled": Case(moments.scaled, {"factor": 0.5}),
        "combine": Case(theory.combine, {"groups": [moments]}),
        "mse": Case(theory.mse, {"moments": moments, **noise}, skip=("moments",)),
        "mse one-point": Case(
            theory.mse,
            {
                "moments": moments,
                **noise,
                "estimator": "one-point",
                "spacing": 0.1,
                "value_variance": 1.0,
                "value": 1.0,
            },
            skip=("moments",),
        ),
        "mse_terms": Case(theory.mse_terms, {"moments": moments, **noise}, skip=("moments",)),
        "optimal_variance": Case(theory.optimal_variance, size),
        "optimal_scale_whole": Case(
            theory.optimal_scale_whole,
            {"terms": theory.mse_terms(moments, gradient_norm2=1.0)},
            skip=("terms",),
        ),
        "bernoulli_moments": Case(theory.bernoulli_moments, {"p": 0.5, "m": 0.5}),
        "bernoulli_optimum": Case(theory.bernoulli_optimum, size),
        "gs_vs_bes_shrinkage": Case(theory.gs_vs_bes_shrinkage, {**size, **noise}),
        "gs_vs_bes_threshold": Case(
            theory.gs_vs_bes_threshold, {**size, "noise_trace": 1.0, "num_samples": 2}
        ),
        "quadratic_spacing_mse": Case(
            theory.quadratic_spacing_mse, {**size, **squares, "diagonal2": 1.0}
        ),
        "quadratic_spacing_mse_sphere": Case(
            theory.quadratic_spacing_mse_sphere, {**size, **squares}
        ),
        "quadratic_spacing_mse_gram_schmidt": Case(
            theory.quadratic_spacing_mse_gram_schmidt, {**size, **squares}
        ),
        "information_limit": Case(theory.information_limit, size),
        "convergence_learning_rate": Case(
            theory.convergence_learning_rate, {"smoothness": 1.0, "steps": 5}
        ),
        "convergence_bound": Case(
            theory.convergence_bound,
            {"mse": 1.0, "bias": 0.1, "smoothness": 1.0, "bound": 1.0, "steps": 5},
        ),
    }
    with contextlib.suppress(ImportError):
        import scipy.stats

        laplace = {"distribution": scipy.stats.laplace()}
        by_name["IID"] = Case(gs.IID, laplace, use=drawn)
    with contextlib.suppress(ImportError):
        import gymnasium  # noqa: F401

        train = {
            "environment": "CartPole-v1",
            "method": "bes",
            "max_steps": 1,
            "test_episodes": 1,
            "num_directions": 1,
            "threads": 1,
            "seed": 0,
        }
        policy = gs.rl.train(**train, folder=training).best
        by_name["train"] = Case(gs.rl.train, train, (evaluation, ImportError))
        by_name["rl.resume"] = Case(
            gs.rl.resume, {"folder": training}, (evaluation, checkpoint), skip=("max_steps",)
        )
        by_name["evaluate"] = Case(
            gs.rl.evaluate, {"policy": policy, "episodes": 2}, (evaluation, checkpoint)
        )
        by_name["make"] = Case(gs.rl.make, {"environment": "CartPole-v1"})
    return by_name


class Finding(NamedTuple):
    """A call that violated the rules above."""

    function: str
    argument: str
    value: str
    what: str

    def __str__(self) -> str:
        return f"{self.function}({self.argument}={self.value}): {self.what}"


def trials(by_name: Mapping[str, Case]) -> Iterator[tuple[str, str, str]]:
    """The names of every function, argument and value."""
    for name, case in by_name.items():
        for argument in inspect.signature(case.function).parameters:
            for value in NONSENSE:
                raises = argument == "callback" and value == "a class"  # `int` cannot be a callback
                if argument not in case.skip and not raises:
                    yield name, argument, value


class _Hangs(BaseException):
    pass


def attempt(name: str, case: Case, argument: str, value: str) -> Finding | None:
    """Make one call; returns what went wrong, if anything."""
    before = _files(Path.cwd())
    what = ""
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            case.use(case.function(**{**case.good, argument: NONSENSE[value]}))
    except (ValueError, TypeError) as error:
        names = (argument, _CALLED.get(argument, argument))
        if not any(re.search(rf"`{each}\b|\b{each:_<3}", str(error)) for each in names):
            what = f"a {type(error).__name__} that does not name it: {str(error)[:200]}"
    except case.promised:
        pass
    except _Hangs:
        what = f"no end within {SECONDS} seconds of computing"
    except BaseException as error:
        what = f"a {type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    written = _files(Path.cwd()) - before
    for path in sorted(written, reverse=True):
        (Path.rmdir if (Path.cwd() / path).is_dir() else Path.unlink)(Path.cwd() / path)
    asked = argument in ("folder", "where") and isinstance(NONSENSE[value], str)
    if written and not (asked and all(Path(p).parts[0] == NONSENSE[value] for p in written)):
        what += f" wrote {sorted(written)} into the working folder"
    return Finding(name, argument, value, what) if what else None


# Other words by which a message may name an argument.
_CALLED = {
    "where": "folder",
    "x": "x0",
    "name": "method",
    "lower": "bounds",
    "upper": "bounds",
    "optimizer_change": "optimizer",
    "environment": "trained in",
}


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def run(*, one_in: int = 1, only: str | None = None) -> tuple[int, list[Finding]]:
    """Make every ``one_in``-th call; returns the number of calls, and the findings."""

    def hangs(*_: Any) -> None:
        raise _Hangs

    findings: list[Finding] = []
    made = 0
    home = Path.cwd()
    handlers = {s: signal.signal(s, hangs) for s in (signal.SIGALRM, signal.SIGPROF)}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        os.chdir(elsewhere)
        try:
            by_name = cases(Path(folder))
            for index, (name, argument, value) in enumerate(trials(by_name)):
                if index % one_in or (only is not None and name != only):
                    continue
                made += 1
                finding = attempt(name, by_name[name], argument, value)
                if finding is not None:
                    findings.append(finding)
        finally:
            os.chdir(home)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return made, findings


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="the name of one function")
    parser.add_argument("--one-in", type=int, default=1, help="make only one call in so many")
    options = parser.parse_args()
    calls, wrong = run(one_in=options.one_in, only=options.only)
    for finding in wrong:
        print(finding)
    print(f"{calls} calls, {len(wrong)} findings")
    raise SystemExit(bool(wrong))
