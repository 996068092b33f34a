"""Methods side by side on one function: equal evaluations, the same seeds, verdicts, one page.

:func:`compare` compares methods, and :func:`sweep` the options of one or of several.
"""

from gensmooth.comparisons.comparing import Comparison, compare
from gensmooth.comparisons.problems import BUILT_IN
from gensmooth.comparisons.ranking import Standing, Versus
from gensmooth.comparisons.sweeping import Sweep, sweep

__all__ = ["BUILT_IN", "Comparison", "Standing", "Sweep", "Versus", "compare", "sweep"]
