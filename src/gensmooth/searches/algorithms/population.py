"""The base class of searches that draw points from a distribution and adapt it by ranks.

A step draws λ points, ranks their values, and updates the distribution. What determines the next
points is in the state's ``sent``, which workers receive. What only :meth:`Population.tell` needs is
in its ``kept``. Checkpoints store both, so that a run resumes to the same bits.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gensmooth import checks, kernels
from gensmooth.batch import Batch
from gensmooth.directions.draw import Draw
from gensmooth.estimators import Plan, Samples, lay_out
from gensmooth.parameters import as_bounds, find_units
from gensmooth.searches.algorithms.table import Wanted
from gensmooth.searches.protocol import Search, SearchState, StepInfo, check_sizes, standard_errors

Array = NDArray[Any]

SPACING = 0.3  # the first standard deviation, in units of the parameters; our choice
_MAX_NORM2 = 1e150  # a larger ‖x‖² counts as divergence: its square would overflow


class Displacements(NamedTuple):
    """The displacements of the next points from x, one per row, for distributions with a matrix.

    Workers receive these λ d numbers instead of the d² of the matrix.
    """

    block: Array


class DistributionStep(NamedTuple):
    """The distribution after a step.

    Attributes:
        x: The parameters, flat.
        sent: What determines the next points.
        kept: What else the next step needs.
        gradient: The length of the natural gradient, in standard deviations of the distribution.
        finite: Whether all numbers are finite.
        lengths2: ‖x‖² and ‖change of x‖², if they are known.
    """

    x: Array
    sent: tuple[Any, ...]
    kept: tuple[Any, ...]
    gradient: float
    finite: bool
    lengths2: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Population(Search):
    """A search that adapts a distribution; the subclasses are the algorithms.

    Args:
        population: λ, points per step; by default 4 + ⌊3 ln d⌋.
        spacing: The first standard deviation, in units of ``x_scale``.
        x_scale: The typical size of a change of each parameter: a number, or one per parameter. By
            default a quarter of the distance between the bounds or, without bounds, the size of x0.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: What to do with a value that is not finite: ``"raise"`` an error, or ``"drop"``
            its point.
        min_fraction: With ``"drop"``, the smallest fraction of points that a step may use.
        threads: As in :class:`~gensmooth.RandomSearch`.
    """

    method: ClassVar[str]
    least: ClassVar[int] = 2  # smallest number of points per step

    population: int | None = None
    spacing: float = SPACING
    x_scale: Any = None
    min_fraction: float = 0.5
    threads: int = 1

    def __post_init__(self) -> None:
        checks.settle(
            self,
            population=checks.optional(
                checks.count, "population", self.population, least=self.least
            ),
            spacing=checks.positive("spacing", self.spacing),
            min_fraction=checks.share("min_fraction", self.min_fraction, one=True),
            threads=checks.count("threads", self.threads),
        )
        super().__post_init__()
        check_sizes(self.population or 1, self.num_samples)

    # --- the distribution, defined by each subclass -----------------------------------------------

    @abstractmethod
    def check_dim(self, dim: int) -> None:
        """Raise an error if there are too many parameters, and name an alternative."""

    @abstractmethod
    def begin(self, x: Array, units: Array, seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the state's first ``sent`` and ``kept``, at flat parameters."""

    @abstractmethod
    def draw(self, state: SearchState) -> Draw:
        """Return the displacements from x, a pure function of the state."""

    @abstractmethod
    def update(
        self,
        state: SearchState,
        batch: Batch,
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> DistributionStep:
        """Update the distribution.

        Args:
            state: The state before the step.
            batch: The points.
            values: The mean value at each point; smaller is better.
            kept: Which values are finite; ``None`` if all are.
        """

    @abstractmethod
    def is_valid(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Return whether ``sent``, read from a file, is valid for this search."""

    # --- a step -----------------------------------------------------------------------------------

    @final
    def init(self, x0: Any, *, seed: int | None = None) -> SearchState:
        """Return the state before the first step; ``x0`` is an array or a structure of arrays."""
        state = self.first_state(x0, seed=seed)
        self.check_dim(state.x.size)
        sent, kept = self._begin(state.x, state.seed)
        return state._replace(kept=kept, sent=sent)

    @final
    def ask(self, state: SearchState) -> Batch:
        """Return the evaluations of the next step, a pure function of the state."""
        plan, draw = self._plan(state.x.size), self.draw(state)
        if self.threads > 1:
            draw = draw.rescaled(threads=self.threads)
        return self.batch_of(state, draw, plan, spacings=_ones(len(plan)))

    @final
    def tell(
        self, state: SearchState, batch: Batch, values: ArrayLike, errors: ArrayLike | None = None
    ) -> tuple[SearchState, StepInfo]:
        """Return the state after a step, and its metrics; see :meth:`Search.tell`.

        ``errors`` are checked but not used, because only ranks matter.
        """
        raw = self.check_values(state, batch, values)
        if errors is not None:
            standard_errors(errors, len(raw))
        low = -raw if self.maximize else raw  # from here on, smaller is better
        means = low.reshape(-1, self.num_samples).mean(axis=1) if self.num_samples > 1 else low
        best, extent = kernels.on_sums().survey(raw, self.maximize)
        kept = None
        if not math.isfinite(extent):
            kept = np.isfinite(means)
            self._check_failures(batch, raw, kept)
        moved = self.update(state, batch.flat(), means, kept)
        return self._state_after(state, raw, kept, moved, best)

    def _state_after(
        self,
        state: SearchState,
        raw: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
        moved: DistributionStep,
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
        if not (moved.finite and length2 < _MAX_NORM2):
            why = f"step {state.step} would overflow; x is left unchanged"
            x, sent, kept_after = state.x, state.sent, state.kept
        return self._after_step(
            state,
            raw,
            best,
            np.asarray(x, state.x.dtype, order="C"),
            kept=kept_after,
            sent=sent,
            gradient_norm=moved.gradient,
            dropped=0 if kept is None else len(kept) - int(np.count_nonzero(kept)),
            step_size=math.sqrt(size2) if math.isfinite(size2) else math.inf,
            diverged=why,
        )

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
                "requires."
            )

    # --- for runs and workers ---------------------------------------------------------------------

    @classmethod
    def rates(cls) -> tuple[str, ...]:
        """Return the names of the arguments that this search has in addition to the shared ones."""
        shared = {field.name for field in fields(Population)}
        return tuple(field.name for field in fields(cls) if field.name not in shared)

    def number(self, dim: int) -> int:
        """Return λ, the number of points per step."""
        if self.population is None:
            return max(self.least, 4 + int(3 * math.log(dim)))
        return self.population

    def next_evaluations(self, state: SearchState) -> int:
        """Return the number of evaluations of the next step."""
        return len(self._plan(state.x.size))

    def evaluations_after(self, steps: int) -> int | None:
        """Return the number of evaluations of ``steps`` steps; ``None`` if it depends on d."""
        if self.population is None:
            return None
        return steps * self.population * self.num_samples

    def value_at(self, state: SearchState, values: NDArray[np.float64]) -> float:  # noqa: ARG002
        """Return the mean of the step's finite values."""
        return kernels.on_ranks().mean_of_finite(values)

    def for_workers(self) -> Self:
        """Return the search for workers, which use one thread each."""
        return replace(self, threads=1)

    def sent_template(self, dim: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """See :class:`~gensmooth.searches.Search`."""
        return self._begin(np.zeros(dim, dtype), 0, template=True)[0]

    def check_sent(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> None:
        """See :class:`~gensmooth.searches.Search`."""
        if not self.is_valid(sent, dim, dtype):
            raise ValueError(f"the state is not a valid state of {self.method!r}")

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


def displacements_of(state: SearchState) -> Array:
    """Return the displacements of a state's points."""
    return checks.state_part(state.sent, Displacements).block


def are_displacements(sent: tuple[Any, ...], number: int, dim: int, dtype: np.dtype[Any]) -> bool:
    """Return whether these are finite displacements of ``number`` points."""
    block = Displacements(*sent).block
    return block.shape == (number, dim) and block.dtype == dtype and bool(np.isfinite(block).all())


def make_population(
    kind: Callable[..., Population], x: Array, wanted: Wanted, **more: Any
) -> Population:
    """Create a search from the user's arguments."""
    wanted.refuse("estimator", why="it ranks the points of its own distribution.")
    wanted.refuse("num_directions", why="it draws points instead: use `population`.")
    wanted.refuse_noise()
    search = kind(
        population=wanted.population,
        spacing=wanted.deviation(SPACING),
        x_scale=wanted.scale,
        **wanted.shared,
        **more,
    )
    search.check_dim(x.size)
    return replace(search, population=search.number(x.size))


@lru_cache(maxsize=128)
def _plan(number: int, num_samples: int, samples: Samples | None) -> Plan:
    return lay_out([(index, 1) for index in range(number)], num_samples, samples)


@lru_cache(maxsize=64)
def _ones(number: int) -> NDArray[np.float64]:
    return np.ones(number)
