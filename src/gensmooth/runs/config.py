"""What a run is, before it has begun: all that its result depends on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.checkpoint.cadence import Every
from gensmooth.checkpoint.plain import plain
from gensmooth.optimizers import Optimizer
from gensmooth.search import RandomSearch

Array = NDArray[Any]


class Limits(NamedTuple):
    """When a run stops; see :func:`gensmooth.minimize`."""

    budget: int
    max_steps: int | None = None
    target: float | None = None
    tolerance: float | None = None


class Execution(NamedTuple):
    """What a run's result does not depend on: how it is carried out."""

    workers: int | None = 1  # None: an evaluator of the user's, to be passed again
    timeout: float | None = None
    retries: int = 0
    threads: int = 1
    every: Every | None = None


@dataclass(frozen=True)
class RunConfig:
    """A run, before it has begun.

    Attributes:
        run: A random name.
        objective: ``module:function``, or ``None`` for a function without a name.
        x0: Where it starts.
        seed: Its seed.
        search: Directions, estimator, optimiser and the rest.
        learning_rate: If not ``None``, the optimiser is Adam whose rate falls from this to 0
            over the budget, and is made anew when the budget is extended.
        vectorized: Whether the objective takes stacked points, or how many.
        limits: When it stops.
        execution: How it is carried out.
        extensions: The limits that earlier parts of it had, each with the step it went on from.
    """

    run: str
    objective: str | None
    x0: Array
    seed: int
    search: RandomSearch
    learning_rate: float | None
    vectorized: bool | int
    limits: Limits
    execution: Execution
    extensions: tuple[Mapping[str, Any], ...] = ()

    def extended(self, limits: Limits, step: int) -> "RunConfig":
        """The run with other limits from ``step`` on."""
        if limits == self.limits:
            return self
        before = {"until_step": step, **{k: plain(v) for k, v in self.limits._asdict().items()}}
        search = self.search
        if self.learning_rate is not None:
            search = replace(search, optimizer=falling(self.learning_rate, search, limits))
        return replace(self, limits=limits, search=search, extensions=(*self.extensions, before))


def falling(rate: float, search: RandomSearch, limits: Limits) -> Optimizer:
    """Adam whose rate falls from ``rate`` to 0 over the steps that the limits allow."""
    steps = max(1, limits.budget // len(search.plan))
    if limits.max_steps is not None:
        steps = min(steps, limits.max_steps)
    return optimizers.adam(optimizers.cosine_decay(rate, steps=steps))


def make_limits(
    search: RandomSearch,
    budget: float,
    max_steps: int | None,
    target: float | None,
    tolerance: float | None,
) -> Limits:
    """Limits from a user, checked."""
    least = len(search.plan) + search.num_samples
    if not math.isfinite(budget) or budget < least:
        raise ValueError(
            f"`budget` is {budget}, but one step takes {len(search.plan)} evaluations and the "
            f"final value {search.num_samples}: allow at least {least}, or lower `num_directions`."
        )
    return Limits(
        int(budget),
        None if max_steps is None else int(max_steps),
        None if target is None else float(target),
        None if tolerance is None else float(tolerance),
    )
