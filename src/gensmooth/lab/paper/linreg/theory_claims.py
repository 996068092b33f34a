"""The paper's claims about formulas, at the sizes of its linear regression.

They are computed from the formulas; no run is needed.
"""

import math
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

from gensmooth import theory
from gensmooth.directions import METHODS, named
from gensmooth.lab.experiments.verdicts import Sentence, counted, readings
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.linreg.scores import PLAIN, SETTINGS, SHRUNK, Where, words
from gensmooth.lab.report.tables import ClaimRow

if TYPE_CHECKING:
    from gensmooth.lab.paper.linreg.mse import Prediction

_DIM = 100


def lemma_of(name: str, where: Where) -> "Prediction":
    """Return the terms of the Lemma for a method in a setting."""
    from gensmooth.lab.paper.linreg.mse import lemma

    return lemma(named(name), dim=_DIM, num_directions=where[0], num_samples=where[1])


def about_theory() -> list[ClaimRow]:
    """Judge sentences about formulas by computing the formulas."""
    return [_about_first_term(), _about_shrunk_errors(), *_about_the_bound(), _about_antithetic()]


def _about_first_term() -> ClaimRow:
    """Judge the Lemma's terms at the start, θ ~ N(0, I), where the gradient is largest."""
    from gensmooth.lab.paper.linreg.mse import minimizer, noise_trace_of

    gradient2 = _DIM * (1.0 + minimizer(_DIM) ** 2)
    noise = noise_trace_of(_DIM, 0.0, float(_DIM))
    sentence = Sentence(
        "linreg-first-term", "Section 4.3", "The first term of the MSE is the larger one."
    )

    def row(places: Iterable[Where]) -> ClaimRow:
        terms = {where: lemma_of("gs", where) for where in places}
        shares = {
            where: lemma.noise * noise / (lemma.gradient * gradient2)
            for where, lemma in terms.items()
        }
        return counted(
            sentence,
            found=[f"{words(where)}" for where, share in shares.items() if share < 1],
            of=len(shares),
            what="the Lemma’s terms for GS at the expected start of the regression, where the "
            f"gradient is largest; the second over the first is {min(shares.values()):.3g} to "
            f"{max(shares.values()):.3g}. It falls as 1/N and is below 1 from "
            f"N = {math.ceil(max(N * share for (_, N), share in shares.items()))} on",
        )

    return readings(
        sentence,
        {
            "as an order in N, as the paper argues (N = 1000)": row(
                (L, 1000) for L in paper.RL_DIRECTIONS
            ),
            "at the sizes of the paper’s regression": row(SETTINGS),
        },
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
        *((100, L) for L, _ in SETTINGS),
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
        for name in SHRUNK
        for m in [named(name).resolve(dim, num_directions).moments(dim, num_directions)]
    ]
    return max(max(a / b, b / a) for a, b in zip(*terms, strict=True))


def _about_the_bound() -> list[ClaimRow]:
    """Judge Theorem 3.1 with one gradient and one noise for all methods."""

    def bounds(name: str) -> dict[Where, float | None]:
        values: dict[Where, float | None] = {}
        for L, N in SETTINGS:
            moments = named(name).resolve(_DIM, L).moments(_DIM, L)
            mse = theory.mse(moments, gradient_norm2=1.0, noise_trace=1.0, num_samples=N)
            bias = theory.relative_bias(moments)
            bound = theory.convergence_bound(mse, bias, smoothness=1.0, bound=1.0, steps=1000)
            values[L, N] = bound
        return values

    gs, bes = bounds("gs"), bounds("bes")
    applies = [
        f"{METHODS[name].title} ({words(where)})"
        for name in SHRUNK
        for where, bound in bounds(name).items()
        if bound is not None
    ]
    number = len(SETTINGS)
    return [
        counted(
            Sentence(
                "theory-bound-bes",
                "Section 4.2, Theorem 3.1",
                "The convergence bound is smaller for BeS than for GS.",
            ),
            found=[words(w) for w in SETTINGS if (bes[w] or math.inf) < (gs[w] or math.inf)],
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

        names = (*PLAIN, *SHRUNK)
        ratios = {
            f"{METHODS[name].title} ({words(where)})": mse(name, where, "antithetic")
            / mse(name, where, "forward")
            for name, where in product(names, SETTINGS)
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
