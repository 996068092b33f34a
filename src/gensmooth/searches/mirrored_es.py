r"""A mirrored evolution strategy: the phase of the pilot that only compares values.

Points come in mirrored pairs :math:`x \pm \sigma s \circ z_l`. The entries of z are normal (random
signs in many dimensions), σ is the spacing and s has one scale per parameter. Each point gets a
weight by the rank of its value, so that the objective's units do not matter:

.. math:: x \leftarrow x + \sigma s \circ \sum_i w_{r(i)} z_i .

Three quantities adapt. They are stored in an :class:`Evolution`, and each has its own function:

- The spacing σ: :func:`adapt_spacing`, cumulative step-size adaptation. A path accumulates the past
  steps. If it is longer than a path of random steps, the steps agree and σ grows. The length of a
  path of *mirrored pairs* under random ranks is :func:`theory.mirrored_neutral`.
- The scales s: :func:`adapt_variances`. A diagonal metric is learned from the steps taken, if z is
  normal; the squares of signs are all 1 and carry no information. Up to 200 parameters there is a
  full metric instead, :mod:`~gensmooth.searches.metric`. The noisier the step, the less it teaches.
- The population: :func:`adapt_population`, from the share of noise in the differences of pairs.

Sources: Hansen & Ostermeier (2001) for paths and weights; Ros & Hansen (2008) for the diagonal
metric; Hansen et al. (2009) for measuring noise by evaluating points twice. The neutral length of
mirrored pairs, the noise share and its use are ours (docs/pilot.md).

:class:`MirroredES` is the search: which points it requests, and what it does with their values. The
functions below it are its formulas, each a pure function of an :class:`Evolution`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, estimators, kernels, theory
from gensmooth.directions.composed import MixedDraw, ScaledDraw
from gensmooth.searches import metric
from gensmooth.searches.adaptive import (
    EXACT_UP_TO,
    METRIC_UP_TO,
    AdaptiveSearch,
    Knowledge,
    Noise,
    PointRequest,
    RequestKind,
    Response,
    Transition,
    make_request,
)
from gensmooth.searches.quasi_newton import even_scales

Array = NDArray[Any]
rank = estimators.rank  # the weight of each value, as in :class:`estimators.Ranked`

# The rates of paths, step size and metric are CMA-ES's: see :func:`constants`. The values below
# were chosen by experiment on bbob and its noisy variants, unless the comment says otherwise;
# docs/pilot-results.md has the comparisons.

# Noise
REPEAT_ONE_IN = 30  # if values are noisy, one evaluation in this many repeats a point
_SHARE_MEMORY = 10.0  # the number of measurements that the noise share averages
_MAX_NEW = 0.5  # largest weight of one step in that average, after the first
_MAX_SHARE = 3.0  # shares above 1 occur by chance; an outlier must not dominate the average
_MIN_MEASUREMENTS = 5  # with fewer, the share is too uncertain to act on
_RECHECK_AFTER = 50  # steps after which values that seemed exact are measured again
# Population. Rates are per memory length of the path, as those of the spacing are.
_GROW = 1.0  # growth of log(pairs) if noise dominates
_GROW_SLOWLY = 0.05  # the same above d / 2 pairs, where more pairs only average the noise
_SHRINK = 0.1  # decrease of log(pairs) if noise is small
_GROWTH_PERIOD = 100.0  # evaluations per parameter in which the smallest population grows by √2
_GROWTH_PERIOD_NOISY = 30.0  # the same for noisy values
_MAX_PAIRS = 20  # pairs per parameter; more only if a step costs at most 1/10 of all evaluations
_STEPS_LEFT = 10  # a larger population must leave enough budget for this many steps
# Spacing
_WIDEN_IN_NOISE = 0.1  # growth of log σ if noise dominates, so that pairs differ by more than noise
_WIDEN_IF_FLAT = 1.5  # factor of σ after a step whose values are all equal
_SHRINK_ON_FAILURE = 0.3  # factor of σ after a step without a finite value
_MAX_OVER_MEAN = 3.0  # largest spacing of one parameter, relative to `widest`
_MAX_LOG_CHANGE = 1.0  # largest growth of log σ in a step, as in pycma
# First spacing
_BEST_CURVATURE = 0.4  # derived: see :func:`shorter_first_spacing`
_MAX_FIRST_DROP = 1e-2  # smallest factor of the first spacing in one step
_MIN_FIRST_SPACING = 1e-6  # smallest first spacing, in units
# First metric
_MAX_FIRST_SPREAD = 1e4  # bound on the squared scales, and their inverses
_PROBE_FROM = 10  # evaluations per parameter that must be left for the probe to pay off
_FULL_METRIC_UP_TO = 200  # parameters; beyond, the metric is diagonal
_FULL_IN_NOISE_UP_TO = 10  # the same for noisy values, which teach a diagonal metric faster
# Restarts
FLAT_STEPS = 30  # steps in a row whose values are all equal, or stale
_STAGNATION = 50  # steps without a lower value (half of CMA-ES's; by experiment), ...
_STAGNATION_PER_GENERATION = 30  # ... and this many times d over the population
_ROUNDING = 1e-14  # variation of values that counts as rounding, relative to their size
_HOPELESS = 1e-2  # variation of values, relative to their distance from the best (by experiment)
_CONVERGED = 1e-12  # in units: rounding errors of x are not much smaller (our choice)


class Evolution(NamedTuple):
    """What the evolution strategy remembers between steps.

    Attributes:
        spacing: σ, in units of the parameters.
        path: The accumulated steps, scaled such that random steps have E‖path‖² = d.
        slow_path: The path from which the metric is learned; empty without a metric.
        variances: The squared scales s², in units of the parameters; empty without a metric.
        covariance: C, in units of the parameters; empty unless the metric is full.
        pairs: The population in pairs, before rounding.
        min_pairs: The smallest population.
        steps: Number of steps since the last start.
        evaluations: Number of evaluations since the last start.
        noise_share: The share of noise in the variance of half the difference of a pair.
        noise_measurements: Number of noise measurements.
        repeats_due: Number of repeated evaluations that are due.
        flat_steps: Number of steps in a row whose values were all equal.
        stale_steps: Number of steps in a row whose exact values varied by rounding errors only, or
            far less than they differ from the best value so far.
        gain_step: The number of steps when the lowest value since the last start was found.
        restarts: Number of restarts.
        start_value: The value at the last start; infinity if it is unknown.
        lowest: The lowest value of any step so far, initially a value known at the start.
        run_lowest: The lowest value of any step since the last start.
    """

    spacing: float
    path: Array
    slow_path: Array
    variances: Array
    covariance: Array
    pairs: float
    min_pairs: int
    steps: int
    evaluations: int
    noise_share: float
    noise_measurements: int
    repeats_due: float
    flat_steps: int
    stale_steps: int
    gain_step: int
    restarts: int
    start_value: float
    lowest: float
    run_lowest: float


@final
@dataclass(frozen=True, kw_only=True)
class MirroredES(AdaptiveSearch):
    """A mirrored evolution strategy, for noisy values and for objectives that are not smooth.

    The arguments are those of :class:`~gensmooth.Pilot`; ``num_directions`` is the first number of
    mirrored pairs.

    >>> import gensmooth as gs
    >>> search = gs.MirroredES(budget=2000)
    >>> fun = lambda x: abs(x - 3).sum()
    >>> res = gs.minimize(fun, [0.0, 0.0], search=search, budget=2000, seed=0)
    >>> res.x.round(2)
    array([3., 3.])
    """

    widest: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(self, widest=float(checks.positive("widest", self.widest, infinite=True)))

    def begin(self, x: Array, known: Knowledge) -> Transition:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        noisy = Noise.EXACT if self.samples is None else Noise.NOISY  # until a repeat differs
        known = known._replace(noisy=noisy)
        evolution = initial_evolution(
            x.size, x.dtype, learns_metric=x.size <= METRIC_UP_TO, pairs=self.first_pairs(x.size)
        )
        return Transition(known, evolution, self._request(known, evolution, x.dtype, 0), x)

    def start_at(
        self,
        known: Knowledge,
        x: Array,
        value: float,
        spent: int,
        *,
        like: Array,
        restarts: int = 0,
        lowest: float = math.inf,
    ) -> Transition:
        """Start at a point whose value is known; if values are exact, first measure a metric there.

        Args:
            known: What is known about the objective.
            x: The point, flat.
            value: The value at the point.
            spent: Number of evaluations so far.
            like: An array in the user's shape.
            restarts: Number of restarts; each one doubles the population.
            lowest: The lowest value so far.
        """
        d = x.size
        pairs = self.first_pairs(d) << min(restarts, 10)
        if self.most_directions is not None:
            pairs = min(pairs, self.most_directions)
        evolution = initial_evolution(
            d,
            like.dtype,
            learns_metric=d <= METRIC_UP_TO,
            pairs=pairs,
            restarts=restarts,
            start_value=value,
            lowest=lowest,
        )
        exact = known.noisy is Noise.EXACT and self.samples is None and like.dtype.itemsize == 8
        if exact and d <= EXACT_UP_TO and self.budget - spent >= _PROBE_FROM * d:
            units = np.broadcast_to(known.units, (d,)).copy()
            request = make_request(
                RequestKind.FIRST_METRIC,
                like.dtype,
                spacing=evolution.spacing,
                number=d,
                scale=units,
            )
            return Transition(known, evolution, request, x)
        return self.next_pairs(known, evolution, x, spent, like=like)

    def next_pairs(
        self,
        known: Knowledge,
        evolution: Evolution,
        x: Array,
        spent: int,
        *,
        like: Array,
        factor: Array | None = None,
        dropped: int = 0,
    ) -> Transition:
        """Request the next pairs, around ``x``.

        Args:
            known: What is known about the objective.
            evolution: The memory after the last step.
            x: The parameters, flat.
            spent: Number of evaluations so far.
            like: An array in the user's shape.
            factor: F, if the metric is full.
            dropped: Number of directions dropped in the last step.
        """
        request = self._request(known, evolution, like.dtype, spent, factor)
        if known.noisy is Noise.NOISY:
            _, repeats_due = due_repeats(evolution, request.number)
            evolution = evolution._replace(repeats_due=repeats_due)
        return Transition(known, evolution, request, x, dropped=dropped)

    def advance(
        self, known: Knowledge, evolution: Evolution, request: PointRequest, response: Response, /
    ) -> Transition:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        if request.kind is RequestKind.FIRST_METRIC:
            return self._after_first_metric(known, evolution, response)
        return self._after_pairs(known, evolution, request, response)

    def noise_measurements(self, memory: Evolution) -> int:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        return memory.noise_measurements

    def first_pairs(self, dim: int) -> int:
        """Return the number of pairs of the first step."""
        pairs = self.num_directions
        pairs = default_pairs(dim) if pairs is None else max(pairs, 2)
        return pairs if self.most_directions is None else min(pairs, self.most_directions)

    def _request(
        self,
        known: Knowledge,
        evolution: Evolution,
        dtype: np.dtype[Any],
        spent: int,
        factor: Array | None = None,
    ) -> PointRequest:
        """Return the request for the next pairs; the last step uses the rest of the budget."""
        pairs = round(evolution.pairs)
        repeats = int(evolution.steps % _RECHECK_AFTER == 0)  # noise may appear later in a run
        if known.knows_noise:
            repeats = 0
        elif known.noisy is Noise.NOISY:
            repeats, _ = due_repeats(evolution, pairs)
        left = (self.budget - spent - self.final_count(known)) // self.num_samples
        if 2 * pairs + repeats > left:
            fewer = left // 2
            if fewer >= (1 if known.noisy is Noise.EXACT else (pairs + 1) // 2):
                pairs, repeats = min(pairs, fewer), 0
        scale = np.zeros(0, dtype)
        spacing = evolution.spacing
        exact_or_few = known.noisy is Noise.EXACT or evolution.path.size <= _FULL_IN_NOISE_UP_TO
        if evolution.covariance.size and evolution.steps == 0 and exact_or_few:
            factor = np.diag(np.sqrt(evolution.variances))
        if factor is not None:
            scale = known.units.reshape(-1, 1) * factor
        elif evolution.variances.size:
            scale = (known.units * np.sqrt(evolution.variances)).astype(dtype)
        elif known.units.size > 1:
            scale = known.units.astype(dtype)
        else:
            spacing *= float(known.units[0])
        return make_request(
            RequestKind.MIRRORED_PAIRS,
            dtype,
            spacing=spacing,
            number=pairs,
            repeats=repeats,
            scale=scale,
        )

    def _after_first_metric(
        self, known: Knowledge, evolution: Evolution, response: Response
    ) -> Transition:
        """Set the first metric, from the values at x ± σ along each axis."""
        plus, minus = response.values.reshape(-1, 2).T
        # Second differences; where these are about 0, 5 % of the first differences (by experiment).
        second = np.abs(plus + minus - 2 * evolution.start_value)
        change = np.maximum(second, 0.05 * np.abs(plus - minus))
        scales = even_scales(change)
        if scales is not None:
            variances = np.clip(scales**2, 1 / _MAX_FIRST_SPREAD, _MAX_FIRST_SPREAD)
            variances /= math.exp(float(np.log(variances).mean()))
            evolution = evolution._replace(variances=variances.astype(evolution.variances.dtype))
            if evolution.covariance.size:
                evolution = evolution._replace(covariance=np.diag(variances))
        evolution = evolution._replace(evaluations=evolution.evaluations + len(response.values))
        x = response.x.reshape(-1)
        return self.next_pairs(known, evolution, x, response.spent, like=response.x)

    def _after_pairs(
        self, known: Knowledge, evolution: Evolution, request: PointRequest, response: Response
    ) -> Transition:
        """Make a step: measure noise, rank the values, adapt, move x, and restart if converged."""
        errors2, pairs, like = response.errors2, request.number, response.x
        values, repeated = response.values[: 2 * pairs].copy(), response.values[2 * pairs :]
        finite = np.isfinite(values)
        complete = finite[0::2] & finite[1::2]  # pairs with two finite values
        dropped = pairs - int(complete.sum())
        if not finite.any():
            return self._after_failure(known, evolution, request, response)
        if request.repeats:
            known, evolution = self._measure_noise(known, evolution, values, repeated, complete)
        if errors2 is not None:
            errors2 = errors2[: 2 * pairs]
            known, evolution = _with_errors(known, evolution, values, complete, errors2)
        k = constants(like.size, pairs)
        ranked = np.where(finite, values, np.inf)  # a point without a finite value ranks last
        weights = rank(ranked, k.weights)
        if errors2 is not None:
            weights = _by_precision(weights, values, finite, errors2)
        all_equal = bool((values[finite] == values[finite][0]).all())
        evaluations = evolution.evaluations + len(response.batch)
        exact = known.noisy is Noise.EXACT and not dropped
        if evolution.steps == 0 and like.size > EXACT_UP_TO and exact:
            spacing = shorter_first_spacing(evolution, values, evolution.lowest, k)
            if spacing < evolution.spacing:  # discard the step, and make it again from the same x
                evolution = evolution._replace(spacing=spacing, evaluations=evaluations)
                x = like.reshape(-1)
                return self.next_pairs(known, evolution, x, response.spent, like=like)
        if request.scale.ndim == 2:
            negative_weights = rank(ranked, k.negative_weights)
            weighted = self._full_metric_step(known, request, response, weights, negative_weights)
        else:
            weighted = self._diagonal_step(evolution, request, response, weights)
        evolution, factor = adapt(
            evolution,
            weighted.step,
            weighted.squares,
            pairs=pairs,
            all_equal=all_equal,
            widest=self.widest,
            factor=weighted.factor,
        )
        evolution = adapt_population(
            evolution._replace(evaluations=evaluations),
            noisy=known.noisy is Noise.NOISY,
            left=(self.budget - response.spent) / self.num_samples,
            bound=self.most_directions,
            widest=self.widest,
        )
        x = like.reshape(-1)
        if not all_equal:
            x = self.clipped(x + (request.spacing * weighted.change).astype(x.dtype), like)
        lowest, highest = float(values[finite].min()), float(values[finite].max())
        stale = known.noisy is Noise.EXACT and highest - lowest <= max(
            _ROUNDING * abs(lowest), _HOPELESS * (lowest - known.best)
        )
        evolution = evolution._replace(
            lowest=min(evolution.lowest, lowest),
            stale_steps=evolution.stale_steps + 1 if stale else 0,
        )
        if lowest < evolution.run_lowest:
            evolution = evolution._replace(run_lowest=lowest, gain_step=evolution.steps)
        stagnates = known.noisy is Noise.EXACT and evolution.steps - evolution.gain_step >= (
            _STAGNATION + _STAGNATION_PER_GENERATION * like.size / (2 * pairs)
        )
        if has_converged(evolution) or stagnates:
            x = x if known.noisy is Noise.NOISY else known.best_x
            return self.start_at(
                known,
                x,
                known.best,
                response.spent,
                like=like,
                restarts=evolution.restarts + 1,
                lowest=evolution.lowest,
            )
        return self.next_pairs(
            known, evolution, x, response.spent, like=like, factor=factor, dropped=dropped
        )

    def _measure_noise(
        self,
        known: Knowledge,
        evolution: Evolution,
        values: NDArray[np.float64],
        repeated: NDArray[np.float64],
        complete: NDArray[np.bool_],
    ) -> tuple[Knowledge, Evolution]:
        """Measure the noise from points that were evaluated twice.

        Args:
            known: What is known about the objective.
            evolution: The memory before the step.
            values: The values of all points. At points evaluated twice they are replaced by means.
            repeated: The second values of the first points.
            complete: Which pairs have two finite values.
        """
        first = values[: len(repeated)]
        difference = first - repeated
        finite = np.isfinite(difference)
        if difference[finite].any():
            known = known._replace(noisy=Noise.NOISY)
        if finite.any() and complete.any() and known.noisy is Noise.NOISY:
            number = int(finite.sum())
            differences2 = float(np.square(difference[finite]).mean())
            halves = 0.5 * (values[0::2] - values[1::2])[complete]
            halves2 = float(np.square(halves).mean())
            measured = evolution.noise_measurements
            new = max(min(number / _SHARE_MEMORY, _MAX_NEW), number / (measured + number + 1))
            known = known._replace(noise2=(1 - new) * known.noise2 + new * (differences2 / 2))
            evolution = record_noise(evolution, differences2, halves2, len(halves), number)
            first[:] = np.where(finite, 0.5 * (first + repeated), first)
        return known, evolution

    def _after_failure(
        self, known: Knowledge, evolution: Evolution, request: PointRequest, response: Response
    ) -> Transition:
        """Reduce the spacing after a step without a finite value, because x itself has one."""
        if evolution.flat_steps >= FLAT_STEPS:
            raise ValueError(
                f"No value of the last {FLAT_STEPS} steps, up to step {response.batch.step}, is "
                "finite. Fix the objective, or start where it is defined."
            )
        evolution = evolution._replace(
            spacing=_SHRINK_ON_FAILURE * evolution.spacing,
            steps=evolution.steps + 1,
            flat_steps=evolution.flat_steps + 1,
        )
        factor = None if request.scale.ndim < 2 else request.scale / known.units.reshape(-1, 1)
        x, like = response.x.reshape(-1), response.x
        step = self.next_pairs(known, evolution, x, response.spent, like=like, factor=factor)
        return step._replace(dropped=step.request.number)

    def _diagonal_step(
        self, evolution: Evolution, request: PointRequest, response: Response, weights: Array
    ) -> "_WeightedStep":
        """Return the weighted step of a diagonal metric, from the points as they were evaluated.

        If there are bounds, these are the projected points.
        """
        learns_metric = bool(evolution.variances.size)
        scale: Array | float = request.scale if request.scale.size else 1.0
        by_pair = weights.reshape(-1, 2)
        draw = response.batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw | MixedDraw) else draw
        if self.bounds is None:
            step, _ = draw.combine(by_pair[:, 0] - by_pair[:, 1])
            squares = None
            if learns_metric:
                squares = (by_pair.sum(axis=1)[:, None] * np.square(draw.block())).sum(axis=0)
            return _WeightedStep(scale * step, step, squares, None)
        x = response.x.reshape(-1)
        step, squares = np.zeros_like(x), np.zeros_like(x)
        for row in np.flatnonzero(weights).tolist():
            z = (response.batch.point(row).reshape(-1) - x) / (request.spacing * scale)
            step += weights[row] * z
            squares += weights[row] * z * z
        return _WeightedStep(scale * step, step, squares if learns_metric else None, None)

    def _full_metric_step(
        self,
        known: Knowledge,
        request: PointRequest,
        response: Response,
        weights: Array,
        negative_weights: Array,
    ) -> "_WeightedStep":
        """Return the weighted step of a full metric."""
        batch, units = response.batch, known.units
        factor = request.scale / units.reshape(-1, 1)
        if self.bounds is None:
            assert isinstance(batch.draw, MixedDraw)
            z, y = (np.repeat(each.block(), 2, axis=0) for each in (batch.draw.base, batch.draw))
            z[1::2] *= -1
            y[1::2] *= -1
            y /= units
        else:
            points = batch.block(0, 2 * request.number).reshape(2 * request.number, -1)
            y = (points - response.x.reshape(-1)) / (request.spacing * units)
            z = metric.solve(factor, y)
        step = (weights[:, None] * z).sum(axis=0)
        change = units * metric.apply(factor, step)
        return _WeightedStep(
            change, step, metric.weighted_squares(y, z, weights, negative_weights), factor
        )


class _WeightedStep(NamedTuple):
    """The weighted sums of a step's points.

    Attributes:
        change: The change of x, divided by σ.
        step: Σ w z.
        squares: Σ w z² for each parameter; with a full metric, :func:`metric.weighted_squares`.
        factor: F, if the metric is full.
    """

    change: Array
    step: Array
    squares: Array | None
    factor: Array | None


def has_converged(evolution: Evolution) -> bool:
    """Return whether a restart is due: the spacing is negligible, or values no longer differ."""
    widest = math.sqrt(float(evolution.variances.max())) if evolution.variances.size else 1.0
    negligible = not _CONVERGED < evolution.spacing * widest < math.inf
    return negligible or max(evolution.flat_steps, evolution.stale_steps) >= FLAT_STEPS


def _with_errors(
    known: Knowledge,
    evolution: Evolution,
    values: NDArray[np.float64],
    complete: NDArray[np.bool_],
    errors2: NDArray[np.float64],
) -> tuple[Knowledge, Evolution]:
    """Take the noise from the standard errors of the values instead of repeated evaluations."""
    finite = np.isfinite(errors2)
    noise2 = float(errors2[finite].mean()) if finite.any() else 0.0
    known = known._replace(noise2=noise2, noisy=Noise.NOISY if noise2 > 0 else Noise.EXACT)
    if complete.any():
        halves2 = float(np.square(0.5 * (values[0::2] - values[1::2])[complete]).mean())
        repeats = max(1, len(values) // REPEAT_ONE_IN)  # as many as would have been repeated
        evolution = record_noise(evolution, 2 * noise2, halves2, int(complete.sum()), repeats)
    return known, evolution


def _by_precision(
    weights: NDArray[np.float64],
    values: NDArray[np.float64],
    finite: NDArray[np.bool_],
    errors2: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Multiply the weights by V / (V + e²): V is the variance of the values, e a value's error."""
    spread = float(np.var(values[finite]))
    if not spread > 0:
        return weights
    precise = weights * (spread / (spread + np.where(np.isfinite(errors2), errors2, np.inf)))
    total = float(precise.sum())
    return precise / total if total > 0 else weights


