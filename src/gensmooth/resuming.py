"""What a run that goes on is made of: its search, from ``config.json``, and who evaluates it.

:meth:`gensmooth.optimize.Minimization.settings` writes what is read here.
"""

import logging
from collections.abc import Mapping
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import algorithms, optimizers
from gensmooth.coordinates import Held
from gensmooth.describe import describe, is_given, number, rebuild, whole
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator
from gensmooth.evaluators import Evaluator, as_evaluator, cores
from gensmooth.optimizers import Optimizer
from gensmooth.parameters import Bounds, LogScale, is_tree
from gensmooth.pilot import AUTO, Pilot
from gensmooth.runs import Execution, Limits, array_from_json
from gensmooth.search import RandomSearch, Search
from gensmooth.trees import Tree

Array = NDArray[Any]

# What of a search is written down: of one with directions, of the pilot, of a distribution's.
CHOICES = {"directions": Directions, "estimator": Estimator, "optimizer": Optimizer}
NUMBERS = ("num_directions", "spacing", "num_samples", "min_fraction")
PLAIN = ("samples", "maximize", "on_failure")
PILOT = ("num_directions", "num_samples", "min_fraction", *PLAIN)
POPULATION = ("num_directions", "spacing", "num_samples", "min_fraction", *PLAIN)

_log = logging.getLogger("gensmooth")


def falling(rate: float, search: RandomSearch, limits: Limits) -> Optimizer:
    """Adam whose rate falls from ``rate`` to 0 over the steps that the limits allow."""
    assert limits.budget is not None
    steps = max(1, limits.budget // len(search.plan))
    if limits.max_steps is not None:
        steps = min(steps, limits.max_steps)
    return optimizers.adam(optimizers.cosine_decay(rate, steps=steps))


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
    """The search of a ``config.json``, and its learning rate where it was left to us."""
    bounds = described["bounds"]
    if bounds is not None:
        bounds = Bounds(*(array_from_json(bounds[name], large) for name in Bounds._fields))
    if described.get("method") == AUTO:
        return None, _pilot(described, large, limits, bounds, execution)
    if "method" in described:
        return None, _population(described, large, bounds, execution)
    return _with_directions(described, given, limits, bounds, execution, x0=x0, trust=trust)


def _pilot(
    described: Mapping[str, Any],
    large: Mapping[str, Array],
    limits: Limits,
    bounds: Bounds | None,
    execution: Execution,
) -> Pilot:
    """The pilot of a ``config.json``."""
    scale, number_of = described["x_scale"], described["num_directions"]
    return Pilot(
        budget=limits.budget or 0,
        num_directions=None if number_of is None else whole(number_of),
        x_scale=None if scale is None else array_from_json(scale, large),
        **{name: rebuild(described[name]) for name in PILOT[1:]},
        bounds=bounds,
        threads=execution.threads,
    )


def _population(
    described: Mapping[str, Any],
    large: Mapping[str, Array],
    bounds: Bounds | None,
    execution: Execution,
) -> algorithms.Population:
    """The search by a distribution of a ``config.json``."""
    kind = algorithms.POPULATIONS.get(str(described["method"]))
    if kind is None:
        raise ValueError(f"there is no search {str(described['method'])[:80]!r}")
    scale = described["x_scale"]
    return kind(
        **{name: rebuild(described[name]) for name in (*POPULATION, *kind.rates())},
        x_scale=None if scale is None else array_from_json(scale, large),
        bounds=bounds,
        threads=execution.threads,
    )


def _with_directions(
    described: dict[str, Any],
    given: Mapping[str, Any],
    limits: Limits,
    bounds: Bounds | None,
    execution: Execution,
    *,
    x0: Array,
    trust: bool,
) -> tuple[float | None, RandomSearch]:
    """A search along directions, and its learning rate where it was left to us."""
    if is_given(described["spacing"]):
        raise ValueError(
            "`spacing` of this run is a function of yours, which cannot be written down: start it "
            "with a schedule such as gs.inverse_decay(0.1)"
        )
    rate = _learning_rate(described["optimizer"])
    if rate is not None and given.get("optimizer") is None:
        described["optimizer"] = describe(optimizers.adam(rate))  # until the plan is known
    if isinstance(family := given.get("directions"), Directions):
        resolved = family.shaped(x0.shape).resolve(x0.size, whole(described["num_directions"]))
        given = {**given, "directions": resolved}
    choices = {
        name: _choice(name, kind, described[name], given.get(name), trust)
        for name, kind in CHOICES.items()
    }
    search = RandomSearch(
        **choices,
        **{name: rebuild(described[name]) for name in (*NUMBERS, *PLAIN)},
        bounds=bounds,
        threads=execution.threads,
    )
    if rate is not None:
        search = search.changed(optimizer=falling(rate, search, limits))
    return rate, search


def _choice(name: str, kind: type, description: Any, given: Any, trust: bool) -> Any:
    """A choice that was written down, or that must be passed again."""
    if given is not None:
        if describe(given) != description:
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
    made = rebuild(description, trust=trust)
    if not isinstance(made, kind):
        raise TypeError(f"`{name}` is {str(description)[:200]}")
    return made


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
    """Who evaluates a run that goes on: what is given now, or else what the run had.

    What the run had is what a file says, which may be another machine's or a stranger's: it starts
    at most one worker per core.
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
