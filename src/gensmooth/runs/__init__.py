"""Checkpoints: a run is a folder, and killing it at any instant loses almost nothing.

``config.json`` says what is run, ``metrics.jsonl`` has a line a step, ``checkpoint`` is all that
the next step needs. The guide is ``docs/checkpoints.md``.
"""

from gensmooth.checkpoint.cadence import Every, parse_every
from gensmooth.checkpoint.config import Execution, Limits, RunConfig, falling, make_limits
from gensmooth.checkpoint.config_file import to_json
from gensmooth.checkpoint.files import CheckpointError
from gensmooth.checkpoint.folder import Found, RunFolder
from gensmooth.checkpoint.metrics import Record
from gensmooth.checkpoint.naming import find_function, name_of
from gensmooth.checkpoint.snapshot import End, Snapshot
from gensmooth.checkpoint.store import kind_of

__all__ = [
    "CheckpointError",
    "End",
    "Every",
    "Execution",
    "Found",
    "Limits",
    "Record",
    "RunConfig",
    "RunFolder",
    "Snapshot",
    "falling",
    "find_function",
    "kind_of",
    "make_limits",
    "name_of",
    "parse_every",
    "to_json",
]
