"""Patience with other processes: what they write, start or end is there a while later.

How much later depends on what else the machine does. So nothing is asserted at once, no sleep
stands for "by now it has", and what waits gives up only after so long that it would never come.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG = 300.0  # seconds; only a failing test waits that long


def wait_until(condition: Callable[[], Any], seconds: float = LONG) -> Any:
    """Wait for something true, and return it; or what there is when the time is up."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to look does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(parent: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(stat.parent.name))
    return found
