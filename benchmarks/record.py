"""Results of benchmarks: rows for a terminal, groups of rows in a JSON file, tables of pages."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Spread


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: What is measured.
        measured: The number, and the ends of an interval around it, such as the quartiles; ``None``
            when there is none.
        unit: The unit of the number, such as "× NumPy".
        bar: The required limit; ``None`` for a row without one.
        at_least: Whether the bar is a lower limit.
        note: Words in place of a missing number, or beside it.
    """

    what: str
    measured: Spread | None
    unit: str = ""
    bar: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether the bar is reached; ``None`` when there is no bar or no number."""
        if self.bar is None or self.measured is None:
            return None
        value = self.measured.median
        return value >= self.bar if self.at_least else value <= self.bar

    def cells(self) -> tuple[str, str, str, str]:
        """What, measured, must reach, ok."""
        measured = self.note
        if self.measured is not None:
            median, low, high = (digits(value) for value in self.measured)
            around = "" if low == high else f" ({low}–{high})"
            measured = f"{median}{around} {self.unit}"
            measured += f", {self.note}" if self.note else ""
        bar = "" if self.bar is None else f"{'≥' if self.at_least else '≤'} {self.bar:g}"
        ok = {True: "yes", False: "NO", None: ""}[self.ok]
        return self.what, measured, bar, ok


def digits(value: float) -> str:
    """A number with three significant digits, but at least all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(rows: list[Row], title: str) -> None:
    """Print the table."""
    table = Table(title=title, title_justify="left")
    for name in ("what", "measured", "must reach", "ok"):
        table.add_column(name, overflow="fold")
    for row in rows:
        style = "red" if row.ok is False else None
        table.add_row(*row.cells(), style=style)
    Console(width=None if os.isatty(1) else 140).print(table)


def save(
    path: Path,
    groups: dict[str, list[Row]],
    command: str,
    packages: list[str],
    before: str | None = None,
) -> None:
    """Write groups of rows; other groups in the file stay as they are.

    ``before`` is :func:`commit` before the measurements. If it has changed since, both are saved.
    """
    after = commit()
    measured = after if before in (None, after) else f"{before}, and {after} by the end of the run"
    known = load(path) if path.exists() else {}
    for name, rows in groups.items():
        if name in known and _numbers(rows) < _numbers(known[name]["rows"]):
            print(f"{path}: kept the earlier '{name}', which has more numbers", file=sys.stderr)
            continue
        known[name] = {
            "command": command,
            "date": date.today().isoformat(),
            "commit": measured,
            "machine": machine(packages),
            "rows": rows,
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(known, indent=1, ensure_ascii=False, default=asdict)
    path.write_text(text + "\n", encoding="utf-8")


def _numbers(rows: list[Row]) -> int:
    return sum(row.measured is not None for row in rows)


def load(path: Path) -> dict[str, dict[str, Any]]:
    """The groups of a file: command, date, machine and rows."""
    groups = json.loads(path.read_text(encoding="utf-8"))
    for group in groups.values():
        group["rows"] = [
            Row(**{**row, "measured": row["measured"] and Spread(*row["measured"])})
            for row in group["rows"]
        ]
    return groups


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, without the last end of line."""
    head, *lines = (
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
        for line in (columns, *rows)
    )
    return "\n".join([head, "|" + "---|" * len(columns), *lines])


def fill(page: Path, tables: Mapping[str, str]) -> None:
    """Replace a page's tables between ``<!-- NAME: source -->`` and ``<!-- end of NAME -->``."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        place = re.compile(rf"(<!-- {name}: .*?-->\n\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
        text, places = place.subn(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
        if places != 1:
            sys.exit(f"{page} has {places} places for the table {name}; it must have one.")
    page.write_text(text, encoding="utf-8")
    print(f"wrote the tables of {page}")


def commit() -> str:
    """The commit that was measured, and whether the sources had changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def machine(packages: list[str]) -> str:
    """The machine and the versions, in one line."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            s.split(":")[1].strip() for s in info.read_text().splitlines() if "model name" in s
        ]
        cpu = names[0] if names else cpu
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}; {', '.join(versions)}"
