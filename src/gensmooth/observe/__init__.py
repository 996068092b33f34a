"""Monitoring a run: a live table, plain lines, TensorBoard, Weights & Biases, MLflow.

Each of these is a tracker: an object with the methods ``start``, ``step`` and ``end``. Pass
trackers to ``gs.minimize(..., trackers=[...])``, or write your own. See ``docs/observability.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gensmooth.observe.observers import Observers, Progress, Start, StepData, Tracker, scalars

if TYPE_CHECKING:
    from gensmooth.observe.table import Lines, LiveTable, display
    from gensmooth.observe.trackers import MLflow, TensorBoard, WandB

_MODULE_OF = {
    **dict.fromkeys(("Lines", "LiveTable", "display"), "table"),
    **dict.fromkeys(("MLflow", "TensorBoard", "WandB"), "trackers"),
}

__all__ = [
    "Lines",
    "LiveTable",
    "MLflow",
    "Observers",
    "Progress",
    "Start",
    "StepData",
    "TensorBoard",
    "Tracker",
    "WandB",
    "display",
    "scalars",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"gensmooth.observe.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'gensmooth.observe' has no attribute {name!r}")
