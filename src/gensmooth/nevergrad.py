# pyright: reportPrivateUsage=false
"""Our methods for Nevergrad: ``import gensmooth.nevergrad`` adds them to its registry.

>>> import nevergrad as ng
>>> import gensmooth.nevergrad
>>> optimizer = ng.optimizers.registry["GensmoothAuto"](ng.p.Array(shape=(3,)), budget=300)
>>> optimizer.parametrization.random_state.seed(0)
>>> optimizer.minimize(lambda x: ((x - 2) ** 2).sum()).value.round(3)
array([2., 2., 2.])

Every method is registered: ``GensmoothAuto``, ``GensmoothBES``, ``GensmoothBESShrinkage`` and so
on. :class:`Gensmooth` takes their settings as arguments. The search runs in Nevergrad's
standardised space, whose unit is the scale of the parametrisation; bounds, integers, choices and
cheap constraints are handled by the parametrisation. A batch has at least as many points as there
are workers; asking for more points returns a point that is already being evaluated.
"""

import math
from typing import Any

try:
    from nevergrad.optimization import base
    from nevergrad.parametrization import parameter
except ImportError as error:
    raise ImportError(
        f"gensmooth.nevergrad needs {error.name}: pip install 'gensmooth[nevergrad]'",
        name=error.name,
    ) from None
import numpy as np

from gensmooth.estimators import Estimator
from gensmooth.optimizers import Optimizer
from gensmooth.points import PointByPoint, Ticket, make_search, usable
from gensmooth.searches import AUTO
from gensmooth.searches.wanted import Wanted

_TICKET_KEY = "gensmooth"  # the key under which a candidate stores its evaluation
_TOO_LARGE = 5e20  # Nevergrad replaces a NaN loss by this number


class GensmoothOptimizer(base.Optimizer):
    """The optimizer that Nevergrad runs; create it with :class:`Gensmooth` or from the registry."""

    def __init__(
        self,
        parametrization: Any,
        budget: int | None = None,
        num_workers: int = 1,
        *,
        method: str = AUTO,
        num_directions: int | None = None,
        population: int | None = None,
        spacing: float | None = None,
        learning_rate: float | None = None,
        estimator: Estimator | str | None = None,
        optimizer: Optimizer | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__(parametrization, budget=budget, num_workers=num_workers)
        wanted = Wanted(
            method=method,
            budget=budget,
            workers=num_workers,
            num_directions=num_directions,
            population=population,
            spacing=spacing,
            estimator=estimator,
            optimizer=optimizer,
            learning_rate=learning_rate,
            x_scale=None if scale == 1.0 else scale,  # a custom search need not take one
            unit=scale,
        )
        self._search = make_search(self.dimension, wanted)
        self._points: PointByPoint | None = None
        self._feasible: tuple[Any, float] | None = None

    @property
    def points(self) -> PointByPoint:
        """The search, started at the first use."""
        if self._points is None:
            seed = int(self._rng.randint(2**31, dtype=np.int64))
            self._points = PointByPoint(self._search, np.zeros(self.dimension), seed=seed)
        return self._points

    def _internal_ask_candidate(self) -> parameter.Parameter:
        ticket, x = self.points.ask()
        candidate = self.parametrization.spawn_child().set_standardized_data(x)
        candidate._meta[_TICKET_KEY] = ticket
        return candidate

    def _internal_tell_candidate(self, candidate: parameter.Parameter, loss: float) -> None:
        ticket: Ticket | None = candidate._meta.get(_TICKET_KEY)
        if ticket is None:  # moved to satisfy constraints: report it for the first pending point
            ticket = self.points.first_pending()
        if ticket is not None:
            self.points.tell(ticket, loss if loss < _TOO_LARGE else math.nan)
        better = self._feasible is None or loss < self._feasible[1]
        if self._constrained and better and candidate.satisfies_constraints():
            x = candidate.get_standardized_data(reference=self.parametrization)
            self._feasible = x, loss

    def _internal_tell_not_asked(self, candidate: parameter.Parameter, loss: float) -> None:
        """Ignore a point that we did not choose; Nevergrad itself may recommend it."""

    @property
    def _constrained(self) -> bool:
        return bool(self.parametrization._constraint_checkers)

    def _internal_provide_recommendation(self) -> Any:
        """Return the recommended point, or the best feasible one if constraints rule it out."""
        x = None if self._points is None else self._points.recommend()
        if not self._constrained or self._feasible is None:
            return x
        if x is not None:
            candidate = self.parametrization.spawn_child().set_standardized_data(x)
            if candidate.satisfies_constraints():
                return x
        return self._feasible[0]


class Gensmooth(base.ConfiguredOptimizer):
    """A gensmooth method with custom settings.

    Args:
        method: A method's name, or ``"auto"``, which needs no settings.
        num_directions: L; for ``"auto"``, the number of pairs with which its evolution strategy
            starts. By default 4 + ⌊3 ln d⌋, or as many as the workers need.
        population: As in :func:`gensmooth.minimize`.
        spacing: c, in units of the parametrisation; 0.1 by default. Not for ``"auto"``.
        learning_rate: As in :func:`gensmooth.minimize`.
        estimator: As in :func:`gensmooth.minimize`.
        optimizer: As in :func:`gensmooth.minimize`.
        scale: The distance between interesting values, in units of the parametrisation.

    >>> Gensmooth(method="bes", spacing=0.5)
    Gensmooth(method='bes', spacing=0.5)
    """

    def __init__(
        self,
        *,
        method: str = AUTO,
        num_directions: int | None = None,
        population: int | None = None,
        spacing: float | None = None,
        learning_rate: float | None = None,
        estimator: Estimator | str | None = None,
        optimizer: Optimizer | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__(GensmoothOptimizer, locals())


def registered_name(method: str) -> str:
    """Return the name of a method in Nevergrad's registry.

    >>> registered_name("auto"), registered_name("bes-shrinkage"), registered_name("cma-es")
    ('GensmoothAuto', 'GensmoothBESShrinkage', 'GensmoothCMAES')
    """
    short = ("gs", "bes", "es", "ars", "cma", "lmrs", "snes", "spsa", "xnes")
    parts = (part.upper() if part in short else part.title() for part in method.split("-"))
    return "Gensmooth" + "".join(parts)


def register(method: str) -> None:
    """Add a method, such as a custom one, to Nevergrad's registry."""
    name = registered_name(method)
    if name not in base.registry:
        Gensmooth(method=method).set_name(name, register=True)


for _method in usable():
    register(_method)
