"""How failed evaluations are handled: they are retried, dropped, or end the run.

Every evaluator collects the values of a batch in a :class:`BatchResults`, so ``retries`` and
``on_failure`` mean the same everywhere.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated, Failure
from gensmooth.evaluators.objective import Objective
from gensmooth.runs.journal import Journal, JournalEntry
from gensmooth.searches import FailurePolicy

_log = logging.getLogger("gensmooth")

# A unit is what one call of the objective evaluates: one evaluation, or a block of evaluations for
# a vectorised objective. It never depends on the workers. `Units` is a range of units.
Units = tuple[int, int]
Record = Callable[[int, NDArray[np.float64], float], None]


@final
@dataclass
class FaultPolicy:
    """How a session handles faults, and which kinds it has already logged.

    Args:
        on_failure: What happens when no retries are left.
        retries: How often a failed evaluation is retried.
    """

    on_failure: FailurePolicy
    retries: int
    _logged: set[str] = field(default_factory=set[str], init=False)

    @property
    def drop(self) -> bool:
        """Whether failed evaluations are dropped."""
        return self.on_failure == "drop"

    @property
    def go_on(self) -> bool:
        """Whether a batch continues after a failure."""
        return self.drop or self.retries > 0

    def log_once(self, kind: str, message: str) -> None:
        """Log the first fault of each kind."""
        if kind not in self._logged:
            self._logged.add(kind)
            _log.warning("%s. Further faults of this kind are counted but not logged.", message)


@final
class BatchResults:
    """Collects the values and faults of a batch as they arrive.

    Attributes:
        rows: The number of evaluations per unit.
        units: The number of units in the batch.
        missing: The number of units without a final result.
        todo: The units to evaluate, as ranges: all, except those whose results the journal has.
    """

    def __init__(self, policy: FaultPolicy, objective: Objective, batch: Batch) -> None:
        self.rows = objective.block_rows(batch.dim)
        self.units = -(-len(batch) // self.rows)
        self._policy = policy
        self._batch = batch
        self._values = objective.blank(len(batch))
        self._faults: Counter[str] = Counter()
        self._failures: Counter[int] = Counter()  # per unit
        self.todo: list[Units] = [(0, self.units)]
        self.missing = self.units
        self._objective = objective
        self._journal = journal = objective.journal
        if journal is not None and journal.has_stored:
            self._recall(self._open(journal))

    def _open(self, journal: Journal) -> JournalEntry:
        """Return the journal's entry for this batch, which most cheap batches never need."""
        return journal.open(self._batch, self._objective.columns)

    @property
    def record(self) -> Record | None:
        """Records values in the journal as they arrive; ``None`` without a journal."""
        # As an attribute it would be a reference cycle, which only the garbage collector frees.
        return None if self._journal is None else self._record

    def _record(self, start: int, values: NDArray[np.float64], seconds: float) -> None:
        assert self._journal is not None
        self._open(self._journal).put(start, values, seconds)

    def _recall(self, entry: JournalEntry) -> None:
        """Use the results that the journal has."""
        if entry.is_empty:
            return
        self._faults.update(entry.faults)
        known = np.ones(self.units * self.rows, bool)
        known[: len(entry.known)] = entry.known
        unknown = ~known.reshape(self.units, self.rows).all(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], unknown, [0]))))
        self.todo = [(first, last) for first, last in edges.reshape(-1, 2).tolist()]
        self._values[:] = entry.values
        self.missing = int(unknown.sum())

    def span(self, units: Units) -> tuple[int, int]:
        """The evaluations that belong to ``units``, as ``start, stop``."""
        return units[0] * self.rows, min(units[1] * self.rows, len(self._values))

    def add(
        self,
        units: Units,
        values: NDArray[np.float64],
        failures: list[Failure],
        seconds: float | None = None,
    ) -> list[Units]:
        """Add the values of ``units``.

        Args:
            units: The units.
            values: Their values; NaN where an evaluation failed.
            failures: The failures.
            seconds: How long it took; ``None`` if :attr:`record` has recorded them already.

        Returns:
            The units to evaluate again.

        Raises:
            EvaluationError: If a failure ends the run.
        """
        start, stop = self.span(units)
        if seconds is not None and self._journal is not None:
            self._record(start, values, seconds)
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
        return [(unit, unit + 1) for unit, entry in bad.items() if self.add_failure(*entry)]

    def add_failure(self, failure: Failure, count: int = 1) -> bool:
        """Record a failure of a unit that has no final result.

        Returns:
            Whether to evaluate the unit again.

        Raises:
            EvaluationError: If the failure ends the run.
        """
        self._faults[failure.kind] += count
        unit = failure.index // self.rows
        self._failures[unit] += 1
        retry = failure.kind != "return" and self._failures[unit] <= self._policy.retries
        if retry or (self._policy.drop and failure.kind != "return"):
            message = f"{failure.what}, at {self._batch.describe(failure.index)}"
            self._policy.log_once(failure.kind, message)  # a failure that is raised is not logged
        elif failure.kind != "non-finite":
            raise failure.error(self._batch, self._failures[unit])
        # A non-finite value is passed on to `tell`, which raises if it needs the value.
        self.missing -= not retry
        if self._journal is not None and (retry or self._policy.drop):
            dropped = range(0) if retry else range(*self.span((unit, unit + 1)))
            self._open(self._journal).fault(failure.kind, count, dropped)
        return retry

    def count(self, kind: str, message: str, count: int = 1) -> None:
        """Count faults and log the first one of each kind."""
        self._faults[kind] += count
        self._policy.log_once(kind, message)
        if self._journal is not None:
            self._open(self._journal).fault(kind, count)

    def evaluated(self) -> Evaluated:
        """The complete results of the batch."""
        values = self._values
        if values.ndim == 1:
            return Evaluated(values, dict(self._faults))
        return Evaluated(values[:, 0].copy(), dict(self._faults), values[:, 1:])


@final
class Queue:
    """The units still to be evaluated, handed out in ranges."""

    def __init__(self, ranges: list[Units]) -> None:
        self._ranges: deque[Units] = deque(ranges)
        self.left = sum(last - first for first, last in ranges)

    def take(self, count: int) -> Units | None:
        """Remove and return at most ``count`` consecutive units; ``None`` if the queue is empty."""
        if not self._ranges:
            return None
        first, last = self._ranges.popleft()
        middle = min(first + max(count, 1), last)
        if middle < last:
            self._ranges.appendleft((middle, last))
        self.left -= middle - first
        return first, middle

    def put(self, ranges: list[Units]) -> None:
        """Append ranges of units to evaluate again; each range is handed out separately."""
        self._ranges.extend(ranges)
        self.left += sum(last - first for first, last in ranges)

    def put_first(self, units: list[int]) -> None:
        """Prepend units to evaluate again before all others, one at a time."""
        self._ranges.extendleft((unit, unit + 1) for unit in reversed(units))
        self.left += len(units)

    def clear(self) -> None:
        """Remove all units."""
        self._ranges.clear()
        self.left = 0
