r"""A mirrored evolution strategy: the phase of the pilot that only compares values.

Points come in mirrored pairs :math:`x \pm \sigma s \circ z_l`. The entries of z are normal (random
signs in many dimensions), σ is the spacing and s has one scale per parameter. Each point gets a
weight by the rank of its value, so that the objective's units do not matter:

.. math:: x \leftarrow x + \sigma s \circ \sum_i w_{r(i)} z_i .

This file has the search: which points it requests, and what it does with their values. The rules by
which σ, s and the population adapt are in :mod:`~gensmooth.searches.evolution`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.directions.composed import MixedDraw, ScaledDraw
from gensmooth.estimators import rank
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
from gensmooth.searches.evolution import (
    FLAT_STEPS,
    REPEAT_ONE_IN,
    Evolution,
    adapt,
    adapt_population,
    constants,
    default_pairs,
    due_repeats,
    has_converged,
    initial_evolution,
    record_noise,
    shorter_first_spacing,
    weight_of_new,
)
from gensmooth.searches.quasi_newton import even_scales

Array = NDArray[Any]

# Chosen by experiment, like the constants of :mod:`~gensmooth.searches.evolution`.
_RECHECK_AFTER = 50  # steps after which values that seemed exact are measured again
_SHRINK_ON_FAILURE = 0.3  # factor of σ after a step without a finite value
_WIDEST_IF_WORSE = 10.0  # units: σ does not grow beyond if all exact values exceed the start's
_MAX_FIRST_SPREAD = 1e4  # bound on the squared scales of the first metric, and their inverses
_PROBE_FROM = 10  # evaluations per parameter that must be left for the first metric to pay off
_FULL_IN_NOISE_UP_TO = 10  # parameters; beyond, noisy values teach a diagonal metric faster
_STAGNATION = 50  # steps without a lower value (half of CMA-ES's; by experiment), ...
_STAGNATION_PER_GENERATION = 30  # ... and this many times d over the population
_ROUNDING = 1e-14  # variation of values that counts as rounding, relative to their size
_HOPELESS = 1e-2  # variation of values, relative to their distance from the best (by experiment)
_RESTART_GROWTH = 3  # factor of the population in a restart (by experiment)


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
            restarts: Number of restarts; each one triples the population.
            lowest: The lowest value so far.
        """
        d = x.size
        pairs = self.first_pairs(d) * _RESTART_GROWTH ** min(restarts, 6)
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
        if exact and d <= EXACT_UP_TO and self.planned - spent >= _PROBE_FROM * d:
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
        """Return the request for the next pairs; the last step uses the rest of a budget."""
        pairs = round(evolution.pairs)
        repeats = int(evolution.steps % _RECHECK_AFTER == 0)  # noise may appear later in a run
        if known.knows_noise:
            repeats = 0
        elif known.noisy is Noise.NOISY:
            repeats, _ = due_repeats(evolution, pairs)
        left = (self.planned - spent - self.final_count(known, spent)) / self.num_samples
        if 2 * pairs + repeats > left:
            fewer = int(left // 2)
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
        lowest, highest = float(values[finite].min()), float(values[finite].max())
        before = evolution.spacing
        evolution, factor = adapt(
            evolution,
            weighted.step,
            weighted.squares,
            pairs=pairs,
            all_equal=all_equal,
            widest=self.widest,
            factor=weighted.factor,
        )
        if known.noisy is Noise.EXACT and lowest > evolution.start_value:
            widest = max(before, _WIDEST_IF_WORSE)  # wider steps would lead up ever steeper walls
            evolution = evolution._replace(spacing=min(evolution.spacing, widest))
        evolution = adapt_population(
            evolution._replace(evaluations=evaluations),
            noisy=known.noisy is Noise.NOISY,
            full=factor is not None,
            left=(self.planned - response.spent) / self.num_samples,
            bound=self.most_directions,
            widest=self.widest,
        )
        x = like.reshape(-1)
        if not all_equal:
            x = self.clipped(x + (request.spacing * weighted.change).astype(x.dtype), like)
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
            new = weight_of_new(number, measured + number + 1)
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
