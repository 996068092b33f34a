"""Objects written as Python expressions: calls of public names with literal arguments."""

import ast
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gensmooth import checks


def public(module: str) -> dict[str, Callable[[], Any]]:
    """Return the public names of one of our modules, each with a function that looks it up."""
    imported = import_module(module)
    return {name: (lambda name=name: getattr(imported, name)) for name in imported.__all__}


def build(expression: str, names: dict[str, Callable[[], Any]]) -> Any:
    """Evaluate a call whose arguments are literals or further calls.

    Args:
        expression: The call, such as ``"sgd(cosine_decay(0.1, steps=500))"``.
        names: The names that may be called.

    Raises:
        ValueError: Without a message if it is not a call; with one if a name is unknown or a called
            object rejects its arguments.
        SyntaxError: If it is not valid Python.
    """
    tree = ast.parse(expression, mode="eval").body
    if not isinstance(tree, ast.Call):
        raise ValueError
    return value_of(tree, names)


def value_of(node: ast.expr, names: dict[str, Callable[[], Any]]) -> Any:
    """Return the value of a literal, or of a call that :func:`build` allows."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    called = ast.unparse(node.func).removeprefix("gs.")
    if called not in names:
        hint = checks.did_you_mean(called, names)
        raise ValueError(f"There is no function or class {called!r}.{hint}")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError
    return names[called]()(
        *(value_of(argument, names) for argument in node.args),
        **{str(keyword.arg): value_of(keyword.value, names) for keyword in node.keywords},
    )
