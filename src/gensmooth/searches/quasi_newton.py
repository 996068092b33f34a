r"""A quasi-Newton search: the first phase of the pilot if values are exact.

- Gradient: forward differences along the axes (d evaluations), and central differences (2d) once
  forward differences are too inaccurate to make progress.
- Direction: the two-loop recursion of L-BFGS (Nocedal, 1980) with a long memory.
- Scale of the unknown: with more than a few parameters, one evaluation measures the curvature
  where the first steps have revealed none.
- Length: a line search by parabolas, one evaluation at a time.

Parameters are measured in *scales*, which makes the search independent of the user's units. With
more than a few parameters, the search measures the curvature along each axis once after a while
and, if the curvatures differ widely, chooses new scales.

:class:`QuasiNewton` is the search: which points it requests, and what it does with their values.
The functions below it are its formulas, each a pure function of a :class:`Newton`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.parameters import Bounds
from gensmooth.searches.adaptive import (
    NEWTON_UP_TO,
    AdaptiveSearch,
    Knowledge,
    Noise,
    PointRequest,
    RequestKind,
    Response,
    Transition,
    kept_of,
    make_request,
    request_of,
    square,
)
from gensmooth.searches.protocol import SearchState

Array = NDArray[Any]

# Common practice for L-BFGS (Nocedal & Wright, 2006, chapters 3, 7 and 8) unless stated otherwise.
MEMORY = 150  # past steps, and changes of the gradient that they caused (docs/pilot-results.md)
EAGER_UP_TO = 10  # parameters for which steps along unknown axes become very long; by experiment
EAGER_AFTER = 10  # evaluations per parameter before they do; by experiment
_FLATNESS = 1e6  # how much flatter than the first step unknown axes then count; by experiment
EXPLORE_UP_TO = 0.1  # steps per parameter that leave much to explore; by experiment
_FLATTER = 10.0  # how much flatter than assumed unknown directions must be; by experiment
DIFFERENCE = 2e-8  # spacing of forward differences, in scales: about √(rounding error)
CENTRAL = 3e-7  # spacing of central differences, by experiment (docs/pilot-results.md)
PROBE = 1e-3  # spacing of second differences, in units; rounding errors are then 1e-10 of a value
PROBE_AFTER = 20  # evaluations per parameter before the curvature is measured; by experiment
_MIN_UNEVENNESS = 30.0  # ratio of scales below which the old ones are kept; by experiment
_LONGEST = 3.0  # root mean square of a step, in scales, that is tried first; by experiment
_ARMIJO = 1e-4  # required share of the decrease that the slope predicts (Armijo's condition)
_SHORTEN = (0.1, 0.5)  # bounds on the factor by which a length that failed is shortened
_LENGTHEN = 10.0  # bound on the factor by which a length that succeeded is lengthened
_WORTHWHILE = 0.25  # least promised gain of a further length over its cost; by experiment
_MAX_TRIES = 12  # lengths tried on a line; if all fail, the last is at most 2⁻¹¹ of the first
_CONVERGED = 1e-13  # relative decrease of the value that counts as rounding


class Newton(NamedTuple):
    """What the quasi-Newton search remembers between evaluations.

    Attributes:
        x: The current point, flat.
        value: The value at x.
        scale: The scale of each parameter.
        gradient: The gradient at x, per scale.
        previous_x: The previous point.
        previous_gradient: The gradient at the previous point.
        has_previous: Whether there is a previous point.
        steps: The last steps, in scales, newest last.
        changes: The changes of the gradient that these steps caused.
        stored: The number of valid rows in ``steps`` and ``changes``.
        slope: The derivative along the line.
        length: The length to try on the line.
        tries: The number of lengths tried.
        best_length: The best length so far.
        best_value: The value at the best length; infinity until a length satisfies Armijo's
            condition.
        central: Whether differences are central.
        probed: Whether the curvature has been measured.
        evaluations: Number of evaluations.
        finished: Whether the search has converged or cannot continue.
    """

    x: Array
    value: float
    scale: Array
    gradient: Array
    previous_x: Array
    previous_gradient: Array
    has_previous: bool
    steps: Array
    changes: Array
    stored: int
    slope: float
    length: float
    tries: int
    best_length: float
    best_value: float
    central: bool
    probed: bool
    evaluations: int
    finished: bool


@final
@dataclass(frozen=True, kw_only=True)
class QuasiNewton(AdaptiveSearch):
    """L-BFGS on finite differences, for exact values and up to 1000 parameters.

    The arguments are those of :class:`~gensmooth.Pilot`.

    >>> import gensmooth as gs
    >>> search = gs.QuasiNewton(budget=200)
    >>> res = gs.minimize(lambda x: ((x - 3) ** 4).sum(), [0.0, 0.0], search=search, budget=200)
    >>> res.x.round(2)
    array([3., 3.])
    """

    def begin(self, x: Array, known: Knowledge) -> Transition:
        """Request x0 twice, to check that values are exact."""
        if self.samples is not None:
            raise ValueError("QuasiNewton needs exact values: omit `samples`.")
        if x.size > NEWTON_UP_TO or x.dtype.itemsize != 8:
            raise ValueError(
                f"QuasiNewton accepts at most {NEWTON_UP_TO} parameters of dtype float64, but x0 "
                f"has {x.size} of dtype {x.dtype}: use the pilot (method='auto')."
            )
        return Transition(
            known, self.at(x, 0.0, known), make_request(RequestKind.START, x.dtype), x
        )

    def at(self, x: Array, value: float, known: Knowledge) -> Newton:
        """Return the memory at a point whose value is known, before its first gradient."""
        return initial_newton(x, value, np.broadcast_to(known.units, (x.size,)).copy())

    def advance(
        self, known: Knowledge, newton: Newton, request: PointRequest, response: Response, /
    ) -> Transition:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        kind = request.kind
        if kind is RequestKind.START:
            first, second = response.values.tolist()
            if first != second:
                raise ValueError(
                    f"QuasiNewton needs exact values, but two evaluations of x0 returned {first:g} "
                    f"and {second:g}: use the pilot (method='auto') or MirroredES."
                )
            known = known._replace(noisy=Noise.EXACT)
            return self.gradient_next(known, self.at(response.x, first, known), response.x)
        newton = newton._replace(evaluations=newton.evaluations + len(response.values))
        if kind is RequestKind.LINE_SEARCH:
            return self._after_line(known, newton, request, response)
        if kind is RequestKind.EXPLORATION:
            inverse = explored(newton, float(response.values[0]))
            return self._line_next(known, newton, response.x, inverse)
        if kind is RequestKind.CURVATURE:
            plus, minus = response.values.reshape(-1, 2).T
            units = np.broadcast_to(known.units, newton.x.shape)
            newton = rescale(newton, plus + minus - 2 * newton.value, units)
            return self.gradient_next(known, newton, response.x)
        now = take_gradient(newton, response.values, self.limits(response.x))
        if now is None:
            return self.gradient_next(known, newton._replace(finished=True), response.x)
        exploring = explore(now, self.limits(response.x))
        if exploring is None:
            step = self._line_next(known, now, response.x)
        else:
            step = self._on_line(known, RequestKind.EXPLORATION, *exploring)
        return step._replace(gradient=math.sqrt(square(now.gradient / now.scale)))

    def _line_next(
        self, known: Knowledge, newton: Newton, like: Array, inverse: float | None = None
    ) -> Transition:
        """Request the first point of the next line."""
        started = start_line(newton, self.limits(like), inverse)
        if started is None:
            return self.gradient_next(known, newton._replace(finished=True), like)
        return self._on_line(known, RequestKind.LINE_SEARCH, *started)

    def _on_line(
        self, known: Knowledge, kind: RequestKind, newton: Newton, line: Array
    ) -> Transition:
        """Request the point of a line at the length to try."""
        request = make_request(kind, newton.x.dtype, spacing=newton.length, line=line)
        return Transition(known, newton, request, newton.x)

    def _after_line(
        self, known: Knowledge, newton: Newton, request: PointRequest, response: Response
    ) -> Transition:
        """Continue the line search, or move and request the next gradient."""
        newton, ended = try_length(newton, float(response.values[0]))
        if not ended:
            return Transition(known, newton, request._replace(spacing=newton.length), newton.x)
        newton, descends = move(newton, request.line)
        newton = newton._replace(x=self.clipped(newton.x, response.x))
        if not descends:
            if newton.central:
                newton = newton._replace(finished=True)
            else:
                newton = _forget(newton._replace(central=True))
        elif (
            newton.x.size > EAGER_UP_TO
            and not newton.probed
            and newton.evaluations >= PROBE_AFTER * newton.x.size
        ):
            units = np.broadcast_to(known.units, newton.x.shape).copy()
            dtype, d = response.x.dtype, newton.x.size
            probe = make_request(RequestKind.CURVATURE, dtype, spacing=PROBE, number=d, scale=units)
            return Transition(known, newton, probe, newton.x)
        return self.gradient_next(known, newton, response.x)

    def gradient_next(self, known: Knowledge, newton: Newton, like: Array) -> Transition:
        """Request the gradient at the current point; ``like`` has the user's shape."""
        kind = RequestKind.FORWARD_DIFFERENCES
        if newton.central:
            kind = RequestKind.CENTRAL_DIFFERENCES
        apart = difference_spacings(newton, self.limits(like))
        request = make_request(kind, newton.x.dtype, spacing=1.0, number=newton.x.size, scale=apart)
        return Transition(known, newton, request, newton.x)

    def converged(self, state: SearchState) -> str | None:
        """Return why the search has finished, if it has."""
        newton: Newton = kept_of(state).memory
        return "the value no longer decreases along the gradient" if newton.finished else None

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """Return the value at the current point."""
        if request_of(state).kind is RequestKind.START:
            return super().value_at(state, values)
        value: float = kept_of(state).memory.value
        return -value if self.maximize else value


