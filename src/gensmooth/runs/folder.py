"""A run's folder: configuration, metrics, checkpoint; who may write, and what if the disk is full.

``config.json`` says what is run, ``metrics.jsonl`` has a line per step, ``checkpoint`` is all that
the next step needs.
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
from typing import Any, Generic, NamedTuple, TypeVar, cast

from numpy.typing import NDArray

from gensmooth._version import __version__
from gensmooth.describe import plain, whole
from gensmooth.runs import container
from gensmooth.runs.config import (
    FORMAT,
    Cadence,
    Every,
    checksum,
    differences,
    pretty,
    sizes_in,
)
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
from gensmooth.runs.program import Program
from gensmooth.runs.stopping import End

S = TypeVar("S")
R = TypeVar("R")
C = TypeVar("C")
Array = NDArray[Any]

CONFIG, ARRAYS, METRICS, TIMES = "config.json", "arrays", "metrics.jsonl", "times.jsonl"
SOURCE = "source"  # what a configuration calls the hash of what the user wrote
CHECKPOINT, PREVIOUS = "checkpoint", "checkpoint.previous"

# What reading a damaged or malicious file may raise, whatever it says.
UNUSABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)
_FOR_GOOD = ("diverged",)  # reasons to end that other limits do not lift
_LEFT_BY_A_KILL = {".lock", ARRAYS, f".{ARRAYS}.new", f".{CONFIG}.new"}
_log = logging.getLogger("gensmooth")


class Found(NamedTuple, Generic[S, R]):
    """How far a run has got.

    Attributes:
        state: Its state.
        step: Steps made.
        records: What is known of them.
        end: How it ended, if it has and its limits are still the same.
        position: How far ``metrics.jsonl`` goes.
        saved: Whether this is from a checkpoint.
    """

    state: S
    step: int
    records: list[R]
    end: End | None = None
    position: Position = Position()
    saved: bool = False


class RunFolder:
    """A folder that this process may write to; a context manager that lets go of it.

    A write that fails during a run is logged once; the run goes on, the last good checkpoint
    stays, and the next one is tried when it is due.

    Args:
        path: The folder.
        create: Whether it may be made, and hold no run yet.

    Attributes:
        path: The folder, absolute: an objective may change the working folder.
        run: The random name of its run, once it is known.
        config: The contents of ``config.json``, once they are known.
        saved: The step of the last good checkpoint.
    """

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

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._metrics is not None:
            try:
                if self.ours():
                    self._metrics.flush()
                    if self._times is not None:
                        self._times.close()
            except OSError as error:
                self._report(METRICS, error)
            self._metrics.close()
        self._lock.release()

    # --- what is run

    def take(self, program: Program[S, R, Any]) -> Found[S, R]:
        """Begin a new run, or find how far the run that is here has got.

        Raises:
            CheckpointError: When the run that is here is another, or cannot be used.
            TypeError: When a checkpoint cannot hold the program's state.
        """
        if not (self.path / CONFIG).exists():
            state = program.init()
            try:
                program.pack(state)
            except TypeError as error:
                message = f"This {program.noun} cannot be checkpointed: {error}."
                raise TypeError(message) from error
            self.run = secrets.token_hex(8)
            self.write(program)
            with contextlib.suppress(OSError):  # a folder above that we may not open
                sync_folder(self.path.parent)
            return Found(state, 0, [])
        self._read_config(program.kind)
        now: dict[str, Any] = json.loads(json.dumps(program.settings({})))
        compared = program.compared or dict.fromkeys(now)
        if words := differences(now, self.config, compared):
            noun, by = program.noun, program.resumed_by
            raise CheckpointError(
                self.path,
                f"holds a {noun} with another configuration: {', '.join(words)}. Choose another "
                f"folder{f'; to go on with that {noun} under other limits, use {by}' * bool(by)}.",
            )
        found = self.load(program)
        self.compare_source(now.get(SOURCE))
        return found

    def compare_source(self, now: str | None) -> None:
        """Say so if what the user wrote for this run is not what it was when the run began.

        Args:
            now: The hash of its source; nothing is said where one of the two is not known.
        """
        before = self.config.get(SOURCE)
        if now is not None and before is not None and now != before:
            _log.warning(
                "The objective has changed since the run in %s began: its source, or that of a "
                "function of its module that it calls, is another. What the folder holds was found "
                "with the old one; for the new one choose another folder.",
                self.path,
            )

    def say_that_it_has_ended(self, program: Program[Any, Any, Any], end: End, step: int) -> None:
        """Say that a result is told again, and nothing is run."""
        _log.warning(
            "%s holds this %s, which has ended after %d steps (%s): its result is told again, and "
            "nothing was run. To go on, resume it with other limits; to begin anew, choose another "
            "folder.",
            self.path,
            program.noun,
            step,
            end.reason,
        )

    def read(self, kind: str, parse: Callable[[dict[str, Any], Mapping[str, Array]], C]) -> C:
        """The run that is here, as ``parse`` makes it from ``config.json`` and the large arrays.

        Raises:
            CheckpointError: When it is of another kind, or cannot be used.
        """
        self._read_config(kind)
        large, sizes = self.path / ARRAYS, sizes_in(self.config)
        arrays: Mapping[str, Array] = {}
        if sizes and large.exists():
            arrays = container.read(large, _are(sizes)).arrays
        try:
            return parse(self.config, arrays)
        except UNUSABLE as error:
            raise CheckpointError(self.path / CONFIG, f"cannot be used: {error}.") from error

    def write(self, program: Program[Any, Any, Any]) -> None:
        """Write ``config.json``, and beside it the arrays that are too large for it."""
        arrays: dict[str, Array] = {}
        self.config = config_of(program, self.run, arrays)
        self.config = {**self.config, "sha256": checksum(self.config)}
        try:
            if arrays and not (self.path / CONFIG).exists():  # else they are there, and the same
                container.write(self.path / ARRAYS, {}, arrays)
            write_text(self.path / CONFIG, f"{pretty(self.config)}\n")
        except OSError as error:
            raise _cannot(self.path, "be written to", error) from error

    def load(self, program: Program[S, R, Any]) -> Found[S, R]:
        """How far the run has got.

        Raises:
            CheckpointError: When its checkpoint is missing or cannot be used; nothing is changed.
        """
        path, previous = self.path / CHECKPOINT, self.path / PREVIOUS
        if not path.exists():
            if previous.exists():
                raise CheckpointError(
                    path,
                    f"is missing, but {PREVIOUS} is there: rename it to go on from it, or remove "
                    "it to begin anew.",
                )
            return Found(program.init(), 0, [])
        try:
            return self._load(program, path)
        except CheckpointError as error:
            words = str(error).removeprefix(f"{error.path} ")
            try:
                step = self._load(program, previous).step
            except CheckpointError:
                hint = ""
            else:
                hint = (
                    f" The one before it is whole, after {step} steps: rename {PREVIOUS} to "
                    f"{CHECKPOINT} to go on from there."
                )
            raise CheckpointError(error.path, f"{words}{hint}") from error

    # --- while it runs

    def open(self, found: Found[Any, Any], every: int | str | Every | None) -> None:
        """Get ready to record steps after those that were found."""
        self.saved = found.step if found.saved else None
        self._cadence = Cadence(every, found.step)
        try:
            self._metrics = Metrics(self.path / METRICS, found.position)
            self._times = Times(self.path / TIMES, found.step)
        except OSError as error:
            raise _cannot(self.path / METRICS, "be written to", error) from error

    def record(self, step: int, line: Mapping[str, Any]) -> None:
        """Append a line to ``metrics.jsonl``."""
        assert self._metrics is not None
        text = json.dumps({"step": step, **line}, allow_nan=False)
        if not self.ours():
            return
        try:
            self._metrics.add(f"{text}\n".encode())
            if self._times is not None:
                self._times.tick(step + 1)
        except OSError as error:
            self._report(METRICS, error)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after so many steps."""
        return self._cadence.due(step)

    def ours(self, *, again: bool = False) -> bool:
        """Whether the folder is still there and this run's; what is not is left alone.

        Args:
            again: Whether to look for its files too, without which a checkpoint is of no use.
        """
        if self._gone or os.getpid() != self._owner:  # a fork of ours has no part in it
            return False
        there = self._lock.holds
        if there and again and self._metrics is not None:
            there = self._metrics.there and (self.path / CONFIG).exists()
        if not there:
            self._gone = True
            _log.warning(
                "The folder %s was removed or replaced: nothing more is written there, nothing "
                "of this run is kept, and it goes on.",
                self.path,
            )
        return there

    def save(self, program: Program[S, Any, Any], state: S, step: int, end: End | None) -> None:
        """Write a checkpoint, unless this very one was written before."""
        assert self._metrics is not None
        started = time.monotonic()
        position = self._metrics.position
        if not self.ours(again=True):
            return
        if position.lines != step or (end is None and step == self.saved):
            return  # the first: a step torn apart by an interrupt where we could not hold it off
        meta, arrays = program.pack(state)
        meta = {"step": step, **meta, "run": self.run, "config": self._identity(program)}
        if program.limits is not None:
            limits: Mapping[str, Any] = program.limits._asdict()
            meta[program.limits_name] = {name: plain(value) for name, value in limits.items()}
        told = None if end is None else {"reason": end.reason, "why": end.why, **end.more}
        meta |= {"end": told, "metrics": position._asdict()}
        name = METRICS
        try:
            self._metrics.sync()
            name = CHECKPOINT
            container.write(self.path / CHECKPOINT, meta, arrays, previous=self.path / PREVIOUS)
        except OSError as error:
            self._report(name, error)
        else:
            self.saved, self._failing = step, False
        self._cadence.done(step, time.monotonic() - started)

    def write_files(
        self, program: Program[S, R, Any], state: S, records: Sequence[R], *, saved: bool
    ) -> None:
        """Have a program write its own files, as :meth:`Program.write_files` says."""
        if not self.ours(again=saved):
            return
        try:
            program.write_files(self.path, state, records, saved=saved)
        except OSError as error:
            if not self._failing_files:
                self._failing_files = True
                _log.warning("Could not write to %s: %s. The run goes on.", self.path, error)
        else:
            self._failing_files = self._failing_files and not saved

    def _load(self, program: Program[S, R, Any], path: Path) -> Found[S, R]:
        meta, arrays = container.read(path, _fits(program))
        if meta.get("run") != self.run:
            raise CheckpointError(path, "is the checkpoint of another run.")
        if meta.get("config") != self._identity(program):
            raise CheckpointError(path, f"is of a run with another {CONFIG}: that was changed.")
        try:
            step = whole(meta["step"])
            position = Position(*(whole(meta["metrics"][name]) for name in Position._fields))
            if position.lines != step:
                raise ValueError(f"{step} steps do not make {position.lines} lines of metrics")
            state = program.unpack(meta, arrays)
            end = _end(meta["end"], program.reasons)
            if program.limits is not None:
                before = program.limits.from_json(meta[program.limits_name])
                if end is not None and before != program.limits and end.reason not in _FOR_GOOD:
                    end = None
        except UNUSABLE as error:
            raise CheckpointError(path, f"does not fit its run: {error}.") from error
        records = read_lines(self.path / METRICS, position, program.read_record)
        return Found(state, step, records, end, position, saved=True)

    def _identity(self, program: Program[Any, Any, Any]) -> str:
        """The checksum of what makes the run what it is.

        All but its limits, its execution, how its objective was written, and by which version of
        gensmooth it was begun.
        """
        may_change = (program.limits_name, "execution", "extensions", SOURCE, "gensmooth")
        return checksum(self.config, but=may_change)

    def _read_config(self, kind: str) -> None:
        self.config = read_config(self.path / CONFIG)
        if self.config["kind"] != kind:
            what = str(self.config["kind"])[:20]
            raise CheckpointError(self.path, f"holds a {what}, not a {kind}.")
        self.run = str(self.config.get("run"))
        if not re.fullmatch("[0-9a-f]{1,64}", self.run):
            path = self.path / CONFIG
            raise CheckpointError(path, f"cannot be used: `run` is {self.run[:80]!r}.")

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


