"""Write docs/benchmarks.md from the measured JSON.

python -m benchmarks.page [--results FILE.json] [--page FILE.md]
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.peers import BARS, FASTEST
from benchmarks.record import Row, digits, load

RESULTS, PAGE = Path("docs/results/benchmarks-core.json"), Path("docs/benchmarks.md")

HEAD = """\
# Benchmarks

Ratios of times within one run, on one core and in one thread for everybody. In each repeat every
competitor runs once, in turn; a number is the median of the ratios of the repeats, and the
quartiles follow in parentheses. Times are CPU times, so what other programs take from the core
does not count. L = 20.

To repeat all of it (`make bench` does the same):

```sh
python -m venv .venv-peers
.venv-peers/bin/pip install -e . evosax evotorch torch==2.13.0 nevergrad pypop7 cma
.venv-peers/bin/python -m benchmarks.core --out docs/results/benchmarks-core.json
.venv-peers/bin/python -m benchmarks.page
```

`--rows bernoulli,guided` measures some groups only, `--quick` takes few repeats. Libraries that
are not installed are shown as such. The peers at d = 1,000,000 need about 9 GB of memory.
"""

CORE = """
## Against plain NumPy

float32. Blocks are (20, d) and go into a buffer that is used again, for NumPy too
(`standard_normal(out=...)`, PCG64); our time includes the draw. "As a new array" lets both sides
allocate. Guided's history of 50 estimates is full. The NumPy estimate is a loop over directions
with reused buffers. Memory is what the process holds at its peak beyond the caller's x, the
result included.
"""

PEERS = """
## ask + tell against other libraries

The time to make all points of a step and to use all values, without an objective: time of the
library over our time. Each is compared with gensmooth at the same d, number of evaluations and
precision, and those that evaluate opposite pairs with our opposite pairs: 20 directions and 21
evaluations (20 where a library wants an even number), or 10 pairs. Guided is compared with
Guided; the bar is about the others. Our points are taken one by one and let go, as an objective
does; libraries that make the whole population at once do so here too.
"""


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    groups = load(options.results)
    peers = groups.pop("peers", None)
    text = HEAD
    if groups:
        rows = [row for group in groups.values() for row in group["rows"]]
        text += CORE + "\n" + _table(rows) + "\n" + _origin(list(groups.values()))
    if peers:
        fastest = [row for row in peers["rows"] if row.what.startswith(FASTEST)]
        text += PEERS + "\n" + _table(fastest) + "\n" + _pivot(peers["rows"]) + "\n"
        text += _origin([peers])
    options.page.write_text(text, encoding="utf-8")
    print(f"wrote {options.page}")


def _table(rows: list[Row]) -> str:
    lines = ["| what | measured | must reach | ok |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    return "\n".join(lines) + "\n"


def _pivot(rows: list[Row]) -> str:
    """Peers down, d across; our own times on top."""
    dims = [f"{dim:,}" for dim in BARS]
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        name, dim = row.what.rsplit(", d = ", 1)
        if name != FASTEST:
            cells.setdefault(name, {})[dim] = row
    lines = [
        f"| time of … over our time | {' | '.join(f'd = {dim}' for dim in dims)} | compared with |",
        "|---|" + "---|" * (len(dims) + 1),
    ]
    for name, at in cells.items():
        found = [_number(at[dim]) if dim in at else "" for dim in dims]
        measured = [row for row in at.values() if row.measured and row.note]
        lines.append(f"| {name} | {' | '.join(found)} | {measured[0].note if measured else ''} |")
    return "\n".join(lines) + "\n"


def _number(row: Row) -> str:
    if row.measured is None:
        return row.note
    median, low, high = (digits(value) for value in row.measured)
    unit = " µs" if row.unit.startswith("µs") else ""
    return f"{median}{unit} ({low}–{high})"


def _origin(groups: list[dict[str, Any]]) -> str:
    """Command, date and machine; groups that were measured together share a line."""
    keys = ("date", "commit", "command", "machine")
    seen = dict.fromkeys(tuple(group[key] for key in keys) for group in groups)
    return "\n".join(
        f"Measured {day} at commit {commit} with `{how}` on {where}.\n"
        for day, commit, how, where in seen
    )


if __name__ == "__main__":
    main()
