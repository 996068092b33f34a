"""The interface of a search: its state, the metrics of a step, and what other code needs from it.

:class:`~gensmooth.RandomSearch`, :class:`~gensmooth.Pilot` and the algorithms from the literature
are searches, and so is any subclass of :class:`Search` in your own module. Runs, workers,
checkpoints, training and the integrations use only this interface, never the type of a search.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.directions.base import pack_state, unpack_state
from gensmooth.directions.draw import Draw, dense
from gensmooth.estimators import SAMPLE_MODES, Plan, Samples, lay_out
from gensmooth.parameters import as_bounds, as_parameters, is_tree
from gensmooth.trees import Tree

Array = NDArray[Any]
FailurePolicy = Literal["raise", "drop"]

MAX_SAMPLED_DIRECTIONS = 50_000_000  # × samples, per step: their layout takes a gigabyte


class SearchState(NamedTuple):
    """The state of a search between two steps: everything that the next step needs.

    Attributes:
        x: The parameters, in the user's shape and dtype; flat if the user passed a structure.
        step: Number of completed steps.
        evaluations: Number of evaluations in these steps.
        seed: The seed of all random numbers.
        kept: What only :meth:`Search.tell` needs, such as the optimiser's state. It is stored in
            checkpoints but not sent to workers.
        sent: What :meth:`Search.ask` needs besides ``x``, ``step`` and ``seed``, such as the
            directions' state. It is stored in checkpoints and sent to workers.
        tree: The structure of the parameters, if the user passed one; see :class:`gensmooth.Tree`.
    """

    x: Array
    step: int
    evaluations: int
    seed: int
    kept: Any
    sent: tuple[Any, ...]
    tree: Tree | None = None

    @property
    def parameters(self) -> Any:
        """``x`` in the form that the user passed, such as a dict of arrays."""
        return self.x if self.tree is None else self.tree.build(self.x)


class StepInfo(NamedTuple):
    """Metrics of one step.

    Attributes:
        step: The number of the step, starting at 0.
        evaluations: Number of evaluations so far, including this step's.
        value: The objective at x, estimated from this step's values, with the user's sign: the mean
            value at the centre (forward difference) or of all points (antithetic, one-point).
        best_value: The best single value of this step.
        best_index: The index of the evaluation with the best value.
        gradient_norm: ‖estimate‖.
        standard_error: The square root of the estimated trace of the estimate's covariance;
            ``None`` if it cannot be estimated, see :class:`GradientEstimate`.
        signal_to_noise: ``gradient_norm / standard_error``.
        shrinkage: The shrinkage factor v; 1 without shrinkage.
        dropped: Number of directions left out because a value was not finite.
        step_size: ‖change of x‖.
        diverged: Why the search has diverged, if it has; x is then left unchanged.
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


