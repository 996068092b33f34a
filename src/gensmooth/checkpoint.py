"""The files of a run, by the name they have always had; see :mod:`gensmooth.runs`."""

from gensmooth.naming import find_function, name_of
from gensmooth.runs import (
    CheckpointError,
    End,
    Every,
    Execution,
    Found,
    Limits,
    Record,
    RunFolder,
    container,
    kind_of,
    parse_every,
)

__all__ = [
    "CheckpointError",
    "End",
    "Every",
    "Execution",
    "Found",
    "Limits",
    "Record",
    "RunFolder",
    "container",
    "find_function",
    "kind_of",
    "name_of",
    "parse_every",
]
