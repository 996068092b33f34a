"""The one module that opens files: every file of a run, a study, a page, a policy or a log.

A folder may come from an untrusted source. Therefore:

- Reading opens regular files only, checks their size first, and never blocks (:func:`open_file`).
- Writing replaces a file as a whole (:func:`write_whole`), or appends to a regular file that has no
  other hard link (:func:`open_to_append`, :func:`open_to_update`).
- Neither follows a symbolic link inside the folder. Only the path that a user passes may contain
  links.
- A folder inside that path is created or checked by :func:`make_folder`.

``python -m benchmarks.fuzz_files`` watches every ``open`` of a process and fails on any that is not
made here. ``docs/security.md`` lists the files.

The second half of the module handles the files of a run. ``metrics.jsonl`` has one line per step.
It is append-only, and truncated to the checkpoint when a run resumes. Lines stay in memory until
they are written, so a full disk loses none of them: they are written when there is space again.
"""

import contextlib
import errno
import io
import json
import math
import os
import shutil
import stat
import time
import zlib
from collections.abc import Callable
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gensmooth import fields

try:
    import fcntl
except ImportError:  # Windows has no fcntl, so nothing prevents two runs in one folder
    fcntl = None

R = TypeVar("R")

_FLUSH_SECONDS = 0.5
_TIMES_SECONDS = 1.0
_MAX_BYTES = 1 << 26  # of a file that is read at once; no JSON file that we write is larger
_PIECE = 1 << 20  # bytes
_NPY_HEADER = 1 << 14  # bytes; NumPy itself reads no longer ones