# --- formulas ------------------------------------------------------------------------------------


class Constants(NamedTuple):
    """The constants for a dimension d and a number of pairs.

    Attributes:
        weights: The weight of each rank, best first; they sum to 1.
        effective: 1 / Σ w², the effective number of points.
        neutral: :func:`theory.mirrored_neutral` of the weights.
        memory: c, the rate of the path; it remembers about 1 / c steps.
        damping: D, which divides the change of log σ.
        rank_one: The rate at which a diagonal metric learns from the slow path.
        rank_mu: The rate at which a diagonal metric learns from the points of the step.
        slow_memory: The rate of the slow path.
        full_one: The rate at which a full metric learns from the slow path.
        full_mu: The rate at which a full metric learns from the points of the step.
        negative_weights: The weights of the worse half in a full metric; their sum is
            −``negative_total``.
        negative_total: The absolute value of that sum.
        length: E‖N(0, I)‖, the expected length of a normal vector.
    """

    weights: NDArray[np.float64]
    effective: float
    neutral: float
    memory: float
    damping: float
    rank_one: float
    rank_mu: float
    slow_memory: float
    full_one: float
    full_mu: float
    negative_weights: NDArray[np.float64]
    negative_total: float
    length: float


def default_pairs(dim: int) -> int:
    """Return the default number of pairs, half of CMA-ES's 4 + ⌊3 ln d⌋ points."""
    return max(2, (4 + int(3 * math.log(dim))) // 2)


@lru_cache(maxsize=256)
def constants(dim: int, pairs: int) -> Constants:
    """Return the constants of a step.

    A diagonal metric has the constants of separable CMA-ES (Ros & Hansen, 2008), a full metric
    those of CMA-ES with negative weights (Hansen, 2016, The CMA evolution strategy: a tutorial,
    table 1).
    """
    d = dim
    weights = np.array(theory.rank_weights(2 * pairs))
    mu = theory.effective(weights.tolist())
    memory = (mu + 2) / (d + mu + 5)
    faster = (d + 2) / 3  # a diagonal metric has d parameters instead of d²
    full_one = 2 / ((d + 1.3) ** 2 + mu)
    full_mu = min(1 - full_one, 2 * (mu - 2 + 1 / mu) / ((d + 2) ** 2 + mu))
    rank_one = full_one * faster
    rank_mu = min(1 - rank_one, 2 * (mu - 2 + 1 / mu) / ((d + 2) ** 2 + mu) * faster)
    worse = np.minimum(math.log(pairs + 0.5) - np.log(np.arange(1, 2 * pairs + 1)), 0.0)
    effective_worse = float(worse.sum()) ** 2 / float(np.square(worse).sum())
    negative_total = 1 + 2 * effective_worse / (mu + 2)
    if full_mu > 0:
        negative_total = min(
            negative_total, 1 + full_one / full_mu, (1 - full_one - full_mu) / (d * full_mu)
        )
    return Constants(
        weights=weights,
        effective=mu,
        neutral=theory.mirrored_neutral(weights.tolist()),
        memory=memory,
        damping=1 + memory + 2 * max(0.0, math.sqrt((mu - 1) / (d + 1)) - 1),
        rank_one=min(rank_one, 1.0),
        rank_mu=max(rank_mu, 0.0),
        slow_memory=(4 + mu / d) / (d + 4 + 2 * mu / d),
        full_one=full_one,
        full_mu=max(full_mu, 0.0),
        negative_weights=worse * (-negative_total / float(worse.sum())),
        negative_total=negative_total,
        length=math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)),
    )


