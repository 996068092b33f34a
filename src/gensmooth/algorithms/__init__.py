"""Algorithms of the literature under their own names: whole searches, with their sources' numbers.

Those that are a choice of directions, estimator, optimiser and spacing are made of these parts
(:mod:`~gensmooth.algorithms.ars`, :mod:`~gensmooth.algorithms.openai_es`,
:mod:`~gensmooth.algorithms.spsa`, :mod:`~gensmooth.algorithms.stars`); those that keep a whole
distribution are searches of their own
(:mod:`~gensmooth.algorithms.snes`, :mod:`~gensmooth.algorithms.xnes`,
:mod:`~gensmooth.algorithms.cma`). What each does, and when to use it: docs/methods.md.
"""

from gensmooth.algorithms import ars, openai_es, spsa, stars
from gensmooth.algorithms.cma import CMAES
from gensmooth.algorithms.islands import Islands
from gensmooth.algorithms.population import Population
from gensmooth.algorithms.snes import SNES
from gensmooth.algorithms.table import (
    ALGORITHMS,
    Algorithm,
    Wanted,
    algorithm,
    find,
    make,
    names,
    rows,
)
from gensmooth.algorithms.xnes import XNES

POPULATIONS: dict[str, type[Population]] = {
    "cma-es": CMAES,
    "islands": Islands,
    "snes": SNES,
    "xnes": XNES,
}

__all__ = [
    "ALGORITHMS",
    "CMAES",
    "POPULATIONS",
    "SNES",
    "XNES",
    "Algorithm",
    "Islands",
    "Population",
    "Wanted",
    "algorithm",
    "ars",
    "find",
    "make",
    "names",
    "openai_es",
    "rows",
    "spsa",
    "stars",
]
