"""Restore a run from its ``config.json``: search, conversion of parameters, evaluator.

:meth:`gensmooth.optimize.Minimization.settings` writes what is read here.
"""

import logging
from collections.abc import Mapping
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.coordinates import Coordinates, FixedParameters
from gensmooth.describe import describe, number, whole
from gensmooth.directions import Directions
from gensmooth.evaluators import Evaluator, as_evaluator, cores
from gensmooth.parameters import Bounds, LogScale, is_tree
from gensmooth.runs import Execution, Limits, array_from_json
from gensmooth.searches import Search
from gensmooth.searches.choose import for_limits
from gensmooth.searches.files import from_parts
from gensmooth.trees import Tree

Array = NDArray[Any]

_log = logging.getLogger("gensmooth")


def search_from_json(
    described: dict[str, Any],
    large: Mapping[str, Array],
    passed: Mapping[str, Any],
    limits: Limits,
    execution: Execution,
    *,
    x0: Array,
    trust: bool,
) -> tuple[float | None, Search]:
    """Return the search of a ``config.json``, after the learning rate if we chose the optimiser."""
    bounds = described["bounds"]
    if bounds is not None:
        bounds = Bounds(*(array_from_json(bounds[name], large) for name in Bounds._fields))
    parts = dict(described)
    for name, part in described.items():
        if isinstance(part, dict) and "dtype" in part:
            parts[name] = array_from_json(cast(dict[str, Any], part), large)
    rate = None
    optimizer = parts.get("optimizer")
    if isinstance(optimizer, dict) and set(cast(dict[str, Any], optimizer)) == {"learning_rate"}:
        rate = number(optimizer["learning_rate"])
    if rate is not None and passed.get("optimizer") is None:
        parts["optimizer"] = describe(optimizers.adam(rate))  # `for_limits` replaces it
    if isinstance(family := passed.get("directions"), Directions):
        resolved = family.shaped(x0.shape).resolve(x0.size, whole(parts["num_directions"]))
        passed = {**passed, "directions": resolved}
    search = from_parts(parts, passed=passed, bounds=bounds, threads=execution.threads, trust=trust)
    return rate, for_limits(search, rate, limits.budget, limits.max_steps)


def coordinates_from_json(
    described: Mapping[str, Any], large: Mapping[str, Array], x0: Array, passed: Any, *, trust: bool
) -> Coordinates:
    """Return the conversion of the parameters.

    Args:
        described: Its entries ``log_scale``, ``held`` and ``structure``.
        large: The arrays that they refer to.
        x0: The search's parameters at the start.
        passed: Parameters with the run's structure, if the user passed them again.
        trust: Whether modules named in the structure may be imported.
    """
    log_scale = fixed = None
    shape = x0.shape
    if described["held"] is not None:
        stored = described["held"]
        free, values = (array_from_json(stored[name], large) for name in ("free", "values"))
        fixed = FixedParameters(free.astype(bool), values.astype(x0.dtype))
        if free.shape != values.shape or x0.shape != (int(fixed.free.sum()),):
            raise ValueError("the fixed parameters do not fit the others")
        if not np.isfinite(values).all():
            raise ValueError("a fixed parameter is not finite")
        shape = free.shape
    if described["log_scale"] is not None:
        mask = array_from_json(described["log_scale"], large)
        if mask.shape != x0.shape:
            raise ValueError("`log_scale` does not fit the parameters")
        log_scale = LogScale(mask.astype(bool))
    return Coordinates(_tree(described["structure"], passed, shape, trust=trust), fixed, log_scale)


def _tree(structure: Any, passed: Any, shape: tuple[int, ...], *, trust: bool) -> Tree | None:
    """Return the structure of the parameters: the stored one, or the one passed again."""
    if passed is not None and not (structure is not None and is_tree(passed)):
        raise ValueError(
            "the run continues from its own x: omit `x0`, unless it contains a class of yours"
        )
    if structure is None:
        return None
    tree = Tree.from_json(structure, trust=trust) if passed is None else Tree.of(passed)[1]
    if Tree.of_names(tree.to_json()) != Tree.of_names(structure):  # modules may have moved
        raise ValueError("`x0` must have the structure, the shapes and the types of the run's x")
    if shape != (tree.size,):
        raise ValueError("the structure of `x0` does not fit its numbers")
    return tree


def resumed_evaluator(
    workers: Any, timeout: float | None, retries: int | None, before: Execution
) -> Evaluator:
    """Return the evaluator of a resumed run: the one passed now, or else the one it had.

    The stored number of workers may come from another machine or from a stranger, so at most one
    worker per core is started.
    """
    if hasattr(workers, "session"):
        return as_evaluator(workers, timeout=timeout, retries=retries or 0)
    chosen = (before.workers or 1) if workers is None else workers
    most = cores()
    if workers is None and chosen > most:
        _log.warning(
            "The run had %d workers and continues with %d, one per core. For more, pass `workers`.",
            min(chosen, 10**15),  # a stranger's number may have a million digits
            most,
        )
        chosen = most
    limit = before.timeout if timeout is None else timeout
    if timeout is None and (callable(chosen) or (isinstance(chosen, Integral) and chosen == 1)):
        limit = None  # without worker processes, an evaluation cannot be stopped
    return as_evaluator(
        chosen, timeout=limit, retries=before.retries if retries is None else retries
    )
