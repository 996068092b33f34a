r"""Estimators: where the objective is evaluated, and how values become a weight per direction.

An estimate is :math:`\frac{1}{cL} \sum_l \delta_l \epsilon_l`. An estimator lays out the
evaluations of a step (a :class:`Plan`) and turns their values into the :math:`\delta_l`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels, theory

Samples = Literal["shared", "paired", "independent"]
SAMPLE_MODES: tuple[Samples, ...] = ("shared", "paired", "independent")


class Plan(NamedTuple):
    """The evaluations of one step, in order; all arrays have one entry per evaluation.

    Attributes:
        direction: Which direction l the point lies on.
        side: +1, −1 or 0: the point is x + side · c · ε_l.
        sample: Which sample ξ of the step is used: equal numbers share their noise.
    """

    direction: NDArray[np.int64]
    side: NDArray[np.int64]
    sample: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The three arrays as a tuple (``len`` of a plan is its number of evaluations)."""
        return self.direction, self.side, self.sample


# The δ_l of each direction (NaN if a value that it needs is not finite), and the mean of the values
# that represent the objective at x.
Differences = tuple[NDArray[np.float64], float]


class Estimator(ABC):
    """Lays out the evaluations of a step and turns their values into weights.

    Attributes:
        by_rank: Whether it treats the smallest value as the best. A search that maximises negates
            the values before it passes them to such an estimator.
    """

    by_rank: ClassVar[bool] = False

    @abstractmethod
    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return the points of a step in order, each as (direction, side)."""

    @abstractmethod
    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """Return δ, computed from the mean value at each of :meth:`points`."""

    def variances(
        self, variances: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> NDArray[np.float64]:
        """Return the part of each δ's variance that comes from the noise of the values.

        Args:
            variances: The variance of the mean value at each of :meth:`points`.
            num_directions: L.
            samples: How the samples are drawn.
        """
        sides = np.array([side for _, side in self.points(num_directions, samples)])
        directions = np.array([index for index, _ in self.points(num_directions, samples)])
        moved = np.bincount(directions[sides != 0], variances[sides != 0], num_directions)
        if (sides == 0).sum() == 1:
            return moved + variances[sides == 0]
        center = np.bincount(directions[sides == 0], variances[sides == 0], num_directions)
        two_sided = (sides == -1).any()
        return (moved + center) / (4 if two_sided else 1)

    def evaluations(
        self, num_directions: int, *, num_samples: int = 1, samples: Samples | None = None
    ) -> int:
        """Return the number of evaluations that a step needs.

        >>> estimator = ForwardDifference()
        >>> estimator.evaluations(20), estimator.evaluations(20, samples="paired")
        (21, 40)
        """
        return len(self.points(num_directions, samples)) * num_samples


@final
@dataclass(frozen=True)
class OnePoint(Estimator):
    r"""One value per direction (eq. ``gsestimator``): :math:`\delta_l = F(x + c\epsilon_l) - b`.

    Args:
        baseline: b. ``None`` means 0, as in the paper. A number near F(x) removes most of the
            variance. ``"others"`` uses the mean of the other directions' values: it removes the
            variance, needs no guess, and does not change the mean of the estimate.
    """

    baseline: float | Literal["others"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.baseline, str) and self.baseline != "others":
            raise ValueError(
                f"`baseline` must be a number, 'others' or None, but is {self.baseline!r}."
            )
        if self.baseline is not None and not isinstance(self.baseline, str):
            checks.settle(self, baseline=checks.finite("baseline", self.baseline))

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return x + c ε_l for each l."""
        if self.baseline == "others" and num_directions < 2:
            raise ValueError("baseline='others' needs at least 2 directions, but there is 1.")
        return [(direction, 1) for direction in range(num_directions)]

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`OnePoint`."""
        finite = means[np.isfinite(means)]
        value = float(finite.mean()) if len(finite) else float("nan")
        if self.baseline is None:
            return means, value
        if isinstance(self.baseline, str):
            # v_l − mean of the others = (v_l − mean of all) · n/(n−1)
            n = len(finite)
            return (means - value) * (n / max(n - 1, 1)), value
        return means - self.baseline, value


@final
@dataclass(frozen=True)
class ForwardDifference(Estimator):
    r"""Forward differences from the centre (eq. ``fdempirical``).

    :math:`\delta_l = F(x + c\epsilon_l) - F(x)`. With shared samples, or none, the centre is
    evaluated once per step; otherwise once for each direction. If the only value at the centre is
    not finite (and failures are dropped), the mean of the other directions' values replaces it, as
    in :class:`OnePoint`, so that the mean of the estimate does not change.
    """

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return the centre and then x + c ε_l for each l; or both points for each l."""
        if samples in (None, "shared"):
            return [(0, 0), *((direction, 1) for direction in range(num_directions))]
        return [(direction, side) for direction in range(num_directions) for side in (1, 0)]

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`ForwardDifference`."""
        if samples is None or samples == "shared":
            center = means.item(0)
            if not math.isfinite(center):
                return OnePoint("others").differences(means[1:], num_directions, samples)
            return means[1:] - center, center
        pairs = means.reshape(num_directions, 2)
        return pairs[:, 0] - pairs[:, 1], _finite_mean(pairs[:, 1])


@final
@dataclass(frozen=True)
class Antithetic(Estimator):
    r"""Central differences along each direction (eq. ``atempirical``).

    :math:`\delta_l = \frac12 (F(x + c\epsilon_l) - F(x - c\epsilon_l))`. On quadratics it is exact
    for any spacing.
    """

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return x + c ε_l and x − c ε_l for each l."""
        return [(direction, side) for direction in range(num_directions) for side in (1, -1)]

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`Antithetic`."""
        pairs = means.reshape(num_directions, 2)
        return 0.5 * (pairs[:, 0] - pairs[:, 1]), _finite_mean(pairs.ravel())


@final
@dataclass(frozen=True)
class Ranked(Estimator):
    r"""Both sides of each direction, weighted by their rank among all 2L values.

    With :math:`w_\pm` the :func:`~gensmooth.theory.rank_weights` of the values at
    :math:`x \pm c\epsilon_l`, the smallest value first,
    :math:`\delta_l = -L\,(w_+ - w_-)`, so that the estimate is

    .. math:: \frac1{cL}\sum_l\delta_l\epsilon_l
              = -\frac1c\sum_l(w_+ - w_-)\,\epsilon_l ,

    which is minus the step of a mirrored evolution strategy divided by c: ``gs.sgd(c**2)`` makes
    that step. Tied values share their weights. Only the order of the values matters: an increasing
    transformation of the objective leaves the estimate bit-identical, and a few outliers do no
    harm. The length of the estimate says nothing about the length of the gradient.

    A pair with a value that is not finite is left out, as if it had never been requested. The
    standard error treats pairs as independent, although ranks within a step are slightly dependent;
    with shared samples there is no standard error.

    >>> values = np.array([3.0, 1.0, 2.0, 5.0])  # at x + cε_1, x − cε_1, x + cε_2, x − cε_2
    >>> delta, value = Ranked().differences(values, 2, None)
    >>> np.array_equal(delta, Ranked().differences(np.exp(values), 2, None)[0])
    True
    >>> delta.round(2)
    array([ 1.61, -0.39])
    """

    by_rank: ClassVar[bool] = True

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return x + c ε_l and x − c ε_l for each l."""
        return _ANTITHETIC.points(num_directions, samples)

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`Ranked`."""
        pairs = means.reshape(num_directions, 2)
        kept = np.isfinite(pairs).all(axis=1)
        used = int(np.count_nonzero(kept))
        delta = np.full(num_directions, np.nan)
        if used:
            weights = rank(pairs[kept].ravel(), _rank_weights(2 * used)).reshape(used, 2)
            delta[kept] = used * (weights[:, 1] - weights[:, 0])
        return delta, _finite_mean(means)


@final
@dataclass(frozen=True)
class CenteredRanks(Estimator):
    r"""Both sides of each direction, weighted by their centred ranks among all 2L values.

    The fitness shaping of Salimans et al. (2017): the worst value has the utility
    :math:`u = -\frac12`, the best :math:`+\frac12`, and the others are equally spaced. With
    :math:`u_\pm` the utilities at :math:`x \pm c\epsilon_l`,
    :math:`\delta_l = -\frac12 (u_+ - u_-)`. Tied values share their utilities. A pair with a value
    that is not finite is left out, as if it had never been requested. The notes on :class:`Ranked`
    about transformations, outliers and the standard error apply here too.

    >>> values = np.array([3.0, 1.0, 2.0, 5.0])  # u = −1/6, 1/2, 1/6, −1/2
    >>> CenteredRanks().differences(values, 2, None)[0].round(3)
    array([ 0.333, -0.333])
    """

    by_rank: ClassVar[bool] = True

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return x + c ε_l and x − c ε_l for each l."""
        return _ANTITHETIC.points(num_directions, samples)

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`CenteredRanks`."""
        delta = np.empty(num_directions)
        return delta, kernels.on_ranks().centered_ranks(means, delta)


@final
@dataclass(frozen=True)
class BestPairs(Estimator):
    r"""The b pairs with the best values, divided by the standard deviation of their 2b values.

    The update of ARS (Mania, Guy & Recht, 2018, algorithm 2, for minimisation). Directions are
    sorted by :math:`\min\{F(x + c\epsilon_l), F(x - c\epsilon_l)\}` and, with
    :math:`\sigma_R` the standard deviation of the values of the first b,

    .. math:: \delta_l = \frac{L}{b}\,
              \frac{F(x + c\epsilon_l) - F(x - c\epsilon_l)}{2\sigma_R}
              \quad\text{for these b, and 0 for the others.}

    The estimate is about :math:`\nabla F / \sigma_R`, and ``gs.sgd(2 * alpha * c)`` makes the step
    of ARS, :math:`\frac{\alpha}{b\sigma_R}\sum (F_+ - F_-)\,\epsilon`. Its length does not depend
    on the units of the objective. A pair with a value that is not finite is left out. If all values
    are equal, the estimate is zero. The standard error treats pairs as independent, although
    selecting among them makes them dependent; with shared samples there is no standard error.

    Args:
        number: b. By default, all pairs.

    >>> values = np.array([3.0, 1.0, 2.0, 5.0])
    >>> BestPairs(1).differences(values, 2, None)[0]  # the first has the best value, 1; σ_R = 1
    array([2., 0.])
    """

    number: int | None = None
    by_rank: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.settle(self, number=checks.optional(checks.count, "number", self.number))

    def points(self, num_directions: int, samples: Samples | None) -> list[tuple[int, int]]:
        """Return x + c ε_l and x − c ε_l for each l."""
        if self.number is not None and self.number > num_directions:
            raise ValueError(
                f"BestPairs({self.number}) needs at least {self.number} directions, but "
                f"`num_directions` is {num_directions}."
            )
        return _ANTITHETIC.points(num_directions, samples)

    def differences(
        self, means: NDArray[np.float64], num_directions: int, samples: Samples | None
    ) -> Differences:
        """See :class:`BestPairs`."""
        delta = np.empty(num_directions)
        return delta, kernels.on_ranks().best_pairs(means, self.number or 0, delta)


_ANTITHETIC = Antithetic()


def rank(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each value by its rank; tied values get the mean of their weights.

    Args:
        values: The values, in any order; the smallest is the best.
        weights: One weight per rank, best first.

    >>> rank(np.array([7.0, 5.0, 7.0]), np.array([0.5, 0.25, 0.25]))
    array([0.25, 0.5 , 0.25])
    """
    order = np.argsort(values, kind="stable")
    assigned = np.empty(len(values))
    assigned[order] = weights
    ordered = values[order]
    if (ordered[1:] == ordered[:-1]).any():  # ties
        _, group = np.unique(values, return_inverse=True)
        total = np.bincount(group, assigned)
        assigned = (total / np.bincount(group))[group]
    return assigned


