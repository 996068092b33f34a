"""What the paper says of linear regression, sentence by sentence."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np

from gensmooth.methods import METHODS
from gensmooth.studies.claims import Contrast, counted, geometric_mean, lower, same
from gensmooth.studies.spec import ClaimRow, Record

_MAIN, _APPENDIX = "Section 5.1, fig:linreg", "Appendix, fig:linregmse_full, fig:linregloss_full"
_EARLY, _LATE = slice(0, 5), slice(-5, None)
_PLAIN, _SHRUNK = ("gs", "bes"), ("gs-shrinkage", "bes-shrinkage")
_SETTINGS = tuple(product((2, 6, 20), (5, 15, 50)))

Score = dict[tuple[str, int, int], list[float]]  # (method, L, N) -> one number a seed


def judge(records: Sequence[Record]) -> list[ClaimRow]:
    """Every sentence that these records can speak to."""
    have = {record.config["method"] for record in records}
    if not have >= {*_PLAIN, *_SHRUNK}:
        return []
    mse = _scores(records, lambda r: geometric_mean(r.series.get("mse", ())))
    early = _scores(records, lambda r: geometric_mean(r.series.get("mse", ())[_EARLY]))
    late = _scores(records, lambda r: geometric_mean(r.series.get("mse", ())[_LATE]))
    loss = _scores(records, lambda r: r.final)
    found = [s for s in _SETTINGS if all((m, *s) in mse for m in (*_PLAIN, *_SHRUNK))]
    error = "gradient MSE (geometric mean over the rounds)"
    rows = [
        lower(
            "linreg-mse-smaller",
            _APPENDIX,
            "In all nine settings both shrinkage methods have a smaller gradient MSE than GS and "
            "BeS.",
            _contrasts(mse, found, product(_SHRUNK, _PLAIN)),
            error,
        ),
        same(
            "linreg-mse-gs-bes",
            _MAIN,
            "The gradient MSE of GS and of BeS do not differ.",
            _contrasts(mse, found, [("bes", "gs")]),
            error,
        ),
        same(
            "linreg-mse-shrinkages",
            _MAIN,
            "The gradient MSE of GS-shrinkage and of BeS-shrinkage do not differ.",
            _contrasts(mse, found, [("bes-shrinkage", "gs-shrinkage")]),
            error,
        ),
        lower(
            "linreg-mse-early",
            "Section 4.3, Appendix sec:gsvsbsshrinkage",
            "At the beginning BeS-shrinkage has a smaller gradient MSE than GS-shrinkage.",
            _contrasts(early, found, [("bes-shrinkage", "gs-shrinkage")]),
            "gradient MSE over the first five rounds",
        ),
        lower(
            "linreg-mse-late",
            "Section 4.3, Appendix sec:gsvsbsshrinkage",
            "At the end GS-shrinkage has a smaller gradient MSE than BeS-shrinkage.",
            _contrasts(late, found, [("gs-shrinkage", "bes-shrinkage")]),
            "gradient MSE over the last five rounds",
        ),
    ]
    return [*rows, *_about_loss(loss, found), *_about_theory(records)]


def _about_loss(loss: Score, found: Sequence[tuple[int, int]]) -> list[ClaimRow]:
    rows: list[ClaimRow] = []
    if (2, 5) in found:
        rows.append(
            lower(
                "linreg-loss-2-5",
                _MAIN,
                "At L=2, N=5 GS and BeS appear to reach a lower test loss than the shrinkage "
                "methods.",
                _contrasts(loss, [(2, 5)], product(_PLAIN, _SHRUNK)),
                "final test loss",
            )
        )
    both = [s for s in ((2, 15), (6, 15)) if s in found]
    if both:
        rows.append(
            lower(
                "linreg-loss-n15",
                _MAIN,
                "At (L, N) = (2, 15) and (6, 15) both shrinkage methods reach a significantly "
                "lower test loss than GS and BeS.",
                _contrasts(loss, both, product(_SHRUNK, _PLAIN)),
                "final test loss",
            )
        )
    if (2, 15) in found:
        rows.append(
            lower(
                "linreg-loss-2-15-bes",
                _MAIN,
                "At L=2, N=15 BeS-shrinkage appears slightly better than GS-shrinkage.",
                _contrasts(loss, [(2, 15)], [("bes-shrinkage", "gs-shrinkage")]),
                "final test loss",
            )
        )
    if (6, 15) in found:
        rows.append(
            same(
                "linreg-loss-6-15-same",
                _MAIN,
                "At L=6, N=15 the two shrinkage methods are competitive with each other.",
                _contrasts(loss, [(6, 15)], [("bes-shrinkage", "gs-shrinkage")]),
                "final test loss",
            )
        )
    wins = [
        f"(L={number}, N={samples})"
        for number, samples in found
        if max(np.mean(loss[m, number, samples]) for m in _SHRUNK)
        < min(np.mean(loss[m, number, samples]) for m in _PLAIN)
    ]
    rows.append(
        counted(
            "linreg-loss-5-of-9",
            _APPENDIX,
            "In five of the nine settings both shrinkage methods end with a lower test loss than "
            "GS and BeS.",
            found=wins,
            wanted=5,
            of=len(found),
            what="settings in which the larger mean final loss of the two shrinkage methods is "
            "below the smaller of GS and BeS, counted literally",
        )
    )
    return rows


def _about_theory(records: Sequence[Record]) -> list[ClaimRow]:
    """Whether the measured error is the predicted one, over all runs with a prediction."""
    rows: list[ClaimRow] = []
    for name, title, place, claim in (
        (
            "predicted",
            "exact",
            "our docs/theory.md",
            "The measured gradient MSE is the one that our exact formula (shared samples, finite "
            "spacing) predicts.",
        ),
        (
            "lemma",
            "lemma",
            "Lemma 4.2",
            "The measured gradient MSE is the one that the Lemma gives, although this experiment "
            "shares samples between directions.",
        ),
    ):
        ratios: dict[int, list[float]] = {}
        for record in records:
            measured, predicted = record.series.get("mse", ()), record.series.get(name, ())
            if len(measured) and len(predicted):
                value = float(np.mean(np.asarray(measured) / np.asarray(predicted)))
                ratios.setdefault(record.config["seed"], []).append(value)
        if ratios:
            means = [float(np.mean(found)) for found in ratios.values()]
            rows.append(
                same(
                    f"linreg-theory-{title}",
                    place,
                    claim,
                    [Contrast("measured / predicted", means, [1.0] * len(means))],
                    "measured over predicted MSE, mean over all rounds, settings and methods of a "
                    "seed",
                    margin=1.02,
                )
            )
    return rows


def _scores(records: Sequence[Record], score: Callable[[Record], float]) -> Score:
    found: Score = {}
    for record in sorted(records, key=lambda r: r.config["seed"]):
        c = record.config
        key = (c["method"], c["num_directions"], c["num_samples"])
        found.setdefault(key, []).append(score(record))
    return found


def _contrasts(
    scores: Score, settings: Sequence[tuple[int, int]], pairs: Iterable[tuple[str, str]]
) -> list[Contrast]:
    return [
        Contrast(
            f"{METHODS[a].title} vs {METHODS[b].title} (L={number}, N={samples})",
            scores[a, number, samples],
            scores[b, number, samples],
        )
        for (number, samples), (a, b) in product(settings, list(pairs))
    ]
