"""Our methods as the ``method=`` argument of ``scipy.optimize.minimize``.

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

from gensmooth import checks
from gensmooth.directions import choose_directions
from gensmooth.optimize import minimize
from gensmooth.results import IntermediateResult, Result
from gensmooth.searches import AUTO, algorithms

# SciPy's names for our options.
_SCIPY_NAMES = {
    "maxiter": "max_steps",
    "maxfev": "budget",
    "maxfun": "budget",
    "tol": "tolerance",
    "disp": "progress",
}


def method(name: str = "auto", **options: Any) -> "ScipyMethod":
    """Return a method for ``scipy.optimize.minimize(fun, x0, method=...)``.

    Args:
        name: The name of a method, as in :func:`gensmooth.minimize`.
        **options: Arguments of :func:`gensmooth.minimize`, which SciPy's ``options`` override.

    SciPy's ``args``, ``bounds``, ``callback``, ``tol`` and ``options`` are supported. ``options``
    are arguments of :func:`gensmooth.minimize`; ``maxiter``, ``maxfev`` and ``disp`` mean
    ``max_steps``, ``budget`` and ``progress``. Derivatives are not used, and bounds are the only
    constraints.

    Besides SciPy's attributes, the result has ``best_x``, ``best_fun``, ``error``, ``noise``,
    ``seed``, ``history`` and ``reason`` of :class:`gensmooth.Result`.

    >>> method("bes-shrinkage", spacing=0.01)
    ScipyMethod(name='bes-shrinkage', options={'spacing': 0.01})
    """
    if name != AUTO and algorithms.find(name) is None:
        # Raises an error that lists the known names.
        choose_directions(name, None, also=[AUTO, *algorithms.names()])
    return ScipyMethod(name, _translated(options))


@final
@dataclass(frozen=True)
class ScipyMethod:
    """The callable that SciPy calls; see :func:`method`."""

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
        """Minimise ``fun``, with the arguments that SciPy passes to a custom method."""
        optimize: Any = import_module("scipy.optimize")
        if np.size(constraints):
            raise ValueError(
                "gensmooth does not support `constraints`, only `bounds`: add a penalty to the "
                "objective."
            )
        unused = {"jac": callable(jac), "hess": hess is not None, "hessp": hessp is not None}
        if names := ", ".join(f"`{name}`" for name, passed in unused.items() if passed):
            warnings.warn(
                f"gensmooth does not use derivatives, so it ignores {names}.", RuntimeWarning, 3
            )
        settings = {**self.options, **_translated(options)}
        on_step = None
        if callback is not None:
            on_step = _Callback(callback, optimize.OptimizeResult)
        result = minimize(
            fun, x0, args=args, method=self.name, bounds=bounds, callback=on_step, **settings
        )
        return _as_scipy(result, optimize.OptimizeResult)


def _translated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under our names."""
    translated: dict[str, Any] = {}
    for name, value in options.items():
        ours = _SCIPY_NAMES.get(name, name)
        if ours in translated:
            raise ValueError(f"`{name}` and another option both mean `{ours}`: pass only one.")
        translated[ours] = value
    for name in ("fun", "x0", "args", "method", "bounds", "callback"):
        if name in translated:
            raise ValueError(
                f"`{name}` is not an option: pass it to scipy.optimize.minimize itself."
            )
    return translated


class _Callback:
    """The user's callback, called like SciPy's: ``(xk)`` or ``(intermediate_result=...)``."""

    def __init__(self, callback: Callable[..., Any], result: Any) -> None:
        self._callback = checks.function("callback", callback)
        self._result = result
        try:
            names = set(inspect.signature(callback).parameters)
        except (TypeError, ValueError):  # a built-in function
            names = set[str]()
        self._wants_result = names == {"intermediate_result"}

    def __call__(self, intermediate: IntermediateResult) -> bool:
        """Call the callback; return whether it asked to stop by returning True."""
        if self._wants_result:
            result = self._result(
                x=intermediate.x, fun=intermediate.fun, nit=intermediate.nit, nfev=intermediate.nfev
            )
            return self._callback(intermediate_result=result) is True
        return self._callback(intermediate.x) is True


def _as_scipy(result: Result, scipy_result: Any) -> Any:
    names = (
        *("x", "fun", "success", "status", "message", "nfev", "nit", "reason"),
        *("best_x", "best_fun", "error", "noise", "seed", "history"),
    )
    success = result.success or result.reason == "callback"
    return scipy_result({name: result[name] for name in names} | {"success": success})
