"""Grid search as the paper does it: every pair, on seeds of its own, chosen by the final score."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from gensmooth.report.tables import Cell
from gensmooth.studies.paper import Choice
from gensmooth.studies.spec import RunRecord, RunSpec


class Size(NamedTuple):
    """What a profile changes: the size of a study, never its code.

    Attributes:
        rounds: Rounds of ten iterations.
        tuning_seeds: Seeds of the grid search.
        seeds: Seeds of the reported runs.
    """

    rounds: int
    tuning_seeds: int
    seeds: int


_FIRST_TUNING_SEED = 1
_FIRST_SEED = 1001  # disjoint from the tuning seeds for up to a thousand of those


def tuning_seeds(size: Size) -> range:
    """The seeds of the grid search."""
    return range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + size.tuning_seeds)


def reporting_seeds(size: Size, seeds: int | None) -> range:
    """The seeds of the reported runs."""
    return range(_FIRST_SEED, _FIRST_SEED + (size.seeds if seeds is None else seeds))


def tuning_specs(
    study: str,
    cases: Iterable[Mapping[str, Any]],
    spacings: Sequence[float],
    rates: Sequence[float],
    seeds: Iterable[int],
) -> list[RunSpec]:
    """Every case with every (spacing, learning rate) of the grid, on every seed."""
    grid = list(product(spacings, rates, seeds))
    return [
        RunSpec(study, {**case, "spacing": c, "learning_rate": rate, "seed": seed})
        for case in cases
        for c, rate, seed in grid
    ]


def reporting_specs(
    study: str,
    cases: Iterable[Mapping[str, Any]],
    cells: Sequence[Cell],
    where: Callable[[Mapping[str, Any]], str],
    seeds: Iterable[int],
) -> list[RunSpec]:
    """Every case that has a choice, with it, on every seed."""
    choices = {(c.setting, c.method): c.chosen for c in cells if c.chosen is not None}
    specs: list[RunSpec] = []
    for case, seed in product(cases, seeds):
        choice = choices.get((where(case), case["method"]))
        if choice is not None:
            config = {**case, "spacing": choice[0], "learning_rate": choice[1], "seed": seed}
            specs.append(RunSpec(study, config))
    return specs


def choose(
    records: Iterable[RunRecord], group: Callable[[Mapping[str, Any]], Hashable]
) -> dict[Hashable, tuple[Choice | None, float]]:
    """The best ``(spacing, learning rate)`` of each group, with its mean final score.

    A group in which every choice diverged on some seed has no choice.
    """
    scores: dict[Hashable, dict[Choice, list[float]]] = {}
    for record in records:
        choice = (record.config["spacing"], record.config["learning_rate"])
        scores.setdefault(group(record.config), {}).setdefault(choice, []).append(record.final)
    best: dict[Hashable, tuple[Choice | None, float]] = {}
    for name, choices in scores.items():
        means = {choice: sum(found) / len(found) for choice, found in choices.items()}
        choice = min(means, key=lambda c: (means[c], c))
        best[name] = (choice, means[choice]) if math.isfinite(means[choice]) else (None, math.inf)
    return best


def paper_cells(
    settings: Iterable[tuple[str, str, Choice | None]],
) -> list[Cell]:
    """The paper's choices as they are: (words of the setting, method, choice)."""
    return [Cell(words, name, choice, choice, math.nan) for words, name, choice in settings]
