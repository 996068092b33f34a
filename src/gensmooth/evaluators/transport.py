"""Communication with worker processes: messages over a socket, arrays in shared memory.

The shared memory has no name: it is a file descriptor that workers inherit. The kernel frees it
when the last process that holds it ends, however it ends, so the memory cannot leak.
"""

import mmap
import os
import socket
import struct
import tempfile
from contextlib import suppress
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# --- messages ----------------------------------------------------------------------------------

_HEADER = struct.Struct("<IB")  # the body's length and a one-byte code

# From the parent.
OPEN, CLOSE, LAYOUT, STEP, EVALUATE = b"O", b"C", b"L", b"T", b"E"
# From the worker.
HELLO, READY, REFUSED, STEP_RECEIVED, VALUES = b"h", b"r", b"x", b"t", b"v"
_CODES = b"OCLTEhrxtv"
_LONGEST = 1 << 30  # the most bytes in a body

SESSION = struct.Struct("<q")  # READY, REFUSED: the session's number; REFUSED adds the reason
OPENING = struct.Struct("<qqq")  # OPEN: the session's number, its payload's offset and size
# STEP: number, seed, the form of the directions' state (below), its size, purpose, the number of
# planned evaluations; then a plan and a context, if any.
STEPPING = struct.Struct("<qQBqBq")
NO_STATE, NEWEST_ESTIMATE, WHOLE_STATE = range(3)
ASSIGNMENT = struct.Struct("<qqq")  # EVALUATE: the assignment's number, start, stop
# VALUES: the assignment's number, seconds, rows, columns; then the values and the failures
RESULT = struct.Struct("<qdqq")


@final
class Channel:
    """One end of a socket that carries messages.

    Attributes:
        sent: Bytes sent.
        received: Bytes received.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()
        self.sent = 0
        self.received = 0

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, code: bytes, body: bytes = b"") -> None:
        """Send a message.

        Raises:
            OSError: If the other end is gone or does not read.
        """
        data = _HEADER.pack(len(body), code[0]) + body
        self._socket.sendall(data)
        self.sent += len(data)

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Read once and return the messages that are now complete.

        Raises:
            EOFError: If the other end has closed the connection.
            ValueError: If the data is not a message; an objective can write to any descriptor.
        """
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError
        self.received += len(data)
        buffer = self._buffer
        buffer += data
        messages: list[tuple[bytes, bytes]] = []
        while len(buffer) >= _HEADER.size:
            length, code = _HEADER.unpack_from(buffer)
            if code not in _CODES or length > _LONGEST:
                raise ValueError("not a message")
            end = _HEADER.size + length
            if len(buffer) < end:
                break
            messages.append((bytes((code,)), bytes(buffer[_HEADER.size : end])))
            del buffer[:end]
        return messages

    def hang_up(self) -> None:
        """Shut the connection down; the other end reads an end of file."""
        with suppress(OSError):  # already shut down
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor."""
        self._socket.close()


# --- shared memory -----------------------------------------------------------------------------

_SLOT = 64  # bytes: one cache line per worker, which avoids false sharing
_RUNNING = struct.Struct("<qd")  # the current evaluation (−1: none), and when it began
_RECEIVED = struct.Struct("<q")  # the last assignment received
_PAGE = 4096


def anonymous_files(number: int) -> list[int]:
    """Create anonymous files in memory and return their descriptors."""
    fds: list[int] = []
    for _ in range(number):
        if hasattr(os, "memfd_create"):
            fds.append(os.memfd_create("gensmooth"))
        else:
            with tempfile.TemporaryFile() as file:  # already unlinked
                fds.append(os.dup(file.fileno()))
    return fds


@final
class SharedMemory:
    """One block of memory: a status slot per worker, then x, then the newest estimate.

    Args:
        fd: The descriptor of an anonymous file.
        slots: The maximum number of workers.
    """

    def __init__(self, fd: int, slots: int) -> None:
        self._fd = fd
        self._start = -(-slots * _SLOT // _PAGE) * _PAGE
        self._size = 0
        self._map: mmap.mmap | None = None

    def reserve(self, nbytes: int) -> None:
        """Allocate space for x and an estimate of ``nbytes`` each. Called by the parent."""
        needed = self._start + 2 * _aligned(nbytes)
        if self._map is None or needed > self._size:
            os.ftruncate(self._fd, needed)
            self.map(nbytes)

    def map(self, nbytes: int) -> None:
        """Map the space for x and an estimate of ``nbytes`` each."""
        needed = self._start + 2 * _aligned(nbytes)
        if self._map is None or needed > self._size:
            self._map = mmap.mmap(self._fd, needed)  # the old map is freed with its last array
            self._size = needed

    def close(self) -> None:
        """Release the memory."""
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

    def clear(self, slot: int) -> None:
        """Reset a slot for a new worker. Called by the parent."""
        self.set_running(slot, -1, 0.0)
        self.set_received(slot, 0)

    def set_running(self, slot: int, index: int, now: float) -> None:
        """Record the start of evaluation ``index``; −1 means none. Called by a worker."""
        assert self._map is not None
        _RUNNING.pack_into(self._map, slot * _SLOT, index, now)

    def running(self, slot: int) -> tuple[int, float]:
        """The worker's current evaluation (−1: none), and when it began."""
        assert self._map is not None
        return _RUNNING.unpack_from(self._map, slot * _SLOT)

    def set_received(self, slot: int, number: int) -> None:
        """Record that an assignment has been received. Called by a worker."""
        assert self._map is not None
        _RECEIVED.pack_into(self._map, slot * _SLOT + _RUNNING.size, number)

    def received(self, slot: int) -> int:
        """The number of the last assignment that the worker has received."""
        assert self._map is not None
        return _RECEIVED.unpack_from(self._map, slot * _SLOT + _RUNNING.size)[0]


def write_file(fd: int, data: bytes, start: int = 0) -> None:
    """Write to an anonymous file."""
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], start + done)


def read_file(fd: int, start: int, size: int) -> bytes:
    """Read from an anonymous file."""
    parts: list[bytes] = []
    while size and (part := os.pread(fd, min(size, 1 << 30), start)):
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return b"".join(parts)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
