"""A minimisation's folder: what it is made of, and how a run is taken up from it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from gensmooth.checkpoint import snapshot
from gensmooth.checkpoint.cadence import Every
from gensmooth.checkpoint.config import Limits, RunConfig
from gensmooth.checkpoint.config_file import differences, from_json, to_json
from gensmooth.checkpoint.files import CheckpointError
from gensmooth.checkpoint.metrics import Position, Record, line_of, read_metrics
from gensmooth.checkpoint.snapshot import Snapshot
from gensmooth.checkpoint.store import CHECKPOINT, CONFIG, METRICS, PREVIOUS, Store

_UNUSABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


class Found(NamedTuple):
    """What a folder holds: a run, how far it got (``None``: not begun), and its steps."""

    config: RunConfig
    snapshot: Snapshot | None
    records: list[Record]


class RunFolder:
    """A folder that this process may write to; a context manager that lets go of it.

    Use :meth:`begin` or :meth:`load`, then :meth:`record` every step and :meth:`save` when
    :meth:`due`.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.store = Store(path, create=create)
        self.path = self.store.path
        self._config: RunConfig | None = None

    @property
    def holds_run(self) -> bool:
        """Whether a run has begun here."""
        return self.store.holds_run

    def begin(self, config: RunConfig) -> None:
        """Write down a new run."""
        snapshot.check(config.search, config.search.init(config.x0, seed=config.seed))
        self.store.write_config(*to_json(config), new=True)

    def adopt(self, config: RunConfig, *, seed_given: bool) -> RunConfig:
        """The run that is here, given a configuration that must be the same.

        Raises:
            CheckpointError: When it is not.
        """
        found = self.store.read_config()
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
        found = self.store.read_config()
        arrays = self.store.read_arrays()
        try:
            return from_json(found, arrays, given)
        except ImportError:
            raise
        except _UNUSABLE as error:
            raise CheckpointError(self.path / CONFIG, f"cannot be used: {error}.") from error

    def load(self, config: RunConfig) -> Found:
        """How far a run got."""
        if not self.store.has_checkpoint():
            return Found(config, None, [])
        try:
            path = self.path / CHECKPOINT
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
            self.store.write_config(*to_json(extended))
        return extended

    def open(self, found: Found, every: Every | None) -> None:
        """Get ready to record steps after those that were found."""
        self._config = found.config
        if found.snapshot is None:
            self.store.open(Position(), None, every)
        else:
            self.store.open(found.snapshot.position, found.snapshot.state.step, every)

    def record(self, record: Record) -> None:
        """Append a step to ``metrics.jsonl``."""
        self.store.record(line_of(record))

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due."""
        return self.store.due(step)

    def save(self, current: Snapshot) -> None:
        """Write a checkpoint, unless this very one was written before."""
        assert self._config is not None
        run, search = self._config.run, self._config.search

        def write(position: Position) -> None:
            snapshot.write(
                self.path / CHECKPOINT,
                run,
                search,
                current._replace(position=position),
                previous=self.path / PREVIOUS,
            )

        self.store.save(current.state.step, write, again=current.end is not None)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

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
