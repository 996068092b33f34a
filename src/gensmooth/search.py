"""Random search: ``init``, ``ask`` and ``tell``, pure functions of an explicit state.

``directions × estimator × optimizer = search``: the three choices meet here and nowhere else.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import estimators, kernels, optimizers, streams
from gensmooth.directions import Directions, Draw, Shrunk, check_directions
from gensmooth.estimators import SAMPLE_MODES, Estimator, ForwardDifference, Plan, Samples
from gensmooth.streams import Purpose

Array = NDArray[Any]
FailurePolicy = Literal["raise", "drop"]

_SMALL = 65_536  # numbers; a batch below this is made in one piece


class Bounds(NamedTuple):
    """Lower and upper limits, in the shape of the parameters."""

    lower: Array
    upper: Array


class SearchState(NamedTuple):
    """What the next step needs.

    Attributes:
        x: The parameters, in the user's shape and dtype.
        step: Steps made.
        evaluations: Evaluations told.
        seed: The seed of everything random.
        optimizer: The optimiser's state.
        directions: The directions' state.
    """

    x: Array
    step: int
    evaluations: int
    seed: int
    optimizer: Any
    directions: tuple[Any, ...]


class StepInfo(NamedTuple):
    """What a reader wants to know of a step.

    Attributes:
        step: The step's number, from 0.
        evaluations: Evaluations so far, this step included.
        value: The objective at x as this step saw it, the user's sign: the centre's mean value
            (forward difference) or the mean of all values (antithetic, one-point).
        best_value: The best single value of this step.
        best_index: Which evaluation had it.
        gradient_norm: ‖estimate‖.
        standard_error: The root of the estimated trace of the estimate's covariance; ``None``
            with one direction.
        signal_to_noise: ``gradient_norm / standard_error``.
        shrinkage: The factor v in use, 1 without shrinkage.
        dropped: Directions left out because a value was not finite.
        step_size: ‖change of x‖.
        diverged: ``None``, or why x can go no further; x is then left where it was.
    """

    step: int
    evaluations: int
    value: float
    best_value: float
    best_index: int
    gradient_norm: float
    standard_error: float | None
    signal_to_noise: float | None
    shrinkage: float
    dropped: int
    step_size: float
    diverged: str | None


class GradientEstimate(NamedTuple):
    """An estimate of the gradient.

    Attributes:
        gradient: The estimate, in the shape of x.
        value: The objective at x as the evaluations saw it.
        standard_error: The root of the estimated trace of the covariance of the mean over
            directions; ``None`` with one direction. For dependent (orthogonal) directions it
            errs on the large side.
        evaluations: How many were made.
        dropped: Directions left out because a value was not finite.
    """

    gradient: Array
    value: float
    standard_error: float | None
    evaluations: int
    dropped: int


@final
class Batch:
    """The evaluations of one step; make the points as you go, in any order, anywhere.

    ``len(batch)`` values are expected by :meth:`RandomSearch.tell`, in the order of
    :meth:`points`.
    """

    __slots__ = ("_bounds", "_draw", "_plan", "_spacing", "_x", "samples", "seed", "step")

    def __init__(
        self,
        *,
        x: Array,
        step: int,
        seed: int,
        draw: Draw,
        plan: Plan,
        spacing: float,
        samples: Samples | None,
        bounds: Bounds | None,
    ) -> None:
        self._x = x
        self._draw = draw
        self._plan = plan
        self._spacing = spacing
        self._bounds = bounds
        self.step = step
        self.seed = seed
        self.samples: Samples | None = samples

    def __len__(self) -> int:
        return len(self._plan)

    @property
    def draw(self) -> Draw:
        """The step's directions."""
        return self._draw

    @property
    def dim(self) -> int:
        """The number of parameters, d."""
        return self._draw.dim

    @property
    def plan(self) -> Plan:
        """Which points the evaluations are at."""
        return self._plan

    def point(self, index: int) -> Array:
        """The point of one evaluation, a new array in the shape of x."""
        return self._rows(index, index + 1)[0]

    def points(self) -> Iterator[Array]:
        """The point of each evaluation, in order. With N samples a point comes N times."""
        if len(self) * self._x.size <= _SMALL:
            yield from self._rows(0, len(self))
            return
        for index in range(len(self)):
            yield self.point(index)

    def block(self, start: int, stop: int) -> Array:
        """The points of evaluations ``start … stop``, stacked along a first axis."""
        return self._rows(start, stop)

    def head(self, count: int) -> "Batch":
        """The first evaluations of this batch, as a batch."""
        direction, side, sample = self._plan
        return self.planned(Plan(direction[:count], side[:count], sample[:count]))

    def planned(self, plan: Plan) -> "Batch":
        """Other evaluations around the same x, along the same directions."""
        return Batch(
            x=self._x,
            step=self.step,
            seed=self.seed,
            draw=self._draw,
            plan=plan,
            spacing=self._spacing,
            samples=self.samples,
            bounds=self._bounds,
        )

    def rng(self, index: int) -> np.random.Generator:
        """The generator of one evaluation's noise: its sample ξ."""
        if self.samples is None:
            raise ValueError("There are no samples: the search was made without `samples=`.")
        sample = int(self._plan.sample[index])
        return streams.generator(self.seed, Purpose.SAMPLE, step=self.step, index=sample)

    def rngs(self) -> Iterator[np.random.Generator]:
        """The generator of each evaluation, in order."""
        for index in range(len(self)):
            yield self.rng(index)

    def describe(self, index: int) -> str:
        """Words for an evaluation, for error messages."""
        side = {1: "+", -1: "−", 0: "the centre of "}[int(self._plan.side[index])]
        return (
            f"evaluation {index} of {len(self)} in step {self.step} "
            f"({side}direction {self._plan.direction[index]})"
        )

    def _rows(self, start: int, stop: int) -> Array:
        flat = self._x.reshape(-1)
        out = np.empty((stop - start, flat.size), flat.dtype)
        spacings = self._spacing * self._plan.side[start:stop]
        self._draw.perturb(flat, self._plan.direction[start:stop], spacings, out)
        points = out.reshape(len(out), *self._x.shape)
        if self._bounds is not None:
            np.clip(points, self._bounds.lower, self._bounds.upper, out=points)
        return points


