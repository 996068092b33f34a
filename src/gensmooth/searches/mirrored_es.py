r"""A mirrored evolution strategy: the part of the pilot that needs nothing but comparisons.

Points come in pairs :math:`x \pm \sigma s \circ z_l`, with z normal (or coins, in many dimensions)
and s one scale per parameter. Values are turned into weights by their rank alone, so that nothing
depends on the objective's units, and

.. math:: x \leftarrow x + \sigma s \circ \sum_i w_{r(i)} z_i .

Three things adapt, all of them kept in an :class:`Evolution`:

- The spacing σ, by the length of the path of past steps (cumulative step-length adaptation): a
  path longer than one of independent random steps means that steps agree, so σ grows. How long
  the path of *mirrored pairs* is under random ranks is :func:`theory.mirrored_neutral`.
- The scales s, by the variances of the steps that were taken (a diagonal metric), where z is
  normal: coins have squares of 1, which tell nothing. Few parameters have a full metric in their
  place, :mod:`~gensmooth.searches.metric`.
- The population, by the noise's share in the differences of pairs, see :func:`grow`; and the more
  of a step is noise, the less the scales learn from it.

Sources: Hansen & Ostermeier (2001) for paths and weights, Ros & Hansen (2008) for the diagonal
metric, Hansen et al. (2009) for measuring noise by evaluating again; the neutral length of mirrored
pairs, the noise share and its use are ours (docs/pilot.md).

:class:`MirroredES` is the search; the functions below it are its formulas.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, estimators, kernels, theory
from gensmooth.directions.draw import MixedDraw, ScaledDraw
from gensmooth.searches import metric
from gensmooth.searches.quasi_newton import even_scales
from gensmooth.searches.steered import (
    EXACT_UP_TO,
    METRIC_UP_TO,
    Advance,
    Answers,
    Kind,
    Known,
    Noise,
    Question,
    Steered,
    question,
)

Array = NDArray[Any]
rank = estimators.rank  # the weight of each value, as in :class:`estimators.Ranked`

# Found by experiment unless said otherwise; docs/pilot.md has the comparisons that were kept.
REPEAT = 30  # of noisy values, one in this many is measured again
_MEMORY = 10.0  # measurements that the noise's share remembers
_GROWTH = 1.0  # e-folds of the population per memory of the path, when noise dominates
_SLOW = 0.05  # the same beyond half as many pairs as parameters: there it only averages
_SHRINK = 0.1
_WIDEN = 0.1  # e-folds of σ likewise, so that pairs differ by more than their noise
_WAIT = {False: 100.0, True: 30.0}  # evaluations per parameter until the population has grown by √2
_LARGEST = 20  # pairs per parameter, or a step that costs 1/10 of all evaluations so far
_STEPS_LEFT = 10  # a larger population must leave budget for this many steps
_WIDER = 1.5  # how σ grows while all values are the same
_WIDEST_OF_ALL = 3.0  # a parameter's spacing over the widest one of their mean, at most
_BEST_BEND = 0.4  # see :func:`fitting`
_AT_ONCE = 1e-2  # a first spacing does not fall by more than this at once
_FINEST = 1e-6  # nor below this, in units
STILL = 30  # steps in a row with nothing but equal values: there is nothing to follow here
_LOOK_AGAIN = 50  # steps after which a value that seemed exact is measured again
_FULL_UP_TO = 10  # parameters; beyond, a metric has one scale for each and no more
_NARROW = 1e-12  # a spacing below this, in units, has converged
_SPREAD = 1e4  # the most that the first probe makes squared scales differ, either way
_PROBE_FROM = 10  # evaluations per parameter left: with fewer the first probe would not pay
_ON_FAILURE = 0.3  # what the spacing is multiplied by after a step without any finite value


class Evolution(NamedTuple):
    """What adapts, and what it is adapted by.

    Attributes:
        spacing: σ, in units of the parameters.
        path: The decaying sum of steps, in units of what random steps would give.
        slow_path: The same for the metric; empty without one.
        variances: The squares of the scales, in units of the parameters; empty without a metric.
        pairs: The population, in pairs: a number that is rounded.
        smallest: The population never falls below this many pairs.
        steps: Steps made since it began.
        evaluations: Evaluations made since it began.
        share: The noise's share in the variance of half the difference of a pair.
        measured: How often noise was measured.
        owed: Repeated evaluations that are due.
        still: Steps in a row whose values were all the same.
        restarts: How often the search began again.
        here: The value at the point where it began; infinity if it is not known.
        lowest: The lowest value of a step so far; before any, ``here``.
    """

    spacing: float
    path: Array
    slow_path: Array
    variances: Array
    pairs: float
    smallest: int
    steps: int
    evaluations: int
    share: float
    measured: int
    owed: float
    still: int
    restarts: int
    here: float
    lowest: float


@final
@dataclass(frozen=True, kw_only=True)
class MirroredES(Steered):
    """The mirrored evolution strategy: for noisy values, and for objectives that are not smooth.

    Arguments as in :class:`~gensmooth.Pilot`; ``num_directions`` are the pairs that it begins
    with.

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
        checks.settle(self, widest=float(checks.number("widest", self.widest)))

    def begin(self, x: Array, known: Known) -> Advance:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        noisy = Noise.EXACT if self.samples is None else Noise.NOISY  # until a repeat differs
        known = known._replace(noisy=int(noisy))
        own = begin(x.size, x.dtype, learns=x.size <= METRIC_UP_TO, pairs=self.first_pairs(x.size))
        return Advance(known, own, self._ask(known, own, x.dtype, 0), x)

    def start(
        self,
        known: Known,
        x: Array,
        value: float,
        spent: int,
        *,
        like: Array,
        restarts: int = 0,
        lowest: float = math.inf,
    ) -> Advance:
        """Begin at a point of known value; first probe its metric if values are exact.

        Args:
            known: What is known about the objective.
            x: The point, flat.
            value: Its value.
            spent: Evaluations made so far.
            like: Parameters in their shape.
            restarts: How often the search began again: each time with twice the population.
            lowest: The lowest value seen.
        """
        d = x.size
        pairs = self.first_pairs(d) << min(restarts, 10)
        if self.most_directions is not None:
            pairs = min(pairs, self.most_directions)
        own = begin(
            d,
            like.dtype,
            learns=d <= METRIC_UP_TO,
            pairs=pairs,
            restarts=restarts,
            here=value,
            lowest=lowest,
        )
        exact = known.noisy == Noise.EXACT and self.samples is None and like.dtype.itemsize == 8
        if exact and d <= EXACT_UP_TO and self.budget - spent >= _PROBE_FROM * d:
            units = np.broadcast_to(known.units, (d,)).copy()
            ask = question(Kind.SPREAD, like.dtype, spacing=own.spacing, number=d)
            return Advance(known, own, ask._replace(scale=units), x)
        return self.go_on(known, own, x, spent, like=like)

    def go_on(
        self,
        known: Known,
        own: Evolution,
        x: Array,
        spent: int,
        *,
        like: Array,
        factor: Array | None = None,
        dropped: int = 0,
    ) -> Advance:
        """Ask for the next pairs."""
        ask = self._ask(known, own, like.dtype, spent, factor)
        if known.noisy == Noise.NOISY:
            own = own._replace(owed=repeats(own, ask.number)[1])
        return Advance(known, own, ask, x, dropped=dropped)

    def advance(self, known: Known, own: Evolution, asked: Question, answers: Answers) -> Advance:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        if asked.kind == Kind.SPREAD:
            return self._after_spread(known, own, answers)
        return self._after_pairs(known, own, asked, answers)

    def noise_measurements(self, own: Evolution) -> int:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        return own.measured

    def first_pairs(self, dim: int) -> int:
        """How many pairs the search begins with."""
        pairs = self.num_directions
        pairs = default_pairs(dim) if pairs is None else max(pairs, 2)
        return pairs if self.most_directions is None else min(pairs, self.most_directions)

    def _ask(
        self,
        known: Known,
        own: Evolution,
        dtype: np.dtype[Any],
        spent: int,
        factor: Array | None = None,
    ) -> Question:
        """The next pairs; the last ones are as many as the budget allows."""
        pairs = round(own.pairs)
        again = int(own.steps % _LOOK_AGAIN == 0)  # exact values are not trusted for ever
        if known.knows_noise:
            again = 0
        elif known.noisy == Noise.NOISY:
            again, _ = repeats(own, pairs)
        left = (self.budget - spent - self.finals(known)) // self.num_samples
        if 2 * pairs + again > left:
            fewer = left // 2
            if fewer >= (1 if known.noisy == Noise.EXACT else (pairs + 1) // 2):
                pairs, again = min(pairs, fewer), 0
        scale = np.zeros(0, dtype)
        spacing = own.spacing
        few = 1 < own.variances.size <= _FULL_UP_TO and dtype.itemsize == 8
        if few and own.steps == 0 and factor is None:
            factor = np.diag(np.sqrt(own.variances))
        if factor is not None:
            scale = known.units.reshape(-1, 1) * factor
        elif own.variances.size:
            scale = (known.units * np.sqrt(own.variances)).astype(dtype)
        elif known.units.size > 1:
            scale = known.units.astype(dtype)
        else:
            spacing *= float(known.units[0])
        return question(
            Kind.PAIRS, dtype, spacing=spacing, number=pairs, repeats=again, scale=scale
        )

    def _after_spread(self, known: Known, own: Evolution, answers: Answers) -> Advance:
        """The first metric, from f(x + h) and f(x − h) along each axis."""
        plus, minus = answers.values.reshape(-1, 2).T
        change = np.maximum(np.abs(plus + minus - 2 * own.here), 0.05 * np.abs(plus - minus))
        scales = even_scales(change)
        if scales is not None:
            variances = np.clip(scales**2, 1 / _SPREAD, _SPREAD)
            variances /= math.exp(float(np.log(variances).mean()))
            own = own._replace(variances=variances.astype(own.variances.dtype))
        own = own._replace(evaluations=own.evaluations + len(answers.values))
        x = answers.x.reshape(-1)
        return self.go_on(known, own, x, answers.spent, like=answers.x)

    def _after_pairs(
        self, known: Known, own: Evolution, asked: Question, answers: Answers
    ) -> Advance:
        batch, values, errors2 = answers.batch, answers.values, answers.errors2
        pairs, again, like = asked.number, asked.repeats, answers.x
        first, second = values[: 2 * pairs].copy(), values[2 * pairs :]
        finite = np.isfinite(first)  # a point without a value ranks last
        whole = finite[0::2] & finite[1::2]
        dropped = pairs - int(whole.sum())
        if not finite.any():
            return self._after_failure(known, own, asked, answers)
        if again:
            known, own = self._compare(known, own, first, second, whole)
        if errors2 is not None:
            errors2 = errors2[: 2 * pairs]
            known, own = _with_errors(known, own, first, whole, errors2)
        k = constants(like.size, pairs)
        weights = rank(np.where(finite, first, np.inf), k.weights)
        if errors2 is not None:
            weights = _by_precision(weights, first, finite, errors2)
        all_equal = bool((first[finite] == first[finite][0]).all())
        exact = known.noisy == Noise.EXACT and not dropped
        if own.steps == 0 and like.size > EXACT_UP_TO and exact:
            spacing = fitting(own, first, own.lowest, k)
            if spacing < own.spacing:
                own = own._replace(spacing=spacing, evaluations=own.evaluations + len(batch))
                return self.go_on(known, own, like.reshape(-1), answers.spent, like=like)
        if asked.scale.ndim == 2:
            doubts = rank(np.where(finite, first, np.inf), k.doubts)
            chosen = self._chosen_of_few(known, asked, answers, weights, doubts)
        else:
            chosen = self._chosen(own, asked, answers, weights)
        own, factor = follow(
            own,
            chosen.step,
            chosen.squares,
            pairs=pairs,
            all_equal=all_equal,
            widest=self.widest,
            factor=chosen.factor,
        )
        own = own._replace(evaluations=own.evaluations + len(batch))
        own = grow(
            own,
            noisy=known.noisy == Noise.NOISY,
            left=(self.budget - answers.spent) / self.num_samples,
            bound=self.most_directions,
            widest=self.widest,
        )
        x = like.reshape(-1)
        if not all_equal:
            x = self.clipped(x + (asked.spacing * chosen.change).astype(x.dtype), like)
        own = own._replace(lowest=min(own.lowest, float(first[finite].min())))
        if _is_narrow(own) or own.still >= STILL:
            x = x if known.noisy == Noise.NOISY else known.best_x
            return self.start(
                known,
                x,
                known.best,
                answers.spent,
                like=like,
                restarts=own.restarts + 1,
                lowest=own.lowest,
            )
        return self.go_on(known, own, x, answers.spent, like=like, factor=factor, dropped=dropped)

    def _compare(
        self,
        known: Known,
        own: Evolution,
        first: NDArray[np.float64],
        second: NDArray[np.float64],
        whole: NDArray[np.bool_],
    ) -> tuple[Known, Evolution]:
        """Measure the noise by values that were taken twice; ``first`` becomes their mean."""
        again = len(second)
        apart = first[:again] - second
        seen = np.isfinite(apart)
        if apart[seen].any():
            known = known._replace(noisy=int(Noise.NOISY))
        if seen.any() and whole.any() and known.noisy == Noise.NOISY:
            number = int(seen.sum())
            twice2 = float(np.square(apart[seen]).mean())
            halves = 0.5 * (first[0::2] - first[1::2])[whole]
            halves2 = float(np.square(halves).mean())
            share = max(min(number / _MEMORY, 0.5), number / (own.measured + number + 1))
            known = known._replace(noise2=(1 - share) * known.noise2 + share * (twice2 / 2))
            own = measure(own, twice2, halves2, len(halves), number)
            first[:again] = np.where(seen, 0.5 * (first[:again] + second), first[:again])
        return known, own

    def _after_failure(
        self, known: Known, own: Evolution, asked: Question, answers: Answers
    ) -> Advance:
        """No value of the step is finite: look closer to x, where one was."""
        if own.still >= STILL:
            raise ValueError(
                f"None of the values of the last {STILL} steps is finite, the last of them step "
                f"{answers.batch.step}."
            )
        own = own._replace(
            spacing=_ON_FAILURE * own.spacing, steps=own.steps + 1, still=own.still + 1
        )
        factor = None if asked.scale.ndim < 2 else asked.scale / known.units.reshape(-1, 1)
        x, like = answers.x.reshape(-1), answers.x
        step = self.go_on(known, own, x, answers.spent, like=like, factor=factor)
        return step._replace(dropped=step.question.number)

    def _chosen(
        self, own: Evolution, asked: Question, answers: Answers, weights: Array
    ) -> "_Chosen":
        """What the weights choose among the points, which bounds may have moved."""
        learns = bool(own.variances.size)
        scale: Array | float = asked.scale if asked.scale.size else 1.0
        both = weights.reshape(-1, 2)
        draw = answers.batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw | MixedDraw) else draw
        if self.bounds is None:
            step, _ = draw.combine(both[:, 0] - both[:, 1])
            squares = None
            if learns:
                squares = (both.sum(axis=1)[:, None] * np.square(draw.block())).sum(axis=0)
            return _Chosen(scale * step, step, squares, None)
        x = answers.x.reshape(-1)
        step, squares = np.zeros_like(x), np.zeros_like(x)
        for row in np.flatnonzero(weights).tolist():
            z = (answers.batch.point(row).reshape(-1) - x) / (asked.spacing * scale)
            step += weights[row] * z
            squares += weights[row] * z * z
        return _Chosen(scale * step, step, squares if learns else None, None)

    def _chosen_of_few(
        self, known: Known, asked: Question, answers: Answers, weights: Array, doubts: Array
    ) -> "_Chosen":
        """The same for a full metric."""
        batch, units = answers.batch, known.units
        factor = asked.scale / units.reshape(-1, 1)
        if self.bounds is None:
            assert isinstance(batch.draw, MixedDraw)
            z, y = (np.repeat(each.block(), 2, axis=0) for each in (batch.draw.base, batch.draw))
            z[1::2] *= -1
            y[1::2] *= -1
            y /= units
        else:
            points = batch.block(0, 2 * asked.number).reshape(2 * asked.number, -1)
            y = (points - answers.x.reshape(-1)) / (asked.spacing * units)
            z = metric.solve(factor, y)
        step = (weights[:, None] * z).sum(axis=0)
        change = units * metric.apply(factor, step)
        return _Chosen(change, step, metric.chosen(y, z, weights, doubts), factor)


