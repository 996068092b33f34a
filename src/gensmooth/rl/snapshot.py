"""A training's state as JSON and arrays, and back, without pickle: what checkpoints hold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth.checkpoint import trees
from gensmooth.checkpoint.plain import number, plain, whole
from gensmooth.rl.normalize import Statistics
from gensmooth.rl.trainer import Best, Trainer, TrainState
from gensmooth.search import SearchState

Array = NDArray[Any]

_DIRECTIONS = "directions."


def pack(trainer: Trainer, state: TrainState) -> tuple[dict[str, Any], dict[str, Array]]:
    """A training's state as plain JSON and named arrays."""
    search, best = state.search, state.best
    skeleton, arrays = trees.pack(search.optimizer, "optimizer")
    directions = trainer.search.directions.pack(search.directions)
    meta = {
        "step": search.step,
        "seed": search.seed,
        "env_steps": state.env_steps,
        "observations": state.statistics.seen,
        "optimizer": skeleton,
        "best": {
            "mean_return": plain(best.mean_return),
            "step": best.step,
            "observations": best.statistics.seen,
        },
    }
    arrays = {
        "x": search.x,
        "mean": state.statistics.mean,
        "m2": state.statistics.m2,
        "best_x": best.parameters,
        "best_mean": best.statistics.mean,
        "best_m2": best.statistics.m2,
        **arrays,
        **{_DIRECTIONS + name: array for name, array in directions.items()},
    }
    return meta, arrays


def unpack(
    trainer: Trainer, meta: Mapping[str, Any], arrays: Mapping[str, Array], seed: int
) -> TrainState:
    """The state that was packed.

    Raises:
        ValueError: When it is not of this training; as are ``TypeError`` and ``LookupError``.
    """
    if meta["seed"] != seed:
        raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {seed}")
    x0 = trainer.policy.initial(seed)
    size = trainer.info.observation_size
    own = {
        name.removeprefix(_DIRECTIONS): array
        for name, array in arrays.items()
        if name.startswith(_DIRECTIONS)
    }
    step, best = whole(meta["step"]), meta["best"]
    search = trainer.search
    return TrainState(
        SearchState(
            x=_vector(arrays, "x", x0.size),
            step=step,
            evaluations=step * len(search.plan),
            seed=seed,
            optimizer=trees.unpack(
                meta["optimizer"], arrays, search.optimizer.init(x0), "optimizer"
            ),
            directions=search.directions.unpack(own, x0.size, x0.dtype),
        ),
        Statistics(
            whole(meta["observations"]), _vector(arrays, "mean", size), _vector(arrays, "m2", size)
        ),
        whole(meta["env_steps"]),
        Best(
            number(best["mean_return"]),
            whole(best["step"]),
            _vector(arrays, "best_x", x0.size),
            Statistics(
                whole(best["observations"]),
                _vector(arrays, "best_mean", size),
                _vector(arrays, "best_m2", size),
            ),
        ),
    )


def _vector(arrays: Mapping[str, Array], name: str, size: int) -> Array:
    array = arrays[name]
    if array.shape != (size,) or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"{name} does not fit")
    return array