@final
@dataclass(frozen=True)
class RandomSearch:
    """Random search with any directions, estimator and optimiser.

    Args:
        directions: How the directions are chosen.
        num_directions: L.
        spacing: c, how far from x the objective is evaluated, in units of a direction.
        estimator: Where it is evaluated and how values become an estimate.
        optimizer: What the estimate does to x.
        samples: How the objective's own noise ξ is drawn (``"shared"``, ``"paired"``,
            ``"independent"``), or ``None`` when the objective takes no generator.
        num_samples: N, samples averaged at each point.
        maximize: Ascend instead; reported values keep the user's sign.
        bounds: Limits, as ``(lower, upper)`` for all parameters, :class:`Bounds`, or SciPy's
            forms (one pair a parameter, or ``scipy.optimize.Bounds``). Iterates and evaluation
            points are both projected, so near a limit the estimate sees a clipped direction.
        on_failure: ``"raise"`` on a value that is not finite, or ``"drop"`` its direction. The
            estimate keeps its mean if failures do not depend on the direction.
        min_fraction: Under ``"drop"``, the smallest share of directions that makes an estimate.
        threads: Threads of the kernels on large problems; the result does not depend on it.
    """

    directions: Directions
    num_directions: int
    spacing: float
    estimator: Estimator = field(default_factory=ForwardDifference)
    optimizer: optimizers.Optimizer = field(default_factory=lambda: optimizers.sgd(0.01))
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    def __post_init__(self) -> None:
        check_directions(self.directions)
        _check_count("num_directions", self.num_directions)
        _check_count("num_samples", self.num_samples)
        _check_count("threads", self.threads)
        if not (self.spacing > 0 and math.isfinite(self.spacing)):
            raise ValueError(f"`spacing` must be positive, but is {self.spacing}.")
        if self.samples is None and self.num_samples != 1:
            raise ValueError(
                f"`num_samples` is {self.num_samples}, but there are no samples to average: "
                "give `samples=` 'shared', 'paired' or 'independent', and an objective fun(x, rng)."
            )
        if self.samples is not None and self.samples not in SAMPLE_MODES:
            raise ValueError(f"`samples` must be one of {SAMPLE_MODES}, not {self.samples!r}.")
        if self.on_failure not in ("raise", "drop"):
            raise ValueError(f"`on_failure` must be 'raise' or 'drop', not {self.on_failure!r}.")
        if not 0 < self.min_fraction <= 1:
            raise ValueError(f"`min_fraction` must be in (0, 1], but is {self.min_fraction}.")

    @property
    def plan(self) -> Plan:
        """The evaluations of a step."""
        return estimators.plan(self.estimator, self.num_directions, self.num_samples, self.samples)

    def init(self, x0: ArrayLike, *, seed: int | None = None) -> SearchState:
        """The state before the first step."""
        x = as_parameters(x0)
        bounds = self._bounds_of(x)
        if bounds is not None:
            x = np.clip(x, bounds.lower, bounds.upper)
        directions = self.directions.resolve(x.size, self.num_directions)
        return SearchState(
            x=x,
            step=0,
            evaluations=0,
            seed=streams.check_seed(seed),
            optimizer=self.optimizer.init(x),
            directions=directions.init(x.size, x.dtype),
        )

    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step: a pure function of the state."""
        x = state.x
        draw = self.directions.draw(
            state.directions,
            seed=state.seed,
            step=state.step,
            num_directions=self.num_directions,
            dim=x.size,
            dtype=x.dtype,
        )
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        return Batch(
            x=x,
            step=state.step,
            seed=state.seed,
            draw=draw,
            plan=self.plan,
            spacing=self.spacing,
            samples=self.samples,
            bounds=self._bounds_of(x),
        )

    def estimate(self, batch: Batch, values: ArrayLike) -> GradientEstimate:
        """The gradient estimate from the values of a batch, without a step."""
        v = self._values(batch, values)
        means = v if self.num_samples == 1 else v.reshape(-1, self.num_samples).mean(axis=1)
        delta, value = self.estimator.differences(means, self.num_directions)
        used = len(delta)
        kept = np.isfinite(delta)
        if not kept.all():
            used = int(np.count_nonzero(kept))
            self._check_failures(batch, v, used)
            delta = np.where(kept, delta, 0.0)
        draw = batch.draw
        per_direction = delta * (draw.factor / self.spacing)  # g_l = per_direction[l] · ε_l
        gradient, lengths2 = draw.combine(per_direction / used)
        error = None
        if used > 1:
            # tr Cov(mean) = (Σ‖g_l‖² − L‖ḡ‖²) / (L (L−1))
            mean2 = _norm2(gradient)
            spread = float((per_direction**2 * lengths2).sum()) - used * mean2
            error = math.sqrt(max(spread, 0.0) / (used * (used - 1)))
        return GradientEstimate(gradient, value, error, len(v), len(delta) - used)

    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step, from the values of its batch.

        Args:
            state: The state that the batch was asked from.
            batch: What :meth:`ask` gave.
            values: The objective's values, in the order of ``batch.points()``.
        """
        if batch.step != state.step or batch.seed != state.seed:
            raise ValueError(
                f"The batch is of step {batch.step}, but the state is at step {state.step}"
                f"{'' if batch.seed == state.seed else ' of a run with another seed'}: each batch "
                "is told once, to the state it was asked from."
            )
        found = self.estimate(batch, values)
        raw = np.asarray(values, np.float64).reshape(-1)
        best = int(raw.argmax() if self.maximize else raw.argmin())
        if found.dropped:
            order = np.where(np.isfinite(raw), -raw if self.maximize else raw, np.inf)
            best = int(order.argmin())
        norm = math.sqrt(_norm2(found.gradient))
        x, optimizer, size, diverged = self._step(state, found.gradient)
        directions = state.directions
        if diverged is None:
            directions = self.directions.update(directions, found.gradient)
        error = found.standard_error
        info = StepInfo(
            step=state.step,
            evaluations=state.evaluations + len(raw),
            value=found.value,
            best_value=float(raw[best]),
            best_index=best,
            gradient_norm=norm,
            standard_error=error,
            signal_to_noise=norm / error if error else None,
            shrinkage=self.shrinkage(x.size),
            dropped=found.dropped,
            step_size=size,
            diverged=diverged,
        )
        after = SearchState(x, state.step + 1, info.evaluations, state.seed, optimizer, directions)
        return after, info

    def shrinkage(self, dim: int) -> float:
        """The shrinkage factor in use at dimension ``dim``."""
        if not isinstance(self.directions, Shrunk):
            return 1.0
        return self.directions.resolve(dim, self.num_directions).factor or 1.0

    def _step(self, state: SearchState, gradient: Array) -> tuple[Array, Any, float, str | None]:
        """The next parameters and optimiser state, the length of the step, why it diverged."""
        x = state.x
        downhill = (-gradient if self.maximize else gradient).reshape(x.shape)
        change, optimizer = self.optimizer.update(downhill, state.optimizer, x)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = x + np.asarray(change, x.dtype)
            bounds = self._bounds_of(x)
            if bounds is not None:
                np.clip(moved, bounds.lower, bounds.upper, out=moved)
            length2, size2 = kernels.on_directions().step_lengths(x.reshape(-1), moved.reshape(-1))
        if not math.isfinite(length2 + size2):
            why = f"step {state.step} would have made the parameters non-finite or overflow"
            return x, state.optimizer, float("inf"), why
        # x + cε == x once c is below half the spacing of floating-point numbers at |x|.
        root_mean_square = math.sqrt(length2 / x.size)
        if self.spacing < 0.5 * float(np.finfo(x.dtype).eps) * root_mean_square:
            why = (
                f"after step {state.step} the parameters are of size {root_mean_square:.3g}, "
                f"where a spacing of {self.spacing:g} changes nothing"
            )
            return x, state.optimizer, math.sqrt(size2), why
        return moved, optimizer, math.sqrt(size2), None

    def _values(self, batch: Batch, values: ArrayLike) -> NDArray[np.float64]:
        v = np.asarray(values, np.float64).reshape(-1)
        if len(v) != len(batch):
            mode = f' and samples="{self.samples}"' if self.samples else ""
            centre = 0 in batch_sides(batch) and len(v) < len(batch)
            raise ValueError(
                f"{self.num_directions} directions with the {type(self.estimator).__name__} "
                f"estimator{mode} need {len(batch)} values, but `tell` got {len(v)}"
                f"{': did you drop the values at the centre?' if centre else '.'}"
            )
        return v

    def _check_failures(self, batch: Batch, values: NDArray[np.float64], used: int) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if self.on_failure == "raise":
            raise ValueError(
                f"{batch.describe(int(bad[0]))} has the value {values[bad[0]]}"
                f"{f', and {len(bad) - 1} more are not finite' if len(bad) > 1 else ''}. "
                "Mend the objective, or pass on_failure='drop' to leave such directions out."
            )
        if used < max(1, math.ceil(self.min_fraction * self.num_directions)):
            raise ValueError(
                f"Only {used} of {self.num_directions} directions of step {batch.step} have finite "
                f"values (first bad one: {batch.describe(int(bad[0]))}), fewer than "
                f"min_fraction={self.min_fraction} asks for."
            )

    def _bounds_of(self, x: Array) -> Bounds | None:
        if self.bounds is None:
            return None
        return as_bounds(self.bounds, x)