class _Chosen(NamedTuple):
    """What a step's weights choose.

    Attributes:
        change: The change of x over σ.
        step: Σ w z.
        squares: Σ w z² of each parameter, or :func:`metric.chosen` of a full metric.
        factor: F, if the metric is full.
    """

    change: Array
    step: Array
    squares: Array | None
    factor: Array | None


def _is_narrow(own: Evolution) -> bool:
    widest = math.sqrt(float(own.variances.max())) if own.variances.size else 1.0
    return not _NARROW < own.spacing * widest < math.inf


def _with_errors(
    known: Known,
    own: Evolution,
    values: NDArray[np.float64],
    whole: NDArray[np.bool_],
    errors2: NDArray[np.float64],
) -> tuple[Known, Evolution]:
    """Use the noise that values come with instead of a measurement."""
    finite = np.isfinite(errors2)
    noise2 = float(errors2[finite].mean()) if finite.any() else 0.0
    known = known._replace(noise2=noise2, noisy=int(noise2 > 0))
    if whole.any():
        halves2 = float(np.square(0.5 * (values[0::2] - values[1::2])[whole]).mean())
        again = max(1, len(values) // REPEAT)
        own = measure(own, 2 * noise2, halves2, int(whole.sum()), again)
    return known, own


def _by_precision(
    weights: NDArray[np.float64],
    values: NDArray[np.float64],
    finite: NDArray[np.bool_],
    errors2: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Weights by rank, smaller for values whose errors exceed their differences."""
    spread = float(np.var(values[finite]))
    if not spread > 0:
        return weights
    precise = weights * (spread / (spread + np.where(np.isfinite(errors2), errors2, np.inf)))
    total = float(precise.sum())
    return precise / total if total > 0 else weights


# --- formulas ------------------------------------------------------------------------------------


class Constants(NamedTuple):
    """What follows from d and the number of pairs.

    Attributes:
        weights: By rank, best first; they add up to 1.
        effective: 1 / Σ w².
        neutral: :func:`theory.mirrored_neutral` of the weights.
        memory: 1 over the steps that the path remembers.
        damping: How hesitantly σ follows the path.
        rank_one: How fast the metric learns from the path.
        rank_mu: How fast the metric learns from the step's points.
        slow_memory: 1 over the steps that the metric's path remembers.
        full_one: How fast a full metric learns from the path.
        full_mu: How fast it learns from the step's points.
        doubts: By rank: what a full metric learns from the worse half; they add up to −``doubt``.
        doubt: Their size.
        length: The expected length of a vector of d normals.
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
    doubts: NDArray[np.float64]
    doubt: float
    length: float


def default_pairs(dim: int) -> int:
    """How many pairs a search begins with."""
    return max(2, (4 + int(3 * math.log(dim))) // 2)


@lru_cache(maxsize=256)
def constants(dim: int, pairs: int) -> Constants:
    """The constants of a step.

    Those of separable CMA-ES (Ros & Hansen, 2008), and for a full metric those of CMA-ES with
    negative weights (Hansen, 2016, The CMA evolution strategy: a tutorial, table 1).
    """
    d = dim
    weights = np.array(theory.rank_weights(2 * pairs))
    mu = theory.effective(weights.tolist())
    memory = (mu + 2) / (d + mu + 5)
    faster = (d + 2) / 3  # a diagonal has d numbers to learn, not d²
    full_one = 2 / ((d + 1.3) ** 2 + mu)
    full_mu = min(1 - full_one, 2 * (mu - 2 + 1 / mu) / ((d + 2) ** 2 + mu))
    rank_one = full_one * faster
    rank_mu = min(1 - rank_one, 2 * (mu - 2 + 1 / mu) / ((d + 2) ** 2 + mu) * faster)
    worse = np.minimum(math.log(pairs + 0.5) - np.log(np.arange(1, 2 * pairs + 1)), 0.0)
    of_worse = float(worse.sum()) ** 2 / float(np.square(worse).sum())
    doubt = 1 + 2 * of_worse / (mu + 2)
    if full_mu > 0:
        doubt = min(doubt, 1 + full_one / full_mu, (1 - full_one - full_mu) / (d * full_mu))
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
        doubts=worse * (-doubt / float(worse.sum())),
        doubt=doubt,
        length=math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)),
    )


