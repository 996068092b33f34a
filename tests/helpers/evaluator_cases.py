"""Shared by the tests of evaluators: objectives that workers can import, searches, a loop."""

import ctypes
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gensmooth as gs
from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators import Evaluated, Evaluator, Objective, Session
from gensmooth.streams import Purpose

DIM = 7


def wavy(x: NDArray[Any], rng: np.random.Generator | None = None) -> float:
    """Smooth and not symmetric; noisy if it gets a generator."""
    noise = 0.0 if rng is None else 0.1 * rng.standard_normal()
    return float((np.cos(x) + 0.1 * (x - 0.3) ** 2).sum() + noise)


def wavy_block(X: NDArray[Any], rngs: list[np.random.Generator] | None = None) -> NDArray[Any]:
    noise = np.zeros(len(X)) if rngs is None else [0.1 * rng.standard_normal() for rng in rngs]
    return (np.cos(X) + 0.1 * (X - 0.3) ** 2).reshape(len(X), -1).sum(axis=1) + noise


def with_extras(
    x: NDArray[Any], rng: np.random.Generator, context: NDArray[np.float64]
) -> list[float]:
    """A value that depends on the context, and two more numbers."""
    noise = rng.standard_normal()
    return [wavy(x - context[1]) + context[0] * noise, noise, float(x[0])]


def with_extras_block(
    X: NDArray[Any], rngs: list[np.random.Generator], context: NDArray[np.float64]
) -> NDArray[Any]:
    return np.array([with_extras(x, rng, context) for x, rng in zip(X, rngs, strict=True)])


def check_context_and_extras(evaluator: Evaluator) -> None:
    """Check the inputs beside the point and the outputs beside the value, also in tests."""
    search = search_of(samples="independent")
    for fun, vectorized in [(with_extras, False), (with_extras_block, 3)]:
        objective = Objective(fun, sampled=True, vectorized=vectorized, extras=2)
        state = search.init(np.ones(DIM), seed=3)
        with evaluator.session(search, objective) as session:
            for step in range(4):
                batch = search.ask(state).with_context(np.array([0.5, step]))
                found = session.evaluate(state, batch)
                points, noise = batch.block(0, len(batch)), _first_normals(batch)
                assert found.extras is not None
                assert (found.extras == np.stack([noise, points[:, 0]], axis=1)).all()
                expected = [wavy(x - step) + 0.5 * n for x, n in zip(points, noise, strict=True)]
                assert (found.values == expected).all()
                n = 5  # more values at the same x, with noise that differs from the training's
                zeros = np.zeros(n, np.int64)
                test = batch.planned(Plan(zeros, zeros, np.arange(n)), Purpose.TEST)
                tested = session.evaluate(state, test)
                assert tested.extras is not None
                assert (tested.extras[:, 0] == _first_normals(test)).all()
                assert not set(tested.extras[:, 0]) & set(noise)
                state, _ = search.tell(state, batch, found.values)


def _first_normals(batch: Batch) -> NDArray[np.float64]:
    return np.array([rng.standard_normal() for rng in batch.rngs()])


def search_of(method: str = "bes", **options: Any) -> gs.RandomSearch:
    arguments: dict[str, Any] = {
        "directions": gs.directions.named(method).shaped((DIM, 1)),  # some need a matrix
        "num_directions": 4,
        "spacing": 0.1,
        "optimizer": gs.momentum(0.02),
        **options,
    }
    return gs.RandomSearch(**arguments)


@dataclass
class Outcome:
    x: NDArray[Any]
    faults: Counter[str]
    dropped: int
    state: gs.SearchState


def steps(
    session: Session, search: gs.RandomSearch, number: int, *, x0: Any = None, state: Any = None
) -> Outcome:
    """Make some steps."""
    start = np.linspace(-1, 1, DIM) if x0 is None else x0
    state = search.init(start, seed=11) if state is None else state
    faults: Counter[str] = Counter()
    dropped = 0
    for _ in range(number):
        batch = search.ask(state)
        evaluated = session.evaluate(state, batch)
        faults.update(evaluated.faults)
        state, info = search.tell(state, batch, evaluated.values)
        dropped += info.dropped
    return Outcome(state.x, faults, dropped, state)


def run(
    evaluator: Evaluator, search: gs.RandomSearch, fun: Any, number: int = 3, **options: Any
) -> Outcome:
    """Make some steps in a session of their own."""
    vectorized = options.pop("vectorized", False)
    objective = Objective(fun, search.samples is not None, vectorized)
    with evaluator.session(search, objective) as session:
        return steps(session, search, number, **options)


class Shuffled:
    """An evaluator whose results arrive in a random order."""

    @contextmanager
    def session(self, search: gs.RandomSearch, objective: Objective) -> Iterator["Shuffled"]:
        self.objective = objective
        self.rng = np.random.default_rng(5)
        yield self

    workers = 1

    def evaluate(self, state: gs.SearchState, batch: Any) -> Evaluated:
        values = self.objective.blank(len(batch))
        rows = self.objective.block_rows(batch.dim)
        for start in self.rng.permutation(np.arange(0, len(batch), rows)):
            stop = min(start + rows, len(batch))
            values[start:stop], _ = self.objective.values(batch, int(start), stop)
        if values.ndim > 1:
            return Evaluated(values[:, 0], {}, values[:, 1:])
        return Evaluated(values, {})


@dataclass
class Fails:
    """Like ``wavy``, but fails at one point; with a ``marker``, only the first time."""

    how: str
    at: NDArray[Any]
    marker: Path | None = None

    def __call__(self, x: NDArray[Any]) -> float:
        if not np.array_equal(x, self.at) or not self._first():
            return wavy(x)
        return FAILURES[self.how]()

    def _first(self) -> bool:
        if self.marker is None:
            return True
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _raise() -> float:
    return 1 / 0


def _hang_in_c() -> float:
    ctypes.PyDLL(None).sleep(1000)  # holds the interpreter's lock: no Python code can stop it
    return 0.0


def _hang_in_child() -> float:
    import subprocess

    subprocess.run(["sleep", "1000"], check=True)
    return 0.0


def _be_killed() -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)
    return 0.0


FAILURES: dict[str, Any] = {
    "exception": _raise,
    "exit": lambda: os._exit(3),
    "non-finite": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "timeout": _hang_in_c,
    "child": _hang_in_child,
    "died": _be_killed,
}


class NeverArrives:
    """Pickles, but cannot be unpickled."""

    def __call__(self, x: NDArray[Any]) -> float:
        return wavy(x)

    def __reduce__(self) -> tuple[Any, ...]:
        return _explode, ()


def _explode() -> None:
    raise RuntimeError("this does not travel well")


def spread_sleep(x: NDArray[Any]) -> float:
    """Takes 0.1 to 2 ms, so that results come in any order."""
    time.sleep(1e-4 * (1 + 19 * (abs(float(x[0])) * 1e6 % 1.0)))
    return wavy(x)
