"""Memory that a parent and its workers share, and that cannot leak.

A block has no name: it is a file descriptor that workers inherit. When the last process that has
it is gone, however it went, the memory is gone.
"""

import mmap
import os
import struct
import tempfile
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SLOT = 64  # bytes: a cache line each, so that workers do not slow each other down
_PROGRESS = struct.Struct("<qd")  # the evaluation at hand (−1: none), and when it began
_RECEIVED = struct.Struct("<q")  # the last assignment taken in
_PAGE = 4096


def anonymous_file() -> int:
    """A descriptor of memory without a name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("gensmooth")
    else:
        with tempfile.TemporaryFile() as file:  # already unlinked
            fd = os.dup(file.fileno())
    return fd


@final
class Board:
    """One block: a slot for each worker's progress, then x, then the newest estimate.

    Args:
        fd: Of an anonymous file.
        slots: How many workers there can be.
    """

    def __init__(self, fd: int, slots: int) -> None:
        self._fd = fd
        self._start = -(-slots * _SLOT // _PAGE) * _PAGE
        self._size = 0
        self._map: mmap.mmap | None = None

    def reserve(self, nbytes: int) -> None:
        """Make room for x and an estimate of that size each; for the parent."""
        needed = self._start + 2 * _aligned(nbytes)
        if self._map is None or needed > self._size:
            os.ftruncate(self._fd, needed)
            self.fit(nbytes)

    def fit(self, nbytes: int) -> None:
        """Map what is there for x and an estimate of that size."""
        needed = self._start + 2 * _aligned(nbytes)
        if self._map is None or needed > self._size:
            self._map = mmap.mmap(self._fd, needed)  # the old one goes with its last array
            self._size = needed

    def close(self) -> None:
        """Let go of the memory."""
        self._map = None

    def x(self, dtype: np.dtype[Any], size: int) -> Array:
        """The parameters."""
        assert self._map is not None
        return np.frombuffer(self._map, dtype, size, self._start)

    def estimate(self, dtype: np.dtype[Any], size: int) -> Array:
        """The newest estimate."""
        assert self._map is not None
        offset = self._start + _aligned(size * dtype.itemsize)
        return np.frombuffer(self._map, dtype, size, offset)

    def begin(self, slot: int, index: int, now: float) -> None:
        """Say that an evaluation begins, or with −1 that none is running."""
        assert self._map is not None
        _PROGRESS.pack_into(self._map, slot * _SLOT, index, now)

    def progress(self, slot: int) -> tuple[int, float]:
        """The evaluation at hand, and when it began."""
        assert self._map is not None
        return _PROGRESS.unpack_from(self._map, slot * _SLOT)

    def receive(self, slot: int, number: int) -> None:
        """Say that an assignment was taken in."""
        assert self._map is not None
        _RECEIVED.pack_into(self._map, slot * _SLOT + _PROGRESS.size, number)

    def received(self, slot: int) -> int:
        """The last assignment taken in."""
        assert self._map is not None
        return _RECEIVED.unpack_from(self._map, slot * _SLOT + _PROGRESS.size)[0]


def write(fd: int, data: bytes, start: int = 0) -> None:
    """Put data into an anonymous file."""
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], start + done)


def read(fd: int, start: int, size: int) -> bytes:
    """Data of an anonymous file."""
    parts: list[bytes] = []
    while size and (part := os.pread(fd, min(size, 1 << 30), start)):
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return b"".join(parts)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
