"""The pilot: a search that needs no number from its user.

It coordinates three searches, and decides by the values alone which of them goes next:

- Is it noisy? The start is evaluated twice.
- Exact values: :class:`~gensmooth.QuasiNewton` as long as it pays, which a trial of the evolution
  strategy finds out; then :class:`~gensmooth.MirroredES`.
- Noisy values: :class:`~gensmooth.MirroredES`, whose population grows with the noise.
- Samples that points share: :class:`~gensmooth.GreedyDescent`.
"""

import math
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.searches import mirrored_es
from gensmooth.searches.descent import Descent, GreedyDescent
from gensmooth.searches.mirrored_es import Evolution, MirroredES
from gensmooth.searches.protocol import Search, SearchState
from gensmooth.searches.quasi_newton import Newton, QuasiNewton
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
    kept_of,
    question,
    question_of,
)

Array = NDArray[Any]

AUTO = "auto"  # the pilot's name among the methods

# Found by experiment unless said otherwise; docs/pilot.md has the comparisons that were kept.
_NEWTON_FROM = 20  # evaluations per parameter in the budget: with fewer it would not get far
TRIAL_AFTER = 40  # evaluations per parameter, until the evolution strategy is tried
TRIAL = 25  # evaluations per parameter that it is tried for


class Trial(IntEnum):
    """The trial of the evolution strategy. The numbers are written to checkpoints."""

    BEFORE = 0
    RUNNING = 1
    OVER = 2


class Control(NamedTuple):
    """The states of the pilot's searches; a search that cannot be used here has none.

    Attributes:
        newton: The quasi-Newton search.
        evolution: The evolution strategy.
        descent: Descent.
        trial: A :class:`Trial`.
    """

    newton: Newton | tuple[()]
    evolution: Evolution
    descent: Descent | tuple[()]
    trial: int