class CheckpointError(RuntimeError):
    """A run's folder or file cannot be used; the message names it and gives the reason.

    Attributes:
        path: The file or folder.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path} {fields.printable(message)}")
        self.path = path


# --- reading -------------------------------------------------------------------------------------

_OPEN_FLAGS = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_file(path: Path, *, follow: bool = False) -> BufferedReader:
    """Open a regular file for reading.

    Args:
        path: The file.
        follow: Whether ``path`` may be a symbolic link; only for a path that the user passed.

    Raises:
        OSError: If it is a link, a folder, a pipe or a device. Opening a pipe does not block.
    """
    return cast(BufferedReader, _open(path, os.O_RDONLY, "rb", follow=follow, buffering=-1))


def read_bytes(path: Path, *, most: int = _MAX_BYTES, follow: bool = False) -> bytes:
    """Read a file of at most ``most`` bytes, 64 MiB by default.

    Raises:
        OSError: If it is larger, or :func:`open_file` refuses it.
    """
    with open_file(path, follow=follow) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
        return file.read(most)


def read_json(file: BufferedReader, size: int) -> bytes:
    """Read the next ``size`` bytes of JSON, or fewer if the file ends.

    A sparse file can have any size without occupying disk space, but its holes read as zero bytes.
    JSON contains none, so reading stops at the first one, before the file exhausts the memory.

    Raises:
        ValueError: If there are zero bytes.
    """
    text = bytearray()
    while len(text) < size and (piece := file.read(min(size - len(text), _PIECE))):
        if b"\0" in piece:
            raise ValueError("it contains zero bytes")
        text += piece
    return bytes(text)


def read_fields(
    path: Path, shape: fields.Shape, *, what: str, most: int = _MAX_BYTES, follow: bool = False
) -> Any:
    """Read a JSON file and check every field; see :mod:`gensmooth.fields`.

    Args:
        path: The file.
        shape: The expected fields.
        what: What the file should be, for errors, such as ``"the plan of a comparison"``.
        most: The largest size in bytes.
        follow: As in :func:`open_file`.

    Raises:
        CheckpointError: If it cannot be read, or a field is invalid.
    """
    try:
        return fields.parse(read_bytes(path, most=most, follow=follow), shape)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is not {what}: {error}.") from error


def read_npy(path: Path) -> Any:
    """Read an array from a ``.npy`` file that the user passed.

    Raises:
        ValueError: If it is not an array of numbers, or its header does not match the file's size.
    """
    try:
        with open_file(path, follow=True) as file:
            layout = np.lib.format
            start = io.BytesIO(file.read(_NPY_HEADER))
            version = layout.read_magic(start)
            read_header = (
                layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
            )
            shape, _, dtype = read_header(start)
            if dtype.kind not in "biuf" or any(size < 0 for size in shape):
                raise ValueError("it does not hold numbers")
            size = math.prod(shape) * dtype.itemsize
            if size != os.fstat(file.fileno()).st_size - start.tell():
                raise ValueError("its size does not match its header")
            file.seek(0)
            return layout.read_array(file, allow_pickle=False)
    except (OSError, ValueError, MemoryError, RecursionError) as error:
        why = fields.printable(str(error), 200) or "its header is invalid"
        raise ValueError(f"{path} is not an array in NumPy's format: {why}.") from error


def exists(path: Path) -> bool:
    """Return whether a path exists, even as a broken link."""
    return os.path.lexists(path)


# --- writing -------------------------------------------------------------------------------------


def write_whole(
    path: Path,
    fill: Callable[[FileIO], None],
    *,
    previous: Path | None = None,
    durable: bool = True,
) -> None:
    """Write a file atomically: at every moment, ``path`` is the complete old file or the new one.

    The new file is written under another name in the same folder and then renamed. Other
    hard links to the old file, and its target if it was a symbolic link, are left unchanged.

    Args:
        path: The file.
        fill: Writes the contents to an empty, unbuffered file.
        previous: A second name under which to keep the old file.
        durable: Whether the file must survive a power failure, which costs milliseconds.

    Raises:
        OSError: If writing fails. The old file is then still in place.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)  # left by a killed process, or a planted link
    try:
        with _open_unbuffered(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb") as file:
            fill(file)
            if durable:
                os.fsync(file.fileno())
        if previous is not None and path.exists():
            _keep_previous(path, previous)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = str(path)  # a full disk, for example, names no file
        raise
    if durable:
        sync_folder(path.parent)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a text file atomically; see :func:`write_whole`."""
    write_bytes(path, text.encode(), durable=durable)


def write_bytes(path: Path, data: bytes | memoryview, *, durable: bool = True) -> None:
    """Write a file atomically; see :func:`write_whole`."""
    write_whole(path, lambda file: write_all(file, data), durable=durable)


def write_named(path: Path, text: str) -> None:
    """Write to exactly the path that the user passed, which may be a link, a pipe or a device.

    Use it only for a path that the user chose as the output, never for one that comes from a file
    or a folder.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def check_writable(path: Path) -> None:
    """Raise ``OSError`` if a file that the user passed cannot be written; changes nothing."""
    new = not exists(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _OPEN_FLAGS, 0o666))
    if new:
        path.unlink()


def open_to_append(path: Path) -> FileIO:
    """Open a file for appending; it is created if missing.

    Raises:
        OSError: Unless it is a regular file with no other hard link.
    """
    file = _open_unbuffered(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, "ab")
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise OSError(errno.EMLINK, "it is a hard link, and its other name may not be ours")
    return file


def open_to_update(path: Path) -> FileIO:
    """Open a file for reading and writing in place; it is created if missing.

    The caller must not write to it if it has other hard links (:func:`has_other_names`).

    Raises:
        OSError: Unless it is a regular file.
    """
    return _open_unbuffered(path, os.O_RDWR | os.O_CREAT, "r+b")


def has_other_names(file: FileIO) -> bool:
    """Return whether an open file has other hard links: writing would change those files too."""
    return os.fstat(file.fileno()).st_nlink > 1


