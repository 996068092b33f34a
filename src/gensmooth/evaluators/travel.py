"""What travels to a worker, and what a worker makes of it.

Once a session: the search and the objective. Once a step: x, and for directions with a state the
newest estimate. Then a worker asks its own search for the batch, and makes its own points.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.estimators import Plan
from gensmooth.evaluators.errors import Failure, WorkerError
from gensmooth.evaluators.objective import Objective
from gensmooth.optimizers import Optimizer
from gensmooth.search import RandomSearch, SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]


def pickled(thing: object, name: str) -> bytes:
    """By cloudpickle, so that lambdas and what a notebook defines travel too."""
    cloudpickle: Any = import_module("cloudpickle")
    try:
        return cloudpickle.dumps(thing)
    except Exception as error:
        raise WorkerError(
            f"{name} cannot be sent to another process: {error}. Make what cannot travel (locks, "
            "open files, connections) inside the function, or evaluate in this process: workers=1 "
            "or gs.evaluators.Threads."
        ) from error


def luggage(search: RandomSearch, objective: Objective) -> bytes:
    """A session, as workers are sent it: without the optimiser, which is none of their business."""
    light = replace(search, optimizer=_AT_HOME, threads=1)
    return pickled((light, objective), "The objective")


def _stays_at_home(*_: Any) -> Any:
    raise RuntimeError("Workers evaluate; the optimiser's step is made where the run is.")


_AT_HOME = Optimizer(_stays_at_home, _stays_at_home)


class Step(NamedTuple):
    """What a worker is told once a step, beside x and the directions' state.

    Attributes:
        number: The step's number.
        seed: The run's seed.
        plan: The evaluations, where they are not those that the search itself plans.
        purpose: What their noise is for.
        context: What the objective is handed beside each point.
    """

    number: int
    seed: int
    plan: Plan | None
    purpose: Purpose = Purpose.SAMPLE
    context: NDArray[np.float64] | None = None


class Report(NamedTuple):
    """What comes back: values (or rows, of an objective with extras), failures, seconds."""

    values: NDArray[np.float64]
    failures: list[Failure]
    seconds: float


@final
class Site:
    """A worker's view of a session."""

    def __init__(self, search: RandomSearch, objective: Objective) -> None:
        self._search = search
        self._objective = objective
        self._directions: tuple[Any, ...] = ()
        self._batch: Batch | None = None

    def step(
        self,
        step: Step,
        x: Array,
        *,
        estimate: Array | None = None,
        directions: Mapping[str, Array] | None = None,
    ) -> None:
        """Begin a step.

        Args:
            step: Which.
            x: The parameters.
            estimate: What the last step found, for directions with a state; or
            directions: the whole of that state, for a worker that has missed something.
        """
        family = self._search.directions
        if directions is not None:
            self._directions = family.unpack(directions, x.size, x.dtype)
        elif estimate is not None:
            self._directions = family.update(self._directions, estimate)
        state = SearchState(x, step.number, 0, step.seed, None, self._directions)
        batch = self._search.ask(state)
        plan = batch.plan
        if step.plan is not None:
            # Copies: what has travelled is read-only, for which Numba would compile anew.
            plan = Plan(*(part.copy() for part in step.plan.arrays))
        if step.plan is not None or step.purpose != batch.purpose:
            batch = batch.planned(plan, step.purpose)
        self._batch = batch if step.context is None else batch.given(step.context)

    def warm_up(self) -> None:
        """Make a point, which loads the kernels."""
        assert self._batch is not None
        self._batch.point(0)

    def evaluate(self, start: int, stop: int, begin: Callable[[int], None] | None = None) -> Report:
        """The values of evaluations ``start … stop``."""
        assert self._batch is not None
        began = time.perf_counter()
        values, failures = self._objective.values(self._batch, start, stop, begin=begin)
        light = [failure.to_travel() for failure in failures]
        return Report(values, light, time.perf_counter() - began)


@final
class Itinerary:
    """What each step's workers must be told of the directions' state, as versions of it.

    A worker that holds the version before this one needs the newest estimate; one that holds an
    older one, or none, needs the whole state.
    """

    def __init__(self, search: RandomSearch) -> None:
        self._search = search
        self._state: tuple[Any, ...] = ()
        self.version = 0
        self.estimate: Array | None = None

    def begin(self, state: SearchState, batch: Batch) -> Step:
        """Take up a step."""
        now = state.directions
        if now is not self._state and (now or self._state):
            family = self._search.directions
            self.estimate = family.latest_gradient(self._state, now) if self._state else None
            self._state = now
            self.version += 1 if self.estimate is not None else 2  # 2: nobody holds the one before
        own = self._search.plan
        plan = batch.plan
        same = plan is own or all(map(np.array_equal, plan, own))
        kept = None if same else plan
        return Step(batch.step, batch.seed, kept, batch.purpose, batch.context)

    @property
    def stateful(self) -> bool:
        """Whether the directions have a state."""
        return bool(self._state)

    def whole(self) -> dict[str, Array]:
        """All of the directions' state."""
        return self._search.directions.pack(self._state)
