"""One evaluation after the other, in this process."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators.objective import Objective, Where


@final
@dataclass(frozen=True)
class Serial:
    """Evaluates a batch here and now."""

    def evaluate(self, objective: Objective, batch: Batch) -> NDArray[np.float64]:
        """The values of a batch, in its order."""
        if objective.vectorized:
            return self._in_blocks(objective, batch)
        values = np.empty(len(batch))
        for index, point in enumerate(batch.points()):
            rng = batch.rng(index) if objective.sampled else None
            values[index] = objective.value(point, rng, Where(batch, index))
        return values

    def _in_blocks(self, objective: Objective, batch: Batch) -> NDArray[np.float64]:
        rows = objective.block_rows(batch.draw.dim)
        values = np.empty(len(batch))
        for start in range(0, len(batch), rows):
            stop = min(start + rows, len(batch))
            rngs = [batch.rng(i) for i in range(start, stop)] if objective.sampled else None
            where = Where(batch, start)
            values[start:stop] = objective.values(batch.block(start, stop), rngs, where)
        return values
