r"""Directions with independent entries from any distribution of mean zero.

If the entries have variance :math:`v` and kurtosis :math:`k`, the relative error of the estimate is
:math:`(v-1)^2 + v^2 (d+k-2)/L` (the paper's Lemma, eq. ``msepart1``). It depends on the
distribution only through :math:`v` and :math:`k`. At :math:`v = 1`, the smallest :math:`k` is best,
which is that of a fair coin.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, theory
from gensmooth.directions.base import Directions, NoClosedForm, State
from gensmooth.directions.draw import Address, QuantileDraw, quantiles


class Distribution(Protocol):
    """The interface that :class:`IID` requires; frozen SciPy distributions have it."""

    def ppf(self, q: Any, /) -> Any:
        """Return the quantiles."""
        ...

    def stats(self, moments: str = ..., /) -> Any:
        """Return mean, variance and *excess* kurtosis for ``"mvk"``, as in SciPy."""
        ...


@final
@dataclass(frozen=True)
class IID(Directions):
    """Independent entries from any distribution with mean zero.

    Args:
        distribution: A frozen SciPy distribution, such as ``scipy.stats.laplace()``, or any object
            with its ``ppf`` and ``stats``.
        standardize: Whether to divide by the standard deviation, which makes the variance 1.

    >>> import scipy.stats
    >>> IID(scipy.stats.laplace()).kurtosis(dim=100, num_directions=20)
    6.0
    """

    distribution: Distribution
    standardize: bool = True

    def __post_init__(self) -> None:
        if not (hasattr(self.distribution, "ppf") and hasattr(self.distribution, "stats")):
            raise TypeError(
                "`distribution` must have SciPy's `ppf` and `stats`, such as "
                f"scipy.stats.laplace(), but is {checks.shown(self.distribution)}."
            )
        if hasattr(self.distribution, "freeze"):
            raise TypeError(
                "`distribution` must be a frozen SciPy distribution: call it with its parameters, "
                "as in scipy.stats.laplace() or scipy.stats.t(df=5)."
            )
        checks.settle(
            self,
            distribution=_with_python_numbers(self.distribution),
            standardize=checks.flag("standardize", self.standardize),
        )
        mean, variance, _ = self._statistics
        if not (variance > 0 and math.isfinite(variance)):
            raise ValueError(f"`distribution` must have a finite variance, but has {variance}.")
        if abs(mean) > 1e-9 * math.sqrt(variance):
            raise ValueError(
                f"`distribution` must have mean 0, but has {mean:g}, which would bias the "
                "gradient: shift it, for example with loc=."
            )

    def draw(self, state: State, at: Address) -> QuantileDraw:
        """See :meth:`Directions.draw`."""
        variance = self._statistics[1]
        scale = 1 / math.sqrt(variance) if self.standardize else 1.0
        return quantiles(at, self._quantile, scale)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        variance = 1.0 if self.standardize else self._statistics[1]
        return theory.iid(
            dim, num_directions, variance=variance, kurtosis=self.kurtosis(dim, num_directions)
        )

    def variance(self, dim: int, num_directions: int) -> float:
        """Return the distribution's variance, or 1 if it is standardised."""
        return 1.0 if self.standardize else self._statistics[1]

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return the distribution's fourth standardised moment (SciPy's excess kurtosis plus 3)."""
        kurtosis = self._statistics[2]
        if not math.isfinite(kurtosis):
            raise NoClosedForm(
                f"`distribution` has kurtosis {kurtosis}, so its mean squared error is not finite."
            )
        return kurtosis

    @cached_property
    def _statistics(self) -> tuple[float, float, float]:
        """Mean, variance and kurtosis, cached because SciPy takes a millisecond to compute them."""
        mean, variance, excess = (float(v) for v in self.distribution.stats("mvk"))
        return mean, variance, excess + 3.0

    def _quantile(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.distribution.ppf(u), np.float64)


def _with_python_numbers(distribution: Any) -> Distribution:
    """Convert a frozen SciPy distribution's NumPy numbers, which could make it use float32."""
    args, keywords = getattr(distribution, "args", ()), getattr(distribution, "kwds", {})
    if all(checks.python(value) is value for value in (*args, *keywords.values())):
        return distribution
    named = {name: checks.python(value) for name, value in keywords.items()}
    return distribution.dist(*map(checks.python, args), **named)
