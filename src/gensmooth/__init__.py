"""Derivative-free optimisation by random search, with the best directions for the job.

>>> import gensmooth as gs
>>> res = gs.minimize(lambda x: ((x - 1) ** 2).sum(), [0.0] * 5, budget=3000, seed=0)
>>> res.x.round(1)
array([1., 1., 1., 1., 1.])

Names are imported when first used: ``import gensmooth`` itself costs NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gensmooth._version import __version__

if TYPE_CHECKING:
    from gensmooth import (
        checkpoint,
        directions,
        estimators,
        evaluators,
        methods,
        observe,
        optimizers,
        rl,
        runs,
        search,
        streams,
        theory,
    )
    from gensmooth.comparisons import Comparison, Sweep, compare, sweep
    from gensmooth.directions import (
        IID,
        Bernoulli,
        Directions,
        Gaussian,
        Guided,
        NoClosedForm,
        Orthogonal,
        OrthogonalBernoulli,
        Sphere,
        shrunk,
    )
    from gensmooth.estimators import Antithetic, ForwardDifference, OnePoint, Ranked
    from gensmooth.evaluators import EvaluationError
    from gensmooth.methods import METHODS, method
    from gensmooth.optimize import Result, gradient, load, minimize, resume
    from gensmooth.optimizers import (
        Optimizer,
        adam,
        cosine_decay,
        exponential_decay,
        greedy,
        inverse_decay,
        momentum,
        sgd,
    )
    from gensmooth.parameters import Bounds
    from gensmooth.pilot import Pilot
    from gensmooth.runs import CheckpointError
    from gensmooth.search import GradientEstimate, RandomSearch, SearchState, StepInfo

_HOME = {
    "gensmooth.comparisons": "Comparison Sweep compare sweep",
    "gensmooth.directions": (
        "IID Bernoulli Directions Gaussian Guided NoClosedForm Orthogonal OrthogonalBernoulli "
        "Sphere shrunk"
    ),
    "gensmooth.estimators": "Antithetic ForwardDifference OnePoint Ranked",
    "gensmooth.evaluators": "EvaluationError",
    "gensmooth.methods": "METHODS method",
    "gensmooth.optimize": "Result gradient load minimize resume",
    "gensmooth.optimizers": (
        "Optimizer adam cosine_decay exponential_decay greedy inverse_decay momentum sgd"
    ),
    "gensmooth.parameters": "Bounds",
    "gensmooth.pilot": "Pilot",
    "gensmooth.runs": "CheckpointError",
    "gensmooth.search": "GradientEstimate RandomSearch SearchState StepInfo",
}
_MODULES = (
    "checkpoint",
    "directions",
    "estimators",
    "evaluators",
    "jax",
    "methods",
    "models",
    "observe",
    "optimizers",
    "pure",
    "rl",
    "runs",
    "search",
    "streams",
    "theory",
)
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}

__all__ = [
    "IID",
    "METHODS",
    "Antithetic",
    "Bernoulli",
    "Bounds",
    "CheckpointError",
    "Comparison",
    "Directions",
    "EvaluationError",
    "ForwardDifference",
    "Gaussian",
    "GradientEstimate",
    "Guided",
    "NoClosedForm",
    "OnePoint",
    "Optimizer",
    "Orthogonal",
    "OrthogonalBernoulli",
    "Pilot",
    "RandomSearch",
    "Ranked",
    "Result",
    "SearchState",
    "Sphere",
    "StepInfo",
    "Sweep",
    "__version__",
    "adam",
    "checkpoint",
    "compare",
    "cosine_decay",
    "directions",
    "estimators",
    "evaluators",
    "exponential_decay",
    "gradient",
    "greedy",
    "inverse_decay",
    "load",
    "method",
    "methods",
    "minimize",
    "momentum",
    "observe",
    "optimizers",
    "resume",
    "rl",
    "runs",
    "search",
    "sgd",
    "shrunk",
    "streams",
    "sweep",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"gensmooth.{name}")
    raise AttributeError(f"module 'gensmooth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