# --- formulas ------------------------------------------------------------------------------------


def initial_newton(x: Array, value: float, units: Array) -> Newton:
    """Return the memory before the first gradient."""
    zero, d = np.zeros(x.size), x.size
    memory = np.zeros((MEMORY, d))
    return Newton(
        x=x.reshape(-1),
        value=value,
        scale=units,
        gradient=zero,
        previous_x=zero,
        previous_gradient=zero,
        has_previous=False,
        steps=memory,
        changes=memory,
        stored=0,
        slope=0.0,
        length=0.0,
        tries=0,
        best_length=0.0,
        best_value=math.inf,
        central=False,
        probed=False,
        evaluations=0,
        finished=False,
    )


def difference_spacings(now: Newton, bounds: Bounds | None) -> Array:
    """Return the spacing of differences along each axis; negative where an upper bound is close."""
    # The second terms keep the spacing well above the rounding error of x, about 1e-16 |x|.
    if now.central:
        return np.maximum(CENTRAL * now.scale, 1e-8 * np.abs(now.x))
    ahead = np.maximum(DIFFERENCE * now.scale, 1e-9 * np.abs(now.x))
    return ahead if bounds is None else np.where(now.x + ahead > bounds.upper, -ahead, ahead)


def gradient_from(now: Newton, values: NDArray[np.float64], bounds: Bounds | None) -> Array:
    """Return the gradient per scale, from the values along the axes at the projected points."""
    spacings = difference_spacings(now, bounds)
    if not now.central:
        return (values - now.value) / (spacings / now.scale)
    plus, minus = values.reshape(-1, 2).T
    apart = 2 * spacings
    if bounds is not None:
        up, down = (np.clip(now.x + side * spacings, *bounds) for side in (1, -1))
        apart = up - down
    return (plus - minus) / (apart / now.scale)