def initial_evolution(
    dim: int,
    dtype: np.dtype[Any],
    *,
    learns_metric: bool,
    pairs: int | None = None,
    spacing: float = 1.0,
    restarts: int = 0,
    start_value: float = math.inf,
    lowest: float = math.inf,
) -> Evolution:
    """Return the memory before the first step.

    Args:
        dim: d.
        dtype: The dtype of the parameters.
        learns_metric: Whether to learn a metric.
        pairs: The smallest population; by default :func:`default_pairs`.
        spacing: σ.
        restarts: Number of restarts so far.
        start_value: The value at the start, if it is known.
        lowest: The lowest value so far.
    """
    min_pairs = default_pairs(dim) if pairs is None else pairs
    none = np.zeros(0, dtype)
    full = learns_metric and 1 < dim <= _FULL_METRIC_UP_TO and dtype.itemsize == 8
    return Evolution(
        spacing=spacing,
        path=np.zeros(dim, dtype),
        slow_path=np.zeros(dim, dtype) if learns_metric else none,
        variances=np.ones(dim, dtype) if learns_metric else none,
        covariance=np.eye(dim) if full else np.zeros((0, 0)),
        pairs=float(min_pairs),
        min_pairs=min_pairs,
        steps=0,
        evaluations=0,
        noise_share=0.0,
        noise_measurements=0,
        repeats_due=0.0,
        flat_steps=0,
        stale_steps=0,
        gain_step=0,
        restarts=restarts,
        start_value=start_value,
        lowest=lowest,
        run_lowest=math.inf,
    )


