"""The paper's claims about linear regression.

Runs of different methods visit different parameters, on which the MSE depends. Claims about curves
compare the measurements along each method's own run. Claims about estimators are judged at equal
parameters: by the exact formula, for both estimators, at the parameters that a run visited.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions import METHODS, named
from gensmooth.lab.experiments.spec import RunRecord
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
    together,
)
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.report.tables import Cell, ClaimRow

if TYPE_CHECKING:
    from gensmooth.lab.paper.linreg.mse import Prediction

_MAIN, _APPENDIX = "Section 5.1, fig:linreg", "Appendix, fig:linregmse_full, fig:linregloss_full"
_THEORY = "Section 4.3, Appendix sec:gsvsbsshrinkage"
_EARLY, _LATE = slice(0, 5), slice(-5, None)
_PLAIN, _SHRUNK = ("gs", "bes"), ("gs-shrinkage", "bes-shrinkage")
_SETTINGS = tuple(product((2, 6, 20), (5, 15, 50)))

_MSE = Measure("measured gradient MSE, geometric mean over the rounds")
_LOSS = Measure("final test loss")
_PART = Sentence("", "", "")  # for a part of a sentence, which has no row of its own

Where = tuple[int, int]  # (L, N)
Floats = NDArray[np.float64]


# --- the numbers of a run ------------------------------------------------------------------------


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


# --- the sentences -------------------------------------------------------------------------------


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:  # noqa: ARG001
    """Judge every claim that these runs can decide."""
    available = set(scores.values("method", "num_directions", "num_samples"))
    settings = [s for s in _SETTINGS if all((m, *s) in available for m in (*_PLAIN, *_SHRUNK))]
    if not settings:
        return []
    lemma, exact = _about_the_lemma(scores, settings)
    return [
        lemma,
        *_about_curves(scores, settings),
        *_about_estimators(scores, settings),
        *_about_loss(scores, settings),
        *_about_theory(),
        exact,
    ]


def _about_curves(scores: Scores, settings: Sequence[Where]) -> list[ClaimRow]:
    """Judge the MSE along each method's own run."""
    names = {"gs-bes": _PLAIN, "shrinkages": _SHRUNK}
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
                why="a tenth, beside the factor of 16 to 700 between plain and shrunk methods",
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
                    for (L, N), name in product(settings, _PLAIN)
                ],
                Measure(exact),
            )
        ),
    ]


