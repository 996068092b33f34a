"""Files that are whole or not there: written aside, synchronised, renamed."""

import contextlib
import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path


class CheckpointError(RuntimeError):
    """A run's folder cannot be used; the message names the file, says why and what to do.

    Attributes:
        path: The file or folder.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.path = path


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
    try:
        with open(aside, "wb", buffering=0) as file:
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
