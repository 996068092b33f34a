"""The paper's claims about linear regression.

Runs of different methods visit different parameters, on which the MSE depends. Claims about curves
compare the measurements along each method's own run. Claims about estimators are judged at equal
parameters: by the exact formula, for both estimators, at the parameters that a run visited.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions import METHODS, named
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import (
    Case,
    Measure,
    Sample,
    Scores,
    Sentence,
    alike,
    better,
    counted,
)
from gensmooth.lab.report.tables import Cell, ClaimRow

_MAIN, _APPENDIX = "Section 5.1, fig:linreg", "Appendix, fig:linregmse_full, fig:linregloss_full"
_THEORY = "Section 4.3, Appendix sec:gsvsbsshrinkage"
_EARLY, _LATE = slice(0, 5), slice(-5, None)
_PLAIN, _SHRUNK = ("gs", "bes"), ("gs-shrinkage", "bes-shrinkage")
_SETTINGS = tuple(product((2, 6, 20), (5, 15, 50)))

_MSE = Measure("measured gradient MSE, geometric mean over the rounds")
_LOSS = Measure("final test loss")

Where = tuple[int, int]  # (L, N)
Floats = NDArray[np.float64]


# --- what is used of a run -----------------------------------------------------------------------


def score(records: Sequence[RunRecord]) -> Scores:
    """The numbers of each run that the claims use."""
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
    """The exact MSE of several estimators at the parameters that this run visited."""
    name = record.config["method"]
    pair = next((pair for pair in (_PLAIN, _SHRUNK) if name in pair), None)
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
        """The exact MSE of a method at these parameters, with the run's spacing."""
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
    predicted, given = (np.asarray(record.series[name]) for name in ("predicted", "lemma"))
    noise = (predicted - given - exact.spacing) / (exact.noise - paper.noise)
    return _Visited((given - paper.noise * noise) / paper.gradient, noise)


def _mean(values: Floats) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


# --- the sentences -------------------------------------------------------------------------------


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:  # noqa: ARG001
    """Judge every claim that these runs can decide."""
    have = set(scores.values("method", "num_directions", "num_samples"))
    settings = [s for s in _SETTINGS if all((m, *s) in have for m in (*_PLAIN, *_SHRUNK))]
    if not settings:
        return []
    return [
        *_about_curves(scores, settings),
        *_about_estimators(scores, settings),
        *_about_loss(scores, settings),
        *_about_theory(scores, settings),
    ]


