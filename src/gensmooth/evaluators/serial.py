"""One evaluation after the other, in this process."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import final

from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated
from gensmooth.evaluators.faults import Ledger, Policy, Units, check_retries
from gensmooth.evaluators.objective import Objective
from gensmooth.search import RandomSearch, SearchState


@final
@dataclass(frozen=True)
class Serial:
    """Evaluates a batch here and now.

    Args:
        retries: How often a failed evaluation is tried again, with the same seeds.
    """

    retries: int = 0

    def __post_init__(self) -> None:
        check_retries(self.retries)

    def session(
        self, search: RandomSearch, objective: Objective
    ) -> AbstractContextManager["SerialSession"]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        return nullcontext(SerialSession(search, objective, self.retries))


@final
class SerialSession:
    """See :class:`Serial`."""

    workers = 1

    def __init__(self, search: RandomSearch, objective: Objective, retries: int) -> None:
        self._policy = Policy(search, retries)
        self._objective = objective

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:  # noqa: ARG002
        """See :class:`~gensmooth.evaluators.Session`."""
        ledger = Ledger(self._policy, self._objective, batch)
        todo: list[Units] = [(0, ledger.units)]
        while todo:
            units = todo.pop()
            start, stop = ledger.span(units)
            found = self._objective.values(batch, start, stop, patient=self._policy.patient)
            todo += ledger.settle(units, *found)
        return ledger.evaluated()
