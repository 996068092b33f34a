"""The pilot: the default search, which needs no settings.

It coordinates three searches, its *phases*, and decides from the values which phase takes the next
step:

=====================================  ============================================================
``samples`` and values                 phases
=====================================  ============================================================
no samples, exact values               :class:`~gensmooth.QuasiNewton` as long as it pays off; then
                                       :class:`~gensmooth.MirroredES`
no samples, noisy values               :class:`~gensmooth.MirroredES`
``"independent"``                      :class:`~gensmooth.MirroredES`
``"shared"`` or ``"paired"``           :class:`~gensmooth.GreedyDescent`
=====================================  ============================================================

Without samples, the pilot first evaluates x0 twice: two different values mean noise. To find out
whether the quasi-Newton phase pays off, it interrupts the phase once for a trial of MirroredES and
continues with the better of the two. When a phase no longer makes progress on exact values, the
pilot restarts QuasiNewton or MirroredES at a random point: first QuasiNewton only, as long as it
converges to different optima.

This file only makes these decisions. The step rules are in the files of the phases.
"""

import math
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.directions.draw import Address, normals
from gensmooth.searches.adaptive import (
    METRIC_UP_TO,
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
)
from gensmooth.searches.descent import Descent, GreedyDescent
from gensmooth.searches.mirrored_es import Evolution, MirroredES, initial_evolution
from gensmooth.searches.protocol import Search, SearchState
from gensmooth.searches.quasi_newton import Newton, QuasiNewton
from gensmooth.streams import Purpose

Array = NDArray[Any]

AUTO = "auto"  # the pilot's name as a method

# All were chosen by experiment (docs/pilot-results.md).
_NEWTON_FROM = 20  # budget per parameter below which QuasiNewton would not get far
TRIAL_AFTER = 100  # evaluations per parameter of QuasiNewton before the trial of MirroredES
TRIAL = 25  # evaluations per parameter of the trial
_EXPLORE = 1000  # evaluations per parameter of QuasiNewton at random starts before MirroredES
_CONVERGED = 1e-3  # share of its decrease that QuasiNewton may still expect from a step at its end
# QuasiNewton has stalled if, at its end, it still expects a step to gain more than both of these:
_STALLED = 1e-8  # share of its value
_STALLED_FALL = 1e-12  # share of its decrease; decides if the lowest value is 0
_SAME_OPTIMUM = 1e-4  # difference of two optimal values, as a share of the decrease to one of them
_EVOLUTION_PREFERRED = 10  # ratio of evaluations to QuasiNewton's if MirroredES found the best x


class Trial(IntEnum):
    """The progress of the trial of MirroredES. Checkpoints store the numbers."""

    BEFORE = 0
    RUNNING = 1
    OVER = 2


class Phase(IntEnum):
    """A phase that can be restarted elsewhere. Checkpoints store the numbers."""

    NEWTON = 0
    EVOLUTION = 1


class Control(NamedTuple):
    """What the pilot remembers: the memory of each phase, the trial, and what restarts need.

    Attributes:
        newton: The memory of QuasiNewton; empty if this run cannot use it.
        evolution: The memory of MirroredES.
        descent: The memory of GreedyDescent; empty if this run cannot use it.
        trial: The progress of the trial.
        first_x: The start of the run, flat; empty if restarts never leave the best point.
        next_phase: The phase that takes over once the new start has been evaluated.
        newton_spent: Number of evaluations of QuasiNewton.
        evolution_spent: Number of evaluations of MirroredES.
        newton_leads: Whether QuasiNewton found the best point.
        starts: Number of random starts so far.
        start_value: The value at the last start, x0 or random.
        optimum: The lowest value to which QuasiNewton has converged; infinity if it never has.
        several: Whether QuasiNewton has converged to different values.
    """

    newton: Newton | tuple[()]
    evolution: Evolution
    descent: Descent | tuple[()]
    trial: Trial
    first_x: Array
    next_phase: Phase
    newton_spent: int
    evolution_spent: int
    newton_leads: bool
    starts: int
    start_value: float
    optimum: float
    several: bool