def make_folder(path: Path, inside: Path | None = None) -> Path:
    """Create a folder if it is missing.

    Args:
        path: The folder.
        inside: The folder that the user passed, which may be a link. Folders below it may not.

    Raises:
        OSError: If it cannot be created, or a folder below ``inside`` is a link.
    """
    check_folder(path, inside)
    path.mkdir(parents=True, exist_ok=True)
    return path


def check_folder(path: Path, inside: Path | None = None) -> None:
    """Raise ``OSError`` if a folder, or one between it and ``inside``, is a symbolic link."""
    names = path.relative_to(inside).parts if inside is not None else ()
    for number in range(len(names)):
        folder = path.parents[number - 1] if number else path
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"{folder} is a symbolic link, which is not followed")


def remove_folder(path: Path) -> None:
    """Remove a folder, a file, or a link (not its target); errors are ignored."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _open_unbuffered(path: Path, flags: int, mode: str) -> FileIO:
    return cast(FileIO, _open(path, flags, mode, follow=False, buffering=0))


def _open(path: Path, flags: int, mode: str, *, follow: bool, buffering: int) -> Any:
    """Open a regular file; see :func:`open_file`."""
    try:
        handle = os.open(path, flags | _OPEN_FLAGS | (0 if follow else _NO_LINK), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed") from error
        if error.errno == errno.ENXIO:  # a pipe without a reader
            raise OSError("it is not a regular file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        return open(handle, mode, buffering=buffering)
    except BaseException:
        os.close(handle)
        raise


def write_all(file: FileIO, piece: bytes | memoryview) -> None:
    """Write all of ``piece`` to an unbuffered file; a single call may write only a part."""
    rest = memoryview(piece)
    while len(rest):
        rest = rest[file.write(rest) or 0 :]


def reserve(file: FileIO, size: int) -> None:
    """Allocate ``size`` bytes for an empty file, so that a full disk raises before any write."""
    file.truncate(size)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # not supported here
                raise


def sync_folder(folder: Path) -> None:
    """Make a folder's entries survive a power failure, where the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _keep_previous(path: Path, previous: Path) -> None:
    """Keep the old file under a second name, if the file system supports hard links."""
    temporary = previous.with_name(f".{previous.name}.new")
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
        os.link(path, temporary)
        os.replace(temporary, previous)
        temporary.unlink(missing_ok=True)  # renaming does nothing if both names are the same file


# --- append-only lines ---------------------------------------------------------------------------


class Position(NamedTuple):
    """A position in the file: the lines and bytes before it, and their checksum."""

    lines: int = 0
    bytes: int = 0
    crc32: int = 0


