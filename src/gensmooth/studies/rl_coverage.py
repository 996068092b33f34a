"""Which part of the paper's size has been run, cell by cell; only whole cells are judged."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from gensmooth.methods import METHODS
from gensmooth.studies import paper, paper_rl
from gensmooth.studies.rl_settings import PAPER, SIZES, Setting, setting_of
from gensmooth.studies.spec import Record, Table

ITERATIONS = paper_rl.ROUNDS * paper_rl.ITERATIONS

Where = tuple[Setting, str]  # a setting, a method


def cells(records: Iterable[Record]) -> dict[Where, list[Record]]:
    """Records by setting and method, each in the order of the seeds."""
    found: dict[Where, list[Record]] = {}
    for record in sorted(records, key=lambda r: r.config["seed"]):
        where = (setting_of(record.config), record.config["method"])
        found.setdefault(where, []).append(record)
    return found


def complete(records: Iterable[Record], seeds: Iterable[int]) -> list[Record]:
    """The records of cells that have every seed, at the paper's number of iterations."""
    wanted = set(seeds)
    return [
        record
        for found in cells(records).values()
        if {r.config["seed"] for r in found} == wanted
        and all(_iterations(r) == ITERATIONS for r in found)
        for record in found
    ]


def coverage(records: Sequence[Record]) -> Table:
    """Settings by methods: how many of the paper's seeds, iterations and test trials were run."""
    found = cells(records)
    seeds = SIZES["paper"].seeds
    settings = list(dict.fromkeys((*PAPER, *(setting for setting, _ in found))))
    methods = list(dict.fromkeys((*paper.METHODS, *(method for _, method in found))))
    rows: list[list[Any]] = []
    for setting in settings:
        here = {method: found.get((setting, method), []) for method in methods}
        runs = [record for cell in here.values() for record in cell]
        rows.append(
            [
                setting.words,
                *(f"{len(here[m])} of {seeds}" if here[m] else "" for m in methods),
                _span({_iterations(record) for record in runs}, ITERATIONS),
                _span({record.config["test_trials"] for record in runs}, paper_rl.TEST_TRIALS),
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
        ],
        rows,
        f"Seeds that are finished, of the paper's {seeds}; an empty field has not been run. "
        f"{whole} of the paper's {total} runs are there with all of their iterations. Claims are "
        "judged on cells with all seeds and all iterations, and on no others.",
    )


def _iterations(record: Record) -> int:
    return record.config["rounds"] * record.config["iterations"]


def _span(values: set[int], full: int) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low} of {full}" if low == high else f"{low} to {high} of {full}"
