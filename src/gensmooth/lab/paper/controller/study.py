"""Tunes a drone's controller by ``gs.minimize`` with its defaults."""

import math
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
    from gensmooth.optimize.advice import silenced

    began = time.perf_counter()
    path: list[tuple[int, np.ndarray]] = [(0, np.log(START))]  # evaluations so far, and x
    budget = int(config["budget"])
    with silenced():  # no advice: the test flights judge the result
        result = gs.minimize(
            flight,
            np.array(START),
            samples="independent",
            log_scale=True,
            budget=budget,
            callback=lambda now: path.append((now.nfev, now.state.x)),
            progress=False,
            seed=int(config["seed"]),
        )
    test = unseen_gusts()
    marks = np.linspace(0, budget, _ROUNDS + 1)
    # The position on the path at each mark but the last, where the recommended point is taken.
    reached = [max(i for i, (spent, _) in enumerate(path) if spent <= mark) for mark in marks[:-1]]
    gains = [*(np.exp(path[i][1]) for i in reached), result.x]
    costs = {i: _mean_cost(np.exp(path[i][1]), test) for i in set(reached)}
    series = {
        "cost": [*(costs[i] for i in reached), _mean_cost(result.x, test)],
        "reported": [result.fun] * len(marks),
        "error": [result.error or 0.0] * len(marks),
        **{name: [float(each[i]) for each in gains] for i, name in enumerate(GAINS)},
    }
    return RunRecord(config, series, series["cost"][-1], False, time.perf_counter() - began)


def unseen_gusts() -> np.ndarray:
    """Return the gusts of the test flights."""
    return gusts(np.random.default_rng(_TEST_SEED), _TEST_FLIGHTS)


def _mean_cost(gains: np.ndarray, wind: np.ndarray) -> float:
    return float(fly(gains, wind)[0].mean())


def gains_of(record: RunRecord, mark: int = -1) -> list[float]:
    """Return the gains at a mark of a run, by default the last."""
    return [record.series[name][mark] for name in GAINS]


def answer(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """Return the rows of the box above the report: the gains that were found, and their cost.

    A number is a mean ± standard deviation over the seeds.
    """

    def shown(values: Sequence[float], before: float) -> str:
        mean, spread = float(np.mean(values)), float(np.std(values, ddof=min(1, len(values) - 1)))
        digits = max(0, 1 - math.floor(math.log10(spread))) if spread else 3
        error = f" ± {spread:.{digits}f}" if spread else ""
        return f"{mean:.{digits}f}{error}, at the start {before:.3g}"

    ends = np.array([gains_of(record) for record in records])
    rows = [(f"{name} gain", shown(ends[:, i].tolist(), START[i])) for i, name in enumerate(GAINS)]
    cost = shown([record.final for record in records], records[0].series["cost"][0])
    runs = "1 run" if len(records) == 1 else f"{len(records)} runs, mean ± standard deviation"
    return [*rows, ("cost of a flight", cost), ("found by", f"{_BUDGET} flights; {runs}")]


def _prose(options: SeededOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    return (
        "A drone should climb one metre and stay there, in gusts that differ in every flight. "
        "Its controller has three numbers, the gains. gs.minimize gets a function that "
        "simulates one flight and returns its cost (the squared distance from the goal, plus a "
        f"little for thrust), and gains that make the drone swing. It may simulate {_BUDGET} "
        f"flights; no option is tuned. The costs here are means over {_TEST_FLIGHTS} flights that "
        "no search has seen."
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
    title="A drone in gusts",
    prose=_prose,
    reporting=_reporting,
    execute=_execute,
    draw="gensmooth.lab.paper.controller.figures:draw",
    tables=_tables,
)