def begin(
    dim: int,
    dtype: np.dtype[Any],
    *,
    learns: bool,
    pairs: int | None = None,
    spacing: float = 1.0,
    restarts: int = 0,
    here: float = math.inf,
    lowest: float = math.inf,
) -> Evolution:
    """The state before the first step.

    Args:
        dim: d.
        dtype: Of the parameters.
        learns: Whether a metric is learned.
        pairs: The smallest population.
        spacing: σ.
        restarts: How often the search began again.
        here: The value at the start, if it is known.
        lowest: The lowest value seen.
    """
    smallest = default_pairs(dim) if pairs is None else pairs
    none = np.zeros(0, dtype)
    return Evolution(
        spacing=spacing,
        path=np.zeros(dim, dtype),
        slow_path=np.zeros(dim, dtype) if learns else none,
        variances=np.ones(dim, dtype) if learns else none,
        pairs=float(smallest),
        smallest=smallest,
        steps=0,
        evaluations=0,
        share=0.0,
        measured=0,
        owed=0.0,
        still=0,
        restarts=restarts,
        here=here,
        lowest=lowest,
    )


def follow(
    now: Evolution,
    step: Array,
    squares: Array | None,
    *,
    pairs: int,
    all_equal: bool,
    widest: float = math.inf,
    factor: Array | None = None,
) -> tuple[Evolution, Array | None]:
    """Adapt spacing and metric to a step.

    Args:
        now: Before the step.
        step: Σ w z, the step in units of σ and of the metric.
        squares: For the metric: Σ w z² of each parameter, or :func:`metric.chosen` if it is full.
        pairs: L.
        all_equal: Whether all values of the step were the same.
        widest: The spacing does not grow beyond this, on the geometric mean of the parameters, and
            beyond three times this for any of them.
        factor: F, if the metric is full.

    Returns:
        What is known after the step, and F.
    """
    if all_equal:
        wider = min(now.spacing * _WIDER, widest)
        return now._replace(spacing=wider, steps=now.steps + 1, still=now.still + 1), factor
    d = now.path.size
    k = constants(d, pairs)
    kept = 1 - k.memory
    path = np.empty_like(now.path)
    new = (math.sqrt(k.memory * (1 + kept) * k.neutral) * step).astype(path.dtype, copy=False)
    length2, _ = kernels.on_sums().advance(kept * now.path, new, path)
    length = math.sqrt(length2)
    variances, slow_path = now.variances, now.slow_path
    if squares is not None and variances.size:
        settled = 1 - kept ** (2 * (now.steps + 1))
        calm = length / math.sqrt(settled) < (1.4 + 2 / (d + 1)) * k.length
        slow = 1 - k.slow_memory
        slow_path = slow * slow_path
        if calm:
            moved = np.sqrt(variances) * step if factor is None else metric.apply(factor, step)
            slow_path += math.sqrt(k.slow_memory * (1 + slow) * k.neutral) * moved
        signal = max(1 - now.share, 0.0)  # ranks by noise teach nothing
        if factor is None:
            one, many = signal * k.rank_one, signal * k.rank_mu
            variances = (
                (1 - one - many) * variances + one * slow_path**2 + many * variances * squares
            )
            least = 1e-300 if variances.dtype.itemsize == 8 else 1e-30
            variances = np.clip(variances, least, None)
        else:
            factor = metric.learned(
                factor,
                slow_path,
                squares,
                one=signal * k.full_one,
                many=signal * k.full_mu,
                total=1 - k.doubt,
            )
            variances = np.square(factor).sum(axis=1)
    change = k.memory / k.damping * (length / k.length - 1)
    spacing = now.spacing * math.exp(min(1.0, change))
    if widest < math.inf:
        mean = math.exp(0.5 * float(np.log(variances).mean())) if variances.size else 1.0
        spacing = min(spacing, widest / mean)
        most = (_WIDEST_OF_ALL * widest / spacing) ** 2
        if factor is not None:
            factor = factor * np.sqrt(np.minimum(most / variances, 1.0))[:, None]
        variances = np.minimum(variances, most)
    after = now._replace(
        spacing=spacing,
        path=path,
        slow_path=slow_path,
        variances=variances,
        steps=now.steps + 1,
        still=0,
    )
    return after, factor


