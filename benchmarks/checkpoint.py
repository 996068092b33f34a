"""What checkpoints and the journal cost.

A checkpoint is measured against writing the same number of bytes and synchronising the disk.

    python -m benchmarks.checkpoint [--folder DIR] [--quick] [--out FILE.json]

Wall time, because a disk is waited for; the two are measured in turns, and the ratio is taken
turn by turn. The journal is measured on whole runs in a folder, with it and without it, in the time
of the processor.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
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
JOURNALS = ((0.0, 40_000), (1e-3, 1_000), (12e-3, 100))  # seconds per evaluation, evaluations


def measure(folder: Path, name: str, repeats: int) -> tuple[Row, Row]:
    """The ratio for one optimiser's state, and reading it back."""
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
            held.saved = None  # or it would not write the same step again
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


def busy(seconds: float) -> Callable[[np.ndarray], float]:
    """An objective that computes for some time."""

    def fun(x: np.ndarray) -> float:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return float(x @ x)

    return fun if seconds else lambda x: float(x @ x)


def journal(folder: Path, seconds: float, budget: int, repeats: int) -> Row:
    """The time of a run with a journal, divided by that without."""
    session, fun = Minimization.session, busy(seconds)
    times: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats + 1):
        for used in (True, False) if repeat % 2 else (False, True):
            if not used:
                Minimization.session = lambda self, _: session(self, None)
            start = time.process_time()
            where = folder / f"{seconds}-{repeat}-{used}"
            gs.minimize(fun, np.ones(10), method="bes", budget=budget, seed=0, folder=where)
            end = time.process_time()
            Minimization.session = session
            if repeat:  # the first one compiles
                times[used].append(end - start)
    ratio = spread(np.array(times[True]) / np.array(times[False]))
    what = f"run with a journal, {seconds * 1e3:g} ms" if seconds else "run with a journal, 1 µs"
    return Row(f"{what} per evaluation", ratio, "× without", JOURNAL_BAR)


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
        rows = [journal(Path(folder), *case, repeats) for case in JOURNALS]
        if not options.journal:
            rows += [row for name in OPTIMIZERS for row in measure(Path(folder), name, repeats)]
    show(rows, "Checkpoints against a plain write of the same size")
    if options.out:
        command = " ".join(["python -m benchmarks.checkpoint", *sys.argv[1:]])
        save(options.out, {"checkpoint": rows}, command, ["gensmooth", "numpy"])
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
