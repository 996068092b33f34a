"""How a parent and its worker processes talk: messages over a socket, arrays in shared memory.

Shared memory has no name: it is a file descriptor that workers inherit. When the last process that
has it is gone, however it ended, the memory is gone too: it cannot leak.
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

_HEADER = struct.Struct("<IB")  # the body's length, a code of one byte

# From the parent.
OPEN, CLOSE, LAYOUT, STEP, EVALUATE = b"O", b"C", b"L", b"T", b"E"
# From the worker.
HELLO, READY, REFUSED, STEP_RECEIVED, VALUES = b"h", b"r", b"x", b"t", b"v"
_CODES = b"OCLTEhrxtv"
_LONGEST = 1 << 30  # bytes of a body

SESSION = struct.Struct("<q")  # READY, REFUSED: the session's number; then words
OPENING = struct.Struct("<qqq")  # OPEN: the session's number, where its payload begins, its size
# STEP: number, seed, which form the directions' state has (below), its size, purpose, evaluations
# planned; then a plan and a context, where there are any.
STEPPING = struct.Struct("<qQBqBq")
NO_STATE, NEWEST_ESTIMATE, WHOLE_STATE = range(3)
ASSIGNMENT = struct.Struct("<qqq")  # EVALUATE: the assignment's number, start, stop
RESULT = struct.Struct("<qdqq")  # VALUES: its number, seconds, rows, columns; values, failures


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
        """For a selector."""
        return self._socket.fileno()

    def send(self, code: bytes, body: bytes = b"") -> None:
        """Send a message; ``OSError`` when nobody is there."""
        data = _HEADER.pack(len(body), code[0]) + body
        self._socket.sendall(data)
        self.sent += len(data)

    def receive(self) -> list[tuple[bytes, bytes]]:
        """The messages that are complete after reading once.

        Raises:
            EOFError: At the end.
            ValueError: When what was read is no message: an objective can write to any descriptor.
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
        """Let the other end read its end of file."""
        with suppress(OSError):  # it has hung up already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        self._socket.close()


# --- shared memory -----------------------------------------------------------------------------

_SLOT = 64  # bytes: one cache line per worker, so that they do not slow each other down
_RUNNING = struct.Struct("<qd")  # the evaluation that is running (−1: none), and when it began
_RECEIVED = struct.Struct("<q")  # the last assignment received
_PAGE = 4096


def anonymous_files(number: int) -> list[int]:
    """Descriptors of memory without a name."""
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
    """One block: a slot for what each worker is doing, then x, then the newest estimate.

    Args:
        fd: Descriptor of an anonymous file.
        slots: How many workers there can be.
    """

    def __init__(self, fd: int, slots: int) -> None:
        self._fd = fd
        self._start = -(-slots * _SLOT // _PAGE) * _PAGE
        self._size = 0
        self._map: mmap.mmap | None = None

    def reserve(self, nbytes: int) -> None:
        """In the parent: make room for x and an estimate of that many bytes each."""
        needed = self._start + 2 * _aligned(nbytes)
        if self._map is None or needed > self._size:
            os.ftruncate(self._fd, needed)
            self.map(nbytes)

    def map(self, nbytes: int) -> None:
        """Map the room for x and an estimate of that many bytes each."""
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

    def clear(self, slot: int) -> None:
        """In the parent: there is a new worker, which is not doing anything."""
        self.set_running(slot, -1, 0.0)
        self.set_received(slot, 0)

    def set_running(self, slot: int, index: int, now: float) -> None:
        """In a worker: an evaluation begins; −1: none is running."""
        assert self._map is not None
        _RUNNING.pack_into(self._map, slot * _SLOT, index, now)

    def running(self, slot: int) -> tuple[int, float]:
        """The evaluation that a worker is running (−1: none), and when it began."""
        assert self._map is not None
        return _RUNNING.unpack_from(self._map, slot * _SLOT)

    def set_received(self, slot: int, number: int) -> None:
        """In a worker: it has received an assignment."""
        assert self._map is not None
        _RECEIVED.pack_into(self._map, slot * _SLOT + _RUNNING.size, number)

    def received(self, slot: int) -> int:
        """The last assignment that a worker has received."""
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
