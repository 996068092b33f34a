"""``config.json``: a run as a file, readable, and enough to repeat it.

A start or bounds of more than 10,000 numbers are in the file ``arrays`` beside it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth._version import __version__
from gensmooth.checkpoint.cadence import Every
from gensmooth.checkpoint.config import Execution, Limits, RunConfig, falling
from gensmooth.checkpoint.plain import array_from_json, array_to_json, number, plain, whole
from gensmooth.describe import agree, describe, is_given, rebuild
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import Bounds, as_bounds, as_parameters
from gensmooth.search import RandomSearch

Array = NDArray[Any]
FORMAT = 1

_CHOICES = {"directions": Directions, "estimator": Estimator, "optimizer": Optimizer}
_NUMBERS = ("num_directions", "spacing", "num_samples", "min_fraction")
_PLAIN = ("samples", "maximize", "on_failure")


def to_json(config: RunConfig) -> tuple[dict[str, Any], dict[str, Array]]:
    """The contents of ``config.json``, and the arrays that are too large for it."""
    arrays: dict[str, Array] = {}
    search, bounds = config.search, None
    if search.bounds is not None:
        limits = as_bounds(search.bounds, config.x0)
        bounds = {
            name: array_to_json(name, _one(limit), arrays)
            for name, limit in limits._asdict().items()
        }
    choices = {name: describe(getattr(search, name)) for name in _CHOICES}
    if config.learning_rate is not None:
        choices["optimizer"] = {"learning_rate": config.learning_rate}
    found = {
        "format": FORMAT,
        "gensmooth": __version__,
        "run": config.run,
        "objective": config.objective,
        "seed": config.seed,
        "x0": array_to_json("x0", config.x0, arrays),
        "search": {
            **choices,
            **{name: describe(getattr(search, name)) for name in (*_NUMBERS, *_PLAIN)},
            "vectorized": describe(config.vectorized),
            "bounds": bounds,
        },
        "limits": {name: plain(value) for name, value in config.limits._asdict().items()},
        "execution": {
            name: value if name == "every" else describe(value)
            for name, value in config.execution._asdict().items()
        },
        "extensions": list(config.extensions),
    }
    return found, arrays


def from_json(
    found: Mapping[str, Any], arrays: Mapping[str, Array], given: Mapping[str, Any]
) -> RunConfig:
    """The run of a ``config.json``; ``given`` has the choices that the caller passed again.

    Raises:
        ValueError: When it is not one, or when a choice must be passed again.
    """
    x0 = as_parameters(array_from_json(found["x0"], arrays))
    described: dict[str, Any] = dict(found["search"])
    rate = _learning_rate(described["optimizer"])
    if rate is not None and given.get("optimizer") is None:
        described["optimizer"] = describe(optimizers.adam(rate))  # until the plan is known
    if isinstance(family := given.get("directions"), Directions):
        given = {**given, "directions": family.resolve(x0.size, whole(described["num_directions"]))}
    choices = {
        name: _choice(name, kind, described[name], given.get(name))
        for name, kind in _CHOICES.items()
    }
    bounds = described["bounds"]
    if bounds is not None:
        bounds = Bounds(*(array_from_json(bounds[name], arrays) for name in Bounds._fields))
    execution = execution_from(found["execution"])
    search = RandomSearch(
        **choices,
        **{name: rebuild(described[name]) for name in (*_NUMBERS, *_PLAIN)},
        bounds=bounds,
        threads=execution.threads,
    )
    limits = limits_from(found["limits"])
    if rate is not None:
        search = replace(search, optimizer=falling(rate, search, limits))
    if not isinstance(described["vectorized"], int):
        raise TypeError(f"`vectorized` is {str(described['vectorized'])[:80]}")
    search.init(x0, seed=found["seed"])  # complains about what does not fit together
    if not re.fullmatch("[0-9a-f]{1,64}", str(found["run"])):
        raise ValueError(f"`run` is {str(found['run'])[:80]!r}")
    return RunConfig(
        run=str(found["run"]),
        objective=None if found["objective"] is None else str(found["objective"]),
        x0=x0,
        seed=found["seed"],
        search=search,
        learning_rate=rate,
        vectorized=described["vectorized"],
        limits=limits,
        execution=execution,
        extensions=tuple(found["extensions"]),
    )


def limits_from(found: Mapping[str, Any]) -> Limits:
    """Limits from JSON, checked."""
    budget, max_steps, target, tolerance = (found[name] for name in Limits._fields)
    if type(budget) is not int or type(max_steps) not in (int, type(None)):
        raise TypeError("`budget` or `max_steps` is not a whole number")
    return Limits(
        budget,
        max_steps,
        None if target is None else number(target),
        None if tolerance is None else number(tolerance),
    )


def differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """What differs between two ``config.json``, in words, beside how they are carried out."""
    words: list[str] = []
    for name in ("objective", "seed", "x0"):
        if now[name] != before.get(name):
            words.append(_words(name, now[name], before.get(name)))
    for part in ("search", "limits"):
        old: Any = before.get(part)
        old = cast(dict[str, Any], old) if isinstance(old, dict) else {}
        for name, value in now[part].items():
            if not agree(value, old.get(name)):
                words.append(_words(name, value, old.get(name)))
    return words


def pretty(found: Any, indent: str = "") -> str:
    """JSON with a line for each setting, and lists of numbers on one line."""
    if not isinstance(found, dict) or not found or len(indent) > 2:
        return json.dumps(found, allow_nan=False)
    inner = f"{indent} "
    items = cast(dict[str, Any], found).items()
    lines = (f"{inner}{json.dumps(name)}: {pretty(value, inner)}" for name, value in items)
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _words(name: str, now: Any, before: Any) -> str:
    new, old = str(now), str(before)
    if len(new) + len(old) > 120:
        return f"`{name}`"
    return f"`{name}` (there {old}, here {new})"


def _choice(name: str, kind: type, description: Any, given: Any) -> Any:
    if given is not None:
        if not agree(describe(given), description):
            raise ValueError(
                f"`{name}` of this run is {str(description)[:200]} and cannot become "
                f"{str(describe(given))[:200]}: start a new run from its x instead"
            )
        return given
    if is_given(description):
        raise ValueError(
            f"`{name}` of this run is a {description['given']}, which cannot be written down: "
            f"pass it again, gs.resume(folder, fun, {name}=...)"
        )
    made = rebuild(description)
    if not isinstance(made, kind):
        raise TypeError(f"`{name}` is {str(description)[:200]}")
    return made


def _learning_rate(description: Any) -> float | None:
    if isinstance(description, dict) and set(cast(dict[str, Any], description)) == {
        "learning_rate"
    }:
        return number(description["learning_rate"])
    return None


def execution_from(found: Mapping[str, Any]) -> Execution:
    """How a run is carried out, from JSON, checked."""
    workers, timeout, retries, threads, every = (found[name] for name in Execution._fields)
    if every is not None:
        steps, seconds = every
        every = Every(
            None if steps is None else whole(steps), None if seconds is None else number(seconds)
        )
    if type(workers) not in (int, type(None)):
        raise TypeError(f"`workers` is {str(workers)[:80]}")
    return Execution(
        workers=workers,
        timeout=None if timeout is None else number(timeout),
        retries=whole(retries),
        threads=whole(threads),
        every=every,
    )


def _one(limit: Array) -> Array:
    """One number for limits that are all the same; they are broadcast when they are used."""
    flat = limit.reshape(-1)
    return flat[0].reshape(()) if (flat == flat[0]).all() else limit
