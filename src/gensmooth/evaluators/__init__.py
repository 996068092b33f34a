"""Evaluators: where and how the objective is called."""

from gensmooth.evaluators.objective import EvaluationError, Objective
from gensmooth.evaluators.serial import Serial

__all__ = ["EvaluationError", "Objective", "Serial"]
