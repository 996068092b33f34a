"""The compiled kernels. Their modules import Numba, so they are imported at first use.

The first call of a kernel compiles it, which takes a few seconds. The machine code is cached on
disk, so this happens once per machine. The rest of the program loads the modules with the functions
``on_signs()`` to ``on_sums()``.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def _loader(name: str) -> Callable[[], Any]:
    """Return a function that imports a module of kernels."""
    return cache(lambda: _load(name))


on_signs = _loader("signs")  # packed signs
on_laws = _loader("laws")  # other directions
on_bases = _loader("bases")  # orthogonal bases
on_subsets = _loader("subsets")  # random coordinates
on_subspaces = _loader("subspaces")  # principal subspaces
on_factors = _loader("factors")  # products of factors
on_moments = _loader("moments")  # adaptive distributions
on_ranks = _loader("ranks")  # ranks of values
on_steps = _loader("steps")  # optimiser steps
on_sums = _loader("sums")  # sums in a fixed order
on_tensors = _loader("tensors")  # the parameters of a model


def of(law: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernels for a law, and the law as their first arguments."""
    if type(law).__name__ == "SignLaw":
        return on_signs(), law  # field by field: a tuple would cost half a microsecond per call
    return on_laws(), (law,)


@cache
def _spare_scipy() -> None:
    """Keep Numba from importing SciPy's linear algebra, a quarter of a worker's start-up time.

    Numba imports it with the first kernel, only to find out whether it is available. Here, that
    check is skipped if SciPy is installed. A function that does need linear algebra, such as one
    with ``np.dot``, still imports it when it is compiled.
    """
    try:
        linalg: Any = import_module("numba.np.linalg")
        original = linalg.ensure_blas
    except (ImportError, AttributeError):  # another version of Numba: leave it alone
        return
    if "scipy.linalg" not in sys.modules and find_spec("scipy") is not None:
        linalg.ensure_blas = lambda: None
        try:
            import_module("numba.np.arraymath").ensure_blas = original  # type: ignore[attr-defined]
        finally:
            linalg.ensure_blas = original


def _load(name: str) -> Any:
    _spare_scipy()
    if getattr(sys.stderr, "isatty", bool)():
        _watch_compiler()
    return import_module(f"gensmooth.kernels.{name}")


@cache
def _watch_compiler() -> None:
    """Have a message printed when Numba begins to compile one of our kernels."""
    events: Any = import_module("numba.core.event")

    class Announcer(events.Listener):
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__ in _SLOW:
                _announce()

        def on_end(self, event: Any) -> None: ...

    events.register("numba:compile", Announcer())


_SLOW = [f"gensmooth.kernels.{name}" for name in ("signs", "laws", "bases", "tensors")]


@cache
def _announce() -> None:
    print("gensmooth: compiling kernels, 10 to 15 s, once on this machine…", file=sys.stderr)
