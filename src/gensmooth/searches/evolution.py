r"""What the mirrored evolution strategy remembers, and the rules by which it adapts.

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

:class:`~gensmooth.MirroredES` uses these rules. Each is a pure function of an :class:`Evolution`.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels, theory
from gensmooth.searches import metric

Array = NDArray[Any]

# The rates of paths, step size and metric are CMA-ES's: see :func:`constants`. The values below
# were chosen by experiment on bbob and its noisy variants, unless the comment says otherwise;
# docs/pilot-results.md has the comparisons.

# Noise
REPEAT_ONE_IN = 30  # if values are noisy, one evaluation in this many repeats a point
_SHARE_MEMORY = 10.0  # the number of measurements that the noise share averages
_MAX_NEW = 0.5  # largest weight of one step in that average, after the first
_MAX_SHARE = 3.0  # shares above 1 occur by chance; an outlier must not dominate the average
_MIN_MEASUREMENTS = 5  # with fewer, the share is too uncertain to act on
# Population. Rates are per memory length of the path, as those of the spacing are.
_GROW = 1.0  # growth of log(pairs) if noise dominates
_GROW_SLOWLY = 0.05  # the same above d / 2 pairs, where more pairs only average the noise
_SHRINK = 0.1  # decrease of log(pairs) if noise is small
_GROWTH_PERIOD = 100.0  # evaluations per parameter in which the smallest population grows by √2
_GROWTH_PERIOD_NOISY = 30.0  # the same for noisy values
# Parameters. With a full metric of more, the period is (d / 20)² times as long (chosen at d = 40):
# the metric learns slowly, and larger populations would leave it too few steps.
_SLOWER_FROM = 20
# Pairs per parameter; with a budget also more, if a step costs at most 1/10 of all evaluations so
# far. Without a budget, nothing would end that growth.
_MAX_PAIRS = 20
_STEPS_LEFT = 10  # a larger population must leave enough budget for this many steps
# Spacing
_WIDEN_IN_NOISE = 0.1  # growth of log σ if noise dominates, so that pairs differ by more than noise
_WIDEN_IF_FLAT = 1.5  # factor of σ after a step whose values are all equal
_MAX_OVER_MEAN = 3.0  # largest spacing of one parameter, relative to `widest`
_MAX_LOG_CHANGE = 1.0  # largest growth of log σ in a step, as in pycma
# First spacing
_BEST_CURVATURE = 0.4  # derived: see :func:`shorter_first_spacing`
_MAX_FIRST_DROP = 1e-2  # smallest factor of the first spacing in one step
_MIN_FIRST_SPACING = 1e-6  # smallest first spacing, in units
# Metric
_FULL_METRIC_UP_TO = 200  # parameters; beyond, the metric is diagonal
# Convergence
FLAT_STEPS = 30  # steps in a row whose values are all equal, or stale
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


def has_converged(evolution: Evolution) -> bool:
    """Return whether a restart is due: the spacing is negligible, or values no longer differ."""
    widest = math.sqrt(float(evolution.variances.max())) if evolution.variances.size else 1.0
    negligible = not _CONVERGED < evolution.spacing * widest < math.inf
    return negligible or max(evolution.flat_steps, evolution.stale_steps) >= FLAT_STEPS


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


def weight_of_new(number: int, total: int) -> float:
    """Return the weight of ``number`` new measurements in an average of ``total``.

    All measurements have the same weight at first. Later the new ones have at least a tenth each,
    but together at most half.
    """
    return max(min(number / _SHARE_MEMORY, _MAX_NEW), number / total)


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
    new = weight_of_new(repeats, number)
    share = (1 - new) * now.noise_share + new * min(share, _MAX_SHARE)
    return now._replace(noise_share=share, noise_measurements=number)


def adapt_population(
    now: Evolution,
    *,
    noisy: bool,
    full: bool,
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
        full: Whether the metric of the step was full.
        left: The number of evaluations left: ∞ if the budget is unknown.
        bound: The largest population, in pairs.
        widest: The largest spacing.
    """
    d = now.path.size
    period = _GROWTH_PERIOD_NOISY if noisy else _GROWTH_PERIOD
    if full:
        period *= max(1.0, d / _SLOWER_FROM) ** 2
    if not noisy:  # restarts have larger populations; their metric needs as many steps
        period *= now.min_pairs / default_pairs(d)
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
    largest = _MAX_PAIRS * d
    if math.isfinite(left):
        largest = max(largest, now.evaluations / 20)  # a step evaluates two points per pair
    largest = max(min(largest, left / (2 * _STEPS_LEFT)), now.pairs)
    pairs = max(min(pairs, largest), now.min_pairs)
    return now._replace(pairs=pairs if bound is None else min(pairs, float(bound)))
