"""The files of a run's folder, whatever kind of run: who may write, and what if the disk is full.

What the files say is the business of :mod:`~gensmooth.checkpoint.folder` and its like.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from gensmooth.checkpoint import container
from gensmooth.checkpoint.cadence import Cadence, Every
from gensmooth.checkpoint.config_file import FORMAT, pretty
from gensmooth.checkpoint.files import CheckpointError, sync_folder, write_all, write_whole
from gensmooth.checkpoint.lock import Lock
from gensmooth.checkpoint.metrics import Metrics, Position

CONFIG, ARRAYS, METRICS = "config.json", "arrays", "metrics.jsonl"
CHECKPOINT, PREVIOUS = "checkpoint", "checkpoint.previous"

_LEFT_BY_A_KILL = {".lock", ARRAYS, f".{ARRAYS}.new", f".{CONFIG}.new"}
_log = logging.getLogger("gensmooth")


class Store:
    """A folder that this process may write to, until :meth:`close`.

    A write that fails during a run is logged once; the run goes on, the last good checkpoint
    stays, and the next one is tried when it is due.

    Attributes:
        path: The folder.
        saved: The step of the last good checkpoint.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path = path.absolute()  # an objective may change the working folder
        self.saved: int | None = None
        self._metrics: Metrics | None = None
        self._failing = False
        if create:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _cannot(path, "be made", error) from error
        if not path.is_dir():
            raise CheckpointError(path, "is not a folder.")
        if not (path / CONFIG).exists():
            strangers = {entry.name for entry in path.iterdir()} - _LEFT_BY_A_KILL
            if strangers or not create:
                what = "is not empty and has" if strangers else "has"
                raise CheckpointError(path, f"{what} no {CONFIG}: it is not a run's folder.")
        try:
            self._lock = Lock(path)
        except OSError as error:
            raise _cannot(path, "be written to", error) from error

    @property
    def holds_run(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / CONFIG).exists()

    def read_config(self, kind: str | None = None) -> dict[str, Any]:
        """The contents of ``config.json``, of a run of this kind (``None``: a minimisation)."""
        path = self.path / CONFIG
        config = read_config(path)
        if config.get("kind") != kind:
            what = str(config.get("kind", "minimisation"))[:20]
            raise CheckpointError(self.path, f"holds a {what}, not a {kind or 'minimisation'}.")
        return config

    def write_config(
        self, found: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, new: bool = False
    ) -> None:
        """Write ``config.json``, and beside it the arrays that are too large for it."""
        try:
            if arrays and not (self.path / ARRAYS).exists():
                container.write(self.path / ARRAYS, {}, arrays)
            text = f"{pretty(found)}\n".encode()
            write_whole(self.path / CONFIG, lambda file: write_all(file, text))
        except OSError as error:
            raise _cannot(self.path, "be written to", error) from error
        if new:
            with contextlib.suppress(OSError):  # a folder above that we may not open
                sync_folder(self.path.parent)

    def read_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that were too large for ``config.json``."""
        path = self.path / ARRAYS
        return container.read(path).arrays if path.exists() else {}

    def has_checkpoint(self) -> bool:
        """Whether there is one.

        Raises:
            CheckpointError: When there is none, but the one before it is there.
        """
        path = self.path / CHECKPOINT
        if not path.exists() and (self.path / PREVIOUS).exists():
            raise CheckpointError(
                path,
                f"is missing, but {PREVIOUS} is there: rename it to go on from it, or remove it to "
                "begin anew.",
            )
        return path.exists()

    def open(self, start: Position, saved: int | None, every: Every | None) -> None:
        """Get ready to record steps behind a position."""
        self.saved = saved
        self._cadence = Cadence(every, saved or 0)
        try:
            self._metrics = Metrics(self.path / METRICS, start)
        except OSError as error:
            raise _cannot(self.path / METRICS, "be written to", error) from error

    def record(self, line: bytes) -> None:
        """Append a line to ``metrics.jsonl``."""
        assert self._metrics is not None
        try:
            self._metrics.add(line)
        except OSError as error:
            self._report(METRICS, error)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due."""
        return self._cadence.due(step)

    def save(self, step: int, write: Callable[[Position], None], *, again: bool) -> None:
        """Write a checkpoint.

        Args:
            step: Steps made.
            write: Writes it, given how far ``metrics.jsonl`` goes.
            again: Also if one of this very step was written before.
        """
        assert self._metrics is not None
        started = time.monotonic()
        if self._metrics.position.lines != step or (not again and step == self.saved):
            return  # the first: a step torn apart by an interrupt where we could not hold it off
        name = METRICS
        try:
            self._metrics.sync()
            name = CHECKPOINT
            write(self._metrics.position)
        except OSError as error:
            self._report(name, error)
        else:
            self.saved, self._failing = step, False
        self._cadence.done(step, time.monotonic() - started)

    def close(self) -> None:
        """Let go of the folder."""
        if self._metrics is not None:
            try:
                self._metrics.flush()
            except OSError as error:
                self._report(METRICS, error)
            self._metrics.close()
        self._lock.release()

    def _report(self, name: str, error: OSError) -> None:
        if self._failing:
            return
        self._failing = True
        kept = "There is no checkpoint yet"
        if self.saved is not None:
            kept = f"The checkpoint after {self.saved} steps is kept"
        _log.warning(
            "Could not write %s: %s. %s, the run goes on, and the next checkpoint is tried when "
            "it is due.",
            self.path / name,
            error.strerror or error,
            kept,
        )


def kind_of(folder: Path) -> str | None:
    """What kind of run a folder holds: ``None`` is a minimisation, or no run at all."""
    path = folder / CONFIG
    return read_config(path).get("kind") if path.is_file() else None


def read_config(path: Path) -> dict[str, Any]:
    """A ``config.json`` of a format that is known here."""
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(path, f"cannot be read: {error}.") from error
    if not isinstance(found, dict) or "format" not in found:
        raise CheckpointError(path, "is not the configuration of a run.")
    config = cast(dict[str, Any], found)
    if config["format"] != FORMAT:
        raise CheckpointError(
            path,
            f"is of format {str(config['format'])[:20]}, but this gensmooth reads format "
            f"{FORMAT}: use the version that wrote it ({str(config.get('gensmooth'))[:20]}).",
        )
    return config


def _cannot(path: Path, what: str, error: OSError) -> CheckpointError:
    return CheckpointError(path, f"cannot {what}: {error.strerror or error}.")
