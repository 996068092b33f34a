"""The table of algorithms by name, and what is asked of one.

Each algorithm fills its own rows, in its own file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.directions import METHODS
from gensmooth.estimators import Estimator, Samples
from gensmooth.methods import predictions
from gensmooth.optimizers import Optimizer, Schedule
from gensmooth.parameters import as_parameters, is_tree
from gensmooth.search import FailurePolicy, Search
from gensmooth.trees import Tree

Array = NDArray[Any]


@final
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a user asks of an algorithm; ``None`` leaves a choice to the algorithm.

    Attributes:
        name: The algorithm's name, for messages.
        num_directions: L, or how many points are drawn per step.
        spacing: How far from x the objective is evaluated.
        estimator: How values become an estimate.
        optimizer: An optimiser, or a number: the algorithm's own step size.
        x_scale: How far apart interesting values of a parameter are.
        budget: Evaluations that it can count on.
        max_steps: Steps that it can count on.
        noise: What is told of the noise of values, as in :func:`gensmooth.minimize`.
        samples: As in :class:`~gensmooth.search.RandomSearch`.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: Likewise.
        min_fraction: Likewise.
        threads: Likewise.
    """

    name: str
    num_directions: int | None = None
    spacing: float | Schedule | None = None
    estimator: Estimator | None = None
    optimizer: Optimizer | float | None = None
    x_scale: Any = None
    budget: int | None = None
    max_steps: int | None = None
    noise: Any = None
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    @property
    def shared(self) -> dict[str, Any]:
        """What every search takes."""
        names = ("samples", "num_samples", "maximize", "bounds", "on_failure", "min_fraction")
        return {name: getattr(self, name) for name in (*names, "threads")}

    def number(self, default: int) -> int:
        """L, the user's or the algorithm's."""
        if self.num_directions is None:
            return default
        return checks.count("num_directions", self.num_directions)

    def constant_spacing(self, default: float) -> float:
        """C, where the step is in proportion to it."""
        if callable(self.spacing):
            raise ValueError(
                f"`spacing` must be a number with method={self.name!r}, whose step is in "
                "proportion to it, but is a schedule: 'spsa' and the methods of the paper take one."
            )
        return default if self.spacing is None else checks.positive("spacing", self.spacing)

    def rate(self, default: float) -> float:
        """The algorithm's own step size."""
        if self.optimizer is None:
            return default
        return float(checks.positive("optimizer", self.optimizer))

    def own_optimizer(self) -> Optimizer | None:
        """The user's optimiser, unless it is ``None`` or a number."""
        given: Any = self.optimizer
        if given is None or not (hasattr(given, "init") and hasattr(given, "update")):
            return None
        return given

    def steps(self, evaluations: int) -> int | None:
        """How many steps of so many evaluations the limits allow."""
        known = [self.max_steps] if self.max_steps is not None else []
        if self.budget is not None:
            known.append(self.budget // evaluations)
        return max(1, min(known)) if known else None

    def refuse(self, *names: str, why: str) -> None:
        """Complain about a choice that this algorithm does not leave to its user."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"`{name}` is not for method={self.name!r}: {why}")

    def refuse_scale(self) -> None:
        """``x_scale`` is for the searches that keep a distribution."""
        self.refuse(
            "x_scale",
            why="its `spacing` is in the parameters' own units, so scale them yourself; 'auto', "
            "'snes', 'xnes' and 'cma-es' take it.",
        )

    def refuse_noise(self) -> None:
        """An algorithm that looks at the order of values has no use for their errors."""
        if self.noise is not None:
            raise ValueError(
                f"`noise` is not for method={self.name!r}, which goes by the order of values or "
                "their deviation and gives all of them the same weight: leave it out. 'auto', "
                "'spsa' and the paper's methods weigh values by their errors."
            )


class Algorithm(NamedTuple):
    """A named search.

    Attributes:
        make: Makes the search that is wanted at a start.
        title: What people call it.
        about: What it does, in a few words.
        source: Who published it.
        directions: The name of its directions among the methods, where their error is the error of
            its estimate; ``None`` where the estimate is not one of the gradient.
        num_directions: L of that estimate.
        train_only: Why :func:`gensmooth.minimize` cannot have it, or empty.
        standardize: Whether observations are standardised in training; ``None`` leaves it open.
    """

    make: Callable[[Array, Wanted], Search]
    title: str
    about: str
    source: str
    directions: str | None = None
    num_directions: int | None = None
    train_only: str = ""
    standardize: bool | None = None


ALGORITHMS: dict[str, Algorithm] = {}  # each file adds its own


def find(name: object) -> Algorithm | None:
    """The algorithm of this name; ``None`` if it is a method's or nobody's."""
    return ALGORITHMS.get(name) if isinstance(name, str) else None


def names(*, training: bool = False) -> list[str]:
    """The names of the algorithms that there are in minimising, or in training."""
    return [name for name, entry in ALGORITHMS.items() if training or not entry.train_only]


def rows(
    dim: int = 100,
    num_directions: int = 20,  # noqa: ARG001 (algorithms have their own)
    *,
    num_samples: int = 1,
    noise: float = 0.0,
    samples: Literal["paired", "shared"] = "paired",
) -> list[dict[str, Any]]:
    """One row per algorithm, as :func:`gensmooth.methods.predictions` has one per method.

    Arguments are those of :func:`gensmooth.methods.predictions`. An algorithm whose estimate is one
    of the gradient has the error of its directions; others move by ranks, and have none.

    >>> [row["relative_mse"] for row in rows(dim=100) if row["method"] == "spsa"]  # d − 1
    [99.0]
    """
    found: list[dict[str, Any]] = []
    for name, entry in ALGORITHMS.items():
        row: dict[str, Any] = {
            "method": name,
            "title": entry.title,
            "distribution": entry.about,
            "in_paper": False,
            "source": entry.source,
        }
        row |= dict.fromkeys(("variance", "kurtosis", "bias", "relative_mse"))
        if entry.directions is not None and entry.num_directions is not None:
            predicted = predictions(
                dim, entry.num_directions, num_samples=num_samples, noise=noise, samples=samples
            )
            same = next(each for each in predicted if each["method"] == entry.directions)
            row |= {key: same[key] for key in ("variance", "kurtosis", "bias", "relative_mse")}
        found.append(row)
    return found


def make(x: Array, wanted: Wanted, *, training: bool = False) -> Search:
    """The search that is wanted at ``x``."""
    entry = ALGORITHMS[wanted.name]
    if entry.train_only and not training:
        raise ValueError(f"method={wanted.name!r} is not for functions: {entry.train_only}")
    return entry.make(x, wanted)


def algorithm(
    name: str,
    x0: Any,
    *,
    num_directions: int | None = None,
    spacing: float | Schedule | None = None,
    estimator: Estimator | None = None,
    optimizer: Optimizer | float | None = None,
    x_scale: Any = None,
    budget: int | None = None,
    max_steps: int | None = None,
    noise: float | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    maximize: bool = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    min_fraction: float = 0.5,
    threads: int = 1,
) -> Search:
    """The search behind ``minimize(..., method=name)``, to ask and tell yourself.

    Args:
        name: The algorithm: ``"ars"``, ``"openai-es"``, ``"spsa"``, ``"snes"``, ``"xnes"``,
            ``"cma-es"``, …; see ``gensmooth methods``.
        x0: Where it will start: some numbers depend on how many parameters there are, and on their
            size.
        num_directions: As in :func:`gensmooth.minimize`; by default the algorithm's own, as all
            that follows.
        spacing: Likewise.
        estimator: Likewise.
        optimizer: Likewise; a number is the algorithm's own step size.
        x_scale: Likewise.
        budget: Evaluations that it can count on: SPSA's gains depend on it.
        max_steps: Steps that it can count on.
        noise: The standard deviation of a value, which ``"stars"`` goes by.
        samples: As in :class:`~gensmooth.search.RandomSearch`, as all that follows.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: Likewise.
        min_fraction: Likewise.
        threads: Likewise.

    >>> import numpy as np
    >>> search = algorithm("snes", np.zeros(3))
    >>> state = search.init(np.zeros(3), seed=0)
    >>> for _ in range(120):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2, 3]) ** 2).sum() for x in batch.points()]
    ...     state, info = search.tell(state, batch, values)
    >>> state.x.round(2)
    array([1., 2., 3.])
    """
    if find(name) is None:
        known = names(training=True)
        if name in METHODS:
            raise ValueError(
                f"{name!r} is a choice of directions: gs.RandomSearch(method={name!r}, ...)."
            )
        raise ValueError(
            f"There is no algorithm {checks.shown(name)}.{checks.did_you_mean(name, known)} "
            f"Known: {', '.join(known)}."
        )
    wanted = Wanted(
        name=name,
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimator,
        optimizer=optimizer,
        x_scale=x_scale,
        budget=checks.optional(checks.count, "budget", budget),
        max_steps=checks.optional(checks.count, "max_steps", max_steps),
        noise=noise,
        samples=samples,
        num_samples=num_samples,
        maximize=maximize,
        bounds=bounds,
        on_failure=on_failure,
        min_fraction=min_fraction,
        threads=threads,
    )
    x = Tree.of(x0)[0] if is_tree(x0) else as_parameters(x0)
    return make(x, wanted, training=True)
