"""The pilot, one setting, against best-of-grid: linear regression and the noisy benchmark."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gensmooth.methods import METHODS
from gensmooth.report.tables import Cell, Table
from gensmooth.studies import paper
from gensmooth.studies.dfo.study import GRID as BENCHMARK
from gensmooth.studies.linreg.study import GRID as REGRESSION
from gensmooth.studies.spec import Options, Outcome, Profile, RunRecord, RunSpec, Study
from gensmooth.studies.untuned.claims import PILOT, judge, score, tables
from gensmooth.studies.verdicts import Scores

if TYPE_CHECKING:
    from gensmooth.report.curves import Drawn

_SEEDS: Mapping[Profile, int] = {"quick": 3, "paper": 20}
_GRIDS = (BENCHMARK, REGRESSION)


def _as_theirs(options: Options) -> Options:
    """The options of the two studies whose runs these are."""
    return replace(
        options,
        methods=options.methods or paper.METHODS,
        seeds=options.seeds or _SEEDS[options.profile],
        offline=False,
    )


def _tuning(options: Options) -> list[RunSpec]:
    return [spec for grid in _GRIDS for spec in grid.tuning(_as_theirs(options))]


def _select(options: Options, records: Sequence[RunRecord]) -> list[Cell]:
    noisy = [record for record in records if "objective" in record.config]
    rest = [record for record in records if "objective" not in record.config]
    found = zip(_GRIDS, (noisy, rest), strict=True)
    return [cell for grid, theirs in found for cell in grid.select(_as_theirs(options), theirs)]


def _reporting(options: Options, cells: Sequence[Cell]) -> list[RunSpec]:
    """The pilot in every setting, and every method that has a choice, on the same seeds."""
    theirs = _as_theirs(options)
    once = replace(theirs, methods=paper.METHODS[:1])
    pilot = [
        RunSpec("untuned", {**case, "method": PILOT, "seed": seed})
        for grid in _GRIDS
        for case in grid.cases(once)
        for seed in grid.seeds(theirs)
    ]
    return [*pilot, *(spec for grid in _GRIDS for spec in grid.reporting(theirs, cells))]


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    from gensmooth.studies.untuned import model

    began = time.perf_counter()
    run = model.benchmark if "objective" in config else model.regression
    arguments = {k: v for k, v in config.items() if k not in ("method", "dataset_size")}
    result = run(**arguments)
    series = {name: values.tolist() for name, values in result.series.items()}
    return RunRecord(config, series, result.final, result.diverged, time.perf_counter() - began)


def _score(options: Options, records: Sequence[RunRecord]) -> Scores:  # noqa: ARG001
    return score(records)


def _tables(options: Options, records: Sequence[RunRecord]) -> list[Table]:  # noqa: ARG001
    return tables(score(records))


def _prose(options: Options, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    rounds = [grid.sizes[options.profile].rounds for grid in _GRIDS]
    return (
        "Nothing is chosen for the pilot: gs.minimize(fun, x0) with its defaults, told how samples "
        "are drawn and how many evaluations there are. Every other method has the best spacing and "
        "learning rate of the paper's grid in each setting, by the grid searches of linreg and "
        "dfo, whose evaluations are not counted. All start from the same θ₀ and have the same "
        f"number of evaluations: 2L in each of {10 * rounds[0]} iterations on the noisy benchmark, "
        f"(L + 1)N in each of {10 * rounds[1]} on linear regression. The pilot's point is the one "
        "that it recommends, scored as theirs: the objective without noise, or the test loss. The "
        "pilot's constants were chosen on other seeds, with other random numbers, than those "
        "reported. “Best of the grid” is the best of all six methods in the runs reported, which "
        "favours them. A method all of whose choices diverge has no run: the worst outcome."
    )


def _facts(options: Options, records: Sequence[RunRecord]) -> dict[str, Any]:  # noqa: ARG001
    theirs = _as_theirs(options)
    return {
        "methods": ", ".join(METHODS[name].title for name in theirs.methods or ()),
        "tuning seeds": {grid.study: list(grid.tuning_seeds(theirs)) for grid in _GRIDS},
        "reporting seeds": list(BENCHMARK.seeds(theirs)),
    }


def _draw(outcome: Outcome) -> "Drawn":
    from gensmooth.studies.untuned.figures import draw

    return draw(outcome)


def _smaller(options: Options) -> str | None:
    theirs = _as_theirs(options)
    rounds = [
        f"{10 * grid.sizes[options.profile].rounds} of {10 * grid.sizes['paper'].rounds} iterations"
        for grid in _GRIDS
        if grid.sizes[options.profile].rounds < grid.sizes["paper"].rounds
    ]
    seeds, wanted = len(BENCHMARK.seeds(theirs)), BENCHMARK.sizes["paper"].seeds
    less = [" and ".join(rounds)] if rounds else []
    less += [f"{seeds} of {wanted} seeds"] if seeds < wanted else []
    return ", ".join(less) or None


STUDY = Study(
    name="untuned",
    title="Untuned: the pilot against best-of-grid",
    prose=_prose,
    reporting=_reporting,
    execute=_execute,
    tuning=_tuning,
    select=_select,
    score=_score,
    judge=judge,
    draw=_draw,
    tables=_tables,
    facts=_facts,
    smaller=_smaller,
)
