"""Reinforcement learning: the return of a policy in a simulator as the objective.

>>> import gensmooth as gs
>>> gs.rl.MLP(hidden=(32,)).policy(observation_size=11, action_size=3)
Policy(sizes=(11, 32, 3), biases=True)

Names are imported when first used; Gymnasium and MuJoCo only when an environment is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gensmooth.rl.environments.base import (
        Info,
        Simulator,
        UnknownEnvironmentError,
        UnsupportedEnvironmentError,
    )
    from gensmooth.rl.environments.catalogue import make
    from gensmooth.rl.evaluation import Evaluation, evaluate
    from gensmooth.rl.normalize import Scaling, Statistics
    from gensmooth.rl.policies import MLP, Linear, Policy
    from gensmooth.rl.policy_file import TrainedPolicy, load_policy
    from gensmooth.rl.rendering import Film, render
    from gensmooth.rl.training import TrainResult, resume, train

_HOME = {
    "gensmooth.rl.environments.base": (
        "Info Simulator UnknownEnvironmentError UnsupportedEnvironmentError"
    ),
    "gensmooth.rl.environments.catalogue": "make",
    "gensmooth.rl.evaluation": "Evaluation evaluate",
    "gensmooth.rl.normalize": "Scaling Statistics",
    "gensmooth.rl.policies": "MLP Linear Policy",
    "gensmooth.rl.policy_file": "TrainedPolicy load_policy",
    "gensmooth.rl.rendering": "Film render",
    "gensmooth.rl.training": "TrainResult resume train",
}
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}

__all__ = [
    "MLP",
    "Evaluation",
    "Film",
    "Info",
    "Linear",
    "Policy",
    "Scaling",
    "Simulator",
    "Statistics",
    "TrainResult",
    "TrainedPolicy",
    "UnknownEnvironmentError",
    "UnsupportedEnvironmentError",
    "evaluate",
    "load_policy",
    "make",
    "render",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gensmooth.rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
