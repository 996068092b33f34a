"""How long it takes to sample the directions of one iteration: the paper's tab:rltimes.

The dimension is that of a linear policy on HalfCheetahRandVel, 6 actions × 17 observations. The
paper's times and ours come from different machines and programs, so both are given as ratios to
GS. All methods are timed in turn within one run; medians of many repeats.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gensmooth.directions import Address
from gensmooth.methods import METHODS, method
from gensmooth.streams import Purpose, generator
from gensmooth.studies import paper
from gensmooth.studies.spec import (
    Cell,
    ClaimRow,
    Options,
    Outcome,
    Record,
    RunSpec,
    Study,
    Table,
    Verdict,
)

_DIM = 6 * 17
_REPEATS = {"quick": 300, "paper": 2000}


def _methods(options: Options) -> tuple[str, ...]:
    """The paper's six first, then what else was asked for."""
    return tuple(dict.fromkeys((*paper.METHODS, *(options.methods or ()))))


def _reporting(options: Options, cells: Sequence[Cell]) -> list[RunSpec]:  # noqa: ARG001
    config = {"dim": _DIM, "repeats": _REPEATS[options.profile], "methods": _methods(options)}
    return [RunSpec("timing", {**config, "num_directions": n}) for n in paper.TIMES]


def _execute(config: Mapping[str, Any], scratch: Path) -> Record:  # noqa: ARG001
    began = time.perf_counter()
    dim, number = config["dim"], config["num_directions"]
    names: Sequence[str] = config["methods"]
    dtype = np.dtype(np.float64)
    families = {name: method(name, dim=dim, num_directions=number) for name in names}
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
    return Record(config, series, ratio, False, time.perf_counter() - began)


def _conclude(options: Options, records: Sequence[Record], cells: Sequence[Cell]) -> Outcome:  # noqa: ARG001
    names = _methods(options)
    times = {
        record.config["num_directions"]: {name: median(record.series[name]) for name in names}
        for record in records
    }
    split = [
        Record(
            {"method": name, "dim": _DIM, "num_directions": record.config["num_directions"]},
            {"seconds": record.series[name]},
            median(record.series[name]),
            False,
            0.0,
        )
        for record in records
        for name in names
    ]
    return Outcome(
        study="timing",
        title="Time to sample the directions",
        prose=(
            f"Median time to make all directions of one iteration at d = {_DIM} (float64, one "
            "thread, Guided ES with a full history and its update included), all methods timed in "
            "turn within one run. Times are divided by that of GS in the same program: the "
            "paper's by the paper's GS, ours by our GS."
        ),
        records=split,
        cells=[],
        tables=[_table(times, names)],
        claims=_claims(times),
        options=options,
        facts={"repeats": _REPEATS[options.profile], "dimension": _DIM},
    )


def _table(times: Mapping[int, Mapping[str, float]], names: Sequence[str]) -> Table:
    columns = ["method"]
    for number in times:
        columns += [f"L={number}: ours, µs", f"L={number}: ours / GS", f"L={number}: paper / GS"]
    rows: list[list[Any]] = []
    for name in names:
        row: list[Any] = [METHODS[name].title]
        for number, ours in times.items():
            theirs = paper.TIMES[number]
            ratio = round(theirs[name] / theirs["gs"], 2) if name in theirs else "–"
            row += [round(1e6 * ours[name], 1), round(ours[name] / ours["gs"], 2), ratio]
        rows.append(row)
    return Table("timing", "Sampling time, absolute and relative to GS", columns, rows)


def _claims(times: Mapping[int, Mapping[str, float]]) -> list[ClaimRow]:
    def ratios(*names: str) -> dict[str, float]:
        return {
            f"{METHODS[name].title}, L={number}": ours[name] / ours["gs"]
            for number, ours in times.items()
            for name in names
        }

    def row(name: str, claim: str, found: dict[str, float], statistic: str, ok: bool) -> ClaimRow:
        verdict: Verdict = "holds" if ok else "does not hold"
        evidence = "; ".join(f"{key}: {value:.2f}" for key, value in found.items())
        return ClaimRow(name, "Section 5.2, tab:rltimes", claim, statistic, evidence, verdict)

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
    ]


def _no_tuning(options: Options) -> list[RunSpec]:  # noqa: ARG001
    return []


def _no_choices(options: Options, records: Sequence[Record]) -> list[Cell]:  # noqa: ARG001
    return []


STUDY = Study(
    name="timing",
    tuning=_no_tuning,
    select=_no_choices,
    reporting=_reporting,
    execute=_execute,
    conclude=_conclude,
    alone=True,
)