def _about_curves(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """The MSE along each method's own run."""
    gs_bes = _cases(scores, "mse", settings, [("bes", "gs")])
    shrunk = _cases(scores, "mse", settings, [("bes-shrinkage", "gs-shrinkage")])
    margin = "a tenth, beside the factor of 16 to 700 between plain and shrunk methods"
    return [
        better(
            Sentence(
                "linreg-mse-smaller",
                _APPENDIX,
                "In all nine settings both shrinkage methods have a smaller gradient MSE than GS "
                "and BeS.",
            ),
            _cases(scores, "mse", settings, product(_SHRUNK, _PLAIN)),
            _MSE,
        ),
        alike(
            Sentence(
                "linreg-mse-gs-bes",
                _MAIN,
                "The gradient MSE of GS and of BeS do not differ by more than a tenth.",
            ),
            gs_bes,
            _MSE,
            margin=1.1,
            why=margin,
        ),
        alike(
            Sentence(
                "linreg-mse-gs-bes-literal",
                _MAIN,
                "The gradient MSE of GS and of BeS are not statistically significantly different.",
            ),
            gs_bes,
            _MSE,
            margin=1.0,
        ),
        alike(
            Sentence(
                "linreg-mse-shrinkages",
                _MAIN,
                "The gradient MSE of GS-shrinkage and of BeS-shrinkage do not differ by more than "
                "a tenth.",
            ),
            shrunk,
            _MSE,
            margin=1.1,
            why=margin,
        ),
        alike(
            Sentence(
                "linreg-mse-shrinkages-literal",
                _MAIN,
                "The gradient MSE of GS-shrinkage and of BeS-shrinkage are not statistically "
                "significantly different.",
            ),
            shrunk,
            _MSE,
            margin=1.0,
        ),
    ]


def _about_estimators(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Estimators at equal parameters: those that the runs of either method visited."""
    exact = "exact gradient MSE at equal parameters (those that the runs visited)"

    def cases(part: str, a: str, b: str) -> list[Case]:
        return [
            Case(
                f"{METHODS[a].title} vs {METHODS[b].title} where {METHODS[run].title} went "
                f"({_words(where)})",
                _sample(scores, f"{part}_{a}", run, where),
                _sample(scores, f"{part}_{b}", run, where),
            )
            for where, run in product(settings, (a, b))
        ]

    return [
        better(
            Sentence(
                "linreg-mse-bes-below",
                "Section 4.2",
                "The gradient MSE of BeS is smaller than that of GS.",
            ),
            cases("exact", "bes", "gs"),
            Measure(exact),
        ),
        better(
            Sentence(
                "linreg-mse-early",
                _THEORY,
                "At the beginning BeS-shrinkage has a smaller gradient MSE than GS-shrinkage (if "
                "‖∇F‖² is large beside tr Var[∇f]/N, which it is nowhere here: 200 beside 490 to "
                "4900).",
            ),
            cases("early", "bes-shrinkage", "gs-shrinkage"),
            Measure(f"{exact} in the first five rounds"),
        ),
        better(
            Sentence(
                "linreg-mse-late",
                _THEORY,
                "At the end GS-shrinkage has a smaller gradient MSE than BeS-shrinkage.",
            ),
            cases("late", "gs-shrinkage", "bes-shrinkage"),
            Measure(f"{exact} in the last five rounds"),
        ),
        better(
            Sentence(
                "linreg-mse-largest-l",
                "Section 5.2",
                "Given a budget of 2LN evaluations, the largest L (with N = 1) minimises the "
                "MSE. (By the Lemma, in which each direction has samples of its own; here all "
                "directions share them.)",
            ),
            [
                Case(
                    f"{METHODS[name].title}, L={L * N}, N=1 vs L={L}, N={N}",
                    _sample(scores, "exact_all_directions", name, (L, N)),
                    _sample(scores, "exact", name, (L, N)),
                )
                for (L, N), name in product(settings, _PLAIN)
            ],
            Measure(exact),
        ),
    ]


def _about_loss(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """The test loss, in the paper's settings, whether they have been run or not."""
    loss = {
        (name, where): _sample(scores, "loss", name, where)
        for name, where in product((*_PLAIN, *_SHRUNK), settings)
    }
    wins = [
        f"({_words(where)})"
        for where in settings
        if max(np.mean(loss[m, where] or ()) for m in _SHRUNK)
        < min(np.mean(loss[m, where] or ()) for m in _PLAIN)
    ]
    return [
        better(
            Sentence(
                "linreg-loss-2-5",
                _MAIN,
                "At L=2, N=5 GS and BeS appear to reach a lower test loss than the shrinkage "
                "methods.",
            ),
            _cases(scores, "loss", [(2, 5)], product(_PLAIN, _SHRUNK)),
            _LOSS,
        ),
        _about_spread(scores),
        better(
            Sentence(
                "linreg-loss-n15",
                _MAIN,
                "At (L, N) = (2, 15) and (6, 15) both shrinkage methods reach a significantly "
                "lower test loss than GS and BeS.",
            ),
            _cases(scores, "loss", [(2, 15), (6, 15)], product(_SHRUNK, _PLAIN)),
            _LOSS,
        ),
        better(
            Sentence(
                "linreg-loss-2-15-bes",
                _MAIN,
                "At L=2, N=15 BeS-shrinkage appears slightly better than GS-shrinkage.",
            ),
            _cases(scores, "loss", [(2, 15)], [("bes-shrinkage", "gs-shrinkage")]),
            _LOSS,
        ),
        alike(
            Sentence(
                "linreg-loss-6-15-same",
                _MAIN,
                "At L=6, N=15 the two shrinkage methods are competitive with each other.",
            ),
            _cases(scores, "loss", [(6, 15)], [("bes-shrinkage", "gs-shrinkage")]),
            _LOSS,
            margin=1.1,
            why="the sentence before it calls a difference of an eighth significant",
        ),
        counted(
            Sentence(
                "linreg-loss-5-of-9",
                _APPENDIX,
                "In five of the nine settings both shrinkage methods end with a lower test loss "
                "than GS and BeS.",
            ),
            found=wins,
            wanted=5,
            of=len(settings),
            what="settings in which the larger mean final loss of the two shrinkage methods is "
            "below the smaller of GS and BeS, counted literally",
        ),
        _about_few_points(scores),
    ]


def _about_spread(scores: Scores) -> ClaimRow:
    """Brown and Forsythe's test, paired: distances from the median, in logarithms."""

    def distances(name: str, where: Where) -> Sample:
        sample = _sample(scores, "loss", name, where)
        if sample is None:
            return None
        middle = math.log(float(np.median(sample)))
        return [abs(math.log(value) - middle) if value < math.inf else value for value in sample]

    others = [where for where in _SETTINGS if where != (2, 5)]
    return better(
        Sentence(
            "linreg-loss-2-5-spread",
            _MAIN,
            "At L=2, N=5 standard errors are large: mostly larger than in the other settings.",
        ),
        [
            Case(
                f"{METHODS[name].title}, (2, 5) vs ({_words(where)})",
                distances(name, (2, 5)),
                distances(name, where),
            )
            for name, where in product((*_PLAIN, *_SHRUNK), others)
        ],
        Measure(
            "distance of a run's logarithmic final test loss from the median of its setting",
            better="higher",
            ratio=False,
            unit="of the loss",
        ),
        how="most",
    )


def _about_few_points(scores: Scores) -> ClaimRow:
    """The gain over GS with few data points, against that with many."""
    ours = ("bes", *_SHRUNK)

    def gain(name: str, where: Where) -> Sample:
        a, b = _sample(scores, "loss", name, where), _sample(scores, "loss", "gs", where)
        if a is None or b is None:
            return None
        return [_ratio(x, y) for x, y in zip(a, b, strict=True)]

    return better(
        Sentence(
            "linreg-loss-few-points",
            "Section 5.5",
            "The gain over GS in test loss is larger with few data points per iteration: at N = 5 "
            "than at N = 50.",
        ),
        [
            Case(f"{METHODS[name].title}, L={L}", gain(name, (L, 5)), gain(name, (L, 50)))
            for L, name in product((2, 6, 20), ours)
        ],
        Measure("final test loss over that of GS, at N = 5 against N = 50"),
        how="often",
    )


def _about_theory(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Whether the measured error is the predicted one, cell by cell."""
    rows: list[ClaimRow] = []
    for name, title, place, claim in (
        (
            "over_exact",
            "exact",
            "our docs/theory.md",
            "The measured gradient MSE is the one that our exact formula (shared samples, finite "
            "spacing) predicts. (Our sentence, not the paper's.)",
        ),
        (
            "over_lemma",
            "lemma",
            "Lemma 4.2",
            "The measured gradient MSE is the one that the Lemma gives, although this experiment "
            "shares samples between directions.",
        ),
    ):
        cases: list[Case] = []
        for where, run in product(settings, (*_PLAIN, *_SHRUNK)):
            sample = _sample(scores, name, run, where)
            one = None if sample is None else [1.0] * len(sample)
            cases.append(Case(f"{METHODS[run].title} ({_words(where)})", sample, one))
        rows.append(
            alike(
                Sentence(f"linreg-theory-{title}", place, claim),
                cases,
                Measure("measured over predicted MSE, mean over the rounds of a run"),
                margin=1.05,
                why="the Monte Carlo error of a cell with 20 seeds is about 1 %",
            )
        )
    return rows


def _ratio(a: float, b: float) -> float:
    """The ratio of two losses, either of which may be infinite."""
    return math.inf if math.isinf(a) else a / b


def _words(where: Where) -> str:
    return f"L={where[0]}, N={where[1]}"


def _sample(scores: Scores, name: str, run: str, where: Where) -> list[float] | None:
    return scores.sample(name, method=run, num_directions=where[0], num_samples=where[1])


def _cases(
    scores: Scores, name: str, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
) -> list[Case]:
    return [
        Case(
            f"{METHODS[a].title} vs {METHODS[b].title} ({_words(where)})",
            _sample(scores, name, a, where),
            _sample(scores, name, b, where),
        )
        for where, (a, b) in product(places, list(pairs))
    ]
