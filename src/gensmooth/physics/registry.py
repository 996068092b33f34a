"""Find the definition of a robot by its name.

A robot's file registers it (:func:`register`) when it is imported. The file of ``HalfCheetah-v4``
is ``half_cheetah.py``; it is imported when that name is first used. If no file has the name, all
files are imported. Custom robots register themselves in the same way, under ``module:Name``.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

from gensmooth import checks, naming
from gensmooth.physics.environment import CompiledEnvironment

_folders = ["gensmooth.physics.robots"]  # packages with one file per robot


class GymnasiumSpec(NamedTuple):
    """How to register an environment with Gymnasium.

    Attributes:
        id: Gymnasium's id, such as ``"gensmooth/Ant-v2"``.
        entry_point: ``module:class``.
        horizon: Steps per episode.
        arguments: Arguments of the class.
        require: Called first; it raises an ``ImportError`` if a package is missing.
    """

    id: str
    entry_point: str
    horizon: int
    arguments: Mapping[str, Any] = {}
    require: Callable[[], object] | None = None


class RobotEntry(NamedTuple):
    """A registered robot.

    Attributes:
        make: Makes its definition.
        spec: How Gymnasium makes the same environment; ``None`` if Gymnasium knows its name.
    """

    make: Callable[[], CompiledEnvironment]
    spec: GymnasiumSpec | None


_entries: dict[str, RobotEntry] = {}  # by full name
_aliases: dict[str, str] = {}  # to full names


def register(
    name: str,
    make: Callable[[], CompiledEnvironment],
    *,
    alias: str | None = None,
    spec: GymnasiumSpec | None = None,
) -> None:
    """Register a robot.

    Args:
        name: Its full name. In your own module, ``"module:Name"``: the module is then imported
            wherever the name is used, also in worker processes.
        make: Makes its definition, whose ``name`` is the full name.
        alias: Another name for it.
        spec: How Gymnasium makes the same environment, for films and comparisons. By default,
            Gymnasium must know the full name.
    """
    _entries[name] = RobotEntry(make, spec)
    if alias is not None:
        _aliases[alias] = name
    if spec is not None:
        _aliases[spec.id] = name


def find(name: str) -> RobotEntry | None:
    """Return the entry of a full name, if it is registered."""
    return _entries.get(name)


def make(name: str) -> CompiledEnvironment:
    """Return the definition of a robot.

    Args:
        name: A name or an alias; for a custom robot, ``module:Name``, whose module is imported.

    Raises:
        ValueError: If there is no such robot.
    """
    module, colon, _ = name.rpartition(":")
    if colon:
        naming.load_module(module)
    entry = _entries.get(canonical(name))
    if entry is None:
        hint = checks.did_you_mean(name, known_names(), most=3, cutoff=0.7)
        raise ValueError(f"There is no robot {name!r}.{hint} Robots are {', '.join(names())}.")
    return entry.make()


def canonical(name: str) -> str:
    """Return the full name of a robot; a name that is not registered is returned unchanged."""
    stem = re.sub(r"-v\d+$", "", name.removeprefix("gensmooth/"))
    file = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", stem).lower()  # half_cheetah for HalfCheetah-v4
    if file in _files():
        import_module(_files()[file])
    if name not in _aliases and name not in _entries:
        names()  # the file may have a different name
    return _aliases.get(name, name)


def names() -> list[str]:
    """Return the full names of the registered robots."""
    for module in _files().values():
        import_module(module)
    return sorted(_entries)


def known_names() -> list[str]:
    """Return every name that :func:`make` accepts, aliases first."""
    names()
    return [*_aliases, *_entries]


def add_folder(package: str) -> None:
    """Look for robots in another package too.

    Args:
        package: The full name of a package with one file per robot.
    """
    if package not in _folders:
        _folders.append(package)
        _files.cache_clear()


@cache
def _files() -> dict[str, str]:
    """Return the full name of each robot's module, by the name of its file."""
    return {
        module.name: f"{package}.{module.name}"
        for package in _folders
        for module in iter_modules(import_module(package).__path__)
    }
