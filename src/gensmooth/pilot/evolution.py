r"""The mirrored evolution strategy: the part of the pilot that needs nothing but comparisons.

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
  place, :mod:`~gensmooth.pilot.metric`.
- The population, by the noise's share in the differences of pairs, see :func:`grow`; and the more
  of a step is noise, the less the scales learn from it.

Sources: Hansen & Ostermeier (2001) for paths and weights, Ros & Hansen (2008) for the diagonal
metric, Hansen et al. (2009) for measuring noise by evaluating again; the neutral length of mirrored
pairs, the noise share and its use are ours (docs/pilot.md).
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import estimators, kernels, theory
from gensmooth.pilot.metric import apply, learned

Array = NDArray[Any]
rank = estimators.rank  # the weight of each value, as in :class:`estimators.Ranked`

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
    dim: int, dtype: np.dtype[Any], *, metric: bool, pairs: int | None = None, spacing: float = 1.0
) -> Evolution:
    """The state before the first step.

    Args:
        dim: d.
        dtype: Of the parameters.
        metric: Whether a diagonal metric is learned.
        pairs: The smallest population.
        spacing: σ.
    """
    smallest = default_pairs(dim) if pairs is None else pairs
    none = np.zeros(0, dtype)
    return Evolution(
        spacing=spacing,
        path=np.zeros(dim, dtype),
        slow_path=np.zeros(dim, dtype) if metric else none,
        variances=np.ones(dim, dtype) if metric else none,
        pairs=float(smallest),
        smallest=smallest,
        steps=0,
        evaluations=0,
        share=0.0,
        measured=0,
        owed=0.0,
        still=0,
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
            moved = np.sqrt(variances) * step if factor is None else apply(factor, step)
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
            factor = learned(
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


def square(vector: Array) -> float:
    """‖vector‖², summed in a fixed order."""
    return float(np.square(vector, dtype=np.float64).sum())