def fitting(now: Evolution, values: NDArray[np.float64], here: float, k: Constants) -> float:
    r"""A spacing at which the first step can get ahead, from exact values of its pairs.

    Far away from the optimum of a sphere, R, the best spacing is about :math:`0.8 \mu R/d` (Arnold,
    2002). Half the differences of pairs are then :math:`2\sigma R` in size, and their means lie
    :math:`\sigma^2 d` above x: 0.4 μ times as much. So that ratio tells how much too wide a
    spacing is. The path would tell, too, but takes about d steps to.

    Args:
        now: Before the step.
        values: Of its points.
        here: The value at x.
        k: The step's constants.

    Returns:
        The spacing as it is, unless it is more than twice too wide.
    """
    plus, minus = values[0::2], values[1::2]
    bend = float((0.5 * (plus + minus) - here).mean())
    slope = math.sqrt(float(np.square(0.5 * (plus - minus)).mean()))
    most = _BEST_BEND * k.effective * slope
    if not (math.isfinite(bend) and slope > 0 and bend > 2 * most and now.spacing > _FINEST):
        return now.spacing
    return now.spacing * max(most / bend, _AT_ONCE)


def repeats(now: Evolution, pairs: int) -> tuple[int, float]:
    """How many points of the next step are evaluated again, and what is owed after it."""
    owed = now.owed + 2 * pairs / REPEAT
    due = min(int(owed), 2 * pairs)
    return due, owed - due


