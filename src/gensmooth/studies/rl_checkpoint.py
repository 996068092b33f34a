"""The checkpoint of a run of the reinforcement-learning study: one file, whole or not there."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gensmooth.checkpoint import CheckpointError, container, trees
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.trainer import Best, Trainer, TrainState
from gensmooth.search import SearchState
from gensmooth.studies.rl_run import Progress

_DIRECTIONS = "directions."


def save(path: Path, trainer: Trainer, config: Mapping[str, Any], progress: Progress) -> None:
    """Write a checkpoint. That it cannot be written must not end the run: it is then just older."""
    state = progress.state
    skeleton, arrays = trees.pack(state.search.optimizer, "optimizer")
    directions = trainer.search.directions.pack(state.search.directions)
    meta = {
        "config": dict(config),
        "step": state.search.step,
        "evaluations": state.search.evaluations,
        "optimizer": skeleton,
        "observations": state.statistics.seen,
        "env_steps": state.env_steps,
        "series": {name: [value.hex() for value in s] for name, s in progress.series.items()},
        "seconds": progress.seconds,
        "diverged": progress.diverged,
    }
    arrays = {
        **arrays,
        "x": state.search.x,
        "mean": state.statistics.mean,
        "m2": state.statistics.m2,
        **{_DIRECTIONS + name: array for name, array in directions.items()},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        container.write(path, meta, arrays)
    except OSError:
        return


def load(path: Path, trainer: Trainer, config: Mapping[str, Any]) -> Progress | None:
    """The progress in a checkpoint; ``None`` if there is none that can be used."""
    try:
        meta, arrays = container.read(path)
        if meta["config"] != json.loads(json.dumps(dict(config))):
            return None
        return _unpacked(meta, arrays, trainer, config["seed"])
    except (OSError, CheckpointError, LookupError, TypeError, ValueError):
        return None


def _unpacked(
    meta: Mapping[str, Any], arrays: Mapping[str, Any], trainer: Trainer, seed: int
) -> Progress:
    search, x = trainer.search, arrays["x"]
    own = {
        name.removeprefix(_DIRECTIONS): array
        for name, array in arrays.items()
        if name.startswith(_DIRECTIONS)
    }
    statistics = Statistics(meta["observations"], arrays["mean"], arrays["m2"])
    state = TrainState(
        SearchState(
            x=x,
            step=meta["step"],
            evaluations=meta["evaluations"],
            seed=seed,
            optimizer=trees.unpack(
                meta["optimizer"], arrays, search.optimizer.init(x), "optimizer"
            ),
            directions=search.directions.unpack(own, x.size, x.dtype),
        ),
        statistics,
        meta["env_steps"],
        Best(-math.inf, 0, x, statistics),  # which policy was the best is not recorded here
    )
    series = {name: [float.fromhex(v) for v in values] for name, values in meta["series"].items()}
    return Progress(state, series, meta["seconds"], meta["diverged"])
