"""What sentences about learning curves are judged by: one number a run, in comparable units.

Returns of different environments have different units, so each setting (environment, L, part) has
its own: the range of its mean curves, from the lowest to the highest point over methods and rounds.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gensmooth.studies.rl_coverage import Where, cells
from gensmooth.studies.rl_settings import Setting
from gensmooth.studies.spec import Record

Kind = Literal["beginning", "end", "whole", "jumps"]
Sample = list[float] | None  # one number a seed; None where a cell has not been run

# In the words of the claims table.
WORDS: dict[Kind, str] = {
    "beginning": "mean test return over the first tenth of the rounds",
    "end": "mean test return over the last tenth of the rounds",
    "whole": "mean test return over all rounds",
    "jumps": "mean absolute change of the test return from round to round",
}


class Scores:
    """The scores of whole cells."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._cells = cells(records)
        self._ranges: dict[Setting, float] = {}
        for setting in {setting for setting, _ in self._cells}:
            means = [
                np.mean(curves, axis=0)
                for (where, _), found in self._cells.items()
                if where == setting and (curves := _curves(found))
            ]
            spread = max((m.max() for m in means), default=0.0) - min(
                (m.min() for m in means), default=0.0
            )
            self._ranges[setting] = float(spread) or 1.0

    def sample(self, where: Where, kind: Kind, *, unit: Setting | None = None) -> Sample:
        """One score a seed, in units of a setting's range; −∞ for a run that diverged.

        Args:
            where: The cell.
            kind: What is scored.
            unit: The setting whose range is the unit; by default the cell's own.
        """
        found = self._cells.get(where)
        if found is None:
            return None
        unit = unit if unit is not None and unit in self._ranges else where[0]
        return [_score(record, kind) / self._ranges[unit] for record in found]

    def best(self, setting: Setting, methods: Sequence[str], kind: Kind) -> str | None:
        """The method with the highest mean score, if all have been run."""
        samples = {method: self.sample((setting, method), kind) for method in methods}
        means = {m: float(np.mean(s)) for m, s in samples.items() if s is not None}
        if len(means) < len(methods):
            return None
        return max(means, key=lambda method: means[method])


def _curves(records: Iterable[Record]) -> list[NDArray[np.float64]]:
    return [np.asarray(r.series["return"], np.float64) for r in records if not r.diverged]


def _score(record: Record, kind: Kind) -> float:
    if record.diverged:
        return math.inf if kind == "jumps" else -math.inf
    curve = np.asarray(record.series["return"], np.float64)
    tenth = max(1, len(curve) // 10)
    if kind == "jumps":
        return float(np.abs(np.diff(curve)).mean()) if len(curve) > 1 else 0.0
    part = {"beginning": curve[:tenth], "end": curve[-tenth:], "whole": curve}[kind]
    return float(part.mean())
