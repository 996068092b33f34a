"""Algorithms from the literature under their usual names, with the settings of their sources.

``ars``, ``openai_es``, ``spsa`` and ``stars`` choose the directions, estimator, optimiser and
spacing of a :class:`~gensmooth.RandomSearch`. ``snes``, ``xnes``, ``cma`` and ``islands`` adapt a
distribution (:class:`~gensmooth.searches.algorithms.population.Population`). docs/methods.md says
what each one does and when to use it.
"""

from gensmooth.searches.algorithms import ars, openai_es, spsa, stars
from gensmooth.searches.algorithms.cma import CMAES
from gensmooth.searches.algorithms.islands import Islands
from gensmooth.searches.algorithms.population import Population
from gensmooth.searches.algorithms.snes import SNES
from gensmooth.searches.algorithms.table import (
    ALGORITHMS,
    Algorithm,
    Wanted,
    find,
    make,
    names,
    register,
    reserve,
    rows,
)
from gensmooth.searches.algorithms.xnes import XNES

reserve(*ALGORITHMS)

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
    "ars",
    "find",
    "make",
    "names",
    "openai_es",
    "register",
    "rows",
    "spsa",
    "stars",
]