class Scratch:
    """A checkpoint alone, in a folder that is thrown away when the run has ended.

    There is no configuration and no metrics, a program says itself whether a checkpoint is its own,
    and one that cannot be used is as good as none: the run begins anew.

    Args:
        path: The folder; it is made with the first checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._saved = 0
        self._owner = os.getpid()

    def load(self, program: Program[S, Any, Any]) -> Found[S, Any]:
        """How far the run has got; steps are counted from here on."""
        state: S | None = None
        with contextlib.suppress(CheckpointError, OSError, *UNUSABLE):
            state = program.unpack(*container.read(self.path / CHECKPOINT, _fits(program)))
        return Found(program.init() if state is None else state, 0, [])

    def open(self, found: Found[Any, Any], every: int | str | Every | None) -> None:
        """See :class:`RunFolder`."""
        self._cadence = Cadence(every, found.step)

    def record(self, step: int, line: Mapping[str, Any]) -> None:
        """See :class:`RunFolder`: nothing is kept of a step but its state."""

    def due(self, step: int) -> bool:
        """See :class:`RunFolder`."""
        return self._cadence.due(step)

    def ours(self) -> bool:
        """See :class:`RunFolder`."""
        return os.getpid() == self._owner

    def save(self, program: Program[S, Any, Any], state: S, step: int, end: End | None) -> None:
        """See :class:`RunFolder`. That it cannot be written must not end the run."""
        if end is not None or step == self._saved or not self.ours():
            return
        started = time.monotonic()
        with contextlib.suppress(OSError):
            if self.path.is_symlink():  # a stranger's, to where it is not ours to write
                self.path.unlink()
            self.path.mkdir(parents=True, exist_ok=True)
            container.write(self.path / CHECKPOINT, *program.pack(state))
            self._saved = step
        self._cadence.done(step, time.monotonic() - started)

    def write_files(
        self, program: Program[S, R, Any], state: S, records: Sequence[R], *, saved: bool
    ) -> None:
        """See :class:`RunFolder`: there are no files but the checkpoint."""


def _fits(program: Program[Any, Any, Any]) -> container.Fits:
    """Whether a checkpoint can be of a program, told by the sizes of its arrays."""

    def fits(_: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        largest = program.largest()
        for name, size in sizes.items():
            if largest is not None and size > largest:
                raise ValueError(f"it has {size} numbers for {name[:80]!r}, but {largest} are most")

    return fits


def _are(sizes: Mapping[str, int]) -> container.Fits:
    """Whether arrays are those that ``config.json`` says are kept beside it."""

    def fits(_: Mapping[str, Any], found: Mapping[str, int]) -> None:
        for name, size in found.items():
            if size != sizes.get(name):
                raise ValueError(
                    f"it has {size} numbers for {name[:80]!r}, but {CONFIG} has {sizes.get(name)}"
                )

    return fits


def config_of(program: Program[Any, Any, Any], run: str, large: dict[str, Array]) -> dict[str, Any]:
    """The contents of ``config.json``."""
    header = {"format": FORMAT, "kind": program.kind, "gensmooth": __version__, "run": run}
    return {**header, **program.settings(large)}


def read_config(path: Path) -> dict[str, Any]:
    """A ``config.json`` of a format that is known here."""
    try:
        found: Any = json.loads(read_bytes(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(path, f"cannot be read: {error}.") from error
    if not isinstance(found, dict) or "format" not in found or "kind" not in found:
        raise CheckpointError(path, "is not the configuration of a run.")
    config = cast(dict[str, Any], found)
    if config["format"] != FORMAT:
        raise CheckpointError(
            path,
            f"is of format {str(config['format'])[:20]}, but this gensmooth reads format "
            f"{FORMAT}: use the version that wrote it ({str(config.get('gensmooth'))[:20]}).",
        )
    if config.get("sha256") != checksum(config):
        raise CheckpointError(
            path,
            "is damaged or was changed by hand: its checksum differs. Begin a new run with the "
            "settings that you want; other limits can be given to the call that resumes.",
        )
    return config


def kind_of(folder: Path) -> str | None:
    """What kind of run a folder holds; ``None`` if it holds no run."""
    path = folder / CONFIG
    return read_config(path)["kind"] if path.is_file() else None


def seed_in(folder: Path | None) -> int | None:
    """The seed of the run that a folder holds, if it holds one: a seed once drawn is kept."""
    if folder is None or not (folder / CONFIG).is_file():
        return None
    seed = read_config(folder / CONFIG).get("seed")
    return seed if type(seed) is int else None


def _end(found: Any, reasons: Any) -> End | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        raise TypeError("its end is not one")
    more = dict(cast(dict[str, Any], found))
    reason, why = more.pop("reason"), more.pop("why")
    if not (isinstance(reason, str) and isinstance(why, str)):
        raise TypeError("its end has no reason")
    if reasons and reason not in reasons:
        raise ValueError(f"it ended for no reason: {reason[:80]!r}")
    return End(reason, why, more)


def _cannot(path: Path, what: str, error: OSError) -> CheckpointError:
    return CheckpointError(path, f"cannot {what}: {error.strerror or error}.")
