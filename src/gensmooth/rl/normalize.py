r"""Observation standardisation after Mania et al. (2018): running mean and standard deviation.

The statistics are frozen within an iteration and merged between iterations, from the moments of
each episode in the order of the batch: the result does not depend on which worker ran which.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A deviation below this is rounding, not variation: dividing by it would blow noise up.
_SMALLEST = 1e-7  # absolute, as in ARS
_RELATIVE = 1e-13  # of the size of the mean


class Scaling(NamedTuple):
    """What is done to an observation before the policy sees it: ``(o - mean) * inverse``.

    Attributes:
        mean: One entry per coordinate.
        inverse: One over the standard deviation.
    """

    mean: Array
    inverse: Array

    def __call__(self, observation: Array) -> Array:
        """The standardised observation."""
        return (observation - self.mean) * self.inverse


class EpisodeMoments(NamedTuple):
    """Moments of the observations of several episodes, one row per episode.

    Attributes:
        counts: Observations of each episode, shape (B,).
        means: Their means, shape (B, n).
        m2: Their sums of squared deviations from their own mean, shape (B, n).
    """

    counts: NDArray[np.int64]
    means: Array
    m2: Array


class Statistics(NamedTuple):
    """Moments of all observations so far.

    Attributes:
        seen: How many there are.
        mean: Their mean.
        m2: The sum of their squared deviations from it.

    >>> one = EpisodeMoments(np.array([2]), np.array([[1.0]]), np.array([[2.0]]))  # 0, 2
    >>> statistics(1).merged(one).merged(one)
    Statistics(seen=4, mean=array([1.]), m2=array([4.]))
    """

    seen: int
    mean: Array
    m2: Array

    def merged(self, moments: EpisodeMoments) -> "Statistics":
        r"""The statistics with the moments of more episodes, in the order of their rows.

        Chan, Golub & LeVeque (1983), for all parts at once, :math:`n = \sum n_i`:

        .. math:: \mu = \mu_0 + \sum_i \frac{n_i}{n} (\mu_i - \mu_0), \qquad
            M = \sum_i M_i + \sum_i n_i (\mu_i - \mu)^2.

        Means are taken relative to one of them, so a coordinate that never varied keeps
        :math:`M = 0` exactly. Rows of no observations are ignored, whatever they hold.
        """
        count = np.concatenate(([self.seen], moments.counts))
        mean = np.concatenate((self.mean[None], moments.means))
        m2 = np.concatenate((self.m2[None], moments.m2))
        if not (some := count > 0).all():
            count, mean, m2 = count[some], mean[some], m2[some]
        if not len(count):
            return self
        total = int(count.sum())
        # Sums along the first axis run row after row: the order of the batch, always.
        merged = mean[0] + ((mean - mean[0]) * (count / total)[:, None]).sum(axis=0)
        between = ((mean - merged) ** 2 * count[:, None]).sum(axis=0)
        return Statistics(total, merged, m2.sum(axis=0) + between)

    def deviation(self) -> Array:
        """The standard deviation of each coordinate; 0 before the second observation."""
        return np.sqrt(self.m2 / max(self.seen - 1, 1))

    def scaling(self) -> Scaling:
        """The scaling to mean 0 and deviation 1.

        Coordinates that never varied stay as they are; before the first observation, all do.
        """
        deviation = self.deviation()
        varies = deviation > np.maximum(_SMALLEST, _RELATIVE * np.abs(self.mean))
        inverse = np.ones_like(deviation)
        np.divide(1.0, deviation, out=inverse, where=varies)
        return Scaling(np.where(varies, self.mean, 0.0), inverse)


def statistics(size: int) -> Statistics:
    """The statistics of no observations, each of ``size`` entries."""
    return Statistics(0, np.zeros(size), np.zeros(size))


def identity(size: int) -> Scaling:
    """The scaling that changes nothing."""
    return Scaling(np.zeros(size), np.ones(size))
