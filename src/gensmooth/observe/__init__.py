"""Following a run: the live table, plain lines, TensorBoard, Weights & Biases, MLflow.

All of them are trackers: three methods, ``start``, ``step`` and ``end``. Pass some to
``gs.minimize(..., trackers=[...])``, or write your own. The guide is ``docs/observability.md``.
"""

from gensmooth.observe.base import Observers, Progress, Start, Tracker, scalars
from gensmooth.observe.display import Lines, LiveTable, display
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
