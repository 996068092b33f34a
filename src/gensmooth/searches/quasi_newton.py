r"""A quasi-Newton search: what the pilot does first when values are exact.

The gradient comes from forward differences along the axes (d evaluations), and from central ones
(2d) once those are too coarse to go on; the direction comes from L-BFGS's two loops (Nocedal,
1980), the length from a backtracking line search, one evaluation at a time. Parameters are
measured in *scales*, so that a user's units do not matter; after a while the curvature along each
axis is measured once, and badly scaled parameters get scales of their own.

:class:`QuasiNewton` is the search; the functions below it are its formulas, pure functions of a
:class:`Newton`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.parameters import Bounds
from gensmooth.searches.protocol import SearchState
from gensmooth.searches.steered import (
    EXACT_UP_TO,
    Advance,
    Answers,
    Kind,
    Known,
    Noise,
    Question,
    Steered,
    kept_of,
    question,
    question_of,
    square,
)

Array = NDArray[Any]

# Common practice for L-BFGS (Nocedal & Wright, 2006, chapters 3, 7 and 8) unless said otherwise.
MEMORY = 20  # pairs of steps and changes of the gradient
DIFFERENCE = 2e-8  # the spacing of forward differences, in scales: about √(rounding error)
CENTRAL = 3e-7  # that of central differences; wider ones err where curvature is uneven
PROBE = 1e-3  # the spacing of the second differences, in units: rounding is then 1e-10 of a value
PROBE_AFTER = 20  # evaluations per parameter; found by experiment
_UNEVEN = 30.0  # scales that differ by less than this are left as they are; found by experiment
_ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo's condition)
_TRIES = 12  # lengths tried on a line: the last is at most 2⁻¹² of the first
_WIDER = 3.0  # how much longer each length is while a first line still descends
_WIDENINGS = 8  # at most so often: 3⁸ covers a first guess that is wrong by a factor of 6,500
_CONVERGED = 1e-13  # of the value: a smaller decrease is rounding


class Newton(NamedTuple):
    """The search between two evaluations.

    Attributes:
        x: Where it is.
        value: The objective there.
        scale: The scales.
        gradient: Along the axes, per scale.
        before_x: The point before.
        before_gradient: Its gradient.
        has_before: Whether there is one.
        steps: The last steps, in scales, newest last.
        changes: The changes of the gradient that they made.
        stored: How many of them there are.
        slope: The derivative along the line.
        length: The length that is tried on the line.
        tries: How many were tried.
        first: Whether the line is along the gradient, whose length says nothing.
        best_length: The best length so far.
        best_value: The objective there; infinity if no length was good enough.
        central: Whether differences are central.
        probed: Whether the curvature was measured.
        evaluations: Evaluations made.
        over: Whether it has converged, or cannot go on.
    """

    x: Array
    value: float
    scale: Array
    gradient: Array
    before_x: Array
    before_gradient: Array
    has_before: bool
    steps: Array
    changes: Array
    stored: int
    slope: float
    length: float
    tries: int
    first: bool
    best_length: float
    best_value: float
    central: bool
    probed: bool
    evaluations: int
    over: bool


@final
@dataclass(frozen=True, kw_only=True)
class QuasiNewton(Steered):
    """L-BFGS on finite differences, for exact values and up to a few hundred parameters.

    Arguments as in :class:`~gensmooth.Pilot`.

    >>> import gensmooth as gs
    >>> search = gs.QuasiNewton(budget=200)
    >>> res = gs.minimize(lambda x: ((x - 3) ** 4).sum(), [0.0, 0.0], search=search, budget=200)
    >>> res.x.round(2)
    array([3., 3.])
    """

    def begin(self, x: Array, known: Known) -> Advance:
        """First the start, twice: this search needs exact values."""
        if self.samples is not None:
            raise ValueError("QuasiNewton needs exact values: leave `samples` out.")
        if x.size > EXACT_UP_TO or x.dtype.itemsize != 8:
            raise ValueError(
                f"QuasiNewton takes at most {EXACT_UP_TO} parameters, as float64, but x0 has "
                f"{x.size} as {x.dtype}: use the pilot (method='auto')."
            )
        return Advance(known, self.at(x, 0.0, known), question(Kind.START, x.dtype), x)

    def at(self, x: Array, value: float, known: Known) -> Newton:
        """The state at a point of known value, before its first gradient."""
        return begin(x, value, np.broadcast_to(known.units, (x.size,)).copy())

    def advance(self, known: Known, own: Newton, asked: Question, answers: Answers) -> Advance:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        kind = Kind(asked.kind)
        if kind is Kind.START:
            first, second = answers.values.tolist()
            if first != second:
                raise ValueError(
                    f"QuasiNewton needs exact values, but the start has the values {first:g} and "
                    f"{second:g}: use the pilot (method='auto') or MirroredES."
                )
            known = known._replace(noisy=int(Noise.EXACT))
            return self.gradient_next(known, self.at(answers.x, first, known), answers.x)
        own = own._replace(evaluations=own.evaluations + len(answers.values))
        if kind is Kind.LINE:
            return self._after_line(known, own, asked, answers)
        if kind is Kind.BENDS:
            plus, minus = answers.values.reshape(-1, 2).T
            units = np.broadcast_to(known.units, own.x.shape)
            own = rescale(own, plus + minus - 2 * own.value, units)
            return self.gradient_next(known, own, answers.x)
        turned = turn(own, answers.values, self.limits(answers.x))
        if turned is None:
            return self.gradient_next(known, own._replace(over=True), answers.x)
        own, line = turned
        ask = question(Kind.LINE, answers.x.dtype, spacing=own.length, line=line)
        return Advance(known, own, ask, own.x, gradient=math.sqrt(square(own.gradient / own.scale)))

    def _after_line(self, known: Known, own: Newton, asked: Question, answers: Answers) -> Advance:
        own, over = try_length(own, float(answers.values[0]))
        if not over:
            return Advance(known, own, asked._replace(spacing=own.length), own.x)
        own, descends = move(own, asked.line)
        own = own._replace(x=self.clipped(own.x, answers.x))
        if not descends:
            finer = refine(own)
            own = own._replace(over=True) if finer is None else finer
        elif not own.probed and own.evaluations >= PROBE_AFTER * own.x.size:
            units = np.broadcast_to(known.units, own.x.shape).copy()
            ask = question(Kind.BENDS, answers.x.dtype, spacing=PROBE, number=own.x.size)
            return Advance(known, own, ask._replace(scale=units), own.x)
        return self.gradient_next(known, own, answers.x)

    def gradient_next(self, known: Known, own: Newton, like: Array) -> Advance:
        """Ask for the gradient at the search's point; ``like`` has the shape of x."""
        kind = Kind.BOTH if own.central else Kind.AXES
        ask = question(kind, own.x.dtype, spacing=1.0, number=own.x.size)
        return Advance(known, own, ask._replace(scale=spacings(own, self.limits(like))), own.x)

    def converged(self, state: SearchState) -> str | None:
        """Whether the gradient leads no further."""
        own: Newton = kept_of(state).own
        return "no line along the gradient descends any more" if own.over else None

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """The value of the search's point."""
        if question_of(state).kind == Kind.START:
            return super().value_at(state, values)
        value: float = kept_of(state).own.value
        return -value if self.maximize else value