def take_gradient(now: Newton, values: NDArray[np.float64], bounds: Bounds | None) -> Newton | None:
    """Return the memory with the gradient at x, from the values along the axes.

    The derivative along a parameter at a bound counts as 0 if the objective decreases beyond it.

    Returns:
        The memory, or ``None`` if the gradient is zero or not finite.
    """
    gradient = gradient_from(now, values, bounds)
    if bounds is not None:
        stuck = (now.x <= bounds.lower) & (gradient > 0)
        stuck |= (now.x >= bounds.upper) & (gradient < 0)
        gradient = np.where(stuck, 0.0, gradient)
    if not np.isfinite(gradient).all() or not gradient.any():
        return None
    return _remember(now, gradient)._replace(gradient=gradient)


def explore(now: Newton, bounds: Bounds | None) -> tuple[Newton, Array] | None:
    """Return a line along which one value measures the curvature in unknown directions.

    On a quadratic, a direction that is orthogonal to the changes Hs of the gradient is conjugate to
    the steps s: their curvature does not show along it. The line is that part of the negative
    gradient. The step along it is one scale long, or that of the assumed inverse curvature if that
    is longer, up to the length of the longest step.

    Returns:
        The memory and the line, or ``None`` if the value would not pay: before the first step, when
        nothing is known; with few parameters, because one value is then a large part of a gradient;
        after many steps or the curvature probe, because these are a better guide; if that part of
        the gradient is within the error of the differences; or if the point is out of bounds.
    """
    d = now.x.size
    if d <= EAGER_UP_TO or now.probed or not 0 < now.stored <= EXPLORE_UP_TO * d:
        return None
    unknown = _orthogonal(now.gradient, now.changes[MEMORY - now.stored :])
    size, assumed = _norm(unknown), unknown_inverse(now)
    # A forward difference is wrong by about its spacing times the curvature, here the largest known
    error = DIFFERENCE * math.sqrt(d) / assumed
    if not error < size < math.inf:
        return None
    length = max(1.0, min(size * assumed, _LONGEST * math.sqrt(d)))
    along = -unknown / size
    line = along * now.scale
    point = now.x + length * line
    if bounds is not None and ((point < bounds.lower) | (point > bounds.upper)).any():
        return None
    return now._replace(slope=_dot(along, now.gradient), length=length), line


