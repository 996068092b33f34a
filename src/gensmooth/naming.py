"""Things of a user's own modules by name, ``module:name``: objectives, families of directions."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)  # what knows where it is from


def name_of(thing: Any) -> str | None:
    """``module:name`` when another process can find the function or class by it, else ``None``.

    >>> import math
    >>> name_of(math.dist), name_of(lambda x: x)
    ('math:dist', None)
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module in ("__main__", "__mp_main__"):  # a script, here or in a process that it has spawned
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is thing else None


def load_module(name: str) -> ModuleType:
    """Import a user's module, looked for in this folder too.

    The one place where a name that was typed, or read from a file, makes code run.

    Raises:
        ValueError: When there is no such module.
    """
    if sys.modules.get(name) is not None:  # a file may say so: nothing changes for it
        return sys.modules[name]
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0]:
            raise
        raise ValueError(
            f"There is no module {name!r} in {Path.cwd()} or on the Python path."
        ) from None


def check_trusted(module: str, *, trust: bool) -> None:
    """Refuse to import a module because a file says so, unless the reader of the file trusts it.

    A module that is imported already runs nothing new.

    Raises:
        ValueError: When the file would have a module imported.
    """
    if trust or module in sys.modules:
        return
    raise ValueError(
        f"it names {module[:200]!r}, a module that would be imported, and so run. If you trust it, "
        "say so: trust=True, or --trust in a shell"
    )


def find_objective(name: str, *, trust: bool) -> Callable[..., Any]:
    """The objective that a file names. It will be called, so somebody must have said so.

    Raises:
        ValueError: When nobody did, or when it is part of Python itself and no objective.
    """
    pythons = f"its objective is {name[:200]!r}, which is no function of a user's"
    if _is_pythons(name.partition(":")[0]):
        raise ValueError(pythons)
    if not trust:
        raise ValueError(
            f"its objective is {name[:200]!r}, which would be imported and called. Name it "
            f"yourself (gs.resume(folder, fun), or --objective {name[:200]}), or say that you "
            "trust the folder: trust=True, or --trust in a shell"
        )
    found = find_function(name)
    if isinstance(found, _NAMED) and _is_pythons(str(getattr(found, "__module__", None))):
        raise ValueError(pythons)  # by way of a module that has imported it
    return found


def _is_pythons(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def find(name: str) -> Any:
    """What ``module:name`` names.

    Raises:
        ValueError: When there is no such thing.
    """
    module_name, _, inner = name.partition(":")
    found: Any = load_module(module_name)
    for part in inner.split("."):
        if not hasattr(found, part):
            raise ValueError(f"Module {module_name!r} has no {inner!r}.")
        found = getattr(found, part)
    return found


def find_function(name: str) -> Callable[..., Any]:
    """The objective called ``module:function``.

    Raises:
        ValueError: When there is no such function.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(
            f"The objective must be module:function, such as model:loss, not {name!r}."
        )
    found = find(name)
    if not callable(found):
        raise ValueError(f"{name} is not a function, but {type(found).__name__}.")
    return found
