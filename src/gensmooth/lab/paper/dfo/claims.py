"""The paper's claims about the noisy DFO benchmark.

A run is scored by its final objective and by geometric means over rounds, without noise; a run
that diverged has +∞, the worst value.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import (
    Case,
    Measure,
    Scores,
    Sentence,
    alike,
    better,
    not_different,
    together,
)
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.report.tables import Cell, ClaimRow, Verdict

_PLACE = "Section 5.4, fig:benchmark"
_SHOWN = ("sphere", "rosenbrock", "hm")  # cigar is not in the paper's figure
_FEW, _MANY = ((10, 1), (100, 10)), ((100, 100),)  # L < d, L = d
_PLAIN, _SHRUNK = ("gs", "bes"), ("gs-shrinkage", "bes-shrinkage")
_MARGIN = 1.25
_WHY = "two seeds of one method differ by a factor of 1.1 to 1.25"

Where = tuple[str, int, int]  # (objective, d, L)

_FINAL = Measure("final objective")
_EARLY = Measure("objective, geometric mean of the first tenth of the rounds")


def score(records: Sequence[RunRecord]) -> Scores:
    """Return the numbers of each run that the claims use."""
    return Scores([_row(record) for record in records])


def _row(record: RunRecord) -> dict[str, object]:
    config = record.config
    series = record.series.get("objective", ())
    tenth = max(1, config["rounds"] // 10)
    whole = not record.diverged and len(series) == config["rounds"]
    row: dict[str, object] = {
        name: config[name] for name in ("objective", "dim", "num_directions", "method", "seed")
    }
    row |= {name: config[name] for name in ("spacing", "learning_rate") if name in config}
    row |= {
        "early": _geometric_mean(series[:tenth]) if len(series) >= tenth else math.inf,
        "whole": _geometric_mean(series) if whole else math.inf,
        "final": record.final,
    }
    if config["objective"] == "cigar":
        from gensmooth.lab.paper.dfo import model

        row["start"] = model.starting_value("cigar", dim=config["dim"], seed=config["seed"])
    return row


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:
    """Judge every claim that these runs can decide."""
    have = set(scores.values("objective", "dim", "num_directions", "method"))
    complete = [
        (objective, *setting)
        for objective, setting in product(_SHOWN, (*_FEW, *_MANY))
        if all((objective, *setting, name) in have for name in paper.METHODS)
    ]
    few = [where for where in complete if where[1:] in _FEW]
    many = [where for where in complete if where[1:] in _MANY]
    rows = _about_methods(scores, few, many) if few and many else []
    cigar = [cell for cell in cells if cell.setting.startswith("cigar")]
    if cigar:
        rows.append(_about_cigar(scores, cigar))
    return rows


def _about_methods(scores: Scores, few: Sequence[Where], many: Sequence[Where]) -> list[ClaimRow]:
    """Judge which methods are the best, and which behave alike; Orthogonal ES only if L < d."""
    best, rivals, orthogonal = (*_PLAIN, "orthogonal-es"), ("gs", "orthogonal-es"), "orthogonal-es"
    everywhere = [*few, *many]

    def lower(
        name: str, claim: str, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
    ) -> ClaimRow:
        cases = _cases(scores, "final", places, pairs)
        return better(Sentence(name, _PLACE, claim), cases, _FINAL)

    return [
        lower(
            "dfo-plain-best",
            "On sphere, rosenbrock and hm, GS and BeS end lower than both shrinkage methods.",
            everywhere,
            product(_PLAIN, _SHRUNK),
        ),
        lower(
            "dfo-few-orthogonal-best",
            "With L < d, Orthogonal ES is among the best too: it ends lower than both shrinkage "
            "methods.",
            few,
            product((orthogonal,), _SHRUNK),
        ),
        lower(
            "dfo-guided-behind",
            "On sphere, rosenbrock and hm, GS, BeS and Orthogonal ES end lower than Guided ES.",
            everywhere,
            product(best, ("guided-es",)),
        ),
        _about_objectives(scores, everywhere),
        better(
            Sentence(
                "dfo-few-bes-early",
                _PLACE,
                "With L < d, BeS is often ahead of GS and Orthogonal ES at the beginning.",
            ),
            _cases(scores, "early", few, [("bes", rival) for rival in rivals]),
            _EARLY,
            how="often",
        ),
        lower(
            "dfo-few-bes-late",
            "With L < d, GS and Orthogonal ES have overtaken BeS at the end.",
            few,
            [(rival, "bes") for rival in rivals],
        ),
        not_different(
            Sentence(
                "dfo-many-gs-bes",
                _PLACE,
                "With L = d, GS and BeS are not statistically significantly different.",
            ),
            _cases(scores, "final", many, [("bes", "gs")]),
            _FINAL,
            margin=_MARGIN,
            why=_WHY,
        ),
        lower(
            "dfo-many-orthogonal-behind",
            "With L = d, GS and BeS end lower than Orthogonal ES.",
            many,
            product(_PLAIN, (orthogonal,)),
        ),
        alike(
            Sentence(
                "dfo-many-orthogonal-shrinkage",
                _PLACE,
                "With L = d, Orthogonal ES behaves like the shrinkage methods: it ends within a "
                "quarter of them.",
            ),
            _cases(scores, "final", many, product((orthogonal,), _SHRUNK)),
            _FINAL,
            margin=_MARGIN,
            why=_WHY,
        ),
        _same_at_one(scores),
    ]


def _about_objectives(scores: Scores, settings: Sequence[Where]) -> ClaimRow:
    """Judge whether the same methods are the best on each objective, more often than not."""
    best, others = (*_PLAIN, "orthogonal-es"), (*_SHRUNK, "guided-es")
    return together(
        Sentence(
            "dfo-objectives",
            _PLACE,
            "The results are similar for all three objectives: GS, BeS and Orthogonal ES are the "
            "best (on each, shown in more than half of the comparisons).",
        ),
        {
            objective: better(
                Sentence("", "", ""),
                _cases(
                    scores,
                    "final",
                    [where for where in settings if where[0] == objective],
                    product(best, others),
                ),
                _FINAL,
                how="most",
            )
            for objective in _SHOWN
        },
    )


def _same_at_one(scores: Scores) -> ClaimRow:
    """With one direction, Orthogonal ES equals GS: the same seed gives the same numbers."""
    names = ("objective", "seed", "spacing", "learning_rate")
    runs = {
        (row["method"], *(row[name] for name in names)): [
            float(row[value]) for value in ("early", "whole", "final")
        ]
        for row in scores.rows
        if row["num_directions"] == 1
    }
    pairs = [
        (values, runs["orthogonal-es", *key[1:]])
        for key, values in runs.items()
        if key[0] == "gs" and ("orthogonal-es", *key[1:]) in runs
    ]
    equal = sum(np.allclose(a, b, rtol=1e-9, atol=0.0) for a, b in pairs)
    verdict: Verdict = "undecided"
    if pairs:
        verdict = "holds" if equal == len(pairs) else "does not hold"
    return ClaimRow(
        "dfo-one-direction",
        "Caption of fig:benchmark",
        "With L = 1, GS is the same as Orthogonal ES.",
        "runs with equal seed and hyperparameters whose objective agrees to 1e-9 at the end, and "
        "in its means over the first rounds and over all rounds",
        f"{equal} of {len(pairs)} pairs of runs",
        verdict,
    )


def _about_cigar(scores: Scores, cells: Sequence[Cell]) -> ClaimRow:
    """Judge cigar: solved means that the objective falls to a hundredth of its start."""
    falls: dict[tuple[str, int, int], list[float]] = {}
    for row in scores.rows:
        if row["objective"] == "cigar":
            key = (row["method"], row["dim"], row["num_directions"])
            falls.setdefault(key, []).append(row["final"] / row["start"])
    means = {key: float(np.mean(ratios)) for key, ratios in falls.items()}
    diverged = sum(cell.chosen is None for cell in cells)
    unsolved = diverged + sum(not fall < 0.01 for fall in means.values())
    evidence = (
        f"unsolved in {unsolved} of {len(cells)} cases, in {diverged} of which every spacing and "
        "learning rate of the grid diverges on some tuning seed"
    )
    if means:
        evidence += "; final / start of the others: " + "; ".join(
            f"{METHODS[name].title} (d={dim}, L={number}): {fall:.2g}"
            for (name, dim, number), fall in means.items()
        )
    return ClaimRow(
        "dfo-cigar",
        _PLACE,
        "In most cases no algorithm minimises cigar.",
        "mean of final over starting objective; unsolved when above 1/100 or when there is no "
        "choice that does not diverge; most = more than half",
        evidence,
        "holds" if 2 * unsolved > len(cells) else "does not hold",
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.asarray(values, np.float64)))))


def _cases(
    scores: Scores, name: str, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
) -> list[Case]:
    def sample(method: str, where: Where) -> list[float] | None:
        objective, dim, number = where
        return scores.sample(
            name, method=method, objective=objective, dim=dim, num_directions=number
        )

    return [
        Case(
            f"{METHODS[a].title} vs {METHODS[b].title} ({where[0]}, d={where[1]}, L={where[2]})",
            sample(a, where),
            sample(b, where),
        )
        for where, (a, b) in product(places, list(pairs))
    ]
