"""The files of a run, by the name they have always had; see :mod:`gensmooth.runs`."""

from gensmooth.runs import CheckpointError, Every, container, find_function, name_of, parse_every

__all__ = ["CheckpointError", "Every", "container", "find_function", "name_of", "parse_every"]
