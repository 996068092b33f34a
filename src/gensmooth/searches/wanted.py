"""The user's choices for a search; :mod:`~gensmooth.searches.choose` turns them into a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np

from gensmooth import checks
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, Samples
from gensmooth.optimizers import Optimizer, Schedule
from gensmooth.searches.protocol import FailurePolicy, Search

_OPTIONAL = ("threads", "min_fraction")  # a search may ignore these
_BESIDE_SEARCH = ("search", "budget", "max_steps", "workers", "noise", "unit", "pilot", "threads")


@final
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The user's choices for a search; ``None`` leaves a choice to the method.

    Most fields are arguments of :func:`gensmooth.minimize`, with the same meaning.

    Attributes:
        search: A complete search. Only the limits may then be passed along with it.
        method: The name of a method; ``None`` means the pilot, or ``"bes"`` if the user chose
            directions, a spacing, an estimator or an optimiser.
        directions: Directions instead of a method.
        num_directions: L, the directions per step.
        population: The points per step of a method that draws them from a distribution.
        spacing: The distance of the evaluation points from x.
        estimator: How values are turned into an estimate of the gradient.
        optimizer: How the estimate changes x.
        learning_rate: The rate of gradient descent, or an algorithm's own step size.
        x_scale: The typical size of a change of a parameter. The paper's methods multiply their
            spacing by it.
        unit: The default of ``x_scale`` for the pilot and for distributions.
        budget: The planned number of evaluations, if it is known.
        max_steps: The planned number of steps.
        workers: How many points are evaluated at a time; a step has at least that many.
        noise: What is known about the noise of values.
        restarts: Whether the pilot starts again elsewhere once it has converged.
        pilot: More arguments of :class:`~gensmooth.Pilot`, if it is chosen.
        samples: How samples are drawn.
        num_samples: The samples averaged at each point.
        maximize: Whether to maximise.
        bounds: The limits of x.
        on_failure: What to do with a value that is not finite.
        min_fraction: The smallest fraction of directions that an estimate may use.
        threads: The number of threads.
    """

    search: Search | None = None
    method: str | None = None
    directions: Directions | None = None
    num_directions: int | None = None
    population: int | None = None
    spacing: float | Schedule | None = None
    estimator: Estimator | str | None = None
    optimizer: Optimizer | None = None
    learning_rate: float | None = None
    x_scale: Any = None
    unit: Any = None
    budget: int | None = None
    max_steps: int | None = None
    workers: int = 1
    noise: Any = None
    restarts: bool | None = None
    pilot: Mapping[str, Any] = field(default_factory=dict[str, Any])
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    def check_complete(self) -> None:
        """Raise an error if other choices are passed along with a search."""
        for each in fields(self):
            if each.name in _BESIDE_SEARCH:
                continue
            value = getattr(self, each.name)
            if value is not each.default and not (np.isscalar(value) and value == each.default):
                raise ValueError(
                    f"`{each.name}` cannot be passed along with `search`: set it on the search, or "
                    "omit it."
                )

    @property
    def shared(self) -> dict[str, Any]:
        """The arguments that every search takes."""
        names = ("samples", "num_samples", "maximize", "bounds", "on_failure", "min_fraction")
        return {name: getattr(self, name) for name in (*names, "threads")}

    def arguments_for(self, kind: type[Search]) -> dict[str, Any]:
        """Return the shared arguments that the class of a custom search accepts.

        Raises:
            ValueError: If the user passed one that it does not accept.
        """
        known = {each.name for each in fields(kind)}
        defaults = {each.name: each.default for each in fields(self)}
        for name, value in self.shared.items():
            if name not in known and name not in _OPTIONAL and value != defaults[name]:
                raise ValueError(f"method={self.method!r} has no argument `{name}`.")
        return {name: value for name, value in self.shared.items() if name in known}

    def refuse_population(self) -> None:
        """Raise an error if a population is passed to a method that moves along directions."""
        if self.population is not None:
            raise ValueError(
                "`population` is for 'snes', 'xnes', 'cma-es' and 'islands', but `method` is "
                f"{self.method or 'bes'!r}: use `num_directions`."
            )

    def number(self, default: int) -> int:
        """Return L: the user's number, or the algorithm's default."""
        self.refuse_population()
        if self.num_directions is None:
            return default
        return checks.count("num_directions", self.num_directions)

    @property
    def scale(self) -> Any:
        """``x_scale``, or else its default."""
        return self.unit if self.x_scale is None else self.x_scale

    def deviation(self, default: float) -> float:
        """Return a constant spacing: the initial standard deviation of a distribution, in units."""
        if callable(self.spacing):
            raise ValueError(
                f"`spacing` must be a number with method={self.method!r}, but is a schedule: "
                "'spsa' and the methods of the paper take one."
            )
        return default if self.spacing is None else checks.positive("spacing", self.spacing)

    def constant_spacing(self, default: float) -> float:
        """Return a constant spacing times ``x_scale``."""
        return self.deviation(default) * self.factor

    @property
    def factor(self) -> float:
        """The factor by which ``x_scale``, which must be one number, multiplies a spacing."""
        if self.x_scale is None:
            return 1.0
        if np.size(self.x_scale) != 1:
            raise ValueError(
                f"`x_scale` must be one number with method={self.method or 'bes'!r}, whose spacing "
                f"it multiplies, but has {np.size(self.x_scale)}: 'auto', 'snes', 'xnes' and "
                "'cma-es' take one for each parameter."
            )
        return float(checks.positive("x_scale", np.asarray(self.x_scale).reshape(()).item()))

    def rate(self, default: float) -> float:
        """Return the algorithm's step size."""
        if self.learning_rate is None:
            return default
        return float(checks.positive("learning_rate", self.learning_rate))

    def steps(self, evaluations: int) -> int | None:
        """Return how many steps the limits allow, if a step has this many evaluations."""
        limits = [self.max_steps] if self.max_steps is not None else []
        if self.budget is not None:
            limits.append(self.budget // evaluations)
        return max(1, min(limits)) if limits else None

    def refuse(self, *names: str, why: str) -> None:
        """Raise an error if the user chose something that the algorithm determines itself."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"`{name}` cannot be used with method={self.method!r}: {why}")

    def refuse_noise(self) -> None:
        """Raise an error if ``noise`` is passed to an algorithm that weights all values equally."""
        if self.noise is not None:
            raise ValueError(
                f"`noise` cannot be used with method={self.method!r}, which ranks or standardises "
                "values and gives all of them the same weight: omit it. 'auto', 'spsa' and the "
                "paper's methods weight values by their errors."
            )
