"""The paper's linear regression: gradient error and test loss for nine settings of (L, N)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, final

from gensmooth.directions import METHODS, named
from gensmooth.lab.experiments.grid import Grid, Size, SpacingAndRate
from gensmooth.lab.experiments.options import GridOptions, Profile, is_flag, option
from gensmooth.lab.experiments.spec import RunRecord, Study
from gensmooth.lab.experiments.verdicts import Scores
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.linreg.claims import judge
from gensmooth.lab.paper.linreg.scores import PLAIN, SETTINGS, SHRUNK, score


@final
@dataclass(frozen=True)
class LinregOptions(GridOptions):
    """Options of linear regression."""

    offline: bool = option("A fixed data set and mini-batches.", default=False, accepts=is_flag)


_SIZES: Mapping[Profile, Size] = {
    "quick": Size(rounds=30, tuning_seeds=2, seeds=5),
    "paper": Size(100, 3, 5),
}
_DIM, _ITERATIONS, _DATASET = 100, 10, 1000
_NAMES = {"mse": "mse", "test_loss": "loss", "predicted_mse": "predicted", "lemma_mse": "lemma"}


def _methods(options: LinregOptions) -> tuple[str, ...]:
    return options.methods or (*PLAIN, *SHRUNK)


def _cases(options: LinregOptions) -> Iterator[dict[str, Any]]:
    """Settings × methods, each as a part of a run's configuration."""
    size = _SIZES[options.profile]
    for (number, samples), name in product(SETTINGS, _methods(options)):
        yield {
            "method": name,
            "num_directions": number,
            "num_samples": samples,
            "dim": _DIM,
            "rounds": size.rounds,
            "iterations": _ITERATIONS,
            "dataset_size": _DATASET if options.offline else None,
        }


def _where(config: Mapping[str, Any]) -> str:
    return f"L={config['num_directions']}, N={config['num_samples']}"


def _paper(config: Mapping[str, Any]) -> SpacingAndRate | None:
    setting = (config["num_directions"], config["num_samples"])
    return paper.LINREG.get(config["method"], {}).get(setting)


GRID = Grid("linreg", (0.01, 0.1), (0.001, 0.01, 0.1), _SIZES, _cases, _where, _paper)


def _execute(config: Mapping[str, Any], scratch: Path) -> RunRecord:  # noqa: ARG001
    from gensmooth.lab.paper.linreg import model

    began = time.perf_counter()
    arguments = {key: value for key, value in config.items() if key != "method"}
    result = model.run(named(config["method"]), **arguments)
    series = {
        ours: result.series[theirs].tolist()
        for theirs, ours in _NAMES.items()
        if theirs in result.series
    }
    return RunRecord(config, series, result.final, result.diverged, time.perf_counter() - began)


def cost(config: Mapping[str, Any]) -> float:
    """Estimate how many seconds a run takes on one core."""
    number, samples = config["num_directions"], config["num_samples"]
    return 0.01 + config["rounds"] * config["iterations"] * 1e-6 * (
        4 + 0.3 * number + 0.16 * samples
    )


def _score(options: LinregOptions, records: Sequence[RunRecord]) -> Scores:
    return Scores() if options.offline else score(records)  # the claims are about online runs


def _prose(options: LinregOptions, records: Sequence[RunRecord]) -> str:  # noqa: ARG001
    where = (
        f"a fixed data set of {_DATASET} points, mini-batches of N (the offline variant)"
        if options.offline
        else "N new data points per iteration (online, as in the paper)"
    )
    return (
        f"d = {_DIM}, {_SIZES[options.profile].rounds} rounds of {_ITERATIONS} SGD iterations, "
        f"{where}; a test set of 1000 points. The error of each estimate is measured against the "
        "exact gradient, not a Monte Carlo one. Start, data and test set depend on the seed alone, "
        "so methods are compared on the same data. The exact prediction (shared samples, finite "
        "spacing) and the paper's Lemma use the closed form of tr Var[∇f] at the parameters that "
        "the run visited."
    )


def _facts(options: LinregOptions, records: Sequence[RunRecord]) -> dict[str, Any]:  # noqa: ARG001
    return {
        "settings (L, N)": len(SETTINGS),
        "methods": ", ".join(METHODS[name].title for name in _methods(options)),
        "rounds": _SIZES[options.profile].rounds,
        **GRID.facts(options),
    }


STUDY = Study(
    name="linreg",
    title="Linear regression",
    prose=_prose,
    reporting=GRID.reporting,
    execute=_execute,
    options=LinregOptions,
    tuning=GRID.tuning,
    select=GRID.select,
    score=_score,
    judge=judge,
    draw="gensmooth.lab.paper.linreg.figures:draw",
    facts=_facts,
    cost=cost,
    smaller=GRID.smaller,
)
