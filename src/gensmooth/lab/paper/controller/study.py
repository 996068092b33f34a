"""Tunes a drone's controller by ``gs.minimize`` with its defaults."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gensmooth.lab.experiments.options import SeededOptions
from gensmooth.lab.experiments.spec import RunRecord, RunSpec, Study
from gensmooth.lab.paper.controller.model import GAINS, START, fly, gusts
from gensmooth.lab.report.tables import Table

_SEEDS, _BUDGET, _ROUNDS = 5, 400, 20
_TEST_FLIGHTS, _TEST_SEED = 100, 2026  # the same gusts for all runs, which no search has seen


def _reporting(options: SeededOptions, cells: object) -> list[RunSpec]:  # noqa: ARG001
    return [
        RunSpec("controller", {"method": "pilot", "budget": _BUDGET, "seed": seed})
        for seed in range(options.seeds or _SEEDS)
    ]


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    import gensmooth as gs
    from gensmooth.lab.paper.controller.model import flight
    from gensmooth.optimize.advice import unspoken

    began = time.perf_counter()
    seen: list[tuple[int, np.ndarray]] = [(0, np.log(START))]
    budget = int(config["budget"])
    with unspoken():  # a hundred test flights judge the result
        result = gs.minimize(
            flight,
            np.array(START),
            samples="independent",
            log_scale=True,
            budget=budget,
            callback=lambda now: seen.append((now.nfev, now.state.x)),
            progress=False,
            seed=int(config["seed"]),
        )
    test = wind()
    marks = np.linspace(0, budget, _ROUNDS + 1)
    last = [max(i for i, (spent, _) in enumerate(seen) if spent <= mark) for mark in marks]
    gains = [*(np.exp(seen[i][1]) for i in last[:-1]), result.x]  # the recommended one at the end
    costs = {i: float(fly(each, test)[0].mean()) for i, each in zip(last[:-1], gains, strict=False)}
    series = {
        "cost": [*(costs[i] for i in last[:-1]), float(fly(result.x, test)[0].mean())],
        "reported": [result.fun] * len(marks),
        "error": [result.error or 0.0] * len(marks),
        **{name: [float(each[i]) for each in gains] for i, name in enumerate(GAINS)},
    }
    return RunRecord(config, series, series["cost"][-1], False, time.perf_counter() - began)


def wind() -> np.ndarray:
    """Return the gusts of the test flights."""
    return gusts(np.random.default_rng(_TEST_SEED), _TEST_FLIGHTS)


def gains_of(record: RunRecord, mark: int = -1) -> list[float]:
    """Return the gains at a point of a run; by default at its end."""
    return [record.series[name][mark] for name in GAINS]


def _prose(options: SeededOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    first = records[0].series["cost"][0]
    ends = [record.final for record in records]
    return (
        "A drone should climb one metre and stay there, in gusts of wind that are different in "
        "every flight. Its controller has three numbers, the gains. gs.minimize is given a "
        "simulated flight as a function of the three, and the gains of a controller that "
        f"oscillates; it may fly {_BUDGET} times, and nothing is tuned for it.\n\n"
        f"The mean cost of a flight (squared distance from the goal, and a little for thrust) "
        f"falls from {first:.3f} to {min(ends):.3f}–{max(ends):.3f} in {len(records)} "
        f"repetitions, on {_TEST_FLIGHTS} flights that no search has seen."
    )


def _tables(options: SeededOptions, records: Sequence[RunRecord]) -> list[Table]:  # noqa: ARG001
    rows = [
        [
            record.config["seed"],
            *(f"{gain:.2f}" for gain in gains_of(record)),
            f"{record.series['reported'][-1]:.3f} ± {record.series['error'][-1]:.3f}",
            f"{record.final:.3f}",
        ]
        for record in records
    ]
    start = ["start", *(f"{gain:.2f}" for gain in START), "", f"{records[0].series['cost'][0]:.3f}"]
    return [
        Table(
            "controller",
            "The gains that were found",
            ("seed", *GAINS, "cost, as the run reports it", "cost in 100 other flights"),
            [start, *rows],
        )
    ]


STUDY = Study(
    name="controller",
    title="A drone in gusts: tuning a controller",
    prose=_prose,
    reporting=_reporting,
    execute=_execute,
    draw="gensmooth.lab.paper.controller.figures:draw",
    tables=_tables,
)
