"""The log of a training run, which stores each step as L weights.

A log is one file. Its header identifies the model (names, shapes and types of the parameters, and a
hash of the base weights) and the directions. Then follows one record of fixed size per step: the
learning rate and weight decay of each group, the loss, the number of processes that shared the
work, and the L weights. A direction is a pure function of its address, so the base weights and the
records restore the trained parameters bit for bit.

Each record is written before the parameters move, so a killed process loses nothing. It is synced
to the disk with the first record written at least ``sync_seconds`` after the last sync, to limit
the loss when the machine fails. A truncated record is detected by its checksum and ignored.
"""

import json
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple, final

from gensmooth import checks

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
        self._file: Any = None
        self._form: struct.Struct | None = None
        self._synced = 0.0

    def read(self) -> tuple[dict[str, Any] | None, list[LogRecord]]:
        """Read the header and all complete records; no header if the file is missing or empty."""
        header, records, _ = _read(self.path)
        return header, records

    def open(self, header: dict[str, Any]) -> None:
        """Open the file for writing, after its last complete record or with a new header."""
        file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (it stays open for the run)
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.close()
                raise LogError(f"{self.path} is in use: another run is writing to it.") from None
            except OSError:  # a file system without locks
                pass
        existing, _, end = _read(self.path)
        if existing is None:
            file.truncate(0)
            line = json.dumps(header, separators=(",", ":")).encode()
            _write_all(file, _MAGIC + struct.pack("<I", zlib.crc32(line)) + line + b"\n")
        else:
            file.truncate(end)
        os.fsync(file.fileno())
        self._file, self._form, self._synced = file, _form(header), time.monotonic()

    def append(self, record: LogRecord) -> None:
        """Write one step."""
        assert self._file is not None
        assert self._form is not None
        words = self._form.pack(
            record.step,
            record.ranks,
            record.loss,
            *record.rates,
            *record.decays,
            *record.weights,
        )
        _write_all(self._file, words + struct.pack("<I", zlib.crc32(words)))
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


def _form(header: dict[str, Any]) -> struct.Struct:
    """The binary layout of a record."""
    return struct.Struct(f"<QId{2 * len(header['groups'])}d{header['num_directions']}d")


def _read(path: Path) -> tuple[dict[str, Any] | None, list[LogRecord], int]:
    """The header, the records, and the position where the last complete record ends."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, [], 0
    if not data or (len(data) < len(_MAGIC) and _MAGIC.startswith(data)):
        return None, [], 0
    if data.startswith(_NAME) and not data.startswith(_MAGIC):
        number = data[len(_NAME) :].partition(b"\n")[0][:20].decode(errors="replace")
        raise LogError(
            f"{path} has log format {number}, but this version of gensmooth reads format "
            f"{_FORMAT.decode()}. Use the version that wrote it."
        )
    if not data.startswith(_MAGIC):
        raise LogError(f"{path} is not a log of gs.torch.")
    start = len(_MAGIC)
    end = data.find(b"\n", start + 4, start + 4 + _HEADER_LIMIT)
    if end < 0:  # the process was killed while writing the header, so there are no steps
        return None, [], 0
    line = data[start + 4 : end]
    if struct.unpack("<I", data[start : start + 4])[0] != zlib.crc32(line):
        raise LogError(f"{path} is damaged: the checksum of its header is wrong.")
    header: dict[str, Any] = json.loads(line)
    form, groups = _form(header), len(header["groups"])
    size = form.size + 4
    records: list[LogRecord] = []
    at = end + 1
    while at + size <= len(data):
        words = data[at : at + form.size]
        if struct.unpack("<I", data[at + form.size : at + size])[0] != zlib.crc32(words):
            if at + size < len(data):
                raise LogError(
                    f"{path} is damaged: the checksum of record {len(records)} is wrong, and it is "
                    "not the last."
                )
            break
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
        at += size
    return header, records, at


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
