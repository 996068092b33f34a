"""The compiled kernels. Importing their modules imports Numba, so nothing does before first use.

The first call of a kernel compiles it, which takes some seconds once a machine: the machine code
is cached on disk. `on_directions()` and `on_bases()` are how the rest of the program reaches them.
"""

import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast


@cache
def on_directions() -> ModuleType:
    """The kernels on directions, :mod:`gensmooth.kernels.laws`."""
    from gensmooth.kernels import laws

    _announce(cast(Any, laws).combine)
    return laws


@cache
def on_bases() -> ModuleType:
    """The kernels on orthogonal bases, :mod:`gensmooth.kernels.bases`."""
    from gensmooth.kernels import bases

    return bases


def _announce(kernel: Any) -> None:
    """Say on a terminal that the next seconds are compilation, if the cache is empty."""
    where = Path(kernel.stats.cache_path)
    if sys.stderr.isatty() and not any(where.glob("laws.combine-*.nbi")):
        print("gensmooth: compiling its kernels, once on this machine (10 s)…", file=sys.stderr)
