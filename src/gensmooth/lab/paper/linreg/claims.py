"""The paper's claims about the runs of linear regression.

Runs of different methods visit different parameters, on which the MSE depends. Claims about curves
compare the measurements along each method's own run. Claims about estimators are judged at equal
parameters: by the exact formula, for both estimators, at the parameters that a run visited.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.verdicts import (
    AllOf,
    Case,
    Measure,
    Sample,
    Scores,
    Sentence,
    alike,
    better,
    counted,
    not_different,
    readings,
)
from gensmooth.lab.paper.linreg.scores import PLAIN, SETTINGS, SHRUNK, Where, words
from gensmooth.lab.paper.linreg.theory_claims import about_theory, lemma_of
from gensmooth.lab.report.tables import Cell, ClaimRow

_MAIN, _APPENDIX = "Section 5.1, fig:linreg", "Appendix, fig:linregmse_full, fig:linregloss_full"
_THEORY = "Section 4.3, Appendix sec:gsvsbsshrinkage"

_MSE = Measure("measured gradient MSE, geometric mean over the rounds")
_LOSS = Measure("final test loss")
_PART = Sentence("", "", "")  # for a part of a sentence, which has no row of its own


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:  # noqa: ARG001
    """Judge every claim that these runs can decide."""
    available = set(scores.values("method", "num_directions", "num_samples"))
    settings = [s for s in SETTINGS if all((m, *s) in available for m in (*PLAIN, *SHRUNK))]
    if not settings:
        return []
    lemma, exact = _about_the_lemma(scores, settings)
    return [
        lemma,
        *_about_curves(scores, settings),
        *_about_estimators(scores, settings),
        *_about_loss(scores, settings),
        *about_theory(),
        exact,
    ]


def _about_curves(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Judge the MSE along each method's own run."""
    names = {"gs-bes": PLAIN, "shrinkages": SHRUNK}
    return [
        better(
            Sentence(
                "linreg-mse-smaller",
                _APPENDIX,
                "In all nine settings both shrinkage methods have a smaller gradient MSE than GS "
                "and BeS.",
            ),
            _cases(scores, "mse", settings, product(SHRUNK, PLAIN)),
            _MSE,
        ),
        *(
            not_different(
                Sentence(
                    f"linreg-mse-{name}",
                    _MAIN,
                    f"The gradient MSE of {METHODS[a].title} and of {METHODS[b].title} are not "
                    "statistically significantly different.",
                ),
                _cases(scores, "mse", settings, [(b, a)]),
                _MSE,
                margin=1.1,
                why="a tenth; between plain and shrunk methods, the factor is 16 to 700",
            )
            for name, (a, b) in names.items()
        ),
    ]


