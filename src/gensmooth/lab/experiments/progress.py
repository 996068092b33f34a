"""Progress and the time left: a bar on a terminal, elsewhere a line now and then."""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Say = Callable[[str], None]  # prints a line for the user

_EVERY = 15.0  # seconds between lines where there is no terminal
_OFTEN = 0.5  # seconds between updates of the bar on a terminal
_MANY = 20  # finished runs per worker after which the elapsed time is used
_FEW = 5  # finished runs before the first estimate
_COMPILED = 5  # a run that takes this many times the usual time has also compiled
_LONG = 60.0  # seconds; compiling adds little to a run that takes longer


class TimeLeft:
    """An estimate of the time left, from the speed of the runs that are finished.

    The first run of each worker also loads and compiles, so it is ignored. The first run of each
    kind compiles too, so its time is cut to a few times the usual. There is no estimate until a few
    runs have finished, or one has taken so long that compiling does not matter. While few runs have
    finished, the estimate uses the cost per second of the finished runs, because runs in flight
    would bias the elapsed time. Later it uses the time that the latter half of the runs took, which
    includes the overhead between runs.

    Args:
        cost: The cost of all runs.
        workers: How many runs are executed at a time.
    """

    def __init__(self, cost: float, workers: int) -> None:
        self._left, self._workers = cost, workers
        self._first_runs = workers  # the workers whose first run has not finished
        self._done: list[tuple[float, float, float]] = []  # cost, seconds, when

    def add(self, cost: float, seconds: float) -> None:
        """Count a finished run, and the seconds that a worker spent on it."""
        self._left -= cost
        if self._first_runs:
            self._first_runs -= 1
        else:
            self._done.append((cost, seconds, time.monotonic()))

    @property
    def left(self) -> float | None:
        """Seconds left, or ``None`` if it cannot be estimated yet."""
        if self._left <= 0:
            return 0.0
        if len(self._done) < _FEW and not any(taken > _LONG for _, taken, _ in self._done):
            return None
        if len(self._done) >= _MANY * self._workers:
            latter = self._done[len(self._done) // 2 :]
            passed = latter[-1][2] - latter[0][2]
            return passed * self._left / sum(cost for cost, _, _ in latter[1:])
        usual = statistics.median_low(seconds / cost for cost, seconds, _ in self._done)
        seconds = sum(min(taken, _COMPILED * usual * cost) for cost, taken, _ in self._done)
        return self._left * seconds / sum(cost for cost, _, _ in self._done) / self._workers


class Shares:
    """The share of the work that is done, and the time left, as reported by the runs.

    Runs that are executed side by side begin and end together, so the number of finished runs does
    not show progress. The speed is measured from the first report on: the work of an earlier
    attempt and the time to compile do not count.

    Args:
        costs: The costs of the runs, by their keys.

    Attributes:
        on_report: Called after a report, from the thread of a run.
        pause: The least number of seconds between such calls.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        self.on_report: Callable[[], None] = lambda: None
        self.pause = _OFTEN
        self._costs = costs
        self._shares: dict[str, float] = {}
        self._total, self._before, self._done = sum(costs.values()), 0.0, 0.0
        self._runs = 0.0
        self._began = self._last = -1.0
        self._lock = threading.Lock()
        self._reporting = threading.Lock()  # one call of `on_report` at a time

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
            due = now - self._last >= self.pause
            if due:
                self._last = now
        if due:
            with self._reporting:
                self.on_report()

    @property
    def runs(self) -> float:
        """The sum of the shares of all runs that are done."""
        return self._runs

    @property
    def done(self) -> float:
        """The share of the work that is done."""
        return self._done / self._total

    @property
    def left(self) -> float | None:
        """Seconds left, or ``None`` if it cannot be estimated yet."""
        lately = self._done - self._before
        if lately <= 0:
            return None
        return (time.monotonic() - self._began) * (self._total - self._done) / lately


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


def listen(listener: Callable[[float], None]) -> None:
    """Set the function that gets the reports of the runs of this thread."""
    _listener.set(listener)


def tell(share: float) -> None:
    """Report the share of the current run that is done, if a listener is set."""
    listener = _listener.get()
    if listener is not None:
        listener(share)


def print_line(line: str) -> None:
    """Print a line for the user, on standard error."""
    print(line, file=sys.stderr)


@contextmanager
def progress(
    title: str, *, total: int, done: int, time_left: TimeLeft | Shares, say: Say
) -> Generator[Callable[[], None]]:
    """On a terminal, show a bar; elsewhere, print a line now and then.

    Yields a function to call after each run.
    """
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

        with _showing_reports(time_left, show, _EVERY):
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

        with _showing_reports(time_left, draw, _OFTEN):
            yield advance


@contextmanager
def _showing_reports(
    time_left: TimeLeft | Shares, show: Callable[[], None], pause: float
) -> Generator[None]:
    if not isinstance(time_left, Shares):
        yield
        return
    time_left.on_report, time_left.pause = show, pause
    try:
        yield
    finally:
        time_left.on_report = lambda: None


def _words(time_left: TimeLeft | Shares) -> str:
    share = f", {time_left.done:.0%} of the work" if isinstance(time_left, Shares) else ""
    left = time_left.left
    if not left:
        return share
    return f"{share}, about {duration(left)} to go"


def duration(seconds: float) -> str:
    """Return a rough time in words.

    >>> duration(42), duration(1200), duration(5e4)
    ('42 s', '20 min', '14 hours')
    """
    if seconds < 600:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.0f} hours"
