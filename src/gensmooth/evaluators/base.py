"""What an evaluator is: something that opens a session on a search and an objective.

A session lives as long as a run: workers are started once, get the search and the objective once,
and per step only what changed. To add an evaluator of your own, implement these two methods.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators.objective import Objective
from gensmooth.search import RandomSearch, SearchState


class Evaluated(NamedTuple):
    """The values of a batch.

    Attributes:
        values: In the order of the batch; NaN for an evaluation that failed and was let go.
        faults: How many events of each kind there were, such as ``{"exception": 2, "timeout": 1}``.
        extras: What an objective with ``extras`` returned beside its values, a row an evaluation.
    """

    values: NDArray[np.float64]
    faults: Mapping[str, int]
    extras: NDArray[np.float64] | None = None


class Session(Protocol):
    """Workers at the ready."""

    @property
    def workers(self) -> int:
        """How many are alive."""
        ...

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """The values of ``batch``, which was asked from ``state``."""
        ...


class Evaluator(Protocol):
    """Where and how the objective is called."""

    def session(
        self, search: RandomSearch, objective: Objective
    ) -> AbstractContextManager[Session]:
        """Start workers for a run; leaving the context stops them."""
        ...
