"""Files that survive: whole or not there, lines that are appended, and one process at a time.

A folder may be a stranger's, so symbolic links in it are never followed by what we write.

``metrics.jsonl`` has one line per step, appended, and cut back to the checkpoint when a run goes
on. Lines wait in memory until they are on disk, so a full disk loses none of them: they are written
when there is room again.
"""

import contextlib
import errno
import json
import os
import stat
import time
import zlib
from collections.abc import Callable
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

try:
    import fcntl
except ImportError:  # not on Windows, where nothing keeps two runs apart
    fcntl = None

R = TypeVar("R")

_FLUSH_SECONDS = 0.5
_TIMES_SECONDS = 1.0
_LARGE = 1 << 26  # bytes of a file of JSON that is none of ours
_PIECE = 1 << 20  # bytes


class CheckpointError(RuntimeError):
    """A run's folder cannot be used; the message names the file, says why and what to do.

    Attributes:
        path: The file or folder.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.path = path


# --- written aside, synchronised, renamed --------------------------------------------------------


def write_whole(
    path: Path, fill: Callable[[FileIO], None], *, previous: Path | None = None
) -> None:
    """Write a file so that at every instant ``path`` is the old one or the new one, complete.

    Args:
        path: The file.
        fill: Writes the contents to an empty, unbuffered file.
        previous: Where the old file is kept, if anywhere.

    Raises:
        OSError: The old file is then still in place.
    """
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)  # a killed process's, or a link: opening it anew follows none
    try:
        with _open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb") as file:
            fill(file)
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            _keep(path, previous)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
    sync_folder(path.parent)


def _open(path: Path, flags: int, mode: str) -> FileIO:
    """An unbuffered file; a symbolic link is an ``OSError``, whatever it points to."""
    links = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags | links, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed") from error
        raise
    return cast(FileIO, open(handle, mode, buffering=0))


def open_file(path: Path) -> BufferedReader:
    """A file, to be read. A pipe or a device, which may never end, is an ``OSError``."""
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    file = open(os.open(path, os.O_RDONLY | flags), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file")
    return file


def read_bytes(path: Path) -> bytes:
    """All of a file that we would never have written large; a large one is an ``OSError``."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > _LARGE:
            raise OSError(errno.EFBIG, "it is too large")
        return file.read(_LARGE)


def read_json(file: BufferedReader, size: int) -> bytes:
    """The next ``size`` bytes, which are to be JSON; fewer if there are not as many.

    A file can claim any size and take no room for it, but what it has then are zeros. JSON has
    none, so memory is taken for no more than what is really there.

    Raises:
        ValueError: When there are zeros.
    """
    text = bytearray()
    while len(text) < size and (piece := file.read(min(size - len(text), _PIECE))):
        if b"\0" in piece:
            raise ValueError("there are zeros in it")
        text += piece
    return bytes(text)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all; see :func:`write_whole`."""
    write_whole(path, lambda file: write_all(file, text.encode()))


def write_all(file: FileIO, piece: bytes | memoryview) -> None:
    """Write all of it to an unbuffered file: the system may take less than it is given."""
    rest = memoryview(piece)
    while len(rest):
        rest = rest[file.write(rest) or 0 :]


def reserve(file: FileIO, size: int) -> None:
    """Make an empty file ``size`` zeros long; a full disk says so before anything is written."""
    file.truncate(size)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # the file system cannot
                raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power; not every system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _keep(path: Path, previous: Path) -> None:
    """Give the old file a second name; without hard links there is just no previous one."""
    aside = previous.with_name(f".{previous.name}.new")
    with contextlib.suppress(OSError):
        aside.unlink(missing_ok=True)
        os.link(path, aside)
        os.replace(aside, previous)
        aside.unlink(missing_ok=True)  # renaming does nothing if both are the same file already


# --- lines that are appended ---------------------------------------------------------------------


class Position(NamedTuple):
    """How far the file goes: its lines and bytes, and the checksum of those."""

    lines: int = 0
    bytes: int = 0
    crc32: int = 0


class Metrics:
    """The file, open for appending at a position; what is behind it is cut off."""

    def __init__(self, path: Path, position: Position) -> None:
        self.position = position
        self._waiting: list[bytes] = []
        self._flushed = time.monotonic()
        self._file = _open(path, os.O_RDWR | os.O_CREAT, "r+b")
        if os.fstat(self._file.fileno()).st_nlink > 1:
            self._file = _own(path, self._file, position.bytes)
        self._file.truncate(position.bytes)
        self._path, self._key = path, _key(os.fstat(self._file.fileno()))

    @property
    def there(self) -> bool:
        """Whether the file is still there, and not another."""
        return _is(self._path, self._key)

    def add(self, line: bytes) -> None:
        """Append a line; lines go to the system twice a second and at each checkpoint."""
        lines, size, crc32 = self.position
        self.position = Position(lines + 1, size + len(line), zlib.crc32(line, crc32))
        self._waiting.append(line)
        now = time.monotonic()
        if now - self._flushed >= _FLUSH_SECONDS:
            self._flushed = now
            self.flush()

    def flush(self) -> None:
        """Hand the waiting lines to the system."""
        if not self._waiting:
            return
        text = b"".join(self._waiting)
        self._file.seek(self.position.bytes - len(text))  # again from the start if it failed before
        write_all(self._file, text)
        self._waiting = []

    def sync(self) -> None:
        """Make every line survive a loss of power."""
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; what still waits for room is given up."""
        self._file.close()


