"""The untuned pilot against the best settings of a grid, on regression and the noisy benchmark."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.options import GridOptions, Profile, option
from gensmooth.lab.experiments.spec import RunRecord, RunSpec, Study
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.dfo.study import GRID as BENCHMARK
from gensmooth.lab.paper.dfo.study import OBJECTIVE_NAMES, DfoOptions
from gensmooth.lab.paper.linreg.study import GRID as REGRESSION
from gensmooth.lab.paper.linreg.study import LinregOptions
from gensmooth.lab.paper.untuned.claims import PILOT, judge, score, tables
from gensmooth.lab.report.tables import Cell


@final
@dataclass(frozen=True)
class UntunedOptions(GridOptions):
    """Options of the untuned pilot."""

    objectives: tuple[str, ...] | None = option(
        "The objectives, such as sphere or nevergrad:rastrigin.", accepts=OBJECTIVE_NAMES
    )


_SEEDS: Mapping[Profile, int] = {"quick": 3, "paper": 20}
_GRIDS = (BENCHMARK, REGRESSION)


def _benchmark(options: UntunedOptions) -> DfoOptions:
    """Return the options of the study `dfo`, whose runs on the noisy benchmark are used here."""
    return DfoOptions(**_shared(options), objectives=options.objectives)


def _regression(options: UntunedOptions) -> LinregOptions:
    """Return the options of the study `linreg`, whose runs are used here."""
    return LinregOptions(**_shared(options))


def _shared(options: UntunedOptions) -> dict[str, Any]:
    return {
        "profile": options.profile,
        "seeds": options.seeds or _SEEDS[options.profile],
        "hyperparameters": options.hyperparameters,
        "methods": options.methods or paper.METHODS,
    }


def _tuning(options: UntunedOptions) -> list[RunSpec]:
    benchmark, regression = _benchmark(options), _regression(options)
    return [*BENCHMARK.tuning(benchmark), *REGRESSION.tuning(regression)]


def _select(options: UntunedOptions, records: Sequence[RunRecord]) -> list[Cell]:
    noisy = [record for record in records if "objective" in record.config]
    rest = [record for record in records if "objective" not in record.config]
    benchmark, regression = _benchmark(options), _regression(options)
    return [*BENCHMARK.select(benchmark, noisy), *REGRESSION.select(regression, rest)]


def _reporting(options: UntunedOptions, cells: Sequence[Cell]) -> list[RunSpec]:
    """List the runs of the pilot in every setting, and of every method that has a choice."""
    benchmark, regression = _benchmark(options), _regression(options)
    once = {"methods": paper.METHODS[:1]}
    cases = [
        *BENCHMARK.cases(replace(benchmark, **once)),
        *REGRESSION.cases(replace(regression, **once)),
    ]
    seeds = BENCHMARK.seeds(benchmark)
    pilot = [
        RunSpec("untuned", {**case, "method": PILOT, "seed": seed})
        for case in cases
        for seed in seeds
    ]
    others = [*BENCHMARK.reporting(benchmark, cells), *REGRESSION.reporting(regression, cells)]
    return [*pilot, *others]


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    from gensmooth.lab.paper.untuned import model

    began = time.perf_counter()
    run = model.benchmark if "objective" in config else model.regression
    result = run(**{k: v for k, v in config.items() if k not in ("method", "dataset_size")})
    series = {name: values.tolist() for name, values in result.series.items()}
    return RunRecord(config, series, result.final, result.diverged, time.perf_counter() - began)


def _prose(options: UntunedOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    rounds = [grid.sizes[options.profile].rounds for grid in _GRIDS]
    return (
        "Nothing is chosen for the pilot: it is gs.minimize(fun, x0) with its defaults, and knows "
        "only how samples are drawn and how many evaluations there are. Every other method has the "
        "best spacing and learning rate of the paper's grid in each setting, by the grid searches "
        "of linreg and dfo, whose evaluations are not counted. All start from the same θ₀ and have "
        f"the same number of evaluations: 2L in each of {10 * rounds[0]} iterations on the noisy "
        f"benchmark, (L + 1)N in each of {10 * rounds[1]} on linear regression. The pilot's point "
        "is the one that it recommends, scored like the others: the objective without noise, or "
        "the test loss. The pilot's constants were chosen with other seeds and random numbers than "
        "those reported. “Best of the grid” is the best of all six methods in the runs reported, "
        "which favours them. A method all of whose choices diverge has no run, and counts as worst."
    )


def _facts(options: UntunedOptions, records: Sequence[RunRecord]) -> dict[str, Any]:  # noqa: ARG001
    benchmark, regression = _benchmark(options), _regression(options)
    return {
        "methods": ", ".join(METHODS[name].title for name in benchmark.methods or ()),
        "tuning seeds": {
            BENCHMARK.study: list(BENCHMARK.tuning_seeds(benchmark)),
            REGRESSION.study: list(REGRESSION.tuning_seeds(regression)),
        },
        "reporting seeds": list(BENCHMARK.seeds(benchmark)),
    }


def _smaller(options: UntunedOptions) -> str | None:
    rounds = [
        f"{10 * grid.sizes[options.profile].rounds} of {10 * grid.sizes['paper'].rounds} iterations"
        for grid in _GRIDS
        if grid.sizes[options.profile].rounds < grid.sizes["paper"].rounds
    ]
    seeds, wanted = len(BENCHMARK.seeds(_benchmark(options))), BENCHMARK.sizes["paper"].seeds
    less = [" and ".join(rounds)] if rounds else []
    less += [f"{seeds} of {wanted} seeds"] if seeds < wanted else []
    return ", ".join(less) or None


STUDY = Study(
    name="untuned",
    title="Untuned: the pilot against best-of-grid",
    prose=_prose,
    reporting=_reporting,
    execute=_execute,
    options=UntunedOptions,
    tuning=_tuning,
    select=_select,
    score=lambda _, records: score(records),
    judge=judge,
    draw="gensmooth.lab.paper.untuned.figures:draw",
    tables=lambda _, records: tables(score(records)),
    facts=_facts,
    smaller=_smaller,
)
