"""The compiled kernels. Their modules import Numba, so they are imported at first use.

The first call of a kernel compiles it, which takes a few seconds. The machine code is cached on
disk, so this happens once per machine. The rest of the program loads the kernels with these
functions.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@cache
def on_signs() -> Any:
    """Load the kernels for packed signs, :mod:`gensmooth.kernels.signs`."""
    return _load("signs", "estimate")


@cache
def on_laws() -> Any:
    """Load the kernels for other directions, :mod:`gensmooth.kernels.laws`."""
    return _load("laws", "estimate")


@cache
def on_bases() -> Any:
    """Load the kernels for orthogonal bases, :mod:`gensmooth.kernels.bases`."""
    return _load("bases", "gram_schmidt")


@cache
def on_subsets() -> Any:
    """Load the kernels for random coordinates, :mod:`gensmooth.kernels.subsets`."""
    return _load("subsets", "choose")


@cache
def on_subspaces() -> Any:
    """Load the kernels for principal subspaces, :mod:`gensmooth.kernels.subspaces`."""
    return _load("subspaces", "eigen")


@cache
def on_factors() -> Any:
    """Load the kernels for products of factors, :mod:`gensmooth.kernels.factors`."""
    return _load("factors", "perturb")


@cache
def on_moments() -> Any:
    """Load the kernels for adaptive distributions, :mod:`gensmooth.kernels.moments`."""
    return _load("moments", "moments")


@cache
def on_ranks() -> Any:
    """Load the kernels for ranks of values, :mod:`gensmooth.kernels.ranks`."""
    return _load("ranks", "share_out")


@cache
def on_steps() -> Any:
    """Load the kernels for optimiser steps, :mod:`gensmooth.kernels.steps`."""
    return _load("steps", "adam")


@cache
def on_tensors() -> Any:
    """Load the kernels for the parameters of a model, :mod:`gensmooth.kernels.tensors`."""
    return _load("tensors", "move")


@cache
def on_sums() -> Any:
    """Load the sums in a fixed order, :mod:`gensmooth.kernels.sums`."""
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
        print(
            f"gensmooth: compiling kernels ({name}); this takes a few seconds, once per machine…",
            file=sys.stderr,
        )
    return module
