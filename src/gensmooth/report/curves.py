"""From records to curves: the mean and the deviation over seeds, at every round."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.report.style import method_order
from gensmooth.studies.spec import Record

Setting = tuple[Any, ...]
Floats = NDArray[np.float64]

_HUGE = 1e150  # the square of anything smaller is finite


class Band(NamedTuple):
    """A series over seeds, one entry a round.

    Attributes:
        mean: The mean.
        sd: The standard deviation (with n - 1); NaN where there is one seed.
        n: How many seeds.
    """

    mean: Floats
    sd: Floats
    n: NDArray[np.int64]


class Curve(NamedTuple):
    """One method in one setting.

    Attributes:
        setting: The values of the setting's keys.
        method: The method's name.
        bands: The series by name.
        iterations: Iterations a round.
        num_directions: L.
        runs: How many runs there were.
        left_out: How many of them diverged, and are in no mean.
    """

    setting: Setting
    method: str
    bands: Mapping[str, Band]
    iterations: int
    num_directions: int
    runs: int
    left_out: int

    @property
    def n(self) -> int:
        """How many runs are in the means."""
        return self.runs - self.left_out


def curves(records: Sequence[Record], keys: Sequence[str], *, series: Sequence[str]) -> list[Curve]:
    """Group records by setting and method, and average each group over seeds.

    A run that diverged, or has a number that is not finite, is left out as a whole, so that every
    round's mean is over the same runs.

    Args:
        records: The runs.
        keys: The keys of a configuration that make the setting, the slowest first. Numbers are
            sorted; words stay in the order in which they come.
        series: The series to average; a record may lack some.
    """
    groups: dict[tuple[Setting, str], list[Record]] = {}
    for record in records:
        setting = tuple(record.config[key] for key in keys)
        groups.setdefault((setting, str(record.config["method"])), []).append(record)
    seen: list[dict[Any, int]] = [{} for _ in keys]
    for setting, _ in groups:
        for column, value in zip(seen, setting, strict=True):
            column.setdefault(value, len(column))

    def order(item: tuple[Setting, str]) -> Any:
        setting, method = item
        return [
            (0.0, column[value]) if isinstance(value, str) else (float(value), 0)
            for column, value in zip(seen, setting, strict=True)
        ], method_order(method)

    return [_curve(key[0], key[1], groups[key], series) for key in sorted(groups, key=order)]


def diverged(record: Record) -> bool:
    """Whether a run must not enter a mean: it says so, or a number is as good as infinite."""
    return record.diverged or not all(abs(v) < _HUGE for s in record.series.values() for v in s)


def _curve(
    setting: Setting, method: str, records: Sequence[Record], series: Sequence[str]
) -> Curve:
    kept = [record for record in records if not diverged(record)]
    found = {name: [r.series[name] for r in kept if r.series.get(name)] for name in series}
    config = records[0].config
    return Curve(
        setting=setting,
        method=method,
        bands={name: band(rows) for name, rows in found.items() if rows},
        iterations=int(config.get("iterations", 1)),
        num_directions=int(config.get("num_directions", 1)),
        runs=len(records),
        left_out=len(records) - len(kept),
    )


def band(rows: Sequence[Sequence[float]]) -> Band:
    """Mean, deviation and number at every round; rows may differ in length.

    >>> band([[1, 2], [3, 4, 9]])
    Band(mean=array([2., 3., 9.]), sd=array([1.41421356, 1.41421356, nan]), n=array([2, 2, 1]))
    """
    length = max(len(row) for row in rows)
    table = np.full((len(rows), length), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    there = np.isfinite(table)
    n = there.sum(axis=0)
    mean = np.where(there, table, 0.0).sum(axis=0) / n
    spread = np.where(there, table - mean, 0.0)
    sd = np.full(length, np.nan)
    many = n > 1
    sd[many] = np.sqrt((spread**2).sum(axis=0)[many] / (n[many] - 1))
    return Band(mean, sd, n)


def number_of_runs(found: Sequence[Curve]) -> str:
    """How many seeds are behind some curves, in words.

    >>> number_of_runs([])
    'n = 0'
    """
    counts = sorted({curve.n for curve in found}) or [0]
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
