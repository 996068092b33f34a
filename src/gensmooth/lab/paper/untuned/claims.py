"""Our claims about the pilot, which is not in the paper.

A run is scored at its end; one that diverged has +∞. So has a method for which every spacing and
learning rate of the grid diverges on some tuning seed. The best of the grid is never picked: the
pilot is compared with each of the six methods, and must be shown to be better than all of them.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import AllOf, Case, Measure, Scores, Sentence, better
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.dfo.study import GRID as BENCHMARK
from gensmooth.lab.paper.dfo.study import OBJECTIVES
from gensmooth.lab.paper.dfo.study import SETTINGS as BENCHMARK_SETTINGS
from gensmooth.lab.paper.linreg.scores import SETTINGS as REGRESSION_SETTINGS
from gensmooth.lab.paper.linreg.study import GRID as REGRESSION
from gensmooth.lab.report.style import method_title
from gensmooth.lab.report.tables import Cell, ClaimRow, Table

PILOT = "pilot"
LINEAR = "regression"  # beside the names of the noisy objectives
KEYS = ("objective", "dim", "num_directions", "num_samples")

_PLACE = "Not in the paper"
_FINAL = Measure("final objective")
_LOSS = Measure("final test loss")
_NEVER_ABOVE = 1.15


class Where(NamedTuple):
    """A setting of either study."""

    objective: str
    dim: int
    num_directions: int
    num_samples: int

    def words(self) -> str:
        """Return the setting in words, as in the table of hyperparameters."""
        grid = REGRESSION if self.objective == LINEAR else BENCHMARK
        return grid.where(self._asdict())


NOISY = [Where(name, d, L, 1) for name, (d, L) in product(OBJECTIVES, BENCHMARK_SETTINGS)]
LINEAR_SETTINGS = [Where(LINEAR, 100, L, N) for L, N in REGRESSION_SETTINGS]


def where_of(config: Mapping[str, Any]) -> Where:
    """Return the setting of a run of either study."""
    return Where(
        config.get("objective", LINEAR),
        config["dim"],
        config["num_directions"],
        config.get("num_samples", 1),
    )


def score(records: Sequence[RunRecord]) -> Scores:
    """Return the numbers of each run that the claims use."""
    return Scores([_row(record) for record in records])


def _row(record: RunRecord) -> dict[str, Any]:
    config, where = record.config, where_of(record.config)
    row = {**where._asdict(), "method": config["method"], "seed": config["seed"]}
    row["final"] = record.final
    if config["method"] == PILOT and where.objective != LINEAR:
        from gensmooth.lab.paper.dfo import model

        row["start"] = model.starting_value(where.objective, dim=where.dim, seed=config["seed"])
    return row


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:
    """Judge every claim that these runs can decide."""
    have = {Where(*setting) for setting in scores.values(*KEYS)}
    rows: list[ClaimRow] = []
    if have & set(NOISY):
        rows += _about_noise(scores, cells)
    if have & set(LINEAR_SETTINGS):
        rows += _about_regression(scores, cells)
    return rows


def _about_noise(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:
    cases = _cases(scores, cells, NOISY)
    cigar = [where for where in NOISY if where.objective == "cigar"]
    return [
        better(
            Sentence(
                "untuned-benchmark-most",
                _PLACE,
                "On the noisy benchmark the pilot, untuned, ends below best-of-grid of all six "
                "methods in at least 10 of the 12 settings.",
            ),
            cases,
            _FINAL,
            how=10,
        ),
        better(
            Sentence(
                "untuned-benchmark-all",
                _PLACE,
                "On the noisy benchmark it ends below best-of-grid of all six methods in every "
                "setting.",
            ),
            cases,
            _FINAL,
        ),
        better(
            Sentence(
                "untuned-cigar",
                _PLACE,
                "On cigar, where hardly any choice of the grid survives, the pilot falls to less "
                "than a hundredth of its start.",
            ),
            [
                Case(where.words(), *(_sample(scores, where, PILOT, n) for n in ("final", "start")))
                for where in cigar
            ],
            _FINAL,
            by=100.0,
        ),
    ]


def _about_regression(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:
    cases = _cases(scores, cells, LINEAR_SETTINGS)
    return [
        better(
            Sentence(
                "untuned-regression-most",
                _PLACE,
                "On linear regression the pilot, untuned, ends below best-of-grid of all six "
                "methods in at least 6 of the 9 settings.",
            ),
            cases,
            _LOSS,
            how=6,
        ),
        better(
            Sentence(
                "untuned-regression-all",
                _PLACE,
                "On linear regression it ends below best-of-grid of all six methods in every "
                "setting.",
            ),
            cases,
            _LOSS,
        ),
        better(
            Sentence(
                "untuned-regression-never-above",
                _PLACE,
                f"On linear regression it is in no setting above {_NEVER_ABOVE} times "
                "best-of-grid.",
            ),
            cases,
            _LOSS,
            by=1 / _NEVER_ABOVE,
        ),
    ]


def _cases(scores: Scores, cells: Sequence[Cell], places: Sequence[Where]) -> list[AllOf]:
    lost = {(c.setting, c.method) for c in cells if c.chosen is None and c.score == math.inf}

    def against(where: Where, method: str) -> Case:
        ours, theirs = (_sample(scores, where, name) for name in (PILOT, method))
        if theirs is None and ours is not None and (where.words(), method) in lost:
            theirs = [math.inf] * len(ours)
        return Case(f"{where.words()}, against {method_title(method)}", ours, theirs)

    return [AllOf([against(where, method) for method in paper.METHODS]) for where in places]


def _sample(scores: Scores, where: Where, method: str, name: str = "final") -> list[float] | None:
    return scores.sample(name, method=method, **where._asdict())


def tables(scores: Scores) -> list[Table]:
    """Final values, settings by methods, and the pilot's ratio to the best of them."""
    groups = (
        ("benchmark", "Noisy benchmark: the objective at the end", NOISY),
        ("regression", "Linear regression: the test loss at the end", LINEAR_SETTINGS),
    )
    have = {Where(*setting) for setting in scores.values(*KEYS)}
    made: list[Table] = []
    for name, title, known in groups:
        linear = known is LINEAR_SETTINGS
        places = [where for where in known if where in have]
        places += sorted(w for w in have - set(known) if (w.objective == LINEAR) == linear)
        if places:
            made.append(_table(scores, f"untuned-{name}", title, places))
    return made


