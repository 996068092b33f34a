"""Grid search as in the paper: all pairs on tuning seeds, compared by their mean final score."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Generic, NamedTuple, TypeVar

from gensmooth.lab.experiments.options import GridOptions, Profile
from gensmooth.lab.experiments.spec import RunRecord, RunSpec
from gensmooth.lab.report.tables import Cell

_FIRST_TUNING_SEED = 1
_FIRST_SEED = 1001  # disjoint from up to a thousand tuning seeds

Config = Mapping[str, Any]
SpacingAndRate = tuple[float, float]
G = TypeVar("G", bound=GridOptions)


class Size(NamedTuple):
    """The size of a study, which is the only thing that a profile changes.

    Attributes:
        rounds: Rounds of ten iterations.
        tuning_seeds: Seeds of the grid search.
        seeds: Seeds of the reported runs.
    """

    rounds: int
    tuning_seeds: int
    seeds: int


class Grid(NamedTuple, Generic[G]):
    """The runs of a study whose methods have a spacing and a learning rate in every setting.

    Attributes:
        study: The study's name.
        spacings: The spacings of the grid.
        rates: The learning rates of the grid.
        sizes: The size of each profile.
        cases: Settings × methods, each as a part of a run's configuration.
        where: Describes the setting of a configuration.
        paper: Returns the paper's choice for a configuration, if it has one.
    """

    study: str
    spacings: Sequence[float]
    rates: Sequence[float]
    sizes: Mapping[Profile, Size]
    cases: Callable[[G], Iterable[Config]]
    where: Callable[[Config], str]
    paper: Callable[[Config], SpacingAndRate | None]

    def smaller(self, options: G) -> str | None:
        """Return how the runs are smaller than the paper's, in words; ``None`` if they are not."""
        ours, theirs = self.sizes[options.profile].rounds, self.sizes["paper"].rounds
        seeds, wanted = len(self.seeds(options)), self.sizes["paper"].seeds
        less = [f"{10 * ours} of {10 * theirs} iterations"] if ours < theirs else []
        less += [f"{seeds} of {wanted} seeds"] if seeds < wanted else []
        return ", ".join(less) or None

    def tuning_seeds(self, options: G) -> range:
        """Return the seeds of the grid search."""
        number = self.sizes[options.profile].tuning_seeds
        return range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + number)

    def seeds(self, options: G) -> range:
        """Return the seeds of the reported runs."""
        number = self.sizes[options.profile].seeds if options.seeds is None else options.seeds
        return range(_FIRST_SEED, _FIRST_SEED + number)

    def tuning(self, options: G) -> list[RunSpec]:
        """Return every case with every pair of the grid, on every tuning seed."""
        if options.hyperparameters == "paper":
            return []
        grid = list(product(self.spacings, self.rates, self.tuning_seeds(options)))
        return [
            RunSpec(self.study, {**case, "spacing": c, "learning_rate": rate, "seed": seed})
            for case in self.cases(options)
            for c, rate, seed in grid
        ]

    def select(self, options: G, records: Sequence[RunRecord]) -> list[Cell]:
        """Return the best pair of every case and the paper's; without a search, the paper's."""
        best = choose(records, lambda config: (self.where(config), config["method"]))
        cells: list[Cell] = []
        for case in self.cases(options):
            where, known = (self.where(case), case["method"]), self.paper(case)
            chosen = (known, math.nan)
            if options.hyperparameters != "paper":
                chosen = best.get(where, (None, math.nan))  # its runs may be missing
            cells.append(Cell(*where, chosen[0], known, chosen[1]))
        return cells

    def reporting(self, options: G, cells: Sequence[Cell]) -> list[RunSpec]:
        """Return every case that has a choice, with this choice, on every seed."""
        choices = {(c.setting, c.method): c.chosen for c in cells if c.chosen is not None}
        specs: list[RunSpec] = []
        for case, seed in product(self.cases(options), self.seeds(options)):
            choice = choices.get((self.where(case), case["method"]))
            if choice is not None:
                config = {**case, "spacing": choice[0], "learning_rate": choice[1], "seed": seed}
                specs.append(RunSpec(self.study, config))
        return specs

    def facts(self, options: G) -> dict[str, Any]:
        """Return the seeds, for the provenance box."""
        return {
            "tuning seeds": list(self.tuning_seeds(options)),
            "reporting seeds": list(self.seeds(options)),
        }


def choose(
    records: Iterable[RunRecord], group: Callable[[Mapping[str, Any]], Hashable]
) -> dict[Hashable, tuple[SpacingAndRate | None, float]]:
    """Return the best ``(spacing, learning rate)`` of each group, with its mean final score.

    A group in which every choice diverged on some seed has no choice.
    """
    scores: dict[Hashable, dict[SpacingAndRate, list[float]]] = {}
    for record in records:
        choice = (record.config["spacing"], record.config["learning_rate"])
        scores.setdefault(group(record.config), {}).setdefault(choice, []).append(record.final)
    best: dict[Hashable, tuple[SpacingAndRate | None, float]] = {}
    for name, choices in scores.items():
        means = {choice: sum(finals) / len(finals) for choice, finals in choices.items()}
        choice = min(means, key=lambda c: (means[c], c))
        best[name] = (choice, means[choice]) if math.isfinite(means[choice]) else (None, math.inf)
    return best