class Wire(Protocol):
    """How the ``sent`` part of a search's state is stored and sent to workers.

    The directions of a :class:`~gensmooth.RandomSearch` implement this protocol.
    """

    def pack(self, state: tuple[Any, ...]) -> dict[str, Array]:
        """Convert ``sent`` to named arrays."""
        ...

    def unpack(
        self, arrays: Mapping[str, Array], dim: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        """Convert named arrays to ``sent``, and check it."""
        ...

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:
        """Return ``sent`` after a step with the estimate ``gradient``."""
        ...

    def latest_gradient(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> Array | None:
        """Return the estimate whose :meth:`update` leads from one state to the other, if any.

        Workers that already have ``before`` receive this estimate instead of all of ``after``.
        """
        ...


class WholeStateWire:
    """A :class:`Wire` that always sends all of ``sent``.

    Args:
        search: The search; its :meth:`Search.check_sent` rejects invalid arrays.
    """

    def __init__(self, search: "Search") -> None:
        self._search = search

    def pack(self, state: tuple[Any, ...]) -> dict[str, Array]:
        """See :class:`Wire`."""
        return pack_state(state)

    def unpack(
        self, arrays: Mapping[str, Array], dim: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        """See :class:`Wire`."""
        template = self._search.sent_template(dim, dtype)
        sent = unpack_state(arrays, template)
        if type(sent) is not type(template):
            raise ValueError(f"the state is not a state of {type(self._search).__name__}")
        self._search.check_sent(sent, dim, dtype)
        return sent

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:
        """Not used: :meth:`latest_gradient` never returns an estimate."""
        raise RuntimeError("This search always sends its whole state.")

    def latest_gradient(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """See :class:`Wire`."""


class FinalValue(NamedTuple):
    """The value of the recommended point, and its standard error (``None`` if unknown)."""

    value: float
    error: float | None


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """An optimisation algorithm: which points to evaluate next, and how to use their values.

    A search is a frozen dataclass; everything that changes is in its :class:`SearchState`. The
    algorithm is ``init``, ``ask`` and ``tell``. All other methods have defaults that suit a simple
    search.

    A custom subclass works wherever ours do: ``minimize(fun, x0, search=MySearch())``. If it is
    defined in an importable module, its runs can be resumed without passing it again.
    :func:`gensmooth.searches.register` gives it a name for ``method=`` and the command line. If it
    defines ``__post_init__``, that should call ``super().__post_init__()``, which checks the
    arguments below.

    Args:
        samples: How the objective's noise is drawn; ``None`` if it takes no generator.
        num_samples: Number of samples averaged at each point.
        maximize: Whether larger values are better.
        bounds: The limits of x.
        on_failure: What to do with a value that is not finite.

    Attributes:
        reach: The argument that sets the distance of points from x, for advice to users.
        if_worse: What to try if a run ends with a worse value than it started with, for advice to
            users.
        survives_failures: Whether ``tell`` accepts a batch without a finite value.
    """

    reach: ClassVar[str] = "spacing"
    if_worse: ClassVar[str] = "lower `spacing` and the learning rate, or omit both."
    survives_failures: ClassVar[bool] = False

    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"

    def __post_init__(self) -> None:
        checks.settle(
            self,
            samples=checks.optional(checks.one_of, "samples", self.samples, options=SAMPLE_MODES),
            num_samples=checks.count("num_samples", self.num_samples),
            maximize=checks.flag("maximize", self.maximize),
            on_failure=checks.one_of("on_failure", self.on_failure, ("raise", "drop")),
        )
        if self.samples is None and self.num_samples != 1:
            raise ValueError(
                f"`num_samples` is {self.num_samples}, but there are no samples to average: "
                "pass `samples=` 'shared', 'paired' or 'independent', and an objective fun(x, rng)."
            )

    # --- the algorithm ----------------------------------------------------------------------------

    @abstractmethod
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """Return the state before the first step."""

    @abstractmethod
    def ask(self, state: SearchState) -> Batch:
        """Return the evaluations of the next step, a pure function of the state without ``kept``.

        Workers call it too, and ``kept`` is not sent to them.
        """

    @abstractmethod
    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike, errors: ArrayLike | None = None
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step, and its metrics.

        Args:
            state: The state that was passed to :meth:`ask`.
            batch: What :meth:`ask` returned.
            values: The objective's values, in the order of ``batch.points()``.
            errors: The standard errors of the values, if they are known.
        """

    # --- for a custom search ----------------------------------------------------------------------

    def first_state(
        self, x0: Any, *, seed: int | None, kept: Any = (), sent: tuple[Any, ...] = ()
    ) -> SearchState:
        """Return the state before the first step, for use in :meth:`init`.

        Args:
            x0: The start, as the user passed it; it is projected onto the bounds.
            seed: The user's seed.
            kept: See :class:`SearchState`.
            sent: See :class:`SearchState`.
        """
        x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(x, bounds.lower, bounds.upper, out=x)
        return SearchState(x, 0, 0, streams.check_seed(seed), kept, sent, tree)

    def batch(self, state: SearchState, displacements: Array) -> Batch:
        """Return a batch of points x + ``displacements``, one per row, for use in :meth:`ask`."""
        rows = np.ascontiguousarray(displacements, state.x.dtype).reshape(-1, state.x.size)
        plan = lay_out([(row, 1) for row in range(len(rows))], self.num_samples, self.samples)
        return self.batch_of(state, dense(rows), plan)

    def batch_of(
        self,
        state: SearchState,
        draw: Draw,
        plan: Plan,
        *,
        spacing: float = 1.0,
        spacings: NDArray[np.float64] | None = None,
    ) -> Batch:
        """Return a batch of points x + side · spacing · ε_l, for use in :meth:`ask`.

        Args:
            state: The state.
            draw: The directions ε_l; see :mod:`gensmooth.directions`.
            plan: The direction, side and sample of each evaluation; see
                :func:`gensmooth.estimators.lay_out`.
            spacing: The spacing.
            spacings: Side · spacing of each evaluation, if it is already known.
        """
        if spacings is None:
            spacings = np.multiply(spacing, plan.side, dtype=np.float64)
        bounds = None if self.bounds is None else as_bounds(self.bounds, state.x)
        return Batch(
            state.x,
            state.step,
            state.seed,
            draw,
            plan,
            spacing,
            spacings,
            self.samples,
            bounds,
            tree=state.tree,
        )

    def check_values(
        self, state: SearchState, batch: Batch, values: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the values of a step as a flat float64 array, for use in :meth:`tell`.

        Raises:
            ValueError: If ``batch`` is not what :meth:`ask` returned for ``state``, or if there is
                not one value for each of its evaluations.
        """
        if batch.step != state.step or batch.seed != state.seed or not batch.is_at(state.x):
            raise ValueError(
                f"The batch is of step {batch.step}, but the state is at step {state.step}"
                f"{'' if batch.seed == state.seed else ' of a run with another seed'}"
                f"{'' if batch.is_at(state.x) or batch.step != state.step else ' at another x'}: "
                "pass each batch to `tell` once, with the state that it was asked from."
            )
        return self._flat_values(batch, values)

    def _flat_values(self, batch: Batch, values: ArrayLike) -> NDArray[np.float64]:
        if type(values) is np.ndarray and values.dtype.char == "d" and values.ndim == 1:
            flat = values  # skip the checks, which would take a noticeable time at small d
        else:
            flat = np.asarray(checks.reals("values", values), np.float64).reshape(-1)
        if len(flat) != len(batch):
            dropped = len(flat) < len(batch) and (batch.plan.side == 0).any()
            raise ValueError(
                f"{self._who_needs()} {len(batch)} values, but `tell` got {len(flat)}"
                f"{': did you drop the values at the centre?' if dropped else '.'}"
            )
        return flat

    def _who_needs(self) -> str:
        """Return the start of the message about a wrong number of values."""
        return "The step needs"

    def next_state(
        self,
        state: SearchState,
        values: ArrayLike,
        x: Array,
        *,
        kept: Any = (),
        sent: tuple[Any, ...] = (),
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step to ``x``, and its metrics, for use in :meth:`tell`.

        Args:
            state: The state before the step.
            values: The values of its batch.
            x: The new parameters, flat or in the user's shape.
            kept: See :class:`SearchState`.
            sent: See :class:`SearchState`.
        """
        raw = np.asarray(values, np.float64).reshape(-1)
        signed = np.where(np.isfinite(raw), raw, -np.inf if self.maximize else np.inf)
        best = int(signed.argmax() if self.maximize else signed.argmin())
        moved = np.asarray(x, state.x.dtype, order="C").reshape(state.x.shape)
        change = np.subtract(moved, state.x, dtype=np.float64)
        finite = bool(np.isfinite(moved).all())
        return self._after_step(
            state,
            raw,
            best,
            moved if finite else state.x,
            kept=kept,
            sent=sent,
            dropped=int(np.count_nonzero(~np.isfinite(raw))),
            step_size=math.sqrt(float(np.square(change).sum())),
            diverged=None if finite else "the parameters are no longer finite",
        )

    def _after_step(
        self,
        state: SearchState,
        raw: NDArray[np.float64],
        best: int,
        x: Array,
        *,
        kept: Any,
        sent: tuple[Any, ...],
        step_size: float,
        dropped: int,
        diverged: str | None,
        gradient_norm: float = 0.0,
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step without a standard error, and its metrics.

        ``raw`` are the values, the best of which has the index ``best``; for the other arguments,
        see :class:`SearchState` and :class:`StepInfo`.
        """
        info = StepInfo(
            state.step,
            state.evaluations + len(raw),
            self.value_at(state, raw),
            float(raw[best]),
            best,
            gradient_norm,
            None,
            None,
            1.0,
            dropped,
            step_size,
            diverged,
        )
        after = SearchState(x, state.step + 1, info.evaluations, state.seed, kept, sent, state.tree)
        return after, info

    # --- the recommended point, and its error -----------------------------------------------------

    def recommend(self, state: SearchState) -> Array:
        """Return the point that a run should return if it ends now."""
        return state.x

    def is_exact(self, state: SearchState) -> bool:
        """Return whether values are exact, so that the point with the best value is the best."""
        return False

    def noise(self, state: SearchState) -> float | None:
        """Return the standard deviation of a value's noise, or ``None`` if it was not measured."""
        return None

    def converged(self, state: SearchState) -> str | None:
        """Return a reason if the search has converged, otherwise ``None``."""
        return None

    def may_converge(self) -> bool:
        """Return whether :meth:`converged` can ever return a reason."""
        return type(self).converged is not Search.converged

    def final_evaluations(self, state: SearchState) -> int:
        """Return how many evaluations a run should reserve for the recommended point."""
        return self.num_samples

    def final_value(
        self,
        state: SearchState,
        values: NDArray[np.float64],
        errors: NDArray[np.float64] | None = None,
    ) -> FinalValue:
        """Return the value of the recommended point, from evaluations there.

        Args:
            state: The last state.
            values: The values at the recommended point.
            errors: The standard errors of the values, if they are known.
        """
        return mean_value(values, errors)

    # --- for runs and workers ---------------------------------------------------------------------

    def next_evaluations(self, state: SearchState) -> int:
        """Return the number of evaluations of the next step."""
        return len(self.ask(state))

    def evaluations_after(self, steps: int) -> int | None:
        """Return the number of evaluations of ``steps`` steps; ``None`` if it is not fixed."""
        return None

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """Estimate the objective at x from the values of a step; by default, return their mean."""
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) else math.nan

    def for_workers(self) -> "Search":
        """Return the search that workers receive, without what only ``tell`` needs."""
        return self

    def with_budget(self, budget: int | None) -> Self:
        """Return the search for a different budget; ``None`` if it is unknown."""
        return self

    @property
    def wire(self) -> Wire:
        """How the ``sent`` part of the state is stored and sent to workers."""
        return WholeStateWire(self)

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Return an example of the state's ``sent``; it determines the types of stored values."""
        return self.init(np.zeros(dim, dtype), seed=0).sent

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:  # noqa: B027
        """Raise ``ValueError`` if ``sent``, read from a file, is invalid for this search."""

    def kept_template(self, x: Array) -> Any:
        """Return an example of the state's ``kept``; it determines the types of stored values."""
        return self.init(x, seed=0).kept

    # --- for advice to users ----------------------------------------------------------------------

    def is_looking(self, state: SearchState) -> bool:
        """Return whether the next step only probes, so that x is not expected to change."""
        return False

    def has_only_begun(self, state: SearchState) -> bool:
        """Return whether only x0 has been evaluated."""
        return False

    def saw_one_value(self, state: SearchState, steps: Sequence[StepInfo]) -> bool:
        """Return whether all values so far were equal."""
        first = steps[0].value
        return all(step.value == first == step.best_value for step in steps)

    def widest_reach(self, dim: int) -> float | None:
        """Return the typical distance of a point from x in each parameter, if it is fixed."""
        return None


def check_sizes(num_directions: int, num_samples: int) -> None:
    """Raise an error if the layout of a step alone would fill the memory."""
    if num_directions * num_samples > MAX_SAMPLED_DIRECTIONS:
        raise ValueError(
            f"`num_directions` × `num_samples` must be at most {MAX_SAMPLED_DIRECTIONS:,}, but is "
            f"{num_directions:,} × {num_samples:,}."
        )


def standard_errors(errors: ArrayLike, number: int) -> NDArray[np.float64]:
    """Return the standard errors of values as a checked array; NaN stands for an unknown error."""
    array = np.asarray(checks.reals("errors", errors), np.float64).reshape(-1)
    if len(array) != number:
        raise ValueError(
            f"`errors` must have {number} entries, one for each value, but has {len(array)}."
        )
    if (array < 0).any():
        raise ValueError(f"`errors` must not be negative, but one is {array.min():g}.")
    return array


def mean_value(
    values: NDArray[np.float64], errors: NDArray[np.float64] | None = None
) -> FinalValue:
    """Return the mean of values at one point and its standard error.

    The error comes from ``errors`` if they are passed, otherwise from the scatter of the values.
    """
    value, error = float(np.mean(values)), None
    if errors is not None:
        error = math.sqrt(float(np.square(errors).sum())) / len(values)
    elif len(values) > 1 and math.isfinite(value):
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return FinalValue(value, error)


class GradientEstimate(NamedTuple):
    """An estimate of the gradient.

    Attributes:
        gradient: The estimate, in the shape of x.
        value: The objective at x, estimated from the evaluations.
        standard_error: The square root of the estimated trace of the estimate's covariance, over
            directions and samples. ``None`` if it cannot be estimated: with one direction, with a
            single sample that all directions share, or with shared samples and an estimator based
            on ranks. For orthogonal directions, which are dependent, it is too large rather than
            too small.
        evaluations: Number of evaluations.
        dropped: Number of directions left out because a value was not finite.
    """

    gradient: Array
    value: float
    standard_error: float | None
    evaluations: int
    dropped: int
