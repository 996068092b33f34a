"""``metrics.jsonl``: one line per step, appended, cut back to the checkpoint when a run goes on.

Lines wait in memory until they are on disk, so a full disk loses none of them: they are written
when there is room again. Numbers survive to the last bit; infinities and NaN are words, because
JSON has none.
"""

import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gensmooth.runs.container import CheckpointError, write_all

R = TypeVar("R")

_FLUSH_SECONDS = 0.5


class Position(NamedTuple):
    """How far the file goes: its lines and bytes, and the checksum of those."""

    lines: int = 0
    bytes: int = 0
    crc32: int = 0


class Metrics:
    """The file, open for appending at a position; what is behind it is cut off."""

    def __init__(self, path: Path, position: Position) -> None:
        self.position = position
        self._waiting: list[bytes] = []
        self._flushed = time.monotonic()
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115
        self._file.truncate(position.bytes)

    def add(self, line: bytes) -> None:
        """Append a line; lines go to the system twice a second and at each checkpoint."""
        lines, size, crc32 = self.position
        self.position = Position(lines + 1, size + len(line), zlib.crc32(line, crc32))
        self._waiting.append(line)
        now = time.monotonic()
        if now - self._flushed >= _FLUSH_SECONDS:
            self._flushed = now
            self.flush()

    def flush(self) -> None:
        """Hand the waiting lines to the system."""
        if not self._waiting:
            return
        text = b"".join(self._waiting)
        self._file.seek(self.position.bytes - len(text))  # again from the start if it failed before
        write_all(self._file, text)
        self._waiting = []

    def sync(self) -> None:
        """Make every line survive a loss of power."""
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; what still waits for room is given up."""
        self._file.close()


def read_lines(path: Path, position: Position, parse: Callable[[Any], R]) -> list[R]:
    """The lines up to a position, each parsed by ``parse``; line n is of step n.

    Raises:
        CheckpointError: When they are not there or not those that were written.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            text = file.read(min(position.bytes, size))
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    if len(text) < position.bytes:
        raise CheckpointError(
            path, f"is damaged: the checkpoint saw {position.bytes} bytes, but it has {len(text)}."
        )
    if zlib.crc32(text) != position.crc32:
        raise CheckpointError(path, "is damaged: it is not what the checkpoint saw.")
    try:
        found = [json.loads(line) for line in text.splitlines()]
        steps = [line["step"] for line in found]
        records = [parse(line) for line in found]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(path, f"is damaged: a line is not a step ({error}).") from error
    if steps != list(range(position.lines)):
        raise CheckpointError(path, f"is damaged: it should have steps 0 … {position.lines - 1}.")
    return records
