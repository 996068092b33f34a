"""The parts of a search as JSON, and back: directions, estimators, optimisers, schedules.

Each part is a frozen dataclass, written as its name and its fields. Classes of this package are
written by their short names. A user's family of directions is written as ``module:Class`` and read
by importing that module. Anything else (an Optax transformation, a custom schedule, a class defined
in a script or a function) is written as ``{"given": its type}``: to resume such a run, pass the
object again.
"""

import math
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np

from gensmooth import checks, directions, estimators, naming, optimizers
from gensmooth.directions import Directions
from gensmooth.optimizers import Optimizer


@cache
def _kinds() -> dict[str, type[Any]]:
    """Return our dataclasses by name; no other short name is accepted when reading."""
    known = {**vars(directions), **vars(estimators), **vars(optimizers)}
    return {
        name: kind for name, kind in known.items() if isinstance(kind, type) and is_dataclass(kind)
    }


class _NotDescribable(Exception):  # noqa: N818
    """The value cannot be described in JSON, so the user has to pass it again."""


def describe(value: Any) -> Any:
    """Return the description of a part, for JSON.

    >>> describe(directions.shrunk(directions.Bernoulli()))["base"]
    {'kind': 'Bernoulli', 'p': 0.5, 'm': None}
    >>> describe(optimizers.sgd(0.1))
    {'kind': 'Sgd', 'learning_rate': 0.1}
    >>> describe(optimizers.sgd(lambda step: 1 / (1 + step)))
    {'given': 'gensmooth.optimizers.Optimizer'}
    """
    try:
        return _describe(value)
    except _NotDescribable:
        kind = cast(type[Any], type(value))
        return {"given": f"{kind.__module__}.{kind.__qualname__}"}


def describe_parts(thing: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the descriptions of the named attributes."""
    return {name: describe(getattr(thing, name)) for name in names}


def must_be_passed_again(description: Any) -> bool:
    """Return whether the object could not be described, so that the user has to pass it again."""
    return isinstance(description, dict) and "given" in description


def rebuild(description: Any, *, trust: bool = False) -> Any:
    """Create the object that a description describes.

    Args:
        description: A return value of :func:`describe`.
        trust: Whether a module that it names may be imported; see :mod:`gensmooth.naming`.

    Raises:
        ValueError: If the description is invalid, or the object has to be passed again.
    """
    if not isinstance(description, dict):
        return _value(description)
    d = cast(dict[str, Any], description)
    if "scipy" in d:
        return _distribution(d)
    kind = _kind(str(d.get("kind")), trust)
    if kind is None or set(d) - {"kind"} != set(_names(kind)):
        raise ValueError(f"{str(d)[:200]} is not known to this version of gensmooth")
    try:
        part = kind(**{name: _field(value, trust) for name, value in d.items() if name != "kind"})
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{str(d)[:200]} cannot be created: {error}") from error
    if isinstance(part, optimizers.RULES):
        return Optimizer(part.init, part.update)
    return part


def _describe(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.integer | np.floating | np.bool_):
        return _describe(checks.python(value))
    if isinstance(value, int | float):
        return plain(value)
    if type(value) is tuple:
        return [_describe(part) for part in cast(tuple[Any, ...], value)]
    if type(value) is Optimizer:
        rule = getattr(value.update, "__self__", None)
        if rule is not None and getattr(value.init, "__self__", None) is rule:
            return _describe(rule)
    if is_dataclass(value):
        kind = cast(type[Any], type(value))
        parts = {name: _describe(getattr(value, name)) for name in _names(kind)}
        return {"kind": _kind_name(kind), **parts}
    if "scipy.stats" in sys.modules and hasattr(value, "dist"):
        return _describe_distribution(value)
    raise _NotDescribable


def _names(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.init]


def _kind_name(kind: type[Any]) -> str:
    """Return the short name of our class, or ``module:Class`` for a user's directions."""
    if _kinds().get(kind.__name__) is kind:
        return kind.__name__
    name = naming.name_of(kind)
    if name is None or not issubclass(kind, Directions) or "kind" in _names(kind):
        raise _NotDescribable
    return name


def _kind(name: str, trust: bool) -> type[Any] | None:
    """Return the class that :func:`_kind_name` named, or ``None`` if there is none."""
    if ":" not in name:
        return _kinds().get(name)
    kind = naming.find_in_file(name, trust=trust)
    if isinstance(kind, type) and issubclass(kind, Directions) and is_dataclass(kind):
        return kind
    return None


def _field(description: Any, trust: bool) -> Any:
    """Return the value of a field: a part, a plain value, or a tuple of them."""
    if isinstance(description, list):
        return tuple(_field(part, trust) for part in cast(list[Any], description))
    return rebuild(description, trust=trust)


def _value(description: Any) -> Any:
    """Return a plain value; infinities and NaN are stored as strings."""
    if description in ("inf", "-inf", "nan"):
        return number(description)
    if description is None or isinstance(description, bool | int | float | str):
        return description
    raise ValueError(f"{str(description)[:200]} is not None, a Boolean, a number or a string")


def _describe_distribution(frozen: Any) -> dict[str, Any]:
    """Describe a frozen SciPy distribution by its name and parameters."""
    name = getattr(frozen.dist, "name", None)
    family = getattr(import_module("scipy.stats"), str(name), None)
    if type(family) is not type(frozen.dist):
        raise _NotDescribable
    try:
        args = [plain(float(value)) for value in frozen.args]
        keywords = {key: plain(float(value)) for key, value in frozen.kwds.items()}
    except (TypeError, ValueError, AttributeError):
        raise _NotDescribable from None
    return {"scipy": name, "args": args, "keywords": keywords}


def _distribution(d: dict[str, Any]) -> Any:
    try:
        stats = import_module("scipy.stats")
    except ImportError as error:
        raise ImportError(
            "The directions of this run use a SciPy distribution: pip install 'gensmooth[scipy]'"
        ) from error
    family: Any = getattr(stats, str(d["scipy"]), None)
    if not isinstance(family, stats.rv_continuous | stats.rv_discrete):
        raise ValueError(f"scipy.stats has no distribution {str(d['scipy'])[:80]!r}")
    try:
        args = [number(value) for value in d["args"]]
        return family(*args, **{str(key): number(v) for key, v in d["keywords"].items()})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{str(d)[:200]} is not a valid SciPy distribution: {error}") from error


def plain(value: float | None) -> float | str | None:
    """Return a number for JSON; infinities and NaN, which JSON lacks, become strings.

    >>> plain(0.1), plain(float("-inf")), plain(None)
    (0.1, '-inf', None)
    """
    return value if value is None or math.isfinite(value) else str(float(value))


def number(value: Any) -> float:
    """Return the float that :func:`plain` encoded."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{str(value)[:80]!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("it contains a number too large for a float") from None


def whole(value: Any) -> int:
    """Return a checked count from JSON."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError(f"{str(value)[:80]!r} is not a count")
    return value
