"""The numbers that claims are judged by, and which part of the study has been run.

Returns of different environments have different units. Margins ("competitive", "a large margin")
are fractions of a fixed range of each environment, from the return of a policy that does nothing to
that of one that has learned (:data:`~gensmooth.lab.paper.rl.settings.ENVIRONMENTS`), so that no
method's failure widens the margin of the others. Only cells (a setting and a method) with every
seed and every iteration are judged.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl.settings import (
    CPU,
    ENVIRONMENTS,
    PAPER,
    SIZES,
    Setting,
    device_of,
    setting_of,
)
from gensmooth.lab.report.tables import Table

Kind = Literal[
    "beginning", "speed", "rounds", "second_fifth", "third_fifth", "end", "end_median", "jumps"
]

# In the words of the claims table.
WORDS: dict[Kind, str] = {
    "beginning": "mean test return over the first tenth of the rounds",
    "end": "mean test return over the last tenth of the rounds",
    # Claims about speed are judged by this measure, which was fixed before any verdict, and by the
    # rounds to a level. If the two disagree, the verdict says that it depends on the reading.
    "speed": "mean test return over the first fifth of the rounds",
    "rounds": "rounds until five tests in a row reach, on average, the level halfway between doing "
    "nothing and the best method's mean at the end (at least a tenth of the environment's range); "
    "a run that never does counts one round more than there are",
    "second_fifth": "mean test return over the second fifth of the rounds",
    "third_fifth": "mean test return over the third fifth of the rounds",
    "end_median": "median test return over the last tenth of the rounds",
    "jumps": "mean absolute change of the test return from round to round",
}

ITERATIONS = paper.RL_ROUNDS * paper.RL_ITERATIONS

_ROW = 5  # tests in a row that must reach a level
Where = tuple[Setting, str]  # a setting, a method

_RETURNS = ("beginning", "end", "end_median", "speed", "second_fifth", "third_fifth", "whole")


def cells(records: Iterable[RunRecord]) -> dict[Where, list[RunRecord]]:
    """Records by setting and method, each in the order of the seeds."""
    grouped: dict[Where, list[RunRecord]] = {}
    for record in sorted(records, key=lambda r: r.config["seed"]):
        where = (setting_of(record.config), record.config["method"])
        grouped.setdefault(where, []).append(record)
    return grouped


def complete(records: Iterable[RunRecord], seeds: Iterable[int]) -> list[RunRecord]:
    """Return the records of cells that have every seed, at the paper's number of iterations."""
    wanted = set(seeds)
    return [
        record
        for cell in cells(records).values()
        if {r.config["seed"] for r in cell} == wanted
        and all(_iterations(r) == ITERATIONS for r in cell)
        for record in cell
    ]


def made_on(records: Iterable[RunRecord]) -> dict[str, list[Setting]]:
    """Return the settings that were run on each device, in the order of the records."""
    devices: dict[str, dict[Setting, None]] = {}
    for record in records:
        devices.setdefault(device_of(record.config), {})[setting_of(record.config)] = None
    return {device: list(settings) for device, settings in devices.items()}


def made_on_words(records: Iterable[RunRecord]) -> str:
    """Name the settings that were not run on the CPU in a sentence; empty if all were.

    All runs of a setting are made on one device.
    """
    devices = made_on(records)
    others = {device: settings for device, settings in devices.items() if device != CPU}
    if len(devices) == 1 and others:
        return f"All runs were made with --device {next(iter(others))}. "
    return "".join(
        f"Runs made with --device {device}: {'; '.join(each.words for each in settings)}. "
        for device, settings in others.items()
    )


def score(records: Sequence[RunRecord]) -> Scores:
    """Return the numbers of each run that the claims use; a diverged run has the worst values."""
    return Scores(_rows(records))


