"""The checkpoint of a run of the reinforcement-learning study: one file, whole or not there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gensmooth.checkpoint import CheckpointError, container
from gensmooth.rl import snapshot
from gensmooth.rl.trainer import Trainer
from gensmooth.studies.rl.run import Progress


def save(path: Path, trainer: Trainer, config: Mapping[str, Any], progress: Progress) -> None:
    """Write a checkpoint. That it cannot be written must not end the run: it is then just older."""
    state, arrays = snapshot.pack(trainer, progress.state)
    meta = {
        "config": dict(config),
        "state": state,
        "series": {name: [value.hex() for value in s] for name, s in progress.series.items()},
        "seconds": progress.seconds,
        "diverged": progress.diverged,
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
        state = snapshot.unpack(trainer, meta["state"], arrays, config["seed"])
        series = {name: [float.fromhex(v) for v in row] for name, row in meta["series"].items()}
        return Progress(state, series, float(meta["seconds"]), bool(meta["diverged"]))
    except (OSError, CheckpointError, LookupError, TypeError, ValueError):
        return None