# --- formulas ------------------------------------------------------------------------------------


def begin(x: Array, value: float, units: Array) -> Newton:
    """The search before its first gradient."""
    zero = np.zeros(x.size)
    memory = np.zeros((MEMORY, x.size))
    return Newton(
        x=x.reshape(-1),
        value=value,
        scale=units,
        gradient=zero,
        before_x=zero,
        before_gradient=zero,
        has_before=False,
        steps=memory,
        changes=memory,
        stored=0,
        slope=0.0,
        length=0.0,
        tries=0,
        first=True,
        best_length=0.0,
        best_value=math.inf,
        central=False,
        probed=False,
        evaluations=0,
        over=False,
    )


def spacings(now: Newton, bounds: Bounds | None) -> Array:
    """How far along each axis differences look; forward ones look back at an upper limit."""
    if now.central:
        return np.maximum(CENTRAL * now.scale, 1e-8 * np.abs(now.x))
    ahead = np.maximum(DIFFERENCE * now.scale, 1e-9 * np.abs(now.x))
    return ahead if bounds is None else np.where(now.x + ahead > bounds.upper, -ahead, ahead)


def slopes(now: Newton, values: NDArray[np.float64], bounds: Bounds | None) -> Array:
    """The gradient per scale, from the values along the axes: of points that bounds may clip."""
    far = spacings(now, bounds)
    if not now.central:
        return (values - now.value) / (far / now.scale)
    plus, minus = values.reshape(-1, 2).T
    apart = 2 * far
    if bounds is not None:
        up, down = (np.clip(now.x + side * far, *bounds) for side in (1, -1))
        apart = up - down
    return (plus - minus) / (apart / now.scale)


def refine(now: Newton) -> Newton | None:
    """The search with central differences; ``None`` if it has them already."""
    return None if now.central else _forget(now._replace(central=True))