@final
@dataclass(frozen=True, kw_only=True)
class Pilot(Steered):
    """The default search of :func:`gensmooth.minimize`.

    Args:
        budget: Evaluations that it can count on; how it divides them depends on it.
        num_directions: Directions per step of descent, pairs per step of the evolution strategy;
            by default 4 + ⌊3 ln d⌋, and half of that. Descent takes fewer if they leave it fewer
            than 25 steps; the evolution strategy begins with them, and takes more as noise asks
            for them.
        most_directions: It never takes more than these.
        x_scale: How far apart interesting values of a parameter are: a number, or one for each. By
            default a quarter of the distance between the bounds, or else the size of x0.
        widest: The evolution strategy's spacing does not grow beyond this many units: for
            objectives, such as those of policies whose actions are limited, on which ever larger
            parameters are no worse and ever harder to improve.
        by_rank: Compare points by rank even where they share samples and descent would be
            possible: for objectives that are not smooth even then.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: ``"raise"`` on a value that is not finite, or ``"drop"`` it: it then counts as
            worse than any other.
        min_fraction: In descent, the smallest share of directions that makes an estimate.
        threads: As in :class:`~gensmooth.RandomSearch`.

    >>> pilot = Pilot(budget=1000)
    >>> state = pilot.init([5.0, 5.0], seed=0)
    >>> while state.evaluations + pilot.next_evaluations(state) <= 1000:
    ...     batch = pilot.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, info = pilot.tell(state, batch, values)
    >>> pilot.recommend(state).round(3)
    array([1., 2.])
    """

    widest: float = math.inf
    by_rank: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(
            self,
            widest=float(checks.number("widest", self.widest)),
            by_rank=checks.flag("by_rank", self.by_rank),
        )

    # --- which search goes next -------------------------------------------------------------------

    def begin(self, x: Array, known: Known) -> Advance:
        """Descend on shared samples; rank noisy values; else find out whether values are exact."""
        own = self._control(x, known)
        if self._descends:
            first = self._descent.begin(x, known)
            return first._replace(own=own._replace(descent=first.own))
        if self.samples is not None:
            first = self._evolution.begin(x, known)
            return first._replace(own=own._replace(evolution=first.own))
        return Advance(known, own, question(Kind.START, x.dtype), x)

    def advance(self, known: Known, own: Control, asked: Question, answers: Answers) -> Advance:
        """Let the search whose question it was take its step, and decide which goes next."""
        if asked.kind == Kind.START:
            return self._after_start(known, own, answers)
        if asked.kind == Kind.DESCENT:
            step = self._descent.advance(known, _descent(own), asked, answers)
            return step._replace(own=own._replace(descent=step.own))
        if asked.kind in (Kind.PAIRS, Kind.SPREAD):
            step = self._evolution.advance(known, own.evolution, asked, answers)
            return self._after_evolution(own, asked, answers, step)
        step = self._newton.advance(known, _newton(own), asked, answers)
        return self._after_newton(own, asked, answers, step)

    def _after_start(self, known: Known, own: Control, answers: Answers) -> Advance:
        """Exact values: the quasi-Newton search if the budget allows it. Else pairs."""
        first, second = answers.values.tolist()
        x, errors2 = answers.x.reshape(-1), answers.errors2
        if first == second and (errors2 is None or not errors2.any()):
            known = known._replace(noisy=int(Noise.EXACT))
            if own.newton and self.budget >= _NEWTON_FROM * x.size:
                step = self._newton.gradient_next(
                    known, self._newton.at(x, first, known), answers.x
                )
                return step._replace(own=own._replace(newton=step.own))
            return self._evolve(known, own, x, first, answers, lowest=first)
        if errors2 is None and not (math.isfinite(first) or math.isfinite(second)):
            known = known._replace(noisy=int(Noise.EXACT))  # until a repeated value differs
        else:
            noise2 = (first - second) ** 2 / 2 if errors2 is None else float(errors2.mean())
            noise2 = noise2 if math.isfinite(noise2) else 0.0
            known = known._replace(noisy=int(Noise.NOISY), noise2=noise2)
        step = self._evolution.go_on(known, own.evolution, x, answers.spent, like=answers.x)
        return step._replace(own=own._replace(evolution=step.own))

    def _after_newton(
        self, own: Control, asked: Question, answers: Answers, step: Advance
    ) -> Advance:
        """Try the evolution strategy after a while, and go over to it in the end."""
        before, now = _newton(own), step.own
        own = own._replace(newton=now)
        if now.over:
            own = own._replace(trial=int(Trial.OVER))
            return self._evolve(step.known, own, now.x, now.value, answers)
        moved = asked.kind == Kind.LINE and step.question.kind in (Kind.AXES, Kind.BOTH)
        refined = now.central and not before.central
        due = own.trial == Trial.BEFORE and now.evaluations >= TRIAL_AFTER * now.x.size
        if moved and due and not refined:
            own = own._replace(trial=int(Trial.RUNNING))
            return self._evolve(step.known, own, now.x, now.value, answers)
        return step._replace(own=own)

    def _after_evolution(
        self, own: Control, asked: Question, answers: Answers, step: Advance
    ) -> Advance:
        """End a trial: go back to the quasi-Newton search unless it found a better value."""
        spent = own.evolution.evaluations + len(answers.batch)
        lowest = min(own.evolution.lowest, step.own.lowest)
        own = own._replace(evolution=step.own)
        compared = asked.kind == Kind.PAIRS and bool(np.isfinite(answers.values).any())
        if own.trial == Trial.RUNNING and compared and spent >= TRIAL * answers.x.size:
            own, newton = own._replace(trial=int(Trial.OVER)), _newton(own)
            if not lowest < newton.value:
                back = self._newton.gradient_next(step.known, newton, answers.x)
                return back._replace(own=own)
        return step._replace(own=own)

    def _evolve(
        self,
        known: Known,
        own: Control,
        x: Array,
        value: float,
        answers: Answers,
        *,
        lowest: float = math.inf,
    ) -> Advance:
        """Begin the evolution strategy at a point of known value."""
        restarts = own.evolution.restarts
        step = self._evolution.start(
            known, x, value, answers.spent, like=answers.x, restarts=restarts, lowest=lowest
        )
        return step._replace(own=own._replace(evolution=step.own))

    # --- the searches -----------------------------------------------------------------------------

    @property
    def _descends(self) -> bool:
        return self.samples in ("shared", "paired") and not self.by_rank

    @cached_property
    def _shared(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(Steered)}

    @cached_property
    def _newton(self) -> QuasiNewton:
        return QuasiNewton(**self._shared)

    @cached_property
    def _evolution(self) -> MirroredES:
        return MirroredES(widest=self.widest, **self._shared)

    @cached_property
    def _descent(self) -> GreedyDescent:
        return GreedyDescent(**self._shared)

    def _control(self, x: Array, known: Known) -> Control:
        """The states of the searches before their first steps."""
        d, dtype = x.size, x.dtype
        exact = self.samples is None and dtype.itemsize == 8 and d <= EXACT_UP_TO
        learns = d <= METRIC_UP_TO and not self._descends
        evolution = mirrored_es.begin(d, dtype, learns=learns, pairs=self._evolution.first_pairs(d))
        if self._descends:
            evolution = evolution._replace(path=np.zeros(0, dtype))
        return Control(
            newton=self._newton.at(x, 0.0, known) if exact else (),
            evolution=evolution,
            descent=(),
            trial=int(Trial.BEFORE),
        )

    # --- what runs need ---------------------------------------------------------------------------

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """The objective at x as the search whose step it is sees it."""
        kind, kept = question_of(state).kind, kept_of(state)
        if kind == Kind.DESCENT:
            return self._descent.value_at(state, values)
        if kind in (Kind.AXES, Kind.BOTH, Kind.LINE, Kind.BENDS):
            within = state._replace(kept=kept._replace(own=_newton(kept.own)))
            return self._newton.value_at(within, values)
        return Search.value_at(self, state, values)

    def noise_measurements(self, own: Control) -> int:
        """See :class:`~gensmooth.searches.steered.Steered`."""
        return own.evolution.measured

    def has_only_begun(self, state: SearchState) -> bool:
        """Whether nothing but the start has been evaluated."""
        return self.samples is None and state.step == 1


def _newton(own: Control) -> Newton:
    assert isinstance(own.newton, Newton)
    return own.newton


def _descent(own: Control) -> Descent:
    assert isinstance(own.descent, Descent)
    return own.descent
