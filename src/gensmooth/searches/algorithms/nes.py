r"""The utilities of the natural evolution strategies.

Wierstra, Schaul, Glasmachers, Sun, Peters & Schmidhuber, "Natural evolution strategies" (Journal of
Machine Learning Research 15, 2014), section 3.1 and table 1.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels


@lru_cache(maxsize=128)
def utilities(number: int) -> NDArray[np.float64]:
    r"""Return the utilities of λ values, best first; they sum to 0.

    .. math:: u_k = \frac{\max(0, \log(\lambda/2 + 1) - \log k)}
              {\sum_j \max(0, \log(\lambda/2 + 1) - \log j)} - \frac1\lambda

    >>> utilities(4).round(3)
    array([ 0.48,  0.02, -0.25, -0.25])
    """
    k = np.arange(1, number + 1)
    raw = np.maximum(0.0, math.log(number / 2 + 1) - np.log(k))
    return raw / raw.sum() - 1 / number


def weigh(values: NDArray[np.float64], kept: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Return the utility of each value; tied values share theirs, and values not kept get 0."""
    weights, share_out = np.zeros(len(values)), kernels.on_ranks().share_out
    if kept is None:
        share_out(values, utilities(len(values)), weights)
        return weights
    of_kept = np.empty(int(np.count_nonzero(kept)))
    share_out(values[kept], utilities(len(of_kept)), of_kept)
    weights[kept] = of_kept
    return weights
