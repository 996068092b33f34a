r"""Directions with independent, identically distributed entries.

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

from gensmooth import theory
from gensmooth.directions.base import Directions, NoClosedForm, State
from gensmooth.directions.draw import Draw, KernelDraw, QuantileDraw, normals, signs, stream_key
from gensmooth.streams import Purpose


@final
@dataclass(frozen=True)
class Gaussian(Directions):
    """Standard normal entries: Gaussian smoothing (GS).

    >>> Gaussian().kurtosis(dim=100, num_directions=20)
    3.0
    """

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        key = stream_key(seed, Purpose.DIRECTION, step)
        return normals(key, num_directions, dim, dtype)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.iid(dim, num_directions, kurtosis=3.0)

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """Three."""
        return 3.0


@final
@dataclass(frozen=True)
class Bernoulli(Directions):
    r"""Entries :math:`(B_p - p)/m`, :math:`B_p` a coin that shows one with probability p: BeS.

    Args:
        p: The coin's probability; ½ has the smallest kurtosis of all distributions, 1.
        m: The divisor; by default the coin's standard deviation, so that the variance is 1.

    >>> Bernoulli().kurtosis(dim=100, num_directions=20)
    1.0
    """

    p: float = 0.5
    m: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise ValueError(f"`p` must be between 0 and 1, but is {self.p}.")
        if self.m is not None and not (self.m > 0 and math.isfinite(self.m)):
            raise ValueError(f"`m` must be positive, but is {self.m}.")

    @cached_property
    def divisor(self) -> float:
        """m, filled in."""
        return math.sqrt(self.p * (1 - self.p)) if self.m is None else self.m

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> Draw:
        """See :meth:`Directions.draw`."""
        key = stream_key(seed, Purpose.DIRECTION, step)
        if self.p == 0.5:
            return signs(key, num_directions, dim, dtype, 0.5 / self.divisor)
        return QuantileDraw(
            lambda u: np.where(u < self.p, 1 - self.p, -self.p),
            key,
            num_directions=num_directions,
            dim=dim,
            dtype=dtype,
            scale=1 / self.divisor,
        )

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        entry = theory.bernoulli_moments(self.p, self.divisor)
        return theory.iid(dim, num_directions, variance=entry.variance, kurtosis=entry.kurtosis)

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """3 + (1 − 6p(1−p)) / (p(1−p))."""
        return theory.bernoulli_moments(self.p, self.divisor).kurtosis


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
                f"scipy.stats.laplace(), but is {self.distribution!r}."
            )
        mean, variance, _ = self._statistics
        if not (variance > 0 and math.isfinite(variance)):
            raise ValueError(f"`distribution` must have a finite variance, but has {variance}.")
        if abs(mean) > 1e-9 * math.sqrt(variance):
            raise ValueError(
                f"`distribution` must have mean 0, but has {mean:g}: directions that lean one "
                "way give a wrong gradient. Shift it, for example with loc=."
            )

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> QuantileDraw:
        """See :meth:`Directions.draw`."""
        variance = self._statistics[1]
        return QuantileDraw(
            self._quantile,
            stream_key(seed, Purpose.DIRECTION, step),
            num_directions=num_directions,
            dim=dim,
            dtype=dtype,
            scale=1 / math.sqrt(variance) if self.standardize else 1.0,
        )

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        variance = 1.0 if self.standardize else self._statistics[1]
        return theory.iid(
            dim, num_directions, variance=variance, kurtosis=self.kurtosis(dim, num_directions)
        )

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
