"""The journal: the values of evaluations since the last checkpoint, written as they arrive.

A step is a pure function of the state and of the values of its evaluations. A run that was killed
therefore repeats the steps after its last checkpoint with the values from the journal, and calls
the objective only for the values that are missing. The result is the same to the last bit.

A value whose call took 10 ms or more is written when it arrives. Cheaper values are written
together, once the batch has taken 10 ms. A batch that takes less is not recorded; its overhead is
one reading of the clock per call, measured by ``python -m benchmarks.checkpoint``. A background
thread flushes the file to the physical disk twice a second. The journal is emptied when a
checkpoint is written, and removed when the run ends.

The file is a sequence of records, little-endian. Each record is the length of its body (uint32),
the CRC-32 of its body (uint32) and its body, which begins with one letter:

====  ==========================================================================================
J     the version of the format (uint32) and the name of the run
B     a batch of evaluations: its step (int64), the checksum of its points (uint32), its number of
      rows (int64) and of columns (int64; 0: one value per row). The records below belong to it
V     values: the first row (int64), then float64s
F     failed evaluations that were dropped, and counts of faults, as JSON
X     the failures of this batch are void, because they ended the run
====  ==========================================================================================
"""

import contextlib
import json
import logging
import math
import os
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import fields
from gensmooth.runs.files import has_other_names, open_file, open_to_update, write_all, write_whole

Floats = NDArray[np.float64]

VERSION = 1
SLOW = 0.01  # seconds: a call that takes this long is recorded when it returns
CHECKPOINT_DUE = 1 << 26  # bytes: a checkpoint is due when the journal exceeds this
_FULL = 1 << 28  # bytes: nothing is recorded beyond this
_MAX_BATCHES = 1 << 20  # more than there are when a checkpoint is due
_BYTES_PER_SECOND = 2e7  # values that arrive faster than this are cheaper to compute than to record
_SYNC_SECONDS = 0.5

_FRAME = struct.Struct("<II")
_HEAD = struct.Struct("<cI")
_BATCH = struct.Struct("<cqIqq")
_VALUES = struct.Struct("<cq")
_FAILURES = fields.record(
    {"faults": fields.table(fields.count()), "dropped": fields.many(fields.count(), 1 << 26)}
)
_log = logging.getLogger("gensmooth")


class Recorded(Protocol):
    """A batch of evaluations whose values can be recorded."""

    @property
    def step(self) -> int:
        """The step that the batch belongs to."""
        ...

    def checksum(self) -> int:
        """A checksum of its points and samples."""
        ...

    def __len__(self) -> int: ...


class BatchAddress(NamedTuple):
    """Identifies a batch of evaluations.

    Attributes:
        step: The step.
        checksum: The checksum of its points; see :meth:`gensmooth.batch.Batch.checksum`.
        rows: The number of evaluations.
        columns: Numbers per evaluation; 0 if an evaluation returns a single value.
    """

    step: int
    checksum: int
    rows: int
    columns: int


def address_of(batch: Recorded, columns: int) -> BatchAddress:
    """The address of a batch."""
    return BatchAddress(batch.step, batch.checksum(), len(batch), columns)


class _StoredBatch:
    """The records of one batch in the file."""

    __slots__ = ("failed", "faults", "values")

    def __init__(self) -> None:
        self.values: list[tuple[int, bytes]] = []
        self.failed: list[int] = []
        self.faults: Counter[str] = Counter()