def _about_estimators(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Judge estimators at equal parameters: those that the runs of either method visited."""
    exact = "exact gradient MSE at equal parameters (those that the runs visited)"

    def cases(part: str, a: str, b: str) -> list[Case]:
        return [
            Case(
                f"{METHODS[a].title} vs {METHODS[b].title} where {METHODS[run].title} went "
                f"({words(where)})",
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
        _about_early_error(
            better(
                _PART,
                cases("early", "bes-shrinkage", "gs-shrinkage"),
                Measure(f"{exact} in the first five rounds"),
            )
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
        _about_largest_l(
            better(
                _PART,
                [
                    Case(
                        f"{METHODS[name].title}, L={L * N}, N=1 vs L={L}, N={N}",
                        _sample(scores, "exact_all_directions", name, (L, N)),
                        _sample(scores, "exact", name, (L, N)),
                    )
                    for (L, N), name in product(settings, PLAIN)
                ],
                Measure(exact),
            )
        ),
    ]


def _about_early_error(here: ClaimRow) -> ClaimRow:
    """Judge a sentence where its premise is met, and add the result where it is not."""
    much = 10.0  # ‖∇F‖² over tr Var/N
    smaller = [
        words(where)
        for where in SETTINGS
        if lemma_of("bes-shrinkage", where).at(much, where[1])
        < lemma_of("gs-shrinkage", where).at(much, where[1])
    ]
    met = counted(
        Sentence(
            "linreg-mse-early",
            _THEORY,
            "At the beginning, when ‖∇F‖² is large compared with tr Var[∇f]/N, BeS-shrinkage can "
            "have a smaller gradient MSE than GS-shrinkage.",
        ),
        found=smaller,
        of=len(SETTINGS),
        what=f"the Lemma at d = 100, where the premise is met (‖∇F‖² = {much:g} tr Var/N)",
    )
    unmet = "In this regression the premise is not met (200 against 490 to 4900)"
    return met._replace(
        statistic=f"{met.statistic}; in this regression: {here.statistic}",
        evidence=f"{met.evidence}. {unmet}: {here.evidence}",
    )


def _about_largest_l(shared: ClaimRow) -> ClaimRow:
    """Judge a sentence if each direction has its own samples (the Lemma), and if all share them."""
    sentence = Sentence(
        "linreg-mse-largest-l",
        "Section 5.2",
        "Given a budget of 2LN evaluations, the largest L (with N = 1) minimises the MSE.",
    )
    smaller = [
        f"{METHODS[name].title} ({words((L, N))})"
        for (L, N), name in product(SETTINGS, PLAIN)
        if lemma_of(name, (L * N, 1)).gradient < lemma_of(name, (L, N)).gradient
        and lemma_of(name, (L * N, 1)).noise <= lemma_of(name, (L, N)).noise * (1 + 1e-12)
    ]
    number = 2 * len(SETTINGS)
    own_samples = counted(
        sentence,
        found=smaller,
        of=number,
        what="both terms of the Lemma at d = 100, L N directions with N = 1 against L with N",
    )
    return readings(
        sentence,
        {
            "each direction has its own samples, as in RL, of which it is said": own_samples,
            "all directions share them, as in this regression": shared,
        },
    )


def _about_loss(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Judge the test loss in the settings that the paper names; some may not have been run."""

    def lower(
        name: str, claim: str, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
    ) -> ClaimRow:
        cases = _cases(scores, "loss", places, pairs)
        return better(Sentence(f"linreg-loss-{name}", _MAIN, claim), cases, _LOSS)

    return [
        lower(
            "2-5",
            "At L=2, N=5 GS and BeS appear to reach a lower test loss than the shrinkage methods.",
            [(2, 5)],
            product(PLAIN, SHRUNK),
        ),
        _about_spread(scores),
        lower(
            "n15",
            "At (L, N) = (2, 15) and (6, 15) both shrinkage methods reach a significantly lower "
            "test loss than GS and BeS.",
            [(2, 15), (6, 15)],
            product(SHRUNK, PLAIN),
        ),
        lower(
            "2-15-bes",
            "At L=2, N=15 BeS-shrinkage appears slightly better than GS-shrinkage.",
            [(2, 15)],
            [("bes-shrinkage", "gs-shrinkage")],
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
        better(
            Sentence(
                "linreg-loss-5-of-9",
                _APPENDIX,
                "In five of the nine settings both shrinkage methods end with a lower test loss "
                "than GS and BeS.",
            ),
            [AllOf(_cases(scores, "loss", [where], product(SHRUNK, PLAIN))) for where in settings],
            _LOSS,
            how=5,
        ),
        _about_main_difference(scores, settings),
        _about_early_gain(scores),
        _about_few_points(scores),
    ]


def _about_main_difference(scores: Scores, settings: Sequence[Where]) -> ClaimRow:
    """Judge the gap between the two pairs of methods against the gaps within them."""

    def gaps(where: Where) -> tuple[Sample, Sample]:
        losses = [_sample(scores, "loss", name, where) for name in (*PLAIN, *SHRUNK)]
        if any(loss is None for loss in losses):
            return None, None
        with np.errstate(invalid="ignore"):
            gs, bes, gs_shrunk, bes_shrunk = np.log(np.asarray(losses, np.float64))
            within = np.maximum(abs(gs - bes), abs(gs_shrunk - bes_shrunk))
            between = abs(gs + bes - gs_shrunk - bes_shrunk) / 2
        if not (np.isfinite(within).all() and np.isfinite(between).all()):
            return None, None
        return between.tolist(), within.tolist()

    return better(
        Sentence(
            "linreg-loss-main-difference",
            _MAIN,
            "In test loss the main difference is between GS and BeS on one side and the shrinkage "
            "methods on the other.",
        ),
        [Case(f"({words(where)})", *gaps(where)) for where in settings],
        Measure(
            "difference of the mean logarithmic final test losses of the two pairs, against the "
            "larger difference within a pair",
            better="higher",
            ratio=False,
            unit="of the loss",
        ),
        how="most",
    )


def _about_early_gain(scores: Scores) -> ClaimRow:
    """Judge the early error of BeS-shrinkage, and the test loss that it may explain."""
    pair, where = [("bes-shrinkage", "gs-shrinkage")], (2, 15)
    early = [
        Case(
            f"where {METHODS[run].title} went",
            _sample(scores, "early_bes-shrinkage", run, where),
            _sample(scores, "early_gs-shrinkage", run, where),
        )
        for run in SHRUNK
    ]
    return readings(
        Sentence(
            "linreg-loss-early-error",
            _MAIN,
            "The lower MSE of BeS-shrinkage at the beginning may translate to a better test loss "
            "(at L=2, N=15).",
        ),
        {
            "its premise, a lower MSE at the beginning": better(
                _PART,
                early,
                Measure("exact gradient MSE at equal parameters in the first five rounds"),
            ),
            "the better test loss alone": better(
                _PART, _cases(scores, "loss", [where], pair), _LOSS
            ),
        },
    )


def _about_spread(scores: Scores) -> ClaimRow:
    """Judge the spread by Brown and Forsythe's test: distances of log losses from their median."""

    def distances(name: str, where: Where) -> Sample:
        sample = _sample(scores, "loss", name, where)
        if sample is None:
            return None
        middle = math.log(float(np.median(sample)))
        return [abs(math.log(value) - middle) if value < math.inf else value for value in sample]

    others = [where for where in SETTINGS if where != (2, 5)]
    return better(
        Sentence(
            "linreg-loss-2-5-spread",
            _MAIN,
            "At L=2, N=5 standard errors are large: mostly larger than in the other settings.",
        ),
        [
            Case(
                f"{METHODS[name].title}, (2, 5) vs ({words(where)})",
                distances(name, (2, 5)),
                distances(name, where),
            )
            for name, where in product((*PLAIN, *SHRUNK), others)
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
    """Judge the gain over GS with few data points against that with many."""
    ours = ("bes", *SHRUNK)

    def gain(name: str, where: Where) -> Sample:
        a, b = _sample(scores, "loss", name, where), _sample(scores, "loss", "gs", where)
        if a is None or b is None:
            return None
        # Either loss may be infinite.
        return [math.inf if math.isinf(x) else x / y for x, y in zip(a, b, strict=True)]

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


def _about_the_lemma(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Compare the measured error with the Lemma, then with our exact formula."""
    rows: list[ClaimRow] = []
    for name, title, place, claim in (
        (
            "over_lemma",
            "lemma",
            "Lemma 4.2",
            "The measured gradient MSE is the one that the Lemma gives. (The regression shares "
            "samples between directions; the Lemma’s proof gives each direction its own.)",
        ),
        (
            "over_exact",
            "exact",
            "our docs/theory.md",
            "The measured gradient MSE is the one that our exact formula (shared samples, finite "
            "spacing) predicts.",
        ),
    ):
        cases: list[Case] = []
        for where, run in product(settings, (*PLAIN, *SHRUNK)):
            sample = _sample(scores, name, run, where)
            one = None if sample is None else [1.0] * len(sample)
            cases.append(Case(f"{METHODS[run].title} ({words(where)})", sample, one))
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


def _sample(scores: Scores, name: str, run: str, where: Where) -> list[float] | None:
    return scores.sample(name, method=run, num_directions=where[0], num_samples=where[1])


def _cases(
    scores: Scores, name: str, places: Sequence[Where], pairs: Iterable[tuple[str, str]]
) -> list[Case]:
    return [
        Case(
            f"{METHODS[a].title} vs {METHODS[b].title} ({words(where)})",
            _sample(scores, name, a, where),
            _sample(scores, name, b, where),
        )
        for where, (a, b) in product(places, list(pairs))
    ]