def measure(
    now: Evolution, differences2: float, halves2: float, pairs: int, again: int
) -> Evolution:
    r"""Take in a measurement of the noise.

    With s² the variance of a value's noise, half the difference of a pair has variance
    :math:`S + s^2/2`, S being the signal's. The noise's share is averaged over steps, not its
    parts: those fall by orders of magnitude during a run, and the first would count for ever.

    Args:
        now: Before.
        differences2: The mean square of the differences of values that were measured twice: 2 s².
        halves2: The mean square of half the differences of pairs.
        pairs: How many pairs there were: 1 over a mean of that many squares is too large by
            L/(L − 2) on average.
        again: How many values were measured twice.
    """
    share = differences2 / 4 / max(halves2, 1e-300) * max(pairs - 2, 1) / pairs
    measured = now.measured + again
    new = max(min(again / _MEMORY, 0.5), again / measured)
    return now._replace(share=(1 - new) * now.share + new * min(share, 3.0), measured=measured)


def grow(
    now: Evolution,
    *,
    noisy: bool,
    left: float,
    bound: int | None = None,
    widest: float = math.inf,
) -> Evolution:
    """Adapt the population, and the spacing to the noise.

    It grows slowly with the evaluations made, whatever the values (late steps have more to tell
    apart), and fast while noise is more than half of what pairs differ by. Meanwhile the spacing
    widens: the path of steps that noise has ordered says nothing about it, and would let it fall to
    where no pair can be told apart.

    Args:
        now: After the step.
        noisy: Whether values are noisy.
        left: Evaluations that are left.
        bound: The largest population there may be, in pairs.
        widest: The spacing is not widened beyond this.
    """
    d = now.path.size
    base = now.smallest * math.sqrt(1 + now.evaluations / (_WAIT[noisy] * d))
    pairs = max(now.pairs, base)
    if noisy and now.measured >= 5:
        ratio = now.share / max(1 - now.share, 0.01)  # of noise to signal
        push = min(max(math.log(max(ratio, 1e-9)), -1.0), 1.0)
        speed = _SHRINK if push < 0 else _GROWTH if pairs < d / 2 else _SLOW
        memory = constants(d, round(pairs)).memory
        pairs *= math.exp(memory * speed * push)
        wider = now.spacing * math.exp(memory * _WIDEN * max(push, 0.0))
        now = now._replace(spacing=max(min(wider, widest), now.spacing))
    largest = max(_LARGEST * d, now.evaluations / 20)
    largest = max(min(largest, left / (2 * _STEPS_LEFT)), now.pairs)
    pairs = max(min(pairs, largest), now.smallest)
    return now._replace(pairs=pairs if bound is None else min(pairs, float(bound)))
