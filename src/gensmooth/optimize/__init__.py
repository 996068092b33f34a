"""``minimize``, ``resume`` and ``gradient``: a search, an evaluator, and a reason to stop."""

from gensmooth.optimize.estimate import gradient
from gensmooth.optimize.interface import minimize
from gensmooth.optimize.result import History, Reason, Result
from gensmooth.optimize.resuming import resume

__all__ = ["History", "Reason", "Result", "gradient", "minimize", "resume"]
