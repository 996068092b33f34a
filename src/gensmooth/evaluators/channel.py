"""Short messages over a socket: a length, a code of one byte, a payload."""

import socket
import struct
from contextlib import suppress
from typing import final

_HEAD = struct.Struct("<IB")


@final
class Channel:
    """One end of a connection.

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

    def send(self, code: bytes, payload: bytes = b"") -> None:
        """Send a message; ``OSError`` when nobody is there."""
        data = _HEAD.pack(len(payload), code[0]) + payload
        self._socket.sendall(data)
        self.sent += len(data)

    def read(self) -> list[tuple[bytes, bytes]]:
        """The messages that are complete after reading once; ``EOFError`` at the end."""
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
        while len(buffer) >= _HEAD.size:
            length, code = _HEAD.unpack_from(buffer)
            end = _HEAD.size + length
            if len(buffer) < end:
                break
            messages.append((bytes((code,)), bytes(buffer[_HEAD.size : end])))
            del buffer[:end]
        return messages

    def hang_up(self) -> None:
        """Let the other end read its end of file."""
        with suppress(OSError):  # it was first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        self._socket.close()
