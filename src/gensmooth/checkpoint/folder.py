"""A run's folder: what it is made of, who may write there, and what happens when it is full."""

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from gensmooth.checkpoint import container, snapshot
from gensmooth.checkpoint.cadence import Cadence, Every
from gensmooth.checkpoint.config import Limits, RunConfig
from gensmooth.checkpoint.config_file import FORMAT, differences, from_json, pretty, to_json
from gensmooth.checkpoint.files import CheckpointError, sync_folder, write_all, write_whole
from gensmooth.checkpoint.lock import Lock
from gensmooth.checkpoint.metrics import Metrics, Position, Record, read_metrics
from gensmooth.checkpoint.snapshot import Snapshot

CONFIG, ARRAYS, METRICS = "config.json", "arrays", "metrics.jsonl"
CHECKPOINT, PREVIOUS = "checkpoint", "checkpoint.previous"

_LEFT_BY_A_KILL = {".lock", ARRAYS, f".{ARRAYS}.new", f".{CONFIG}.new"}
_UNUSABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)
_log = logging.getLogger("gensmooth")


class Found(NamedTuple):
    """What a folder holds: a run, how far it got (``None``: not begun), and its steps."""

    config: RunConfig
    snapshot: Snapshot | None
    records: list[Record]


class RunFolder:
    """A folder that this process may write to; a context manager that lets go of it.

    Use :meth:`begin` or :meth:`load`, then :meth:`record` every step and :meth:`save` when
    :meth:`due`. A write that fails during a run is logged once; the run goes on, the last good
    checkpoint stays, and the next one is tried when it is due.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._metrics: Metrics | None = None
        self._config: RunConfig | None = None
        self._saved: int | None = None  # the step of the last good checkpoint
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

    def begin(self, config: RunConfig) -> None:
        """Write down a new run."""
        snapshot.check(config.search, config.search.init(config.x0, seed=config.seed))
        self._write_config(config)
        with contextlib.suppress(OSError):  # a folder above that we may not open
            sync_folder(self.path.parent)

    def adopt(self, config: RunConfig, *, seed_given: bool) -> RunConfig:
        """The run that is here, given a configuration that must be the same.

        Raises:
            CheckpointError: When it is not.
        """
        found = self._read_config()
        if not seed_given and type(found.get("seed")) is int:
            config = replace(config, seed=found["seed"])
        now: dict[str, Any] = json.loads(json.dumps(to_json(config)[0]))
        if words := differences(now, found):
            raise CheckpointError(
                self.path,
                f"holds a run with another configuration: {', '.join(words)}. Choose another "
                "folder; to go on with that run under other limits, use gs.resume.",
            )
        extensions = found.get("extensions")
        extensions = cast(list[Any], extensions) if isinstance(extensions, list) else []
        return replace(config, run=str(found.get("run")), extensions=tuple(extensions))

    def read(self, given: Mapping[str, Any]) -> RunConfig:
        """The run that is here; ``given`` has choices that could not be written down."""
        found = self._read_config()
        arrays: dict[str, Any] = {}
        if (self.path / ARRAYS).exists():
            arrays = container.read(self.path / ARRAYS).arrays
        try:
            return from_json(found, arrays, given)
        except ImportError:
            raise
        except _UNUSABLE as error:
            raise CheckpointError(self.path / CONFIG, f"cannot be used: {error}.") from error

    def load(self, config: RunConfig) -> Found:
        """How far a run got."""
        path, previous = self.path / CHECKPOINT, self.path / PREVIOUS
        if not path.exists():
            if previous.exists():
                raise CheckpointError(
                    path,
                    f"is missing, but {PREVIOUS} is there: rename it to go on from it, or remove "
                    "it to begin anew.",
                )
            return Found(config, None, [])
        try:
            found = snapshot.read(path, config.run, config.search, config.x0, config.seed)
            records = read_metrics(self.path / METRICS, found.position)
        except CheckpointError as error:
            raise CheckpointError(
                error.path, f"{str(error).removeprefix(f'{error.path} ')}{self._hint(config)}"
            ) from error
        return Found(config, found, records)

    def extend(self, config: RunConfig, limits: Limits, step: int) -> RunConfig:
        """Write down other limits for a run that has made ``step`` steps."""
        extended = config.extended(limits, step)
        if extended is not config:
            self._write_config(extended)
        return extended

    def open(self, found: Found, every: Every | None) -> None:
        """Get ready to record steps after those that were found."""
        self._config = found.config
        start = Position() if found.snapshot is None else found.snapshot.position
        self._saved = None if found.snapshot is None else found.snapshot.state.step
        self._cadence = Cadence(every, self._saved or 0)
        try:
            self._metrics = Metrics(self.path / METRICS, start)
        except OSError as error:
            raise _cannot(self.path / METRICS, "be written to", error) from error

    def record(self, record: Record) -> None:
        """Append a step to ``metrics.jsonl``."""
        assert self._metrics is not None
        try:
            self._metrics.add(record)
        except OSError as error:
            self._report(METRICS, error)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due."""
        return self._cadence.due(step)

    def save(self, current: Snapshot) -> None:
        """Write a checkpoint, unless this very one was written before."""
        assert self._metrics is not None
        assert self._config is not None
        step, started = current.state.step, time.monotonic()
        if self._metrics.position.lines != step or (current.end is None and step == self._saved):
            return  # the first: a step torn apart by an interrupt where we could not hold it off
        name = METRICS
        try:
            self._metrics.sync()
            name = CHECKPOINT
            snapshot.write(
                self.path / CHECKPOINT,
                self._config.run,
                self._config.search,
                current._replace(position=self._metrics.position),
                previous=self.path / PREVIOUS,
            )
        except OSError as error:
            self._report(name, error)
        else:
            self._saved, self._failing = step, False
        self._cadence.done(step, time.monotonic() - started)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._metrics is not None:
            try:
                self._metrics.flush()
            except OSError as error:
                self._report(METRICS, error)
            self._metrics.close()
        self._lock.release()

    def _read_config(self) -> dict[str, Any]:
        path = self.path / CONFIG
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

    def _write_config(self, config: RunConfig) -> None:
        found, arrays = to_json(config)
        try:
            if arrays and not (self.path / ARRAYS).exists():
                container.write(self.path / ARRAYS, {}, arrays)
            text = f"{pretty(found)}\n".encode()
            write_whole(self.path / CONFIG, lambda file: write_all(file, text))
        except OSError as error:
            raise _cannot(self.path, "be written to", error) from error

    def _hint(self, config: RunConfig) -> str:
        """Whether the checkpoint before a damaged one would do."""
        path = self.path / PREVIOUS
        try:
            found = snapshot.read(path, config.run, config.search, config.x0, config.seed)
            read_metrics(self.path / METRICS, found.position)
        except CheckpointError:
            return ""
        return (
            f" The one before it is whole, after {found.state.step} steps: rename {PREVIOUS} to "
            f"{CHECKPOINT} to go on from there."
        )

    def _report(self, name: str, error: OSError) -> None:
        if self._failing:
            return
        self._failing = True
        kept = "There is no checkpoint yet"
        if self._saved is not None:
            kept = f"The checkpoint after {self._saved} steps is kept"
        _log.warning(
            "Could not write %s: %s. %s, the run goes on, and the next checkpoint is tried when "
            "it is due.",
            self.path / name,
            error.strerror or error,
            kept,
        )


def _cannot(path: Path, what: str, error: OSError) -> CheckpointError:
    return CheckpointError(path, f"cannot {what}: {error.strerror or error}.")
