"""Everything a run needs to go on, as the contents of a checkpoint."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth.checkpoint import container, trees
from gensmooth.checkpoint.config import Limits
from gensmooth.checkpoint.config_file import limits_from
from gensmooth.checkpoint.files import CheckpointError
from gensmooth.checkpoint.metrics import Position, faults_from
from gensmooth.checkpoint.plain import number, plain, whole
from gensmooth.search import RandomSearch, SearchState

Array = NDArray[Any]

_DIRECTIONS = "directions."


class End(NamedTuple):
    """How a run ended: the reason, words on it, the objective at the last iterate, its faults."""

    reason: str
    why: str
    value: float
    faults: Mapping[str, int]


class Snapshot(NamedTuple):
    """A run between two steps.

    Attributes:
        state: The search's state.
        best_x: The point of the best single value seen.
        best: That value.
        short_steps: How many of the last steps, in a row, were shorter than the tolerance.
        limits: The limits it ran under.
        end: How the run ended, if it has.
        position: How far ``metrics.jsonl`` goes.
    """

    state: SearchState
    best_x: Array
    best: float
    short_steps: int
    limits: Limits
    end: End | None
    position: Position = Position()


def write(
    path: Path, run: str, search: RandomSearch, snapshot: Snapshot, previous: Path | None = None
) -> None:
    """Write a checkpoint; ``run`` is the identity of its run."""
    meta, arrays = _pack(run, search, snapshot)
    container.write(path, meta, arrays, previous=previous)


def read(path: Path, run: str, search: RandomSearch, x0: Array, seed: int) -> Snapshot:
    """Read the checkpoint of a run that is known otherwise (from its ``config.json``).

    Raises:
        CheckpointError: When the file is not a whole checkpoint of that run.
    """
    meta, arrays = container.read(path)
    if meta.get("run") != run:
        raise CheckpointError(path, "is the checkpoint of another run.")
    try:
        return _unpack(meta, arrays, search, x0, seed)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise CheckpointError(path, f"does not fit its run: {error}.") from error


def check(search: RandomSearch, state: SearchState) -> None:
    """Refuse, before a run has begun, a state that a checkpoint cannot hold."""
    try:
        _pack("", search, Snapshot(state, state.x, 0.0, 0, Limits(1), None))
    except TypeError as error:
        raise TypeError(f"This run cannot be checkpointed: {error}.") from error


def _pack(
    run: str, search: RandomSearch, snapshot: Snapshot
) -> tuple[dict[str, Any], dict[str, Array]]:
    state = snapshot.state
    skeleton, arrays = trees.pack(state.optimizer, "optimizer")
    directions = search.directions.pack(state.directions)
    end = snapshot.end
    meta = {
        "run": run,
        "step": state.step,
        "evaluations": state.evaluations,
        "seed": state.seed,
        "best": plain(snapshot.best),
        "short_steps": snapshot.short_steps,
        "limits": {name: plain(value) for name, value in snapshot.limits._asdict().items()},
        "metrics": snapshot.position._asdict(),
        "end": None if end is None else {**end._asdict(), "value": plain(end.value)},
        "optimizer": skeleton,
    }
    arrays = {
        "x": state.x,
        "best_x": snapshot.best_x,
        **arrays,
        **{_DIRECTIONS + name: array for name, array in directions.items()},
    }
    return meta, arrays


def _unpack(
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    search: RandomSearch,
    x0: Array,
    seed: int,
) -> Snapshot:
    x = _parameters(arrays, "x", x0)
    if meta["seed"] != seed:
        raise ValueError(f"its seed is {str(meta['seed'])[:80]}, not {seed}")
    step, evaluations = whole(meta["step"]), whole(meta["evaluations"])
    if evaluations != step * len(search.plan):
        raise ValueError(f"{step} steps do not take {evaluations} evaluations")
    position = Position(*(whole(meta["metrics"][name]) for name in Position._fields))
    if position.lines != step:
        raise ValueError(f"{step} steps do not make {position.lines} lines of metrics")
    own = {
        name.removeprefix(_DIRECTIONS): array
        for name, array in arrays.items()
        if name.startswith(_DIRECTIONS)
    }
    state = SearchState(
        x=x,
        step=step,
        evaluations=evaluations,
        seed=seed,
        optimizer=trees.unpack(meta["optimizer"], arrays, search.optimizer.init(x0), "optimizer"),
        directions=search.directions.unpack(own, x0.size, x0.dtype),
    )
    best = number(meta["best"])
    if math.isnan(best):
        raise ValueError("its best value is not a number")
    best_x = _parameters(arrays, "best_x", x0)
    return Snapshot(
        state=state,
        best_x=best_x,
        best=best,
        short_steps=whole(meta["short_steps"]),
        limits=limits_from(meta["limits"]),
        end=_end(meta["end"]),
        position=position,
    )


def _end(found: Any) -> End | None:
    if found is None:
        return None
    if not isinstance(found, dict) or set(cast(dict[str, Any], found)) != set(End._fields):
        raise ValueError("its end is not one")
    reason, why, value, faults = (cast(dict[str, Any], found)[name] for name in End._fields)
    if not (isinstance(reason, str) and isinstance(why, str)):
        raise TypeError("its end has no reason")
    return End(reason, why, number(value), faults_from(faults))


def _parameters(arrays: Mapping[str, Array], name: str, x0: Array) -> Array:
    x = arrays[name]
    if x.shape != x0.shape or x.dtype != x0.dtype:
        raise ValueError(
            f"{name} has shape {x.shape} and dtype {x.dtype}, not {x0.shape} and {x0.dtype}"
        )
    if not np.isfinite(x).all():
        raise ValueError(f"{name} is not finite")
    return x
