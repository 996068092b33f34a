"""For users of SciPy: our methods as ``method=`` of ``scipy.optimize.minimize``.

>>> import scipy.optimize
>>> import gensmooth as gs
>>> res = scipy.optimize.minimize(lambda x, a: ((x - a) ** 2).sum(), [0.0, 0.0], args=(3.0,),
...                               method=gs.scipy.method("auto"), bounds=[(0, 2), (0, 9)],
...                               options={"budget": 500, "seed": 0})
>>> res.x.round(3), res.success
(array([2., 3.]), True)
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, final

import numpy as np

from gensmooth import algorithms, checks, methods
from gensmooth.coordinates import Coordinates, inward
from gensmooth.optimize import minimize
from gensmooth.pilot import AUTO
from gensmooth.results import Result
from gensmooth.search import SearchState, StepInfo

# SciPy's words for options that are ours.
_WORDS = {
    "maxiter": "max_steps",
    "maxfev": "budget",
    "maxfun": "budget",
    "tol": "tolerance",
    "disp": "progress",
}


def method(name: str = "auto", **options: Any) -> "ScipyMethod":
    """A method for ``scipy.optimize.minimize(fun, x0, method=...)``.

    Args:
        name: The name of a method, as :func:`gensmooth.minimize` takes it.
        **options: Arguments of :func:`gensmooth.minimize`, which SciPy's ``options`` override.

    SciPy's ``args``, ``bounds``, ``callback``, ``tol`` and ``options`` are understood; ``options``
    are arguments of :func:`gensmooth.minimize`, and ``maxiter``, ``maxfev`` and ``disp`` mean
    ``max_steps``, ``budget`` and ``progress``. No derivatives are used, and there are no
    constraints but bounds.

    What SciPy returns has, beside SciPy's names, ``best_x``, ``best_fun``, ``error``, ``noise``,
    ``seed``, ``history`` and ``reason``, as :class:`gensmooth.Result` explains them.

    >>> method("bes-shrinkage", spacing=0.01)
    ScipyMethod(name='bes-shrinkage', options={'spacing': 0.01})
    """
    if name != AUTO and algorithms.find(name) is None:
        # An unknown one is an error that lists the known ones.
        methods.choose_directions(name, None, also=algorithms.names())
    return ScipyMethod(name, _understood(options))


@final
@dataclass(frozen=True)
class ScipyMethod:
    """What SciPy calls; see :func:`method`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(
        self,
        fun: Callable[..., Any],
        x0: Any,
        *,
        args: Any = (),
        jac: Any = None,
        hess: Any = None,
        hessp: Any = None,
        bounds: Any = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Any:
        """Minimise, as SciPy asks its own methods to."""
        optimize: Any = import_module("scipy.optimize")
        if np.size(constraints):
            raise ValueError(
                "gensmooth knows no `constraints` but `bounds`: add a penalty to the objective."
            )
        unused = {"jac": callable(jac), "hess": hess is not None, "hessp": hessp is not None}
        if names := ", ".join(f"`{name}`" for name, given in unused.items() if given):
            warnings.warn(f"gensmooth does not use derivatives: {names}.", RuntimeWarning, 3)
        given = {**self.options, **_understood(options)}
        told = None
        if callback is not None:
            start = inward(x0, bounds=bounds, log_scale=given.get("log_scale"))
            told = _Callback(callback, optimize.OptimizeResult, start.coordinates)
        found = minimize(
            fun,
            x0,
            args=args,
            method=self.name,
            bounds=bounds,
            callback=told,
            **given,
        )
        return _as_scipy(found, optimize.OptimizeResult)


def _understood(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options under our names."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        ours = _WORDS.get(name, name)
        if ours in found:
            raise ValueError(f"`{name}` and another of the options both mean `{ours}`.")
        found[ours] = value
    for name in ("fun", "x0", "args", "method", "bounds", "callback"):
        if name in found:
            raise ValueError(f"`{name}` is no option: give it to scipy.optimize.minimize itself.")
    return found


class _Callback:
    """The user's callback, called as SciPy calls it: ``(xk)`` or ``(intermediate_result=...)``."""

    def __init__(self, callback: Callable[..., Any], result: Any, coordinates: Coordinates) -> None:
        self._callback = checks.function("callback", callback)
        self._result = result
        self._coordinates = coordinates  # of what the search's state has
        try:
            names = set(inspect.signature(callback).parameters)
        except (TypeError, ValueError):  # built in
            names = set[str]()
        self._wants_result = names == {"intermediate_result"}

    def __call__(self, info: StepInfo, state: SearchState) -> bool:
        """Whether to stop: it raises ``StopIteration`` then, or returns True."""
        x = self._coordinates.outward(state.x)
        try:
            if self._wants_result:
                now = self._result(x=x, fun=info.value, nit=state.step, nfev=info.evaluations)
                return self._callback(intermediate_result=now) is True
            return self._callback(x) is True
        except StopIteration:
            return True


def _as_scipy(found: Result, result: Any) -> Any:
    return result(
        x=found.x,
        fun=found.fun,
        success=found.success or found.status == "callback",
        status=0 if found.success else 99 if found.status == "callback" else 1,
        message=found.message,
        nfev=found.nfev,
        nit=found.nit,
        reason=found.status,
        best_x=found.best_x,
        best_fun=found.best_fun,
        error=found.error,
        noise=found.noise,
        seed=found.seed,
        history=found.history,
    )
