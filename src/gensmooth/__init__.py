"""Derivative-free optimisation by random search, with the best directions for the job.

>>> import gensmooth as gs
>>> res = gs.minimize(lambda x: ((x - 1) ** 2).sum(), [0.0] * 5, budget=3000, seed=0)
>>> res.x.round(1)
array([1., 1., 1., 1., 1.])

Names are imported when they are first used: ``import gensmooth`` itself imports only NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gensmooth._version import __version__

if TYPE_CHECKING:
    from gensmooth import (
        directions,
        estimators,
        evaluators,
        observe,
        optimizers,
        rl,
        runs,
        scipy,
        searches,
        streams,
        theory,
    )
    from gensmooth.directions import (
        IID,
        Bernoulli,
        Directions,
        Gaussian,
        Guided,
        Learned,
        LowRank,
        NoClosedForm,
        Orthogonal,
        OrthogonalBernoulli,
        Sparse,
        Sphere,
        Stars,
        shrunk,
    )
    from gensmooth.estimators import (
        Antithetic,
        BestPairs,
        CenteredRanks,
        ForwardDifference,
        OnePoint,
        Ranked,
    )
    from gensmooth.evaluators import EvaluationError
    from gensmooth.lab.compare import Comparison, compare
    from gensmooth.lab.sweep import Sweep, sweep
    from gensmooth.optimize import gradient, minimize, resume
    from gensmooth.optimizers import (
        Optimizer,
        adam,
        cosine_decay,
        exponential_decay,
        greedy,
        inverse_decay,
        momentum,
        sgd,
        spall,
        weight_decay,
    )
    from gensmooth.parameters import Bounds
    from gensmooth.results import IntermediateResult, Result, load
    from gensmooth.runs import CheckpointError
    from gensmooth.searches import (
        GradientEstimate,
        GreedyDescent,
        MirroredES,
        Pilot,
        QuasiNewton,
        RandomSearch,
        Search,
        SearchState,
        StepInfo,
    )
    from gensmooth.searches.algorithms import CMAES, SNES, XNES
    from gensmooth.searches.choose import methods, search
    from gensmooth.trees import Tree

_EXPORTS = {
    "gensmooth.lab.compare": "Comparison compare",
    "gensmooth.lab.sweep": "Sweep sweep",
    "gensmooth.directions": (
        "IID Bernoulli Directions Gaussian Guided Learned LowRank NoClosedForm Orthogonal "
        "OrthogonalBernoulli Sparse Sphere Stars shrunk"
    ),
    "gensmooth.estimators": (
        "Antithetic BestPairs CenteredRanks ForwardDifference OnePoint Ranked"
    ),
    "gensmooth.evaluators": "EvaluationError",
    "gensmooth.optimize": "gradient minimize resume",
    "gensmooth.optimizers": (
        "Optimizer adam cosine_decay exponential_decay greedy inverse_decay momentum sgd spall "
        "weight_decay"
    ),
    "gensmooth.parameters": "Bounds",
    "gensmooth.results": "IntermediateResult Result load",
    "gensmooth.runs": "CheckpointError",
    "gensmooth.searches": (
        "GradientEstimate GreedyDescent MirroredES Pilot QuasiNewton RandomSearch Search "
        "SearchState StepInfo"
    ),
    "gensmooth.searches.algorithms": "CMAES SNES XNES",
    "gensmooth.searches.choose": "methods search",
    "gensmooth.trees": "Tree",
}
_MODULES = (
    *("directions", "estimators", "evaluators", "jax", "models", "nevergrad", "observe"),
    *("optimizers", "optuna", "pure", "rl", "runs", "scipy", "searches", "streams", "theory"),
    "torch",
)
_MODULE_OF = {name: home for home, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "CMAES",
    "IID",
    "SNES",
    "XNES",
    "Antithetic",
    "Bernoulli",
    "BestPairs",
    "Bounds",
    "CenteredRanks",
    "CheckpointError",
    "Comparison",
    "Directions",
    "EvaluationError",
    "ForwardDifference",
    "Gaussian",
    "GradientEstimate",
    "GreedyDescent",
    "Guided",
    "IntermediateResult",
    "Learned",
    "LowRank",
    "MirroredES",
    "NoClosedForm",
    "OnePoint",
    "Optimizer",
    "Orthogonal",
    "OrthogonalBernoulli",
    "Pilot",
    "QuasiNewton",
    "RandomSearch",
    "Ranked",
    "Result",
    "Search",
    "SearchState",
    "Sparse",
    "Sphere",
    "Stars",
    "StepInfo",
    "Sweep",
    "Tree",
    "__version__",
    "adam",
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
    "methods",
    "minimize",
    "momentum",
    "observe",
    "optimizers",
    "resume",
    "rl",
    "runs",
    "scipy",
    "search",
    "searches",
    "sgd",
    "shrunk",
    "spall",
    "streams",
    "sweep",
    "theory",
    "weight_decay",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"gensmooth.{name}")
    message = f"module 'gensmooth' has no attribute {name!r}"
    if name in ("method", "METHODS", "algorithm", "algorithms"):
        message += ": gs.methods() lists the methods, and gs.search(name, x0) creates a search"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return __all__