@final
class JournalEntry:
    """The part of the journal for one batch.

    Attributes:
        is_empty: Whether nothing about this batch is known from an earlier process.
        has_failures: Whether faults were recorded, in this process or earlier.
    """

    __slots__ = (
        "_address",
        "_batch",
        "_columns",
        "_journal",
        "_known",
        "_values",
        "_waiting",
        "_written_at",
        "faults",
        "has_failures",
        "is_empty",
    )

    def __init__(
        self, journal: "Journal", batch: Recorded, columns: int, stored: _StoredBatch | None
    ) -> None:
        self._journal, self._batch, self._columns = journal, batch, columns
        self._address: BatchAddress | None = None
        self._known: NDArray[np.bool_] | None = None
        self._values: Floats | None = None
        self.faults: Mapping[str, int] = {}
        self.has_failures = False
        self.is_empty = stored is None
        self._waiting: list[tuple[int, Floats]] = []
        if stored is not None:
            self._restore(stored)
        self._written_at = time.perf_counter()

    @property
    def address(self) -> BatchAddress:
        """The address of the batch."""
        if self._address is None:
            self._address = address_of(self._batch, self._columns)
        return self._address

    @property
    def known(self) -> NDArray[np.bool_]:
        """For each evaluation, whether its result is known from an earlier process."""
        if self._known is None:
            self._known = np.zeros(len(self._batch), bool)
        return self._known

    @property
    def values(self) -> Floats:
        """The known values; NaN elsewhere, and for an evaluation that failed and was dropped."""
        if self._values is None:
            shape = (len(self._batch), self._columns) if self._columns else (len(self._batch),)
            self._values = np.full(shape, np.nan)
        return self._values

    def _restore(self, stored: _StoredBatch) -> None:
        rows, width = len(self._batch), self._columns or 1
        for start, data in stored.values:
            numbers = np.frombuffer(data, "<f8").astype(np.float64)
            count, rest = divmod(len(numbers), width)
            if rest or not 0 <= start <= start + count <= rows:
                continue
            self.values[start : start + count] = numbers.reshape(count, *self.values.shape[1:])
            self.known[start : start + count] = np.isfinite(numbers[::width])
        for index in stored.failed:
            if 0 <= index < rows:
                self.known[index] = True
        self.faults = dict(stored.faults)
        self.has_failures = bool(self.faults)

    def put(self, start: int, values: Floats, seconds: float) -> None:
        """Record the values of evaluations ``start, start + 1, …``; NaN is not recorded.

        The values, or rows of numbers that begin with the value, took ``seconds`` to compute.
        """
        with self._journal.lock:
            self._waiting.append((start, values.copy()))
            now = time.perf_counter()
            elapsed = max(seconds, now - self._written_at)
            if elapsed < SLOW:
                return
            waiting, self._waiting, self._written_at = self._waiting, [], now
        if sum(part.nbytes for _, part in waiting) > elapsed * _BYTES_PER_SECOND:
            return
        bodies = [body for first, part in waiting for body in _values(first, part)]
        self._journal.append(self, bodies)

    def fault(self, kind: str, count: int, dropped: range = range(0)) -> None:
        """Record faults, and the evaluations that were dropped because of them, if any."""
        self.has_failures = True
        fault = {"faults": {kind: count}, "dropped": list(dropped)}
        self._journal.append(self, [b"F" + json.dumps(fault).encode()])


def _values(start: int, values: Floats) -> Iterator[bytes]:
    """The records of the finite values among ``values``."""
    first_column = values if values.ndim == 1 else values[:, 0]
    if math.isfinite(first_column.sum()):  # cheaper than looking at each
        pieces = [(0, len(values))]
    else:
        finite = np.isfinite(first_column)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], finite, [0]))))
        pieces = edges.reshape(-1, 2).tolist()
    for first, last in pieces:
        yield _VALUES.pack(b"V", start + first) + values[first:last].astype("<f8").tobytes()


