r"""Descent with a step that steers itself: what the pilot does when points share samples.

With ``samples="shared"`` or ``"paired"`` the noise of a sample is the same at both ends of a
difference, so forward differences estimate the gradient *of the samples* well at any spacing, and
what remains is the samples' own noise, from step to step. Then gradient descent is right, if its
step is. The greedy step is the one after which the next gradient is orthogonal to the way that
led there (docs/pilot.md), so besides the L coin directions each step looks once along p, the mean
of past estimates, scaled to the length of a coin direction, and sets

.. math:: \log\eta \leftarrow \log\eta + a\,\mathrm{clip}(D_p / \sqrt{\overline{D_l^2}}, \pm 1.5).

Without any correlation between p and the gradient, the ratio has mean 0 and variance about 1: that
direction is then like any other. The estimate's own component along p is replaced by the measured
one, which is free of the L directions' error.

Where the budget allows few steps, there is no time for the rate to find itself at that speed: a
then begins at 0.3 and falls as 2 over the step's number, until it has its usual value.

:class:`GreedyDescent` is the search; the functions below it are its formulas.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions.draw import ScaledDraw
from gensmooth.searches.protocol import SearchState
from gensmooth.searches.steered import (
    FORWARD,
    Advance,
    Answers,
    JoinedDraw,
    Kind,
    Known,
    Question,
    Steered,
    question,
    question_of,
    square,
)

Array = NDArray[Any]

# Found by experiment unless said otherwise; docs/pilot.md has the comparisons that were kept.
SPACING = 0.01  # in units
_FIRST = 0.1  # the first step's length, over that of one unit in every parameter
_SPEED = 0.05  # a
_HURRY = (0.3, 2.0)  # a where steps are few: at most, and over the step's number
_CLIP = 1.5
_MEMORY = 0.1  # of the mean of past estimates
_SIZE_MEMORY = 0.05
_RETREAT = 0.5  # what log η falls by after an estimate that was shortened
_MISTAKE = 10.0  # an estimate longer than this times the usual: the last step was a mistake
_TAKEN_BACK = 1.5  # what log η falls by after a mistake
_LONGEST = 2.0  # an estimate longer than this times the usual is shortened to that
_FEW_STEPS = 100  # of descent in the budget: with fewer its rate must be found sooner
_LEAST_STEPS = 25  # directions are left out until so many steps fit the budget


class Descent(NamedTuple):
    """What steers the step.

    Attributes:
        mean: p before it is scaled: the decaying mean of past estimates, per unit.
        size2: The decaying mean of ‖estimate‖².
        log_rate: log η.
        steps: Steps made.
        last: The last change of x, in units: a step that was a mistake is taken back.
    """

    mean: Array
    size2: float
    log_rate: float
    steps: int
    last: Array


@final
@dataclass(frozen=True, kw_only=True)
class GreedyDescent(Steered):
    """Gradient descent that finds its own step, for samples that points share.

    Arguments as in :class:`~gensmooth.Pilot`.

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
                "GreedyDescent needs samples that points share, 'shared' or 'paired', but "
                "`samples` is 'independent': use the pilot (method='auto') or MirroredES."
            )

    def begin(self, x: Array, known: Known) -> Advance:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        own = begin(x.size, x.dtype)
        return Advance(known, own, self._ask(known, own, x.dtype), x)

    def advance(self, known: Known, own: Descent, asked: Question, answers: Answers) -> Advance:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        batch, guided = answers.batch, bool(asked.line.size)
        delta, _ = FORWARD.differences(answers.values, asked.number + guided, self.samples)
        derivatives = delta / SPACING  # per unit
        along = float(derivatives[-1]) if guided else None
        along = along if along is None or math.isfinite(along) else None
        derivatives = derivatives[: asked.number]
        finite = np.isfinite(derivatives)
        used = int(finite.sum())
        if used < max(1, math.ceil(self.min_fraction * asked.number)):
            raise ValueError(
                f"Only {used} of {asked.number} directions of step {batch.step} have finite "
                f"values, fewer than min_fraction={self.min_fraction} asks for."
            )
        draw = batch.draw.first if isinstance(batch.draw, JoinedDraw) else batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw) else draw
        estimate, _ = draw.combine(np.where(finite, derivatives, 0.0) / used)
        few = self._has_few_steps(estimate.size)
        own, change = follow(own, estimate, derivatives[finite], along, few=few)
        scale = asked.scale if asked.scale.size else float(known.units[0])
        x = answers.x.reshape(-1)
        x = self.clipped(x + (scale * change).astype(x.dtype), answers.x)
        return Advance(
            known,
            own,
            self._ask(known, own, answers.x.dtype),
            x,
            gradient=math.sqrt(square(estimate / scale)),
            dropped=asked.number - used,
        )

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """The mean of the centre's values."""
        asked = question_of(state)
        means = values.reshape(-1, self.num_samples).mean(axis=1)
        return FORWARD.differences(means, asked.number + bool(asked.line.size), self.samples)[1]

    def _ask(self, known: Known, own: Descent, dtype: np.dtype[Any]) -> Question:
        towards = guide(own)
        each = known.units.size > 1
        return question(
            Kind.DESCENT,
            dtype,
            spacing=SPACING * (1.0 if each else float(known.units[0])),
            number=self._number(towards.size),
            scale=known.units.astype(dtype) if each else np.zeros(0, dtype),
            line=towards if own.steps else np.zeros(0, dtype),
        )

    def _number(self, dim: int) -> int:
        """Directions per step: fewer than usual if few steps would fit the budget."""
        number = self._usual_number(dim)
        if self.num_directions is not None:
            return number
        points = self.budget / self.num_samples / _LEAST_STEPS  # of a step: L, guide, centres
        fits = points - 2 if self.samples == "shared" else points / 2 - 1
        return min(number, max(int(fits), 2))

    def _usual_number(self, dim: int) -> int:
        return 4 + int(3 * math.log(dim)) if self.num_directions is None else self.num_directions

    def _has_few_steps(self, dim: int) -> bool:
        each = len(FORWARD.points(self._usual_number(dim) + 1, self.samples))
        return self.budget < _FEW_STEPS * self.num_samples * each


