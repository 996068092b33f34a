"""Conversion of a search to and from plain parts for ``config.json``.

The parts are the fields of the search's dataclass, plus its name as ``"method"``. A search with
directions (:class:`~gensmooth.RandomSearch`) has no name. A custom search in an importable module
is named ``module:Class``. Any other search must be passed again when its run is resumed.

Bounds and threads are not among the parts; the caller stores them separately.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from gensmooth import naming
from gensmooth.describe import describe, describe_parts, must_be_passed_again, rebuild
from gensmooth.directions import Directions
from gensmooth.estimators import Estimator
from gensmooth.optimizers import Optimizer
from gensmooth.searches.algorithms import POPULATIONS
from gensmooth.searches.descent import GreedyDescent
from gensmooth.searches.mirrored_es import MirroredES
from gensmooth.searches.pilot import AUTO, Pilot
from gensmooth.searches.protocol import Search
from gensmooth.searches.quasi_newton import QuasiNewton
from gensmooth.searches.random_search import RandomSearch

PASS_AGAIN = "pass it again, gs.resume(folder, fun, {}=...)"
CHOICES = {"directions": Directions, "estimator": Estimator, "optimizer": Optimizer}
_STORED_SEPARATELY = ("bounds", "threads")
_KIND_BY_NAME: dict[str, type[Search]] = {
    AUTO: Pilot,
    "quasi-newton": QuasiNewton,
    "mirrored-es": MirroredES,
    "greedy-descent": GreedyDescent,
    **POPULATIONS,
}
_NAME_BY_KIND = {kind: name for name, kind in _KIND_BY_NAME.items()}


def to_parts(search: Search) -> dict[str, Any]:
    """Return the parts of a search: plain JSON and float64 arrays.

    >>> to_parts(Pilot(budget=100))["method"]
    'auto'
    """
    kind = type(search)
    parts: dict[str, Any] = {}
    if kind is not RandomSearch:
        name = _NAME_BY_KIND.get(kind) or naming.name_of(kind)
        if name is None or not is_dataclass(search):
            return {"method": {"given": f"{kind.__module__}.{kind.__qualname__}"}}
        parts["method"] = name
    names = _stored(kind)
    arrays = {
        name: np.asarray(value, np.float64)
        for name in names
        if isinstance(value := getattr(search, name), list | np.ndarray)
    }
    return parts | describe_parts(search, names) | arrays


def from_parts(
    parts: Mapping[str, Any],
    *,
    passed: Mapping[str, Any] | None = None,
    bounds: Any = None,
    threads: int = 1,
    trust: bool = False,
    again: str = PASS_AGAIN,
) -> Search:
    """Create the search that :func:`to_parts` described.

    Args:
        parts: The parts; additional entries are ignored.
        passed: Objects that the caller passes again, under the names ``search``, ``directions``,
            ``estimator`` and ``optimizer``.
        bounds: The search's bounds.
        threads: The search's threads.
        trust: Whether a module named in the parts may be imported.
        again: How to pass an object again, for error messages; ``{}`` stands for its name.

    Raises:
        ValueError: If the parts are not a search, or if the search must be passed again.
        LookupError: If a part is missing.
        TypeError: If a part has the wrong type.
    """
    passed = {} if passed is None else passed
    if "method" not in parts:
        return _with_directions(parts, passed, bounds, threads, trust=trust, again=again)
    method, search = parts["method"], passed.get("search")
    if search is not None:
        if to_parts(search)["method"] != method:
            raise ValueError(
                f"its search is {str(method)[:200]} and cannot be changed to a "
                f"{type(search).__name__}"
            )
        return search
    if must_be_passed_again(method):
        raise ValueError(
            f"its search is a {str(method['given'])[:200]}, which cannot be stored in a file: "
            f"{again.format('search')}"
        )
    kind = _kind(str(method), trust=trust)
    values = {name: _value(parts[name], trust=trust) for name in _stored(kind)}
    known = {field.name for field in fields(cast(Any, kind))}
    values |= {k: v for k, v in (("bounds", bounds), ("threads", threads)) if k in known}
    return kind(**values)


def _with_directions(
    parts: Mapping[str, Any],
    passed: Mapping[str, Any],
    bounds: Any,
    threads: int,
    *,
    trust: bool,
    again: str,
) -> RandomSearch:
    if must_be_passed_again(parts["spacing"]):
        raise ValueError(
            "its `spacing` is a custom function, which cannot be stored in a file: start a new run "
            "with a schedule such as gs.inverse_decay(0.1)"
        )
    chosen = {
        name: _choice(name, kind, parts[name], passed.get(name), trust=trust, again=again)
        for name, kind in CHOICES.items()
    }
    rest = {n: rebuild(parts[n]) for n in _stored(RandomSearch) if n not in CHOICES}
    return RandomSearch(**chosen, **rest, bounds=bounds, threads=threads)


def _choice(
    name: str, kind: type, description: Any, passed: Any, *, trust: bool, again: str
) -> Any:
    """Return a part that was stored, or the object that the caller passes again."""
    if passed is not None:
        if describe(passed) != description:
            raise ValueError(
                f"its `{name}` is {str(description)[:200]} and cannot be changed to "
                f"{str(describe(passed))[:200]}: start a new run from its x instead"
            )
        return passed
    if must_be_passed_again(description):
        raise ValueError(
            f"its `{name}` is a {description['given']}, which cannot be stored in a file: "
            f"{again.format(name)}"
        )
    rebuilt = rebuild(description, trust=trust)
    if not isinstance(rebuilt, kind):
        raise TypeError(f"its `{name}` is {str(description)[:200]}")
    return rebuilt


def _kind(name: str, *, trust: bool) -> type[Search]:
    """Return the class of a search from its name in a file."""
    if ":" not in name:
        if name not in _KIND_BY_NAME:
            raise ValueError(f"there is no search {name[:80]!r}")
        return _KIND_BY_NAME[name]
    kind = naming.find_in_file(name, trust=trust)
    if not (isinstance(kind, type) and issubclass(kind, Search) and is_dataclass(kind)):
        raise ValueError(f"{name[:200]!r} is not a search defined as a dataclass")
    return kind


def _stored(kind: type[Search]) -> list[str]:
    names = [field.name for field in fields(cast(Any, kind)) if field.init]
    return [name for name in names if name not in _STORED_SEPARATELY]


def _value(part: Any, *, trust: bool) -> Any:
    if isinstance(part, np.ndarray):
        return cast(Any, part)
    if isinstance(part, list):
        return tuple(_value(each, trust=trust) for each in cast(list[Any], part))
    return rebuild(part, trust=trust)