class Times:
    """When steps were made: a line now and then, for whoever asks how fast a run was.

    Nothing depends on it, so that it cannot be written is no matter.

    Args:
        path: The file; lines are added to what is there.
        step: Steps made before.
    """

    def __init__(self, path: Path, step: int) -> None:
        self._path, self._last, self._step = path, 0.0, step
        self._written: int | None = None
        self.tick(step, begin=True)

    def tick(self, step: int, *, begin: bool = False) -> None:
        """So many steps have been made; a line is written once a second."""
        now = time.monotonic()
        self._step = step
        if not begin and now - self._last < _TIMES_SECONDS:
            return
        self._last = now
        self._write(begin=begin)

    def close(self) -> None:
        """The last line."""
        if self._written != self._step:
            self._write(begin=False)

    def _write(self, *, begin: bool) -> None:
        self._written = self._step
        line = {
            "step": self._step,
            "time": round(time.time(), 3),
            **({"begin": True} if begin else {}),
        }
        with (
            contextlib.suppress(OSError),
            _open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, "ab") as file,
        ):
            if os.fstat(file.fileno()).st_nlink == 1:  # else it is somebody else's, too
                write_all(file, f"{json.dumps(line)}\n".encode())


def _own(path: Path, shared: FileIO, size: int) -> FileIO:
    """A file of the same beginning that has no other name: whose that is must not see it change."""
    with shared:
        write_whole(path, lambda file: _copy(shared, file, size))
    return _open(path, os.O_RDWR, "r+b")


def _copy(source: FileIO, target: FileIO, size: int) -> None:
    while size and (piece := source.read(min(size, _PIECE))):
        write_all(target, piece)
        size -= len(piece)


def read_lines(path: Path, position: Position, parse: Callable[[Any], R]) -> list[R]:
    """The lines up to a position, each parsed by ``parse``; line n is of step n.

    Raises:
        CheckpointError: When they are not there or not those that were written.
    """
    try:
        with open_file(path) as file:
            text = read_json(file, position.bytes)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is damaged: {error}.") from error
    except MemoryError as error:
        raise CheckpointError(path, "is larger than the memory there is.") from error
    if len(text) < position.bytes:
        raise CheckpointError(
            path, f"is damaged: the checkpoint saw {position.bytes} bytes, but it has {len(text)}."
        )
    if zlib.crc32(text) != position.crc32:
        raise CheckpointError(path, "is damaged: it is not what the checkpoint saw.")
    try:
        found = [json.loads(line) for line in text.splitlines()]
        steps = [line["step"] for line in found]
        records = [parse(line) for line in found]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(path, f"is damaged: a line is not a step ({error}).") from error
    if steps != list(range(position.lines)):
        raise CheckpointError(path, f"is damaged: it should have steps 0 … {position.lines - 1}.")
    return records


# --- one process at a time -----------------------------------------------------------------------


class Lock:
    """One run at a time in a folder, from construction to :meth:`release`.

    The lock belongs to the open file: it goes when the process goes, however it is killed, and
    stays when anything else in the process opens and closes the same file (as a copy of the folder
    does). Worker processes do not inherit it.

    Raises:
        CheckpointError: When another run holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._file = _open(self._path, os.O_RDWR | os.O_CREAT, "r+b")
        self._key = _key(os.fstat(self._file.fileno()))
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise CheckpointError(folder, "is in use: another run is writing there.") from None
        except OSError:  # a file system without locks: nothing keeps two runs apart
            pass

    @property
    def holds(self) -> bool:
        """Whether the folder is still the one that was locked; it may have been removed."""
        return _is(self._path, self._key)

    def release(self) -> None:
        """Let others in."""
        self._file.close()


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is(path: Path, key: tuple[int, int]) -> bool:
    """Whether this is the file that we know; a link is not."""
    try:
        return _key(os.lstat(path)) == key
    except OSError:
        return False
