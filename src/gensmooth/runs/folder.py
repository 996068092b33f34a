"""A run's folder: configuration, metrics and checkpoint, with locking and write-error handling.

``config.json`` describes the run, ``metrics.jsonl`` has one line per step, and ``checkpoint`` holds
everything the next step needs.
"""

import contextlib
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from numpy.typing import NDArray

from gensmooth import fields
from gensmooth._version import __version__
from gensmooth.describe import plain, whole
from gensmooth.runs import container
from gensmooth.runs.config import FORMAT, Cadence, Every, checksum, differences, pretty, sizes_in
from gensmooth.runs.files import (
    CheckpointError,
    Lock,
    Metrics,
    Position,
    Times,
    read_bytes,
    read_lines,
    sync_folder,
    write_text,
)
from gensmooth.runs.journal import CHECKPOINT_DUE, Journal
from gensmooth.runs.program import Program
from gensmooth.runs.stopping import End

S = TypeVar("S")
R = TypeVar("R")
C = TypeVar("C")
Array = NDArray[Any]

CONFIG, ARRAYS, METRICS, TIMES = "config.json", "arrays", "metrics.jsonl", "times.jsonl"
JOURNAL = "journal"
SOURCE = "source"  # the configuration's name for the hash of the user's source code
CHECKPOINT, PREVIOUS = "checkpoint", "checkpoint.previous"

# The exceptions that parsing a damaged or malicious file may raise.
UNUSABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)
_FINAL_REASONS = ("diverged",)  # reasons to end that new limits do not change
_RESULT = "result.json"  # the command line writes it, also for a run without a folder
_LEFT_BY_A_KILL = {".lock", ARRAYS, f".{ARRAYS}.new", f".{CONFIG}.new"}
_log = logging.getLogger("gensmooth")


class RunProgress(NamedTuple, Generic[S, R]):
    """The progress of a run.

    Attributes:
        state: Its state.
        step: The number of steps completed.
        records: Their records.
        end: How it ended; ``None`` if it has not ended or its limits have changed since.
        position: The end of ``metrics.jsonl``.
        saved: Whether this comes from a checkpoint.
    """

    state: S
    step: int
    records: list[R]
    end: End | None = None
    position: Position = Position()
    saved: bool = False


