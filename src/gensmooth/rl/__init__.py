"""Reinforcement learning: the return of a policy in a simulator as the objective.

>>> import gensmooth as gs
>>> gs.rl.MLP(hidden=(32,)).policy(observation_size=11, action_size=3)
Policy(sizes=(11, 32, 3), biases=True)

Names are imported when first used; Gymnasium and MuJoCo only when an environment is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gensmooth.rl.normalize import Scaling, Statistics
    from gensmooth.rl.policies import MLP, Linear, Policy

_HOME = {
    "gensmooth.rl.normalize": "Scaling Statistics",
    "gensmooth.rl.policies": "MLP Linear Policy",
}
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}

__all__ = ["MLP", "Linear", "Policy", "Scaling", "Statistics"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gensmooth.rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
