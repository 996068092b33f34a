"""What the pilot and its three searches share: a question, what is known, and the way of a step.

Each of them is a :class:`Steered`. A step answers a :class:`Question`: which points are evaluated
next. The state sends the question to workers and keeps everything else, so that a run resumes to
the same bits. A subclass says what is asked first (:meth:`Steered.begin`) and what the values of
a question lead to (:meth:`Steered.advance`).
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, kernels, streams
from gensmooth.batch import Batch
from gensmooth.directions.draw import Address, Draw, MixedDraw, ScaledDraw, dense, normals, signs
from gensmooth.estimators import ForwardDifference, Plan, Samples, lay_out
from gensmooth.parameters import Bounds, as_bounds, as_parameters, find_units, is_tree
from gensmooth.searches.protocol import (
    FailurePolicy,
    FinalValue,
    Search,
    SearchState,
    StepInfo,
    mean_value,
)
from gensmooth.searches.random_search import MOST, check_sizes, standard_errors
from gensmooth.trees import Tree

Array = NDArray[Any]

METRIC_UP_TO = 2000  # parameters; beyond, directions are coins, which cannot teach a metric
EXACT_UP_TO = 500  # parameters; beyond, a difference along every axis costs too much
_FINAL_SHARE = 200  # at most one evaluation in this many is spent on the final value,
_MOST_FINALS = 30  # and at most this many;
_FEW_FINALS = 5  # so many tell enough about their own scatter,
_FEW_FINALS_SHARE = 20  # and are taken if that is at most one evaluation in this many
_FARTHEST = 1e150  # a squared length of x beyond this counts as divergence: it is near overflow
FORWARD = ForwardDifference()


class Kind(IntEnum):
    """What a question is for. The numbers are written to checkpoints."""

    START = 0  # the start, twice
    AXES = 1  # forward differences along the axes
    LINE = 2  # a point of a line search
    BENDS = 3  # second differences along the axes, for the quasi-Newton search's scales
    SPREAD = 4  # the same at a wider spacing, for the evolution strategy's first metric
    PAIRS = 5  # a step of the evolution strategy
    DESCENT = 6  # a step of descent
    BOTH = 7  # central differences along the axes


_ALONG_AXES = (Kind.AXES, Kind.BOTH, Kind.BENDS, Kind.SPREAD)


class Noise(IntEnum):
    """Whether values are noisy. The numbers are written to checkpoints."""

    UNKNOWN = -1
    EXACT = 0
    NOISY = 1


class Question(NamedTuple):
    """Which points are evaluated next: all that workers are sent besides x.

    Attributes:
        kind: A :class:`Kind`.
        spacing: How far from x the points lie, in units of a direction.
        number: How many directions there are.
        repeats: How many of the points are evaluated a second time, to measure the noise.
        scale: What directions are multiplied by: one number per parameter, a matrix, or empty.
        line: The line that is searched, or the guide of descent; or empty.
    """

    kind: int
    spacing: float
    number: int
    repeats: int
    scale: Array
    line: Array


class Known(NamedTuple):
    """What has been learned about the objective, whichever search learned it.

    Attributes:
        noisy: A :class:`Noise`.
        noise2: The variance of a value's noise, as last measured.
        best: The best value seen; smaller is better.
        best_x: Its point.
        units: The unit of each parameter, or a single one for all.
        all_equal: Whether all values seen were the same.
        knows_noise: Whether values come with their standard errors.
    """

    noisy: int
    noise2: float
    best: float
    best_x: Array
    units: Array
    all_equal: bool
    knows_noise: bool


class Advance(NamedTuple):
    """What a question's values lead to.

    Attributes:
        known: What is known now.
        own: The search's own state.
        question: What is asked next.
        x: The parameters, flat.
        gradient: The length of the gradient estimate, if there is one.
        dropped: Directions left out because a value was not finite.
    """

    known: Known
    own: Any
    question: Question
    x: Array
    gradient: float = 0.0
    dropped: int = 0


class Answers(NamedTuple):
    """The values of a question.

    Attributes:
        x: The parameters, in their shape, where the question was asked.
        batch: The points.
        values: The mean value at each point; smaller is better.
        errors2: Their variances, where they are known.
        spent: Evaluations made so far, these included.
    """

    x: Array
    batch: Batch
    values: NDArray[np.float64]
    errors2: NDArray[np.float64] | None
    spent: int


class Kept(NamedTuple):
    """What :meth:`Steered.tell` needs besides the question.

    Attributes:
        known: What is known about the objective.
        own: The search's own state.
    """

    known: Known
    own: Any


def question(kind: Kind, dtype: np.dtype[Any], **parts: Any) -> Question:
    """A question; what is not given is empty."""
    none = np.zeros(0, dtype)
    return Question(int(kind), 0.0, 1, 0, none, none)._replace(**parts)


@dataclass(frozen=True, kw_only=True)
class Steered(Search):
    """The pilot, or one of its searches.

    Args:
        budget: Evaluations that it can count on; how it divides them depends on it.
        num_directions: Directions (or mirrored pairs) per step; by default found from d.
        most_directions: It never takes more than these.
        x_scale: How far apart interesting values of a parameter are: a number, or one for each. By
            default a quarter of the distance between the bounds, or else the size of x0.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: ``"raise"`` on a value that is not finite, or ``"drop"`` it: it then counts as
            worse than any other.
        min_fraction: In descent, the smallest share of directions that makes an estimate.
        threads: As in :class:`~gensmooth.RandomSearch`.
    """

    reach = "x_scale"
    if_worse = "give the objective's noise a generator (`samples=`) or a larger `budget`."
    survives_failures = True

    budget: int
    num_directions: int | None = None
    most_directions: int | None = None
    x_scale: Any = None
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

    # --- what a search says -----------------------------------------------------------------------

    @abstractmethod
    def begin(self, x: Array, known: Known) -> Advance:
        """The first question, at x."""

    @abstractmethod
    def advance(self, known: Known, own: Any, asked: Question, answers: Answers) -> Advance:
        """What the answers to a question lead to; ``known`` has seen their best value."""

    # --- a step -----------------------------------------------------------------------------------

    @final
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """The state before the first step; ``x0`` is an array, or a structure of arrays."""
        x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(x, bounds.lower, bounds.upper, out=x)
        step = self.begin(x, self._first(x))
        kept = Kept(step.known, step.own)
        return SearchState(x, 0, 0, streams.check_seed(seed), kept, step.question, tree)

    @final
    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step: a pure function of the state."""
        asked, x = question_of(state), state.x
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

    @final
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
            batch: What :meth:`ask` returned.
            values: The objective's values, in the order of ``batch.points()``.
            errors: Their standard errors, where they are known. Nothing is then measured twice, and
                a value counts the less, the larger its error.
        """
        if batch.step != state.step or batch.seed != state.seed or not batch.is_at(state.x):
            raise ValueError("Each batch is told once, to the state it was asked from.")
        raw = np.asarray(checks.reals("values", values), np.float64).reshape(-1)
        if len(raw) != len(batch):
            raise ValueError(f"The step needs {len(batch)} values, but `tell` got {len(raw)}.")
        batch, asked = batch.flat(), question_of(state)
        known, own = kept_of(state)
        errors2 = None
        if errors is not None:
            errors2 = np.square(standard_errors(errors, len(raw)))
            errors2 = errors2.reshape(-1, self.num_samples).mean(axis=1) / self.num_samples
            known = known._replace(knows_noise=True)
        low = -raw if self.maximize else raw  # from here on smaller is better
        means = low.reshape(-1, self.num_samples).mean(axis=1) if self.num_samples > 1 else low
        finite = np.isfinite(low)
        if not finite.all() and self.on_failure == "raise":
            bad = int(finite.argmin())
            raise ValueError(
                f"{batch.describe(bad)} has the value {raw[bad]}. Fix the objective, or pass "
                "on_failure='drop' to leave such directions out."
            )
        known = _with_best(known, batch, low, finite)
        spent = state.evaluations + len(raw)
        answers = Answers(state.x, batch, means, errors2, spent)
        return self._after(state, raw, spent, self.advance(known, own, asked, answers))

    def _after(
        self, state: SearchState, raw: NDArray[np.float64], spent: int, step: Advance
    ) -> tuple[SearchState, StepInfo]:
        x, why, length = step.x.reshape(state.x.shape), None, 0.0
        if step.x is not state.x:
            change = np.subtract(x, state.x).reshape(-1)
            length2, size2 = kernels.on_sums().advance(state.x.reshape(-1), change, change)
            length = math.sqrt(size2)
            if not length2 < _FARTHEST:
                x, why = state.x, f"step {state.step} would overflow; x is left unchanged"
        best, _ = kernels.on_sums().survey(raw, self.maximize)
        info = StepInfo(
            state.step,
            spent,
            self.value_at(state, raw),
            float(raw[best]),
            best,
            step.gradient,
            None,
            None,
            1.0,
            step.dropped,
            length,
            why,
        )
        after = SearchState(
            np.asarray(x, state.x.dtype, order="C"),
            state.step + 1,
            spent,
            state.seed,
            Kept(step.known, step.own),
            step.question,
            state.tree,
        )
        return after, info

    # --- the points of a question -----------------------------------------------------------------

    def _draw(self, asked: Question, state: SearchState) -> Draw:
        x, kind = state.x, Kind(asked.kind)
        at = Address(state.seed, state.step, asked.number, x.size, x.dtype)
        if kind in _ALONG_AXES:
            return dense(np.diag(asked.scale).astype(x.dtype))
        if kind is Kind.LINE:
            return dense(asked.line[None].astype(x.dtype))
        coins = kind is not Kind.PAIRS or x.size > METRIC_UP_TO
        draw: Draw = signs(at) if coins else normals(at)
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        if asked.scale.ndim == 2:
            draw = MixedDraw(draw, asked.scale)
        elif asked.scale.size:
            draw = ScaledDraw(draw, asked.scale)
        if kind is Kind.DESCENT and asked.line.size:
            last = asked.line[None] * (asked.scale if asked.scale.size else 1.0)
            draw = JoinedDraw(draw, dense(last.astype(x.dtype)))
        return draw

    def _plan(self, asked: Question) -> Plan:
        return _plan(
            asked.kind,
            asked.number + bool(asked.kind == Kind.DESCENT and asked.line.size),
            asked.repeats,
            self.num_samples,
            self.samples,
        )

    # --- what searches share ----------------------------------------------------------------------

    def _first(self, x: Array) -> Known:
        """What is known before any evaluation."""
        return Known(
            noisy=int(Noise.UNKNOWN),
            noise2=0.0,
            best=math.inf,
            best_x=x.reshape(-1).copy(),
            units=find_units(x, self.x_scale, self.bounds),
            all_equal=True,
            knows_noise=False,
        )

    def finals(self, known: Known) -> int:
        """How many evaluations are kept for the recommended point.

        One where values are exact. Where they are noisy one in 200 of the budget, but five if that
        is no more than one in 20, and at most 30.
        """
        n = self.num_samples
        if not (known.noisy == Noise.NOISY and known.noise2 > 0):
            return n
        points = self.budget // n
        few = min(points // _FEW_FINALS_SHARE, _FEW_FINALS)
        return n * min(max(points // _FINAL_SHARE, few, 1), _MOST_FINALS)

    def noise_measurements(self, own: Any) -> int:  # noqa: ARG002
        """How often the noise was measured."""
        return 0

    def limits(self, x: Array) -> Bounds | None:
        """The bounds, flat."""
        if self.bounds is None:
            return None
        bounds = as_bounds(self.bounds, x)
        return Bounds(bounds.lower.reshape(-1), bounds.upper.reshape(-1))

    def clipped(self, x: Array, like: Array) -> Array:
        """Flat parameters moved inside the bounds; ``like`` has their shape."""
        bounds = self.limits(like)
        return x if bounds is None else np.clip(x, bounds.lower, bounds.upper)

    # --- what runs and workers need ---------------------------------------------------------------

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:  # noqa: ARG002
        """See :class:`~gensmooth.searches.Search`."""
        return question(Kind.START, dtype)

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:  # noqa: ARG002
        """See :class:`~gensmooth.searches.Search`."""
        asked = Question(*sent)
        if asked.kind not in tuple(Kind):
            raise ValueError("the state of the search is not one of the pilot's")
        full = asked.kind == Kind.PAIRS and asked.scale.shape == (dim, dim)
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
        if asked.kind in _ALONG_AXES and (asked.scale.size, asked.number) != (dim, dim):
            raise ValueError("the state of the search does not look along every axis")
        if asked.kind == Kind.LINE and (asked.line.size, asked.number) != (dim, 1):
            raise ValueError("the state of the search has no line to look along")

    def kept_template(self, x: Array) -> Kept:
        """See :class:`~gensmooth.searches.Search`."""
        step = self.begin(x, self._first(x))
        return Kept(step.known, step.own)

    def next_evaluations(self, state: SearchState) -> int:
        """How many evaluations the next step takes."""
        return len(self._plan(question_of(state)))

    def for_workers(self) -> Self:
        """The search as workers need it."""
        return replace(self, threads=1)

    def with_budget(self, budget: int) -> Self:
        """The search for a run whose budget was changed."""
        return replace(self, budget=budget)

    def recommend(self, state: SearchState) -> Array:
        """The best point seen if values are exact, else the search's centre."""
        known, _ = kept_of(state)
        if known.noisy == Noise.EXACT:
            return known.best_x.reshape(state.x.shape).copy()
        return state.x.copy()

    def is_exact(self, state: SearchState) -> bool:
        """Whether values have shown no noise."""
        return self.noise(state) in (None, 0)

    def noise(self, state: SearchState) -> float | None:
        """The standard deviation of a value's noise; ``None`` where it was not measured."""
        known, _ = kept_of(state)
        if self.samples in ("shared", "paired") or known.noisy == Noise.UNKNOWN:
            return None
        return math.sqrt(known.noise2)

    def final_evaluations(self, state: SearchState) -> int:
        """See :meth:`finals`."""
        return self.finals(kept_of(state).known)

    def final_value(
        self,
        state: SearchState,
        values: NDArray[np.float64],
        errors: NDArray[np.float64] | None = None,
    ) -> FinalValue:
        """The mean of the finite values; its error from their scatter and the measured noise.

        Few values say little about their own scatter: they are pooled with the noise measured
        before, which counts as many values as it was measured from, but at most eleven.
        """
        finite = np.isfinite(values)
        if finite.any():
            values, errors = values[finite], None if errors is None else errors[finite]
        mean = mean_value(values, errors)
        if errors is not None or self.num_samples > 1 or not math.isfinite(mean.value):
            return mean
        n, (known, own) = len(values), kept_of(state)
        scatter = float(np.square(values - values.mean()).sum())
        if not self.noise(state):
            return mean._replace(error=math.sqrt(scatter / (n - 1) / n) if scatter > 0 else None)
        if n >= _FEW_FINALS:
            return mean._replace(error=math.sqrt(scatter / (n - 1) / n))
        before = 1 + min(self.noise_measurements(own), 10)
        pooled = (before * known.noise2 + scatter) / (before + n - 1)
        return mean._replace(error=math.sqrt(pooled / n))

    def is_looking(self, state: SearchState) -> bool:
        """Whether the next step only looks around."""
        return question_of(state).kind not in (Kind.PAIRS, Kind.DESCENT)

    def saw_one_value(self, state: SearchState, steps: Sequence[StepInfo]) -> bool:  # noqa: ARG002
        """Whether all values so far were the same."""
        return kept_of(state).known.all_equal and state.evaluations > 2