@final
class Journal:
    """The journal of a run. The file is created when there is something to record.

    Args:
        path: The file.
        run: The name of the run. The journal of another run is not used.
        permitted: Whether the file may be created or opened for writing.

    Attributes:
        size: The size of the file in bytes; 0 if there is none.
        has_stored: Whether the file has unused results from an earlier process.
        lock: Protects the file and the pending values, which threads share.
    """

    def __init__(self, path: Path, run: str, permitted: Callable[[], bool] = lambda: True) -> None:
        self._path, self._run, self._permitted = path, run, permitted
        self._owner = os.getpid()
        self._head = _framed(_HEAD.pack(b"J", VERSION) + run.encode())
        self._stored: dict[BatchAddress, _StoredBatch] = {}
        self._used: set[BatchAddress] = set()
        self.lock = threading.Lock()
        self._fd: int | None = None
        self._entry: JournalEntry | None = None  # the batch that the last record belongs to
        self._batch: tuple[Recorded, JournalEntry] | None = None  # the open batch, and its part
        self._completed = 0  # the size when the last step was complete
        self._failing = self._closed = self._is_foreign = False
        self._dirty, self._closing = threading.Event(), threading.Event()
        self._flusher: threading.Thread | None = None
        self.size = self._load()
        self.has_stored = bool(self._stored)

    # --- reading

    def evaluations(self, step: int) -> int:
        """The number of evaluations in the file that belong to ``step`` or later steps."""
        return sum(
            len(data) // (8 * max(address.columns, 1))
            for address, stored in self._stored.items()
            if address.step >= step
            for _, data in stored.values
        )

    def _load(self) -> int:
        try:
            with open_file(self._path) as file:
                end = self._read(file)
                damaged = os.fstat(file.fileno()).st_size - end
        except FileNotFoundError:
            return 0
        except OSError as error:
            reason = error.strerror or error
            _log.warning("%s cannot be read: %s. It is ignored.", self._path, reason)
            return 0
        if self._is_foreign:
            _log.warning("%s is the journal of another run, and is ignored.", self._path)
        elif damaged:
            _log.warning(
                "The last %d bytes of %s are incomplete or damaged, and are ignored. The "
                "evaluations recorded there are computed again.",
                damaged,
                self._path,
            )
        return end

    def _read(self, file: Any) -> int:
        """Read the records up to the first invalid one, and return the offset of that one."""
        end, current = 0, None
        while end < _FULL:
            frame = file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                break
            length, crc32 = _FRAME.unpack(frame)
            if not 0 < length <= _FULL - end:
                break
            body: bytes = file.read(length)
            if len(body) < length or zlib.crc32(body) != crc32:
                break
            try:
                current = self._parse(body, current, first=end == 0)
            except (ValueError, TypeError, LookupError, struct.error, RecursionError):
                break
            end += _FRAME.size + length
        return end

    def _parse(
        self, body: bytes, current: _StoredBatch | None, *, first: bool
    ) -> _StoredBatch | None:
        """Store a record, and return the batch that the next records belong to.

        Raises:
            ValueError: If the record is invalid (or TypeError, LookupError, struct.error).
        """
        kind = body[:1]
        if first or kind == b"J":
            if not first or _framed(body) != self._head:
                self._is_foreign = first and body.startswith(_HEAD.pack(b"J", VERSION))
                raise ValueError("the journal belongs to another run or has another format")
            return None
        if kind == b"B":
            if len(self._stored) == _MAX_BATCHES:
                raise ValueError("too many batches")
            _, *numbers = _BATCH.unpack(body)
            return self._stored.setdefault(BatchAddress(*numbers), _StoredBatch())
        if current is None:
            raise ValueError("a record without its batch")
        if kind == b"V":
            start = _VALUES.unpack_from(body)[1]
            data = body[_VALUES.size :]
            if len(data) % 8:
                raise ValueError("values must have 8 bytes each")
            current.values.append((start, data))
        elif kind == b"F":
            entry = fields.parse(body[1:], _FAILURES)
            current.faults.update(entry["faults"])
            current.failed += entry["dropped"]
        elif kind == b"X":
            current.failed.clear()
            current.faults.clear()
        else:
            raise ValueError("an unknown kind of record")
        return current

    # --- during the run

    def open(self, batch: Recorded, columns: int) -> JournalEntry:
        """Return the part of the journal for a batch; the same one if it is already open.

        Args:
            batch: The batch.
            columns: The numbers per evaluation; 0 if there is only the value.
        """
        with self.lock:
            if self._batch is not None and self._batch[0] is batch:
                return self._batch[1]
            stored = None
            if self._stored:
                address = address_of(batch, columns)
                stored = self._stored.get(address)
                self._used.add(address)
            entry = JournalEntry(self, batch, columns, stored)
            self._batch = batch, entry
            return entry

    def append(self, entry: JournalEntry, bodies: list[bytes]) -> None:
        """Append records about a batch."""
        if not bodies or self.size > _FULL or os.getpid() != self._owner:
            return  # a forked child must not write
        with self.lock:
            if self._closed:
                return  # from a thread that is still computing after the run has ended
            if self._fd is None and not self._permitted():
                return
            if entry is not self._entry:
                bodies = [_BATCH.pack(b"B", *entry.address), *bodies]
            try:
                self._write(b"".join(map(_framed, bodies)))
            except OSError as error:
                if not self._failing:
                    _log.warning(
                        "Could not write %s: %s. The run continues, but evaluations since the last "
                        "checkpoint would be computed again if it were killed.",
                        self._path,
                        error.strerror or error,
                    )
                self._failing = True
            else:
                self._entry, self._failing = entry, False

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            self._fd = self._open()
        view, position = memoryview(data), self.size
        while len(view):
            done = os.pwrite(self._fd, view, position)
            view, position = view[done:], position + done
        self.size = position
        if not self._dirty.is_set():  # this is cheaper than setting it again
            self._dirty.set()

    def _open(self) -> int:
        """Open the file and truncate it after the last valid record, or create it."""
        with open_to_update(self._path) as file:
            if has_other_names(file):  # other hard links may belong to another folder
                kept = os.pread(file.fileno(), self.size, 0)
                write_whole(self._path, lambda copy: write_all(copy, kept))
        with open_to_update(self._path) as file:
            fd = os.dup(file.fileno())
        os.ftruncate(fd, self.size)
        if not self.size:
            os.pwrite(fd, self._head, 0)
            self.size = len(self._head)
        self._flusher = threading.Thread(target=self._flush, args=(fd,), daemon=True)
        self._flusher.start()
        return fd

    def _flush(self, fd: int) -> None:
        """Flush the file to the physical disk, in a thread, until the journal is closed."""
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            with contextlib.suppress(OSError):
                os.fsync(fd)
            self._closing.wait(_SYNC_SECONDS)

    def complete_step(self) -> None:
        """Record that a step is complete: every later checkpoint contains it."""
        self._completed = self.size
        self._batch = None
        if self.has_stored:
            last = max((address.step for address in self._used), default=-1)
            self._stored = {
                address: stored
                for address, stored in self._stored.items()
                if address.step >= last and address not in self._used
            }
            self._used.clear()
            self.has_stored = bool(self._stored)

    def forget(self) -> None:
        """Empty the file, unless it has values that the new checkpoint does not contain."""
        if self._stored or self.size != self._completed or not self.size:
            return
        with self.lock, contextlib.suppress(OSError):
            if self._fd is None:
                self._path.unlink()
                self.size = self._completed = 0
            elif self.size > len(self._head):
                os.ftruncate(self._fd, len(self._head))
                self.size = self._completed = len(self._head)
            self._entry = None

    def void_failures(self) -> None:
        """Discard the failures that ended the run, so that a resumed run tries them again."""
        if self._batch is not None:
            entry = self._batch[1]
            if entry.has_failures:
                self.append(entry, [b"X"])

    def remove(self) -> None:
        """Remove the file, because the run has ended."""
        self.close()
        if self.size:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self.size = 0

    def close(self) -> None:
        """Flush and close the file; nothing is recorded after this."""
        with self.lock:
            fd, self._fd, self._closed = self._fd, None, True
        if fd is None:
            return
        self._closing.set()
        self._dirty.set()
        if self._flusher is not None and self._permitted():
            self._flusher.join()
        os.close(fd)


def _framed(body: bytes) -> bytes:
    return _FRAME.pack(len(body), zlib.crc32(body)) + body