def adapt(
    now: Evolution,
    step: Array,
    squares: Array | None,
    *,
    pairs: int,
    all_equal: bool,
    widest: float = math.inf,
    factor: Array | None = None,
) -> tuple[Evolution, Array | None]:
    """Adapt the path, the metric and the spacing to a step.

    Args:
        now: The memory before the step.
        step: Σ w z, the step in units of σ and of the metric.
        squares: Σ w z² for each parameter or, with a full metric, :func:`metric.weighted_squares`;
            ``None`` without a metric.
        pairs: The number of pairs of the step.
        all_equal: Whether all values of the step were equal.
        widest: The largest spacing, as a geometric mean over the parameters. The spacing of one
            parameter is at most three times as large.
        factor: F, if the metric is full.

    Returns:
        The memory after the step, and F.
    """
    if all_equal:
        wider = min(now.spacing * _WIDEN_IF_FLAT, widest)
        flat = now._replace(spacing=wider, steps=now.steps + 1, flat_steps=now.flat_steps + 1)
        return flat, factor
    k = constants(now.path.size, pairs)
    path, length = adapt_path(now.path, step, k)
    variances, covariance, slow_path = now.variances, now.covariance, now.slow_path
    if squares is not None and variances.size:
        slow_path = adapt_slow_path(now, step, length, k, factor)
        if factor is None:
            variances = adapt_variances(now, slow_path, squares, k)
        else:
            covariance, factor = adapt_covariance(now, slow_path, squares, k, pairs, factor)
            variances = covariance.diagonal().copy()
    spacing = adapt_spacing(now.spacing, length, k)
    if widest < math.inf:
        mean = math.exp(0.5 * float(np.log(variances).mean())) if variances.size else 1.0
        spacing = min(spacing, widest / mean)
        most = (_MAX_OVER_MEAN * widest / spacing) ** 2
        if factor is not None:
            less = np.sqrt(np.minimum(most / variances, 1.0))[:, None]
            factor, covariance = less * factor, less * covariance * less.T
        variances = np.minimum(variances, most)
    after = now._replace(
        spacing=spacing,
        path=path,
        slow_path=slow_path,
        variances=variances,
        covariance=covariance,
        steps=now.steps + 1,
        flat_steps=0,
    )
    return after, factor


