"""What every search is: a state, what is told of a step, and what runs and workers ask of it.

:class:`~gensmooth.search.RandomSearch`, :class:`~gensmooth.pilot.Pilot` and the algorithms of the
literature are searches. Runs, evaluators and checkpoints know no more of them than this.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import optimizers
from gensmooth.batch import Batch
from gensmooth.estimators import Samples
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
        optimizer: The optimiser's state.
        directions: The directions' state.
        tree: The structure of the parameters, if they came as one: see :class:`gensmooth.Tree`.
    """

    x: Array
    step: int
    evaluations: int
    seed: int
    optimizer: Any
    directions: tuple[Any, ...]
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


class PackedState(Protocol):
    """How the ``directions`` of a search's state are written down and sent to workers."""

    def pack(self, state: tuple[Any, ...]) -> dict[str, Array]:
        """As named arrays."""
        ...

    def unpack(
        self, arrays: Mapping[str, Array], dim: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        """Back from them."""
        ...

    def update(self, state: tuple[Any, ...], gradient: Array) -> tuple[Any, ...]:
        """The state after a step whose estimate was ``gradient``."""
        ...

    def latest_gradient(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> Array | None:
        """The estimate whose :meth:`update` leads from one to the other, if one does."""
        ...


class Search(Protocol):
    """What runs, evaluators and training ask of a search: :class:`RandomSearch`, or the pilot."""

    @property
    def directions(self) -> PackedState:
        """How the state's ``directions`` are written down."""
        ...

    @property
    def optimizer(self) -> optimizers.Optimizer:
        """Its ``init`` gives a template of the state's ``optimizer``."""
        ...

    @property
    def samples(self) -> Samples | None:
        """How the objective's noise is drawn."""
        ...

    @property
    def num_samples(self) -> int:
        """Samples averaged at each point."""
        ...

    @property
    def maximize(self) -> bool:
        """Whether larger values are better."""
        ...

    @property
    def bounds(self) -> Any:
        """The limits of x."""
        ...

    @property
    def on_failure(self) -> FailurePolicy:
        """What is done about a value that is not finite."""
        ...

    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """The state before the first step."""
        ...

    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step."""
        ...

    def tell(
        self,
        state: SearchState,
        batch: Batch,
        values: ArrayLike,
        errors: ArrayLike | None = None,
    ) -> tuple[SearchState, StepInfo]:
        """The state after a step."""
        ...

    def next_evaluations(self, state: SearchState) -> int:
        """How many evaluations the next step takes."""
        ...

    def evaluations_after(self, steps: int) -> int | None:
        """How many evaluations some steps take; ``None`` where it depends on the values."""
        ...

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:
        """The objective at x as the values of a step see it."""
        ...

    def for_workers(self) -> "Search":
        """The search as workers need it."""
        ...


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
