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
from pathlib import Path
from typing import Any


def _loader(name: str, kernel: str) -> Callable[[], Any]:
    """Return a function that imports a module; ``kernel`` is one of its kernels."""
    return cache(lambda: _load(name, kernel))


on_signs = _loader("signs", "estimate")  # packed signs
on_laws = _loader("laws", "estimate")  # other directions
on_bases = _loader("bases", "gram_schmidt")  # orthogonal bases
on_subsets = _loader("subsets", "choose")  # random coordinates
on_subspaces = _loader("subspaces", "eigen")  # principal subspaces
on_factors = _loader("factors", "perturb")  # products of factors
on_moments = _loader("moments", "moments")  # adaptive distributions
on_ranks = _loader("ranks", "share_out")  # ranks of values
on_steps = _loader("steps", "adam")  # optimiser steps
on_tensors = _loader("tensors", "move")  # the parameters of a model


@cache
def on_sums() -> Any:
    """Import the sums in a fixed order; they compile quickly, so no message is printed."""
    _spare_scipy()
    return import_module("gensmooth.kernels.sums")


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


def _load(name: str, kernel: str) -> Any:
    """Import kernels; on a terminal, print a message if they have to be compiled first."""
    _spare_scipy()
    module: Any = import_module(f"gensmooth.kernels.{name}")
    cache_folder = Path(getattr(module, kernel).stats.cache_path)
    if getattr(sys.stderr, "isatty", bool)() and not any(
        cache_folder.glob(f"{name}.{kernel}-*.nbi")
    ):
        _announce()
    return module


@cache
def _announce() -> None:
    print("gensmooth: compiling kernels, about 10 s, once on this machine…", file=sys.stderr)
