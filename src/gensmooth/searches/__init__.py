"""Searches: which points to evaluate next, and how to use their values.

:mod:`~gensmooth.searches.protocol` defines the interface. It is implemented by

- :class:`RandomSearch`: directions × estimator × optimizer, the paper's methods;
- :class:`Pilot`, the default, which coordinates :class:`QuasiNewton`, :class:`MirroredES` and
  :class:`GreedyDescent` (docs/pilot.md explains how and why);
- the :mod:`~gensmooth.searches.algorithms` from the literature.
"""

from gensmooth.searches.algorithms import register
from gensmooth.searches.descent import GreedyDescent
from gensmooth.searches.mirrored_es import MirroredES
from gensmooth.searches.pilot import AUTO, Pilot
from gensmooth.searches.protocol import (
    FailurePolicy,
    FinalValue,
    GradientEstimate,
    Search,
    SearchState,
    StepInfo,
    Wire,
)
from gensmooth.searches.quasi_newton import QuasiNewton
from gensmooth.searches.random_search import RandomSearch

__all__ = [
    "AUTO",
    "FailurePolicy",
    "FinalValue",
    "GradientEstimate",
    "GreedyDescent",
    "MirroredES",
    "Pilot",
    "QuasiNewton",
    "RandomSearch",
    "Search",
    "SearchState",
    "StepInfo",
    "Wire",
    "register",
]
