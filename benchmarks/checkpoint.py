"""The costs of checkpoints and of the journal.

    python -m benchmarks.checkpoint [--folder DIR] [--quick] [--out FILE.json]

A checkpoint is compared with writing the same number of bytes followed by fsync, in wall time. The
two take turns, and the ratio is taken turn by turn. The journal is measured by the CPU time (of all
processes) of entire runs in a folder, with and without it in turns. A call takes 1 µs, 100 µs, 1 ms
or 10 ms; from 10 ms on, every value is written when it arrives.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
import timeit
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gensmooth as gs
from benchmarks.record import Row, save, show
from benchmarks.timing import spread
from gensmooth.optimize import Minimization, MinimizeState
from gensmooth.runs import Execution, Limits, RunFolder

if hasattr(os, "sched_setaffinity"):  # the disk's work is not done on our core
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

DIM = 10_000_000
OPTIMIZERS = {"SGD": gs.sgd(0.1), "Adam": gs.adam(0.1)}
BAR = 2.0
JOURNAL_BAR = 1.02
JOURNALS = (  # seconds per evaluation, evaluations, workers, repeats
    (1e-6, 10_000, 1, 61),
    (1e-4, 2_000, 1, 21),
    (1e-3, 300, 1, 21),
    (1e-2, 40, 1, 21),
    (1e-6, 10_000, 2, 21),
    (1e-3, 600, 2, 11),
    (1e-2, 100, 2, 11),
)


def measure(folder: Path, name: str, repeats: int) -> tuple[Row, Row]:
    """The ratio for one optimiser's state, and the seconds for writing and reading it."""
    search = gs.RandomSearch(
        directions=gs.Bernoulli(), num_directions=4, spacing=0.1, optimizer=OPTIMIZERS[name]
    )
    rng = np.random.default_rng(0)
    x0 = rng.standard_normal(DIM, np.float32)
    program = Minimization(
        objective=None,
        x0=x0,
        seed=1,
        search=search,
        learning_rate=None,
        vectorized=False,
        limits=Limits(10**9),
        execution=Execution(),
    )
    run = folder / name
    with RunFolder(run, create=True) as held:
        held.open(held.take(program), None)
        state = search.init(x0, seed=1)
        best_x = rng.standard_normal(DIM, np.float32)
        moments = [rng.standard_normal(DIM, np.float32) for _ in range(len(state.kept) - 1)]
        state = state._replace(kept=type(state.kept)(0, *moments))
        current = MinimizeState(state, best_x, 0.0, 0)

        def checkpoint() -> None:
            held.saved = None  # otherwise the same step is not written again
            held.save(program, current, 0, None)

        checkpoint()
        size = (run / "checkpoint").stat().st_size
        plain = rng.bytes(size)

        def write() -> None:
            with open(folder / "plain", "wb", buffering=0) as file:
                file.write(plain)
                os.fsync(file.fileno())

        times = {write: [], checkpoint: []}
        for repeat in range(repeats):
            for call in (write, checkpoint) if repeat % 2 else (checkpoint, write):
                start = time.perf_counter()
                call()
                times[call].append(time.perf_counter() - start)
        start = time.perf_counter()
        held.load(program)
        read = time.perf_counter() - start
    ratio = spread(np.array(times[checkpoint]) / np.array(times[write]))
    seconds = spread(np.array(times[checkpoint]))
    what = f"checkpoint, d = 1e7 float32, {name} ({size / 1e6:.0f} MB)"
    return (
        Row(what, ratio, "× write + fsync of as many bytes", BAR),
        Row(f"  seconds; read back in {read:.2f} s", seconds, "s"),
    )


def quick(x: np.ndarray) -> float:
    """An objective that takes about 1 µs."""
    return float(x @ x)


@dataclass(frozen=True)
class Busy:
    """An objective whose CPU time is fixed, however busy the machine is."""

    loops: int

    def __call__(self, x: np.ndarray) -> float:
        for _ in range(self.loops):
            pass
        return float(x @ x)

    @classmethod
    def lasting(cls, seconds: float) -> "Busy":
        """An objective that takes about this many seconds."""
        loop = min(timeit.repeat(lambda: cls(100_000)(np.ones(1)), number=1, repeat=20)) / 100_000
        return cls(round(seconds / loop))


def cpu_time() -> float:
    """The CPU time of this process and of its ended children, in seconds."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def journal(folder: Path, seconds: float, budget: int, workers: int, repeats: int) -> Row:
    """The CPU time of a run with a journal, divided by that without."""
    session, fun = Minimization.session, quick if seconds < 1e-5 else Busy.lasting(seconds)
    times: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats + 1):
        for used in (True, False) if repeat % 2 else (False, True):
            if not used:
                Minimization.session = lambda self, _: session(self, None)
            start = cpu_time()
            where = folder / f"{seconds}-{workers}-{repeat}-{used}"
            gs.minimize(
                *(fun, np.ones(10)),
                method="bes",
                budget=budget,
                seed=0,
                folder=where,
                workers=workers,
            )
            end = cpu_time()
            Minimization.session = session
            if repeat:  # the first one compiles
                times[used].append(end - start)
    ratio = spread(np.array(times[True]) / np.array(times[False]))
    duration = f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} µs"
    by = f", {workers} processes" if workers > 1 else ""
    what = f"run with a journal, {duration} per evaluation{by}"
    return Row(what, ratio, "× without", JOURNAL_BAR)


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: /tmp's")
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--journal", action="store_true", help="only the journal")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    repeats = 3 if options.quick else 11
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = [
            journal(Path(folder), *case, min(repeats, most) if options.quick else most)
            for *case, most in JOURNALS
        ]
        if not options.journal:
            rows += [row for name in OPTIMIZERS for row in measure(Path(folder), name, repeats)]
    show(rows, "Checkpoints against a plain write of the same size")
    if options.out:
        command = " ".join(["python -m benchmarks.checkpoint", *sys.argv[1:]])
        save(options.out, {"checkpoint": rows}, command, ["gensmooth", "numpy"])
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
