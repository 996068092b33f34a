"""What searches share that draw a population from a distribution and move it by ranks.

A step draws λ points, ranks their values, and moves the distribution. What the next points are
made of is in the state's ``sent``, which workers receive; what only :meth:`Population.tell` needs
is in its ``kept``. Both are tuples of arrays and numbers, which checkpoints store, so that a run
resumes to the same bits.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, kernels, streams
from gensmooth.batch import Batch
from gensmooth.directions.draw import Draw
from gensmooth.estimators import SAMPLE_MODES, Plan, Samples, lay_out
from gensmooth.parameters import as_bounds, as_parameters, find_units, is_tree
from gensmooth.searches.algorithms.table import Wanted
from gensmooth.searches.random_search import (
    FailurePolicy,
    Search,
    SearchState,
    StepInfo,
    check_sizes,
    standard_errors,
)
from gensmooth.trees import Tree

Array = NDArray[Any]

SPACING = 0.3  # the first deviation, in units of the parameters
_FARTHEST = 1e150  # parameters beyond this have diverged: their squares overflow


class Displacements(NamedTuple):
    """The displacements of the next points, one row each, for those that a matrix makes.

    Workers are sent these λ d numbers in the place of the d² that they are made from.
    """

    block: Array


class Moved(NamedTuple):
    """What comes of a step.

    Attributes:
        x: The parameters, flat.
        sent: What the next points are made of.
        kept: What else the next step needs.
        gradient: The length of the natural gradient, in deviations of the distribution.
        finite: Whether all of it is.
        lengths2: ‖x‖² and ‖change of x‖², where they are known.
    """

    x: Array
    sent: tuple[Any, ...]
    kept: tuple[Any, ...]
    gradient: float
    finite: bool
    lengths2: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Population(Search):
    """A search by a distribution; see its subclasses.

    Args:
        num_directions: λ, points per step; by default 4 + ⌊3 ln d⌋.
        spacing: The first standard deviation, in units of ``x_scale``.
        x_scale: How far apart interesting values of a parameter are: a number, or one for each. By
            default a quarter of what the bounds leave, or else the size of x0.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: ``"raise"`` on a value that is not finite, or ``"drop"`` it.
        min_fraction: Under ``"drop"``, the smallest share of points that makes a step.
        threads: Likewise.
    """

    method: ClassVar[str]
    least: ClassVar[int] = 2  # points per step

    num_directions: int | None = None
    spacing: float = SPACING
    x_scale: Any = None
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    def __post_init__(self) -> None:
        number = self.num_directions
        checks.settle(
            self,
            num_directions=checks.optional(
                checks.count, "num_directions", number, least=self.least
            ),
            spacing=checks.positive("spacing", self.spacing),
            samples=checks.optional(checks.one_of, "samples", self.samples, options=SAMPLE_MODES),
            num_samples=checks.count("num_samples", self.num_samples),
            maximize=checks.flag("maximize", self.maximize),
            on_failure=checks.one_of("on_failure", self.on_failure, ("raise", "drop")),
            min_fraction=checks.share("min_fraction", self.min_fraction, one=True),
            threads=checks.count("threads", self.threads),
        )
        check_sizes(self.num_directions or 1, self.num_samples)
        if self.samples is None and self.num_samples != 1:
            raise ValueError(
                f"`num_samples` is {self.num_samples}, but there are no samples to average: "
                "give `samples=` 'shared', 'paired' or 'independent', and an objective fun(x, rng)."
            )

    # --- what a distribution is -------------------------------------------------------------------

    @abstractmethod
    def check_dim(self, dim: int) -> None:
        """Refuse what this distribution cannot do, naming what can."""

    @abstractmethod
    def begin(self, x: Array, units: Array, seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The first ``sent`` and ``kept`` of the state, at flat parameters."""

    @abstractmethod
    def draw(self, state: SearchState) -> Draw:
        """What is added to x: a pure function of the state."""

    @abstractmethod
    def follow(
        self,
        state: SearchState,
        batch: Batch,
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> Moved:
        """Move the distribution.

        Args:
            state: Before the step.
            batch: Its points.
            values: The mean value at each, the smaller the better.
            kept: Which of them are finite; ``None`` if all are.
        """

    @abstractmethod
    def fits(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Whether ``sent``, read from a file, fits this search."""

    # --- a step -----------------------------------------------------------------------------------

    @final
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """The state before the first step; ``x0`` is an array, or a structure of arrays."""
        x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
        self.check_dim(x.size)
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, x)
            np.clip(x, bounds.lower, bounds.upper, out=x)
        seed = streams.check_seed(seed)
        sent, kept = self._begin(x, seed)
        return SearchState(x, 0, 0, seed, kept, sent, tree)

    @final
    def ask(self, state: SearchState) -> Batch:
        """The evaluations of the next step: a pure function of the state."""
        x = state.x
        plan = self._plan(x.size)
        bounds = None if self.bounds is None else as_bounds(self.bounds, x)
        draw = self.draw(state)
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        ones = _ones(len(plan))
        return Batch(
            x,
            state.step,
            state.seed,
            draw,
            plan,
            1.0,
            ones,
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
            batch: What :meth:`ask` gave.
            values: The objective's values, in the order of ``batch.points()``.
            errors: Their standard errors, which are checked and not used: ranks have none.
        """
        if batch.step != state.step or batch.seed != state.seed or not batch.is_at(state.x):
            raise ValueError("Each batch is told once, to the state it was asked from.")
        raw = np.asarray(checks.reals("values", values), np.float64).reshape(-1)
        if len(raw) != len(batch):
            raise ValueError(f"The step needs {len(batch)} values, but `tell` got {len(raw)}.")
        if errors is not None:
            standard_errors(errors, len(raw))
        low = -raw if self.maximize else raw  # from here on the smaller the better
        means = low.reshape(-1, self.num_samples).mean(axis=1) if self.num_samples > 1 else low
        best, extent = kernels.on_sums().survey(raw, self.maximize)
        kept = None
        if not math.isfinite(extent):
            kept = np.isfinite(means)
            self._check_failures(batch, raw, kept)
        moved = self.follow(state, batch.flat(), means, kept)
        return self._after(state, raw, kept, moved, best)

    def _after(
        self,
        state: SearchState,
        raw: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
        moved: Moved,
        best: int,
    ) -> tuple[SearchState, StepInfo]:
        x = moved.x if state.x.ndim == 1 else moved.x.reshape(state.x.shape)
        lengths2 = moved.lengths2
        if self.bounds is not None:
            bounds = as_bounds(self.bounds, state.x)
            x, lengths2 = np.clip(x, bounds.lower, bounds.upper), None
        if lengths2 is None:
            with np.errstate(over="ignore", invalid="ignore"):
                change = np.subtract(x, state.x).reshape(-1)
            lengths2 = kernels.on_sums().advance(state.x.reshape(-1), change, change)
        length2, size2 = lengths2
        sent, kept_after, why = moved.sent, moved.kept, None
        if not (moved.finite and length2 < _FARTHEST):
            why = f"step {state.step} would overflow; x is left unchanged"
            x, sent, kept_after = state.x, state.sent, state.kept
        evaluations = state.evaluations + len(raw)
        info = StepInfo(
            state.step,
            evaluations,
            self.value_at(state, raw),
            float(raw[best]),
            best,
            moved.gradient,
            None,
            None,
            1.0,
            0 if kept is None else len(kept) - int(np.count_nonzero(kept)),
            math.sqrt(size2) if math.isfinite(size2) else math.inf,
            why,
        )
        x = np.asarray(x, state.x.dtype, order="C")
        after = SearchState(
            x, state.step + 1, evaluations, state.seed, kept_after, sent, state.tree
        )
        return after, info

    def _check_failures(
        self, batch: Batch, raw: NDArray[np.float64], kept: NDArray[np.bool_]
    ) -> None:
        bad = int(np.isfinite(raw).argmin())
        if self.on_failure == "raise":
            raise ValueError(
                f"{batch.describe(bad)} has the value {raw[bad]}. Fix the objective, or pass "
                "on_failure='drop' to leave such points out."
            )
        used, number = int(np.count_nonzero(kept)), len(kept)
        if used < max(self.least, math.ceil(self.min_fraction * number)):
            raise ValueError(
                f"Only {used} of {number} points of step {batch.step} have finite values (first "
                f"bad one: {batch.describe(bad)}), fewer than min_fraction={self.min_fraction} "
                "asks for."
            )

    # --- what runs and workers ask of any search --------------------------------------------------

    @classmethod
    def rates(cls) -> tuple[str, ...]:
        """The names of the numbers that this search has and others do not."""
        shared = {field.name for field in fields(Population)}
        return tuple(field.name for field in fields(cls) if field.name not in shared)

    def number(self, dim: int) -> int:
        """λ."""
        if self.num_directions is None:
            return max(self.least, 4 + int(3 * math.log(dim)))
        return self.num_directions

    def next_evaluations(self, state: SearchState) -> int:
        """How many evaluations the next step takes."""
        return len(self._plan(state.x.size))

    def evaluations_after(self, steps: int) -> int | None:
        """How many evaluations some steps take; ``None`` where it depends on the dimension."""
        if self.num_directions is None:
            return None
        return steps * self.num_directions * self.num_samples

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:  # noqa: ARG002
        """The objective at x as the values of a step see it: their mean."""
        return kernels.on_ranks().mean_of_finite(values)

    def for_workers(self) -> Self:
        """The search as workers need it."""
        return replace(self, threads=1)

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """See :class:`~gensmooth.searches.Search`."""
        return self._begin(np.zeros(dim, dtype), 0, template=True)[0]

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:
        """See :class:`~gensmooth.searches.Search`."""
        if not self.fits(sent, dim, dtype):
            raise ValueError(f"the state of the search is not one of {self.method}'s")

    def kept_template(self, x: Array) -> tuple[Any, ...]:
        """See :class:`~gensmooth.searches.Search`."""
        return self._begin(x, 0)[1]

    def _begin(
        self, x: Array, seed: int, *, template: bool = False
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        units = np.ones(1) if template else find_units(x, self.x_scale, self.bounds)
        return self.begin(x.reshape(-1), np.broadcast_to(units, (x.size,)), seed)

    def _plan(self, dim: int) -> Plan:
        return _plan(self.number(dim), self.num_samples, self.samples)


def drawn_of(state: SearchState) -> Array:
    """The displacements of a state's points."""
    assert isinstance(state.sent, Displacements), "the state is of another search"
    return state.sent.block


def is_drawn(sent: tuple[Any, ...], number: int, dim: int, dtype: np.dtype[Any]) -> bool:
    """Whether these are the displacements of so many points."""
    block = Displacements(*sent).block
    return block.shape == (number, dim) and block.dtype == dtype and bool(np.isfinite(block).all())


def make_population(
    kind: Callable[..., Population], x: Array, wanted: Wanted, **more: Any
) -> Population:
    """The search of a user's wishes."""
    wanted.refuse("estimator", why="it ranks the points of its own distribution.")
    wanted.refuse_noise()
    made = kind(
        num_directions=wanted.num_directions,
        spacing=wanted.deviation(SPACING),
        x_scale=wanted.scale,
        **wanted.shared,
        **more,
    )
    made.check_dim(x.size)
    return replace(made, num_directions=made.number(x.size))


@lru_cache(maxsize=128)
def _plan(number: int, num_samples: int, samples: Samples | None) -> Plan:
    return lay_out([(index, 1) for index in range(number)], num_samples, samples)


@lru_cache(maxsize=64)
def _ones(number: int) -> NDArray[np.float64]:
    return np.ones(number)