@final
class JoinedDraw:
    """The directions of one draw, then those of another."""

    __slots__ = ("dim", "dtype", "factor", "first", "num_directions", "second")

    def __init__(self, first: Draw, second: Draw) -> None:
        self.first, self.second = first, second
        self.dim, self.dtype, self.factor = first.dim, first.dtype, first.factor
        self.num_directions = first.num_directions + second.num_directions

    def block(self) -> Array:
        """See :class:`~gensmooth.directions.Draw`."""
        return np.concatenate([self.first.block(), self.second.block()])

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :class:`~gensmooth.directions.Draw`."""
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
        """See :class:`~gensmooth.directions.Draw`."""
        return dense(self.block()).combine(weights)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :class:`~gensmooth.directions.Draw`."""
        return dense(self.block()).estimate(delta, unit)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "JoinedDraw":
        """See :class:`~gensmooth.directions.Draw`."""
        return JoinedDraw(
            self.first.rescaled(length=length, factor=factor, threads=threads),
            self.second.rescaled(length=length, factor=factor, threads=threads),
        )


@lru_cache(maxsize=256)
def _plan(kind: int, number: int, repeats: int, num_samples: int, samples: Samples | None) -> Plan:
    """The evaluations of a question."""
    places: list[tuple[int, int]]
    if kind == Kind.START:
        places = [(0, 0), (0, 0)]
    elif kind in (Kind.AXES, Kind.LINE):
        places = [(index, 1) for index in range(number)]
    elif kind == Kind.DESCENT:
        places = FORWARD.points(number, samples)
    else:
        places = [(index, side) for index in range(number) for side in (1, -1)]
        places += places[:repeats]
    return lay_out(places, num_samples, samples)


def _with_best(
    known: Known, batch: Batch, low: NDArray[np.float64], finite: NDArray[np.bool_]
) -> Known:
    if not finite.any():
        return known
    index = int(np.where(finite, low, np.inf).argmin())
    seen = low[finite]
    same = bool((seen == seen[0]).all()) and known.best in (seen[0], math.inf)
    if not same:
        known = known._replace(all_equal=False)
    if not low[index] < known.best:
        return known
    return known._replace(best=float(low[index]), best_x=batch.point(index).reshape(-1))


def question_of(state: SearchState) -> Question:
    """What a state asks next."""
    assert isinstance(state.sent, Question), "the state is of another search"
    return state.sent


def kept_of(state: SearchState) -> Kept:
    """What a state keeps."""
    assert isinstance(state.kept, Kept), "the state is of another search"
    return state.kept


def square(vector: Array) -> float:
    """‖vector‖², summed in a fixed order."""
    return float(np.square(vector, dtype=np.float64).sum())
