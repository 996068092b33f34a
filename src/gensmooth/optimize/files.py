"""Restore a run from its folder: the search in ``config.json``, and the evaluator.

:meth:`gensmooth.optimize.Minimization.settings` writes what is read here.
"""

import logging
from collections.abc import Mapping
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.coordinates import Held
from gensmooth.describe import describe, number, whole
from gensmooth.directions import Directions
from gensmooth.evaluators import Evaluator, as_evaluator, cores
from gensmooth.parameters import Bounds, LogScale, is_tree
from gensmooth.runs import Execution, Limits, array_from_json, array_to_json
from gensmooth.searches import Search
from gensmooth.searches.choose import for_limits
from gensmooth.searches.files import from_parts, to_parts
from gensmooth.trees import Tree

Array = NDArray[Any]

_log = logging.getLogger("gensmooth")


def search_to_json(search: Search, large: dict[str, Array]) -> dict[str, Any]:
    """The parts of a search as JSON; large arrays go into ``large``."""
    return {
        name: array_to_json(name, cast(Array, part), large)
        if isinstance(part, np.ndarray)
        else part
        for name, part in to_parts(search).items()
    }


def search_from_json(
    described: dict[str, Any],
    large: Mapping[str, Array],
    given: Mapping[str, Any],
    limits: Limits,
    execution: Execution,
    *,
    x0: Array,
    trust: bool,
) -> tuple[float | None, Search]:
    """The search of a ``config.json``, and its learning rate where that was left to us."""
    bounds = described["bounds"]
    if bounds is not None:
        bounds = Bounds(*(array_from_json(bounds[name], large) for name in Bounds._fields))
    parts = {
        name: array_from_json(cast(dict[str, Any], part), large) if _is_array(part) else part
        for name, part in described.items()
    }
    rate = _learning_rate(parts.get("optimizer"))
    if rate is not None and given.get("optimizer") is None:
        parts["optimizer"] = describe(optimizers.adam(rate))  # until the plan is known
    if isinstance(family := given.get("directions"), Directions):
        resolved = family.shaped(x0.shape).resolve(x0.size, whole(parts["num_directions"]))
        given = {**given, "directions": resolved}
    search = from_parts(parts, passed=given, bounds=bounds, threads=execution.threads, trust=trust)
    return rate, for_limits(search, rate, limits.budget, limits.max_steps)


def _is_array(part: Any) -> bool:
    return isinstance(part, dict) and "dtype" in part


def _learning_rate(description: Any) -> float | None:
    if isinstance(description, dict) and set(cast(dict[str, Any], description)) == {
        "learning_rate"
    }:
        return number(description["learning_rate"])
    return None


def log_scale_from_json(found: Any, large: Mapping[str, Array], x0: Array) -> LogScale | None:
    """Which parameters are on a log scale, from JSON."""
    if found is None:
        return None
    mask = array_from_json(found, large)
    if mask.shape != x0.shape:
        raise ValueError("`log_scale` does not fit the parameters")
    return LogScale(mask.astype(bool))


def held_from_json(found: Any, large: Mapping[str, Array], x0: Array) -> Held | None:
    """Which parameters are held, from JSON."""
    if found is None:
        return None
    free, values = (array_from_json(found[name], large) for name in ("free", "values"))
    held = Held(free.astype(bool), values.astype(x0.dtype))
    if free.shape != values.shape or x0.shape != (int(held.free.sum()),):
        raise ValueError("the parameters that are held do not fit the others")
    if not np.isfinite(values).all():
        raise ValueError("a parameter that is held is not finite")
    return held


def tree_from_json(found: Any, given: Any, shape: tuple[int, ...], *, trust: bool) -> Tree | None:
    """The structure of the parameters, from JSON or from what the caller passed again."""
    if given is not None and not (found is not None and is_tree(given)):
        raise ValueError(
            "`x0` goes on where the run stopped: leave it out, unless it is of a class of yours"
        )
    if found is None:
        return None
    tree = Tree.from_json(found, trust=trust) if given is None else Tree.of(given)[1]
    if Tree.of_names(tree.to_json()) != Tree.of_names(found):  # wherever its classes are now
        raise ValueError("`x0` must have the structure, the shapes and the types of the run's")
    if shape != (tree.size,):
        raise ValueError("the structure of `x0` does not fit its numbers")
    return tree


def evaluator_again(
    workers: Any, timeout: float | None, retries: int | None, before: Execution
) -> Evaluator:
    """Return the evaluator of a resumed run: the one passed now, or else the one it had.

    The number of workers it had comes from a file, perhaps from another machine or a stranger, so
    at most one worker per core is started.
    """
    if hasattr(workers, "session"):
        return as_evaluator(workers, timeout=timeout, retries=retries or 0)
    chosen = (before.workers or 1) if workers is None else workers
    most = cores()
    if workers is None and chosen > most:
        told = (
            "The run had %d workers, and goes on with %d, one per core. For more, pass `workers`."
        )
        _log.warning(told, min(chosen, 10**15), most)
        chosen = most
    limit = before.timeout if timeout is None else timeout
    if timeout is None and (callable(chosen) or (isinstance(chosen, Integral) and chosen == 1)):
        limit = None  # the run's processes had one, this one has nothing to stop
    return as_evaluator(
        chosen, timeout=limit, retries=before.retries if retries is None else retries
    )
