"""The numbers of a run of linear regression by which claims are judged, and the settings."""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions import named
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import Scores

SETTINGS = tuple(product((2, 6, 20), (5, 15, 50)))  # (L, N)
PLAIN, SHRUNK = ("gs", "bes"), ("gs-shrinkage", "bes-shrinkage")
_EARLY, _LATE = slice(0, 5), slice(-5, None)  # rounds

Where = tuple[int, int]  # (L, N)
Floats = NDArray[np.float64]


def words(where: Where) -> str:
    """Return a setting in words."""
    return f"L={where[0]}, N={where[1]}"


def score(records: Sequence[RunRecord]) -> Scores:
    """Return the numbers of each run that the claims use."""
    return Scores([_row(record) for record in records])


def _row(record: RunRecord) -> dict[str, object]:
    config = record.config
    names = ("num_directions", "num_samples", "method", "seed")
    row: dict[str, object] = {name: config[name] for name in names}
    row |= {name: config[name] for name in ("spacing", "learning_rate") if name in config}
    mse = np.asarray(record.series.get("mse", ()), np.float64)
    lost = record.diverged or not len(mse)
    row |= {"mse": math.inf if lost else _mean(mse), "loss": record.final}
    if lost or not {"predicted", "lemma"} <= record.series.keys():
        return row
    predicted, lemma = (np.asarray(record.series[name]) for name in ("predicted", "lemma"))
    row |= {
        "over_exact": float(np.mean(mse / predicted)),
        "over_lemma": float(np.mean(mse / lemma)),
    }
    return row | _at_equal_parameters(record)


def _at_equal_parameters(record: RunRecord) -> dict[str, float]:
    """Return the exact MSE of several estimators at the parameters that this run visited."""
    name = record.config["method"]
    pair = next((pair for pair in (PLAIN, SHRUNK) if name in pair), None)
    if pair is None:
        return {}
    visited = _visited(record)
    L, N = record.config["num_directions"], record.config["num_samples"]
    numbers = {
        "exact": _mean(visited.mse(record, name, L, N)),
        "exact_all_directions": _mean(visited.mse(record, name, L * N, 1)),
    }
    for rival in pair:
        mse = visited.mse(record, rival, L, N)
        numbers[f"exact_{rival}"] = _mean(mse)
        numbers[f"early_{rival}"] = _mean(mse[_EARLY])
        numbers[f"late_{rival}"] = _mean(mse[_LATE])
    return numbers


class _Visited(NamedTuple):
    """The means of ‖∇F‖² and of tr Var[∇f] over each round of a run."""

    gradient2: Floats
    noise: Floats

    def mse(self, record: RunRecord, name: str, num_directions: int, num_samples: int) -> Floats:
        """Return the exact MSE of a method at these parameters, with the run's spacing."""
        from gensmooth.lab.paper.linreg.mse import prediction

        g, n, c = prediction(
            named(name),
            dim=record.config["dim"],
            num_directions=num_directions,
            num_samples=num_samples,
            spacing=record.config["spacing"],
        )
        return g * self.gradient2 + n * self.noise + c


def _visited(record: RunRecord) -> _Visited:
    """Solve for the two means: the exact prediction and the Lemma's are linear in them.

    predicted = g ‖∇F‖² + n tr Var + c,  lemma = g ‖∇F‖² + n′ tr Var
    """
    from gensmooth.lab.paper.linreg.mse import lemma, prediction

    config = record.config
    family = named(config["method"])
    size = {name: config[name] for name in ("dim", "num_directions", "num_samples")}
    exact = prediction(family, spacing=config["spacing"], **size)
    paper = lemma(family, **size)
    predicted, by_lemma = (np.asarray(record.series[name]) for name in ("predicted", "lemma"))
    noise = (predicted - by_lemma - exact.spacing) / (exact.noise - paper.noise)
    return _Visited((by_lemma - paper.noise * noise) / paper.gradient, noise)


def _mean(values: Floats) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))
