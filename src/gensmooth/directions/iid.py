r"""Directions with independent entries from any distribution of mean zero.

For variance :math:`v` and kurtosis :math:`k` of the entries the relative error of the estimate is
:math:`(v-1)^2 + v^2 (d+k-2)/L` (the paper's Lemma, eq. ``msepart1``): all that matters of a
distribution is :math:`v` and :math:`k`, and at :math:`v = 1` the smallest :math:`k` wins, which
is the fair coin's.
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
    """What :class:`IID` needs of a distribution; frozen SciPy distributions have it."""

    def ppf(self, q: Any, /) -> Any:
        """The quantile function."""
        ...

    def stats(self, moments: str = ..., /) -> Any:
        """Mean, variance and *excess* kurtosis for ``"mvk"``, as SciPy gives them."""
        ...


@final
@dataclass(frozen=True)
class IID(Directions):
    """Entries from any distribution with mean zero, such as ``IID(scipy.stats.laplace())``.

    Args:
        distribution: A frozen SciPy distribution, or anything with its ``ppf`` and ``stats``.
        standardize: Divide by the standard deviation, so that the variance is 1.

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
                f"`distribution` must have mean 0, but has {mean:g}: directions that lean one "
                "way give a wrong gradient. Shift it, for example with loc=."
            )

    def draw(self, state: State, at: Address) -> QuantileDraw:  # noqa: ARG002
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

    def variance(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """The distribution's, or 1 if it is standardised; known without a finite kurtosis, too."""
        return 1.0 if self.standardize else self._statistics[1]

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """The distribution's fourth standardised moment (SciPy's excess plus 3)."""
        kurtosis = self._statistics[2]
        if not math.isfinite(kurtosis):
            raise NoClosedForm(
                f"`distribution` has kurtosis {kurtosis}: its mean squared error is not finite."
            )
        return kurtosis

    @cached_property
    def _statistics(self) -> tuple[float, float, float]:
        """Mean, variance and kurtosis; SciPy takes a millisecond to find them."""
        mean, variance, excess = (float(v) for v in self.distribution.stats("mvk"))
        return mean, variance, excess + 3.0

    def _quantile(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.distribution.ppf(u), np.float64)


def _with_python_numbers(distribution: Any) -> Distribution:
    """A frozen SciPy distribution with Python's numbers: with NumPy's it may count in float32."""
    args, keywords = getattr(distribution, "args", ()), getattr(distribution, "kwds", {})
    if all(checks.python(value) is value for value in (*args, *keywords.values())):
        return distribution
    named = {name: checks.python(value) for name, value in keywords.items()}
    return distribution.dist(*map(checks.python, args), **named)
