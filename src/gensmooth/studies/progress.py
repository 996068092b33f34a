"""How far a study is, and how long it will take: one bar, or a line now and then."""

import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

Say = Callable[[str], None]

_EVERY = 15.0  # seconds between lines where there is no terminal
_MANY = 20  # finished runs for each worker
_FEW = 5.0  # times the usual: what takes longer has also compiled


class TimeLeft:
    """An estimate of the time left, from the speed of the runs that are finished.

    The first run of each worker also loads and compiles, as does the first of each kind: the
    former is no measure of speed, and the latter are cut to a few times the usual. Runs have
    unequal costs, and of those that are being made nothing is known until they finish. While few
    have finished, the unfinished ones weigh too much to extrapolate from the time that has passed:
    the finished ones tell how much cost a worker gets done per second. Later, the time that the
    latter half of them took is the better guide, since it includes all that goes on between runs.

    Args:
        cost: Of everything that is to be done.
        workers: How many runs are made at a time.
    """

    def __init__(self, cost: float, workers: int) -> None:
        self._left, self._workers = cost, workers
        self._waiting = workers  # for the first run of each
        self._done: list[tuple[float, float, float]] = []  # cost, seconds, when

    def add(self, cost: float, seconds: float) -> None:
        """Count a finished run, and the seconds that it took a worker."""
        self._left -= cost
        if self._waiting:
            self._waiting -= 1
        else:
            self._done.append((cost, seconds, time.monotonic()))

    @property
    def left(self) -> float | None:
        """Seconds, or ``None`` while nothing is known."""
        if self._left <= 0:
            return 0.0
        if not self._done:
            return None
        if len(self._done) >= _MANY * self._workers:
            latter = self._done[len(self._done) // 2 :]
            passed = latter[-1][2] - latter[0][2]
            return passed * self._left / sum(cost for cost, _, _ in latter[1:])
        usual = statistics.median_low(seconds / cost for cost, seconds, _ in self._done)
        seconds = sum(min(taken, _FEW * usual * cost) for cost, taken, _ in self._done)
        return self._left * seconds / sum(cost for cost, _, _ in self._done) / self._workers


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
