"""A training's folder: configuration, metrics, checkpoint, and the two policies."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from gensmooth.checkpoint import CheckpointError, Every, Record, container
from gensmooth.checkpoint.metrics import Position, line_of, read_lines, record_from
from gensmooth.checkpoint.plain import number, plain, whole
from gensmooth.checkpoint.store import CHECKPOINT, CONFIG, METRICS, PREVIOUS, Store
from gensmooth.rl import snapshot
from gensmooth.rl.config import KIND, Schedule, TrainConfig, differences, from_json
from gensmooth.rl.trainer import Iteration, Test, TrainState

POLICY_BEST, POLICY_LAST = "policy-best", "policy-last"

_UNUSABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class End(NamedTuple):
    """How a training ended: the reason, and words on it."""

    reason: str
    why: str


class Line(NamedTuple):
    """An iteration as ``metrics.jsonl`` tells it."""

    iteration: Iteration
    test: Test | None
    faults: Mapping[str, int]


class Progress(NamedTuple):
    """A training between two iterations.

    Attributes:
        state: The state.
        schedule: The schedule it ran under.
        end: How it ended, if it has.
    """

    state: TrainState
    schedule: Schedule
    end: End | None


class Found(NamedTuple):
    """What a folder holds: a training, how far it got (``None``: not begun), its iterations."""

    config: TrainConfig
    progress: Progress | None
    lines: list[Line]
    position: Position


class TrainFolder:
    """A folder that this process may write to; a context manager that lets go of it."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self.store = Store(path, create=create)
        self._config: TrainConfig | None = None

    @property
    def holds_run(self) -> bool:
        """Whether a training has begun here."""
        return self.store.holds_run

    def begin(self, config: TrainConfig) -> None:
        """Write down a new training."""
        trainer = config.trainer
        try:
            snapshot.pack(trainer, trainer.init(config.seed))
        except TypeError as error:
            raise TypeError(f"This training cannot be checkpointed: {error}.") from error
        self.store.write_config(config.to_json(), {}, new=True)

    def adopt(self, config: TrainConfig, *, seed_given: bool) -> TrainConfig:
        """The training that is here, given a configuration that must be the same.

        Raises:
            CheckpointError: When it is not.
        """
        found = self.store.read_config(KIND)
        if not seed_given and type(found.get("seed")) is int:
            config = replace(config, seed=found["seed"])
        now: dict[str, Any] = json.loads(json.dumps(config.to_json()))
        if words := differences(now, found):
            raise CheckpointError(
                self.path,
                f"holds a training with another configuration: {', '.join(words)}. Choose another "
                "folder; to go on with that training for longer, use gs.rl.resume.",
            )
        return replace(config, run=str(found.get("run")))

    def read(self) -> TrainConfig:
        """The training that is here."""
        found = self.store.read_config(KIND)
        try:
            return from_json(found)
        except _UNUSABLE as error:
            raise CheckpointError(self.path / CONFIG, f"cannot be used: {error}.") from error

    def load(self, config: TrainConfig) -> Found:
        """How far a training got."""
        if not self.store.has_checkpoint():
            return Found(config, None, [], Position())
        try:
            return self._load(config, self.path / CHECKPOINT)
        except CheckpointError as error:
            words = str(error).removeprefix(f"{error.path} ")
            raise CheckpointError(error.path, f"{words}{self._hint(config)}") from error

    def extend(self, config: TrainConfig, schedule: Schedule) -> TrainConfig:
        """Write down another schedule."""
        if schedule == config.schedule:
            return config
        config = config.with_schedule(schedule)
        self.store.write_config(config.to_json(), {})
        return config

    def open(self, found: Found, every: Every | None) -> None:
        """Get ready to record iterations after those that were found."""
        self._config = found.config
        saved = None if found.progress is None else found.progress.state.search.step
        self.store.open(found.position, saved, every)

    def record(self, line: Line) -> None:
        """Append an iteration to ``metrics.jsonl``."""
        iteration, test = line.iteration, line.test
        words = None
        if test is not None:
            words = {n: plain(v) if v is not None else None for n, v in test._asdict().items()}
        self.store.record(
            line_of(
                Record(iteration.info, line.faults),
                deviation=plain(iteration.deviation),
                env_steps=iteration.env_steps,
                mean_length=plain(iteration.mean_length),
                test=words,
            )
        )

    def save(self, progress: Progress) -> None:
        """Write a checkpoint and the last policy, unless this very one was written before."""
        assert self._config is not None
        config, end = self._config, progress.end
        meta, arrays = snapshot.pack(config.trainer, progress.state)

        def write(position: Position) -> None:
            written = {
                **meta,
                "run": config.run,
                "schedule": {n: plain(v) for n, v in progress.schedule._asdict().items()},
                "end": None if end is None else end._asdict(),
                "metrics": position._asdict(),
            }
            path, previous = self.path / CHECKPOINT, self.path / PREVIOUS
            container.write(path, written, arrays, previous=previous)

        self.store.save(progress.state.search.step, write, again=end is not None)

    def __enter__(self) -> "TrainFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def _load(self, config: TrainConfig, path: Path) -> Found:
        meta, arrays = container.read(path)
        if meta.get("run") != config.run:
            raise CheckpointError(path, "is the checkpoint of another run.")
        try:
            state = snapshot.unpack(config.trainer, meta, arrays, config.seed)
            position = Position(*(whole(meta["metrics"][name]) for name in Position._fields))
            if position.lines != state.search.step:
                raise ValueError("its iterations are not those of the metrics")
            schedule = Schedule(**meta["schedule"])
            progress = Progress(state, schedule, _end(meta["end"]))
        except _UNUSABLE as error:
            raise CheckpointError(path, f"does not fit its run: {error}.") from error
        return Found(config, progress, read_lines(self.path / METRICS, position, _line), position)

    def _hint(self, config: TrainConfig) -> str:
        """Whether the checkpoint before a damaged one would do."""
        try:
            found = self._load(config, self.path / PREVIOUS)
        except CheckpointError:
            return ""
        return (
            f" The one before it is whole, after {len(found.lines)} iterations: rename {PREVIOUS} "
            f"to {CHECKPOINT} to go on from there."
        )


def _line(found: dict[str, Any]) -> Line:
    deviation, mean_length = (number(found.pop(n)) for n in ("deviation", "mean_length"))
    env_steps, test = whole(found.pop("env_steps")), found.pop("test")
    record = record_from(found)
    iteration = Iteration(record.info, deviation, env_steps, mean_length)
    return Line(iteration, None if test is None else _test(test), record.faults)


def _test(found: Mapping[str, Any]) -> Test:
    counts = ("step", "trajectories", "env_steps", "episodes")
    values = {
        name: None if value is None else whole(value) if name in counts else number(value)
        for name, value in found.items()
    }
    return Test(**cast(dict[str, Any], values))


def _end(found: Any) -> End | None:
    return None if found is None else End(str(found["reason"]), str(found["why"]))
