"""``minimize``, ``resume`` and ``gradient``: a search, an evaluator, and a reason to stop."""

from gensmooth.optimize.front import minimize, resume
from gensmooth.optimize.gradient import gradient
from gensmooth.optimize.program import RETURNED, Minimization, MinimizeState

__all__ = ["RETURNED", "Minimization", "MinimizeState", "gradient", "minimize", "resume"]
