"""How far a study is, and how long it will take: one bar, or a line now and then."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

Say = Callable[[str], None]

_EVERY = 15.0  # seconds between lines where there is no terminal
_MANY = 4  # finished runs for each worker


class TimeLeft:
    """An estimate of the time left, from the speed of the runs that are finished.

    The first run of each worker also loads and compiles, which no later one does: it counts as
    done, and not as a measure of speed. Runs have unequal costs, and of those that are being made
    nothing is known until they finish. While few have finished, the unfinished ones weigh too much
    to extrapolate from the time that has passed. The finished ones tell how much cost a worker gets
    done per second, and hence how long the rest will take. Later, the time that has passed is the
    better guide, since it includes all that goes on between runs.

    Args:
        cost: Of everything that is to be done.
        workers: How many runs are made at a time.
    """

    def __init__(self, cost: float, workers: int) -> None:
        self._left, self._workers = cost, workers
        self._runs, self._cost, self._seconds = -workers, 0.0, 0.0
        self._began = time.monotonic()

    def add(self, cost: float, seconds: float) -> None:
        """Count a finished run, and the seconds that it took a worker."""
        self._left -= cost
        self._runs += 1
        if self._runs <= 0:
            self._began = time.monotonic()
            return
        self._cost += cost
        self._seconds += seconds

    @property
    def left(self) -> float | None:
        """Seconds, or ``None`` while nothing is known."""
        if self._left <= 0:
            return 0.0
        if not self._cost or not self._seconds:
            return None
        if self._runs >= _MANY * self._workers:
            return (time.monotonic() - self._began) * self._left / self._cost
        return self._left * self._seconds / self._cost / self._workers


@contextmanager
def progress(
    title: str, *, total: int, done: int, time_left: TimeLeft, say: Say
) -> Generator[Callable[[], None]]:
    """One bar on a terminal, elsewhere a line now and then; call what it yields after each run."""
    if not getattr(sys.stderr, "isatty", bool)():
        count, last = done, time.monotonic()

        def tick() -> None:
            nonlocal count, last
            count += 1
            now = time.monotonic()
            if count == total or now - last > _EVERY:
                last = now
                say(f"{title}: {count} of {total}{_words(time_left)}")

        yield tick
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(title, total=total, completed=done, left="")
        yield lambda: bar.update(task, advance=1, left=_words(time_left))


def _words(time_left: TimeLeft) -> str:
    left = time_left.left
    if left is None:
        return ""
    return f", about {left:.0f} s to go" if left < 600 else f", about {left / 60:.0f} min to go"
