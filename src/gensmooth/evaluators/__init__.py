"""Evaluators: where and how the objective is called."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gensmooth.evaluators.base import (
    Evaluated,
    EvaluationError,
    Evaluator,
    Session,
    WorkerError,
    as_evaluator,
    cores,
)
from gensmooth.evaluators.objective import Objective
from gensmooth.evaluators.serial import Serial

if TYPE_CHECKING:
    from gensmooth.evaluators.maplike import MapLike
    from gensmooth.evaluators.processes import Processes
    from gensmooth.evaluators.ray import Ray
    from gensmooth.evaluators.threads import Threads

__all__ = [
    "Evaluated",
    "EvaluationError",
    "Evaluator",
    "MapLike",
    "Objective",
    "Processes",
    "Ray",
    "Serial",
    "Session",
    "Threads",
    "WorkerError",
    "as_evaluator",
    "cores",
]

_MODULE_OF = {"MapLike": "maplike", "Processes": "processes", "Ray": "ray", "Threads": "threads"}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"gensmooth.evaluators.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'gensmooth.evaluators' has no attribute {name!r}")