def _table(scores: Scores, name: str, title: str, places: Sequence[Where]) -> Table:
    methods = [m for m in paper.METHODS if any(row["method"] == m for row in scores.rows)]
    rows: list[list[Any]] = []
    for where in places:
        best = best_of_grid(scores, where)
        ours = _sample(scores, where, PILOT)
        ratio: Any = ""
        if best is not None and ours is not None:
            theirs = _sample(scores, where, best) or []
            ratio = float(f"{math.exp(_log_mean(ours) - _log_mean(theirs)):.3g}")
        samples = [_sample(scores, where, method) for method in (PILOT, *methods)]
        rows.append(
            [
                where.words(),
                *(_shown(sample) for sample in samples),
                "" if best is None else method_title(best),
                ratio,
            ]
        )
    return Table(
        name,
        title,
        ["Setting", *(method_title(m) for m in (PILOT, *methods)), "Best of the grid", "Ratio"],
        rows,
        note="Mean ± one standard deviation over seeds; the best of the grid by the geometric mean "
        "of these runs, and the ratio of the pilot's geometric mean to it.",
    )


def best_of_grid(scores: Scores, where: Where) -> str | None:
    """Return the method with the lowest geometric mean in a setting; ``None`` if none is finite."""
    means = {
        method: _log_mean(sample)
        for method in dict.fromkeys(row["method"] for row in scores.rows)
        if method != PILOT and (sample := _sample(scores, where, method)) is not None
    }
    best = min(means, key=lambda method: means[method], default=None)
    return best if best is not None and math.isfinite(means[best]) else None


def _log_mean(sample: Sequence[float]) -> float:
    with np.errstate(divide="ignore"):
        return float(np.mean(np.log(np.asarray(sample, np.float64))))


def _shown(sample: Sequence[float] | None) -> str:
    if sample is None:
        return "diverges"
    lost = sum(math.isinf(value) for value in sample)
    if lost:
        return f"{lost} of {len(sample)} diverged"
    spread = f" ± {np.std(sample, ddof=1):.2g}" if len(sample) > 1 else ""
    return f"{np.mean(sample):.4g}{spread}"
