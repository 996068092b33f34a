"""Random search with good directions as an Optuna sampler."""

from gensmooth.optuna import GensmoothSampler

__all__ = ["GensmoothSampler"]
