"""Reinforcement learning: the return of a policy in a simulator as the objective.

>>> import gensmooth as gs
>>> gs.rl.MLP(hidden=(32,)).policy(observation_size=11, action_size=3)
Policy(sizes=(11, 32, 3), biases=True)

Names are imported on first use; Gymnasium and MuJoCo only when an environment is created.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gensmooth.physics.custom import Robot, register_robot
    from gensmooth.rl.environments.base import (
        EnvironmentInfo,
        Simulator,
        UnknownEnvironmentError,
        UnsupportedEnvironmentError,
    )
    from gensmooth.rl.environments.catalogue import make
    from gensmooth.rl.evaluation import Evaluation, evaluate
    from gensmooth.rl.front import resume, train
    from gensmooth.rl.normalize import Scaling, Statistics
    from gensmooth.rl.policies import MLP, Linear, Policy
    from gensmooth.rl.policy_file import TrainedPolicy, load_policy
    from gensmooth.rl.program import TrainResult
    from gensmooth.rl.rendering import Film, render
    from gensmooth.rl.zoo_catalogue import ZooPolicy, zoo

_HOME = {
    **dict.fromkeys(("EnvironmentInfo", "Simulator"), "environments.base"),
    **dict.fromkeys(
        ("UnknownEnvironmentError", "UnsupportedEnvironmentError"), "environments.base"
    ),
    "make": "environments.catalogue",
    **dict.fromkeys(("Robot", "register_robot"), "gensmooth.physics.custom"),
    **dict.fromkeys(("Evaluation", "evaluate"), "evaluation"),
    **dict.fromkeys(("Scaling", "Statistics"), "normalize"),
    **dict.fromkeys(("MLP", "Linear", "Policy"), "policies"),
    **dict.fromkeys(("TrainedPolicy", "load_policy"), "policy_file"),
    **dict.fromkeys(("Film", "render"), "rendering"),
    **dict.fromkeys(("resume", "train"), "front"),
    "TrainResult": "program",
    **dict.fromkeys(("ZooPolicy", "zoo"), "zoo_catalogue"),
}

__all__ = [
    "MLP",
    "EnvironmentInfo",
    "Evaluation",
    "Film",
    "Linear",
    "Policy",
    "Robot",
    "Scaling",
    "Simulator",
    "Statistics",
    "TrainResult",
    "TrainedPolicy",
    "UnknownEnvironmentError",
    "UnsupportedEnvironmentError",
    "ZooPolicy",
    "evaluate",
    "load_policy",
    "make",
    "register_robot",
    "render",
    "resume",
    "train",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        home = _HOME[name]
        full = home if home.startswith("gensmooth.") else f"gensmooth.rl.{home}"
        value = getattr(import_module(full), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gensmooth.rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