@final
@dataclass(frozen=True, kw_only=True)
class Pilot(AdaptiveSearch):
    """The default search of :func:`gensmooth.minimize`.

    Args:
        budget: The number of evaluations that the search plans for; ``None`` if it is unknown.
        num_directions: Directions per step of descent, and the first number of pairs of the
            evolution strategy; by default 4 + ⌊3 ln d⌋, and half of that. Descent uses fewer if the
            budget would otherwise allow fewer than 25 steps. The evolution strategy uses more if
            values are noisy.
        most_directions: The largest number of directions or pairs per step.
        x_scale: The typical size of a change of each parameter: a number, or one per parameter. By
            default a quarter of the distance between the bounds or, without bounds, the size of x0.
        widest: The largest spacing of the evolution strategy, in units of ``x_scale``. Set it if
            the objective saturates far from x0: if actions are clipped, for example, ever larger
            weights of a policy are no worse but harder to improve.
        by_rank: Compare points by rank even if they share samples. Set it for objectives that are
            not smooth for fixed samples.
        restarts: What to do once the search has converged on exact values: start again elsewhere
            (the default), or report that it has converged, which ends a run.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: What to do with a value that is not finite: ``"raise"`` an error, or ``"drop"``
            it, which ranks it below every other value.
        min_fraction: In descent, the smallest fraction of directions that an estimate may use.
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
    restarts: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(
            self,
            widest=float(checks.positive("widest", self.widest, infinite=True)),
            by_rank=checks.flag("by_rank", self.by_rank),
            restarts=checks.flag("restarts", self.restarts),
        )

    # --- which phase is next ----------------------------------------------------------------------

    def begin(self, x: Array, known: Knowledge) -> Transition:
        """Start the phase that ``samples`` determines; without samples, evaluate x0 twice."""
        control = self._initial_control(x, known)
        if self._descends:
            step = self._descent.begin(x, known)
            return step._replace(memory=control._replace(descent=step.memory))
        if self.samples is not None:
            step = self._evolution.begin(x, known)
            return step._replace(memory=control._replace(evolution=step.memory))
        return Transition(known, control, make_request(RequestKind.START, x.dtype), x)

    def advance(
        self, known: Knowledge, control: Control, request: PointRequest, response: Response, /
    ) -> Transition:
        """Let the phase that made the request take its step, and choose the next phase."""
        kind = request.kind
        if kind is RequestKind.START and known.noisy is not Noise.UNKNOWN:
            return self._after_restart(known, control, response)
        if kind is RequestKind.START:
            return self._after_start(known, control, response)
        if kind is RequestKind.DESCENT:
            step = self._descent.advance(known, _descent(control), request, response)
            return step._replace(memory=control._replace(descent=step.memory))
        if kind in (RequestKind.MIRRORED_PAIRS, RequestKind.FIRST_METRIC):
            step = self._evolution.advance(known, control.evolution, request, response)
            return self._after_evolution(control, request, response, step)
        step = self._newton.advance(known, _newton(control), request, response)
        return self._after_newton(control, request, response, step)

    def _after_start(self, known: Knowledge, control: Control, response: Response) -> Transition:
        """Choose QuasiNewton if values are exact and the budget suffices, otherwise MirroredES."""
        first, second = response.values.tolist()
        x, errors2 = response.x.reshape(-1), response.errors2
        if first == second and (errors2 is None or not errors2.any()):
            known, control = known._replace(noisy=Noise.EXACT), control._replace(start_value=first)
            if control.newton and self.planned >= _NEWTON_FROM * x.size:
                newton = self._newton.at(x, first, known)
                step = self._newton.gradient_next(known, newton, response.x)
                return step._replace(memory=control._replace(newton=step.memory))
            return self._start_evolution(known, control, x, first, response, lowest=first)
        if errors2 is None and not (math.isfinite(first) or math.isfinite(second)):
            known = known._replace(noisy=Noise.EXACT)  # until a repeated value differs
        else:
            noise2 = (first - second) ** 2 / 2 if errors2 is None else float(errors2.mean())
            noise2 = noise2 if math.isfinite(noise2) else 0.0
            known = known._replace(noisy=Noise.NOISY, noise2=noise2)
        step = self._evolution.next_pairs(
            known, control.evolution, x, response.spent, like=response.x
        )
        return step._replace(memory=control._replace(evolution=step.memory))

    def _after_newton(
        self, control: Control, request: PointRequest, response: Response, step: Transition
    ) -> Transition:
        """Switch to MirroredES for the trial, or choose the next phase if QuasiNewton is done."""
        before, newton, known = _newton(control), step.memory, step.known
        just_refined = newton.central and not before.central
        fall = control.start_value - newton.value
        if just_refined and control.starts and newton.value - known.best > _SAME_OPTIMUM * fall:
            newton = newton._replace(finished=True)  # a worse optimum need not be precise
        control = control._replace(
            newton=newton,
            newton_spent=control.newton_spent + len(response.values),
            newton_leads=control.newton_leads or response.values.min() <= known.best,
        )
        if newton.finished:
            return self._after_last_newton(known, control, response)
        at_new_point = request.kind is RequestKind.LINE_SEARCH and step.request.kind in (
            RequestKind.FORWARD_DIFFERENCES,
            RequestKind.CENTRAL_DIFFERENCES,
        )
        due = control.trial is Trial.BEFORE and newton.evaluations >= TRIAL_AFTER * newton.x.size
        if at_new_point and due and not just_refined:
            control = control._replace(trial=Trial.RUNNING)
            return self._start_evolution(known, control, newton.x, newton.value, response)
        return step._replace(memory=control)

    def _after_last_newton(
        self, known: Knowledge, control: Control, response: Response
    ) -> Transition:
        """Choose the next phase if QuasiNewton has finished.

        If it has converged, MirroredES is tried once. After that, QuasiNewton starts elsewhere as
        long as its optima differ. In all other cases MirroredES takes over at the best point. One
        of them is a stall before QuasiNewton has converged anywhere: it expects a decrease, but its
        differences are too inaccurate to find it.
        """
        newton = _newton(control)
        if control.evolution.restarts:
            return self._restart(known, control, response)
        fall = control.start_value - newton.value
        expected = -newton.slope
        stalled = expected > max(_STALLED * abs(newton.value), _STALLED_FALL * fall)
        never_converged = not math.isfinite(control.optimum)
        not_smooth = not fall > 0 or expected > _CONVERGED * fall
        if not_smooth or (stalled and never_converged):
            control = control._replace(trial=Trial.OVER)
            return self._start_evolution(known, control, known.best_x, known.best, response)
        differs = abs(newton.value - control.optimum) > _SAME_OPTIMUM * fall
        control = control._replace(
            optimum=min(control.optimum, newton.value),
            several=control.several or (differs and math.isfinite(control.optimum)),
        )
        if control.trial is Trial.BEFORE:
            control = control._replace(trial=Trial.RUNNING)
        elif (differs or control.several) and control.newton_spent < _EXPLORE * newton.x.size:
            return self._start_elsewhere(known, control, Phase.NEWTON, response)
        return self._start_evolution(known, control, known.best_x, known.best, response)

    def _after_evolution(
        self, control: Control, request: PointRequest, response: Response, step: Transition
    ) -> Transition:
        """At the end of the trial, return to QuasiNewton unless MirroredES found a lower value.

        If QuasiNewton has converged, it starts elsewhere.
        """
        spent = control.evolution.evaluations + len(response.batch)
        lowest = min(control.evolution.lowest, step.memory.lowest)
        restarts = control.evolution.restarts
        control = control._replace(
            evolution=step.memory,
            evolution_spent=control.evolution_spent + len(response.values),
            newton_leads=control.newton_leads and response.values.min() > step.known.best,
        )
        ranked = request.kind is RequestKind.MIRRORED_PAIRS and np.isfinite(response.values).any()
        if control.trial is Trial.RUNNING and ranked and spent >= TRIAL * response.x.size:
            control, newton = control._replace(trial=Trial.OVER), _newton(control)
            if not lowest < newton.value and newton.finished:
                return self._start_elsewhere(step.known, control, Phase.NEWTON, response)
            if not lowest < newton.value:
                back = self._newton.gradient_next(step.known, newton, response.x)
                return back._replace(memory=control)
        may_restart = control.first_x.size and step.known.noisy is Noise.EXACT
        if may_restart and step.memory.restarts > restarts:
            return self._restart(step.known, control._replace(trial=Trial.OVER), response)
        return step._replace(memory=control)

    def _restart(self, known: Knowledge, control: Control, response: Response) -> Transition:
        """Choose the phase that starts elsewhere once MirroredES has converged.

        QuasiNewton and MirroredES get equal numbers of evaluations if QuasiNewton found the best
        point. Otherwise MirroredES gets most of them.
        """
        share = 1 if control.newton_leads else _EVOLUTION_PREFERRED
        newton_next = share * control.newton_spent <= control.evolution_spent
        phase = Phase.NEWTON if newton_next else Phase.EVOLUTION
        return self._start_elsewhere(known, control, phase, response)

    def _start_elsewhere(
        self, known: Knowledge, control: Control, phase: Phase, response: Response
    ) -> Transition:
        """Evaluate a random start, at which this phase will take over."""
        x = self._random_start(known, control, response)
        control = control._replace(next_phase=phase, starts=control.starts + 1)
        return Transition(known, control, make_request(RequestKind.START, x.dtype), x)

    def _random_start(self, known: Knowledge, control: Control, response: Response) -> Array:
        """Return a random start: uniform within the bounds or, without them, in a cube.

        The cube extends √3 units in either direction, so that the root mean square of a coordinate
        is one unit. If the unit is the size of x0, the centre is 0, and x0 is a typical point of
        the cube. If the user chose the units, the centre is x0.
        """
        batch, d = response.batch, response.x.size
        at = Address(batch.seed, batch.step, 1, d, np.dtype(float))
        normal = normals(at, purpose=Purpose.START).block()[0]
        uniform = np.array([math.erf(z / math.sqrt(2)) for z in normal.tolist()])  # in (−1, 1)
        centre = np.zeros(d) if self.x_scale is None else control.first_x
        x = centre + math.sqrt(3) * known.units * uniform
        bounds = self.limits(response.x)
        if bounds is not None:
            both = np.isfinite(bounds.lower) & np.isfinite(bounds.upper)
            lower, upper = (np.where(both, limit, 0.0) for limit in bounds)
            x = np.where(both, 0.5 * (lower + upper + (upper - lower) * uniform), x)
            x = np.clip(x, bounds.lower, bounds.upper)
        return x

    def _after_restart(self, known: Knowledge, control: Control, response: Response) -> Transition:
        """Start the chosen phase at the new point."""
        first, second = response.values.tolist()
        x = response.x.reshape(-1)
        if not math.isfinite(first):  # the objective is not defined there
            return self._start_elsewhere(known, control, control.next_phase, response)
        control = control._replace(start_value=first)
        if first != second:  # noisy after all
            control = control._replace(next_phase=Phase.EVOLUTION)
        if control.next_phase is Phase.NEWTON:
            newton = self._newton.at(x, first, known)
            step = self._newton.gradient_next(known, newton, response.x)
            return step._replace(memory=control._replace(newton=step.memory))
        return self._start_evolution(known, control, x, first, response)

    def _start_evolution(
        self,
        known: Knowledge,
        control: Control,
        x: Array,
        value: float,
        response: Response,
        *,
        lowest: float = math.inf,
    ) -> Transition:
        """Start MirroredES at a point whose value is known."""
        restarts = control.evolution.restarts
        step = self._evolution.start_at(
            known, x, value, response.spent, like=response.x, restarts=restarts, lowest=lowest
        )
        return step._replace(memory=control._replace(evolution=step.memory))

    # --- the phases -------------------------------------------------------------------------------

    @property
    def _descends(self) -> bool:
        return self.samples in ("shared", "paired") and not self.by_rank

    @cached_property
    def _common_arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(AdaptiveSearch)}

    @cached_property
    def _newton(self) -> QuasiNewton:
        return QuasiNewton(**self._common_arguments)

    @cached_property
    def _evolution(self) -> MirroredES:
        return MirroredES(widest=self.widest, **self._common_arguments)

    @cached_property
    def _descent(self) -> GreedyDescent:
        return GreedyDescent(**self._common_arguments)

    def _initial_control(self, x: Array, known: Knowledge) -> Control:
        """Return the memory of the phases before their first steps."""
        d, dtype = x.size, x.dtype
        exact = self.samples is None and dtype.itemsize == 8 and d <= NEWTON_UP_TO
        learns_metric = d <= METRIC_UP_TO and not self._descends
        evolution = initial_evolution(
            d, dtype, learns_metric=learns_metric, pairs=self._evolution.first_pairs(d)
        )
        if self._descends:  # its memory would not be used
            evolution = evolution._replace(path=np.zeros(0, dtype))
        return Control(
            newton=self._newton.at(x, 0.0, known) if exact else (),
            evolution=evolution,
            descent=(),
            trial=Trial.BEFORE,
            first_x=x.reshape(-1).copy() if exact else np.zeros(0),
            next_phase=Phase.NEWTON,
            newton_spent=0,
            evolution_spent=0,
            newton_leads=False,
            starts=0,
            start_value=math.inf,
            optimum=math.inf,
            several=False,
        )

    # --- for runs ---------------------------------------------------------------------------------

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """Return the objective at x as the current phase estimates it."""
        kind, kept = request_of(state).kind, kept_of(state)
        if kind is RequestKind.DESCENT:
            return self._descent.value_at(state, values)
        if kind in (RequestKind.START, RequestKind.MIRRORED_PAIRS, RequestKind.FIRST_METRIC):
            return Search.value_at(self, state, values)
        state = state._replace(kept=kept._replace(memory=_newton(kept.memory)))
        return self._newton.value_at(state, values)

    def noise_measurements(self, memory: Control) -> int:
        """See :class:`~gensmooth.searches.adaptive.AdaptiveSearch`."""
        return memory.evolution.noise_measurements

    def converged(self, state: SearchState) -> str | None:
        """Return a reason if the phases have converged on exact values and restarts are off.

        It suffices that the next start is elsewhere. It also suffices that QuasiNewton has finished
        if MirroredES has since found no lower value in as many evaluations as precede its trial.
        """
        known, control = kept_of(state)
        if self.restarts or known.noisy is not Noise.EXACT:
            return None
        newton, evolution = control.newton, control.evolution
        confirmed = (
            newton
            and newton.finished
            and evolution.evaluations >= TRIAL_AFTER * newton.x.size
            and not evolution.lowest < newton.value
        )
        if not (confirmed or evolution.restarts or control.starts):
            return None
        return "no better value was found nearby (with restarts=True, it continues elsewhere)"

    def may_converge(self) -> bool:
        """See :class:`~gensmooth.searches.Search`."""
        return self.samples is None and not self.restarts

    def has_only_begun(self, state: SearchState) -> bool:
        """Return whether only x0 has been evaluated."""
        return self.samples is None and state.step == 1


def _newton(control: Control) -> Newton:
    assert isinstance(control.newton, Newton)
    return control.newton


def _descent(control: Control) -> Descent:
    assert isinstance(control.descent, Descent)
    return control.descent