def _rows(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return one row per run, with its device unless all were made on the CPU."""
    levels = _levels(records)
    rows = [_row(record, levels[setting_of(record.config)]) for record in records]
    if set(made_on(records)) <= {CPU}:
        return rows
    devices = [device_of(record.config) for record in records]
    return [{"device": device, **row} for device, row in zip(devices, rows, strict=True)]


def _levels(records: Sequence[RunRecord]) -> dict[Setting, float]:
    """Return, for each setting, the return that defines the speed; see ``WORDS["rounds"]``."""
    best: dict[Setting, float] = {}
    for (setting, _), cell in cells(records).items():
        ends = [_curve(r)[-max(1, len(_curve(r)) // 10) :].mean() for r in cell if not r.diverged]
        mean = float(np.mean(ends)) if len(ends) == len(cell) else -math.inf
        best[setting] = max(best.get(setting, -math.inf), mean)
    levels: dict[Setting, float] = {}
    for setting, end in best.items():
        known = ENVIRONMENTS.get(setting.environment)
        still, learned = (0.0, 0.0) if known is None else (known.still, known.learned)
        levels[setting] = still + max((end - still) / 2, (learned - still) / 10)
    return levels


def _curve(record: RunRecord) -> NDArray[np.float64]:
    return np.asarray(record.series.get("return", ()), np.float64)


def _row(record: RunRecord, level: float) -> dict[str, Any]:
    setting = setting_of(record.config)
    row: dict[str, Any] = {
        "environment": setting.environment,
        "num_directions": setting.num_directions,
        "part": setting.part,
        "method": record.config["method"],
        "seed": record.config["seed"],
        "test_trials": record.config["test_trials"],
    }
    if record.diverged:
        lost = dict.fromkeys((*_RETURNS, "last"), -math.inf)
        return {**row, **lost, "rounds": record.config["rounds"] + 1, "jumps": math.inf}
    curve = _curve(record)
    tenth, fifth = max(1, len(curve) // 10), max(1, len(curve) // 5)
    changes = np.abs(np.diff(curve))
    # A single test of 20 episodes can reach the level by easy goals, before anything is learned.
    smooth = np.convolve(curve, np.full(_ROW, 1 / _ROW), "valid") if len(curve) >= _ROW else curve
    reached = np.flatnonzero(smooth >= level)
    return {
        **row,
        "beginning": float(curve[:tenth].mean()),
        "end": float(curve[-tenth:].mean()),
        "end_median": float(np.median(curve[-tenth:])),
        "speed": float(curve[:fifth].mean()),
        "second_fifth": float(curve[fifth : 2 * fifth].mean()) if len(curve) > fifth else math.nan,
        "third_fifth": float(curve[2 * fifth : 3 * fifth].mean())
        if len(curve) > 2 * fifth
        else math.nan,
        "rounds": int(reached[0]) + len(curve) - len(smooth) + 1
        if len(reached)
        else len(curve) + 1,
        "whole": float(curve.mean()),
        "last": float(curve[-1]),
        "jumps": float(changes.mean()) if len(changes) else 0.0,
    }


def returns(records: Sequence[RunRecord]) -> list[Table]:
    """Return the test returns of every run, one file per environment, one column per test."""
    by_environment: dict[str, list[list[Any]]] = {}
    rows = _rows(records)
    names = ["device", *_HEAD] if rows and "device" in rows[0] else _HEAD
    for record, row in zip(records, rows, strict=True):
        head = [row[name] for name in names]
        tests = [f"{value:.7g}" for value in record.series.get("return", ())]
        by_environment.setdefault(row["environment"], []).append([*head, *tests])
    tables: list[Table] = []
    for environment, lines in by_environment.items():
        length = max(map(len, lines))
        columns = [*names, *(f"test {i + 1}" for i in range(length - len(names)))]
        padded = [[*row, *[""] * (length - len(row))] for row in lines]
        name = f"returns-rl-{environment}"
        tables.append(Table(name, f"Test returns, {environment}", columns, padded))
    return tables


_HEAD = ("num_directions", "part", "method", "seed", "test_trials")


def coverage(records: Sequence[RunRecord]) -> Table:
    """Settings by methods: how many of the paper's seeds, iterations and test trials were run."""
    grouped = cells(records)
    seeds = SIZES["paper"].seeds
    settings = list(dict.fromkeys((*PAPER, *(setting for setting, _ in grouped))))
    methods = list(dict.fromkeys((*paper.METHODS, *(method for _, method in grouped))))
    apart = not set(made_on(records)) <= {CPU}
    rows: list[list[Any]] = []
    for setting in settings:
        here = {method: grouped.get((setting, method), []) for method in methods}
        runs = [record for cell in here.values() for record in cell]
        rows.append(
            [
                setting.words,
                *(_finished(len(here[method]), seeds) for method in methods),
                _span({_iterations(record) for record in runs}, ITERATIONS),
                _trials(runs),
                *([", ".join(made_on(runs))] if apart else []),
            ]
        )
    whole = sum(
        min(seeds, sum(_iterations(record) == ITERATIONS for record in grouped.get(where, ())))
        for where in product(PAPER, paper.METHODS)
    )
    total = len(PAPER) * len(paper.METHODS) * seeds
    return Table(
        "rl-coverage",
        "What has been run of the paper's size",
        [
            "Setting",
            *(METHODS[method].title for method in methods),
            "iterations",
            "test trials",
            *(["device"] if apart else []),
        ],
        rows,
        f"How many seeds are finished; the paper has {seeds}. An empty field has not been run. "
        f"{whole} of the paper's {total} runs are complete, with all of their iterations. Claims "
        "are judged only on cells with all seeds and all iterations.",
    )


def _finished(count: int, wanted: int) -> str:
    if count > wanted:
        return f"{count}"
    return f"{count} of {wanted}" if count else ""


def _iterations(record: RunRecord) -> int:
    return record.config["rounds"] * record.config["iterations"]


def _trials(runs: Sequence[RunRecord]) -> str:
    usual = {record.config["test_trials"] for record in runs}
    last = {record.config.get("last_trials", 0) for record in runs} - {0}
    words = _span(usual, paper.RL_TEST_TRIALS)
    return f"{words}; last round {_span(last, paper.RL_TEST_TRIALS)}" if last else words


def _span(values: set[int], full: int) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low} of {full}" if low == high else f"{low} to {high} of {full}"
