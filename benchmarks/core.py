"""Speed and memory against plain NumPy, and ask + tell against other libraries, in one table.

python -m benchmarks.core [--rows bernoulli,gaussian] [--quick] [--out FILE.json]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import blocks, estimate, families, peers
from benchmarks.record import Row, commit, save, show
from benchmarks.timing import FULL, QUICK, Effort

GROUPS: dict[str, Callable[[Effort], list[Row]]] = {
    "bernoulli": blocks.bernoulli,
    "gaussian": blocks.gaussian,
    "orthogonal": blocks.orthogonal,
    "guided": blocks.guided,
    "estimate": estimate.estimate,
    "families": families.families,
    "peers": peers.peers,
}
PACKAGES = ["gensmooth", "numpy", "numba"]


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=__doc__)
    parser.add_argument("--rows", help=f"comma-separated, of: {', '.join(GROUPS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    names = options.rows.split(",") if options.rows else list(GROUPS)
    unknown = set(names) - set(GROUPS)
    if unknown:
        parser.error(f"no rows named {', '.join(unknown)}; known: {', '.join(GROUPS)}")
    before = commit()
    found: dict[str, list[Row]] = {}
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        found[name] = GROUPS[name](QUICK if options.quick else FULL)
    rows = [row for group in found.values() for row in group]
    show(rows, "gensmooth against plain NumPy and its peers, one thread")
    if options.out:
        command = " ".join(["python -m benchmarks.core", *sys.argv[1:]])
        save(options.out, found, command, PACKAGES + peers.PACKAGES, before)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
