"""What a search is: its state, the report on a step, and everything that others need from it.

:class:`~gensmooth.RandomSearch`, :class:`~gensmooth.Pilot` and the algorithms of the
literature are searches, and so is any subclass of :class:`Search` in your own module. Runs,
workers, checkpoints, training and the integrations use nothing but this interface: they never ask
which search they have.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import streams
from gensmooth.batch import Batch
from gensmooth.directions.base import pack_state, unpack_state
from gensmooth.directions.draw import dense
from gensmooth.estimators import Samples, lay_out
from gensmooth.parameters import as_bounds, as_parameters, is_tree
from gensmooth.trees import Tree

Array = NDArray[Any]
FailurePolicy = Literal["raise", "drop"]


class SearchState(NamedTuple):
    """What the next step needs.

    Attributes:
        x: The parameters, in the user's shape and dtype; flat if they came as a structure.
        step: Steps made.
        evaluations: Evaluations told.
        seed: The seed of everything random.
        kept: What only :meth:`Search.tell` needs, such as the optimiser's state. It is stored in
            checkpoints and never sent to workers.
        sent: What :meth:`Search.ask` needs besides ``x``, ``step`` and ``seed``, such as the
            directions' state. It is stored in checkpoints and sent to workers.
        tree: The structure of the parameters, if they came as one: see :class:`gensmooth.Tree`.
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
        """``x`` as it was given: in the structure that it came as, if it came as one."""
        return self.x if self.tree is None else self.tree.build(self.x)


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
            where it cannot be told, see :class:`GradientEstimate`.
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