# --- formulas ------------------------------------------------------------------------------------


def begin(dim: int, dtype: np.dtype[Any]) -> Descent:
    """The state before the first step."""
    return Descent(np.zeros(dim, dtype), 0.0, 0.0, 0, np.zeros(dim, dtype))


def guide(now: Descent) -> Array:
    """p, of length √d: the mean of past estimates; nothing before the first step."""
    length = math.sqrt(square(now.mean))
    return now.mean * (math.sqrt(now.mean.size) / length) if length > 0 else now.mean


def follow(
    now: Descent,
    estimate: Array,
    derivatives: NDArray[np.float64],
    along: float | None,
    *,
    few: bool = False,
) -> tuple[Descent, Array]:
    """The state after a step, and the change of x in units.

    Args:
        now: Before the step.
        estimate: Of the gradient, per unit, from the L directions.
        derivatives: Along each of them.
        along: The derivative along :func:`guide`, if there is one.
        few: Whether few steps are to be made.
    """
    d = estimate.size
    rate, speed = now.log_rate, _SPEED
    if few:
        speed = max(speed, min(_HURRY[0], _HURRY[1] / (now.steps + 1)))
    if along is not None:
        usual = math.sqrt(float(np.square(derivatives).mean()))
        if usual > 0:
            rate += speed * min(max(along / usual, -_CLIP), _CLIP)
        p = guide(now)
        estimate = estimate + p * ((along - float((estimate * p).sum())) / d)
    size2 = square(estimate)
    if size2 == 0:
        return now._replace(steps=now.steps + 1), np.zeros_like(estimate)
    first = now.steps == 0 or now.size2 == 0
    if not first and size2 > _MISTAKE**2 * now.size2:
        if now.last.any():
            return _taken_back(now)
        now, first = now._replace(size2=size2), True  # nothing to take back: the usual was wrong
    if first:
        rate = math.log(_FIRST * math.sqrt(d / size2))
    new = max(1 / (now.steps + 1), _SIZE_MEMORY)
    longest2 = _LONGEST**2 * now.size2 or math.inf
    usual2 = (1 - new) * now.size2 + new * min(size2, longest2)
    shorter = min(1.0, _LONGEST * math.sqrt(usual2 / size2))
    if shorter < 1:  # estimates that grow like this tell of steps too long
        rate -= _RETREAT
    change = (-math.exp(rate) * shorter * estimate).astype(now.mean.dtype, copy=False)
    new = max(1 / (now.steps + 1), _MEMORY)
    mean = ((1 - new) * now.mean + new * estimate).astype(now.mean.dtype, copy=False)
    return Descent(mean, usual2, rate, now.steps + 1, change), change


def _taken_back(now: Descent) -> tuple[Descent, Array]:
    """Undo the last step, which led to where the gradient is out of all proportion."""
    rate = now.log_rate - _TAKEN_BACK
    after = now._replace(log_rate=rate, steps=now.steps + 1, last=np.zeros_like(now.last))
    return after, -now.last
