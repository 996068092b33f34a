"""Problems with known answers: the paper's linear regression and the noisy benchmark.

``problems.regression`` and ``problems.noisy`` are the models of the two studies under the names
that one looks for. Each has a ``run`` that follows the paper's protocol for any directions.
"""

from gensmooth.studies.dfo import model as noisy
from gensmooth.studies.linreg import model as regression

__all__ = ["noisy", "regression"]
