"""The base class of the pilot and of the three searches that it coordinates.

A step works as follows:

1. The state holds a :class:`PointRequest`: which points to evaluate next. Workers receive
   nothing else, and create the points from it (:meth:`AdaptiveSearch.ask`).
2. :meth:`AdaptiveSearch.tell` passes the values, as a :class:`Response`, to
   :meth:`AdaptiveSearch.advance`, which every subclass defines.
3. ``advance`` returns a :class:`Transition`: the new x, the next request, and what the search
   remembers. The state stores all of it, so that a resumed run is bitwise identical.

A subclass defines ``advance`` and the first request (:meth:`AdaptiveSearch.begin`).
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

from gensmooth import checks, kernels
from gensmooth.batch import Batch
from gensmooth.directions.composed import JoinedDraw, MixedDraw, ScaledDraw
from gensmooth.directions.draw import Address, Draw, dense, normals, signs
from gensmooth.estimators import ForwardDifference, Plan, Samples, lay_out
from gensmooth.parameters import Bounds, as_bounds, find_units
from gensmooth.searches.protocol import (
    MAX_SAMPLED_DIRECTIONS,
    FinalValue,
    Search,
    SearchState,
    StepInfo,
    check_sizes,
    mean_value,
    standard_errors,
)

Array = NDArray[Any]

# Found by experiment: with more parameters, these features cost more than they gain.
METRIC_UP_TO = 2000  # parameters; beyond, directions are signs, from which no metric is learned
NEWTON_UP_TO = 1000  # parameters; beyond, a step of QuasiNewton needs too many evaluations
EXACT_UP_TO = 500  # parameters; beyond, MirroredES has no second difference along every axis
# Evaluations reserved for the final value (our choice): its error bar needs a few of them, and the
# search should keep the rest.
_FINAL_FRACTION = 200  # one evaluation in this many, ...
_MAX_FINALS = 30  # ... but at most this many
_FEW_FINALS = 5  # at least this many, enough to estimate a standard error, ...
_FEW_FINALS_SHARE = 20  # ... if that is at most one evaluation in this many
_MAX_NORM2 = 1e150  # a larger ‖x‖² counts as divergence: its square would overflow
FORWARD = ForwardDifference()


class RequestKind(IntEnum):
    """The purpose of a request. Checkpoints store the numbers."""

    START = 0  # x0 twice, to see whether the objective is noisy
    FORWARD_DIFFERENCES = 1  # along the axes: a gradient for QuasiNewton
    LINE_SEARCH = 2  # one point of QuasiNewton's line search
    CURVATURE = 3  # second differences along the axes: QuasiNewton's scales
    FIRST_METRIC = 4  # second differences, wider apart: the first metric of MirroredES
    MIRRORED_PAIRS = 5  # a step of MirroredES
    DESCENT = 6  # a step of GreedyDescent
    CENTRAL_DIFFERENCES = 7  # along the axes: a more accurate gradient for QuasiNewton
    EXPLORATION = 8  # one point in QuasiNewton's unknown directions: the curvature there


_ALONG_AXES = (
    RequestKind.FORWARD_DIFFERENCES,
    RequestKind.CENTRAL_DIFFERENCES,
    RequestKind.CURVATURE,
    RequestKind.FIRST_METRIC,
)
_ON_A_LINE = (RequestKind.LINE_SEARCH, RequestKind.EXPLORATION)


class Noise(IntEnum):
    """Whether values are noisy. Checkpoints store the numbers."""

    UNKNOWN = -1
    EXACT = 0
    NOISY = 1


class PointRequest(NamedTuple):
    """Which points to evaluate next; workers receive only this and x.

    Attributes:
        kind: The purpose of the points.
        spacing: The distance of the points from x, in units of a direction.
        number: The number of directions.
        repeats: How many of the points are evaluated twice, to measure the noise.
        scale: The factor of the directions: one number per parameter, a matrix, or empty for 1.
        line: The direction of a line search, or the extra direction of descent; empty otherwise.
    """

    kind: RequestKind
    spacing: float
    number: int
    repeats: int
    scale: Array
    line: Array


class Knowledge(NamedTuple):
    """What a run has learned about the objective. All phases of the pilot share it.

    Attributes:
        noisy: Whether values are noisy.
        noise2: The variance of a value's noise, as last measured.
        best: The best value so far; smaller is better.
        best_x: The point with the best value.
        units: The unit of each parameter, or one unit for all.
        all_equal: Whether all values so far were equal.
        knows_noise: Whether the objective returns standard errors with its values.
    """

    noisy: Noise
    noise2: float
    best: float
    best_x: Array
    units: Array
    all_equal: bool
    knows_noise: bool


class Transition(NamedTuple):
    """The outcome of a step.

    Attributes:
        known: What is known about the objective.
        memory: What the search remembers: a NamedTuple that each search defines.
        request: The points to evaluate next.
        x: The parameters, flat.
        gradient: The length of the gradient estimate, or 0 if the step has none.
        dropped: Number of directions left out because a value was not finite.
    """

    known: Knowledge
    memory: Any
    request: PointRequest
    x: Array
    gradient: float = 0.0
    dropped: int = 0


class Response(NamedTuple):
    """The values at the points of a request.

    Attributes:
        x: The parameters before the step, in the user's shape.
        batch: The points.
        values: The mean value at each point; smaller is better.
        errors2: The variances of these means, if the objective returns standard errors.
        spent: Number of evaluations so far, including these.
    """

    x: Array
    batch: Batch
    values: NDArray[np.float64]
    errors2: NDArray[np.float64] | None
    spent: int


class Kept(NamedTuple):
    """The part of the state that is stored but not sent to workers.

    Attributes:
        known: What is known about the objective.
        memory: What the search remembers: a NamedTuple that each search defines.
    """

    known: Knowledge
    memory: Any


def make_request(kind: RequestKind, dtype: np.dtype[Any], **parts: Any) -> PointRequest:
    """Create a request: one direction, spacing 0 and empty arrays unless specified."""
    none = np.zeros(0, dtype)
    return PointRequest(kind, 0.0, 1, 0, none, none)._replace(**parts)


@dataclass(frozen=True, kw_only=True)
class AdaptiveSearch(Search):
    """A search that adapts its spacing and step: the pilot, or one of its phases.

    Args:
        budget: The number of evaluations that the search plans for; ``None`` if it is unknown.
        num_directions: Directions (or mirrored pairs) per step; by default, chosen from d.
        most_directions: The largest number of directions per step.
        x_scale: The typical size of a change of each parameter: a number, or one per parameter. By
            default a quarter of the distance between the bounds or, without bounds, the size of x0.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: What to do with a value that is not finite: ``"raise"`` an error, or ``"drop"``
            it, which ranks it below every other value.
        min_fraction: In descent, the smallest fraction of directions that an estimate may use.
        threads: As in :class:`~gensmooth.RandomSearch`.
    """

    reach = "x_scale"
    if_worse = "pass a generator to the objective (`samples=`), or allow more evaluations."
    survives_failures = True

    budget: int | None
    num_directions: int | None = None
    most_directions: int | None = None
    x_scale: Any = None
    min_fraction: float = 0.5
    threads: int = 1

    def __post_init__(self) -> None:
        checks.settle(
            self,
            budget=checks.optional(checks.count, "budget", self.budget, least=0),
            num_directions=checks.optional(checks.count, "num_directions", self.num_directions),
            most_directions=checks.optional(
                checks.count, "most_directions", self.most_directions, least=2
            ),
            min_fraction=checks.share("min_fraction", self.min_fraction, one=True),
            threads=checks.count("threads", self.threads),
        )
        super().__post_init__()
        check_sizes(self.num_directions or 1, self.num_samples)

    # --- the algorithm, defined by each subclass --------------------------------------------------

    @abstractmethod
    def begin(self, x: Array, known: Knowledge) -> Transition:
        """Return the first request, at x."""

    @abstractmethod
    def advance(
        self, known: Knowledge, memory: Any, request: PointRequest, response: Response, /
    ) -> Transition:
        """Make a step: compute the next x and the next request from the values of a request.

        Args:
            known: What is known about the objective; its best value includes this response.
            memory: What the search remembered after the last step.
            request: The request.
            response: Its values.
        """

    # --- a step -----------------------------------------------------------------------------------

    @final
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """Return the state before the first step; ``x0`` is an array or a structure of arrays."""
        state = self.first_state(x0, seed=seed)
        step = self.begin(state.x, self._initial_knowledge(state.x))
        return state._replace(kept=Kept(step.known, step.memory), sent=step.request)

    @final
    def ask(self, state: SearchState) -> Batch:
        """Return the evaluations of the next step, a pure function of the state."""
        request = request_of(state)
        draw, plan = self._draw(request, state), self._plan(request)
        return self.batch_of(state, draw, plan, spacing=request.spacing)

    @final
    @np.errstate(over="ignore", invalid="ignore")
    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike, errors: ArrayLike | None = None
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step, and its metrics; see :meth:`Search.tell`.

        If ``errors`` are passed, no point is evaluated twice, and values with large errors get
        smaller weights.
        """
        raw = self.check_values(state, batch, values)
        batch, request = batch.flat(), request_of(state)
        known, memory = kept_of(state)
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
        response = Response(state.x, batch, means, errors2, spent)
        step = self.advance(known, memory, request, response)
        x, why, length = step.x.reshape(state.x.shape), None, 0.0
        if step.x is not state.x:
            change = np.subtract(x, state.x).reshape(-1)
            length2, size2 = kernels.on_sums().advance(state.x.reshape(-1), change, change)
            length = math.sqrt(size2)
            if not length2 < _MAX_NORM2:
                x, why = state.x, f"step {state.step} would overflow; x is left unchanged"
        best, _ = kernels.on_sums().survey(raw, self.maximize)
        return self._after_step(
            state,
            raw,
            best,
            np.asarray(x, state.x.dtype, order="C"),
            kept=Kept(step.known, step.memory),
            sent=step.request,
            gradient_norm=step.gradient,
            dropped=step.dropped,
            step_size=length,
            diverged=why,
        )

    # --- the points of a request ------------------------------------------------------------------

    def _draw(self, request: PointRequest, state: SearchState) -> Draw:
        x, kind = state.x, request.kind
        at = Address(state.seed, state.step, request.number, x.size, x.dtype)
        if kind in _ALONG_AXES:
            return dense(np.diag(request.scale).astype(x.dtype))
        if kind in _ON_A_LINE:
            return dense(request.line[None].astype(x.dtype))
        use_signs = kind is not RequestKind.MIRRORED_PAIRS or x.size > METRIC_UP_TO
        draw: Draw = signs(at) if use_signs else normals(at)
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        if request.scale.ndim == 2:
            draw = MixedDraw(draw, request.scale)
        elif request.scale.size:
            draw = ScaledDraw(draw, request.scale)
        if kind is RequestKind.DESCENT and request.line.size:
            extra = request.line[None] * (request.scale if request.scale.size else 1.0)
            draw = JoinedDraw(draw, dense(extra.astype(x.dtype)))
        return draw

    def _plan(self, request: PointRequest) -> Plan:
        return _plan(
            request.kind,
            request.number + bool(request.kind == RequestKind.DESCENT and request.line.size),
            request.repeats,
            self.num_samples,
            self.samples,
        )

    # --- for subclasses ---------------------------------------------------------------------------

    def _initial_knowledge(self, x: Array) -> Knowledge:
        """Return what is known before the first evaluation."""
        return Knowledge(
            noisy=Noise.UNKNOWN,
            noise2=0.0,
            best=math.inf,
            best_x=x.reshape(-1).copy(),
            units=find_units(x, self.x_scale, self.bounds),
            all_equal=True,
            knows_noise=False,
        )

    @property
    def planned(self) -> float:
        """The number of evaluations that the search plans for: ∞ if the budget is unknown."""
        return math.inf if self.budget is None else self.budget

    def final_count(self, known: Knowledge, spent: int) -> int:
        """Return how many evaluations are reserved for the recommended point.

        One if values are exact. If they are noisy: 0.5 % of the budget, at least five as long as
        they take no more than 5 % of it, and at most 30. An unknown budget counts as what has been
        spent.
        """
        n = self.num_samples
        if not (known.noisy == Noise.NOISY and known.noise2 > 0):
            return n
        points = (spent if self.budget is None else self.budget) // n
        few = min(points // _FEW_FINALS_SHARE, _FEW_FINALS)
        return n * min(max(points // _FINAL_FRACTION, few, 1), _MAX_FINALS)

    def noise_measurements(self, memory: Any) -> int:  # noqa: ARG002
        """Return how many times the noise has been measured."""
        return 0

    def limits(self, x: Array) -> Bounds | None:
        """Return the bounds as flat arrays."""
        if self.bounds is None:
            return None
        bounds = as_bounds(self.bounds, x)
        return Bounds(bounds.lower.reshape(-1), bounds.upper.reshape(-1))

    def clipped(self, x: Array, like: Array) -> Array:
        """Return flat parameters, projected onto the bounds; ``like`` has the user's shape."""
        bounds = self.limits(like)
        return x if bounds is None else np.clip(x, bounds.lower, bounds.upper)

    # --- for runs and workers ---------------------------------------------------------------------

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:  # noqa: ARG002
        """See :class:`~gensmooth.searches.Search`."""
        return make_request(RequestKind.START, dtype)

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:  # noqa: ARG002
        """See :class:`~gensmooth.searches.Search`."""
        request = PointRequest(*sent)
        full = request.kind == RequestKind.MIRRORED_PAIRS and request.scale.shape == (dim, dim)
        for array in (request.line,) if full else (request.scale, request.line):
            if array.shape not in ((0,), (dim,)):
                raise ValueError("the state of the search does not fit its parameters")
        if not (np.isfinite(request.scale).all() and np.isfinite(request.line).all()):
            raise ValueError("the state of the search does not fit its parameters")
        if full and not (request.scale.diagonal() > 0).all():
            raise ValueError("the state of the search has a metric with a zero diagonal")
        if not (math.isfinite(request.spacing) and 1 <= request.number <= MAX_SAMPLED_DIRECTIONS):
            raise ValueError("the state of the search has an invalid spacing or population")
        if not 0 <= request.repeats <= 2 * request.number:
            raise ValueError("the state of the search repeats more points than it has")
        if request.kind in _ALONG_AXES and (request.scale.size, request.number) != (dim, dim):
            raise ValueError("the state of the search needs one direction per axis")
        if request.kind in _ON_A_LINE and (request.line.size, request.number) != (dim, 1):
            raise ValueError("the state of the search needs one line to search")

    def kept_template(self, x: Array) -> Kept:
        """See :class:`~gensmooth.searches.Search`."""
        step = self.begin(x, self._initial_knowledge(x))
        return Kept(step.known, step.memory)

    def next_evaluations(self, state: SearchState) -> int:
        """Return the number of evaluations of the next step."""
        return len(self._plan(request_of(state)))

    def for_workers(self) -> Self:
        """Return the search for workers, which use one thread each."""
        return replace(self, threads=1)

    def with_budget(self, budget: int | None) -> Self:
        """Return the search for a different budget; ``None`` if it is unknown."""
        return replace(self, budget=budget)

    def recommend(self, state: SearchState) -> Array:
        """Return the best point so far if values are exact, otherwise the centre of the search."""
        known, _ = kept_of(state)
        if known.noisy == Noise.EXACT:
            return known.best_x.reshape(state.x.shape).copy()
        return state.x.copy()

    def is_exact(self, state: SearchState) -> bool:
        """Return whether no noise has been seen."""
        return self.noise(state) in (None, 0)

    def noise(self, state: SearchState) -> float | None:
        """Return the standard deviation of a value's noise; ``None`` if it was not measured."""
        known, _ = kept_of(state)
        if self.samples in ("shared", "paired") or known.noisy == Noise.UNKNOWN:
            return None
        return math.sqrt(known.noise2)

    def final_evaluations(self, state: SearchState) -> int:
        """Return :meth:`final_count` for what this state knows."""
        return self.final_count(kept_of(state).known, state.evaluations)

    def final_value(
        self,
        state: SearchState,
        values: NDArray[np.float64],
        errors: NDArray[np.float64] | None = None,
    ) -> FinalValue:
        """Return the mean of the finite values, and its standard error.

        From five values on, the error comes from their scatter. With fewer, their scatter is pooled
        with the noise measured during the run, which counts as at most eleven values.
        """
        finite = np.isfinite(values)
        if finite.any():
            values, errors = values[finite], None if errors is None else errors[finite]
        mean = mean_value(values, errors)
        if errors is not None or self.num_samples > 1 or not math.isfinite(mean.value):
            return mean
        n, (known, memory) = len(values), kept_of(state)
        scatter = float(np.square(values - values.mean()).sum())
        if not self.noise(state):
            return mean._replace(error=math.sqrt(scatter / (n - 1) / n) if scatter > 0 else None)
        if n >= _FEW_FINALS:
            return mean._replace(error=math.sqrt(scatter / (n - 1) / n))
        before = 1 + min(self.noise_measurements(memory), 10)
        pooled = (before * known.noise2 + scatter) / (before + n - 1)
        return mean._replace(error=math.sqrt(pooled / n))

    def is_looking(self, state: SearchState) -> bool:
        """Return whether the next step probes without moving x."""
        return request_of(state).kind not in (RequestKind.MIRRORED_PAIRS, RequestKind.DESCENT)

    def saw_one_value(self, state: SearchState, steps: Sequence[StepInfo]) -> bool:  # noqa: ARG002
        """Return whether all values so far were equal."""
        return kept_of(state).known.all_equal and state.evaluations > 2


@lru_cache(maxsize=256)
def _plan(kind: int, number: int, repeats: int, num_samples: int, samples: Samples | None) -> Plan:
    """Return the evaluations of a request."""
    places: list[tuple[int, int]]
    if kind == RequestKind.START:
        places = [(0, 0), (0, 0)]
    elif kind in (RequestKind.FORWARD_DIFFERENCES, *_ON_A_LINE):
        places = [(index, 1) for index in range(number)]
    elif kind == RequestKind.DESCENT:
        places = FORWARD.points(number, samples)
    else:
        places = [(index, side) for index in range(number) for side in (1, -1)]
        places += places[:repeats]
    return lay_out(places, num_samples, samples)


def _with_best(
    known: Knowledge, batch: Batch, low: NDArray[np.float64], finite: NDArray[np.bool_]
) -> Knowledge:
    if not finite.any():
        return known
    index = int(np.where(finite, low, np.inf).argmin())
    values = low[finite]
    all_equal = bool((values == values[0]).all()) and known.best in (values[0], math.inf)
    if not all_equal:
        known = known._replace(all_equal=False)
    if not low[index] < known.best:
        return known
    return known._replace(best=float(low[index]), best_x=batch.point(index).reshape(-1))


def request_of(state: SearchState) -> PointRequest:
    """Return the next request of a state."""
    return checks.state_part(state.sent, PointRequest)


def kept_of(state: SearchState) -> Kept:
    """Return the part of a state that is not sent to workers."""
    return checks.state_part(state.kept, Kept)


def square(vector: Array) -> float:
    """Return ‖vector‖², summed in a fixed order."""
    return float(np.square(vector, dtype=np.float64).sum())
