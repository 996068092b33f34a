"""What becomes of evaluations that fail: tried again, let go, or the end of the run.

One :class:`Ledger` a batch, in every evaluator, so that the policies mean the same everywhere.
"""

import logging
from collections import Counter, deque
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated
from gensmooth.evaluators.errors import Failure
from gensmooth.evaluators.objective import Objective
from gensmooth.search import RandomSearch

_log = logging.getLogger("gensmooth")

Units = tuple[int, int]  # a range of units: evaluations, or blocks of a vectorised objective


@final
class Policy:
    """What a session does about faults, and which kinds it has told the log about.

    Args:
        search: Whose ``on_failure`` decides what a failure costs when no retry is left.
        retries: How often a failed evaluation is tried again.
    """

    def __init__(self, search: RandomSearch, retries: int) -> None:
        self.drop = search.on_failure == "drop"
        self.retries = retries
        self._told: set[str] = set()

    @property
    def patient(self) -> bool:
        """Whether a batch goes on after a failure."""
        return self.drop or self.retries > 0

    def tell(self, kind: str, words: str) -> None:
        """Log the first event of each kind."""
        if kind not in self._told:
            self._told.add(kind)
            _log.warning("%s. Further events of this kind are counted, not logged.", words)


@final
class Ledger:
    """The values of a batch as they come in, and the faults on the way."""

    def __init__(self, policy: Policy, objective: Objective, batch: Batch) -> None:
        self.rows = objective.block_rows(batch.dim)
        self.units = -(-len(batch) // self.rows)
        self.open = self.units
        self._policy = policy
        self._batch = batch
        self._values = objective.blank(len(batch))
        self._faults: Counter[str] = Counter()
        self._failed: Counter[int] = Counter()  # failures of each unit

    def span(self, units: Units) -> tuple[int, int]:
        """The evaluations of some units, as ``start, stop``."""
        return units[0] * self.rows, min(units[1] * self.rows, len(self._values))

    def settle(
        self, units: Units, values: NDArray[np.float64], failures: list[Failure]
    ) -> list[Units]:
        """Enter the values of some units; the units to do again."""
        start, stop = self.span(units)
        self._values[start:stop] = values
        values = values if values.ndim == 1 else values[:, 0]
        if not failures and np.isfinite(values).all():
            self.open -= units[1] - units[0]
            return []
        bad = {failure.index // self.rows: (failure, 1) for failure in failures}
        for index in (np.flatnonzero(~np.isfinite(values)) + start).tolist():
            what = f"The objective returned {values[index - start]}"
            failure, count = bad.get(index // self.rows, (Failure(index, "non-finite", what), 0))
            if failure.kind == "non-finite":
                bad[index // self.rows] = failure, count + 1
        self.open -= units[1] - units[0] - len(bad)
        return [(unit, unit + 1) for unit, found in bad.items() if self.fault(*found)]

    def fault(self, failure: Failure, count: int = 1) -> bool:
        """Enter a failure of an open unit; whether to do it again.

        Raises:
            EvaluationError: When the policy says so.
        """
        self._faults[failure.kind] += count
        unit = failure.index // self.rows
        self._failed[unit] += 1
        again = failure.kind != "return" and self._failed[unit] <= self._policy.retries
        if again or (self._policy.drop and failure.kind != "return"):
            what = f"{failure.what}, at {self._batch.describe(failure.index)}"
            self._policy.tell(failure.kind, what)  # else it is raised, and need not be logged too
        elif failure.kind != "non-finite":
            raise failure.error(self._batch, self._failed[unit])
        # A value that is not finite goes on to `tell`, which raises where values are used.
        self.open -= not again
        return again

    def event(self, kind: str, words: str, count: int = 1) -> None:
        """Count events, and log the first of their kind."""
        self._faults[kind] += count
        self._policy.tell(kind, words)

    def evaluated(self) -> Evaluated:
        """What came of it."""
        found = self._values
        if found.ndim == 1:
            return Evaluated(found, dict(self._faults))
        return Evaluated(found[:, 0].copy(), dict(self._faults), found[:, 1:])


@final
class Queue:
    """Units to do, handed out in ranges."""

    def __init__(self, units: int) -> None:
        self._ranges: deque[Units] = deque([(0, units)])
        self.left = units

    def take(self, count: int) -> Units | None:
        """At most ``count`` neighbouring units; ``None`` when there are none left."""
        if not self._ranges:
            return None
        first, last = self._ranges.popleft()
        middle = min(first + max(count, 1), last)
        if middle < last:
            self._ranges.appendleft((middle, last))
        self.left -= middle - first
        return first, middle

    def put(self, ranges: list[Units]) -> None:
        """Units to do again, each range handed out by itself."""
        self._ranges.extend(ranges)
        self.left += sum(last - first for first, last in ranges)

    def clear(self) -> None:
        """Nothing left to do."""
        self._ranges.clear()
        self.left = 0


def check_retries(retries: object) -> None:
    """Refuse what is not a count."""
    if isinstance(retries, bool) or not isinstance(retries, int | np.integer) or retries < 0:
        raise ValueError(f"`retries` must be a whole number of at least 0, but is {retries!r}.")


def check_timeout(timeout: object) -> None:
    """Refuse what is not a time."""
    if timeout is None:
        return
    number = isinstance(timeout, int | float | np.integer | np.floating)
    if not number or isinstance(timeout, bool) or not timeout > 0:
        raise ValueError(f"`timeout` must be a positive number of seconds, but is {timeout!r}.")
