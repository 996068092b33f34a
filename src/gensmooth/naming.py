"""Things of a user's own: by name, ``module:name``, and their source as a hash.

Objectives, families of directions, and the like.
"""

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)  # what knows where it is from
_MOST = 1000  # functions that one calls, and those call


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


# --- their source -------------------------------------------------------------------------------


class Identity(NamedTuple):
    """What is known of a function in other processes and at other times.

    Attributes:
        name: ``module:name``; ``None`` where that would not be the whole function.
        source: See :func:`source_hash`.
    """

    name: str | None
    source: str | None


def identity(fun: Callable[..., Any], arguments: Sequence[Any] = ()) -> Identity:
    """The name and the source of a function; with arguments of its own it has no name."""
    return Identity(None if arguments else name_of(fun), source_hash(fun, arguments))


def source_hash(fun: Callable[..., Any], arguments: Sequence[Any] = ()) -> str | None:
    """SHA-256 of what a function says; ``None`` where Python does not know its source.

    Comments at the end of a line count, those on lines of their own and blank lines do not. What it
    calls of its own module counts too, wherever it is; what other modules say does not, and neither
    do the values of variables.

    Args:
        fun: The function, or an object that can be called.
        arguments: What it is called with beside its parameters: numbers, words and arrays count.

    >>> def loss(x):
    ...     return x @ x
    >>> source_hash(loss) == source_hash(partial(loss)), source_hash(len)
    (True, None)
    """
    found: dict[int, str] = {}
    given: list[Any] = [*arguments]
    what: Any = fun
    while isinstance(what, partial):
        given += [*what.args, *sorted(what.keywords.items())]
        what = cast(Any, what.func)
    try:
        _collect(what, found)
    except Exception:  # no source, or an object of the user's that raises anything
        return None
    words = hashlib.sha256()
    for text in (*found.values(), *map(_words, given)):
        words.update(text.encode())
        words.update(b"\0")
    return words.hexdigest()


def _collect(fun: Any, found: dict[int, str]) -> None:
    """The source of a function and of those of its module that it calls, in order of calling."""
    fun = inspect.unwrap(fun)
    thing: Any = fun.__func__ if isinstance(fun, MethodType) else fun
    if not isinstance(thing, FunctionType | type):
        thing = cast(Any, type(thing))  # an object that can be called is what its class says
    if id(thing) in found or len(found) > _MOST:
        return
    found[id(thing)] = _source(thing)
    for name, other in _called(thing):
        if name != getattr(thing, "__name__", None) and other.__module__ == thing.__module__:
            _collect(other, found)


def _source(thing: Any) -> str:
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    if getattr(thing, "__name__", "") == "<lambda>":  # the statement around it is no part of it
        text = "\n".join(lines).strip()
        lambdas = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Lambda)]
        (only,) = lambdas  # of several it is not known which
        lines = (ast.get_source_segment(text, only) or "").splitlines()
    kept = (line.rstrip() for line in lines)
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("#"))


def _called(thing: Any) -> Iterator[tuple[str, Any]]:
    """The functions and classes that the code of a function, or of a class's methods, names."""
    if isinstance(thing, FunctionType):
        functions = [thing]
    else:
        own = cast(dict[str, Any], vars(thing)).values()
        functions = [each for each in own if isinstance(each, FunctionType)]
    for function in functions:
        enclosed = inspect.getclosurevars(function)
        names = {**function.__globals__, **enclosed.nonlocals}
        for name in _names(function.__code__):
            if isinstance(other := names.get(name), FunctionType | type):
                yield name, other


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _words(value: Any) -> str:
    import numpy as np  # the theory, which asks for no arrays, does without

    if isinstance(value, np.ndarray | np.generic):
        data: Any = np.ascontiguousarray(cast(Any, value))
        if data.dtype.hasobject:
            return "array"
        return f"{data.dtype} {data.shape} {hashlib.sha256(data.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_words, cast(list[Any], value)))}]"
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    return repr(cast(object, value)) if plain else type(value).__name__
