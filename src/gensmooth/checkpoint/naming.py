"""The name of an objective, ``module:function``, and the function of a name."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def name_of(fun: Callable[..., Any]) -> str | None:
    """``module:function`` when another process can find the function by it, else ``None``.

    >>> import math
    >>> name_of(math.dist), name_of(lambda x: x)
    ('math:dist', None)
    """
    module, function = getattr(fun, "__module__", None), getattr(fun, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(function, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in function.split("."):
        found = getattr(found, part, None)
    return f"{module}:{function}" if found is fun else None


def find_function(name: str) -> Callable[..., Any]:
    """The function called ``module:function``, looked for in this folder too."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(
            f"The objective must be module:function, such as model:loss, not {name!r}."
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise ValueError(
            f"There is no module {module_name!r} in {Path.cwd()} or on the Python path."
        ) from None
    for part in function_name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"Module {module_name!r} has no {function_name!r}.")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name} is not a function, but {type(found).__name__}.")
    return found
