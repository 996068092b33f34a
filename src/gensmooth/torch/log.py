"""A run as a log: L weights per step are all that a training run adds to its base weights.

A log is one file. A header says which model it belongs to (names, shapes and types of parameters
and a hash of the base weights) and how directions are made; then follows one record of a fixed
size per step: the learning rate and weight decay of each group, the loss, how many processes
shared the work, and the L weights. Since a direction is a pure function of its address, the
records rebuild the trained parameters bit for bit.

Each record is handed to the operating system before the parameters move, so a process that is
killed loses nothing; it is forced to the disk at most ``sync_seconds`` later, against a machine
that is. A record that was cut off is noticed by its checksum and left out.
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
except ImportError:  # no such locks on this system
    fcntl = None

_NAME, _FORMAT = b"gensmooth torch log ", b"1"
_MAGIC = _NAME + _FORMAT + b"\n"
_HEADER_LIMIT = 2**28  # bytes: a header is a line per parameter


class LogError(ValueError):
    """A log that cannot be used: not one, damaged, in use, or of another model."""


class LogRecord(NamedTuple):
    """One step.

    Attributes:
        step: Its number, from 0.
        ranks: How many processes shared its evaluations: evaluation e was made by e modulo ranks.
        loss: The loss at the parameters before the step, as the estimator knows it.
        rates: The learning rate of each parameter group.
        decays: The weight decay of each group.
        weights: Of each direction: parameters move by ``-rate · Σ_l weights[l] ε_l``.
    """

    step: int
    ranks: int
    loss: float
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    weights: tuple[float, ...]


@final
class Log:
    """A file to which an optimiser writes what each step was.

    Give it to :class:`ZerothOrder`. Where the file has steps already, the model must hold the base
    weights of the run; the optimiser replays the steps, bit for bit, and goes on after the last.

    Args:
        path: Of the file; it is made if it is not there.
        sync_seconds: How old a record may get before it is forced to the disk.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync_seconds: float = 1.0) -> None:
        self.path = checks.path("path", path)
        self._sync_seconds = checks.nonnegative("sync_seconds", sync_seconds)
        self._file: Any = None
        self._form: struct.Struct | None = None
        self._synced = 0.0

    def read(self) -> tuple[dict[str, Any] | None, list[LogRecord]]:
        """The header and all whole records; no header where there is no file, or an empty one."""
        header, records, _ = _read(self.path)
        return header, records

    def open(self, header: dict[str, Any]) -> None:
        """Begin to write: after the whole records that are there, or with a new header."""
        file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (it stays open for the run)
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.close()
                raise LogError(f"{self.path} is in use: another run is writing to it.") from None
            except OSError:  # a file system without locks
                pass
        found, _, end = _read(self.path)
        if found is None:
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
        """Force all that was written to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def close(self) -> None:
        """Force all to the disk and let others write."""
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _form(header: dict[str, Any]) -> struct.Struct:
    """How a record lies in the file."""
    return struct.Struct(f"<QId{2 * len(header['groups'])}d{header['num_directions']}d")


def _read(path: Path) -> tuple[dict[str, Any] | None, list[LogRecord], int]:
    """Header, records, and where the last whole one ends."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, [], 0
    if not data or (len(data) < len(_MAGIC) and _MAGIC.startswith(data)):
        return None, [], 0
    if data.startswith(_NAME) and not data.startswith(_MAGIC):
        number = data[len(_NAME) :].partition(b"\n")[0][:20].decode(errors="replace")
        raise LogError(
            f"{path} is a log of format {number}, but this gensmooth reads format "
            f"{_FORMAT.decode()}: use the version that wrote it."
        )
    if not data.startswith(_MAGIC):
        raise LogError(f"{path} is not a log of gs.torch: it does not begin like one.")
    start = len(_MAGIC)
    end = data.find(b"\n", start + 4, start + 4 + _HEADER_LIMIT)
    if end < 0:  # killed while the header was written, so there is no step
        return None, [], 0
    line = data[start + 4 : end]
    if struct.unpack("<I", data[start : start + 4])[0] != zlib.crc32(line):
        raise LogError(f"{path} is damaged: its header is not what was written.")
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
                    f"{path} is damaged: record {len(records)} is not what was written, and others "
                    "follow it."
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
