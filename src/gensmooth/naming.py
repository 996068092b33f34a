"""User-defined functions and classes: their names (``module:name``) and a hash of their source."""

import ast
import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

_MODULE_TYPES = (type, FunctionType, BuiltinFunctionType, MethodType)  # they record their module
_MAX_FUNCTIONS = 1000  # hashed for one objective, counting the functions that it calls


def name_of(thing: Any) -> str | None:
    """Return ``module:name`` if another process can import the object by that name, else ``None``.

    >>> import math
    >>> name_of(math.dist), name_of(lambda x: x)
    ('math:dist', None)
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module in ("__main__", "__mp_main__"):  # a script, or a process that it spawned
        return None
    target: Any = sys.modules.get(module)
    for part in name.split("."):
        target = getattr(target, part, None)
    return f"{module}:{name}" if target is thing else None


def load_module(name: str) -> ModuleType:
    """Import a user's module from the current folder or the Python path.

    This is the only place where a name that was typed, or read from a file, causes code to run.

    Raises:
        ValueError: If there is no such module.
    """
    if sys.modules.get(name) is not None:  # already imported: no code runs
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


_QUALIFIED_NAME = re.compile(r"[A-Za-z_][\w.]{0,199}:[A-Za-z_][\w.]{0,199}")


def find_in_file(name: str, *, trust: bool) -> Any:
    """Return the object that a file names ``module:name``.

    Without ``trust``, nothing is imported: the module must already have been imported, and the
    object must already be in it. A module that loads its parts lazily does not load them here.

    Raises:
        ValueError: If the name has another form, there is no such object, or ``trust`` is needed.
    """
    if not _QUALIFIED_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a name of the form module:name")
    module, _, inner = name.partition(":")
    check_trusted(module, trust=trust)
    if trust:
        return find(name)
    target: Any = sys.modules[module]
    for part in inner.split("."):
        target = vars(target).get(part) if isinstance(target, ModuleType | type) else None
    if target is None or isinstance(target, ModuleType):
        raise ValueError(f"the module {module!r} has no {inner!r}")
    return target


def check_trusted(module: str, *, trust: bool) -> None:
    """Reject a module named in a file, unless the caller trusts the file.

    A module that has already been imported is accepted, because no new code runs.

    Raises:
        ValueError: If the module would be imported without ``trust``.
    """
    if trust or module in sys.modules:
        return
    raise ValueError(
        f"it names the module {module[:200]!r}, which would be imported and run. If you trust it, "
        "pass trust=True (--trust in a shell)"
    )


def find_objective(name: str, *, trust: bool) -> Callable[..., Any]:
    """Return the objective named in a file, which the caller must trust because it will be called.

    Raises:
        ValueError: If ``trust`` is False, or the function belongs to Python's standard library.
    """
    in_library = (
        f"its objective {name[:200]!r} is in Python's standard library, not a user's function"
    )
    if _in_standard_library(name.partition(":")[0]):
        raise ValueError(in_library)
    if not trust:
        raise ValueError(
            f"its objective is {name[:200]!r}, which would be imported and called. Pass it "
            f"yourself (gs.resume(folder, fun), or --objective {name[:200]}), or, if you trust the "
            "folder, pass trust=True (--trust in a shell)"
        )
    fun = find_function(name)
    if isinstance(fun, _MODULE_TYPES) and _in_standard_library(
        str(getattr(fun, "__module__", None))
    ):
        raise ValueError(in_library)  # reached through a module that imports it
    return fun


def _in_standard_library(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def find(name: str) -> Any:
    """Import the object called ``module:name``.

    Raises:
        ValueError: If there is no such module or name.
    """
    module_name, _, inner = name.partition(":")
    target: Any = load_module(module_name)
    for part in inner.split("."):
        if not hasattr(target, part):
            raise ValueError(f"Module {module_name!r} has no {inner!r}.")
        target = getattr(target, part)
    return target


def find_function(name: str) -> Callable[..., Any]:
    """Import the objective called ``module:function``.

    Raises:
        ValueError: If there is no such function.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(
            f"The objective must be named module:function, such as model:loss, but is {name!r}."
        )
    fun = find(name)
    if not callable(fun):
        raise ValueError(f"{name} must be a function, but is of type {type(fun).__name__}.")
    return fun