def adapt_path(path: Array, step: Array, k: Constants) -> tuple[Array, float]:
    r"""Add a step to the path: :math:`p \leftarrow (1 - c)p + \sqrt{c(2 - c)M}\,\Delta`.

    M, ``k.neutral``, is chosen such that steps with random ranks leave E‖p‖² = d.

    Returns:
        The path and its length.
    """
    kept = 1 - k.memory
    after = np.empty_like(path)
    new = (math.sqrt(k.memory * (1 + kept) * k.neutral) * step).astype(path.dtype, copy=False)
    length2, _ = kernels.on_sums().advance(kept * path, new, after)
    return after, math.sqrt(length2)


def adapt_spacing(spacing: float, length: float, k: Constants) -> float:
    r"""Return σ after a step: the step-size rule.

    .. math:: \sigma \leftarrow \sigma\exp\Bigl(\frac cD\Bigl(\frac{\|p\|}{E\|N(0, I)\|} - 1\Bigr)
              \Bigr)

    Args:
        spacing: σ before the step.
        length: ‖p‖, the length of the path after the step.
        k: The constants of the step.
    """
    change = k.memory / k.damping * (length / k.length - 1)
    return spacing * math.exp(min(_MAX_LOG_CHANGE, change))


def adapt_slow_path(
    now: Evolution, step: Array, length: float, k: Constants, factor: Array | None
) -> Array:
    """Return the slow path after a step; the step is omitted if the path is exceptionally long.

    The limit on the length is Hansen's (2016, h_σ in table 1): it keeps the metric from growing
    while σ still has to grow.
    """
    d = now.path.size
    settled = 1 - (1 - k.memory) ** (2 * (now.steps + 1))  # the path starts at 0
    slow = 1 - k.slow_memory
    slow_path = slow * now.slow_path
    if length / math.sqrt(settled) < (1.4 + 2 / (d + 1)) * k.length:
        moved = np.sqrt(now.variances) * step if factor is None else metric.apply(factor, step)
        slow_path += math.sqrt(k.slow_memory * (1 + slow) * k.neutral) * moved
    return slow_path


