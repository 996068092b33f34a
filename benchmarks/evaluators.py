"""Evaluators against serial evaluation and ``ProcessPoolExecutor``, in one table.

    python -m benchmarks.evaluators [--rows processes,overhead] [--quick] [--out FILE.json]

The competitors take turns and are compared by wall time. Each worker needs a core of its own: on a
busy machine the measured speed-ups are too small.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gensmooth as gs
from benchmarks import constants
from benchmarks.record import Row, save, show
from benchmarks.timing import FULL, QUICK, Competitors, Effort, Times, ratio, spread
from gensmooth.evaluators import Objective, Processes, Ray, Serial

PACKAGES = ["gensmooth", "numpy", "numba", "ray"]

if hasattr(os, "sched_setaffinity"):  # the package leaves one core; workers need cores of their own
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def burn(milliseconds: float) -> Callable[[NDArray[Any]], float]:
    """An objective that keeps a core busy."""

    def objective(x: NDArray[Any]) -> float:
        end = time.process_time() + milliseconds / 1000
        while time.process_time() < end:
            pass
        return float(x[0])

    return objective


def nap(x: NDArray[Any]) -> float:
    """An objective that takes 1 to 20 ms; its value is that time in seconds."""
    begin = time.perf_counter()
    time.sleep(1e-3 * 20 ** (abs(float(x[0])) * 1e3 % 1.0))  # log-uniform
    return time.perf_counter() - begin


def trivial(x: NDArray[Any]) -> float:
    return float(x[0])


def processes(effort: Effort) -> list[Row]:
    """Two processes; an evaluation computes for 5 ms."""
    search, state, batch = _step(dim=100, num_directions=20)
    objective = Objective(burn(5.0))
    with (
        Serial().session(search, objective) as serial,
        Processes(2).session(search, objective) as session,
    ):
        times = _take_turns(
            {
                "serial": lambda: serial.evaluate(state, batch),
                "processes": lambda: session.evaluate(state, batch),
            },
            effort,
        )
    what = "2 processes, objective of 5 ms CPU, throughput"
    return [Row(what, ratio(times, "serial", "processes"), "× serial", 1.85, True, _busy())]


def overhead(effort: Effort) -> list[Row]:
    """The time per evaluation of a trivial objective."""
    rows: list[Row] = []
    for number in (50, 10):
        search, state, batch = _step(dim=1_000, num_directions=number)
        count = len(batch)
        with (
            ProcessPoolExecutor(2) as executor,
            Processes(2).session(search, Objective(trivial)) as session,
        ):
            times = _take_turns(
                {
                    "ours": lambda b=batch, s=state: session.evaluate(s, b),
                    "executor": lambda b=batch: list(executor.map(trivial, b.points())),
                    "chunks": lambda b=batch, n=count: list(
                        executor.map(trivial, b.points(), chunksize=n // 4)
                    ),
                },
                effort._replace(repeats=10 * effort.repeats),
            )
        what = "overhead per evaluation, trivial objective, d = 1,000, "
        what += f"{count} evaluations per step"
        bar = 0.2 if number == 50 else None
        each = spread(times["ours"] / count * 1e6)
        note = f"{each.median:.0f} µs"
        rows += [
            Row(
                what,
                ratio(times, "ours", "executor"),
                "× ProcessPoolExecutor.map",
                bar,
                note=note,
            ),
            Row(what, ratio(times, "ours", "chunks"), "× the same in 4 chunks"),
        ]
    return rows


def stragglers(effort: Effort) -> list[Row]:
    """Utilisation of the workers when some evaluations take 20 times as long as others."""
    rows: list[Row] = []
    workers = 4
    search, state, batch = _step(dim=10, num_directions=48)
    with Processes(workers).session(search, Objective(nap)) as session:
        while session.workers < workers:
            session.evaluate(state, batch)
        found: list[tuple[float, float]] = []
        for _ in range(effort.repeats):
            begin = time.perf_counter()
            seconds = session.evaluate(state, batch).values
            wall = time.perf_counter() - begin
            static = max(part.sum() for part in np.array_split(seconds, workers))
            found.append((seconds.sum() / (workers * wall), seconds.sum() / (workers * static)))
    ours, theirs = np.array(found).T
    what = f"{workers} workers, {len(batch)} evaluations of 1 to 20 ms"
    rows.append(Row(f"{what}: time spent evaluating", spread(ours), "of all", 0.85, True, _busy()))
    rows.append(Row(f"{what}: a fixed share each would reach", spread(theirs), "of all"))
    return rows


def ray(effort: Effort) -> list[Row]:
    """Two actors of a local Ray; an evaluation computes for 20 ms."""
    what = "Ray local, 2 workers, objective of 20 ms, throughput"
    if find_spec("ray") is None:
        return [Row(what, None, "× serial", 1.8, True, "Ray is not installed")]
    search, state, batch = _step(dim=100, num_directions=20)
    objective = Objective(burn(20.0))
    with (
        Serial().session(search, objective) as serial,
        Ray(num_workers=2).session(search, objective) as session,
    ):
        times = _take_turns(
            {
                "serial": lambda: serial.evaluate(state, batch),
                "ray": lambda: session.evaluate(state, batch),
            },
            effort._replace(repeats=max(3, effort.repeats // 3)),
        )
    return [Row(what, ratio(times, "serial", "ray"), "× serial", 1.8, True, _busy())]


GROUPS: dict[str, Callable[[Effort], list[Row]]] = {
    "processes": processes,
    "overhead": overhead,
    "stragglers": stragglers,
    "ray": ray,
    "constants": constants.measure,
}


def _step(*, dim: int, num_directions: int) -> tuple[gs.RandomSearch, gs.SearchState, Any]:
    search = gs.RandomSearch(
        gs.Gaussian(), num_directions=num_directions, spacing=0.1, estimator=gs.Antithetic()
    )
    state = search.init(np.zeros(dim), seed=0)
    return search, state, search.ask(state)


def _take_turns(competitors: Competitors, effort: Effort) -> Times:
    for call in competitors.values():  # workers start, kernels load
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(effort.repeats):
        for name, call in competitors.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: np.array(seconds) for name, seconds in times.items()}


def _busy() -> str:
    """A note beside a speed-up that was measured on a busy machine."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return f"load {load:.1f} a core by others and us" if load > 1.3 else ""


def main() -> int:
    """Measure, print, save; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluators", description=__doc__)
    parser.add_argument("--rows", help=f"comma-separated, of: {', '.join(GROUPS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--out", type=Path, help="JSON file to add the results to")
    options = parser.parse_args()
    names = options.rows.split(",") if options.rows else list(GROUPS)
    unknown = set(names) - set(GROUPS)
    if unknown:
        parser.error(f"no rows named {', '.join(unknown)}; known: {', '.join(GROUPS)}")
    groups: dict[str, list[Row]] = {}
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        groups[name] = GROUPS[name](QUICK if options.quick else FULL)
    rows = [row for group in groups.values() for row in group]
    show(rows, "gensmooth's evaluators")
    if options.out:
        command = " ".join(["python -m benchmarks.evaluators", *sys.argv[1:]])
        save(options.out, groups, command, PACKAGES)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
