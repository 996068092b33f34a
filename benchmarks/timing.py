"""Interleaved timing: every competitor runs once in each repeat, so a busy moment hits them all.

Times are CPU times of the process, which do not include other programs on the same core.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Competitors = Mapping[str, Callable[[], object]]
Times = dict[str, NDArray[np.float64]]


class Effort(NamedTuple):
    """How much time to spend: the number of repeats, and the seconds of one measurement."""

    repeats: int
    seconds: float


FULL = Effort(repeats=21, seconds=0.05)
QUICK = Effort(repeats=5, seconds=0.01)


class Spread(NamedTuple):
    """The median over the repeats, and the quartiles."""

    median: float
    low: float
    high: float


def interleave(competitors: Competitors, effort: Effort) -> Times:
    """The seconds of one call of each competitor, with an entry for each repeat."""
    loops = {name: _loops(call, effort.seconds) for name, call in competitors.items()}
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for repeat in range(effort.repeats):
            first = repeat % len(names)  # the competitors start in turn
            for name in names[first:] + names[:first]:
                times[name].append(_measure(competitors[name], loops[name]))
            gc.collect()
    finally:
        gc.enable()
    return {name: np.array(seconds) for name, seconds in times.items()}


def ratio(times: Times, ours: str, theirs: str) -> Spread:
    """Time of ``ours`` over time of ``theirs``, repeat by repeat."""
    return spread(times[ours] / times[theirs])


def spread(values: NDArray[np.float64]) -> Spread:
    """Median and quartiles."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return Spread(median, low, high)


def _loops(call: Callable[[], object], seconds: float) -> int:
    """How many calls take about ``seconds``, after two calls that compile and warm up."""
    call()
    call()
    loops = 1
    while (spent := _measure(call, loops) * loops) < seconds / 2:
        loops = (
            max(2 * loops, int(0.7 * loops * seconds / max(spent, 1e-9))) if spent else 8 * loops
        )
    return loops


def _measure(call: Callable[[], object], loops: int) -> float:
    start = time.process_time()
    for _ in range(loops):
        call()
    return (time.process_time() - start) / loops