class Wire(Protocol):
    """How the ``sent`` part of a search's state is stored and sent to workers.

    The directions of a :class:`~gensmooth.RandomSearch` are one.
    """

    def pack(self, state: tuple[Any, ...]) -> dict[str, Array]:
        """``sent`` as named arrays."""
        ...

    def unpack(
        self, arrays: Mapping[str, Array], dim: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        """``sent`` from named arrays, checked."""
        ...

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:
        """``sent`` after a step whose estimate was ``gradient``."""
        ...

    def latest_gradient(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> Array | None:
        """The estimate whose :meth:`update` leads from one state to the other, if there is one.

        Workers that hold ``before`` are then sent this estimate instead of the whole of ``after``.
        """
        ...


class WholeState:
    """A :class:`Wire` that always sends the whole of ``sent``.

    Args:
        search: The search; its :meth:`Search.check_sent` refuses arrays that do not fit.
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
            raise ValueError(f"the state is not one of {type(self._search).__name__}'s")
        self._search.check_sent(sent, dim, dtype)
        return sent

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:  # noqa: ARG002
        """Not used: :meth:`latest_gradient` never returns an estimate."""
        raise RuntimeError("The state of this search is always sent whole.")

    def latest_gradient(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """See :class:`Wire`."""


class FinalValue(NamedTuple):
    """The objective at the recommended point: its value and standard error, if that is known."""

    value: float
    error: float | None


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """A method of optimisation: what to evaluate next, and what to make of the values.

    A search is a frozen dataclass; everything that changes is in its :class:`SearchState`.
    ``init``, ``ask`` and ``tell`` are the algorithm. Everything else has a default that suits a
    simple search.

    Your own subclass works wherever ours do: ``minimize(fun, x0, search=MySearch())``. If it is
    defined in a module that can be imported, its runs resume by themselves;
    :func:`gensmooth.searches.register` gives it a name for ``method=`` and the command line.

    Args:
        samples: How the objective's noise is drawn; ``None`` if it takes no generator.
        num_samples: Samples averaged at each point.
        maximize: Whether larger values are better.
        bounds: The limits of x.
        on_failure: What happens on a value that is not finite.

    Attributes:
        reach: The argument that sets how far from x it looks, for advice to users.
        if_worse: What to try if a run ends worse than it began, for advice to users.
        survives_failures: Whether ``tell`` accepts a batch none of whose values is finite.
    """

    reach: ClassVar[str] = "spacing"
    if_worse: ClassVar[str] = "lower `spacing` and `optimizer`, or leave them to the pilot."
    survives_failures: ClassVar[bool] = False

    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"

    # --- the algorithm ----------------------------------------------------------------------------

    @abstractmethod
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """The state before the first step."""

    @abstractmethod
    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step: a pure function of the state without ``kept``."""

    @abstractmethod
    def tell(
        self,
        state: SearchState,
        batch: Batch,
        values: ArrayLike,
        errors: ArrayLike | None = None,
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step, and a report on it."""

    # --- for a custom search ----------------------------------------------------------------------

    def first_state(
        self, x0: Any, *, seed: int | None, kept: Any = (), sent: tuple[Any, ...] = ()
    ) -> SearchState:
        """The state before the first step, for :meth:`init`.

        Args:
            x0: The start, as the user passed it; it is moved inside the bounds.
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
        """The points x + ``displacements``, one per row, for :meth:`ask`."""
        rows = np.ascontiguousarray(displacements, state.x.dtype).reshape(-1, state.x.size)
        plan = lay_out([(row, 1) for row in range(len(rows))], self.num_samples, self.samples)
        bounds = None if self.bounds is None else as_bounds(self.bounds, state.x)
        return Batch(
            state.x,
            state.step,
            state.seed,
            dense(rows),
            plan,
            1.0,
            np.ones(len(plan)),
            self.samples,
            bounds,
            tree=state.tree,
        )

    def next_state(
        self,
        state: SearchState,
        values: ArrayLike,
        x: Array,
        *,
        kept: Any = (),
        sent: tuple[Any, ...] = (),
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step to ``x``, and the report on it, for :meth:`tell`.

        Args:
            state: The state before the step.
            values: The values of its batch.
            x: The new parameters, flat or in the shape of the old ones.
            kept: See :class:`SearchState`.
            sent: See :class:`SearchState`.
        """
        raw = np.asarray(values, np.float64).reshape(-1)
        signed = np.where(np.isfinite(raw), raw, -np.inf if self.maximize else np.inf)
        best = int(signed.argmax() if self.maximize else signed.argmin())
        moved = np.asarray(x, state.x.dtype, order="C").reshape(state.x.shape)
        change = np.subtract(moved, state.x, dtype=np.float64)
        spent = state.evaluations + len(raw)
        info = StepInfo(
            step=state.step,
            evaluations=spent,
            value=self.value_at(state, raw),
            best_value=float(raw[best]),
            best_index=best,
            gradient_norm=0.0,
            standard_error=None,
            signal_to_noise=None,
            shrinkage=1.0,
            dropped=int(np.count_nonzero(~np.isfinite(raw))),
            step_size=math.sqrt(float(np.square(change).sum())),
            diverged=None if np.isfinite(moved).all() else "the parameters are no longer finite",
        )
        x = moved if info.diverged is None else state.x
        return SearchState(x, state.step + 1, spent, state.seed, kept, sent, state.tree), info

    # --- what it recommends, and how sure that is -------------------------------------------------

    def recommend(self, state: SearchState) -> Array:
        """The point to use if the run ended now."""
        return state.x

    def is_exact(self, state: SearchState) -> bool:  # noqa: ARG002
        """Whether values are known to be exact, so that the best point seen is the one to use."""
        return False

    def noise(self, state: SearchState) -> float | None:  # noqa: ARG002
        """The standard deviation of a value's noise, if the search has measured it."""
        return None

    def converged(self, state: SearchState) -> str | None:  # noqa: ARG002
        """Why the search cannot go on, if it has converged."""
        return None

    def final_evaluations(self, state: SearchState) -> int:  # noqa: ARG002
        """How many evaluations a run should keep for the recommended point."""
        return self.num_samples

    def final_value(
        self,
        state: SearchState,  # noqa: ARG002
        values: NDArray[np.float64],
        errors: NDArray[np.float64] | None = None,
    ) -> FinalValue:
        """The value of the recommended point, from evaluations there.

        Args:
            state: The state at the end.
            values: The values at the recommended point.
            errors: Their standard errors, where they are known.
        """
        return mean_value(values, errors)

    # --- what runs and workers need ---------------------------------------------------------------

    def next_evaluations(self, state: SearchState) -> int:
        """How many evaluations the next step takes."""
        return len(self.ask(state))

    def evaluations_after(self, steps: int) -> int | None:  # noqa: ARG002
        """How many evaluations so many steps take; ``None`` if that is not known in advance."""
        return None

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:  # noqa: ARG002
        """The objective at x as the values of a step see it; by default their mean."""
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) else math.nan

    def for_workers(self) -> "Search":
        """The search as workers need it."""
        return self

    def with_budget(self, budget: int) -> Self:  # noqa: ARG002
        """The search for a run whose budget was changed."""
        return self

    @property
    def wire(self) -> Wire:
        """How the ``sent`` part of the state is stored and sent."""
        return WholeState(self)

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """An example of the state's ``sent``, from which stored arrays get their types."""
        return self.init(np.zeros(dim, dtype), seed=0).sent

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:  # noqa: B027
        """Raise ``ValueError`` if ``sent``, read from a file, does not fit this search."""

    def kept_template(self, x: Array) -> Any:
        """An example of the state's ``kept``, from which stored arrays get their types."""
        return self.init(x, seed=0).kept

    # --- what users are advised -------------------------------------------------------------------

    def is_looking(self, state: SearchState) -> bool:  # noqa: ARG002
        """Whether the next step only looks around, so that x may well stay where it is."""
        return False

    def has_only_begun(self, state: SearchState) -> bool:  # noqa: ARG002
        """Whether nothing but the start has been evaluated."""
        return False

    def saw_one_value(self, state: SearchState, steps: Sequence[StepInfo]) -> bool:  # noqa: ARG002
        """Whether all values so far were the same."""
        first = steps[0].value
        return all(step.value == first == step.best_value for step in steps)

    def widest_reach(self, dim: int) -> float | None:  # noqa: ARG002
        """How far from x a parameter is typically changed, where that is fixed in advance."""
        return None


def mean_value(
    values: NDArray[np.float64], errors: NDArray[np.float64] | None = None
) -> FinalValue:
    """The mean of values at one point; its error from theirs, or else from their scatter."""
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
        value: The objective at x as the evaluations saw it.
        standard_error: The root of the estimated trace of the estimate's covariance, over its
            directions and its samples. ``None`` where it cannot be told: with one direction,
            with one sample that all directions share, whose noise they have in common, or with
            shared samples and an estimator by rank. For dependent (orthogonal) directions it errs
            on the large side.
        evaluations: How many were made.
        dropped: Directions left out because a value was not finite.
    """

    gradient: Array
    value: float
    standard_error: float | None
    evaluations: int
    dropped: int