def explored(now: Newton, value: float) -> float:
    """Return the inverse curvature in unknown directions: the assumed one, or a much larger one."""
    step = min(_line_minimum(now, value), _LENGTHEN * now.length)
    inverse = step / -now.slope
    assumed = unknown_inverse(now)
    return inverse if inverse >= _FLATTER * assumed else assumed


def start_line(
    now: Newton, bounds: Bounds | None, inverse: float | None = None
) -> tuple[Newton, Array] | None:
    """Return the next line to search.

    The points of the line are x + length · line. A parameter at a bound stays there unless the
    objective decreases away from the bound.

    ``inverse`` is the inverse curvature in unknown directions, if :func:`explored` measured it.

    Returns:
        The memory and the line, or ``None`` if the squared gradient is zero or not finite.
    """
    gradient = now.gradient
    stuck = np.zeros(len(gradient), bool)
    if bounds is not None:
        stuck = ((now.x <= bounds.lower) | (now.x >= bounds.upper)) & (gradient == 0)
    line = np.where(stuck, 0.0, -_two_loops(now, gradient, inverse))
    slope = _dot(line, gradient)
    if not (slope < 0 and math.isfinite(slope)):
        now = _forget(now)
        line, slope = -gradient, -_dot(gradient, gradient)
        if not (slope < 0 and math.isfinite(slope)):
            return None
    first, size = now.stored == 0, math.sqrt(_dot(line, line))
    now = now._replace(
        slope=slope,
        length=1 / size if first else min(1.0, _LONGEST * math.sqrt(line.size) / size),
        tries=0,
        best_length=0.0,
        best_value=math.inf,
    )
    return now, line * now.scale


def try_length(now: Newton, value: float) -> tuple[Newton, bool]:
    """Record the value at the length tried, and choose the next length.

    The next length is the minimum of the parabola that has the slope at 0 and the value at this
    length. It is tried if it is longer than the best length so far and promises enough: a gradient
    costs at least d evaluations, a length only one. Flat directions are learned from long steps.

    Returns:
        The memory, and whether the line search has ended. It was successful if ``best_value`` is
        finite.
    """
    now = now._replace(tries=now.tries + 1)
    minimum = _line_minimum(now, value)
    enough = now.value + _ARMIJO * now.length * now.slope
    if math.isfinite(value) and value < min(now.best_value, enough):
        now = now._replace(best_length=now.length, best_value=value)
        length = min(minimum, _LENGTHEN * now.length)
    elif math.isfinite(now.best_value):  # too long: the minimum may be in between
        length = min(minimum, _SHORTEN[1] * now.length)
    else:
        length = min(max(minimum, _SHORTEN[0] * now.length), _SHORTEN[1] * now.length)
    # The cost of a length, as a share of a step's evaluations; its gain, as one of the decrease.
    cost = 1 / (now.x.size + 1)
    ended = length <= now.best_length or (1 - now.best_length / length) ** 2 <= _WORTHWHILE * cost
    return now._replace(length=length), ended or now.tries >= _MAX_TRIES


def _line_minimum(now: Newton, value: float) -> float:
    """Return the minimum of the parabola with the slope at 0 and this value at the length tried."""
    if not math.isfinite(value):
        return 0.0
    curvature = value - now.value - now.slope * now.length
    square = now.length * now.length  # `**` would raise an error instead of returning infinity
    return -now.slope * square / (2 * curvature) if curvature > 0 else math.inf


def move(now: Newton, line: Array) -> tuple[Newton, bool]:
    """Move to the best point of the line.

    Returns:
        The memory, and whether the search should continue.
    """
    if not math.isfinite(now.best_value):
        if now.stored == 0:
            return now, False
        return _forget(now), True  # try again along the gradient
    fall = now.value - now.best_value
    size = max(abs(now.value), abs(now.best_value))
    moved = now._replace(
        x=now.x + now.best_length * line,
        value=now.best_value,
        previous_x=now.x,
        previous_gradient=now.gradient,
        has_previous=True,
    )
    return moved, fall > _CONVERGED * size and bool(np.isfinite(moved.x).all())


