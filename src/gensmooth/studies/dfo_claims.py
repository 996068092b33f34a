"""What the paper says of the noisy DFO benchmark, sentence by sentence."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np

from gensmooth.methods import METHODS
from gensmooth.studies import paper
from gensmooth.studies.claims import Contrast, lower, same
from gensmooth.studies.spec import Cell, ClaimRow, Record, Verdict

_PLACE = "Section 5.4, fig:benchmark"
_SHOWN = ("sphere", "rosenbrock", "hm")  # cigar is not in the paper's figure
_FEW, _MANY = ((10, 1), (100, 10)), ((100, 100),)  # L < d, L = d
_SHRUNK = ("gs-shrinkage", "bes-shrinkage")
_MARGIN = 1.25

Where = tuple[str, int, int]  # (objective, d, L)
Score = dict[tuple[str, Where], list[float]]  # (method, where) -> one number a seed


def judge(records: Sequence[Record], cells: Sequence[Cell]) -> list[ClaimRow]:
    """Every sentence that these records can speak to."""
    final = _scores(records, lambda r: r.final)
    early = _scores(records, _early)
    have = {where for _, where in final if all((name, where) in final for name in paper.METHODS)}
    few = [(o, *s) for o, s in product(_SHOWN, _FEW) if (o, *s) in have]
    many = [(o, *s) for o, s in product(_SHOWN, _MANY) if (o, *s) in have]
    rows: list[ClaimRow] = []
    if few and many:
        rows += _about_best(final, [*few, *many])
        rows += _about_few(early, final, few)
        rows += _about_many(final, many)
        rows.append(_same_at_one(records))
    cigar = [cell for cell in cells if cell.setting.startswith("cigar")]
    if cigar:
        rows.append(_about_cigar(records, cigar))
    return rows


def _about_best(final: Score, places: Sequence[Where]) -> list[ClaimRow]:
    return [
        lower(
            "dfo-plain-best",
            _PLACE,
            "On sphere, rosenbrock and hm, GS and BeS end lower than both shrinkage methods.",
            _contrasts(final, places, product(("gs", "bes"), _SHRUNK)),
            "final objective",
        ),
        lower(
            "dfo-guided-behind",
            _PLACE,
            "On sphere, rosenbrock and hm, GS, BeS and Orthogonal ES end lower than Guided ES.",
            _contrasts(final, places, [(m, "guided-es") for m in ("gs", "bes", "orthogonal-es")]),
            "final objective",
        ),
    ]


def _about_few(early: Score, final: Score, places: Sequence[Where]) -> list[ClaimRow]:
    rivals = ("gs", "orthogonal-es")
    return [
        lower(
            "dfo-few-bes-early",
            _PLACE,
            "With L < d, BeS is often ahead of GS and Orthogonal ES at the beginning.",
            _contrasts(early, places, [("bes", rival) for rival in rivals]),
            "objective, geometric mean of the first tenth of the rounds",
            share=0.5,
        ),
        lower(
            "dfo-few-bes-late",
            _PLACE,
            "With L < d, GS and Orthogonal ES have overtaken BeS at the end.",
            _contrasts(final, places, [(rival, "bes") for rival in rivals]),
            "final objective",
        ),
    ]


def _about_many(final: Score, places: Sequence[Where]) -> list[ClaimRow]:
    return [
        same(
            "dfo-many-gs-bes",
            _PLACE,
            "With L = d, GS and BeS do not differ.",
            _contrasts(final, places, [("bes", "gs")]),
            "final objective",
            margin=_MARGIN,
        ),
        lower(
            "dfo-many-orthogonal-behind",
            _PLACE,
            "With L = d, GS and BeS end lower than Orthogonal ES.",
            _contrasts(final, places, [("gs", "orthogonal-es"), ("bes", "orthogonal-es")]),
            "final objective",
        ),
        same(
            "dfo-many-orthogonal-shrinkage",
            _PLACE,
            "With L = d, Orthogonal ES behaves like the shrinkage methods.",
            _contrasts(final, places, [("orthogonal-es", name) for name in _SHRUNK]),
            "final objective",
            margin=_MARGIN,
        ),
    ]


def _same_at_one(records: Sequence[Record]) -> ClaimRow:
    """With one direction Orthogonal ES is GS: same seed, same numbers."""
    runs = {
        (r.config["method"], r.config["objective"], r.config["seed"], r.config["spacing"],
         r.config["learning_rate"]): r.series
        for r in records
        if r.config["num_directions"] == 1
    }  # fmt: skip
    pairs = [
        (series, runs["orthogonal-es", *key[1:]])
        for key, series in runs.items()
        if key[0] == "gs" and ("orthogonal-es", *key[1:]) in runs
    ]
    equal = sum(
        all(np.allclose(a[name], b[name], rtol=1e-9) for name in a) and a.keys() == b.keys()
        for a, b in pairs
    )
    verdict: Verdict = "undecided"
    if pairs:
        verdict = "holds" if equal == len(pairs) else "does not hold"
    return ClaimRow(
        "dfo-one-direction",
        "Caption of fig:benchmark",
        "With L = 1, GS is the same as Orthogonal ES.",
        "runs with equal seed and hyperparameters whose objectives agree to 1e-9 in every round",
        f"{equal} of {len(pairs)} pairs of runs",
        verdict,
    )


def _about_cigar(records: Sequence[Record], cells: Sequence[Cell]) -> ClaimRow:
    """A case counts as solved when the objective falls to a hundredth of its start."""
    from gensmooth.problems import noisy

    falls: dict[tuple[str, int, int], list[float]] = {}
    for record in records:
        c = record.config
        if c["objective"] == "cigar":
            start = noisy.starting_value("cigar", dim=c["dim"], seed=c["seed"])
            key = (c["method"], c["dim"], c["num_directions"])
            falls.setdefault(key, []).append(record.final / start)
    means = {key: float(np.mean(found)) for key, found in falls.items()}
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


def _early(record: Record) -> float:
    """The geometric mean of the first tenth of the rounds."""
    series = record.series.get("objective", ())
    count = max(1, record.config["rounds"] // 10)
    if len(series) < count:
        return math.inf
    return float(np.exp(np.mean(np.log(np.asarray(series[:count])))))


def _scores(records: Sequence[Record], score: Callable[[Record], float]) -> Score:
    found: Score = {}
    for record in sorted(records, key=lambda r: r.config["seed"]):
        c = record.config
        where = (c["objective"], c["dim"], c["num_directions"])
        found.setdefault((c["method"], where), []).append(score(record))
    return found


def _contrasts(
    scores: Score, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
) -> list[Contrast]:
    return [
        Contrast(
            f"{METHODS[a].title} vs {METHODS[b].title} ({where[0]}, d={where[1]}, L={where[2]})",
            scores[a, where],
            scores[b, where],
        )
        for where, (a, b) in product(places, list(pairs))
    ]