class Metrics:
    """``metrics.jsonl``, truncated to a position and open for appending."""

    def __init__(self, path: Path, position: Position) -> None:
        self.position = position
        self._waiting: list[bytes] = []
        self._flushed = time.monotonic()
        self._file = open_to_update(path)
        if has_other_names(self._file):
            self._file = _copied(path, self._file, position.bytes)
        self._file.truncate(position.bytes)
        self._path, self._file_id = path, _file_id(os.fstat(self._file.fileno()))

    @property
    def still_exists(self) -> bool:
        """Whether the file still exists and has not been replaced."""
        return _is_same_file(self._path, self._file_id)

    def add(self, line: bytes) -> None:
        """Append a line; lines are written twice a second and at each checkpoint."""
        lines, size, crc32 = self.position
        self.position = Position(lines + 1, size + len(line), zlib.crc32(line, crc32))
        self._waiting.append(line)
        now = time.monotonic()
        if now - self._flushed >= _FLUSH_SECONDS:
            self._flushed = now
            self.flush()

    def flush(self) -> None:
        """Write the pending lines."""
        if not self._waiting:
            return
        text = b"".join(self._waiting)
        self._file.seek(self.position.bytes - len(text))  # a failed write is repeated in full
        write_all(self._file, text)
        self._waiting = []

    def sync(self) -> None:
        """Write the pending lines and make all lines survive a power failure."""
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and discard pending lines."""
        self._file.close()


class Times:
    """Records the times of steps, at most once a second, to show how fast a run was.

    Nothing depends on this file, so write errors are ignored.

    Args:
        path: The file, which is appended to.
        step: The number of steps completed before.
    """

    def __init__(self, path: Path, step: int) -> None:
        self._path, self._last, self._step = path, 0.0, step
        self._written: int | None = None
        self.tick(step, begin=True)

    def tick(self, step: int, *, begin: bool = False) -> None:
        """Note that ``step`` steps are complete; writes a line if a second has passed."""
        now = time.monotonic()
        self._step = step
        if not begin and now - self._last < _TIMES_SECONDS:
            return
        self._last = now
        self._write(begin=begin)

    def close(self) -> None:
        """Write the last line."""
        if self._written != self._step:
            self._write(begin=False)

    def _write(self, *, begin: bool) -> None:
        self._written = self._step
        line = {
            "step": self._step,
            "time": round(time.time(), 3),
            **({"begin": True} if begin else {}),
        }
        with contextlib.suppress(OSError), open_to_append(self._path) as file:
            write_all(file, f"{json.dumps(line)}\n".encode())


def _copied(path: Path, shared: FileIO, size: int) -> FileIO:
    """Replace a hard-linked file by a copy of its first ``size`` bytes; the other is unchanged."""
    with shared:
        write_whole(path, lambda file: _copy(shared, file, size))
    return open_to_update(path)


def _copy(source: FileIO, target: FileIO, size: int) -> None:
    while size and (piece := source.read(min(size, _PIECE))):
        write_all(target, piece)
        size -= len(piece)


def read_lines(path: Path, position: Position, parse: Callable[[Any], R]) -> list[R]:
    """Read the lines up to a position and parse each with ``parse``; line n belongs to step n.

    Raises:
        CheckpointError: If lines are missing or differ from those that were written.
    """
    try:
        with open_file(path) as file:
            text = read_json(file, position.bytes)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(path, f"is damaged: {error}.") from error
    except MemoryError as error:
        raise CheckpointError(path, "is too large for the available memory.") from error
    if len(text) < position.bytes:
        raise CheckpointError(
            path,
            f"is damaged: it has {len(text)} bytes, fewer than the {position.bytes} it had at the "
            "checkpoint.",
        )
    if zlib.crc32(text) != position.crc32:
        raise CheckpointError(path, "is damaged: its checksum differs from the checkpoint's.")
    try:
        lines = [json.loads(line) for line in text.splitlines()]
        steps = [line["step"] for line in lines]
        records = [parse(line) for line in lines]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(path, f"is damaged: a line is invalid ({error}).") from error
    if steps != list(range(position.lines)):
        raise CheckpointError(path, f"is damaged: it should have steps 0 … {position.lines - 1}.")
    return records


# --- locking -------------------------------------------------------------------------------------


class Lock:
    """Limits a folder to one run at a time, from construction to :meth:`release`.

    The lock belongs to the open file. It is released when the process ends, however it ends. It
    persists when other code in the process opens and closes the same file, for example to copy the
    folder. Worker processes do not inherit it.

    Raises:
        CheckpointError: If another run holds the lock.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._file = open_to_update(self._path)
        self._file_id = _file_id(os.fstat(self._file.fileno()))
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise CheckpointError(folder, "is in use: another run is writing to it.") from None
        except OSError:  # a file system without locks: nothing prevents two runs in one folder
            pass

    @property
    def holds(self) -> bool:
        """Whether the folder is still the locked one, and not removed or replaced."""
        return _is_same_file(self._path, self._file_id)

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


def _file_id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_same_file(path: Path, key: tuple[int, int]) -> bool:
    """Return whether ``path`` is the file with this key; false for a symbolic link to it."""
    try:
        return _file_id(os.lstat(path)) == key
    except OSError:
        return False