def rescale(now: Newton, second_differences: Array, units: Array) -> Newton:
    """Return the memory with scales that equalise the curvature along the axes."""
    now = now._replace(probed=True)
    scales = even_scales(second_differences)
    if scales is None or scales.max() < _MIN_UNEVENNESS * scales.min():
        return now
    return _forget(now._replace(scale=units * scales))


def even_scales(second_differences: Array) -> Array | None:
    """Return scales that equalise the second differences, with geometric mean 1."""
    second_differences = np.abs(second_differences)
    if not np.isfinite(second_differences).all() or not second_differences.any():
        return None
    least = 1e-12 * second_differences.max()  # a flat axis still gets a finite scale
    scales = 1 / np.sqrt(np.maximum(second_differences, least))
    return scales / math.exp(float(np.log(scales).mean()))


def _remember(now: Newton, gradient: Array) -> Newton:
    """Return the memory with the step to x, if the curvature along it is positive."""
    if not now.has_previous:
        return now
    step, change = (now.x - now.previous_x) / now.scale, gradient - now.previous_gradient
    along = _dot(step, change)
    if not along > 1e-10 * math.sqrt(_dot(step, step) * _dot(change, change)):
        return now  # L-BFGS needs positive curvature, by more than rounding errors
    return now._replace(
        steps=np.concatenate([now.steps[1:], step[None]]),
        changes=np.concatenate([now.changes[1:], change[None]]),
        stored=min(now.stored + 1, MEMORY),
    )


def _forget(now: Newton) -> Newton:
    """Return the memory without past steps: the next line is along the gradient."""
    return now._replace(stored=0, has_previous=False)


def _two_loops(now: Newton, gradient: Array, inverse: float | None) -> Array:
    """Return L-BFGS's approximation of the inverse Hessian times the gradient."""
    steps, changes = (each[MEMORY - now.stored :] for each in (now.steps, now.changes))
    along = (steps * changes).sum(axis=1)
    q, taken = gradient.copy(), np.zeros(now.stored)
    for i in reversed(range(now.stored)):
        taken[i] = _dot(steps[i], q) / along[i]
        q -= taken[i] * changes[i]
    if now.stored:
        q *= unknown_inverse(now) if inverse is None else inverse
    for i in range(now.stored):
        q += (taken[i] - _dot(changes[i], q) / along[i]) * steps[i]
    return q


def unknown_inverse(now: Newton) -> float:
    """Return the inverse curvature that is assumed where past steps reveal none.

    Of the two usual estimates from a step s and its change y of the gradient, |s|²/sᵀy is the
    larger one (Barzilai & Borwein, 1988). L-BFGS usually takes the other one, sᵀy/|y|², which is
    close to the largest curvature in sight; steps along flat directions then stay far too short.

    With few parameters, unknown directions soon count as far flatter than the first step in memory.
    """
    if now.x.size <= EAGER_UP_TO and now.evaluations >= EAGER_AFTER * now.x.size:
        step, change = now.steps[-now.stored], now.changes[-now.stored]
        if size := _dot(change, change):  # below about 1e-162, a change's square rounds to 0
            return _FLATNESS * _dot(step, change) / size
    step, change = now.steps[-1], now.changes[-1]
    return _dot(step, step) / _dot(step, change)


def _orthogonal(vector: Array, rows: Array) -> Array:
    """Return the part of a vector that is orthogonal to the rows (Gram-Schmidt)."""
    basis = np.zeros((0, vector.size))
    for row in rows:
        rest = _without(row / np.abs(row).max(), basis)
        size = math.sqrt(_dot(rest, rest))
        if size > 1e-9:  # otherwise only rounding errors are left
            basis = np.concatenate([basis, rest[None] / size])
    return _without(vector, basis)


def _without(vector: Array, basis: Array) -> Array:
    """Return the part of a vector that is orthogonal to orthonormal rows."""
    for _ in range(2):  # the second time removes the rounding errors of the first
        vector = vector - ((basis * vector).sum(axis=1)[:, None] * basis).sum(axis=0)
    return vector


def _norm(vector: Array) -> float:
    """Return |v|, even where its square would overflow or round to 0."""
    largest = float(np.abs(vector).max())
    if not 0 < largest < math.inf:
        return largest
    return largest * math.sqrt(_dot(vector / largest, vector / largest))


def _dot(a: Array, b: Array) -> float:
    """Return aᵀb, summed in a fixed order, which BLAS does not guarantee."""
    return float((a * b).sum())
