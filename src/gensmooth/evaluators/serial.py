"""Evaluation in this process, one point at a time."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import final

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated
from gensmooth.evaluators.faults import BatchResults, FaultPolicy
from gensmooth.evaluators.objective import Objective
from gensmooth.searches import Search, SearchState


@final
@dataclass(frozen=True)
class Serial:
    """Evaluates in this process, one point at a time.

    Args:
        retries: How often a failed evaluation is retried, with the same seeds.
    """

    retries: int = 0

    def __post_init__(self) -> None:
        checks.settle(self, retries=checks.count("retries", self.retries, 0))

    def session(
        self, search: Search, objective: Objective
    ) -> AbstractContextManager["SerialSession"]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        return nullcontext(SerialSession(objective, FaultPolicy(search.on_failure, self.retries)))


@final
class SerialSession:
    """See :class:`Serial`."""

    workers = 1

    def __init__(self, objective: Objective, policy: FaultPolicy) -> None:
        self._objective = objective
        self._policy = policy

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """See :class:`~gensmooth.evaluators.Session`."""
        results = BatchResults(self._policy, self._objective, batch)
        todo = results.todo[::-1]
        while todo:
            units = todo.pop()
            start, stop = results.span(units)
            values, failures = self._objective.values(
                batch, start, stop, go_on=self._policy.go_on, record=results.record
            )
            todo += results.add(units, values, failures)
        return results.evaluated()