def adapt_variances(now: Evolution, slow_path: Array, squares: Array, k: Constants) -> Array:
    """Return the squared scales of a diagonal metric after a step.

    The rates are multiplied by the share of signal, because ranks that are determined by noise
    carry no information.
    """
    signal = max(1 - now.noise_share, 0.0)
    one, many = signal * k.rank_one, signal * k.rank_mu
    variances = now.variances
    variances = (1 - one - many) * variances + one * slow_path**2 + many * variances * squares
    least = 1e-300 if variances.dtype.itemsize == 8 else 1e-30  # the metric stays invertible
    return np.clip(variances, least, None)


def adapt_covariance(
    now: Evolution, slow_path: Array, squares: Array, k: Constants, pairs: int, factor: Array
) -> tuple[Array, Array]:
    """Return C and F of a full metric after a step; F is computed once every d evaluations.

    The rates are multiplied by the share of signal, as in :func:`adapt_variances`.
    """
    signal = max(1 - now.noise_share, 0.0)
    covariance = metric.updated(
        now.covariance,
        slow_path,
        squares,
        one=signal * k.full_one,
        many=signal * k.full_mu,
        total=1 - k.negative_total,
    )
    if (now.steps + 1) % max(1, now.path.size // (2 * pairs)):
        return covariance, factor
    return metric.factored(covariance)


def shorter_first_spacing(
    now: Evolution, values: NDArray[np.float64], value: float, k: Constants
) -> float:
    r"""Return a shorter first spacing if the exact values of the first step show it is too wide.

    On the sphere function, at the distance R from the optimum, the best spacing is about
    :math:`0.8 \mu R/d` (Arnold, 2002). Half the difference of a pair is then about
    :math:`2\sigma R`. The mean of a pair exceeds the value at x by about :math:`\sigma^2 d`, which
    is 0.4 μ times that half. If the measured ratio is larger, the spacing is too wide by the same
    factor. The path would show this too, but only after about d steps.

    Args:
        now: The memory before the step.
        values: The values of the step.
        value: The value at x.
        k: The constants of the step.

    Returns:
        The new spacing, or the old one if that is too wide by a factor of at most two.
    """
    plus, minus = values[0::2], values[1::2]
    curvature = float((0.5 * (plus + minus) - value).mean())
    slope = math.sqrt(float(np.square(0.5 * (plus - minus)).mean()))
    most = _BEST_CURVATURE * k.effective * slope
    too_wide = math.isfinite(curvature) and slope > 0 and curvature > 2 * most
    if not (too_wide and now.spacing > _MIN_FIRST_SPACING):
        return now.spacing
    return now.spacing * max(most / curvature, _MAX_FIRST_DROP)


def due_repeats(now: Evolution, pairs: int) -> tuple[int, float]:
    """Return how many points of the next step to evaluate twice, and how many are due after it."""
    due = now.repeats_due + 2 * pairs / REPEAT_ONE_IN
    repeats = min(int(due), 2 * pairs)
    return repeats, due - repeats


def record_noise(
    now: Evolution, differences2: float, halves2: float, pairs: int, repeats: int
) -> Evolution:
    r"""Update the noise share with a measurement.

    Let s² be the variance of a value's noise. Half the difference of a pair has the variance
    :math:`S + s^2/2`, where S is the signal. The share of the noise is averaged over steps, rather
    than s² and S separately: those fall by orders of magnitude during a run, so their averages
    would be dominated by the first steps.

    Args:
        now: The memory before the measurement.
        differences2: The mean squared difference of values at the same point; estimates 2 s².
        halves2: The mean square of half the differences of pairs.
        pairs: The number of pairs. The reciprocal of the mean of L squares is too large by a
            factor of L/(L − 2) on average.
        repeats: The number of points that were evaluated twice.
    """
    share = differences2 / 4 / max(halves2, 1e-300) * max(pairs - 2, 1) / pairs
    number = now.noise_measurements + repeats
    new = max(min(repeats / _SHARE_MEMORY, _MAX_NEW), repeats / number)
    share = (1 - new) * now.noise_share + new * min(share, _MAX_SHARE)
    return now._replace(noise_share=share, noise_measurements=number)


def adapt_population(
    now: Evolution,
    *,
    noisy: bool,
    left: float,
    bound: int | None = None,
    widest: float = math.inf,
) -> Evolution:
    """Adapt the population, and widen the spacing while noise dominates.

    The smallest population grows slowly with the number of evaluations, because improvements
    become harder to see. Beyond that, the population grows fast while more than half of the
    variance between pairs is noise. Meanwhile the spacing grows as well. Otherwise it could fall
    until no pair differs by more than the noise, and ranks that noise determines say nothing.

    Args:
        now: The memory after the step.
        noisy: Whether values are noisy.
        left: The number of evaluations left.
        bound: The largest population, in pairs.
        widest: The largest spacing.
    """
    d = now.path.size
    period = _GROWTH_PERIOD_NOISY if noisy else _GROWTH_PERIOD
    base = now.min_pairs * math.sqrt(1 + now.evaluations / (period * d))
    pairs = max(now.pairs, base)
    if noisy and now.noise_measurements >= _MIN_MEASUREMENTS:
        noise_to_signal = now.noise_share / max(1 - now.noise_share, 0.01)  # finite for share ≥ 1
        push = min(max(math.log(max(noise_to_signal, 1e-9)), -1.0), 1.0)
        speed = _SHRINK if push < 0 else _GROW if pairs < d / 2 else _GROW_SLOWLY
        memory = constants(d, round(pairs)).memory
        pairs *= math.exp(memory * speed * push)
        wider = now.spacing * math.exp(memory * _WIDEN_IN_NOISE * max(push, 0.0))
        now = now._replace(spacing=max(min(wider, widest), now.spacing))
    largest = max(_MAX_PAIRS * d, now.evaluations / 20)  # a step evaluates two points per pair
    largest = max(min(largest, left / (2 * _STEPS_LEFT)), now.pairs)
    pairs = max(min(pairs, largest), now.min_pairs)
    return now._replace(pairs=pairs if bound is None else min(pairs, float(bound)))
