"""The paper's noisy DFO benchmark: four Nevergrad functions, three settings of (d, L)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, final

from gensmooth.directions import METHODS, named
from gensmooth.lab.experiments.grid import Grid, Size, SpacingAndRate
from gensmooth.lab.experiments.options import GridOptions, Profile, list_of, matches, option
from gensmooth.lab.experiments.spec import RunRecord, Study
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.dfo.claims import judge, score

OBJECTIVE_NAMES = list_of(matches(r"(nevergrad:)?\w{1,50}"))  # accepted from a file


@final
@dataclass(frozen=True)
class DfoOptions(GridOptions):
    """Options of the noisy benchmark."""

    objectives: tuple[str, ...] | None = option(
        "The objectives, such as sphere or nevergrad:rastrigin.", accepts=OBJECTIVE_NAMES
    )


SETTINGS = ((10, 1), (100, 10), (100, 100))  # (d, L)
OBJECTIVES = ("sphere", "rosenbrock", "cigar", "hm")
_SIZES: Mapping[Profile, Size] = {
    "quick": Size(rounds=20, tuning_seeds=1, seeds=5),
    "paper": Size(100, 3, 5),
}
_ITERATIONS, _NOISE = 10, 0.1


def _methods(options: DfoOptions) -> tuple[str, ...]:
    return options.methods or paper.METHODS


def _objectives(options: DfoOptions) -> tuple[str, ...]:
    for name in options.objectives or ():
        if name not in OBJECTIVES and not name.startswith("nevergrad:"):
            raise ValueError(
                f"There is no objective {name!r}. Known: {', '.join(OBJECTIVES)}, and "
                "nevergrad:NAME for any of Nevergrad's own."
            )
    return options.objectives or OBJECTIVES


def _cases(options: DfoOptions) -> Iterator[dict[str, Any]]:
    """Objectives × settings × methods, each as a part of a run's configuration."""
    size = _SIZES[options.profile]
    for objective, (dim, number), name in product(
        _objectives(options), SETTINGS, _methods(options)
    ):
        yield {
            "objective": objective,
            "method": name,
            "dim": dim,
            "num_directions": number,
            "rounds": size.rounds,
            "iterations": _ITERATIONS,
            "noise_level": _NOISE,
        }


def _where(config: Mapping[str, Any]) -> str:
    return f"{config['objective']}, d={config['dim']}, L={config['num_directions']}"


def _paper(config: Mapping[str, Any]) -> SpacingAndRate | None:
    table = paper.DFO.get(config["objective"].removeprefix("nevergrad:"), {})
    return table.get(config["method"], {}).get((config["dim"], config["num_directions"]))


_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
GRID = Grid("dfo", (0.01, 0.1), _RATES, _SIZES, _cases, _where, _paper)


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    from gensmooth.lab.paper.dfo import model

    began = time.perf_counter()
    arguments = {key: value for key, value in config.items() if key not in ("method", "objective")}
    result = model.run(config["objective"], named(config["method"]), **arguments)
    series = {"objective": result.series["objective"].tolist()} if len(result.rounds) else {}
    return RunRecord(config, series, result.final, result.diverged, time.perf_counter() - began)


def cost(config: Mapping[str, Any]) -> float:
    """Estimate how many seconds a run takes on one core.

    A run that diverges takes less.
    """
    number, dim = config["num_directions"], config["dim"]
    microseconds = 1.5 + 0.0085 * number * dim
    if config["method"] == "orthogonal-es":
        microseconds += 10 + 0.0013 * number**2 * dim
    elif config["method"] == "guided-es":
        microseconds += 20 + 0.013 * number * dim
    return 0.01 + config["rounds"] * config["iterations"] * 1e-6 * microseconds


def _prose(options: DfoOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    return (
        "Nevergrad's functions without rotation or translation, its own noise model at level "
        f"{_NOISE}: each value is f(x) + {_NOISE} · N(0, 1) · (f(x + N(0, I)) − f(x)) with "
        f"fresh draws. θ₀ ~ N(0, I), {_SIZES[options.profile].rounds} rounds of {_ITERATIONS} SGD "
        "iterations, each of the L directions with its own two values (2L evaluations per "
        "iteration). Shown is the objective without noise at the end of each round."
    )


def _facts(options: DfoOptions, records: Sequence[RunRecord]) -> dict[str, Any]:  # noqa: ARG001
    return {
        "settings (d, L)": [list(setting) for setting in SETTINGS],
        "objectives": list(_objectives(options)),
        "methods": ", ".join(METHODS[name].title for name in _methods(options)),
        "rounds": _SIZES[options.profile].rounds,
        **GRID.facts(options),
    }


STUDY = Study(
    name="dfo",
    title="Noisy DFO benchmark",
    prose=_prose,
    reporting=GRID.reporting,
    execute=_execute,
    options=DfoOptions,
    tuning=GRID.tuning,
    select=GRID.select,
    score=lambda _, records: score(records),
    judge=judge,
    draw="gensmooth.lab.paper.dfo.figures:draw",
    facts=_facts,
    cost=cost,
    smaller=GRID.smaller,
)
