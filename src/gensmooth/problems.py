"""Test problems with known solutions: the paper's linear regression and the noisy benchmark.

``problems.regression`` and ``problems.noisy`` are short names of the models of two studies. Each
has a ``run`` that follows the paper's protocol for any directions.
"""

from gensmooth.lab.paper.dfo import model as noisy
from gensmooth.lab.paper.linreg import model as regression

__all__ = ["noisy", "regression"]
