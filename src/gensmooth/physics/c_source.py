"""Write expressions as C."""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from gensmooth.physics.symbols import FUNCTIONS, INVERSE, Slot, Symbol, in_order

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_C_NAMES = {
    **{name: name for name in (*FUNCTIONS, "abs", "isfinite", "pow")},
    **INVERSE,
    "arctan2": "atan2",
}


class Names(NamedTuple):
    """The C types of numbers and booleans, and the namespace of the functions."""

    number: str = "double"
    truth: str = "bool"
    functions: str = "wp"


_PLAIN = Names()


@final
@dataclass
class Writer:
    """Writes expressions as C, each operation once.

    Attributes:
        read: Returns the C code that reads a slot.
        names: The names of types and functions.
        lines: The lines written so far.
    """

    read: Callable[[Slot], str]
    names: Names = _PLAIN
    lines: list[str] = field(default_factory=list[str])
    _known: dict[Symbol, str] = field(default_factory=dict[Symbol, str])
    _count: int = 0

    def write(self, expression: Any) -> str:
        """Write an expression and return the C name or the number of its result."""
        for symbol in in_order(expression, self._known):
            operation = symbol.operation
            if operation == "slot":
                kind, text = self.names.number, self.read(symbol.operands[0])
            else:
                truth = operation in (*_COMPARISONS, "&&", "||", "!", "isfinite")
                kind = self.names.truth if truth else self.names.number
                text = _c(operation, self.names.functions, *map(self._name, symbol.operands))
            name = f"x{self._count}"
            self._count += 1
            self.add(f"{kind} {name} = {text};")
            self._known[symbol] = name
        return self._name(expression)

    def _name(self, operand: Any) -> str:
        return self._known[operand] if isinstance(operand, Symbol) else _number(operand)

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)

    @contextmanager
    def block(self, opening: str) -> Generator[None]:
        """Write lines between braces; names defined inside are not used after them."""
        self.add(f"{opening} {{")
        before = dict(self._known)
        yield
        self._known = before
        self.add("}")


def _c(operation: str, functions: str, *operands: str) -> str:
    match operation:
        case "neg":
            return f"-{operands[0]}"
        case "!":
            return f"!{operands[0]}"
        case "min":  # as in Python: the first, unless the second is smaller
            return f"({operands[1]} < {operands[0]}) ? {operands[1]} : {operands[0]}"
        case "max":
            return f"({operands[1]} > {operands[0]}) ? {operands[1]} : {operands[0]}"
        case "?":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        case _:
            pass
    if operation in _C_NAMES:
        return f"{functions}::{_C_NAMES[operation]}({', '.join(operands)})"
    return f"{operands[0]} {operation} {operands[1]}"


def _number(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    number = float(value)
    if math.isnan(number):
        return "((1e300 * 1e10) - (1e300 * 1e10))"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}1e300 * 1e10)"
    return f"({number!r})" if number < 0 else repr(number)
