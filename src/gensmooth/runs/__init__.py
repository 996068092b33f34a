"""Running programs, with checkpoints: a killed run continues from its folder.

A :class:`Program` is anything that proceeds in steps, such as a minimisation or a training, and
:func:`run` executes it. In a run's folder, ``config.json`` describes the run, ``metrics.jsonl`` has
one line per step, and ``checkpoint`` holds everything the next step needs. See
``docs/checkpoints.md``.
"""

from gensmooth.runs import container, result_file, states
from gensmooth.runs.config import Every, Execution, array_from_json, array_to_json, parse_every
from gensmooth.runs.files import CheckpointError
from gensmooth.runs.folder import SOURCE, RunFolder, RunProgress, Scratch, kind_of, seed_in
from gensmooth.runs.journal import Journal
from gensmooth.runs.loop import Run, resumed_run, run
from gensmooth.runs.program import Program
from gensmooth.runs.states import Record
from gensmooth.runs.stopping import (
    MESSAGES,
    NO_VALUE,
    STATUS,
    STOPPED,
    SUCCESS,
    End,
    Limits,
    Reason,
    reached,
)

__all__ = [
    "MESSAGES",
    "NO_VALUE",
    "SOURCE",
    "STATUS",
    "STOPPED",
    "SUCCESS",
    "CheckpointError",
    "End",
    "Every",
    "Execution",
    "Journal",
    "Limits",
    "Program",
    "Reason",
    "Record",
    "Run",
    "RunFolder",
    "RunProgress",
    "Scratch",
    "array_from_json",
    "array_to_json",
    "container",
    "kind_of",
    "parse_every",
    "reached",
    "result_file",
    "resumed_run",
    "run",
    "seed_in",
    "states",
]
