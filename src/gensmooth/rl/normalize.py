r"""Observation standardisation after Mania et al. (2018): running mean and standard deviation.

The statistics are frozen within a step. Between steps, the moments of the episodes are merged in
the order of the batch, so the result does not depend on which worker ran which episode.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A deviation below these is rounding error, not variation: dividing by it would amplify noise.
_SMALLEST = 1e-7  # absolute, as in ARS
_RELATIVE = 1e-13  # relative to the mean


class Scaling(NamedTuple):
    """The transformation of an observation before it reaches the policy: ``(o - mean) * inverse``.

    Attributes:
        mean: The mean of each coordinate.
        inverse: One over the standard deviation of each coordinate.
    """

    mean: Array
    inverse: Array

    def __call__(self, observation: Array) -> Array:
        """Return the standardised observation."""
        return (observation - self.mean) * self.inverse


class EpisodeMoments(NamedTuple):
    """Moments of the observations of several episodes, one row per episode.

    Attributes:
        counts: The number of observations in each episode, shape (B,).
        means: Their means, shape (B, n).
        m2: Their sums of squared deviations from their own mean, shape (B, n).
    """

    counts: NDArray[np.int64]
    means: Array
    m2: Array


class Statistics(NamedTuple):
    """Moments of all observations so far.

    Attributes:
        seen: The number of observations.
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
        r"""Merge the moments of more episodes, in the order of their rows.

        This is the formula of Chan, Golub & LeVeque (1983) for all parts at once, with
        :math:`n = \sum n_i`:

        .. math:: \mu = \mu_0 + \sum_i \frac{n_i}{n} (\mu_i - \mu_0), \qquad
            M = \sum_i M_i + \sum_i n_i (\mu_i - \mu)^2.

        Means are computed relative to one of them, so a coordinate that never varied keeps
        :math:`M = 0` exactly. Rows without observations are ignored, whatever they contain.
        """
        count = np.concatenate(([self.seen], moments.counts))
        mean = np.concatenate((self.mean[None], moments.means))
        m2 = np.concatenate((self.m2[None], moments.m2))
        if not (nonempty := count > 0).all():
            count, mean, m2 = count[nonempty], mean[nonempty], m2[nonempty]
        if not len(count):
            return self
        total = int(count.sum())
        # Sums along the first axis run row by row, always in the order of the batch.
        merged = mean[0] + ((mean - mean[0]) * (count / total)[:, None]).sum(axis=0)
        between = ((mean - merged) ** 2 * count[:, None]).sum(axis=0)
        return Statistics(total, merged, m2.sum(axis=0) + between)

    def deviation(self) -> Array:
        """Return the standard deviation of each coordinate; 0 before the second observation."""
        return np.sqrt(self.m2 / max(self.seen - 1, 1))

    def scaling(self) -> Scaling:
        """Return the scaling to mean 0 and deviation 1.

        Coordinates that never varied are left unchanged, as are all before the first observation.
        """
        deviation = self.deviation()
        varies = deviation > np.maximum(_SMALLEST, _RELATIVE * np.abs(self.mean))
        inverse = np.ones_like(deviation)
        np.divide(1.0, deviation, out=inverse, where=varies)
        return Scaling(np.where(varies, self.mean, 0.0), inverse)


def statistics(size: int) -> Statistics:
    """Return the statistics before the first observation, for observations of ``size`` entries."""
    return Statistics(0, np.zeros(size), np.zeros(size))


def identity(size: int) -> Scaling:
    """Return the identity scaling."""
    return Scaling(np.zeros(size), np.ones(size))
