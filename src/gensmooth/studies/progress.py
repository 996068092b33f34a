"""How far a study is, and how long it will take: one bar, or a line now and then."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

Say = Callable[[str], None]

_EVERY = 15.0  # seconds between lines where there is no terminal
_MANY = 4  # finished runs for each worker


class Estimate:
    """The time left, from the speed of the runs that are finished.

    Runs are of unequal cost and several are at work at any time, of which nothing is known until
    they finish. While few have finished, those that are at work weigh much, and the time is not
    extrapolated from what is finished: the finished ones tell how much cost a worker gets done in
    a second, and with it how long all will take. Later, the time that has passed tells it better,
    since it has all that goes on between runs.

    Args:
        cost: Of all that is to be done.
        workers: How many runs are at work at a time.
    """

    def __init__(self, cost: float, workers: int) -> None:
        self._total, self._workers = cost, workers
        self._runs, self._cost, self._seconds = 0, 0.0, 0.0
        self._began = time.monotonic()

    def add(self, cost: float, seconds: float) -> None:
        """A run has finished that took a worker so many seconds."""
        self._runs += 1
        self._cost += cost
        self._seconds += seconds

    @property
    def left(self) -> float | None:
        """Seconds, or ``None`` while nothing is known."""
        if not self._cost or not self._seconds:
            return None
        passed = time.monotonic() - self._began
        if self._runs >= _MANY * self._workers:
            return passed * (self._total - self._cost) / self._cost
        return max(0.0, self._total * self._seconds / self._cost / self._workers - passed)


@contextmanager
def progress(
    title: str, *, total: int, done: int, estimate: Estimate, say: Say
) -> Generator[Callable[[], None]]:
    """One bar on a terminal; elsewhere a line now and then. Call what it gives at each run."""
    if not sys.stderr.isatty():
        count, last = done, time.monotonic()

        def tick() -> None:
            nonlocal count, last
            count += 1
            now = time.monotonic()
            if count == total or now - last > _EVERY:
                last = now
                say(f"{title}: {count} of {total}{_words(estimate)}")

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
        yield lambda: bar.update(task, advance=1, left=_words(estimate))


def _words(estimate: Estimate) -> str:
    left = estimate.left
    if left is None:
        return ""
    return f", about {left:.0f} s to go" if left < 600 else f", about {left / 60:.0f} min to go"
