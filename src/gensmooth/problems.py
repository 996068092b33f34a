"""Problems with known answers: the paper's linear regression and the noisy benchmark.

``problems.regression`` and ``problems.noisy`` are the models of the two studies under the names
that one looks for. Each has a ``run`` that follows the paper's protocol for any directions.
"""

import sys

from gensmooth.studies.dfo import model as noisy
from gensmooth.studies.linreg import model as regression

__all__ = ["noisy", "regression"]

# Importable as modules too: an objective may be named `gensmooth.problems.regression:point_loss`.
sys.modules[f"{__name__}.noisy"] = noisy
sys.modules[f"{__name__}.regression"] = regression