def batch_sides(batch: Batch) -> set[int]:
    """Which sides a batch evaluates: of +1, −1 and 0 (the centre)."""
    return set(batch.plan.side.tolist())


def as_parameters(x0: ArrayLike) -> Array:
    """A fresh float32 or float64 array from ``x0``, checked."""
    x = np.array(x0)
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    if x.dtype.name not in ("float32", "float64"):
        raise TypeError(f"`x0` must be numbers in float32 or float64, but its dtype is {x.dtype}.")
    if x.size == 0:
        raise ValueError("`x0` must have at least one entry, but is empty.")
    if not np.isfinite(x).all():
        where = np.argwhere(~np.isfinite(x))[0].tolist()
        raise ValueError(f"`x0` must be finite, but x0[{', '.join(map(str, where))}] is not.")
    return x


def as_bounds(bounds: Any, x: Array) -> Bounds:
    """Limits in the shape of x, from any of the forms that :class:`RandomSearch` takes."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = bounds.lb, bounds.ub
    elif isinstance(bounds, Bounds) or np.shape(bounds) == (2,):
        low, high = bounds
    else:
        pairs = [tuple(pair) for pair in bounds]
        if len(pairs) != x.size or any(len(pair) != 2 for pair in pairs):
            raise ValueError(
                "`bounds` must be (lower, upper) for all parameters, gs.Bounds(lower, upper), or "
                f"one (lower, upper) for each of the {x.size} parameters, but are {len(pairs)} "
                "entries."
            )
        low = np.reshape([-np.inf if pair[0] is None else pair[0] for pair in pairs], x.shape)
        high = np.reshape([np.inf if pair[1] is None else pair[1] for pair in pairs], x.shape)
    low = np.asarray(-np.inf if low is None else low, x.dtype)
    high = np.asarray(np.inf if high is None else high, x.dtype)
    try:
        low, high = np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)
    except ValueError:
        raise ValueError(
            f"`bounds` must fit the shape {x.shape} of x0, but have shapes {low.shape} and "
            f"{high.shape}."
        ) from None
    if not (low < high).all():
        raise ValueError("`bounds` must have every lower limit below its upper limit.")
    return Bounds(low, high)


def _norm2(v: Array) -> float:
    return float(kernels.on_directions().dot(v, v))


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, but is {value!r}.")
