"""Waiting for other processes.

The effects of another process appear with a delay that depends on the load of the machine. So
tests poll for them instead of sleeping for a fixed time, with a limit that only a failure reaches.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG = 300.0  # seconds; only a failing test waits that long


def wait_until(condition: Callable[[], Any], seconds: float = LONG) -> Any:
    """Call the condition until it is true or the time is up; returns its last value."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(parent: int) -> list[int]:
    """The ids of a process's children, on Linux."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            pids.append(int(stat.parent.name))
    return pids
