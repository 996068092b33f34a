"""Under ``on_failure="raise"``: a value that is not finite is an error that says where."""

import numpy as np
from numpy.typing import NDArray

from gensmooth.batch import Batch
from gensmooth.evaluators import EvaluationError


def check_finite(batch: Batch, values: NDArray[np.float64]) -> None:
    """Name the first value that is not finite."""
    finite = np.isfinite(values)
    if finite.all():
        return
    first = int(finite.argmin())
    raise EvaluationError(
        f"The objective returned {values[first]} (on_failure='drop' would leave its direction "
        f"out), at {batch.describe(first)}.",
        step=batch.step,
        index=first,
        kind="non-finite",
    )
