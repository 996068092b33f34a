"""The log of a training run, which stores each step as L weights.

A log is one file. Its header identifies the model (names, shapes and types of the parameters, and a
hash of the base weights) and the directions. Then follows one record of fixed size per step: the
learning rate and weight decay of each group, the loss, the number of processes that shared the
work, and the L weights. A direction is a pure function of its address, so the base weights and the
records restore the trained parameters bit for bit.

Each record is written before the parameters move, so a killed process loses nothing. It is synced
to the disk with the first record written at least ``sync_seconds`` after the last sync, to limit
the loss when the machine fails. A truncated record at the end is ignored; a record whose checksum
is wrong is an error.
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Sequence
from io import BufferedReader, FileIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast, final

from gensmooth import checks, fields
from gensmooth.runs.files import has_other_names, open_file, open_to_update, write_all

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

_NAME, _FORMAT = b"gensmooth torch log ", b"1"
_MAGIC = _NAME + _FORMAT + b"\n"
_HEADER_LIMIT = 2**28  # bytes


class LogError(ValueError):
    """A log cannot be used: it is invalid, damaged, in use, or belongs to another model."""


class LogRecord(NamedTuple):
    """The record of one step.

    Attributes:
        step: Its number, from 0.
        ranks: The number of processes that took part.
        loss: The loss of the step, as :meth:`ZerothOrder.step` returns it.
        rates: The learning rate of each parameter group.
        decays: The weight decay of each group.
        weights: The weight of each direction; parameters move by ``-rate · Σ_l weights[l] ε_l``.
    """

    step: int
    ranks: int
    loss: float
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    weights: tuple[float, ...]


@final
class Log:
    """A file in which an optimiser records its steps.

    Pass it to :class:`ZerothOrder`. If the file already contains steps, the model must have the
    base weights of the run; the optimiser replays the steps bit for bit and continues after the
    last.

    Args:
        path: The file; it is created if it does not exist.
        sync_seconds: The minimum interval between syncs to the disk.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync_seconds: float = 1.0) -> None:
        self.path = checks.path("path", path)
        self._sync_seconds = checks.nonnegative("sync_seconds", sync_seconds)
        self._file: FileIO | None = None
        self._form: struct.Struct | None = None
        self._synced = 0.0

    def read(self) -> tuple[dict[str, Any] | None, list[LogRecord]]:
        """Read the header and all complete records; no header if the file is missing or empty."""
        header, records, _ = _read(self.path)
        return header, records

    def open(self, header: dict[str, Any]) -> None:
        """Open the file for writing, after its last complete record or with a new header."""
        try:
            file = open_to_update(self.path)
        except OSError as error:
            raise _cannot(self.path, "written", error) from error
        try:
            self._lock(file)
            if has_other_names(file):
                raise LogError(
                    f"{self.path} is a hard link, and writing to it would also change the file "
                    "under its other name: copy it, and use the copy."
                )
            existing, _, end = _read(self.path)
            if existing is None:
                file.truncate(0)
                line = json.dumps(header, separators=(",", ":")).encode()
                write_all(file, _MAGIC + struct.pack("<I", zlib.crc32(line)) + line + b"\n")
            else:
                file.truncate(end)
            file.seek(0, os.SEEK_END)
            os.fsync(file.fileno())
        except BaseException:
            file.close()
            raise
        self._file, self._form, self._synced = file, _form(header), time.monotonic()

    def _lock(self, file: FileIO) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise LogError(f"{self.path} is in use: another run is writing to it.") from None
        except OSError:  # a file system without locks
            pass

    def append(self, record: LogRecord) -> None:
        """Write one step."""
        assert self._file is not None
        assert self._form is not None
        words = self._form.pack(
            record.step, record.ranks, record.loss, *record.rates, *record.decays, *record.weights
        )
        write_all(self._file, words + struct.pack("<I", zlib.crc32(words)))
        if time.monotonic() - self._synced >= self._sync_seconds:
            self.sync()

    def sync(self) -> None:
        """Sync everything written to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def close(self) -> None:
        """Sync to the disk, close the file and release its lock."""
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- reading -------------------------------------------------------------------------------------

_MAX_DIRECTIONS, _MAX_PARAMETERS, _MAX_GROUPS = 1_000_000, 1_000_000, 10_000
_FLOAT = fields.real(finite=True)


def _parameter(value: Any, name: str) -> list[Any]:
    """Accept the name, the type and the shape of a parameter."""
    items = fields.many(fields.PLAIN, 3, 3)(value, name)
    sizes = fields.many(fields.count(), 64)
    return [fields.NAME(items[0], name), fields.NAME(items[1], name), sizes(items[2], name)]


def _law(value: Any, name: str) -> list[Any]:
    """Accept the fields of :class:`gensmooth.models.Law`."""
    shapes = (fields.one_of("coin", "normal"), _FLOAT, _FLOAT, fields.count(0, 1 << 20), _FLOAT)
    items = fields.many(fields.PLAIN, len(shapes), len(shapes))(value, name)
    return [shape(item, name) for shape, item in zip(shapes, items, strict=True)]


_HEADER = fields.record(
    {
        "seed": fields.SEED,
        "spacing": _FLOAT,
        "num_directions": fields.count(1, _MAX_DIRECTIONS),
        "law": _law,
        "momentum": _FLOAT,
        "groups": fields.many(fields.many(_parameter, _MAX_PARAMETERS), _MAX_GROUPS),
        "base": fields.NAME,
    },
    {
        "visited": fields.many(
            fields.many(fields.count(-1, _MAX_DIRECTIONS), 2, 2), 2 * _MAX_DIRECTIONS
        )
    },
    others=fields.PLAIN,
)


def _form(header: dict[str, Any]) -> struct.Struct:
    return struct.Struct(f"<QId{2 * len(header['groups'])}d{header['num_directions']}d")


def _read(path: Path) -> tuple[dict[str, Any] | None, list[LogRecord], int]:
    """Return the header, the records, and the position where the last complete record ends."""
    try:
        with open_file(path, follow=True) as file:
            return _read_file(path, file)
    except FileNotFoundError:
        return None, [], 0
    except OSError as error:
        raise _cannot(path, "read", error) from error


def _read_file(
    path: Path, file: BufferedReader
) -> tuple[dict[str, Any] | None, list[LogRecord], int]:
    size = os.fstat(file.fileno()).st_size
    start = file.read(len(_MAGIC))
    if len(start) < len(_MAGIC) and _MAGIC.startswith(start):
        return None, [], 0
    if start.startswith(_NAME) and start != _MAGIC:
        number = (start[len(_NAME) :] + file.read(20)).partition(b"\n")[0][:20]
        raise LogError(
            f"{path} has log format {number.decode(errors='replace')}, but this version of "
            f"gensmooth reads format {_FORMAT.decode()}. Use the version that wrote it."
        )
    if start != _MAGIC:
        raise LogError(f"{path} is not a log of gs.torch.")
    crc32, line = file.read(4), file.readline(_HEADER_LIMIT)
    if not line.endswith(b"\n"):
        if size > file.tell() or any(byte < 0x20 for byte in line):
            raise LogError(f"{path} is damaged: its header has no end.")
        return None, [], 0  # the process was killed while writing the header: there are no steps
    if crc32 != struct.pack("<I", zlib.crc32(line[:-1])):
        raise LogError(f"{path} is damaged: the checksum of its header is wrong.")
    try:
        header: dict[str, Any] = fields.parse(line, _HEADER)
    except ValueError as error:
        raise LogError(f"{path} has an invalid header: {error}.") from error
    return header, *_read_records(path, file, header, size)


def _read_records(
    path: Path, file: BufferedReader, header: dict[str, Any], size: int
) -> tuple[list[LogRecord], int]:
    """Return the records and the position where the last complete one ends.

    A record at the end that is too short was being written when the process was killed. If the
    machine failed, it may also have its full length and end with zeros that were never written.
    Any other wrong checksum is damage.
    """
    form, groups = _form(header), len(header["groups"])
    records: list[LogRecord] = []
    end = file.tell()
    while end + form.size + 4 <= size:
        words, crc32 = file.read(form.size), file.read(4)
        if crc32 != struct.pack("<I", zlib.crc32(words)):
            last = end + 2 * (form.size + 4) > size
            if last and crc32 == bytes(4):
                break
            raise LogError(f"{path} is damaged: the checksum of record {len(records)} is wrong.")
        step, ranks, loss, *numbers = form.unpack(words)
        if step != len(records):
            raise LogError(f"{path} is damaged: step {len(records)} is missing.")
        records.append(
            LogRecord(
                step,
                ranks,
                loss,
                tuple(numbers[:groups]),
                tuple(numbers[groups : 2 * groups]),
                tuple(numbers[2 * groups :]),
            )
        )
        end = file.tell()
    return records, end


def _cannot(path: Path, done: str, error: OSError) -> LogError:
    return LogError(f"{path} cannot be {done}: {error.strerror or error}.")


def check_header(
    stored: dict[str, Any], ours: dict[str, Any], path: str, error: type[ValueError] = LogError
) -> None:
    """Raise an error if a log (or state) belongs to another model or has other settings."""
    theirs: list[Any] = list(chain(*stored["groups"]))
    mine: list[Any] = list(chain(*ours["groups"]))
    if theirs != mine:
        for their, my in zip(theirs, mine, strict=False):
            if their != my:
                raise error(
                    f"{path} belongs to another model: it has the parameter {their[0]!r} "
                    f"({their[1]}, shape {their[2]}) where this one has {my[0]!r} ({my[1]}, shape "
                    f"{my[2]}). {_UNCHANGED}"
                )
        raise error(
            f"{path} belongs to another model: it has {len(theirs)} parameters, this one has "
            f"{len(mine)}. {_UNCHANGED}"
        )
    for name, value in ours.items():
        if name != "base" and _plain(stored.get(name)) != _plain(value):
            raise error(
                f"{path} was written with {name}={checks.shown(stored.get(name))}, but this run "
                f"has {name}={checks.shown(value)}. {_UNCHANGED}"
            )
    if "base" in ours and stored["base"] != ours["base"]:
        raise error(
            f"{path} begins with other weights than the model has now. Load the weights that the "
            f"run began with; its steps are replayed on them. {_UNCHANGED}"
        )


_UNCHANGED = "The parameters were not changed."


def _plain(value: Any) -> Any:
    """Return a value as it is after a round trip through JSON."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in cast(Sequence[Any], value)]
    return value
