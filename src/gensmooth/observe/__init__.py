"""Following a run: the live table, plain lines, TensorBoard, Weights & Biases, MLflow.

All of them are trackers: three methods, ``start``, ``step`` and ``end``. Pass some to
``gs.minimize(..., trackers=[...])``, or write your own. The guide is ``docs/observability.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gensmooth.observe.display import Lines, LiveTable, display
from gensmooth.runs.observers import Observers, Progress, Start, Tracker, scalars

if TYPE_CHECKING:
    from gensmooth.observe.trackers import MLflow, TensorBoard, WandB

__all__ = [
    "Lines",
    "LiveTable",
    "MLflow",
    "Observers",
    "Progress",
    "Start",
    "TensorBoard",
    "Tracker",
    "WandB",
    "display",
    "scalars",
]


def __getattr__(name: str) -> Any:
    if name in ("MLflow", "TensorBoard", "WandB"):
        return getattr(import_module("gensmooth.observe.trackers"), name)
    raise AttributeError(f"module 'gensmooth.observe' has no attribute {name!r}")
