"""One way to run anything: a run is a folder, and killing it at any instant loses almost nothing.

A :class:`Program` is what can be run; :func:`run` runs it. ``config.json`` says what is run,
``metrics.jsonl`` has a line per step, ``checkpoint`` is all that the next step needs. The guide is
``docs/checkpoints.md``.
"""

from gensmooth.runs import container, result_file, states
from gensmooth.runs.config import (
    Every,
    Execution,
    array_from_json,
    array_to_json,
    parse_every,
)
from gensmooth.runs.files import CheckpointError
from gensmooth.runs.folder import Found, RunFolder, Scratch, kind_of, seed_in
from gensmooth.runs.loop import Run, run
from gensmooth.runs.program import Program
from gensmooth.runs.states import Record
from gensmooth.runs.stopping import MESSAGES, SUCCESS, End, Limits, Reason, reached

__all__ = [
    "MESSAGES",
    "SUCCESS",
    "CheckpointError",
    "End",
    "Every",
    "Execution",
    "Found",
    "Limits",
    "Program",
    "Reason",
    "Record",
    "Run",
    "RunFolder",
    "Scratch",
    "array_from_json",
    "array_to_json",
    "container",
    "kind_of",
    "parse_every",
    "reached",
    "result_file",
    "run",
    "seed_in",
    "states",
]