@lru_cache(maxsize=128)
def _rank_weights(num_values: int) -> NDArray[np.float64]:
    return np.array(theory.rank_weights(num_values))


# The names that may be passed instead of an estimator.
ESTIMATORS: dict[str, Estimator] = {
    "forward": ForwardDifference(),
    "antithetic": Antithetic(),
    "one-point": OnePoint("others"),
    "ranked": Ranked(),
    "centered-ranks": CenteredRanks(),
    "best-pairs": BestPairs(),
}


def as_estimator(estimator: object) -> Estimator:
    """Return an estimator from its name or from an object.

    Raises:
        ValueError: If there is no estimator of this name.
        TypeError: If it is neither a name nor an estimator.

    >>> as_estimator("antithetic")
    Antithetic()
    """
    if isinstance(estimator, Estimator):
        return estimator
    known = f"{', '.join(map(repr, ESTIMATORS))}, or an object such as gs.Antithetic()"
    if not isinstance(estimator, str):
        raise TypeError(f"`estimator` must be {known}, but is {checks.shown(estimator)}.")
    if estimator not in ESTIMATORS:
        hint = checks.did_you_mean(estimator, ESTIMATORS)
        raise ValueError(f"There is no estimator {checks.shown(estimator)}.{hint} Use {known}.")
    return ESTIMATORS[estimator]


@lru_cache(maxsize=128)
def plan(
    estimator: Estimator, num_directions: int, num_samples: int, samples: Samples | None
) -> Plan:
    """Lay out the evaluations of one step of an estimator; see :func:`lay_out`."""
    return lay_out(estimator.points(num_directions, samples), num_samples, samples)


def lay_out(points: Sequence[tuple[int, int]], num_samples: int, samples: Samples | None) -> Plan:
    """Lay out evaluations: the points in order, each with its N samples.

    The sample numbers implement the three modes: ``"shared"`` uses the same N numbers at every
    point, ``"paired"`` uses N numbers per direction, and ``"independent"`` numbers every
    evaluation.
    """
    table = np.array(points, np.int64)
    direction = np.repeat(table[:, 0], num_samples)
    side = np.repeat(table[:, 1], num_samples)
    within = np.tile(np.arange(num_samples), len(table))
    if samples == "paired":
        sample = direction * num_samples + within
    elif samples == "independent":
        sample = np.arange(len(direction))
    else:
        sample = within
    return Plan(direction, side, sample)


def _finite_mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the finite values, or NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
