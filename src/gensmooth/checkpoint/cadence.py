"""How often a checkpoint is written."""

import re
import time
from typing import NamedTuple

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHARE = 0.1  # of the time that checkpoints may take, when nobody said how often


class Every(NamedTuple):
    """Steps and seconds between checkpoints; whichever has passed first calls for one."""

    steps: int | None = None
    seconds: float | None = None


DEFAULT = Every(seconds=30.0)


def parse_every(every: int | str | Every | None) -> Every | None:
    """``100`` steps; ``"30s"``, ``"5m"``, ``"2h"``; or both, ``"100,30s"``: the earlier counts.

    >>> parse_every("100, 5m")
    Every(steps=100, seconds=300.0)
    """
    if every is None or isinstance(every, Every):
        return every
    steps: int | None = None
    seconds: float | None = None
    for part in str(every).split(","):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", part)
        amount = float(found[1]) if found else 0.0
        if isinstance(every, bool) or not found or (not found[2] and amount != int(amount)):
            raise ValueError(
                "`every` must be a number of steps such as 100, a time such as '30s', '5m' or "
                f"'2h', or both as '100,30s', but is {every!r}."
            )
        if found[2]:
            seconds = amount * _UNITS[found[2]]
        else:
            steps = int(amount)
    if steps == 0:
        raise ValueError(f"`every` must be at least one step, but is {every!r}.")
    return Every(steps, seconds)


class Cadence:
    """Says when the next checkpoint is due.

    Without a choice of the user's it is due every 30 seconds, but never so often that writing
    takes more than a tenth of the time.
    """

    def __init__(self, every: Every | None, step: int) -> None:
        self.every = DEFAULT if every is None else every
        self.least = 0.0 if every is None else None
        self.step = step
        self.time = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after ``step`` steps."""
        steps, seconds = self.every
        if steps is not None and step - self.step >= steps:
            return True
        if seconds is None:
            return False
        return time.monotonic() - self.time >= max(seconds, self.least or 0.0)

    def done(self, step: int, took: float) -> None:
        """One was written (or tried) in ``took`` seconds."""
        self.step, self.time = step, time.monotonic()
        if self.least is not None:
            self.least = took / _SHARE