class RunFolder:
    """A run's folder, locked for this process; leaving the context releases it.

    If a write fails during a run, this is logged once and the run continues. The last complete
    checkpoint is kept, and the next one is written when it is due.

    Args:
        path: The folder.
        create: Whether the folder may be missing, in which case it is created, or hold no run yet.

    Attributes:
        path: The absolute path, because an objective may change the working directory.
        run: The random name of the run, once known.
        config: The contents of ``config.json``, once known.
        saved: The step of the last complete checkpoint.
        journal: The values since the last checkpoint, once the folder is open for a run.
        is_new: Whether the run began in this process.
    """

    journal: Journal
    is_new: bool = False

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path = path.absolute()
        self.run = ""
        self.config: dict[str, Any] = {}
        self.saved: int | None = None
        self._metrics: Metrics | None = None
        self._times: Times | None = None
        self._failing = self._failing_files = False
        self._gone = False
        self._owner = os.getpid()
        if create:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _cannot_error(path, "be created", error) from error
        if not path.is_dir():
            raise CheckpointError(path, "is not a folder.")
        if not (path / CONFIG).exists():
            other_files = {entry.name for entry in path.iterdir()} - _LEFT_BY_A_KILL
            if other_files or not create:
                what = "is not empty and has" if other_files else "has"
                why = "it is not a run's folder"
                if other_files == {_RESULT} and not create:
                    why = "it holds the result of a run that was made without `folder`"
                raise CheckpointError(path, f"{what} no {CONFIG}: {why}.")
        try:
            self._lock = Lock(path)
        except OSError as error:
            raise _cannot_error(path, "be written to", error) from error

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._metrics is not None:
            try:
                if self.is_ours():
                    self._metrics.flush()
                    if self._times is not None:
                        self._times.close()
            except OSError as error:
                self._log_write_error(METRICS, error)
            self._metrics.close()
        self._lock.release()

    # --- configuration

    def take(self, program: Program[S, R, Any]) -> RunProgress[S, R]:
        """Begin a new run, or load the progress of the run in this folder.

        Raises:
            CheckpointError: If the folder holds a different run or cannot be used.
            TypeError: If the program's state cannot be stored in a checkpoint.
        """
        if not (self.path / CONFIG).exists():
            state = program.init()
            try:
                program.pack(state)
            except TypeError as error:
                message = f"This {program.noun} cannot be checkpointed: {error}."
                raise TypeError(message) from error
            self.run, self.is_new = secrets.token_hex(8), True
            self.write(program)
            with contextlib.suppress(OSError):  # the parent folder may not be readable
                sync_folder(self.path.parent)
            return RunProgress(state, 0, [])
        self._read_config(program.kind)
        now: dict[str, Any] = json.loads(json.dumps(program.settings({})))
        compared = program.compared or dict.fromkeys(now)
        if changes := differences(now, self.config, compared):
            noun, by = program.noun, program.resumed_by
            hint = f", or use {by} to continue that {noun}" if by else ""
            raise CheckpointError(
                self.path,
                f"holds a {noun} with a different configuration: {', '.join(changes)}. Choose "
                f"another folder{hint}.",
            )
        progress = self.load(program)
        self.compare_source(now.get(SOURCE))
        return progress

    def compare_source(self, now: str | None) -> None:
        """Log a warning if the user's source code has changed since the run began.

        ``now`` is the hash of the current source. If either hash is unknown, nothing is logged.
        """
        before = self.config.get(SOURCE)
        if now is not None and before is not None and now != before:
            _log.warning(
                "The source of the objective, or of a function that it calls in its module, has "
                "changed since the run in %s began. The stored results come from the old source. "
                "To start over with the new one, choose another folder.",
                self.path,
            )

    def describe_start(
        self, program: Program[Any, Any, Any], step: int, evaluations: int, recorded: int
    ) -> str:
        """Say whether the run starts or resumes, and from where.

        ``step`` and ``evaluations`` are those of the checkpoint; ``recorded`` counts the
        evaluations in the journal.
        """
        noun, unit = program.noun, program.unit
        if self.is_new:
            return f"The {noun} starts. It is stored in {self.path}."
        parts: dict[str, int] = {}
        if step:
            parts[f"from the checkpoint after {_counted(step, 'steps')}"] = evaluations
        if recorded:
            parts["from the journal"] = recorded
        if not parts:
            return (
                f"The {noun} in {self.path} starts from the beginning: no checkpoint has a "
                f"complete step, and no {unit} are in the journal."
            )
        after = _counted(sum(parts.values()), unit)
        origin = ", ".join(f"{n:,} {source}" for source, n in parts.items())
        if len(parts) == 1:
            origin = next(iter(parts))
        return f"The {noun} in {self.path} resumes after {after} ({origin})."

    def log_finished(self, program: Program[Any, Any, Any], end: End, step: int) -> None:
        """Log that the stored result is returned and nothing is run."""
        how = f"use {program.resumed_by}" if program.resumed_by else "run it"
        hint = ""
        if end.reason == "callback":
            hint = f" To continue, {how}{' with go_on=True' * (not program.resumed_by)}."
        elif program.limits is not None and end.reason not in _FINAL_REASONS:
            hint = f" To continue, {how} with other limits."
        _log.warning(
            "%s holds this %s, which ended after %d steps (%s). The stored result is returned and "
            "nothing is run.%s To start over, choose another folder.",
            self.path,
            program.noun,
            step,
            end.reason,
            hint,
        )

    def read(self, kind: str, parse: Callable[[dict[str, Any], Mapping[str, Array]], C]) -> C:
        """Read the run's configuration with ``parse``, from ``config.json`` and the large arrays.

        Raises:
            CheckpointError: If the run is of another kind or cannot be used.
        """
        self._read_config(kind)
        large, sizes = self.path / ARRAYS, sizes_in(self.config)
        arrays: Mapping[str, Array] = {}
        if sizes and large.exists():
            arrays = container.read(large, sizes_match(sizes)).arrays
        try:
            return parse(self.config, arrays)
        except UNUSABLE as error:
            raise CheckpointError(self.path / CONFIG, f"cannot be used: {error}.") from error

    def write(self, program: Program[Any, Any, Any]) -> None:
        """Write ``config.json`` and, separately, the arrays that are too large for it."""
        arrays: dict[str, Array] = {}
        self.config = config_of(program, self.run, arrays)
        self.config = {**self.config, "sha256": checksum(self.config)}
        try:  # what cannot be read again must not be lost later
            _CONFIG(self.config, "")
        except ValueError as error:
            raise ValueError(f"This {program.noun} cannot be stored: {error}.") from error
        try:
            if arrays and not (self.path / CONFIG).exists():  # otherwise they are already stored
                container.write(self.path / ARRAYS, {}, arrays)
            write_text(self.path / CONFIG, f"{pretty(self.config)}\n")
        except OSError as error:
            raise _cannot_error(self.path, "be written to", error) from error

    def load(self, program: Program[S, R, Any]) -> RunProgress[S, R]:
        """Load the progress of the run.

        Raises:
            CheckpointError: If the checkpoint cannot be used, or only the previous one exists.
                Nothing is changed.
        """
        path, previous = self.path / CHECKPOINT, self.path / PREVIOUS
        if not path.exists():
            if previous.exists():
                raise CheckpointError(
                    path,
                    f"is missing, but {PREVIOUS} exists: rename it to {CHECKPOINT} to continue "
                    "from it, or remove it to start over.",
                )
            return RunProgress(program.init(), 0, [])
        try:
            return self._load(program, path)
        except CheckpointError as error:
            message = str(error).removeprefix(f"{error.path} ")
            try:
                step = self._load(program, previous).step
            except CheckpointError:
                hint = ""
            else:
                hint = (
                    f" The previous checkpoint, after {step} steps, is intact: rename {PREVIOUS} "
                    f"to {CHECKPOINT} to continue from it."
                )
            raise CheckpointError(error.path, f"{message}{hint}") from error

    # --- during the run

    def open(self, progress: RunProgress[Any, Any], every: int | str | Every | None) -> None:
        """Prepare to record the steps that follow ``progress``."""
        self.saved = progress.step if progress.saved else None
        self._cadence = Cadence(every, progress.step)
        try:
            self._metrics = Metrics(self.path / METRICS, progress.position)
            self._times = Times(self.path / TIMES, progress.step)
        except OSError as error:
            raise _cannot_error(self.path / METRICS, "be written to", error) from error
        self.journal = Journal(self.path / JOURNAL, self.run, self.is_ours)

    def record(self, step: int, line: Mapping[str, Any]) -> None:
        """Append a line to ``metrics.jsonl``, for a step that is complete."""
        assert self._metrics is not None
        self.journal.complete_step()
        text = json.dumps({"step": step, **line}, allow_nan=False)
        if not self.is_ours():
            return
        try:
            self._metrics.add(f"{text}\n".encode())
            if self._times is not None:
                self._times.tick(step + 1)
        except OSError as error:
            self._log_write_error(METRICS, error)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after ``step`` steps."""
        return self._cadence.due(step) or self.journal.size > CHECKPOINT_DUE

    def is_ours(self, *, check_files: bool = False) -> bool:
        """Whether the folder still exists and belongs to this run, so that it may be written to.

        Args:
            check_files: Whether to check for the files that a checkpoint depends on, too.
        """
        if self._gone or os.getpid() != self._owner:  # a forked child must not write
            return False
        still_exists = self._lock.holds
        if still_exists and check_files and self._metrics is not None:
            still_exists = self._metrics.still_exists and (self.path / CONFIG).exists()
        if not still_exists:
            self._gone = True
            _log.warning(
                "The folder %s was removed or replaced. The run continues, but no more of it is "
                "stored.",
                self.path,
            )
        return still_exists

    def save(self, program: Program[S, Any, Any], state: S, step: int, end: End | None) -> None:
        """Write a checkpoint, unless the same one has already been written."""
        assert self._metrics is not None
        started = time.monotonic()
        position = self._metrics.position
        if not self.is_ours(check_files=True):
            return
        if position.lines != step or (end is None and step == self.saved):
            return  # a step was cut short by an interrupt, or there is nothing new to store
        meta, arrays = program.pack(state)
        meta = {"step": step, **meta, "run": self.run, "config": self._identity(program)}
        if program.limits is not None:
            limits: Mapping[str, Any] = program.limits._asdict()
            meta[program.limits_name] = {name: plain(value) for name, value in limits.items()}
        ended = None if end is None else {"reason": end.reason, "why": end.why, **end.more}
        meta |= {"end": ended, "metrics": position._asdict()}
        name = METRICS
        try:
            self._metrics.sync()
            name = CHECKPOINT
            container.write(self.path / CHECKPOINT, meta, arrays, previous=self.path / PREVIOUS)
        except OSError as error:
            self._log_write_error(name, error)
        else:
            self.saved, self._failing = step, False
            if end is None:
                self.journal.forget()
            else:
                self.journal.remove()
        self._cadence.done(step, time.monotonic() - started)

    def write_files(
        self, program: Program[S, R, Any], state: S, records: Sequence[R], *, saved: bool
    ) -> None:
        """Let the program write its own files; see :meth:`Program.write_files`."""
        if saved:
            permitted = self.is_ours(check_files=True)
        else:  # `record`, just before this, has checked that the folder exists
            permitted = not self._gone and os.getpid() == self._owner
        if not permitted:
            return
        try:
            program.write_files(self.path, state, records, saved=saved)
        except OSError as error:
            if not self._failing_files:
                self._failing_files = True
                _log.warning("Could not write to %s: %s. The run continues.", self.path, error)
        else:
            self._failing_files = self._failing_files and not saved

    def _load(self, program: Program[S, R, Any], path: Path) -> RunProgress[S, R]:
        meta, arrays = container.read(path, sizes_fit(program))
        if meta.get("run") != self.run:
            raise CheckpointError(path, "is the checkpoint of another run.")
        if meta.get("config") != self._identity(program):
            raise CheckpointError(path, f"does not match {CONFIG}, which has changed since.")
        try:
            step = whole(meta["step"])
            position = Position(*(whole(meta["metrics"][name]) for name in Position._fields))
            if position.lines != step:
                raise ValueError(f"it has {step} steps but {position.lines} lines of metrics")
            state = program.unpack(meta, arrays)
            end = read_end(meta["end"], program)
            if program.limits is not None:
                before = program.limits.from_json(meta[program.limits_name])
                if (
                    end is not None
                    and before != program.limits
                    and end.reason not in _FINAL_REASONS
                ):
                    end = None
        except UNUSABLE as error:
            raise CheckpointError(path, f"does not match its run: {error}.") from error
        records = read_lines(self.path / METRICS, position, program.read_record)
        return RunProgress(state, step, records, end, position, saved=True)

    def _identity(self, program: Program[Any, Any, Any]) -> str:
        """Return the checksum of the settings that must not change between two checkpoints."""
        may_change = (program.limits_name, "execution", "extensions", SOURCE, "gensmooth")
        return checksum(self.config, exclude=may_change)

    def _read_config(self, kind: str) -> None:
        self.config = read_config(self.path / CONFIG)
        if self.config["kind"] != kind:
            what = str(self.config["kind"])[:20]
            raise CheckpointError(self.path, f"holds a {what}, not a {kind}.")
        self.run = str(self.config.get("run"))
        if not re.fullmatch("[0-9a-f]{1,64}", self.run):
            path = self.path / CONFIG
            raise CheckpointError(
                path, f"cannot be used: `run` must be a hexadecimal name, but is {self.run[:80]!r}."
            )

    def _log_write_error(self, name: str, error: OSError) -> None:
        if self._failing:
            return
        self._failing = True
        kept = "There is no checkpoint yet."
        if self.saved is not None:
            kept = f"The checkpoint after {self.saved} steps is kept."
        _log.warning(
            "Could not write %s: %s. %s The run continues and will try again at the next "
            "checkpoint.",
            self.path / name,
            error.strerror or error,
            kept,
        )


class Scratch:
    """A temporary folder with a checkpoint and a journal, deleted when the run has ended.

    It has no configuration and no metrics. The program itself checks whether a checkpoint belongs
    to it. If a checkpoint cannot be used, the run starts over. A run that is a part of a study
    logs how it starts only at the level of information.

    Args:
        path: The folder; it is created when the first checkpoint or value is written.

    Attributes:
        journal: As in :class:`RunFolder`.
    """

    journal: Journal

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._saved = 0
        self._has_checkpoint = False
        self._owner = os.getpid()

    def load(self, program: Program[S, Any, Any]) -> RunProgress[S, Any]:
        """Load the state of the run; steps are counted from zero again."""
        path = self.path / CHECKPOINT
        if os.path.lexists(path):
            try:
                state = program.unpack(*container.read(path, sizes_fit(program)))
                self._has_checkpoint = True
                return RunProgress(state, 0, [])
            except (CheckpointError, OSError, *UNUSABLE) as error:
                _log.warning("%s cannot be used, so the run starts over: %s", path, error)
        return RunProgress(program.init(), 0, [])

    def open(self, progress: RunProgress[Any, Any], every: int | str | Every | None) -> None:
        """See :class:`RunFolder`."""
        self._cadence = Cadence(every, progress.step)
        self.journal = Journal(self.path / JOURNAL, "", self._prepare)

    def describe_start(
        self,
        program: Program[Any, Any, Any],
        step: int,  # noqa: ARG002
        evaluations: int,  # noqa: ARG002
        recorded: int,
    ) -> str:
        """See :class:`RunFolder`; no numbers, because the program counts anew."""
        sources = ["checkpoint"] * self._has_checkpoint + ["journal"] * (recorded > 0)
        how = f"resumes from its {' and its '.join(sources)}" if sources else "starts"
        return f"The {program.noun} {how}."

    def record(self, step: int, line: Mapping[str, Any]) -> None:  # noqa: ARG002
        """See :class:`RunFolder`; stores no metrics."""
        self.journal.complete_step()

    def due(self, step: int) -> bool:
        """See :class:`RunFolder`."""
        return self._cadence.due(step)

    def is_ours(self) -> bool:
        """See :class:`RunFolder`."""
        return os.getpid() == self._owner

    def save(self, program: Program[S, Any, Any], state: S, step: int, end: End | None) -> None:
        """See :class:`RunFolder`; write errors are ignored."""
        if end is not None or step == self._saved or not self.is_ours():
            return
        started = time.monotonic()
        with contextlib.suppress(OSError):
            self._prepare()
            container.write(self.path / CHECKPOINT, *program.pack(state))
            self._saved = step
            self.journal.forget()
        self._cadence.done(step, time.monotonic() - started)

    def _prepare(self) -> bool:
        """Create the folder, and return whether this process may write to it."""
        if not self.is_ours():
            return False
        if self.path.is_symlink():  # it may point to a folder that is not ours
            self.path.unlink()
        self.path.mkdir(parents=True, exist_ok=True)
        return True

    def write_files(
        self, program: Program[S, R, Any], state: S, records: Sequence[R], *, saved: bool
    ) -> None:
        """See :class:`RunFolder`; does nothing, because only the checkpoint is stored."""


def sizes_fit(program: Program[Any, Any, Any]) -> container.Fits:
    """Return a check that a checkpoint's arrays are not too large for the program."""

    def fits(_: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        largest = program.largest()
        for name, size in sizes.items():
            if largest is not None and size > largest:
                raise ValueError(
                    f"its array {name[:80]!r} has {size} numbers, but at most {largest} are allowed"
                )

    return fits


def sizes_match(sizes: Mapping[str, int]) -> container.Fits:
    """Return a check that the arrays in the file are those that ``config.json`` lists."""

    def fits(_: Mapping[str, Any], actual: Mapping[str, int]) -> None:
        for name, size in actual.items():
            if name not in sizes:
                raise ValueError(f"it has an array {name[:80]!r} that {CONFIG} does not list")
            if size != sizes[name]:
                raise ValueError(
                    f"its array {name[:80]!r} has {size} numbers, but {CONFIG} says {sizes[name]}"
                )

    return fits


def config_of(program: Program[Any, Any, Any], run: str, large: dict[str, Array]) -> dict[str, Any]:
    """Return the contents of ``config.json``."""
    header = {"format": FORMAT, "kind": program.kind, "gensmooth": __version__, "run": run}
    return {**header, **program.settings(large)}


# The fields of every configuration. Each program checks its own settings. The length of names is
# limited here, because messages and pages show them.
_CONFIG = fields.record(
    {"format": fields.PLAIN, "kind": fields.NAME},
    {
        "gensmooth": fields.NAME,
        "run": fields.NAME,
        "objective": fields.nullable(fields.NAME),
        "method": fields.nullable(fields.NAME),
        "environment": fields.PLAIN_NAMES,
        "search": fields.PLAIN_NAMES,
    },
    others=fields.PLAIN,
)


def read_config(path: Path) -> dict[str, Any]:
    """Read a ``config.json`` and check its format and checksum.

    Raises:
        CheckpointError: If it cannot be read, has another format, or was changed.
    """
    try:
        config: dict[str, Any] = fields.parse(read_bytes(path), _CONFIG)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is not the configuration of a run: {error}.") from error
    if config["format"] != FORMAT:
        raise CheckpointError(
            path,
            f"has format {str(config['format'])[:20]}, but this version of gensmooth reads format "
            f"{FORMAT}. Use the version that wrote it ({str(config.get('gensmooth'))[:20]}).",
        )
    if config.get("sha256") != checksum(config):
        raise CheckpointError(
            path,
            "is damaged or was edited: its checksum differs. To use other settings, start a new "
            "run; to use other limits, pass them when you resume the run.",
        )
    return config


def kind_of(folder: Path) -> str | None:
    """The kind of run in a folder; ``None`` if it holds no run."""
    path = folder / CONFIG
    return read_config(path)["kind"] if path.is_file() else None


def seed_in(folder: Path | None) -> int | None:
    """The seed stored in a run's folder, so that resuming reuses it; ``None`` if there is none."""
    if folder is None or not (folder / CONFIG).is_file():
        return None
    seed = read_config(folder / CONFIG).get("seed")
    return seed if type(seed) is int else None


_END = fields.nullable(
    fields.record({"reason": fields.NAME, "why": fields.text()}, others=fields.PLAIN)
)


def read_end(stored: Any, program: Program[Any, Any, Any]) -> End | None:
    """Read how a run ended from its checkpoint; ``None`` if it has not.

    Raises:
        ValueError: If it cannot be the end of such a program.
    """
    more = _END(stored, "end")
    if more is None:
        return None
    reason, why = more.pop("reason"), more.pop("why")
    if program.reasons and reason not in program.reasons:
        raise ValueError(f"its reason to end is unknown: {reason[:80]!r}")
    return End(reason, why, program.read_end(more))


def _counted(number: int, plural: str) -> str:
    return f"{number:,} {plural if number != 1 else plural.removesuffix('s')}"


def _cannot_error(path: Path, what: str, error: OSError) -> CheckpointError:
    return CheckpointError(path, f"cannot {what}: {error.strerror or error}.")