def turn(
    now: Newton, values: NDArray[np.float64], bounds: Bounds | None
) -> tuple[Newton, Array] | None:
    """Take in the values along the axes; the line to search, or ``None`` where there is none.

    The line is in the parameters' own units: its points are x + length · line. Parameters at a
    limit beyond which the objective falls stay there.
    """
    gradient = slopes(now, values, bounds)
    stuck = np.zeros(len(gradient), bool)
    if bounds is not None:
        stuck = (now.x <= bounds.lower) & (gradient > 0)
        stuck |= (now.x >= bounds.upper) & (gradient < 0)
        gradient = np.where(stuck, 0.0, gradient)
    if not np.isfinite(gradient).all() or not gradient.any():
        return None
    now = _remember(now, gradient)
    line = np.where(stuck, 0.0, -_two_loops(now, gradient))
    slope = _dot(line, gradient)
    if not (slope < 0 and math.isfinite(slope)):
        now = _forget(now)
        line, slope = -gradient, -_dot(gradient, gradient)
        if not math.isfinite(slope):
            return None
    first = now.stored == 0
    now = now._replace(
        gradient=gradient,
        slope=slope,
        length=1 / math.sqrt(_dot(line, line)) if first else 1.0,
        tries=0,
        first=first,
        best_length=0.0,
        best_value=math.inf,
    )
    return now, line * now.scale


def try_length(now: Newton, value: float) -> tuple[Newton, bool]:
    """Take in the value at the length that was tried; whether the line's search is over.

    It ends well when ``best_value`` is finite.
    """
    now = now._replace(tries=now.tries + 1)
    if math.isfinite(now.best_value):  # widening: the first line's length was a guess
        if value < now.best_value:
            now = now._replace(best_length=now.length, best_value=value)
            return now._replace(length=now.length * _WIDER), now.tries >= _TRIES + _WIDENINGS
        return now, True
    if math.isfinite(value) and value <= now.value + _ENOUGH * now.length * now.slope:
        now = now._replace(best_length=now.length, best_value=value)
        if not now.first:
            return now, True
        return now._replace(length=now.length * _WIDER, tries=_TRIES), False
    shorter = 0.1 * now.length
    if math.isfinite(value):  # the minimum of the parabola through value, slope and this value
        bend = value - now.value - now.slope * now.length
        shorter = -now.slope * now.length**2 / (2 * bend) if bend > 0 else shorter
    length = min(max(shorter, 0.1 * now.length), 0.5 * now.length)
    return now._replace(length=length), now.tries >= _TRIES


def move(now: Newton, line: Array) -> tuple[Newton, bool]:
    """Go to the best point of the line; whether there is a reason to go on."""
    if not math.isfinite(now.best_value):
        if now.stored == 0:
            return now, False
        return _forget(now), True  # once more, along the gradient
    fall = now.value - now.best_value
    size = max(abs(now.value), abs(now.best_value))
    moved = now._replace(
        x=now.x + now.best_length * line,
        value=now.best_value,
        before_x=now.x,
        before_gradient=now.gradient,
        has_before=True,
    )
    return moved, fall > _CONVERGED * size and bool(np.isfinite(moved.x).all())


def rescale(now: Newton, bends: Array, units: Array) -> Newton:
    """Take in the second differences along the axes: scales that make the curvature even."""
    now = now._replace(probed=True)
    scales = even_scales(bends)
    if scales is None or scales.max() < _UNEVEN * scales.min():
        return now
    return _forget(now._replace(scale=units * scales))


def even_scales(bends: Array) -> Array | None:
    """Scales under which second differences would be the same, with a geometric mean of 1."""
    bends = np.abs(bends)
    if not np.isfinite(bends).all() or not bends.any():
        return None
    scales = 1 / np.sqrt(np.maximum(bends, 1e-12 * bends.max()))
    return scales / math.exp(float(np.log(scales).mean()))


def _remember(now: Newton, gradient: Array) -> Newton:
    if not now.has_before:
        return now
    step, change = (now.x - now.before_x) / now.scale, gradient - now.before_gradient
    along = _dot(step, change)
    if not along > 1e-10 * math.sqrt(_dot(step, step) * _dot(change, change)):
        return now  # no positive curvature
    return now._replace(
        steps=np.concatenate([now.steps[1:], step[None]]),
        changes=np.concatenate([now.changes[1:], change[None]]),
        stored=min(now.stored + 1, MEMORY),
    )


def _forget(now: Newton) -> Newton:
    return now._replace(stored=0, has_before=False)


def _two_loops(now: Newton, gradient: Array) -> Array:
    """L-BFGS's approximation of the inverse Hessian times the gradient."""
    pairs = [
        (s, y, _dot(s, y))
        for s, y in zip(
            now.steps[MEMORY - now.stored :], now.changes[MEMORY - now.stored :], strict=True
        )
    ]
    q = gradient.copy()
    taken: list[float] = []
    for s, y, along in reversed(pairs):
        taken.append(_dot(s, q) / along)
        q -= taken[-1] * y
    if pairs:
        _, y, along = pairs[-1]
        q *= along / _dot(y, y)
    for (s, y, along), share in zip(pairs, reversed(taken), strict=True):
        q += (share - _dot(y, q) / along) * s
    return q


def _dot(a: Array, b: Array) -> float:
    """Summed in a fixed order, unlike BLAS's."""
    return float((a * b).sum())
