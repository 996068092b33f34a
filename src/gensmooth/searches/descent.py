r"""Gradient descent that finds its learning rate: the phase of the pilot for shared samples.

With ``samples="shared"`` or ``"paired"``, both ends of a difference see the same noise. Forward
differences then estimate the gradient *for these samples* accurately, and the remaining noise is
that of the samples, which differ from step to step. Gradient descent suits this case, provided that
its learning rate η is right.

The greedy learning rate is the one after which the next gradient is orthogonal to the last step
(docs/pilot.md). So each step evaluates one point in addition to its L random sign directions: along
p, the mean of past estimates, scaled to the length of a direction. The derivative D_p along p then
adjusts η:

.. math:: \log\eta \leftarrow \log\eta + a\,\mathrm{clip}(D_p / \sqrt{\overline{D_l^2}}, \pm 1.5).

If p and the gradient are uncorrelated, p is a direction like any other, so the ratio has mean 0 and
variance about 1. The component of the estimate along p is replaced by the measured one, which is
more accurate.

The usual rate a = 0.05 is too slow if the budget allows only a few steps. Then a is 2 over the
number of the step, but at most 0.3 and at least the usual value.

:class:`GreedyDescent` is the search: which points it requests, and what it does with their values.
The functions below it are its formulas, each a pure function of a :class:`Descent`; :func:`adapt`
is the step rule.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions.composed import JoinedDraw, ScaledDraw
from gensmooth.searches.adaptive import (
    FORWARD,
    AdaptiveSearch,
    Knowledge,
    PointRequest,
    RequestKind,
    Response,
    Transition,
    make_request,
    request_of,
    square,
)
from gensmooth.searches.protocol import SearchState

Array = NDArray[Any]

# Chosen by experiment on linear regression and noisy quadratics (docs/pilot-results.md).
SPACING = 0.01  # in units; the result hardly depends on it
_FIRST_STEP = 0.1  # length of the first step, relative to one unit in every parameter
_SPEED = 0.05  # a, the rate at which log η adapts
_FAST_SPEED = (0.3, 2.0)  # if steps are few, a is at most the first, and the second / step number
_CLIP = 1.5  # bound of the ratio: 1.5 standard deviations without a signal
_MEAN_MEMORY = 0.1  # weight of a new estimate in the mean of past estimates
_SIZE_MEMORY = 0.05  # weight of a new estimate in its mean squared length
_SHORTEN_ABOVE = 2.0  # an estimate longer than this times the usual is shortened to it, ...
_CUT_IF_SHORTENED = 0.5  # ... and log η falls by this much
_UNDO_ABOVE = 10.0  # an estimate longer than this times the usual undoes the last step, ...
_CUT_AFTER_UNDO = 1.5  # ... and log η falls by this much
_FEW_STEPS = 100  # with fewer steps in the budget, η adapts faster
_MIN_STEPS = 25  # the number of directions falls until this many steps fit into the budget


class Descent(NamedTuple):
    """What descent remembers between steps.

    Attributes:
        mean_estimate: The decaying mean of past estimates, per unit: p before it is scaled.
        size2: The decaying mean of ‖estimate‖².
        log_rate: log η.
        steps: Number of steps.
        last_change: The last change of x, in units, in case it has to be undone.
    """

    mean_estimate: Array
    size2: float
    log_rate: float
    steps: int
    last_change: Array


@final
@dataclass(frozen=True, kw_only=True)
class GreedyDescent(AdaptiveSearch):
    """Gradient descent that finds its learning rate, for samples that points share.

    The arguments are those of :class:`~gensmooth.Pilot`.

    >>> import gensmooth as gs
    >>> search = gs.GreedyDescent(budget=3000, samples="shared")
    >>> def fun(x, rng):
    ...     return ((x - 3 + 0.1 * rng.standard_normal(2)) ** 2).sum()
    >>> res = gs.minimize(fun, [0.0, 0.0], search=search, budget=3000, seed=0)
    >>> res.x.round(0)
    array([3., 3.])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples == "independent":
            raise ValueError(
                "GreedyDescent needs samples='shared' or samples='paired', but `samples` is "
                "'independent': use the pilot (method='auto') or MirroredES."
            )

    def begin(self, x: Array, known: Knowledge) -> Transition:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        descent = initial_descent(x.size, x.dtype)
        return Transition(known, descent, self._request(known, descent, x.dtype), x)

    def advance(
        self, known: Knowledge, descent: Descent, request: PointRequest, response: Response, /
    ) -> Transition:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        batch, has_guide = response.batch, bool(request.line.size)
        delta, _ = FORWARD.differences(response.values, request.number + has_guide, self.samples)
        derivatives = delta / SPACING  # per unit
        along = float(derivatives[-1]) if has_guide else None
        along = along if along is None or math.isfinite(along) else None
        derivatives = derivatives[: request.number]
        finite = np.isfinite(derivatives)
        used = int(finite.sum())
        if used < max(1, math.ceil(self.min_fraction * request.number)):
            raise ValueError(
                f"Only {used} of {request.number} directions of step {batch.step} have finite "
                f"values, fewer than min_fraction={self.min_fraction} requires."
            )
        draw = batch.draw.first if isinstance(batch.draw, JoinedDraw) else batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw) else draw
        estimate, _ = draw.combine(np.where(finite, derivatives, 0.0) / used)
        few = self._has_few_steps(estimate.size)
        descent, change = adapt(descent, estimate, derivatives[finite], along, few=few)
        scale = request.scale if request.scale.size else float(known.units[0])
        x = response.x.reshape(-1)
        x = self.clipped(x + (scale * change).astype(x.dtype), response.x)
        return Transition(
            known,
            descent,
            self._request(known, descent, response.x.dtype),
            x,
            gradient=math.sqrt(square(estimate / scale)),
            dropped=request.number - used,
        )

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """Return the mean of the values at x."""
        request = request_of(state)
        means = values.reshape(-1, self.num_samples).mean(axis=1)
        return FORWARD.differences(means, request.number + bool(request.line.size), self.samples)[1]

    def _request(self, known: Knowledge, descent: Descent, dtype: np.dtype[Any]) -> PointRequest:
        towards = guide(descent)
        several_units = known.units.size > 1
        return make_request(
            RequestKind.DESCENT,
            dtype,
            spacing=SPACING * (1.0 if several_units else float(known.units[0])),
            number=self._number(towards.size),
            scale=known.units.astype(dtype) if several_units else np.zeros(0, dtype),
            line=towards if descent.steps else np.zeros(0, dtype),
        )

    def _number(self, dim: int) -> int:
        """Return the number of directions per step, reduced if the budget allows few steps."""
        number = self._usual_number(dim)
        if self.num_directions is not None:
            return number
        points = self.planned / self.num_samples / _MIN_STEPS  # L directions, the guide, centres
        fits = points - 2 if self.samples == "shared" else points / 2 - 1
        return int(min(number, max(fits, 2)))

    def _usual_number(self, dim: int) -> int:
        return 4 + int(3 * math.log(dim)) if self.num_directions is None else self.num_directions

    def _has_few_steps(self, dim: int) -> bool:
        points = len(FORWARD.points(self._usual_number(dim) + 1, self.samples))
        return self.planned < _FEW_STEPS * self.num_samples * points


