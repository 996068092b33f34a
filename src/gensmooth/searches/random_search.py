"""Random search: ``init``, ``ask`` and ``tell``, pure functions of an explicit state.

``directions × estimator × optimizer = search``: this file is the only one that combines the three.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, estimators, kernels, optimizers
from gensmooth.batch import Batch
from gensmooth.directions import (
    Address,
    Directions,
    Draw,
    NoClosedForm,
    check_directions,
    choose_directions,
)
from gensmooth.directions.methods import refuse_name
from gensmooth.estimators import Differences, Estimator, Plan, Samples
from gensmooth.parameters import as_bounds
from gensmooth.searches.protocol import (
    FailurePolicy,
    GradientEstimate,
    Search,
    SearchState,
    StepInfo,
    check_sizes,
    standard_errors,
)
from gensmooth.trees import Tree

Array = NDArray[Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")

_SGD = optimizers.sgd(0.01)
_NO_OVERFLOW = 1e15  # no step of the computation overflows if values and estimates are below this
_EPS = {4: float(np.finfo(np.float32).eps), 8: float(np.finfo(np.float64).eps)}


def _not_in_a_worker(*_: Any) -> Any:
    raise RuntimeError("Workers only evaluate; the optimiser's step is made by the main process.")


_NO_OPTIMIZER = optimizers.Optimizer(_not_in_a_worker, _not_in_a_worker)


@final
@dataclass(frozen=True, init=False)
class RandomSearch(Search):
    """Random search with any directions, estimator and optimiser.

    Args:
        directions: The family of directions; or pass ``method=``.
        num_directions: L, the number of directions per step.
        spacing: c, the distance of the evaluation points from x, in units of a direction: a number,
            or a schedule such as ``gs.inverse_decay(0.1, power=0.101)``.
        estimator: Where to evaluate, and how to turn the values into an estimate of the gradient:
            ``"forward"``, ``"antithetic"``, … or an object.
        optimizer: How the estimate changes x, an ``(init, update)`` pair; by default
            ``gs.sgd(0.01)``.
        learning_rate: Shorthand for ``optimizer=gs.sgd(learning_rate)``.
        samples: How the objective's noise ξ is drawn (``"shared"``, ``"paired"``,
            ``"independent"``); ``None`` if the objective takes no generator.
        num_samples: N, the number of samples averaged at each point.
        maximize: Whether to maximise; reported values keep the user's sign.
        bounds: Limits: ``(lower, upper)`` for all parameters, :class:`Bounds`, or SciPy's forms
            (one pair per parameter, or ``scipy.optimize.Bounds``). Iterates and evaluation points
            are both projected, so that directions are clipped near a limit.
        on_failure: What to do with a value that is not finite: ``"raise"`` an error, or ``"drop"``
            its direction. Dropping does not change the mean of the estimate, provided that failures
            do not depend on the direction.
        min_fraction: With ``"drop"``, the smallest fraction of directions that an estimate may use.
        threads: The number of threads for large problems; it does not change the result.
        method: The name of a method, instead of ``directions=``.

    >>> RandomSearch(method="bes", num_directions=20, spacing=0.1).directions
    Bernoulli(p=0.5, m=None)
    """

    directions: Directions
    num_directions: int
    spacing: float | optimizers.Schedule
    estimator: Estimator
    optimizer: optimizers.Optimizer
    min_fraction: float
    threads: int

    @checks.explains_unknown
    def __init__(
        self,
        directions: Directions | None = None,
        *,
        num_directions: int,
        spacing: float | optimizers.Schedule,
        estimator: Estimator | str = "forward",
        optimizer: optimizers.Optimizer | None = None,
        learning_rate: float | None = None,
        samples: Samples | None = None,
        num_samples: int = 1,
        maximize: bool = False,
        bounds: Any = None,
        on_failure: FailurePolicy = "raise",
        min_fraction: float = 0.5,
        threads: int = 1,
        method: str | None = None,
    ) -> None:
        if method is not None:
            directions = choose_directions(method, directions)
        refuse_name(directions)
        arguments: dict[str, Any] = {
            "directions": check_directions(directions),
            "estimator": estimators.as_estimator(estimator),
            "num_directions": checks.count("num_directions", num_directions),
            "spacing": _checked_spacing(spacing),
            "optimizer": optimizers.choose_optimizer(optimizer, learning_rate) or _SGD,
            "samples": samples,
            "num_samples": num_samples,
            "maximize": maximize,
            "bounds": bounds,
            "on_failure": on_failure,
            "min_fraction": checks.share("min_fraction", min_fraction, one=True),
            "threads": checks.count("threads", threads),
        }
        for name, value in arguments.items():
            object.__setattr__(self, name, value)
        super().__post_init__()
        check_sizes(self.num_directions, self.num_samples)

    def changed(self, **parts: Any) -> "RandomSearch":
        """Return the search with some parts replaced by valid ones, without checking them."""
        search = object.__new__(RandomSearch)
        for field in fields(self):
            object.__setattr__(search, field.name, parts.get(field.name, getattr(self, field.name)))
        return search

    # --- a step -----------------------------------------------------------------------------------

    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """Return the state before the first step.

        Args:
            x0: The start: an array, or a structure of arrays (dicts, lists, tuples, dataclasses).
                The points of each batch have the same structure.
            seed: The seed; the same seed gives the same run.
        """
        state = self.first_state(x0, seed=seed)
        x, family = state.x, self._family(state.x, state.tree)
        return state._replace(kept=self.optimizer.init(x), sent=family.init(x.size, x.dtype))

    def ask(self, state: SearchState) -> Batch:
        """Return the evaluations of the next step, a pure function of the state."""
        x = state.x
        at = Address(state.seed, state.step, self.num_directions, x.size, x.dtype)
        draw = self._family(x, state.tree).draw(state.sent, at)  # ε_1, …, ε_L
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        spacing = self.spacing_at(state.step)
        spacings = self._spacings if spacing is self.spacing else self._signed_spacings(spacing)
        return self.batch_of(state, draw, self.plan, spacing=spacing, spacings=spacings)

    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike, errors: ArrayLike | None = None
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step, and its metrics; see :meth:`Search.tell`.

        If ``errors`` are passed, each direction is weighted by the inverse variance of its
        difference.
        """
        raw = self.check_values(state, batch, values)
        best, extent = kernels.on_sums().survey(raw, self.maximize)

        estimate = self._estimate
        if not extent < _NO_OVERFLOW:
            estimate = _without_warnings(self._estimate)
            self._check_center(batch, raw)
        checked = None if errors is None else standard_errors(errors, len(raw))
        gradient, value, error, dropped, norm = estimate(batch, raw, checked)
        downhill = -gradient if self.maximize else gradient

        move = self._move if norm < _NO_OVERFLOW else _without_warnings(self._move)
        try:
            x, kept, length, diverged = move(state, downhill, norm)
        except (AttributeError, TypeError, ValueError) as error:
            expected: Any = self.optimizer.init(state.x)
            checks.state_part(state.kept, cast(type[Any], type(expected)))
            raise error
        dim, sent = x.size, state.sent
        family = self._family(x, state.tree)
        if diverged is None:
            sent = family.observe(family.update(sent, downhill), value)

        info = StepInfo(
            state.step,
            state.evaluations + len(raw),
            value,
            float(raw[best]),
            best,
            norm,
            error,
            norm / error if error else None,
            family.shrinkage(dim, self.num_directions),
            dropped,
            length,
            diverged,
        )
        after = SearchState(x, state.step + 1, info.evaluations, state.seed, kept, sent, state.tree)
        return after, info

    def estimate(self, batch: Batch, values: ArrayLike) -> GradientEstimate:
        """Return the gradient estimate from the values of a batch, without making a step."""
        v = self._flat_values(batch, values)
        self._check_center(batch, v)
        gradient, value, error, dropped, _ = _without_warnings(self._estimate)(batch, v)
        return GradientEstimate(batch.shaped(gradient), value, error, len(v), dropped)

    def _estimate(
        self, batch: Batch, values: NDArray[np.float64], errors: NDArray[np.float64] | None = None
    ) -> tuple[Array, float, float | None, int, float]:
        """Return ĝ = (1/cL) Σ_l δ_l ε_l, the value, the standard error, dropped directions, ‖ĝ‖."""
        means = values
        if self.num_samples != 1:
            means = values.reshape(-1, self.num_samples).mean(axis=1)
        delta, value = self._differences(means)
        if errors is not None and not self.estimator.by_rank:
            delta = delta * self._precisions(delta, errors)
        used = len(delta)
        draw = batch.draw
        unit = draw.factor / batch.spacing
        # ĝ = mean of g_l = unit · δ_l · ε_l; squares = Σ ‖g_l / L‖²
        gradient, norm2, squares = draw.estimate(delta, unit / used)
        if not math.isfinite(squares) and not (kept := np.isfinite(delta)).all():
            used = int(np.count_nonzero(kept))
            self._check_failures(batch, values, used)
            delta = np.where(kept, delta, 0.0)
            gradient, norm2, squares = draw.estimate(delta, unit / used)
        error = None
        if used > 1 and self.samples != "shared":
            error = math.sqrt(_scatter(norm2, squares, used))
        elif used > 1 and self.num_samples > 1 and not self.estimator.by_rank:
            scatter = _scatter(norm2, squares, used)
            error = math.sqrt(scatter + self._shared_noise(draw, values, means, delta, unit, used))
        return gradient, value, error, len(delta) - used, math.sqrt(norm2)

    def _differences(self, means: NDArray[np.float64]) -> Differences:
        """Return the estimator's δ and value; ranks assume that smaller values are better."""
        if self.maximize and self.estimator.by_rank:
            delta, value = self.estimator.differences(-means, self.num_directions, self.samples)
            return -delta, -value
        return self.estimator.differences(means, self.num_directions, self.samples)

    def _move(
        self, state: SearchState, downhill: Array, norm: float
    ) -> tuple[Array, Any, float, str | None]:
        """Return the next parameters and optimiser state, the step's length, why it diverged."""
        x = state.x
        if not math.isfinite(norm):
            why = f"the gradient estimate of step {state.step} is not finite or overflows"
            return x, state.kept, float("inf"), why
        if x.ndim != 1:
            downhill = downhill.reshape(x.shape)
        change, optimizer = self.optimizer.update(downhill, state.kept, x)
        if not (
            type(change) is np.ndarray
            and change.dtype is x.dtype
            and change.shape == x.shape
            and change.flags.c_contiguous
        ):
            change = self._checked_change(change, x)
        moved = np.empty(x.shape, x.dtype)
        vectors = (x, change, moved) if x.ndim == 1 else map(np.ravel, (x, change, moved))
        length2, size2 = kernels.on_sums().advance(*vectors)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(moved, bounds.lower, bounds.upper, out=moved)
            length2, size2 = float((moved**2).sum()), float(((moved - x) ** 2).sum())
        if not math.isfinite(length2 + size2):
            why = f"step {state.step} would overflow; x is left unchanged"
            return x, state.kept, float("inf"), why
        # x + cε == x once c is below half the spacing of floating-point numbers at |x|.
        root_mean_square = math.sqrt(length2 / x.size)
        spacing = self.spacing_at(state.step)
        if spacing < 0.5 * _EPS[x.dtype.itemsize] * root_mean_square:
            why = (
                f"after step {state.step} the parameters would be of size {root_mean_square:.3g}, "
                f"where adding a spacing of {spacing:g} is lost to rounding"
            )
            return x, state.kept, math.sqrt(size2), why
        return moved, optimizer, math.sqrt(size2), None

    # --- for runs and workers ---------------------------------------------------------------------

    @property
    def wire(self) -> Directions:
        """The directions, which store and send their own state."""
        return self.directions

    def kept_template(self, x: Array) -> Any:
        """Return the optimiser's initial state."""
        return self.optimizer.init(x)

    def widest_reach(self, dim: int) -> float | None:
        """Return the first spacing times the standard deviation of a direction's entries."""
        try:
            variance = self.directions.variance(dim, self.num_directions)
        except NoClosedForm:
            return None
        return self.spacing_at(0) * math.sqrt(variance)

    def next_evaluations(self, state: SearchState) -> int:  # noqa: ARG002
        """Return the number of evaluations of the next step."""
        return len(self.plan)

    def evaluations_after(self, steps: int) -> int | None:
        """Return the number of evaluations of ``steps`` steps."""
        return steps * len(self.plan)

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:  # noqa: ARG002
        """Estimate the objective at x from the values of a step."""
        means = values.reshape(-1, self.num_samples).mean(axis=1)
        return self._differences(means)[1]

    def for_workers(self) -> "RandomSearch":
        """Return the search without the optimiser, which workers do not need."""
        return self.changed(optimizer=_NO_OPTIMIZER, threads=1)

    # --- quantities that are the same in every step -----------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """The evaluations of a step."""
        return estimators.plan(self.estimator, self.num_directions, self.num_samples, self.samples)

    @cached_property
    def _spacings(self) -> NDArray[np.float64]:
        """The signed distance of each evaluation along its direction, for a constant spacing."""
        return self._signed_spacings(self.spacing_at(0))

    def _signed_spacings(self, spacing: float) -> NDArray[np.float64]:
        return np.multiply(spacing, self.plan.side, dtype=np.float64)

    def spacing_at(self, step: int) -> float:
        """Return the spacing c at a step."""
        spacing = self.spacing
        if not callable(spacing):
            return spacing
        return checks.positive("spacing", spacing(step))

    @cached_property
    def _families(self) -> dict[Any, Directions]:
        return {}

    def _family(self, x: NDArray[Any], tree: Tree | None = None) -> Directions:
        """Return the directions with the settings that depend on x's shape and L filled in."""
        shape = x.shape if tree is None else tree.shapes
        try:
            return self._families[shape]
        except KeyError:
            resolved = self.directions.shaped(shape).resolve(x.size, self.num_directions)
            return self._families.setdefault(shape, resolved)

    def shrinkage(self, dim: int) -> float:
        """Return the shrinkage factor at dimension ``dim``."""
        return self._family(np.empty(dim)).shrinkage(dim, self.num_directions)

    # --- noise with known standard errors ---------------------------------------------------------

    def _precisions(
        self, delta: NDArray[np.float64], errors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        r"""Return a weight for each direction, the inverse variance of its δ, with mean 1.

        :math:`\operatorname{Var}\delta_l = S + u_l`, where S is the variance of δ between
        directions and :math:`u_l` the noise of the values. Without S, a direction that happens to
        have no noise would get all the weight. S is estimated by the mean of
        :math:`\delta_l^2 - u_l`.
        """
        of_means = np.square(errors).reshape(-1, self.num_samples).mean(axis=1) / self.num_samples
        noise = self.estimator.variances(of_means, self.num_directions, self.samples)
        known = np.isfinite(noise) & np.isfinite(delta)
        signal = float((np.square(delta[known]) - noise[known]).mean()) if known.any() else 0.0
        total = max(signal, 0.0) + noise
        if not known.any() or not (total[known] > 0).all():
            return np.ones_like(delta)
        weights = np.where(known, 1 / np.where(known, total, 1.0), 0.0)
        return weights / weights[known].mean()

    # --- noise of samples that directions share ---------------------------------------------------

    def _shared_noise(
        self,
        draw: Draw,
        values: NDArray[np.float64],
        means: NDArray[np.float64],
        delta: NDArray[np.float64],
        unit: float,
        used: int,
    ) -> float:
        """Return the variance that samples shared by all directions add to the estimate.

        Directions and samples are crossed: ĝ is the mean over l and i of y_li = δ_li ε_l / c. The
        scatter of the directions does not include the noise that they have in common. With ĝ_i the
        estimate from sample i alone, the two-way analysis of variance adds

            Σ_i (‖ĝ_i − ĝ‖² − scatter of the y_li − y_l) / (N (N − 1)),

        which is the scatter of the samples minus that of the interaction, because both scatters
        contain the latter. The result is unbiased, except that it is bounded below by zero.
        """
        N = self.num_samples
        table = values.reshape(-1, N)
        if used < len(delta):
            table = np.where(np.isfinite(means)[:, None], table, np.nan)
        total = 0.0
        for i in range(N):
            of_sample, _ = self._differences(np.ascontiguousarray(table[:, i]))
            deviation = np.where(np.isfinite(of_sample), of_sample - delta, 0.0)
            _, norm2, squares = draw.estimate(deviation, unit / used)
            total += norm2 - _scatter(norm2, squares, used)
        return max(total, 0.0) / (N * (N - 1))

    # --- checks -----------------------------------------------------------------------------------

    def _checked_change(self, change: ArrayLike, x: Array) -> Array:
        """Return the optimiser's change of x, checked, as an array like x."""
        array = checks.reals("optimizer", change)
        if array.shape != x.shape:
            raise ValueError(
                f"`optimizer` must return a change in the shape {x.shape} of x, but returned "
                f"shape {array.shape}."
            )
        return np.ascontiguousarray(array, x.dtype)

    def _who_needs(self) -> str:
        samples = f' and samples="{self.samples}"' if self.samples else ""
        estimator = type(self.estimator).__name__
        return f"{self.num_directions} directions with the {estimator} estimator{samples} need"

    def _check_center(self, batch: Batch, values: NDArray[np.float64]) -> None:
        """Raise if a value is not finite, even one at the centre that the estimate does not use."""
        if self.on_failure == "raise" and not np.isfinite(values).all():
            self._check_failures(batch, values, 0)

    def _check_failures(self, batch: Batch, values: NDArray[np.float64], used: int) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):  # finite values whose differences overflow
            bad = np.array([np.abs(values).argmax()])
        if self.on_failure == "raise":
            raise ValueError(
                f"{batch.describe(int(bad[0]))} has the value {values[bad[0]]}"
                f"{f', and {len(bad) - 1} more are not finite' if len(bad) > 1 else ''}. "
                "Fix the objective, or pass on_failure='drop' to leave such directions out."
            )
        if used < max(1, math.ceil(self.min_fraction * self.num_directions)):
            raise ValueError(
                f"Only {used} of {self.num_directions} directions of step {batch.step} have finite "
                f"values (first bad one: {batch.describe(int(bad[0]))}), fewer than "
                f"min_fraction={self.min_fraction} requires."
            )


def _checked_spacing(spacing: Any) -> float | optimizers.Schedule:
    """Return ``spacing`` if it is a positive number, or a schedule that starts with one."""
    if not callable(spacing):
        return checks.positive("spacing", spacing)
    schedule = cast(optimizers.Schedule, spacing)
    try:
        first = schedule(0)
    except Exception as error:  # a user's function may raise anything
        raise ValueError(
            f"`spacing` must be a number or a schedule, step -> number, but is "
            f"{checks.shown(spacing)}, which fails at step 0: {error}"
        ) from error
    checks.positive("spacing", first)
    return schedule


def _scatter(norm2: float, squares: float, used: int) -> float:
    """Estimate the trace of the covariance of the mean ĝ of independent g_l, l = 1 … L.

    It is (Σ‖g_l‖² − L‖ĝ‖²) / (L (L−1)), with norm2 = ‖ĝ‖² and squares = Σ‖g_l / L‖².
    """
    return max(used * squares - norm2, 0.0) / (used - 1)


def _without_warnings(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the function without NumPy's overflow warnings; its callers check the result."""
    return np.errstate(over="ignore", invalid="ignore")(function)
