"""The constants of the model in ``docs/scale.md``, measured on this machine."""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gensmooth as gs
from benchmarks.record import Row
from benchmarks.timing import Effort, Spread, spread
from gensmooth.evaluators import Objective, Processes, Ray

BYTES = "processes: bytes per evaluation, both ways"
DISPATCH = "processes: the parent's time for an evaluation sent by itself"
BROADCAST = "processes: time to share x, for a byte"
RAY_BYTES = "Ray: bytes per evaluation, both ways"
RAY_DISPATCH = "Ray: the driver's time for an evaluation sent by itself"
RAY_BROADCAST = "Ray: time to put x into the store, for a byte"
PERTURB = "making a point, for an entry"
COMBINE = "combining directions into an estimate, for an entry"
UPDATE = "the optimiser's step (Adam), for a parameter"

DIM = 1_000_000


def measure(effort: Effort) -> list[Row]:
    """Measure all constants; those of Ray only where it is installed."""
    rows = [*_processes(effort), *_arithmetic(effort)]
    return rows + (_ray(effort) if find_spec("ray") is not None else [])


def _first(x: NDArray[Any]) -> float:
    time.sleep(1e-3)  # so long that every evaluation is sent in a message of its own
    return float(x[0])


def _arithmetic(effort: Effort) -> list[Row]:
    search = gs.RandomSearch(gs.Bernoulli(), num_directions=8, spacing=0.1, optimizer=gs.adam(1e-3))
    state = search.init(np.zeros(DIM, np.float32), seed=0)
    batch = search.ask(state)
    weights = np.ones(8)
    change = np.ones(DIM, np.float32)
    entries = 8 * DIM
    return [
        _row(PERTURB, lambda: batch.point(3), effort, DIM),
        _row(COMBINE, lambda: batch.draw.combine(weights), effort, entries),
        _row(UPDATE, lambda: search.optimizer.update(change, state.kept, state.x), effort, DIM),
    ]


def _processes(effort: Effort) -> list[Row]:
    search = gs.RandomSearch(
        gs.Bernoulli(), num_directions=100, spacing=0.1, estimator=gs.Antithetic()
    )
    small = search.init(np.zeros(1000, np.float32), seed=0)
    large = search.init(np.zeros(10 * DIM, np.float32), seed=0)
    batch = search.ask(small)
    with Processes(2) as pool, pool.session(search, Objective(_first)) as session:
        while session.workers < 2:
            session.evaluate(small, batch)
        before = sum(pool.traffic)
        cpu = _cpu_times(lambda: session.evaluate(small, batch), effort)
        calls = len(cpu) + 1
        each = (sum(pool.traffic) - before) / (calls * len(batch))
        workers = pool._pool  # pyright: ignore
        assert workers is not None
        row = _row(BROADCAST, lambda: workers.publish(large.x, None), effort, large.x.nbytes)
    return [
        Row(BYTES, Spread(each, each, each), "bytes"),
        Row(DISPATCH, spread(cpu / len(batch) * 1e6), "µs"),
        row,
    ]


def _ray(effort: Effort) -> list[Row]:
    import ray

    search = gs.RandomSearch(
        gs.Bernoulli(), num_directions=100, spacing=0.1, estimator=gs.Antithetic()
    )
    state = search.init(np.zeros(1000, np.float32), seed=0)
    batch = search.ask(state)
    x = np.zeros(10 * DIM, np.float32)
    with Ray(num_workers=2, timeout=60) as actors:  # with a time-out, one evaluation a call
        with actors.session(search, Objective(_first)) as session:
            while session.workers < 2:
                session.evaluate(state, batch)
            idle = _loopback(lambda: time.sleep(2.0))
            begin = time.perf_counter()
            moved = _loopback(lambda: [session.evaluate(state, batch) for _ in range(10)])
            wall = time.perf_counter() - begin
            each = max(0.0, moved - idle * wall / 2.0) / (10 * len(batch))
            cpu = _cpu_times(lambda: session.evaluate(state, batch), effort)
        row = _row(RAY_BROADCAST, lambda: ray.put(x), effort, x.nbytes)  # pyright: ignore
    return [
        Row(RAY_BYTES, Spread(each, each, each), "bytes"),
        Row(RAY_DISPATCH, spread(cpu / len(batch) * 1e6), "µs"),
        row,
    ]


def _row(what: str, call: Callable[[], object], effort: Effort, entries: int) -> Row:
    return Row(what, spread(_cpu_times(call, effort) / entries * 1e9), "ns")


def _cpu_times(call: Callable[[], object], effort: Effort) -> NDArray[np.float64]:
    """CPU seconds of this process, which do not depend on other processes."""
    call()
    seconds: list[float] = []
    for _ in range(effort.repeats):
        begin = time.process_time()
        call()
        seconds.append(time.process_time() - begin)
    return np.array(seconds)


def _loopback(call: Callable[[], object]) -> float:
    """Bytes through the loopback interface during a call, in one direction; Ray uses no other."""

    def count() -> int:
        lines = Path("/proc/net/dev").read_text().splitlines()
        fields = next(line for line in lines if line.strip().startswith("lo:")).split(":")[1]
        return int(fields.split()[0])

    before = count()
    call()
    return count() - before
