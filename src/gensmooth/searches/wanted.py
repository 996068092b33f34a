"""What a user asks of a search: names, numbers and objects, most of them left open.

:mod:`~gensmooth.searches.choose` turns it into a search.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np

from gensmooth import checks
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, Samples
from gensmooth.optimizers import Optimizer, Schedule
from gensmooth.searches.protocol import FailurePolicy, Search

_HINTS = ("threads", "min_fraction")  # a search may do without
_BESIDE_SEARCH = ("search", "budget", "max_steps", "workers", "noise", "unit", "pilot", "threads")


@final
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a user asks of a search; ``None`` leaves a choice to the method.

    Attributes:
        search: A search, complete; everything else but the limits must then be left open.
        method: The name of a method; ``None`` is the pilot, or ``"bes"`` with choices of one's own.
        directions: Directions instead of a method.
        num_directions: L, the directions per step.
        population: The points per step of a method that draws them from a distribution.
        spacing: How far from x the objective is evaluated.
        estimator: How values become an estimate.
        optimizer: How the estimate changes x.
        learning_rate: The rate of gradient descent, or an algorithm's own step size.
        x_scale: How far apart interesting values of a parameter are. Methods of the paper multiply
            their spacing by it.
        unit: The same where the user does not say: for the pilot and for distributions.
        budget: Evaluations that it can count on.
        max_steps: Steps that it can count on.
        workers: How many points are evaluated at a time, where steps should keep them busy.
        noise: What is known about the noise of values, as in :func:`gensmooth.minimize`.
        pilot: More arguments of :class:`~gensmooth.Pilot`, if it is chosen.
        samples: As in :class:`~gensmooth.RandomSearch`, and so is the rest.
        num_samples: Samples averaged at each point.
        maximize: Whether to maximise.
        bounds: The limits of x.
        on_failure: What happens on a value that is not finite.
        min_fraction: The smallest share of directions that makes a step.
        threads: Threads of the kernels.
    """

    search: Search | None = None
    method: str | None = None
    directions: Directions | None = None
    num_directions: int | None = None
    population: int | None = None
    spacing: float | Schedule | None = None
    estimator: Estimator | None = None
    optimizer: Optimizer | None = None
    learning_rate: float | None = None
    x_scale: Any = None
    unit: Any = None
    budget: int | None = None
    max_steps: int | None = None
    workers: int = 1
    noise: Any = None
    pilot: Mapping[str, Any] = field(default_factory=dict[str, Any])
    samples: Samples | None = None
    num_samples: int = 1
    maximize: bool = False
    bounds: Any = None
    on_failure: FailurePolicy = "raise"
    min_fraction: float = 0.5
    threads: int = 1

    def check_complete(self) -> None:
        """Complain about choices beside a search, which has its own."""
        for each in fields(self):
            if each.name in _BESIDE_SEARCH:
                continue
            value = getattr(self, each.name)
            if value is not each.default and not (np.isscalar(value) and value == each.default):
                raise ValueError(
                    f"`search` is complete, but `{each.name}` is given too: give it to the search."
                )

    @property
    def shared(self) -> dict[str, Any]:
        """What every search takes."""
        names = ("samples", "num_samples", "maximize", "bounds", "on_failure", "min_fraction")
        return {name: getattr(self, name) for name in (*names, "threads")}

    def arguments_for(self, kind: type[Search]) -> dict[str, Any]:
        """The arguments of a search of this class, from those that every search may have.

        Raises:
            ValueError: If the user asks for something that the class does not have.
        """
        known = {each.name for each in fields(kind)}
        defaults = {each.name: each.default for each in fields(self)}
        for name, value in self.shared.items():
            if name not in known and name not in _HINTS and value != defaults[name]:
                raise ValueError(f"`{name}` is not for method={self.method!r}.")
        return {name: value for name, value in self.shared.items() if name in known}

    def refuse_population(self) -> None:
        """Raise an error if a population is passed to a method that moves along directions."""
        if self.population is not None:
            raise ValueError(
                "`population` is for 'snes', 'xnes', 'cma-es' and 'islands', but `method` is "
                f"{self.method or 'bes'!r}: use `num_directions`."
            )

    def number(self, default: int) -> int:
        """L, the user's or the algorithm's."""
        self.refuse_population()
        if self.num_directions is None:
            return default
        return checks.count("num_directions", self.num_directions)

    @property
    def scale(self) -> Any:
        """``x_scale``, or else the unit."""
        return self.unit if self.x_scale is None else self.x_scale

    def deviation(self, default: float) -> float:
        """The first deviation of a distribution, in units."""
        if callable(self.spacing):
            raise ValueError(
                f"`spacing` must be a number with method={self.method!r}, but is a schedule: "
                "'spsa' and the methods of the paper take one."
            )
        return default if self.spacing is None else checks.positive("spacing", self.spacing)

    def constant_spacing(self, default: float) -> float:
        """The spacing c where the step is in proportion to it, times ``x_scale``."""
        return self.deviation(default) * self.factor

    @property
    def factor(self) -> float:
        """What a spacing is multiplied by: ``x_scale``, which must be one number here."""
        if self.x_scale is None:
            return 1.0
        if np.size(self.x_scale) != 1:
            raise ValueError(
                f"`x_scale` must be one number with method={self.method or 'bes'!r}, whose spacing "
                f"is multiplied by it, but has {np.size(self.x_scale)}: 'auto', 'snes', 'xnes' and "
                "'cma-es' take one for each parameter."
            )
        return float(checks.positive("x_scale", np.asarray(self.x_scale).reshape(()).item()))

    def rate(self, default: float) -> float:
        """The algorithm's own step size."""
        if self.learning_rate is None:
            return default
        return float(checks.positive("learning_rate", self.learning_rate))

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
                raise ValueError(f"`{name}` is not for method={self.method!r}: {why}")

    def refuse_noise(self) -> None:
        """An algorithm that looks at the order of values has no use for their errors."""
        if self.noise is not None:
            raise ValueError(
                f"`noise` is not for method={self.method!r}, which goes by the order of values or "
                "their deviation and gives all of them the same weight: leave it out. 'auto', "
                "'spsa' and the paper's methods weigh values by their errors."
            )
