"""One process at a time in a run's folder.

The lock belongs to the process: it goes when the process goes, however it is killed, and worker
processes do not inherit it.
"""

import os
from pathlib import Path

from gensmooth.checkpoint.files import CheckpointError

try:
    import fcntl
except ImportError:  # not on Windows, where nothing keeps two runs apart
    fcntl = None

_held: set[tuple[int, int]] = set()  # by this process: its own locks would not stop it


class Lock:
    """Held from construction to :meth:`release`.

    Raises:
        CheckpointError: When another run holds it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / ".lock"
        in_use = CheckpointError(folder, "is in use: another run is writing there.")
        if path.exists() and _key(path.stat()) in _held:
            raise in_use  # before it is opened: closing it again would give up our lock
        self._file = open(path, "a+b")  # noqa: SIM115
        self._key = _key(os.fstat(self._file.fileno()))
        if fcntl is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                self._file.close()
                raise in_use from None
            except OSError:  # a file system without locks: nothing keeps two runs apart
                pass
        _held.add(self._key)

    def release(self) -> None:
        """Let others in."""
        _held.discard(self._key)
        self._file.close()


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
