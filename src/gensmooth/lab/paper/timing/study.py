"""How long it takes to sample the directions of one iteration: the paper's tab:rltimes.

The dimension is that of a linear policy on HalfCheetahRandVel, 6 actions × 17 observations. The
paper's times and ours come from different machines and programs, so both are given as ratios to
GS. All methods are timed in turn within one run; medians of many repeats.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, final

import numpy as np

from gensmooth.directions import METHODS, Address, named
from gensmooth.lab.experiments.options import METHOD_NAMES, Options, option
from gensmooth.lab.experiments.spec import RunRecord, RunSpec, Study
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.report.tables import Cell, ClaimRow, Table, Verdict
from gensmooth.streams import Purpose, generator


@final
@dataclass(frozen=True)
class TimingOptions(Options):
    """Options of the timing of directions."""

    methods: tuple[str, ...] | None = option(
        "The methods, instead of the paper's.", accepts=METHOD_NAMES
    )


_PLACE = "Section 5.2, tab:rltimes"
_DIM = 6 * 17
_REPEATS = {"quick": 300, "paper": 2000}


def _methods(options: TimingOptions) -> tuple[str, ...]:
    """Return the paper's six methods, then the additional ones."""
    return tuple(dict.fromkeys((*paper.METHODS, *(options.methods or ()))))


def _reporting(options: TimingOptions, cells: Sequence[Cell]) -> list[RunSpec]:  # noqa: ARG001
    config = {"dim": _DIM, "repeats": _REPEATS[options.profile], "methods": _methods(options)}
    return [RunSpec("timing", {**config, "num_directions": n}) for n in paper.TIMES]


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    began = time.perf_counter()
    dim, number = config["dim"], config["num_directions"]
    names: Sequence[str] = config["methods"]
    dtype = np.dtype(np.float64)
    families = {name: named(name, dim=dim, num_directions=number) for name in names}
    states = {name: family.init(dim, dtype) for name, family in families.items()}
    estimates = generator(0, Purpose.DATA).standard_normal((64, dim))
    for name, family in families.items():  # fill Guided ES's history, compile, warm up
        for estimate in estimates:
            states[name] = family.update(states[name], estimate)
    series: dict[str, list[float]] = {name: [] for name in names}
    for step in range(-20, config["repeats"]):
        for name, family in families.items():
            start = time.perf_counter()
            family.draw(states[name], Address(0, step + 20, number, dim, dtype)).block()
            states[name] = family.update(states[name], estimates[step % len(estimates)])
            if step >= 0:
                series[name].append(time.perf_counter() - start)
    ratio = median(series["bes"]) / median(series["gs"])
    return RunRecord(config, series, ratio, False, time.perf_counter() - began)


def _score(options: TimingOptions, records: Sequence[RunRecord]) -> Scores:  # noqa: ARG001
    return Scores(
        [
            {
                "num_directions": record.config["num_directions"],
                "method": name,
                "seconds": median(record.series[name]),
            }
            for record in records
            for name in record.series
        ]
    )


def _times(scores: Scores) -> dict[int, dict[str, float]]:
    times: dict[int, dict[str, float]] = {}
    for row in scores.rows:
        times.setdefault(row["num_directions"], {})[row["method"]] = row["seconds"]
    return times


def _tables(options: TimingOptions, records: Sequence[RunRecord]) -> list[Table]:
    """Absolute times, and relative to GS beside the paper's."""
    times = _times(_score(options, records))
    columns = ["method"]
    for number in times:
        columns += [f"L={number}: ours, µs", f"L={number}: ours / GS", f"L={number}: paper / GS"]
    rows: list[list[Any]] = []
    for name in _methods(options):
        row: list[Any] = [METHODS[name].title]
        for number, ours in times.items():
            theirs = paper.TIMES[number]
            ratio = round(theirs[name] / theirs["gs"], 2) if name in theirs else "–"
            row += [round(1e6 * ours[name], 1), round(ours[name] / ours["gs"], 2), ratio]
        rows.append(row)
    return [Table("timing", "Sampling time, absolute and relative to GS", columns, rows)]


