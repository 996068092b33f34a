"""The compiled kernels. Importing their modules imports Numba, so nothing does before first use.

The first call of a kernel compiles it, which takes some seconds once per machine: the machine code
is cached on disk. The functions here are how the rest of the program reaches the kernels.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@cache
def on_signs() -> Any:
    """The kernels on packed signs, :mod:`gensmooth.kernels.signs`."""
    return _load("signs", "estimate")


@cache
def on_laws() -> Any:
    """The kernels on other directions, :mod:`gensmooth.kernels.laws`."""
    return _load("laws", "estimate")


@cache
def on_bases() -> Any:
    """The kernels on orthogonal bases, :mod:`gensmooth.kernels.bases`."""
    return _load("bases", "gram_schmidt")


@cache
def on_subsets() -> Any:
    """The kernels on random coordinates, :mod:`gensmooth.kernels.subsets`."""
    return _load("subsets", "choose")


@cache
def on_subspaces() -> Any:
    """The kernels on principal subspaces, :mod:`gensmooth.kernels.subspaces`."""
    return _load("subspaces", "eigen")


@cache
def on_factors() -> Any:
    """The kernels on products of factors, :mod:`gensmooth.kernels.factors`."""
    return _load("factors", "perturb")


@cache
def on_moments() -> Any:
    """The kernels of distributions that adapt, :mod:`gensmooth.kernels.moments`."""
    return _load("moments", "moments")


@cache
def on_ranks() -> Any:
    """The ranks of a step's values, :mod:`gensmooth.kernels.ranks`."""
    return _load("ranks", "share_out")


@cache
def on_steps() -> Any:
    """The steps of optimisers, :mod:`gensmooth.kernels.steps`."""
    return _load("steps", "adam")


@cache
def on_tensors() -> Any:
    """The kernels on the memory of a model's parameters, :mod:`gensmooth.kernels.tensors`."""
    return _load("tensors", "move")


@cache
def on_sums() -> Any:
    """Sums in a fixed order, :mod:`gensmooth.kernels.sums`."""
    _spare_scipy()
    return import_module("gensmooth.kernels.sums")


def of(law: Any) -> tuple[Any, tuple[Any, ...]]:
    """The kernels that read a law, and the arguments by which they take it."""
    if type(law).__name__ == "SignLaw":
        return on_signs(), law  # field by field: a tuple costs each call half a microsecond
    return on_laws(), (law,)


@cache
def _spare_scipy() -> None:
    """Keep Numba from importing SciPy's linear algebra, a quarter of the time of a worker's start.

    Numba imports it with its first kernel, only to learn whether it is there. Here it is told
    whether SciPy is installed. A compiled function that does use it, such as one with ``np.dot``,
    imports it when it is compiled.
    """
    try:
        linalg: Any = import_module("numba.np.linalg")
        ask = linalg.ensure_blas
    except (ImportError, AttributeError):  # another Numba, which has to do as it likes
        return
    if "scipy.linalg" not in sys.modules and find_spec("scipy") is not None:
        linalg.ensure_blas = lambda: None
        try:
            import_module("numba.np.arraymath").ensure_blas = ask  # type: ignore[attr-defined]
        finally:
            linalg.ensure_blas = ask


def _load(name: str, kernel: str) -> Any:
    """Import kernels; on a terminal, say so if the next seconds go into compiling them."""
    _spare_scipy()
    module: Any = import_module(f"gensmooth.kernels.{name}")
    cache_folder = Path(getattr(module, kernel).stats.cache_path)
    if getattr(sys.stderr, "isatty", bool)() and not any(
        cache_folder.glob(f"{name}.{kernel}-*.nbi")
    ):
        print(
            f"gensmooth: compiling kernels ({name}), once on this machine, some seconds…",
            file=sys.stderr,
        )
    return module