def _about_early_error(here: ClaimRow) -> ClaimRow:
    """Judge a sentence where its premise is met, and add the result where it is not."""
    much = 10.0  # ‖∇F‖² over tr Var/N
    smaller = [
        _words(where)
        for where in _SETTINGS
        if _lemma("bes-shrinkage", where).at(much, where[1])
        < _lemma("gs-shrinkage", where).at(much, where[1])
    ]
    met = counted(
        Sentence(
            "linreg-mse-early",
            _THEORY,
            "At the beginning, when ‖∇F‖² is large beside tr Var[∇f]/N, BeS-shrinkage can have a "
            "smaller gradient MSE than GS-shrinkage.",
        ),
        found=smaller,
        of=len(_SETTINGS),
        what=f"the Lemma at d = 100, where the premise is met (‖∇F‖² = {much:g} tr Var/N)",
    )
    unmet = "In this regression the premise is not met (200 beside 490 to 4900)"
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
        f"{METHODS[name].title} ({_words((L, N))})"
        for (L, N), name in product(_SETTINGS, _PLAIN)
        if _lemma(name, (L * N, 1)).gradient < _lemma(name, (L, N)).gradient
        and _lemma(name, (L * N, 1)).noise <= _lemma(name, (L, N)).noise * (1 + 1e-12)
    ]
    number = 2 * len(_SETTINGS)
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
            product(_PLAIN, _SHRUNK),
        ),
        _about_spread(scores),
        lower(
            "n15",
            "At (L, N) = (2, 15) and (6, 15) both shrinkage methods reach a significantly lower "
            "test loss than GS and BeS.",
            [(2, 15), (6, 15)],
            product(_SHRUNK, _PLAIN),
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
            [
                AllOf(_cases(scores, "loss", [where], product(_SHRUNK, _PLAIN)))
                for where in settings
            ],
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
        losses = [_sample(scores, "loss", name, where) for name in (*_PLAIN, *_SHRUNK)]
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
        [Case(f"({_words(where)})", *gaps(where)) for where in settings],
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
        for run in _SHRUNK
    ]
    return together(
        Sentence(
            "linreg-loss-early-error",
            _MAIN,
            "The lower MSE of BeS-shrinkage at the beginning may translate to a better test loss "
            "(at L=2, N=15).",
        ),
        {
            "its MSE is lower at the beginning": better(
                _PART,
                early,
                Measure("exact gradient MSE at equal parameters in the first five rounds"),
            ),
            "its test loss is lower": better(_PART, _cases(scores, "loss", [where], pair), _LOSS),
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
    """Judge the gain over GS with few data points against that with many."""
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


def _about_theory() -> list[ClaimRow]:
    """Judge sentences about formulas by computing the formulas."""
    return [_about_first_term(), _about_shrunk_errors(), *_about_the_bound(), _about_antithetic()]


_DIM = 100


def _lemma(name: str, where: Where) -> "Prediction":
    from gensmooth.lab.paper.linreg.mse import lemma

    return lemma(named(name), dim=_DIM, num_directions=where[0], num_samples=where[1])


def _about_first_term() -> ClaimRow:
    """Judge the Lemma's terms at the start, θ ~ N(0, I), where the gradient is largest."""
    from gensmooth.lab.paper.linreg.mse import minimizer, noise_trace_of

    gradient2 = _DIM * (1.0 + minimizer(_DIM) ** 2)
    noise = noise_trace_of(_DIM, 0.0, float(_DIM))
    shares = {
        where: _lemma("gs", where).noise * noise / (_lemma("gs", where).gradient * gradient2)
        for where in _SETTINGS
    }
    return counted(
        Sentence(
            "linreg-first-term",
            "Section 4.3",
            "The first term of the MSE is the larger one (at the sizes of the paper’s regression).",
        ),
        found=[f"{_words(where)}" for where, share in shares.items() if share < 1],
        of=len(shares),
        what="the Lemma’s terms for GS at the expected start of the regression, where the gradient "
        f"is largest; the second over the first is {min(shares.values()):.3g} to "
        f"{max(shares.values()):.3g}. It falls as 1/N, as the paper says, and is below 1 from "
        f"N = {math.ceil(max(N * share for (_, N), share in shares.items()))} on",
    )


def _about_shrunk_errors() -> ClaimRow:
    """Judge how far apart the errors of the two shrinkage methods can be, by the Lemma."""
    sentence = Sentence(
        "theory-shrunk-errors",
        "Section 4.3",
        "The difference between the MSE of GS-shrinkage and of BeS-shrinkage may be substantial.",
    )
    substantial = 1.1
    sizes = {
        *((100, L) for L, _ in _SETTINGS),
        *((d, L) for settings in paper.DFO["sphere"].values() for d, L in settings),
        *((102, L) for L in paper.RL_DIRECTIONS),
    }

    def row(places: Iterable[tuple[int, int]]) -> ClaimRow:
        largest = {(d, L): _largest_ratio(d, L) for d, L in sorted(places)}
        found = [f"d={d}, L={L}: {r:.3g}" for (d, L), r in largest.items() if r >= substantial]
        what = (
            "larger over smaller MSE by the Lemma, whatever the gradient and the noise; at most "
            f"{max(largest.values()):.3g}; substantial = a tenth"
        )
        return counted(sentence, found=found, wanted=1, of=len(largest), what=what)

    return readings(
        sentence,
        {
            "at the sizes of the paper’s regression, benchmark and HalfCheetahRandVel": row(sizes),
            "at some size": row([(2, 10), (2, 100), (10, 10), (10, 100)]),
        },
    )


def _largest_ratio(dim: int, num_directions: int) -> float:
    """Return the largest ratio of the two MSEs by the Lemma, for any gradient and noise.

    The MSE is linear in ‖∇F‖² and tr Var, so the ratio is extreme where one of them is 0.
    """
    terms = [
        (theory.relative_mse(m), theory.mse(m, gradient_norm2=0.0, noise_trace=1.0))
        for name in _SHRUNK
        for m in [named(name).resolve(dim, num_directions).moments(dim, num_directions)]
    ]
    return max(max(a / b, b / a) for a, b in zip(*terms, strict=True))


def _about_the_bound() -> list[ClaimRow]:
    """Judge Theorem 3.1 with one gradient and one noise for all methods."""

    def bounds(name: str) -> dict[Where, float | None]:
        values: dict[Where, float | None] = {}
        for L, N in _SETTINGS:
            moments = named(name).resolve(_DIM, L).moments(_DIM, L)
            mse = theory.mse(moments, gradient_norm2=1.0, noise_trace=1.0, num_samples=N)
            bias = theory.relative_bias(moments)
            bound = theory.convergence_bound(mse, bias, smoothness=1.0, bound=1.0, steps=1000)
            values[L, N] = bound
        return values

    gs, bes = bounds("gs"), bounds("bes")
    applies = [
        f"{METHODS[name].title} ({_words(where)})"
        for name in _SHRUNK
        for where, bound in bounds(name).items()
        if bound is not None
    ]
    number = len(_SETTINGS)
    return [
        counted(
            Sentence(
                "theory-bound-bes",
                "Section 4.2, Theorem 3.1",
                "The convergence bound is smaller for BeS than for GS.",
            ),
            found=[_words(w) for w in _SETTINGS if (bes[w] or math.inf) < (gs[w] or math.inf)],
            of=number,
            what="the bound at the sizes of the regression, with equal gradient and noise",
        ),
        counted(
            Sentence(
                "theory-bound-shrinkage",
                "Not in the paper: what Theorem 3.1 implies",
                "The guarantee that suggests a smaller MSE applies to the methods that make it "
                "smallest, GS-shrinkage and BeS-shrinkage.",
            ),
            found=applies,
            of=2 * number,
            what="sizes of the regression at which the bias is below ½, as the theorem asks; the "
            "bias of shrinkage is 1 − L/(L + d + 1) or 1 − L/(L + d − 1)",
        ),
    ]


def _about_antithetic() -> ClaimRow:
    """Judge the errors of the two estimators under each way of drawing samples."""
    sentence = Sentence(
        "theory-antithetic",
        "Appendix B.5",
        "The MSE of the antithetic estimator is that of the forward difference (as c → 0).",
    )

    def row(**noise: Any) -> ClaimRow:
        def mse(name: str, where: Where, estimator: Any) -> float:
            moments = named(name).resolve(_DIM, where[0]).moments(_DIM, where[0])
            return theory.mse(
                moments, gradient_norm2=1.0, num_samples=where[1], estimator=estimator, **noise
            )

        names = (*_PLAIN, *_SHRUNK)
        ratios = {
            f"{METHODS[name].title} ({_words(where)})": mse(name, where, "antithetic")
            / mse(name, where, "forward")
            for name, where in product(names, _SETTINGS)
        }
        equal = [label for label, ratio in ratios.items() if math.isclose(ratio, 1.0)]
        what = (
            "MSE in closed form, antithetic over forward: "
            f"{min(ratios.values()):.3g} to {max(ratios.values()):.3g}"
        )
        return counted(sentence, found=equal, of=len(ratios), what=what)

    return readings(
        sentence,
        {
            "both points of a direction have one sample, as in the paper’s equations": row(
                noise_trace=1.0
            ),
            "each evaluation has its own, as in its RL and its benchmark (spacing 0.1, variance 1 "
            "of the values)": row(
                noise_trace=1.0, samples="independent", spacing=0.1, value_variance=1.0
            ),
        },
    )


def _ratio(a: float, b: float) -> float:
    """Return the ratio of two losses, either of which may be infinite."""
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
