"""The one place that chooses a search from names and arguments.

``minimize``, ``train``, ``compare``, the integrations and the command line all use it.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from numpy.typing import NDArray

from gensmooth import checks, optimizers
from gensmooth.directions import METHODS, Directions, choose_directions
from gensmooth.estimators import Estimator, Samples
from gensmooth.optimizers import Optimizer, Schedule, choose_optimizer
from gensmooth.parameters import as_parameters, is_tree
from gensmooth.searches import algorithms
from gensmooth.searches.pilot import AUTO, Pilot
from gensmooth.searches.protocol import FailurePolicy, Search
from gensmooth.searches.random_search import RandomSearch
from gensmooth.searches.wanted import Wanted
from gensmooth.trees import Tree

Array = NDArray[Any]
Shape = tuple[Any, ...]

BUDGET = 10_000  # evaluations, if the user passes no budget; our choice
LEARNING_RATE = 0.1  # Adam's, falling to 0 over the budget along half a cosine; our choice


class ChosenSearch(NamedTuple):
    """A search, and whether its optimiser depends on the budget.

    Attributes:
        search: The search.
        falling_rate: If not ``None``, the optimiser is :func:`falling` from this rate, and is
            recreated when the budget changes.
    """

    search: Search
    falling_rate: float | None = None


def choose(
    x: Array,
    wanted: Wanted,
    *,
    shape: Shape | None = None,
    training: bool = False,
    fill: Callable[[Wanted, Directions], Wanted] | None = None,
) -> ChosenSearch:
    """Choose the search for the start ``x`` and the user's choices.

    The pilot is chosen if the user passes no method, directions, estimator, spacing or optimiser.

    Args:
        x: The start.
        wanted: The user's choices.
        shape: The shape of the parameters that directions use, if it differs from that of ``x``.
        training: Whether a policy is trained; some algorithms only support training.
        fill: Replaces the usual defaults of a search along directions.

    >>> import numpy as np
    >>> type(choose(np.zeros(3), Wanted(budget=100)).search).__name__
    'Pilot'
    >>> choose(np.zeros(3), Wanted(method="gs", budget=100)).search.num_directions
    7
    """
    if wanted.search is not None:
        if not isinstance(wanted.search, Search):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"`search` must be a gs.Search, but is {checks.shown(wanted.search)}; to choose "
                "one by its name, pass `method`."
            )
        wanted.check_complete()
        return ChosenSearch(wanted.search)
    if is_left_to_pilot(wanted):
        return ChosenSearch(_pilot(x, wanted))
    if wanted.restarts is not None:
        raise ValueError(
            f"`restarts` is for the default search, method='auto', but `method` is "
            f"{wanted.method or 'bes'!r}: omit it."
        )
    choose_optimizer(wanted.optimizer, wanted.learning_rate)  # raises an error if they are invalid
    if algorithms.find(wanted.method) is not None:
        return ChosenSearch(algorithms.make(x, wanted, training=training))
    others = [AUTO, *algorithms.names(training=training)]
    family = choose_directions(wanted.method, wanted.directions, also=others)
    family = family.shaped(x.shape if shape is None else shape)
    return _along_directions(x, family, wanted if fill is None else fill(wanted, family))


def is_left_to_pilot(wanted: Wanted) -> bool:
    """Return whether the user chose the pilot, or no setting that the pilot chooses itself."""
    if isinstance(wanted.method, str):
        return wanted.method == AUTO
    return all(getattr(wanted, name) is None for name in ("method", *_CHOSEN_BY_PILOT))


_CHOSEN_BY_PILOT = ("directions", "estimator", "spacing", "optimizer", "learning_rate")


def _pilot(x: Array, wanted: Wanted) -> Pilot:
    replace(wanted, method=AUTO).refuse_population()
    passed = [f"`{name}`" for name in _CHOSEN_BY_PILOT if getattr(wanted, name) is not None]
    if passed:
        raise ValueError(
            f"method='auto' chooses {' and '.join(passed)} itself: omit {passed[0]}, or name a "
            "method."
        )
    number = wanted.num_directions
    if number is None and wanted.workers > usual_directions(x.size):
        number = -(-wanted.workers // 2)
    arguments: dict[str, Any] = {
        "budget": wanted.budget,
        "num_directions": number,
        "x_scale": wanted.scale,
        # Without a budget, it reports that it has converged: nothing else would end the run.
        "restarts": wanted.budget is not None if wanted.restarts is None else wanted.restarts,
        **wanted.shared,
    }
    return Pilot(**arguments | dict(wanted.pilot))


def _along_directions(x: Array, family: Directions, wanted: Wanted) -> ChosenSearch:
    """Create a search along directions; by default with Adam whose rate falls over the budget."""
    wanted.refuse_population()
    optimizer = choose_optimizer(wanted.optimizer, wanted.learning_rate)
    number = wanted.num_directions
    if number is None:
        number = max(usual_directions(x.size), wanted.workers - 1)
    spacing = family.usual_spacing if wanted.spacing is None else wanted.spacing
    search = RandomSearch(
        directions=family,
        num_directions=number,
        spacing=spacing if wanted.x_scale is None else _scaled(spacing, wanted),
        estimator="forward" if wanted.estimator is None else wanted.estimator,
        **wanted.shared,
    )
    search = search.changed(directions=search.directions.resolve(x.size, number))
    if optimizer is not None:
        return ChosenSearch(search.changed(optimizer=optimizer))
    falls = falling(LEARNING_RATE, search, wanted.budget, wanted.max_steps)
    return ChosenSearch(search.changed(optimizer=falls), LEARNING_RATE)


def _scaled(spacing: Any, wanted: Wanted) -> float:
    if callable(spacing):
        raise ValueError(
            "`x_scale` multiplies `spacing`, which must then be a number, but is a schedule: scale "
            "the schedule instead."
        )
    product = checks.positive("spacing", spacing) * wanted.factor
    if not 0 < product < math.inf:
        raise ValueError(
            f"`x_scale` is {wanted.factor:g}: the spacing, {spacing:g} times that, is {product:g}."
        )
    return product


def usual_directions(dim: int) -> int:
    """Return the default number of directions per step: 4 + ⌊3 ln d⌋."""
    return 4 + int(3 * math.log(dim))


def falling(
    rate: float, search: RandomSearch, budget: int | None, max_steps: int | None = None
) -> Optimizer:
    """Return Adam whose rate falls from ``rate`` to 0 over the steps that the limits allow.

    If nothing limits the steps, the rate stays the same.
    """
    steps = Wanted(budget=budget, max_steps=max_steps).steps(len(search.plan))
    return optimizers.adam(rate if steps is None else optimizers.cosine_decay(rate, steps=steps))


def for_limits(
    search: Search, falling_rate: float | None, budget: int | None, max_steps: int | None
) -> Search:
    """Let the learning rate of a search fall over these limits; see :class:`ChosenSearch`."""
    if falling_rate is None:
        return search
    search = cast(RandomSearch, search)
    return search.changed(optimizer=falling(falling_rate, search, budget, max_steps))


def methods() -> list[str]:
    """Return the names of all methods: the pilot, choices of directions, and algorithms.

    ``gensmooth methods`` describes them. Some algorithms only support training.

    >>> methods()[:5]
    ['auto', 'gs', 'bes', 'gs-shrinkage', 'bes-shrinkage']
    """
    return [AUTO, *METHODS, *algorithms.names(training=True)]


@checks.explains_unknown
def search(
    name: str,
    x0: Any,
    *,
    num_directions: int | None = None,
    population: int | None = None,
    spacing: float | Schedule | None = None,
    estimator: Estimator | str | None = None,
    optimizer: Optimizer | None = None,
    learning_rate: float | None = None,
    x_scale: Any = None,
    budget: int | None = BUDGET,
    max_steps: int | None = None,
    noise: float | None = None,
    restarts: bool | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    maximize: bool = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    min_fraction: float = 0.5,
    threads: int = 1,
) -> Search:
    """Create the search behind ``minimize(..., method=name)``, for your own ask-tell loop.

    Args:
        name: The name of a method, one of :func:`methods`, or ``module:name`` for a custom one.
        x0: The start. Some settings depend on the number and size of the parameters.
        num_directions: As in :func:`gensmooth.minimize`.
        population: As in :func:`gensmooth.minimize`.
        spacing: As in :func:`gensmooth.minimize`.
        estimator: As in :func:`gensmooth.minimize`.
        optimizer: As in :func:`gensmooth.minimize`.
        learning_rate: As in :func:`gensmooth.minimize`.
        x_scale: As in :func:`gensmooth.minimize`.
        budget: The number of evaluations that you plan; ``None`` if you do not know it. Some
            methods plan with it: the learning rate of a method of the paper, for example, falls
            over the budget, and is constant without one.
        max_steps: The number of steps that you plan.
        noise: The standard deviation of a value, which ``"stars"`` needs.
        restarts: As in :func:`gensmooth.minimize`.
        samples: As in :class:`~gensmooth.RandomSearch`.
        num_samples: As in :class:`~gensmooth.RandomSearch`.
        maximize: As in :class:`~gensmooth.RandomSearch`.
        bounds: As in :class:`~gensmooth.RandomSearch`.
        on_failure: As in :class:`~gensmooth.RandomSearch`.
        min_fraction: As in :class:`~gensmooth.RandomSearch`.
        threads: As in :class:`~gensmooth.RandomSearch`.

    >>> import numpy as np
    >>> snes = search("snes", np.zeros(3))
    >>> state = snes.init(np.zeros(3), seed=0)
    >>> for _ in range(120):
    ...     batch = snes.ask(state)
    ...     values = [((x - [1, 2, 3]) ** 2).sum() for x in batch.points()]
    ...     state, info = snes.tell(state, batch, values)
    >>> state.x.round(2)
    array([1., 2., 3.])
    """
    checks.text("name", name)
    x, tree = Tree.of(x0) if is_tree(x0) else (as_parameters(x0), None)
    wanted = Wanted(
        method=name,
        num_directions=num_directions,
        population=population,
        spacing=spacing,
        estimator=estimator,
        optimizer=optimizer,
        learning_rate=learning_rate,
        x_scale=x_scale,
        budget=checks.optional(checks.count, "budget", budget),
        max_steps=checks.optional(checks.count, "max_steps", max_steps),
        noise=noise,
        restarts=restarts,
        samples=samples,
        num_samples=num_samples,
        maximize=maximize,
        bounds=bounds,
        on_failure=on_failure,
        min_fraction=min_fraction,
        threads=threads,
    )
    return choose(x, wanted, shape=None if tree is None else tree.shapes, training=True).search
