"""What becomes of evaluations that fail: they are tried again, dropped, or end the run.

Every evaluator collects a batch in one :class:`BatchResults`, so that ``retries`` and
``on_failure`` mean the same everywhere.
"""

import logging
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated, Failure
from gensmooth.evaluators.objective import Objective
from gensmooth.search import FailurePolicy

_log = logging.getLogger("gensmooth")

# A unit is what one call of the objective evaluates: an evaluation, or a block of them for a
# vectorised objective. It never depends on the workers. This is a range of units.
Units = tuple[int, int]


@final
@dataclass
class FaultPolicy:
    """What a session does about faults, and which kinds it has already logged.

    Args:
        on_failure: What happens when no retry is left.
        retries: How often a failed evaluation is tried again.
    """

    on_failure: FailurePolicy
    retries: int
    _logged: set[str] = field(default_factory=set[str], init=False)

    @property
    def drop(self) -> bool:
        """Whether evaluations that fail are left out."""
        return self.on_failure == "drop"

    @property
    def go_on(self) -> bool:
        """Whether a batch goes on after a failure."""
        return self.drop or self.retries > 0

    def log_once(self, kind: str, words: str) -> None:
        """Log the first fault of each kind."""
        if kind not in self._logged:
            self._logged.add(kind)
            _log.warning("%s. Further events of this kind are counted, not logged.", words)


@final
class BatchResults:
    """The values of a batch as they come in, and the faults on the way.

    Attributes:
        rows: Evaluations per unit.
        units: How many units the batch has.
        missing: How many of them have no final result yet.
    """

    def __init__(self, policy: FaultPolicy, objective: Objective, batch: Batch) -> None:
        self.rows = objective.block_rows(batch.dim)
        self.units = -(-len(batch) // self.rows)
        self.missing = self.units
        self._policy = policy
        self._batch = batch
        self._values = objective.blank(len(batch))
        self._faults: Counter[str] = Counter()
        self._failures: Counter[int] = Counter()  # of each unit

    def span(self, units: Units) -> tuple[int, int]:
        """The evaluations of some units, as ``start, stop``."""
        return units[0] * self.rows, min(units[1] * self.rows, len(self._values))

    def add(
        self, units: Units, values: NDArray[np.float64], failures: list[Failure]
    ) -> list[Units]:
        """Enter the values of some units; returns the units to do again.

        Raises:
            EvaluationError: When a failure ends the run.
        """
        start, stop = self.span(units)
        self._values[start:stop] = values
        values = values if values.ndim == 1 else values[:, 0]
        if not failures and np.isfinite(values).all():
            self.missing -= units[1] - units[0]
            return []
        bad = {failure.index // self.rows: (failure, 1) for failure in failures}
        for index in (np.flatnonzero(~np.isfinite(values)) + start).tolist():
            what = f"The objective returned {values[index - start]}"
            failure, count = bad.get(index // self.rows, (Failure(index, "non-finite", what), 0))
            if failure.kind == "non-finite":
                bad[index // self.rows] = failure, count + 1
        self.missing -= units[1] - units[0] - len(bad)
        return [(unit, unit + 1) for unit, found in bad.items() if self.add_failure(*found)]

    def add_failure(self, failure: Failure, count: int = 1) -> bool:
        """Enter a failure of a unit that is missing; returns whether to do it again.

        Raises:
            EvaluationError: When the failure ends the run.
        """
        self._faults[failure.kind] += count
        unit = failure.index // self.rows
        self._failures[unit] += 1
        again = failure.kind != "return" and self._failures[unit] <= self._policy.retries
        if again or (self._policy.drop and failure.kind != "return"):
            words = f"{failure.what}, at {self._batch.describe(failure.index)}"
            self._policy.log_once(failure.kind, words)  # else it is raised, and not logged too
        elif failure.kind != "non-finite":
            raise failure.error(self._batch, self._failures[unit])
        # A value that is not finite goes on to `tell`, which raises where values are used.
        self.missing -= not again
        return again

    def count(self, kind: str, words: str, count: int = 1) -> None:
        """Count faults, and log the first of their kind."""
        self._faults[kind] += count
        self._policy.log_once(kind, words)

    def evaluated(self) -> Evaluated:
        """The batch, complete."""
        values = self._values
        if values.ndim == 1:
            return Evaluated(values, dict(self._faults))
        return Evaluated(values[:, 0].copy(), dict(self._faults), values[:, 1:])


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

    def put_first(self, units: list[int]) -> None:
        """Units to do again before all others, each by itself."""
        self._ranges.extendleft((unit, unit + 1) for unit in reversed(units))
        self.left += len(units)

    def clear(self) -> None:
        """Nothing left to do."""
        self._ranges.clear()
        self.left = 0