# --- formulas ------------------------------------------------------------------------------------


def initial_descent(dim: int, dtype: np.dtype[Any]) -> Descent:
    """Return the memory before the first step."""
    return Descent(np.zeros(dim, dtype), 0.0, 0.0, 0, np.zeros(dim, dtype))


def guide(now: Descent) -> Array:
    """Return p: the mean of past estimates, scaled to length √d; zero before the first step."""
    length = math.sqrt(square(now.mean_estimate))
    return (
        now.mean_estimate * (math.sqrt(now.mean_estimate.size) / length)
        if length > 0
        else now.mean_estimate
    )


def adapt(
    now: Descent,
    estimate: Array,
    derivatives: NDArray[np.float64],
    along: float | None,
    *,
    few: bool = False,
) -> tuple[Descent, Array]:
    """Make a step: adapt the learning rate, and return the change of x.

    Args:
        now: The memory before the step.
        estimate: The gradient estimate per unit, from the L directions.
        derivatives: The derivative along each direction.
        along: The derivative along :func:`guide`, if it was measured.
        few: Whether the budget allows only a few steps.

    Returns:
        The memory after the step, and the change of x in units.
    """
    d = estimate.size
    log_rate, speed = now.log_rate, _SPEED
    if few:
        speed = max(speed, min(_FAST_SPEED[0], _FAST_SPEED[1] / (now.steps + 1)))
    if along is not None:
        usual = math.sqrt(float(np.square(derivatives).mean()))
        if usual > 0:
            log_rate += speed * min(max(along / usual, -_CLIP), _CLIP)
        p = guide(now)
        estimate = estimate + p * ((along - float((estimate * p).sum())) / d)
    size2 = square(estimate)
    if size2 == 0:
        return now._replace(steps=now.steps + 1), np.zeros_like(estimate)
    first = now.steps == 0 or now.size2 == 0
    if not first and size2 > _UNDO_ABOVE**2 * now.size2:
        if now.last_change.any():
            return _undone(now)
        now, first = now._replace(size2=size2), True  # nothing to undo: the first size was wrong
    if first:
        log_rate = math.log(_FIRST_STEP * math.sqrt(d / size2))
    weight = max(1 / (now.steps + 1), _SIZE_MEMORY)
    longest2 = _SHORTEN_ABOVE**2 * now.size2 or math.inf
    usual2 = (1 - weight) * now.size2 + weight * min(size2, longest2)
    shorter = min(1.0, _SHORTEN_ABOVE * math.sqrt(usual2 / size2))
    if shorter < 1:  # estimates grow this fast only if steps are too long
        log_rate -= _CUT_IF_SHORTENED
    change = (-math.exp(log_rate) * shorter * estimate).astype(now.mean_estimate.dtype, copy=False)
    weight = max(1 / (now.steps + 1), _MEAN_MEMORY)
    mean = ((1 - weight) * now.mean_estimate + weight * estimate).astype(
        now.mean_estimate.dtype, copy=False
    )
    return Descent(mean, usual2, log_rate, now.steps + 1, change), change


def _undone(now: Descent) -> tuple[Descent, Array]:
    """Undo the last step, because the gradient after it was far too long."""
    after = now._replace(
        log_rate=now.log_rate - _CUT_AFTER_UNDO,
        steps=now.steps + 1,
        last_change=np.zeros_like(now.last_change),
    )
    return after, -now.last_change
