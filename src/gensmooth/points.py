"""A search that returns one point at a time, for libraries such as Nevergrad and Optuna.

A step of a search evaluates a batch of points. These libraries ask for one point, evaluate it
anywhere, and report values in any order. Here, points are taken from the batch, and the step is
completed when the last value of the batch has arrived. If more points are requested than the batch
has left, a point that is still being evaluated is returned again, and its first value counts.
"""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.searches.choose import choose, methods
from gensmooth.searches.protocol import Search
from gensmooth.searches.wanted import Wanted

Array = NDArray[Any]

_MIN_FRACTION = 0.01  # a step needs the values of only 1 % of its directions


class Ticket(NamedTuple):
    """Identifies an evaluation by its step and its place in the step."""

    step: int
    place: int


class PointByPoint:
    """A search that returns one point at a time.

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
        self._begin_step()

    def _begin_step(self) -> None:
        self._batch = self.search.ask(self.state)
        self._values = np.full(len(self._batch), np.nan)
        self._requests = np.zeros(len(self._batch), np.int64)  # how often each point was requested
        self._done = np.zeros(len(self._batch), bool)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_batch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._batch = self.search.ask(self.state)  # a pure function of the state

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self.state.step

    def ask(self) -> tuple[Ticket, Array]:
        """Return a point to evaluate: the next one, or the one requested least often."""
        unfinished = np.flatnonzero(~self._done)
        index = int(unfinished[np.argmin(self._requests[unfinished])])
        self._requests[index] += 1
        return Ticket(self.step, index), self._batch.point(index)

    def mark_requested(self, ticket: Ticket) -> None:
        """Mark a point of this step as requested, by another process or earlier."""
        if ticket.step == self.step and 0 <= ticket.place < len(self._requests):
            self._requests[ticket.place] = max(1, self._requests[ticket.place])

    def tell(self, ticket: Ticket, value: float) -> None:
        """Report the value of a point; a value that is not finite marks a failed evaluation.

        A second value of a point is ignored, and so is a value from an earlier step.
        """
        step, index = ticket
        if step != self.step or not 0 <= index < len(self._done) or self._done[index]:
            return
        self._values[index], self._done[index] = value, True
        better = self._best is None or (
            value > self._best[1] if self.search.maximize else value < self._best[1]
        )
        if math.isfinite(value) and better:
            self._best = self._batch.point(index), float(value)
        if self._done.all():
            values = self._values
            if not (self.search.survives_failures or np.isfinite(values).any()):
                values = np.zeros_like(values)  # equal values: x does not move
            self.state, _ = self.search.tell(self.state, self._batch, values)
            self._begin_step()

    def first_pending(self) -> Ticket | None:
        """Return the first point whose value is still missing, if there is one."""
        waiting = np.flatnonzero((self._requests > 0) & ~self._done)
        return Ticket(self.step, int(waiting[0])) if len(waiting) else None

    def best(self) -> tuple[Array, float] | None:
        """Return the point with the best reported value, and that value; noise biases the value."""
        return self._best

    def recommend(self) -> Array | None:
        """Return the centre of the search, or ``None`` if the best reported point is better."""
        if self.search.is_exact(self.state):
            return None
        return self.search.recommend(self.state).copy()


def make_search(dim: int, wanted: Wanted) -> Search:
    """Choose a search for ``dim`` parameters, with batches large enough for all workers.

    A failed evaluation only leaves out its direction.
    """
    wanted = replace(
        wanted,
        budget=checks.optional(checks.count, "budget", wanted.budget),
        workers=checks.count("workers", wanted.workers),
        on_failure="drop",
        min_fraction=_MIN_FRACTION,
    )
    return choose(np.zeros(dim), wanted).search


def usable() -> list[str]:
    """Return the methods that need only the number of parameters: no matrix and no noise."""
    names: list[str] = []
    for name in methods():
        with suppress(ValueError, ImportError):
            make_search(4, Wanted(method=name))
            names.append(name)
    return names
