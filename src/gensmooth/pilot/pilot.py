"""The pilot: a search that needs no number from its user.

It is a search like :class:`~gensmooth.search.RandomSearch`, with ``init``, ``ask`` and ``tell``,
and what it does next is decided by values alone:

- Is it noisy? The start is evaluated twice.
- Exact values: a quasi-Newton phase (:mod:`~gensmooth.pilot.newton`) as long as it pays, which a
  trial of the evolution strategy finds out; then that strategy.
- Noisy values: the mirrored evolution strategy (:mod:`~gensmooth.pilot.evolution`), whose
  population grows with the noise.
- Samples that points have in common: descent with a step that steers itself
  (:mod:`~gensmooth.pilot.descent`).

Everything that adapts is in the state, so that a run resumes to the same bits: what the next batch
is made of in an :class:`Asked`, which workers are sent, and the rest in a :class:`Control`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, kernels, streams
from gensmooth.batch import Batch
from gensmooth.directions.base import pack_state, unpack_state
from gensmooth.directions.draw import Address, Draw, MixedDraw, ScaledDraw, dense, normals, signs
from gensmooth.estimators import ForwardDifference, Plan, Samples, lay_out
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import Bounds, as_bounds, as_parameters, find_units, is_tree
from gensmooth.pilot import descent, evolution, metric, newton
from gensmooth.pilot.descent import Descent
from gensmooth.pilot.evolution import Evolution, square
from gensmooth.pilot.newton import Newton
from gensmooth.search import (
    MOST,
    FailurePolicy,
    SearchState,
    StepInfo,
    check_sizes,
    standard_errors,
)
from gensmooth.trees import Tree

Array = NDArray[Any]

AUTO = "auto"  # the method that is no method of the paper's

_METRIC_UP_TO = 2000  # parameters; beyond, directions are coins and all scales stay as they are
_FULL_UP_TO = 10  # parameters; beyond, a metric has one scale for each and no more
_NEWTON_UP_TO = 500  # parameters; beyond, a gradient along the axes costs too much
_NEWTON_FROM = 20  # evaluations per parameter in the budget: with fewer it would not get far
_FARTHEST = 1e150  # parameters beyond this have diverged: their squares overflow
_NARROW = 1e-12  # a spacing below this, in units, has converged
_SPREAD = 1e4  # the most that the first probe makes scales differ, either way
_LOOK_AGAIN = 50  # steps after which a value that seemed exact is measured again
_FINAL_SHARE = 200  # at most one evaluation in this many is spent on the final value
_FINALS = 30  # and at most this many
_FEW_FINALS = 5  # values whose own scatter says enough of their noise
_FEW_FINALS_SHARE = 20  # up to these, one evaluation in this many
_FEW_STEPS = 100  # of descent in the budget: with fewer its rate must be found sooner
_LEAST_STEPS = 25  # directions are left out until so many fit
_FORWARD = ForwardDifference()


class Phase(IntEnum):
    """What a batch is for; the numbers are written to checkpoints."""

    START = 0  # the start, twice
    AXES = 1  # forward differences along the axes
    LINE = 2  # a point of the line search
    BENDS = 3  # second differences along the axes, for the quasi-Newton phase
    SPREAD = 4  # the same farther out, for the evolution strategy's first metric
    PAIRS = 5  # a step of the evolution strategy
    DESCENT = 6  # a step of descent
    BOTH = 7  # central differences along the axes


class Asked(NamedTuple):
    """What the next batch is made of: all that workers are sent beside x.

    Attributes:
        phase: What the batch is for.
        spacing: How far from x.
        number: Directions.
        repeats: How many points are evaluated again.
        scale: One number per parameter, or none: what directions are multiplied by.
        line: The line that is searched, or the guide of descent; or none.
    """

    phase: int
    spacing: float
    number: int
    repeats: int
    scale: Array
    line: Array


class Control(NamedTuple):
    """What the pilot knows.

    Attributes:
        noisy: 1: values are noisy; 0: they are exact; −1: not known yet.
        noise2: The variance of a value's noise, as measured lately.
        best: The best value seen, the smaller the better.
        best_x: Its point.
        units: One number per parameter, or a single one for all: its unit.
        evolution: The evolution strategy's state.
        newton: The quasi-Newton phase's.
        descent: That of descent.
        trial: 0: the evolution strategy was not tried; 1: it is being tried; 2: it was.
        trial_best: The best value of the trial; before any, the value at the start.
        restarts: How often the evolution strategy began again.
        all_equal: Whether all values seen were the same.
        knows_noise: Whether values come with their standard errors.
    """

    noisy: int
    noise2: float
    best: float
    best_x: Array
    units: Array
    evolution: Evolution
    newton: Newton | tuple[()]
    descent: Descent | tuple[()]
    trial: int
    trial_best: float
    restarts: int
    all_equal: bool
    knows_noise: bool


class _AskedState:
    """What evaluators and checkpoints do with an :class:`Asked`, as with a family's state."""

    def pack(self, state: tuple[Any, ...]) -> dict[str, Array]:
        return pack_state(state)

    def unpack(
        self, arrays: Mapping[str, Array], dim: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        asked = unpack_state(arrays, _asked(Phase.START, dtype))
        if not isinstance(asked, Asked) or asked.phase not in tuple(Phase):
            raise ValueError("the state of the search is not one of the pilot's")
        full = asked.phase == Phase.PAIRS and asked.scale.shape == (dim, dim)
        for array in (asked.line,) if full else (asked.scale, asked.line):
            if array.shape not in ((0,), (dim,)):
                raise ValueError("the state of the search does not fit its parameters")
        if not (np.isfinite(asked.scale).all() and np.isfinite(asked.line).all()):
            raise ValueError("the state of the search does not fit its parameters")
        if full and not (asked.scale.diagonal() > 0).all():
            raise ValueError("the state of the search has a metric without directions")
        if not (math.isfinite(asked.spacing) and 1 <= asked.number <= MOST):
            raise ValueError("the state of the search has an impossible spacing or population")
        if not 0 <= asked.repeats <= 2 * asked.number:
            raise ValueError("the state of the search repeats more points than it has")
        axes = asked.phase in (Phase.AXES, Phase.BOTH, Phase.BENDS, Phase.SPREAD)
        if axes and (asked.scale.size, asked.number) != (dim, dim):
            raise ValueError("the state of the search does not look along every axis")
        if asked.phase == Phase.LINE and (asked.line.size, asked.number) != (dim, 1):
            raise ValueError("the state of the search has no line to look along")
        return asked

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:  # noqa: ARG002
        raise RuntimeError("The pilot's state is sent whole.")

    def latest_gradient(self, before: Any, after: Any) -> None:  # noqa: ARG002
        return None


def _asked(phase: Phase, dtype: np.dtype[Any], **more: Any) -> Asked:
    none = np.zeros(0, dtype)
    return Asked(int(phase), 0.0, 1, 0, none, none)._replace(**more)


@final
@dataclass(frozen=True, kw_only=True)
class Pilot:
    """The default search of :func:`gensmooth.minimize`.

    Args:
        budget: Evaluations that it can count on; how it divides them depends on it.
        num_directions: Directions per step of descent, pairs per step of the evolution strategy;
            by default 4 + ⌊3 ln d⌋, and half of that. Descent takes fewer if they leave it fewer
            than 25 steps; the evolution strategy begins with them, and takes more as noise asks
            for them.
        most_directions: It never takes more than these.
        x_scale: How far apart interesting values of a parameter are: a number, or one for each. By
            default it is found: a quarter of what the bounds leave, or else the size of x0.
        widest: The evolution strategy's spacing does not grow beyond this many units: for
            objectives, such as those of policies whose actions are limited, on which ever larger
            parameters are no worse and ever harder to improve.
        by_rank: Compare points by rank even where their samples are common and descent would be
            possible: for objectives that are not smooth even then.
        samples: As in :class:`~gensmooth.search.RandomSearch`.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: ``"raise"`` on a value that is not finite, or ``"drop"`` it: it then counts as
            worse than any other.
        min_fraction: In descent, the smallest share of directions that makes an estimate.
        threads: Likewise.

    >>> pilot = Pilot(budget=1000)
    >>> state = pilot.init([5.0, 5.0], seed=0)
    >>> while state.evaluations + pilot.next_evaluations(state) <= 1000:
    ...     batch = pilot.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, info = pilot.tell(state, batch, values)
    >>> pilot.recommend(state).round(3)
    array([1., 2.])
    """

    budget: int
    num_directions: int | None = None
    most_directions: int | None = None
    x_scale: Any = None
    widest: float = math.inf
    by_rank: bool = False
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    def __post_init__(self) -> None:
        checks.settle(
            self,
            budget=checks.count("budget", self.budget, 0),
            num_directions=checks.optional(checks.count, "num_directions", self.num_directions),
            most_directions=checks.optional(
                checks.count, "most_directions", self.most_directions, least=2
            ),
            num_samples=checks.count("num_samples", self.num_samples),
            maximize=checks.flag("maximize", self.maximize),
            widest=float(checks.number("widest", self.widest)),
            by_rank=checks.flag("by_rank", self.by_rank),
            min_fraction=checks.share("min_fraction", self.min_fraction, one=True),
            threads=checks.count("threads", self.threads),
        )
        check_sizes(self.num_directions or 1, self.num_samples)
        checks.one_of("on_failure", self.on_failure, ("raise", "drop"))
        if self.samples is not None:
            checks.one_of("samples", self.samples, ("shared", "paired", "independent"))
        elif self.num_samples != 1:
            raise ValueError(
                f"`num_samples` is {self.num_samples}, but there are no samples to average: "
                "give `samples=` 'shared', 'paired' or 'independent', and an objective fun(x, rng)."
            )

    # --- a step -----------------------------------------------------------------------------------

    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """The state before the first step; ``x0`` is an array, or a structure of arrays."""
        x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(x, bounds.lower, bounds.upper, out=x)
        control = self._first(x)
        if self._descends:
            asked = self._ask_descent(control, x.dtype)
        elif self.samples is not None:
            control = control._replace(noisy=1)
            asked = self._ask_pairs(control, x.dtype, 0)
        else:
            asked = _asked(Phase.START, x.dtype)
        return SearchState(x, 0, 0, streams.check_seed(seed), control, asked, tree)

    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step: a pure function of the state."""
        asked, x = _asked_of(state), state.x
        bounds = None if self.bounds is None else as_bounds(self.bounds, x)
        plan = self._plan(asked)
        return Batch(
            x,
            state.step,
            state.seed,
            self._draw(asked, state),
            plan,
            asked.spacing,
            np.multiply(asked.spacing, plan.side, dtype=np.float64),
            self.samples,
            bounds,
            tree=state.tree,
        )

    def tell(
        self,
        state: SearchState,
        batch: Batch,
        values: ArrayLike,
        errors: ArrayLike | None = None,
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step, from the values of its batch.

        Args:
            state: The state that the batch was asked from.
            batch: What :meth:`ask` gave.
            values: The objective's values, in the order of ``batch.points()``.
            errors: Their standard errors, where they are known: nothing is then measured twice,
                and values count the less the less they are known.
        """
        if batch.step != state.step or batch.seed != state.seed or not batch.is_at(state.x):
            raise ValueError("Each batch is told once, to the state it was asked from.")
        raw = np.asarray(checks.reals("values", values), np.float64).reshape(-1)
        if len(raw) != len(batch):
            raise ValueError(f"The step needs {len(batch)} values, but `tell` got {len(raw)}.")
        batch, asked, control = batch.flat(), _asked_of(state), _control_of(state)
        known = None
        if errors is not None:
            known = np.square(standard_errors(errors, len(raw)))
            known = known.reshape(-1, self.num_samples).mean(axis=1) / self.num_samples
            control = control._replace(knows_noise=True)
        low = -raw if self.maximize else raw  # from here on the smaller the better
        means = low.reshape(-1, self.num_samples).mean(axis=1) if self.num_samples > 1 else low
        finite = np.isfinite(low)
        if not finite.all() and self.on_failure == "raise":
            bad = int(finite.argmin())
            raise ValueError(
                f"{batch.describe(bad)} has the value {raw[bad]}. Mend the objective, or pass "
                "on_failure='drop' to leave such directions out."
            )
        control = _with_best(control, batch, low, finite)
        state = state._replace(evaluations=state.evaluations + len(raw))
        phase = Phase(asked.phase)
        if phase is Phase.PAIRS:
            made = self._tell_pairs(state, control, asked, batch, means, known)
        elif phase is Phase.DESCENT:
            made = self._tell_descent(state, control, asked, batch, means)
        elif phase is Phase.START:
            made = self._tell_start(state, control, means, known)
        elif phase in (Phase.AXES, Phase.BOTH):
            made = self._tell_axes(state, control, means)
        elif phase is Phase.LINE:
            made = self._tell_line(state, control, asked, means)
        else:
            made = self._tell_bends(state, control, phase, means)
        return self._after(state, raw, made)

    # --- exact values -----------------------------------------------------------------------------

    def _tell_start(
        self,
        state: SearchState,
        control: Control,
        values: NDArray[np.float64],
        known: NDArray[np.float64] | None,
    ) -> "_Made":
        first, second = values.tolist()
        x = state.x.reshape(-1)
        if first == second and (known is None or not known.any()):
            control = control._replace(noisy=0)
            if control.newton and self._worth_newton(x.size):
                begun = newton.begin(x, first, np.broadcast_to(control.units, x.shape).copy())
                return self._next_gradient(control._replace(newton=begun), state.x)
            return self._begin_search(state, control._replace(trial_best=first), first, x)
        if known is None and not (math.isfinite(first) or math.isfinite(second)):
            control = control._replace(noisy=0)  # until a value that is measured again differs
            return _Made(control, self._ask_pairs(control, x.dtype, state.evaluations), x)
        noise2 = (first - second) ** 2 / 2 if known is None else float(known.mean())
        control = control._replace(noisy=1, noise2=noise2 if math.isfinite(noise2) else 0.0)
        return _Made(control, self._ask_pairs(control, x.dtype, state.evaluations), x)

    def _tell_axes(
        self, state: SearchState, control: Control, values: NDArray[np.float64]
    ) -> "_Made":
        now = _newton_of(control)
        now = now._replace(evaluations=now.evaluations + len(values))
        turned = newton.turn(now, values, self._limits(state.x))
        if turned is None:
            return self._end_newton(state, control._replace(newton=now))
        now, line = turned
        asked = _asked(Phase.LINE, state.x.dtype, spacing=now.length, line=line)
        size = math.sqrt(square(now.gradient / now.scale))
        return _Made(control._replace(newton=now), asked, now.x, gradient=size)

    def _tell_line(
        self, state: SearchState, control: Control, asked: Asked, values: NDArray[np.float64]
    ) -> "_Made":
        now, over = newton.try_length(_newton_of(control), float(values[0]))
        now = now._replace(evaluations=now.evaluations + 1)
        if not over:
            more = asked._replace(spacing=now.length)
            return _Made(control._replace(newton=now), more, now.x)
        now, on = newton.move(now, asked.line)
        now = now._replace(x=self._clipped(now.x, state.x))
        control = control._replace(newton=now)
        if not on:
            finer = newton.refine(now)
            if finer is not None:
                return self._next_gradient(control._replace(newton=finer), state.x)
            return self._end_newton(state, control)
        d = now.x.size
        if not now.probed and now.evaluations >= newton.PROBE_AFTER * d:
            asked = _asked(Phase.BENDS, state.x.dtype, spacing=newton.PROBE, number=d)
            units = np.broadcast_to(control.units, now.x.shape)
            return _Made(control, asked._replace(scale=units.copy()), now.x)
        if control.trial == 0 and now.evaluations >= newton.TRIAL_AFTER * d:
            control = control._replace(trial=1, trial_best=math.inf)
            return self._begin_search(state, control, now.value, now.x)
        return self._next_gradient(control, state.x)

    def _tell_bends(
        self, state: SearchState, control: Control, phase: Phase, values: NDArray[np.float64]
    ) -> "_Made":
        """Take in f(x + h) and f(x − h) along each axis."""
        plus, minus = values.reshape(-1, 2).T
        if phase is Phase.BENDS:
            now = _newton_of(control)
            now = now._replace(evaluations=now.evaluations + len(values))
            units = np.broadcast_to(control.units, now.x.shape)
            now = newton.rescale(now, plus + minus - 2 * now.value, units)
            return self._next_gradient(control._replace(newton=now), state.x)
        here = control.best if not control.newton else _newton_of(control).value
        change = np.maximum(np.abs(plus + minus - 2 * here), 0.05 * np.abs(plus - minus))
        scales = newton.even_scales(change)
        found = control.evolution
        if scales is not None:
            variances = np.clip(scales**2, 1 / _SPREAD, _SPREAD)
            variances /= math.exp(float(np.log(variances).mean()))
            found = found._replace(variances=variances.astype(found.variances.dtype))
        found = found._replace(evaluations=found.evaluations + len(values))
        control = control._replace(evolution=found)
        return _Made(
            control, self._ask_pairs(control, state.x.dtype, state.evaluations), state.x.reshape(-1)
        )

    def _next_gradient(self, control: Control, like: Array) -> "_Made":
        now = _newton_of(control)
        phase = Phase.BOTH if now.central else Phase.AXES
        asked = _asked(phase, now.x.dtype, spacing=1.0, number=now.x.size)
        spacings = newton.spacings(now, self._limits(like))
        return _Made(control, asked._replace(scale=spacings), now.x)

    def _end_newton(self, state: SearchState, control: Control) -> "_Made":
        """The quasi-Newton phase has converged, or can go no further."""
        now = _newton_of(control)
        control = control._replace(trial=2)
        return self._begin_search(state, control, now.value, now.x)

    def _begin_search(
        self, state: SearchState, control: Control, value: float, x: Array
    ) -> "_Made":
        """Begin the evolution strategy at x, a point of known value; first ask for its metric."""
        d = x.size
        pairs = self._pairs(d) << min(control.restarts, 10)
        if self.most_directions is not None:
            pairs = min(pairs, self.most_directions)
        begun = evolution.begin(d, state.x.dtype, metric=d <= _METRIC_UP_TO, pairs=pairs)
        control = control._replace(evolution=begun)
        if control.newton:
            here = _newton_of(control)._replace(value=value) if control.trial != 1 else None
            control = control if here is None else control._replace(newton=here)
        left = self.budget - state.evaluations
        if control.newton and control.noisy == 0 and left >= 10 * d:
            units = np.broadcast_to(control.units, (d,)).copy()
            asked = _asked(Phase.SPREAD, state.x.dtype, spacing=begun.spacing, number=d)
            return _Made(control, asked._replace(scale=units), x)
        return _Made(control, self._ask_pairs(control, state.x.dtype, state.evaluations), x)

    # --- the evolution strategy -------------------------------------------------------------------

    def _tell_pairs(
        self,
        state: SearchState,
        control: Control,
        asked: Asked,
        batch: Batch,
        values: NDArray[np.float64],
        known: NDArray[np.float64] | None,
    ) -> "_Made":
        now, pairs, again = control.evolution, asked.number, asked.repeats
        first, second = values[: 2 * pairs].copy(), values[2 * pairs :]
        kept = np.isfinite(first)  # what failed is worse than anything that did not
        whole = kept[0::2] & kept[1::2]
        dropped = pairs - int(whole.sum())
        if not kept.any():
            return self._narrowed(state, control, asked, batch)
        if again:
            apart = first[:again] - second
            seen = np.isfinite(apart)
            if apart[seen].any():
                control = control._replace(noisy=1)
            if seen.any() and whole.any() and control.noisy == 1:
                twice2 = float(np.square(apart[seen]).mean())
                halves = 0.5 * (first[0::2] - first[1::2])[whole]
                halves2 = float(np.square(halves).mean())
                control = control._replace(
                    noise2=_mixed(control.noise2, twice2 / 2, now.measured, int(seen.sum()))
                )
                now = evolution.measure(now, twice2, halves2, len(halves), int(seen.sum()))
                mean = 0.5 * (first[:again] + second)
                first[:again] = np.where(seen, mean, first[:again])
        if known is not None:
            control, now = _with_known(control, first, whole, known[: 2 * pairs])
        lowest = float(first[kept].min())
        k = evolution.constants(state.x.size, pairs)
        weights = evolution.rank(np.where(kept, first, np.inf), k.weights)
        if known is not None:
            weights = _by_precision(weights, first, kept, known[: 2 * pairs])
        all_equal = bool((first[kept] == first[kept][0]).all())
        first_of_many = now.steps == 0 and control.trial == 0 and state.x.size > _NEWTON_UP_TO
        if first_of_many and control.noisy == 0 and not dropped:
            spacing = evolution.fitting(now, first, control.trial_best, k)
            if spacing < now.spacing:
                now = now._replace(spacing=spacing, evaluations=now.evaluations + len(batch))
                control = control._replace(evolution=now)
                again_at = self._ask_pairs(control, state.x.dtype, state.evaluations)
                return _Made(control, again_at, state.x.reshape(-1))
        if asked.scale.ndim == 2:
            doubts = evolution.rank(np.where(kept, first, np.inf), k.doubts)
            chosen = self._chosen_of_few(state, control, asked, batch, weights, doubts)
        else:
            chosen = self._chosen(state, control, asked, batch, weights)
        now, factor = evolution.follow(
            now,
            chosen.step,
            chosen.squares,
            pairs=pairs,
            all_equal=all_equal,
            widest=self.widest,
            factor=chosen.factor,
        )
        now = now._replace(evaluations=now.evaluations + len(batch))
        left = self.budget - state.evaluations
        now = evolution.grow(
            now,
            noisy=control.noisy == 1,
            left=left / self.num_samples,
            bound=self.most_directions,
            widest=self.widest,
        )
        x = state.x.reshape(-1)
        if not all_equal:
            x = self._clipped(x + (asked.spacing * chosen.change).astype(x.dtype), state.x)
        control = control._replace(
            evolution=now,
            trial_best=min(control.trial_best, lowest),
        )
        made = _Made(control, None, x, dropped=dropped)
        if control.trial == 1 and now.evaluations >= newton.TRIAL * state.x.size:
            control = control._replace(trial=2)
            if not control.trial_best < _newton_of(control).value:
                return self._next_gradient(control, state.x)
            made = made._replace(control=control)
        if self._is_narrow(control) or now.still >= evolution.STILL:
            restarted = control._replace(restarts=control.restarts + 1)
            x = control.best_x if control.noisy != 1 else x
            return self._begin_search(state, restarted, control.best, x)
        return made._replace(
            asked=self._ask_pairs(control, state.x.dtype, state.evaluations, factor)
        )

    def _narrowed(
        self, state: SearchState, control: Control, before: Asked, batch: Batch
    ) -> "_Made":
        """No value of a step is finite: look closer to x, where one was."""
        now = control.evolution
        if now.still >= evolution.STILL:
            raise ValueError(
                f"None of the values of the last {evolution.STILL} steps is finite, the last of "
                f"them step {batch.step}."
            )
        now = now._replace(spacing=0.3 * now.spacing, steps=now.steps + 1, still=now.still + 1)
        control = control._replace(evolution=now)
        factor = None if before.scale.ndim < 2 else before.scale / control.units.reshape(-1, 1)
        asked = self._ask_pairs(control, state.x.dtype, state.evaluations, factor)
        return _Made(control, asked, state.x.reshape(-1), dropped=asked.number)

    def _chosen(
        self, state: SearchState, control: Control, asked: Asked, batch: Batch, weights: Array
    ) -> "_Chosen":
        """What the weights choose of the points that were evaluated, inside any bounds."""
        learns = bool(control.evolution.variances.size)
        scale: Array | float = asked.scale if asked.scale.size else 1.0
        both = weights.reshape(-1, 2)
        draw = batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw | MixedDraw) else draw
        if self.bounds is None:
            step, _ = draw.combine(both[:, 0] - both[:, 1])
            squares = None
            if learns:
                squares = (both.sum(axis=1)[:, None] * np.square(draw.block())).sum(axis=0)
            return _Chosen(scale * step, step, squares, None)
        x = state.x.reshape(-1)
        step, squares = np.zeros_like(x), np.zeros_like(x)
        for row in np.flatnonzero(weights).tolist():
            z = (batch.point(row).reshape(-1) - x) / (asked.spacing * scale)
            step += weights[row] * z
            squares += weights[row] * z * z
        return _Chosen(scale * step, step, squares if learns else None, None)

    def _chosen_of_few(
        self,
        state: SearchState,
        control: Control,
        asked: Asked,
        batch: Batch,
        weights: Array,
        doubts: Array,
    ) -> "_Chosen":
        """The same for a full metric."""
        factor = asked.scale / control.units.reshape(-1, 1)
        if self.bounds is None:
            assert isinstance(batch.draw, MixedDraw)
            z, y = (np.repeat(each.block(), 2, axis=0) for each in (batch.draw.base, batch.draw))
            z[1::2] *= -1
            y[1::2] *= -1
            y /= control.units
        else:
            points = batch.block(0, 2 * asked.number).reshape(2 * asked.number, -1)
            y = (points - state.x.reshape(-1)) / (asked.spacing * control.units)
            z = metric.solve(factor, y)
        step = (weights[:, None] * z).sum(axis=0)
        change = control.units * metric.apply(factor, step)
        return _Chosen(change, step, metric.chosen(y, z, weights, doubts), factor)

    def _ask_pairs(
        self, control: Control, dtype: np.dtype[Any], spent: int, factor: Array | None = None
    ) -> Asked:
        """A step of the evolution strategy; the last one is as large as the budget allows."""
        now = control.evolution
        pairs = round(now.pairs)
        again = int(now.steps % _LOOK_AGAIN == 0)  # exact values are not taken on trust for ever
        if control.knows_noise:
            again = 0
        elif control.noisy == 1:
            again, _ = evolution.repeats(now, pairs)
        left = (self.budget - spent - self._final(control)) // self.num_samples
        if 2 * pairs + again > left:
            fewer = left // 2
            if fewer >= (1 if control.noisy == 0 else (pairs + 1) // 2):
                pairs, again = min(pairs, fewer), 0
        scale = np.zeros(0, dtype)
        spacing = now.spacing
        few = 1 < now.variances.size <= _FULL_UP_TO and dtype.itemsize == 8
        if few and now.steps == 0 and factor is None:
            factor = np.diag(np.sqrt(now.variances))
        if factor is not None:
            scale = control.units.reshape(-1, 1) * factor
        elif now.variances.size:
            scale = (control.units * np.sqrt(now.variances)).astype(dtype)
        elif control.units.size > 1:
            scale = control.units.astype(dtype)
        else:
            spacing *= float(control.units[0])
        return _asked(Phase.PAIRS, dtype, spacing=spacing, number=pairs, repeats=again, scale=scale)

    def _is_narrow(self, control: Control) -> bool:
        now = control.evolution
        widest = math.sqrt(float(now.variances.max())) if now.variances.size else 1.0
        return not _NARROW < now.spacing * widest < math.inf

    # --- descent on common samples ----------------------------------------------------------------

    def _ask_descent(self, control: Control, dtype: np.dtype[Any]) -> Asked:
        assert isinstance(control.descent, Descent)
        guide = descent.guide(control.descent)
        each = control.units.size > 1
        return _asked(
            Phase.DESCENT,
            dtype,
            spacing=descent.SPACING * (1.0 if each else float(control.units[0])),
            number=self._number(guide.size),
            scale=control.units.astype(dtype) if each else np.zeros(0, dtype),
            line=guide if control.descent.steps else np.zeros(0, dtype),
        )

    def _tell_descent(
        self,
        state: SearchState,
        control: Control,
        asked: Asked,
        batch: Batch,
        values: NDArray[np.float64],
    ) -> "_Made":
        assert isinstance(control.descent, Descent)
        guided = bool(asked.line.size)
        number = asked.number + guided
        delta, _ = _FORWARD.differences(values, number, self.samples)
        derivatives = delta / descent.SPACING  # per unit
        along = float(derivatives[-1]) if guided else None
        own = derivatives[: asked.number]
        kept = np.isfinite(own)
        used = int(kept.sum())
        self._check_used(batch, used, asked.number)
        draw = batch.draw.first if isinstance(batch.draw, _Joined) else batch.draw
        draw = draw.base if isinstance(draw, ScaledDraw) else draw
        estimate, _ = draw.combine(np.where(kept, own, 0.0) / used)
        if along is not None and not math.isfinite(along):
            along = None
        after, change = descent.follow(
            control.descent, estimate, own[kept], along, few=self._has_few_steps(estimate.size)
        )
        scale = asked.scale if asked.scale.size else float(control.units[0])
        x = state.x.reshape(-1)
        x = self._clipped(x + (scale * change).astype(x.dtype), state.x)
        control = control._replace(descent=after)
        return _Made(
            control,
            self._ask_descent(control, state.x.dtype),
            x,
            gradient=math.sqrt(square(estimate / scale)),
            dropped=asked.number - used,
        )

    # --- what all phases share --------------------------------------------------------------------

    def _after(
        self, state: SearchState, raw: NDArray[np.float64], made: "_Made"
    ) -> tuple[SearchState, StepInfo]:
        control, asked, x = made.control, made.asked, made.x.reshape(state.x.shape)
        assert asked is not None
        why, length = None, 0.0
        if made.x is not state.x:
            change = np.subtract(x, state.x).reshape(-1)
            length2, size2 = kernels.on_sums().advance(state.x.reshape(-1), change, change)
            length = math.sqrt(size2)
            if not length2 < _FARTHEST:
                x, why = state.x, f"step {state.step} would have gone too far for numbers to tell"
        if asked.phase == Phase.PAIRS and control.noisy == 1:
            _, owed = evolution.repeats(control.evolution, asked.number)
            control = control._replace(evolution=control.evolution._replace(owed=owed))
        best, _ = kernels.on_sums().survey(raw, self.maximize)
        info = StepInfo(
            state.step,
            state.evaluations,
            self.value_at(state, raw),
            float(raw[best]),
            best,
            made.gradient,
            None,
            None,
            1.0,
            made.dropped,
            length,
            why,
        )
        after = SearchState(
            np.asarray(x, state.x.dtype, order="C"),
            state.step + 1,
            state.evaluations,
            state.seed,
            control,
            asked,
            state.tree,
        )
        return after, info

    def _draw(self, asked: Asked, state: SearchState) -> Draw:
        x, phase = state.x, Phase(asked.phase)
        at = Address(state.seed, state.step, asked.number, x.size, x.dtype)
        if phase in (Phase.AXES, Phase.BOTH, Phase.BENDS, Phase.SPREAD):
            return dense(np.diag(asked.scale).astype(x.dtype))
        if phase is Phase.LINE:
            return dense(asked.line[None].astype(x.dtype))
        coins = phase is not Phase.PAIRS or x.size > _METRIC_UP_TO
        draw: Draw = signs(at) if coins else normals(at)
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        if asked.scale.ndim == 2:
            draw = MixedDraw(draw, asked.scale)
        elif asked.scale.size:
            draw = ScaledDraw(draw, asked.scale)
        if phase is Phase.DESCENT and asked.line.size:
            last = asked.line[None] * (asked.scale if asked.scale.size else 1.0)
            draw = _Joined(draw, dense(last.astype(x.dtype)))
        return draw

    def _plan(self, asked: Asked) -> Plan:
        return _plan(
            asked.phase,
            asked.number + bool(asked.phase == Phase.DESCENT and asked.line.size),
            asked.repeats,
            self.num_samples,
            self.samples,
        )

    def _first(self, x: Array) -> Control:
        d, dtype = x.size, x.dtype
        common = self._descends
        exact = self.samples is None and dtype.itemsize == 8 and d <= _NEWTON_UP_TO
        begun = evolution.begin(
            d, dtype, metric=d <= _METRIC_UP_TO and not common, pairs=self._pairs(d)
        )
        if common:
            begun = begun._replace(path=np.zeros(0, dtype))
        units = find_units(x, self.x_scale, self.bounds)
        return Control(
            noisy=-1,
            noise2=0.0,
            best=math.inf,
            best_x=x.reshape(-1).copy(),
            units=units,
            evolution=begun,
            newton=newton.begin(x, 0.0, np.broadcast_to(units, (d,)).copy()) if exact else (),
            descent=descent.begin(d, dtype) if common else (),
            trial=0,
            trial_best=math.inf,
            restarts=0,
            all_equal=True,
            knows_noise=False,
        )

    @property
    def _descends(self) -> bool:
        return self.samples in ("shared", "paired") and not self.by_rank

    def _worth_newton(self, dim: int) -> bool:
        return self.budget >= _NEWTON_FROM * dim

    def _pairs(self, dim: int) -> int:
        """How many pairs the evolution strategy begins with."""
        pairs = self.num_directions
        pairs = evolution.default_pairs(dim) if pairs is None else max(pairs, 2)
        return pairs if self.most_directions is None else min(pairs, self.most_directions)

    def _number(self, dim: int) -> int:
        """Directions per step of descent: fewer than usual if few steps would fit the budget."""
        number = self._usual_number(dim)
        if self.num_directions is not None:
            return number
        points = self.budget / self.num_samples / _LEAST_STEPS  # of a step: L, the probe, centres
        fits = points - 2 if self.samples == "shared" else points / 2 - 1
        return min(number, max(int(fits), 2))

    def _usual_number(self, dim: int) -> int:
        return 4 + int(3 * math.log(dim)) if self.num_directions is None else self.num_directions

    def _has_few_steps(self, dim: int) -> bool:
        """Whether the budget allows few steps of descent."""
        each = len(_FORWARD.points(self._usual_number(dim) + 1, self.samples))
        return self.budget < _FEW_STEPS * self.num_samples * each

    def _limits(self, x: Array) -> Bounds | None:
        """The bounds, as flat as the parameters are here."""
        if self.bounds is None:
            return None
        bounds = as_bounds(self.bounds, x)
        return Bounds(bounds.lower.reshape(-1), bounds.upper.reshape(-1))

    def _clipped(self, x: Array, like: Array) -> Array:
        bounds = self._limits(like)
        return x if bounds is None else np.clip(x, bounds.lower, bounds.upper)

    def _check_used(self, batch: Batch, used: int, number: int) -> None:
        if used < max(1, math.ceil(self.min_fraction * number)):
            raise ValueError(
                f"Only {used} of {number} directions of step {batch.step} have finite values, "
                f"fewer than min_fraction={self.min_fraction} asks for."
            )

    # --- what runs and workers ask of any search --------------------------------------------------

    @property
    def directions(self) -> _AskedState:
        """What is packed and sent of the state's ``directions``."""
        return _AskedState()

    @property
    def optimizer(self) -> Optimizer:
        """A template of the state's ``optimizer``, for checkpoints."""
        return Optimizer(self._first, _no_update)

    def next_evaluations(self, state: SearchState) -> int:
        """How many evaluations the next step takes."""
        return len(self._plan(_asked_of(state)))

    def evaluations_after(self, steps: int) -> int | None:  # noqa: ARG002
        """``None``: it depends on the values."""
        return None

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """The objective at x as the values of a step see it."""
        asked, control = _asked_of(state), _control_of(state)
        sign = -1.0 if self.maximize else 1.0
        if asked.phase in (Phase.AXES, Phase.BOTH, Phase.LINE, Phase.BENDS) and control.newton:
            return sign * _newton_of(control).value
        finite = values[np.isfinite(values)]
        if asked.phase == Phase.DESCENT:
            means = values.reshape(-1, self.num_samples).mean(axis=1)
            number = asked.number + bool(asked.line.size)
            return _FORWARD.differences(means, number, self.samples)[1]
        return float(finite.mean()) if len(finite) else math.nan

    def for_workers(self) -> "Pilot":
        """The search as workers need it."""
        return replace(self, threads=1)

    def looks(self, state: SearchState) -> bool:
        """Whether the next step looks around, and may well leave x where it is."""
        return _asked_of(state).phase not in (Phase.PAIRS, Phase.DESCENT)

    def only_began(self, state: SearchState) -> bool:
        """Whether nothing was done but to evaluate the start."""
        return self.samples is None and state.step == 1

    def final_evaluations(self, state: SearchState) -> int:
        """How many values a run should at least take at the point to use, when it ends.

        One where values are exact; where they are noisy one in 200 of the budget, five if that is
        no more than one in 20, and 30 at most.
        """
        return self._final(_control_of(state))

    def _final(self, control: Control) -> int:
        n = self.num_samples
        if not (control.noisy == 1 and control.noise2 > 0) or self._descends:
            return n
        points = self.budget // n
        few = min(points // _FEW_FINALS_SHARE, _FEW_FINALS)
        return n * min(max(points // _FINAL_SHARE, few, 1), _FINALS)

    def error(self, state: SearchState, values: NDArray[np.float64]) -> float | None:
        """The standard error of the mean of values at one point; ``None`` if they are exact.

        From their own scatter, and where they are few also from the noise that was measured
        before: with as many values as that took.
        """
        n, noise2 = len(values), _control_of(state).noise2
        own = float(np.square(values - values.mean()).sum())
        if not self.noise(state):
            return math.sqrt(own / (n - 1) / n) if own > 0 else None
        if n >= _FEW_FINALS:
            return math.sqrt(own / (n - 1) / n)
        before = 1 + min(_control_of(state).evolution.measured, 10)
        return math.sqrt((before * noise2 + own) / (before + n - 1) / n)

    def recommend(self, state: SearchState) -> Array:
        """The point to use: the best one seen if values are exact, else the search's centre."""
        control = _control_of(state)
        if control.noisy == 0:
            return control.best_x.reshape(state.x.shape).copy()
        return state.x.copy()

    def noise(self, state: SearchState) -> float | None:
        """The standard deviation of a value's noise; ``None`` where it was not measured."""
        control = _control_of(state)
        if self.samples in ("shared", "paired") or control.noisy < 0:
            return None
        return math.sqrt(control.noise2)


class _Made(NamedTuple):
    """What came of a step: what is known, what to ask next, where."""

    control: Control
    asked: Asked | None
    x: Array
    gradient: float = 0.0
    dropped: int = 0


class _Chosen(NamedTuple):
    """What a step's weights choose: the change of x over σ, Σ w z, its squares, and F."""

    change: Array
    step: Array
    squares: Array | None
    factor: Array | None


@final
class _Joined:
    """The directions of one draw, then those of another."""

    __slots__ = ("dim", "dtype", "factor", "first", "num_directions", "second")

    def __init__(self, first: Draw, second: Draw) -> None:
        self.first, self.second = first, second
        self.dim, self.dtype, self.factor = first.dim, first.dtype, first.factor
        self.num_directions = first.num_directions + second.num_directions

    def block(self) -> Array:
        return np.concatenate([self.first.block(), self.second.block()])

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        late = directions >= self.first.num_directions
        if not late.any():
            return self.first.perturb(x, directions, spacings, out)
        for row, (direction, spacing) in enumerate(zip(directions, spacings, strict=True)):
            draw, index = (self.first, direction)
            if direction >= self.first.num_directions:
                draw, index = self.second, direction - self.first.num_directions
            draw.perturb(x, np.array([index]), np.array([spacing]), out[row : row + 1])
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        return dense(self.block()).combine(weights)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        return dense(self.block()).estimate(delta, unit)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "_Joined":
        return _Joined(
            self.first.rescaled(length=length, factor=factor, threads=threads),
            self.second.rescaled(length=length, factor=factor, threads=threads),
        )


@lru_cache(maxsize=256)
def _plan(phase: int, number: int, repeats: int, num_samples: int, samples: Samples | None) -> Plan:
    """The evaluations of a batch."""
    places: list[tuple[int, int]]
    if phase == Phase.START:
        places = [(0, 0), (0, 0)]
    elif phase in (Phase.AXES, Phase.LINE):
        places = [(index, 1) for index in range(number)]
    elif phase == Phase.DESCENT:
        places = _FORWARD.points(number, samples)
    else:
        places = [(index, side) for index in range(number) for side in (1, -1)]
        places += places[:repeats]
    return lay_out(places, num_samples, samples)


def _with_best(
    control: Control, batch: Batch, low: NDArray[np.float64], finite: NDArray[np.bool_]
) -> Control:
    if not finite.any():
        return control
    index = int(np.where(finite, low, np.inf).argmin())
    seen = low[finite]
    same = bool((seen == seen[0]).all()) and control.best in (seen[0], math.inf)
    if not same:
        control = control._replace(all_equal=False)
    if not low[index] < control.best:
        return control
    return control._replace(best=float(low[index]), best_x=batch.point(index).reshape(-1))


def _with_known(
    control: Control,
    values: NDArray[np.float64],
    whole: NDArray[np.bool_],
    known: NDArray[np.float64],
) -> tuple[Control, Evolution]:
    """Take in the noise that values say they have, in the place of a measurement."""
    now = control.evolution
    noise2 = float(known[np.isfinite(known)].mean()) if np.isfinite(known).any() else 0.0
    control = control._replace(noise2=noise2, noisy=int(noise2 > 0))
    if whole.any():
        halves2 = float(np.square(0.5 * (values[0::2] - values[1::2])[whole]).mean())
        again = max(1, len(values) // evolution.REPEAT)
        now = evolution.measure(now, 2 * noise2, halves2, int(whole.sum()), again)
    return control, now


def _by_precision(
    weights: NDArray[np.float64],
    values: NDArray[np.float64],
    kept: NDArray[np.bool_],
    known: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Weights by rank, smaller for values that are known less well than they differ."""
    spread = float(np.var(values[kept]))
    if not spread > 0:
        return weights
    surer = weights * (spread / (spread + np.where(np.isfinite(known), known, np.inf)))
    total = float(surer.sum())
    return surer / total if total > 0 else weights


def _mixed(noise2: float, new: float, measured: int, again: int) -> float:
    share = max(min(again / 10.0, 0.5), again / (measured + again + 1))
    return (1 - share) * noise2 + share * new


def _asked_of(state: SearchState) -> Asked:
    assert isinstance(state.directions, Asked), "the state is of another search"
    return state.directions


def _control_of(state: SearchState) -> Control:
    assert isinstance(state.optimizer, Control), "the state is of another search"
    return state.optimizer


def _newton_of(control: Control) -> Newton:
    assert isinstance(control.newton, Newton)
    return control.newton


def _no_update(*_: Any) -> Any:
    raise RuntimeError("The pilot makes its own steps.")
