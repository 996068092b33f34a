"""The files of a run, by the name they have always had; see :mod:`gensmooth.runs`."""

from gensmooth.naming import find_function, name_of
from gensmooth.runs import CheckpointError, Every, container, parse_every

__all__ = ["CheckpointError", "Every", "container", "find_function", "name_of", "parse_every"]
