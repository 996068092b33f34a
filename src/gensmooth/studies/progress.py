"""How far a study is, and how long it will take: one bar, or a line now and then."""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Say = Callable[[str], None]

_EVERY = 15.0  # seconds between lines where there is no terminal
_OFTEN = 0.5  # seconds between looks at the runs where there is one
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


class Shares:
    """How much of the work is done, and the time left, by what runs say of themselves.

    Runs that are made side by side begin together and end together: those that are finished tell
    nothing until the very end. What was done since the first of them spoke does; what an earlier
    attempt had done, or took to compile, is no measure of speed.

    Args:
        costs: Of the runs that are to be made, by their keys.

    Attributes:
        heard: Called now and then when there is news, from the thread of a run.
        pause: Seconds between such calls.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        self.heard: Callable[[], None] = _nothing
        self.pause = _OFTEN
        self._costs = costs
        self._shares: dict[str, float] = {}
        self._total, self._before, self._done = sum(costs.values()), 0.0, 0.0
        self._runs = 0.0
        self._began = self._last = -1.0
        self._lock = threading.Lock()
        self._speaking = threading.Lock()  # of what is heard, one thing after the other

    def tell(self, key: str, share: float) -> None:
        """Count how much of a run is done."""
        now = time.monotonic()
        with self._lock:
            if not self._shares:
                self._began = self._last = now
            known = self._shares.get(key)
            more = share - (known or 0.0)
            self._shares[key] = share
            self._done += self._costs[key] * more
            self._runs += more
            if known is None:
                self._before += self._costs[key] * share
            news = now - self._last >= self.pause
            if news:
                self._last = now
        if news:
            with self._speaking:
                self.heard()

    @property
    def runs(self) -> float:
        """How many runs would be finished if each had got its share of what was done."""
        return self._runs

    @property
    def done(self) -> float:
        """The share of the work that is done."""
        return self._done / self._total

    @property
    def left(self) -> float | None:
        """Seconds, or ``None`` while nothing is known."""
        lately = self._done - self._before
        if lately <= 0:
            return None
        return (time.monotonic() - self._began) * (self._total - self._done) / lately


def _nothing() -> None:
    """What is done by default when there is news."""


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


def listen(listener: Callable[[float], None]) -> None:
    """Hand on what the runs of this thread say of themselves from now on."""
    _listener.set(listener)


def tell(share: float) -> None:
    """Say how much of the run that is being made here is done, if somebody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(share)


@contextmanager
def progress(
    title: str, *, total: int, done: int, time_left: TimeLeft | Shares, say: Say
) -> Generator[Callable[[], None]]:
    """One bar on a terminal, elsewhere a line now and then; call what it yields after each run."""
    if not getattr(sys.stderr, "isatty", bool)():
        count, last = done, time.monotonic()

        def show() -> None:
            nonlocal last
            last = time.monotonic()
            say(f"{title}: {count} of {total}{_words(time_left)}")

        def tick() -> None:
            nonlocal count
            count += 1
            if count == total or time.monotonic() - last > _EVERY:
                show()

        with _hearing(time_left, show, _EVERY):
            yield tick
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    finished = done
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("[progress.download]{task.fields[finished]}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(title, total=total, completed=done, finished=done, words="")

        def draw() -> None:
            shared = done + time_left.runs if isinstance(time_left, Shares) else 0
            words = _words(time_left).removeprefix(", ")
            bar.update(task, completed=max(finished, shared), finished=finished, words=words)

        def advance() -> None:
            nonlocal finished
            finished += 1
            draw()

        with _hearing(time_left, draw, _OFTEN):
            yield advance


@contextmanager
def _hearing(
    time_left: TimeLeft | Shares, show: Callable[[], None], pause: float
) -> Generator[None]:
    """Show what runs say of themselves, if they do."""
    if isinstance(time_left, Shares):
        time_left.heard, time_left.pause = show, pause
    try:
        yield
    finally:
        if isinstance(time_left, Shares):
            time_left.heard = _nothing


def _words(time_left: TimeLeft | Shares) -> str:
    share = f", {time_left.done:.0%} of the work" if isinstance(time_left, Shares) else ""
    left = time_left.left
    if left is None:
        return share
    words = f"{left:.0f} s" if left < 600 else f"{left / 60:.0f} min"
    return f"{share}, about {words} to go"
