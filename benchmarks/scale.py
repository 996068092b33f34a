"""A model of scaling: steps per second and efficiency, from measured constants.

    python -m benchmarks.scale [--results FILE.json] [--page docs/scale.md] [--check]

Rewrites the tables of the page between its markers; with ``--check``, the exit code is 1 if they
are out of date.
"""

import argparse
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks import constants
from benchmarks.record import Row, load

RESULTS = Path("docs/results/benchmarks-evaluators.json")
PAGE = Path("docs/scale.md")

WORKERS = (10, 1_000, 100_000)
DIMS = (10**3, 10**5, 10**7, 10**9)
TIMES = (0.1, 1.0, 60.0)  # seconds that an evaluation takes


@dataclass(frozen=True)
class Machines:
    """Assumptions about the machines, which are not measured.

    Attributes:
        cores: Workers on a machine.
        network: Bytes per second, into and out of a machine.
        memory: Bytes per second that all workers of a machine copy in total.
        latency: Seconds for a message and its answer.
    """

    cores: int = 64
    network: float = 1.25e9
    memory: float = 2e10
    latency: float = 1e-3


@dataclass(frozen=True)
class Measured:
    """Measured times in seconds, and one size in bytes; see :mod:`benchmarks.constants`."""

    dispatch: float  # per evaluation
    local_dispatch: float
    share: float  # per byte
    local_share: float
    perturb: float  # per entry
    combine: float  # per entry
    update: float  # per parameter
    message: float  # bytes per evaluation

    @classmethod
    def of(cls, rows: list[Row]) -> "Measured":
        values = {row.what: row.measured.median for row in rows if row.measured is not None}
        return cls(
            dispatch=values[constants.RAY_DISPATCH] * 1e-6,
            local_dispatch=values[constants.DISPATCH] * 1e-6,
            share=values[constants.RAY_BROADCAST] * 1e-9,
            local_share=values[constants.BROADCAST] * 1e-9,
            perturb=values[constants.PERTURB] * 1e-9,
            combine=values[constants.COMBINE] * 1e-9,
            update=values[constants.UPDATE] * 1e-9,
            message=values[constants.RAY_BYTES],
        )


class Step(NamedTuple):
    """The parts of a step's time, in seconds."""

    share: float
    objective: float
    points: float
    dispatch: float
    combine: float
    update: float

    @property
    def seconds(self) -> float:
        """The time of a step: evaluation and dispatch overlap, the rest is sequential."""
        evaluate = max(self.objective + self.points, self.dispatch)
        return self.share + evaluate + self.combine + self.update

    @property
    def efficiency(self) -> float:
        """The share of the workers' time that is spent in the objective."""
        return self.objective / self.seconds

    @property
    def bottleneck(self) -> str:
        """The objective, or if more than a tenth of the time is lost, the largest loss."""
        parts = {
            "making points": self.points,
            "dispatch": self.dispatch - self.objective - self.points,
            "sharing x": self.share,
            "combining": self.combine,
            "the optimiser": self.update,
        }
        return (
            "the objective" if self.efficiency >= 0.9 else max(parts, key=lambda name: parts[name])
        )


def step(workers: int, dim: int, seconds: float, measured: Measured, machines: Machines) -> Step:
    """A step of as many antithetic directions as there are workers: two evaluations each."""
    size = 4 * dim  # float32
    evaluations = 2 * workers
    hosts = math.ceil(workers / machines.cores)
    if hosts == 1:  # processes, and memory that is shared
        share = size * measured.local_share
        dispatch = evaluations * measured.local_dispatch
    else:  # Ray: in each round the number of machines that have x doubles; then each worker copies
        rounds = math.ceil(math.log2(hosts + 1))
        copies = min(workers, machines.cores) * size / machines.memory
        share = size * measured.share + rounds * size / machines.network + copies
        dispatch = evaluations * max(measured.dispatch, measured.message / machines.network)
    share += machines.latency
    return Step(
        share=share,
        objective=2 * seconds,
        points=2 * dim * measured.perturb,
        dispatch=dispatch,
        combine=workers * dim * measured.combine,
        update=dim * measured.update,
    )


def shortest(workers: int, dim: int, measured: Measured, machines: Machines) -> float:
    """The shortest evaluation time with an efficiency of 90 %."""
    low, high = 1e-6, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        enough = step(workers, dim, middle, measured, machines).efficiency >= 0.9
        low, high = (low, middle) if enough else (middle, high)
    return high


def tables(rows: list[Row]) -> str:
    """The tables of the page, in Markdown."""
    measured, machines = Measured.of(rows), Machines()
    lines = [
        "| workers | d | evaluation | steps/s | efficiency | bottleneck |",
        "|---:|---:|---:|---:|---:|---|",
    ]
    for workers in WORKERS:
        for dim in DIMS:
            for seconds in TIMES:
                s = step(workers, dim, seconds, measured, machines)
                lines.append(
                    f"| {workers:,} | {_power(dim)} | {seconds:g} s | {_number(1 / s.seconds)} | "
                    f"{100 * s.efficiency:.3g} % | {s.bottleneck} |"
                )
    lines += [
        "",
        "The shortest evaluation at which 90 % of the workers' time goes into the objective:",
        "",
        "| workers | " + " | ".join(f"d = {_power(dim)}" for dim in DIMS) + " |",
        "|---:|" + "---:|" * len(DIMS),
    ]
    for workers in WORKERS:
        cells = [_duration(shortest(workers, dim, measured, machines)) for dim in DIMS]
        lines.append(f"| {workers:,} | " + " | ".join(cells) + " |")
    lines += ["", "Constants, measured on one machine:", "", "| what | measured |", "|---|---:|"]
    for row in rows:
        if row.measured is not None:
            lines.append(f"| {row.what} | {row.measured.median:.3g} {row.unit} |")
    return "\n".join(lines)


def _power(number: int) -> str:
    return (
        f"10{str(round(math.log10(number))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    )


def _number(value: float) -> str:
    return f"{value:.2g}" if value >= 0.01 else f"1 in {_duration(1 / value)}"


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):,g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    rows: list[Row] = load(options.results)["constants"]["rows"]
    page = options.page.read_text(encoding="utf-8")
    new = f"<!-- tables -->\n{tables(rows)}\n<!-- end of tables -->"
    updated = re.sub(r"<!-- tables -->.*<!-- end of tables -->", lambda _: new, page, flags=re.S)
    if options.check:
        return int(updated != page)
    options.page.write_text(updated, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
