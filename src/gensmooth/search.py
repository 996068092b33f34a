"""Random search: ``init``, ``ask`` and ``tell``, pure functions of an explicit state.

``directions × estimator × optimizer = search``: the three choices meet here and nowhere else.
"""

import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import estimators, kernels, optimizers, streams
from gensmooth.batch import Batch
from gensmooth.directions import Directions, Shrunk, check_directions
from gensmooth.estimators import SAMPLE_MODES, Estimator, ForwardDifference, Plan, Samples
from gensmooth.methods import choose_directions
from gensmooth.parameters import as_bounds, as_parameters

Array = NDArray[Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")
FailurePolicy = Literal["raise", "drop"]

_CALM = 1e15  # values and estimates below this cannot overflow, whatever is done with them
_EPS = {4: float(np.finfo(np.float32).eps), 8: float(np.finfo(np.float64).eps)}


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
@dataclass(frozen=True)
class RandomSearch:
    """Random search with any directions, estimator and optimiser.

    Args:
        directions: How the directions are chosen (or give ``method=``, the name of a method).
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
        method: The name of a method, instead of ``directions=``.

    >>> RandomSearch(method="bes", num_directions=20, spacing=0.1).directions
    Bernoulli(p=0.5, m=None)
    """

    directions: Directions = cast(Directions, None)  # noqa: RUF009 (given, or made from method)
    num_directions: int = cast(int, None)
    spacing: float = cast(float, None)
    estimator: Estimator = field(default_factory=ForwardDifference)
    optimizer: optimizers.Optimizer = field(default_factory=lambda: optimizers.sgd(0.01))
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1
    method: InitVar[str | None] = None

    def __post_init__(self, method: str | None) -> None:
        given: object = self.directions
        if method is not None:
            object.__setattr__(self, "directions", choose_directions(method, given))
        check_directions(self.directions)
        _check_count("num_directions", self.num_directions)
        _check_count("num_samples", self.num_samples)
        _check_count("threads", self.threads)
        _check_number("spacing", self.spacing)
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
        estimators.check_estimator(self.estimator)
        if not (hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")):
            raise TypeError(
                "`optimizer` must be an (init, update) pair such as gs.sgd(0.01) or an Optax "
                f"transformation, not {self.optimizer!r}."
            )
        if not 0 < self.min_fraction <= 1:
            raise ValueError(f"`min_fraction` must be in (0, 1], but is {self.min_fraction}.")

    @cached_property
    def plan(self) -> Plan:
        """The evaluations of a step."""
        return estimators.plan(self.estimator, self.num_directions, self.num_samples, self.samples)

    @cached_property
    def _spacings(self) -> NDArray[np.float64]:
        """How far along its direction each evaluation is."""
        return np.multiply(self.spacing, self.plan.side, dtype=np.float64)

    def init(self, x0: ArrayLike, *, seed: int | None = None) -> SearchState:
        """The state before the first step."""
        x = as_parameters(x0)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(x, bounds.lower, bounds.upper, out=x)
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
        bounds = None if self.bounds is None else as_bounds(self.bounds, x)
        return Batch(
            x,
            state.step,
            state.seed,
            draw,
            self.plan,
            self.spacing,
            self._spacings,
            self.samples,
            bounds,
        )

    def estimate(self, batch: Batch, values: ArrayLike) -> GradientEstimate:
        """The gradient estimate from the values of a batch, without a step."""
        v = self._values(batch, values)
        gradient, value, error, dropped, _ = _quiet(self._estimate)(batch, v)
        return GradientEstimate(batch.shaped(gradient), value, error, len(v), dropped)

    def _estimate(
        self, batch: Batch, values: NDArray[np.float64]
    ) -> tuple[Array, float, float | None, int, float]:
        """The estimate, the value, the standard error, directions dropped, the length."""
        means = values
        if self.num_samples != 1:
            means = values.reshape(-1, self.num_samples).mean(axis=1)
        delta, value = self.estimator.differences(means, self.num_directions, self.samples)
        used = len(delta)
        draw = batch.draw
        unit = draw.factor / self.spacing
        # estimate = mean of g_l = unit · δ_l · ε_l; own2 = Σ ‖g_l / L‖²
        gradient, norm2, own2 = draw.estimate(delta, unit / used)
        if not math.isfinite(own2) and not (kept := np.isfinite(delta)).all():
            used = int(np.count_nonzero(kept))
            self._check_failures(batch, values, used)
            gradient, norm2, own2 = draw.estimate(np.where(kept, delta, 0.0), unit / used)
        # tr Cov(mean) = (Σ‖g_l‖² − L‖ḡ‖²) / (L (L−1))
        error = math.sqrt(max(used * own2 - norm2, 0.0) / (used - 1)) if used > 1 else None
        return gradient, value, error, len(delta) - used, math.sqrt(norm2)

    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step, from the values of its batch.

        Args:
            state: The state that the batch was asked from.
            batch: What :meth:`ask` gave.
            values: The objective's values, in the order of ``batch.points()``.
        """
        if batch.step != state.step or batch.seed != state.seed or not batch.is_at(state.x):
            raise ValueError(
                f"The batch is of step {batch.step}, but the state is at step {state.step}"
                f"{'' if batch.seed == state.seed else ' of a run with another seed'}"
                f"{'' if batch.is_at(state.x) or batch.step != state.step else ' at another x'}: "
                "each batch is told once, to the state it was asked from."
            )
        raw = self._values(batch, values)
        best, extent = kernels.on_sums().survey(raw, self.maximize)
        estimate = self._estimate if extent < _CALM else _quiet(self._estimate)
        gradient, value, error, dropped, norm = estimate(batch, raw)
        downhill = -gradient if self.maximize else gradient
        step = self._step if norm < _CALM else _quiet(self._step)
        x, optimizer, size, diverged = step(state, downhill, norm)
        directions = state.directions
        if diverged is None:
            directions = self.directions.update(directions, downhill)
        info = StepInfo(
            state.step,
            state.evaluations + len(raw),
            value,
            float(raw[best]),
            best,
            norm,
            error,
            norm / error if error else None,
            self.shrinkage(x.size),
            dropped,
            size,
            diverged,
        )
        after = SearchState(x, state.step + 1, info.evaluations, state.seed, optimizer, directions)
        return after, info

    def shrinkage(self, dim: int) -> float:
        """The shrinkage factor in use at dimension ``dim``."""
        if not isinstance(self.directions, Shrunk):
            return 1.0
        return self.directions.resolve(dim, self.num_directions).factor or 1.0

    def _step(
        self, state: SearchState, downhill: Array, norm: float
    ) -> tuple[Array, Any, float, str | None]:
        """The next parameters and optimiser state, the length of the step, why it diverged."""
        x = state.x
        if not math.isfinite(norm):
            why = f"the estimate of step {state.step} or its square is not finite"
            return x, state.optimizer, float("inf"), why
        if x.ndim != 1:
            downhill = downhill.reshape(x.shape)
        change, optimizer = self.optimizer.update(downhill, state.optimizer, x)
        change = np.ascontiguousarray(change, x.dtype)
        if change.size != x.size:
            raise ValueError(
                f"`optimizer` must return a change in the shape {x.shape} of x, but returned "
                f"shape {change.shape}."
            )
        moved = np.empty_like(x)
        vectors = (x, change, moved) if x.ndim == 1 else map(np.ravel, (x, change, moved))
        length2, size2 = kernels.on_sums().advance(*vectors)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(moved, bounds.lower, bounds.upper, out=moved)
            length2, size2 = float((moved**2).sum()), float(((moved - x) ** 2).sum())
        if not math.isfinite(length2 + size2):
            why = f"step {state.step} would have made the parameters non-finite or overflow"
            return x, state.optimizer, float("inf"), why
        # x + cε == x once c is below half the spacing of floating-point numbers at |x|.
        root_mean_square = math.sqrt(length2 / x.size)
        if self.spacing < 0.5 * _EPS[x.dtype.itemsize] * root_mean_square:
            why = (
                f"after step {state.step} the parameters are of size {root_mean_square:.3g}, "
                f"where a spacing of {self.spacing:g} changes nothing"
            )
            return x, state.optimizer, math.sqrt(size2), why
        return moved, optimizer, math.sqrt(size2), None

    def _values(self, batch: Batch, values: ArrayLike) -> NDArray[np.float64]:
        v = np.asarray(values, np.float64)
        if v.ndim != 1:
            v = v.reshape(-1)
        if len(v) != len(batch):
            mode = f' and samples="{self.samples}"' if self.samples else ""
            centre = batch.has_center() and len(v) < len(batch)
            raise ValueError(
                f"{self.num_directions} directions with the {type(self.estimator).__name__} "
                f"estimator{mode} need {len(batch)} values, but `tell` got {len(v)}"
                f"{': did you drop the values at the centre?' if centre else '.'}"
            )
        return v

    def _check_failures(self, batch: Batch, values: NDArray[np.float64], used: int) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):  # finite values whose differences overflow
            bad = np.array([np.abs(values).argmax()])
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


def _quiet(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function without NumPy's warnings: what overflows is looked at, not told."""
    return np.errstate(over="ignore", invalid="ignore")(function)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise ValueError(f"`{name}` must be a number, but is {value!r}.")


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, but is {value!r}.")