# --- source hashes ------------------------------------------------------------------------------


class Identity(NamedTuple):
    """Identifies a function across processes and over time.

    Attributes:
        name: ``module:name``; ``None`` if the function cannot be imported or has extra arguments.
        source: See :func:`source_hash`.
    """

    name: str | None
    source: str | None


def identity(fun: Callable[..., Any], arguments: Sequence[Any] = ()) -> Identity:
    """Return the name and source hash of a function; with extra arguments it has no name."""
    return Identity(None if arguments else name_of(fun), source_hash(fun, arguments))


def source_hash(fun: Callable[..., Any], arguments: Sequence[Any] = ()) -> str | None:
    """Return the SHA-256 of a function's source, or ``None`` if its source is not available.

    The hash covers the function and what it calls in its own module. It ignores other modules, the
    values of variables, blank lines, and comments on their own lines; comments at the end of a line
    count.

    Args:
        fun: The function, or a callable object.
        arguments: Extra arguments it is called with. The hash covers the values of numbers, strings
            and arrays, and only the types of other objects.

    >>> def loss(x):
    ...     return x @ x
    >>> source_hash(loss) == source_hash(partial(loss)), source_hash(len)
    (True, None)
    """
    sources: dict[int, str] = {}
    bound: list[Any] = [*arguments]
    inner: Any = fun
    while isinstance(inner, partial):
        bound += [*inner.args, *sorted(inner.keywords.items())]
        inner = cast(Any, inner.func)
    try:
        _collect(inner, sources)
    except Exception:  # no source, or a user's object, which may raise anything
        return None
    digest = hashlib.sha256()
    for text in (*sources.values(), *map(_fingerprint, bound)):
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _collect(fun: Any, sources: dict[int, str]) -> None:
    """Add the source of a function, then that of the functions it calls in its own module."""
    fun = inspect.unwrap(fun)
    thing: Any = fun.__func__ if isinstance(fun, MethodType) else fun
    if not isinstance(thing, FunctionType | type):
        thing = cast(Any, type(thing))  # a callable object is hashed as its class
    if id(thing) in sources or len(sources) > _MAX_FUNCTIONS:
        return
    sources[id(thing)] = _source(thing)
    for name, other in _called(thing):
        if name != getattr(thing, "__name__", None) and other.__module__ == thing.__module__:
            _collect(other, sources)


def _source(thing: Any) -> str:
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    if getattr(thing, "__name__", "") == "<lambda>":  # keep the lambda, not the statement around it
        text = "\n".join(lines).strip()
        lambdas = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Lambda)]
        (lambda_node,) = lambdas  # with several on a line, it is unclear which one this is
        lines = (ast.get_source_segment(text, lambda_node) or "").splitlines()
    kept = (line.rstrip() for line in lines)
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("#"))


def _called(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes named in the code of a function or of a class's methods."""
    if isinstance(thing, FunctionType):
        functions = [thing]
    else:
        members = cast(dict[str, Any], vars(thing)).values()
        functions = [member for member in members if isinstance(member, FunctionType)]
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


def _fingerprint(value: Any) -> str:
    import numpy as np  # here, so that `theory` can be imported without NumPy

    if isinstance(value, np.ndarray | np.generic):
        data: Any = np.ascontiguousarray(cast(Any, value))
        if data.dtype.hasobject:
            return "array"
        return f"{data.dtype} {data.shape} {hashlib.sha256(data.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_fingerprint, cast(list[Any], value)))}]"
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    return repr(cast(object, value)) if plain else type(value).__name__
