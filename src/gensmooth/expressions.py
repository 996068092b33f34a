"""Objects as text, written as in Python: calls of public names with literal arguments."""

import ast
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gensmooth import checks


def public(module: str) -> dict[str, Callable[[], Any]]:
    """The public names of a module of ours, looked up when they are called."""
    home = import_module(module)
    return {name: (lambda name=name: getattr(home, name)) for name in home.__all__}


def build(expression: str, names: dict[str, Callable[[], Any]]) -> Any:
    """What a call of some names gives, with arguments that are literals or such calls.

    Args:
        expression: Such as ``"sgd(cosine_decay(0.1, steps=500))"``.
        names: What may be called.

    Raises:
        ValueError: Without words if it is no call; with words if there is no such name, or if the
            object has something to say.
        SyntaxError: When it is not Python.
    """
    tree = ast.parse(expression, mode="eval").body
    if not isinstance(tree, ast.Call):
        raise ValueError
    return value_of(tree, names)


def value_of(node: ast.expr, names: dict[str, Callable[[], Any]]) -> Any:
    """The value of a literal, or of a call as :func:`build` allows it."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    called = ast.unparse(node.func).removeprefix("gs.")
    if called not in names:
        hint = checks.did_you_mean(called, names)
        raise ValueError(f"There is no {called!r} to call.{hint}")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError
    return names[called]()(
        *(value_of(each, names) for each in node.args),
        **{str(keyword.arg): value_of(keyword.value, names) for keyword in node.keywords},
    )
