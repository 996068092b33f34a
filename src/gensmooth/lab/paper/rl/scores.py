"""The numbers that claims are judged by, and which part of the study has been run.

Returns of different environments have different units. Margins ("competitive", "a large margin")
are shares of a fixed range of each environment, from the return of a policy that does nothing to
that of one that has learned (:data:`~gensmooth.lab.paper.rl.settings.ENVIRONMENTS`), so that no
method's failure widens the margin of the others. Only cells (a setting and a method) with every
seed and every iteration are judged.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.spec import RunRecord
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl.settings import CPU, PAPER, SIZES, Setting, device_of, setting_of
from gensmooth.lab.report.tables import Table

Kind = Literal["beginning", "end", "whole", "jumps"]

# In the words of the claims table.
WORDS: dict[Kind, str] = {
    "beginning": "mean test return over the first tenth of the rounds",
    "end": "mean test return over the last tenth of the rounds",
    "whole": "mean test return over all rounds",
    "jumps": "mean absolute change of the test return from round to round",
}

ITERATIONS = paper.RL_ROUNDS * paper.RL_ITERATIONS

Where = tuple[Setting, str]  # a setting, a method


def cells(records: Iterable[RunRecord]) -> dict[Where, list[RunRecord]]:
    """Records by setting and method, each in the order of the seeds."""
    grouped: dict[Where, list[RunRecord]] = {}
    for record in sorted(records, key=lambda r: r.config["seed"]):
        where = (setting_of(record.config), record.config["method"])
        grouped.setdefault(where, []).append(record)
    return grouped


def complete(records: Iterable[RunRecord], seeds: Iterable[int]) -> list[RunRecord]:
    """The records of cells that have every seed, at the paper's number of iterations."""
    wanted = set(seeds)
    return [
        record
        for cell in cells(records).values()
        if {r.config["seed"] for r in cell} == wanted
        and all(_iterations(r) == ITERATIONS for r in cell)
        for record in cell
    ]


def made_on(records: Iterable[RunRecord]) -> dict[str, list[Setting]]:
    """The settings that were run on each device, in the order of the records."""
    devices: dict[str, dict[Setting, None]] = {}
    for record in records:
        devices.setdefault(device_of(record.config), {})[setting_of(record.config)] = None
    return {device: list(settings) for device, settings in devices.items()}


def made_on_words(records: Iterable[RunRecord]) -> str:
    """Which settings were not run on the CPU, as a sentence; nothing if all were.

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
    """The numbers of each run that the claims use; a diverged run has the worst values."""
    return Scores(_rows(records))


def _rows(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """One row per run, with its device unless all were made on the CPU."""
    if set(made_on(records)) <= {CPU}:
        return [_row(record) for record in records]
    return [{"device": device_of(record.config), **_row(record)} for record in records]


def _row(record: RunRecord) -> dict[str, Any]:
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
        lost = dict.fromkeys(("beginning", "end", "whole", "last"), -math.inf)
        return {**row, **lost, "jumps": math.inf}
    curve = np.asarray(record.series["return"], np.float64)
    tenth = max(1, len(curve) // 10)
    changes = np.abs(np.diff(curve))
    return {
        **row,
        "beginning": float(curve[:tenth].mean()),
        "end": float(curve[-tenth:].mean()),
        "whole": float(curve.mean()),
        "last": float(curve[-1]),
        "jumps": float(changes.mean()) if len(changes) else 0.0,
    }


def returns(records: Sequence[RunRecord]) -> list[Table]:
    """The test returns of every run, one file per environment, one column per test."""
    found: dict[str, list[list[Any]]] = {}
    rows = _rows(records)
    names = ["device", *_HEAD] if rows and "device" in rows[0] else _HEAD
    for record, row in zip(records, rows, strict=True):
        head = [row[name] for name in names]
        tests = [f"{value:.7g}" for value in record.series.get("return", ())]
        found.setdefault(row["environment"], []).append([*head, *tests])
    tables: list[Table] = []
    for environment, these in found.items():
        length = max(map(len, these))
        columns = [*names, *(f"test {i + 1}" for i in range(length - len(names)))]
        padded = [[*row, *[""] * (length - len(row))] for row in these]
        name = f"returns-rl-{environment}"
        tables.append(Table(name, f"Test returns, {environment}", columns, padded))
    return tables


_HEAD = ("num_directions", "part", "method", "seed", "test_trials")


def coverage(records: Sequence[RunRecord]) -> Table:
    """Settings by methods: how many of the paper's seeds, iterations and test trials were run."""
    found = cells(records)
    seeds = SIZES["paper"].seeds
    settings = list(dict.fromkeys((*PAPER, *(setting for setting, _ in found))))
    methods = list(dict.fromkeys((*paper.METHODS, *(method for _, method in found))))
    apart = not set(made_on(records)) <= {CPU}
    rows: list[list[Any]] = []
    for setting in settings:
        here = {method: found.get((setting, method), []) for method in methods}
        runs = [record for cell in here.values() for record in cell]
        rows.append(
            [
                setting.words,
                *(_finished(len(here[method]), seeds) for method in methods),
                _span({_iterations(record) for record in runs}, ITERATIONS),
                _span({record.config["test_trials"] for record in runs}, paper.RL_TEST_TRIALS),
                *([", ".join(made_on(runs))] if apart else []),
            ]
        )
    whole = sum(
        min(seeds, sum(_iterations(record) == ITERATIONS for record in found.get(where, ())))
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
        f"Seeds that are finished, of the paper's {seeds} or more than those; an empty field has "
        f"not been run. {whole} of the paper's {total} runs are there with all of their "
        "iterations. Claims are judged on cells with all seeds and all iterations, and on no "
        "others.",
    )


def _finished(count: int, wanted: int) -> str:
    if count > wanted:
        return f"{count}"
    return f"{count} of {wanted}" if count else ""


def _iterations(record: RunRecord) -> int:
    return record.config["rounds"] * record.config["iterations"]


def _span(values: set[int], full: int) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low} of {full}" if low == high else f"{low} to {high} of {full}"
