"""A search that returns one point at a time, for libraries such as Nevergrad and Optuna.

A step of ours is a batch of points. These libraries ask for a point, evaluate it anywhere, and
report its value, in any order. Here, points are taken from the batch, and the step is made when the
last value of the batch has arrived. If more points are requested than the batch has left, a point
that is still being evaluated is returned again, and the first value counts.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.estimators import Estimator, as_estimator
from gensmooth.optimizers import Optimizer
from gensmooth.searches.choose import BUDGET, choose, methods
from gensmooth.searches.protocol import Search
from gensmooth.searches.wanted import Wanted

Array = NDArray[Any]

_LEAST = 0.01  # of the directions: a step is made with whatever there is


class Ticket(NamedTuple):
    """The evaluation that a point belongs to: its step, and its position in the step."""

    step: int
    place: int


class PointByPoint:
    """A search that returns one point at a time.

    Args:
        search: The search.
        x0: Where it starts.
        seed: Its seed.

    >>> from gensmooth import Pilot
    >>> points = PointByPoint(Pilot(budget=300), np.zeros(2), seed=0)
    >>> for _ in range(300):
    ...     ticket, x = points.ask()
    ...     points.tell(ticket, ((x - [1, 2]) ** 2).sum())
    >>> points.best()[0].round(3)
    array([1., 2.])
    """

    def __init__(self, search: Search, x0: Array, *, seed: int) -> None:
        self.search = search
        self.state = search.init(x0, seed=seed)
        self._best: tuple[Array, float] | None = None
        self._begin()

    def _begin(self) -> None:
        self._batch = self.search.ask(self.state)
        self._values = np.full(len(self._batch), np.nan)
        self._asked = np.zeros(len(self._batch), np.int64)
        self._told = np.zeros(len(self._batch), bool)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_batch"}

    def __setstate__(self, found: dict[str, Any]) -> None:
        vars(self).update(found)
        self._batch = self.search.ask(self.state)  # a pure function of the state

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self.state.step

    def ask(self) -> tuple[Ticket, Array]:
        """Return a point to evaluate: the next one, or the one requested least often."""
        open_ones = np.flatnonzero(~self._told)
        index = int(open_ones[np.argmin(self._asked[open_ones])])
        self._asked[index] += 1
        return Ticket(self.step, index), self._batch.point(index)

    def is_taken(self, ticket: Ticket) -> None:
        """Mark a point of this step as requested, by another process or earlier."""
        if ticket.step == self.step and 0 <= ticket.place < len(self._asked):
            self._asked[ticket.place] = max(1, self._asked[ticket.place])

    def tell(self, ticket: Ticket, value: float) -> None:
        """Report the value of a point; a value that is not finite means that there is none.

        A second value of a point, and a value of an earlier step, are ignored.
        """
        step, index = ticket
        if step != self.step or not 0 <= index < len(self._told) or self._told[index]:
            return
        self._values[index], self._told[index] = value, True
        better = self._best is None or (
            value > self._best[1] if self.search.maximize else value < self._best[1]
        )
        if math.isfinite(value) and better:
            self._best = self._batch.point(index), float(value)
        if self._told.all():
            values = self._values
            if not (self.search.survives_failures or np.isfinite(values).any()):
                values = np.zeros_like(values)  # nothing was learnt: the next step looks elsewhere
            self.state, _ = self.search.tell(self.state, self._batch, values)
            self._begin()

    def waited_for(self) -> Ticket | None:
        """Return the first point whose value is still missing, if there is one."""
        waiting = np.flatnonzero((self._asked > 0) & ~self._told)
        return Ticket(self.step, int(waiting[0])) if len(waiting) else None

    def best(self) -> tuple[Array, float] | None:
        """Return the point with the best reported value, and the value; with noise, mostly luck."""
        return self._best

    def recommend(self) -> Array | None:
        """Return the centre of the search, or ``None`` if the best reported point is better."""
        if self.search.is_exact(self.state):
            return None
        return self.search.recommend(self.state).copy()


def make_search(
    method: str,
    dim: int,
    *,
    budget: int | None = None,
    workers: int = 1,
    num_directions: int | None = None,
    population: int | None = None,
    spacing: float | None = None,
    estimator: Estimator | str | None = None,
    optimizer: Optimizer | None = None,
    learning_rate: float | None = None,
    x_scale: Any = None,
    bounds: Any = None,
    maximize: bool = False,
) -> Search:
    """Create the search of :func:`gensmooth.minimize`, with batches large enough for all workers.

    Args:
        method: ``"auto"``, or the name of a method.
        dim: The number of parameters.
        budget: Evaluations to come; 10,000 if that is not known.
        workers: How many points are evaluated at a time.
        num_directions: As in :func:`gensmooth.minimize`; by default at least enough for the
            workers.
        population: As in :func:`gensmooth.minimize`.
        spacing: As in :func:`gensmooth.minimize`.
        estimator: As in :func:`gensmooth.minimize`.
        optimizer: As in :func:`gensmooth.minimize`.
        learning_rate: As in :func:`gensmooth.minimize`.
        x_scale: As in :func:`gensmooth.minimize`.
        bounds: As in :func:`gensmooth.minimize`.
        maximize: As in :func:`gensmooth.minimize`.
    """
    wanted = Wanted(
        method=method,
        num_directions=num_directions,
        population=population,
        spacing=spacing,
        estimator=None if estimator is None else as_estimator(estimator),
        optimizer=optimizer,
        learning_rate=learning_rate,
        x_scale=x_scale,
        budget=checks.optional(checks.count, "budget", budget) or BUDGET,
        workers=checks.count("workers", workers),
        bounds=bounds,
        maximize=maximize,
        on_failure="drop",
        min_fraction=_LEAST,
    )
    return choose(np.zeros(dim), wanted).search


def usable() -> list[str]:
    """Return the methods that need only the number of parameters: no matrix and no noise."""
    found: list[str] = []
    for name in methods():
        try:
            make_search(name, 4)
        except (ValueError, ImportError):
            continue
        found.append(name)
    return found
