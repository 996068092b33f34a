"""Progress displays: a live table on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, final

from gensmooth.observe.observers import Progress, Start, Tracker


def display(progress: bool | None) -> list[Tracker]:
    """Return the display that ``progress=`` selects.

    Args:
        progress: ``None`` shows a table on a terminal and nothing elsewhere; ``True`` shows a table
            on a terminal and plain lines elsewhere; ``False`` shows nothing.
    """
    terminal = getattr(sys.stderr, "isatty", bool)()
    if progress is False or (progress is None and not terminal):
        return []
    return [LiveTable()] if terminal else [Lines()]


@final
class LiveTable:
    """A table on standard error, redrawn four times a second."""

    def __init__(self) -> None:
        self._live: Any = None
        self._last: Progress | None = None
        self._start: Start | None = None

    def start(self, start: Start) -> None:
        """See :class:`Tracker`."""
        from rich.console import Console
        from rich.live import Live

        self._start = start
        self._live = Live(
            console=Console(stderr=True), get_renderable=self._table, refresh_per_second=4
        )
        self._live.start()
        if start.message:
            self._live.console.print(start.message, markup=False, highlight=False)

    def step(self, progress: Progress) -> None:
        """See :class:`Tracker`."""
        self._last = progress

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`Tracker`."""
        self._live.stop()
        if summary["reason"] == "terminated":  # the program ends, and prints no result
            self._live.console.print(summary["message"], markup=False, highlight=False)

    def _table(self) -> Any:
        from rich.table import Table

        if self._last is None or self._start is None:
            return "waiting for the first step …"
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(style="dim")
            table.add_column(justify="right")
        cells = list(_cells(self._last, self._start).items())
        for row in range(0, len(cells), 3):
            table.add_row(*(text for pair in cells[row : row + 3] for text in pair))
        return table


@final
class Lines:
    """Prints a line of plain text after the first step, every ten seconds, and at the end.

    Args:
        seconds: The interval between lines.
        file: The output stream; by default standard error.
    """

    def __init__(self, seconds: float = 10.0, file: IO[str] | None = None) -> None:
        self._seconds = seconds
        self._file = file
        self._next = 0.0
        self._start: Start | None = None
        self._last: Progress | None = None

    def start(self, start: Start) -> None:
        """See :class:`Tracker`."""
        self._start = start
        if start.message:
            self._print(start.message)

    def step(self, progress: Progress) -> None:
        """See :class:`Tracker`."""
        self._last = progress
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._seconds
            self._show(progress)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`Tracker`."""
        if self._last is not None:
            self._show(self._last)
        name = "fun" if self._start is None else self._start.words.get("fun", "fun")
        self._print(f"end: {summary['message']} {name} {summary['fun']:.8g}")

    def _show(self, progress: Progress) -> None:
        assert self._start is not None
        cells = _cells(progress, self._start)
        self._print("  ".join(f"{name} {text}" for name, text in cells.items()))

    def _print(self, line: str) -> None:
        print(line, file=self._file or sys.stderr, flush=True)


def number(value: float, digits: int = 6) -> str:
    """Format a number for display: counts in full, others with ``digits`` digits.

    >>> number(1106520.0), number(52345.6, 4), number(-0.5), number(1e-9)
    ('1,106,520', '52,346', '-0.5', '1e-09')
    """
    whole = math.isfinite(value) and abs(value) < 1e15
    if whole and (value == int(value) or abs(value) >= 10 ** (digits - 1)):
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def _cells(progress: Progress, start: Start) -> dict[str, str]:
    info, steps, budget = progress.info, start.max_steps, start.budget
    ratio = info.signal_to_noise
    faults = ", ".join(f"{kind} {count}" for kind, count in progress.faults.items())
    cells = {
        "step": f"{info.step + 1:,}" + (f" / {steps:,}" if steps is not None else ""),
        "evaluations": f"{info.evaluations:,}" + (f" / {budget:,}" if budget is not None else ""),
        "evaluations/s": number(progress.rate, 4),
        "value": f"{info.value:.6g}",
        **({} if ratio is None else {"gradient norm": f"{info.gradient_norm:.4g}"}),
        **({} if ratio is None else {"SNR": f"{ratio:.3g}"}),
        "workers": str(progress.workers),
        "faults": faults or "none",
        "time left": duration(progress.remaining),
        **{name: number(value) for name, value in progress.more.items()},
    }
    return {start.words.get(name, name): text for name, text in cells.items()}


def duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds.

    >>> duration(3725), duration(59.9), duration(float("inf"))
    ('1:02:05', '0:00:59', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