def _judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:  # noqa: ARG001
    times = _times(scores)
    if not times:
        return []

    def ratios(*names: str) -> dict[str, float]:
        return {
            f"{METHODS[name].title}, L={number}": ours[name] / ours["gs"]
            for number, ours in times.items()
            for name in names
        }

    def row(name: str, claim: str, times: dict[str, float], statistic: str, ok: bool) -> ClaimRow:
        answer = "so it is in this program" if ok else "not so in this program"
        evidence = f"{answer}. " + "; ".join(f"{key}: {value:.2f}" for key, value in times.items())
        return ClaimRow(name, _PLACE, claim, statistic, evidence, "about an implementation")

    cheap = ratios("bes", "gs-shrinkage", "bes-shrinkage")
    orthogonal, guided = ratios("orthogonal-es"), ratios("guided-es")
    return [
        row(
            "timing-cheap",
            "BeS and both shrinkage methods take about as long to sample as GS.",
            cheap,
            "ratio of median times to GS, at most 1.25 (the paper's own largest is 1.21)",
            max(cheap.values()) <= 1.25,
        ),
        row(
            "timing-orthogonal",
            "Orthogonal ES takes at least three times as long as GS (the paper's own table: 2.95).",
            orthogonal,
            "ratio of median times to GS in this program, at least 3 for every L",
            min(orthogonal.values()) >= 3,
        ),
        row(
            "timing-guided",
            "Guided ES takes at least ten times as long as GS.",
            guided,
            "ratio of median times to GS in this program, at least 10 for every L",
            min(guided.values()) >= 10,
        ),
        _about_complexity(),
    ]


def _operations(name: str, dim: int, number: int) -> int:
    """Count the operations to sample the directions of an iteration, by their leading terms.

    Gram–Schmidt subtracts from each vector its projections on all previous ones, 2d operations
    each. Guided ES keeps k estimates: it makes them orthonormal, and mixes all k into each
    direction.
    """
    history = 50 if dim >= 50 else 10
    extra = {
        "orthogonal-es": number * (number - 1) * dim,
        "guided-es": history * (history - 1) * dim + number * history * dim,
    }
    return number * dim + extra.get(name, 0)


def _about_complexity() -> ClaimRow:
    """Judge how the operations grow with L and with d, against those of GS."""
    sizes = ((_DIM, 20), (1000 * _DIM, 20), (_DIM, 100))
    ratios = {
        f"{METHODS[name].title} (d={dim}, L={number})": _operations(name, dim, number)
        / _operations("gs", dim, number)
        for name in paper.METHODS[1:]
        for dim, number in sizes
    }
    same = all(
        ratios[f"{METHODS[n].title} (d={d}, L={L})"] == 1
        for n in ("bes", "gs-shrinkage", "bes-shrinkage")
        for d, L in sizes
    )
    higher = all(
        ratios[f"{METHODS[n].title} (d={d}, L={L})"] > 2
        for n in ("orthogonal-es", "guided-es")
        for d, L in sizes
    )
    verdict: Verdict = "holds" if same and higher else "does not hold"
    return ClaimRow(
        "timing-complexity",
        "Section 5.2",
        "BeS and the shrinkage methods have the complexity of GS, O(Ld); Guided ES and Orthogonal "
        "ES have a higher one, because of Gram–Schmidt.",
        "operations to sample the directions over those of GS, leading terms: higher by a factor "
        "of L (Orthogonal ES) and of k + k²/L (Guided ES with k estimates); all are linear in d",
        "; ".join(f"{label}: {ratio:.3g}" for label, ratio in ratios.items()),
        verdict,
    )


def _prose(options: TimingOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    return (
        f"Median time to make all directions of one iteration at d = {_DIM} (float64, one thread, "
        "Guided ES with a full history and its update included), all methods timed in turn within "
        "one run. Times are divided by the time of GS in the same program: the paper's by the "
        "paper's GS, ours by our GS."
    )


def _facts(options: TimingOptions, records: Sequence[RunRecord]) -> dict[str, Any]:  # noqa: ARG001
    return {"repeats": _REPEATS[options.profile], "dimension": _DIM}


def _smaller(options: TimingOptions) -> str | None:
    ours, full = _REPEATS[options.profile], _REPEATS["paper"]
    return f"{ours} of {full} repetitions" if ours < full else None


STUDY = Study(
    name="timing",
    title="Time to sample the directions",
    prose=_prose,
    reporting=_reporting,
    execute=_execute,
    options=TimingOptions,
    score=_score,
    judge=_judge,
    draw="gensmooth.lab.paper.timing.figures:draw",
    tables=_tables,
    facts=_facts,
    alone=True,
    cost=lambda config: 3e-4 * config["repeats"],
    smaller=_smaller,
)
