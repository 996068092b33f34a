# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Symbols: numbers that are known only when the code runs. Every operation on them is recorded.

The functions of an environment (observation, reward, end) are Python that Numba compiles for the
CPU. For a GPU, the same functions are *traced*: they run on arrays of :class:`Symbol`. Where Python
must decide a comparison (``if``, ``and``, ``not``), the function runs again with the other answer,
until every path through it is known (:func:`explore`). Each result is then one expression that
chooses between the paths.

:mod:`gensmooth.physics.symbolic_numpy` makes functions that understand symbols, and
:mod:`gensmooth.physics.c_source` writes expressions as C.
"""

import builtins
import math
import operator
import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple, ParamSpec, TypeVar, final
from weakref import WeakValueDictionary

import numpy as np

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

MAX_PATHS = 512  # through a function
_MAX_DECISIONS = 256  # on one path

# NumPy's functions of one number that have the same name in C, and those that have another name.
FUNCTIONS = ("sqrt", "sin", "cos", "tan", "exp", "log", "tanh", "floor", "ceil")
INVERSE = {"arctan": "atan", "arcsin": "asin", "arccos": "acos"}


# The whole process shares the symbols and the decisions of the current trace.
_tracing = threading.RLock()


def _forget_tracing() -> None:
    """Reset the lock in a forked process: the thread that held it exists only in the parent."""
    global _tracing
    _tracing = threading.RLock()
    _deciding.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_tracing)


def one_at_a_time(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Allow only one thread at a time to work with symbols."""

    @wraps(function)
    def alone(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        with _tracing:
            return function(*args, **options)

    return alone


class TraceError(ValueError):
    """A function does something that cannot be written as expressions."""


class Slot(NamedTuple):
    """An entry of an array that the code reads when it runs.

    Attributes:
        array: The name of the array.
        entry: The index in the flattened array.
        moved: Whether the entry is read after the physics step.
    """

    array: str
    entry: int
    moved: bool


def _both(operation: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return the methods of an operator: with the symbol as the left and as the right operand."""
    return (
        lambda self, other: _binary(operation, self, other),
        lambda self, other: _binary(operation, other, self),
    )


@final
class Symbol:
    """A number that is known only when the code runs: a slot, or an operation on other numbers.

    Two symbols with the same operation and operands are the same object.

    Args:
        operation: ``"slot"``, an operator, or the name of a function.
        operands: A :class:`Slot`, or symbols and numbers.
    """

    __slots__ = ("__weakref__", "operands", "operation")

    operation: str
    operands: tuple[Any, ...]

    def __new__(cls, operation: str, *operands: Any) -> "Symbol":
        """Return the symbol with this operation and these operands."""
        key = (operation, *map(_key, operands))
        symbol = _known_symbols.get(key)
        if symbol is None:
            symbol = object.__new__(cls)
            symbol.operation, symbol.operands = operation, operands
            _known_symbols[key] = symbol
        return symbol

    def __repr__(self) -> str:
        if self.operation == "slot":
            read: Slot = self.operands[0]
            return f"{read.array}[{read.entry}]"
        return f"{self.operation}({', '.join(map(repr, self.operands))})"

    __add__, __radd__ = _both("+")
    __sub__, __rsub__ = _both("-")
    __mul__, __rmul__ = _both("*")
    __truediv__, __rtruediv__ = _both("/")
    __and__, __rand__ = _both("&&")
    __or__, __ror__ = _both("||")
    __lt__, __gt__ = _both("<")[0], _both(">")[0]
    __le__, __ge__ = _both("<=")[0], _both(">=")[0]

    def __floordiv__(self, other: Any) -> Any:
        return _floored(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _floored(other, self)

    def __mod__(self, other: Any) -> Any:
        return _remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int | float) and other == int(other) and 1 <= other <= 8:
            product: Any = self
            for _ in range(int(other) - 1):
                product = product * self
            return product
        return _binary("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("pow", other, self)

    def __neg__(self) -> "Symbol":
        return Symbol("neg", self)

    def __pos__(self) -> "Symbol":
        return self

    def __abs__(self) -> "Symbol":
        return Symbol("abs", self)

    def __eq__(self, other: object) -> Any:
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Any:
        return _binary("!=", self, other)

    __hash__ = object.__hash__

    def __invert__(self) -> "Symbol":
        return Symbol("!", self)

    def __bool__(self) -> bool:
        return _deciding[-1].decide(self)

    def __float__(self) -> float:
        raise TraceError(
            "a number that is known only when the robot moves was used where Python or NumPy "
            "needs its value now (float(), int(), a NumPy function that does not support symbols, "
            "an array of floats that was made beforehand)"
        )

    __int__ = __index__ = __float__  # type: ignore[assignment]

    def __array_ufunc__(self, function: Any, method: str, *arguments: Any, **options: Any) -> Any:
        return _apply(function, method, arguments, options)


_known_symbols: WeakValueDictionary[Any, Symbol] = WeakValueDictionary()


def _key(operand: Any) -> tuple[Any, ...]:
    """Return a key that separates 0.0 from −0.0, and 1 from 1.0 and True; NaN equals NaN."""
    if isinstance(operand, Symbol):
        return Symbol, id(operand)
    return type(operand), operand.hex() if isinstance(operand, float) else operand


def _binary(operation: str, left: Any, right: Any) -> Any:
    """Record an operation; ``NotImplemented`` if an operand is not a number, such as an array."""
    for each in (left, right):
        if not isinstance(each, Symbol | int | float | np.number | np.bool_):
            return NotImplemented
    return Symbol(operation, left, right)


def _floored(left: Any, right: Any) -> Any:
    ratio = _binary("/", left, right)
    return ratio if ratio is NotImplemented else Symbol("floor", ratio)


def _remainder(left: Any, right: Any) -> Any:
    """Return ``left − right ⌊left / right⌋``, which has the sign of ``right``, as in Python."""
    quotient = _floored(left, right)
    return quotient if quotient is NotImplemented else left - right * quotient


def slot(array: str, index: int, *, moved: bool = False) -> Symbol:
    """Return the symbol of an entry of an array."""
    return Symbol("slot", Slot(array, index, moved))


def same(left: Any, right: Any) -> bool:
    """Return whether two expressions are identical."""
    return _key(left) == _key(right)


# --- functions of numbers that may be symbols ---------------------------------------------------


def known(value: Any) -> bool:
    """Return whether a value is a plain number rather than a symbol."""
    return not isinstance(value, Symbol)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` if the condition holds, else ``no``."""
    return (yes if condition else no) if known(condition) else Symbol("?", condition, yes, no)


def fold(operation: str, values: Iterable[Any]) -> Any:
    """Return Python's ``min`` or ``max`` of numbers, or ``&&`` or ``||`` of booleans."""
    first, *others = values
    for value in others:
        if known(first) and known(value):
            first = VALUES[operation](first, value)
        else:
            first = Symbol(operation, first, value)
    return first


def _one(name: str) -> Callable[[Any], Any]:
    usual = getattr(np, name)
    return lambda value: usual(value) if known(value) else Symbol(name, value)


def _extreme(name: str) -> Callable[[Any, Any], Any]:
    """Return NumPy's ``minimum``, ``maximum`` (NaN if one number is), ``fmin`` or ``fmax``."""
    usual = getattr(np, name)

    def one(a: Any, b: Any) -> Any:
        if known(a) and known(b):
            return usual(a, b)
        first = a < b if "min" in name else a > b
        lost = b if name.startswith("f") else a
        return choose(first | (lost != lost), a, b)

    return one


def _arctan2(y: Any, x: Any) -> Any:
    return math.atan2(y, x) if known(y) and known(x) else Symbol("arctan2", y, x)


# NumPy's functions, for one entry. On an array of objects, NumPy itself would ask for the truth
# value of every comparison.
ENTRYWISE: dict[str, Callable[..., Any]] = {
    **{name: _one(name) for name in (*FUNCTIONS, *INVERSE, "isfinite")},
    **{name: _extreme(name) for name in ("minimum", "maximum", "fmin", "fmax")},
    "arctan2": _arctan2,
    "hypot": lambda x, y: ENTRYWISE["sqrt"](x * x + y * y),
    "clip": lambda x, low, high: ENTRYWISE["minimum"](ENTRYWISE["maximum"](x, low), high),
    "sign": lambda x: choose(x > 0, 1.0, choose(x < 0, -1.0, choose(x == 0, 0.0, x))),
    "isnan": lambda x: x != x,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "logical_and": lambda a, b: fold("&&", (a, b)),
    "logical_or": lambda a, b: fold("||", (a, b)),
    "logical_not": lambda a: (not a) if known(a) else ~a,
    "absolute": abs,
}


class Symbols(np.ndarray):
    """An array of objects, some of them symbols; NumPy's functions of it return expressions."""

    def __array_ufunc__(self, function: Any, method: str, *arguments: Any, **options: Any) -> Any:
        return _apply(function, method, arguments, options)


def _apply(function: Any, method: str, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Apply a NumPy function to each entry."""
    form = ENTRYWISE.get(function.__name__)
    if form is not None:
        function = np.frompyfunc(form, function.nin, 1)
        options.pop("dtype", None)
    if options.get("out"):
        options["out"] = tuple(map(_plain, options["out"]))
    result = getattr(function, method)(*map(_plain, arguments), **options)
    return as_symbols(result) if isinstance(result, np.ndarray) else result


def _plain(value: Any) -> Any:
    """Return a value that NumPy treats as an ordinary array of objects."""
    if isinstance(value, Symbol):
        held = np.empty((), object)
        held[()] = value
        return held
    return value.view(np.ndarray) if isinstance(value, Symbols) else value


def as_symbols(values: Any) -> Symbols:
    """Return an array that can hold symbols."""
    return np.asarray(values, object).view(Symbols)


def symbols(array: str, shape: tuple[int, ...], *, first: int = 0, moved: bool = False) -> Symbols:
    """Return an array of symbols: the entries of ``array``, from ``first`` on."""
    filled = np.empty(shape, object)
    flat = filled.reshape(-1)
    for index in range(flat.size):
        flat[index] = slot(array, first + index, moved=moved)
    return filled.view(Symbols)


# --- every path through a function --------------------------------------------------------------


class _Decisions:
    """The decisions of one run: first the prescribed answers, then "yes" to every new question."""

    def __init__(self, answers: Sequence[bool]) -> None:
        self.answers = list(answers)
        self.asked: list[Symbol] = []

    def decide(self, condition: Symbol) -> bool:
        for before, answer in zip(self.asked, self.answers, strict=False):
            if same(before, condition):  # decided earlier on this path
                return answer
        self.asked.append(condition)
        if len(self.asked) > _MAX_DECISIONS:
            raise TraceError(
                f"it makes more than {_MAX_DECISIONS} decisions on one path: the length of a loop "
                "must not depend on a number that is known only when the robot moves"
            )
        if len(self.asked) > len(self.answers):
            self.answers.append(True)
        return self.answers[len(self.asked) - 1]


_deciding: list[_Decisions] = []


def explore(run: Callable[[], dict[Slot, Any]]) -> dict[Slot, Any]:
    """Run a function along every path, and combine the results into one expression per slot.

    A slot that only some paths set keeps its value on the others.

    Raises:
        TraceError: If there are too many paths.
    """
    paths = 0

    def follow(answers: Sequence[bool]) -> dict[Slot, Any]:
        nonlocal paths
        paths += 1
        if paths > MAX_PATHS:
            raise TraceError(
                f"there are more than {MAX_PATHS} paths through its `if`s: use np.where, "
                "np.minimum, np.maximum or np.clip instead, which add no path"
            )
        decisions = _Decisions(answers)
        _deciding.append(decisions)
        try:
            results = run()
        except TraceError as error:
            raise TraceError(f"{_line_of(error)}{error}") from error
        except (TypeError, ValueError, LookupError, AttributeError, NotImplementedError) as error:
            raise TraceError(
                f"{_line_of(error)}it uses an operation that does not support numbers that are "
                f"known only when the robot moves ({type(error).__name__}: {error})"
            ) from error
        finally:
            _deciding.pop()
        for depth in reversed(range(len(answers), len(decisions.asked))):
            other = follow([*decisions.answers[:depth], False])
            results = _either(decisions.asked[depth], results, other)
        return results

    return follow(())


def _line_of(error: BaseException) -> str:
    """Return the innermost line of a traced function at which an error occurred, as a prefix."""
    ours, libraries = Path(__file__).parent, Path(np.__file__).parents[1]
    for frame in reversed(extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_absolute() and file.parent != ours and libraries not in file.parents:
            return f"in {file.name}, line {frame.lineno}, "
    return ""


def _either(condition: Symbol, yes: dict[Slot, Any], no: dict[Slot, Any]) -> dict[Slot, Any]:
    chosen: dict[Slot, Any] = {}
    for key in yes | no:
        usual = Symbol("slot", key)
        a, b = yes.get(key, usual), no.get(key, usual)
        chosen[key] = a if same(a, b) else Symbol("?", condition, a, b)
    return chosen


def slots(expressions: Iterable[Any]) -> dict[Slot, None]:
    """Return the slots that expressions read, each once, in the order of their first use."""
    met: dict[Slot, None] = {}
    seen: set[Symbol] = set()
    todo = list(expressions)[::-1]
    while todo:
        each = todo.pop()
        if not isinstance(each, Symbol) or each in seen:
            continue
        seen.add(each)
        if each.operation == "slot":
            met[each.operands[0]] = None
        else:
            todo += each.operands[::-1]
    return met


# --- evaluation on numbers -----------------------------------------------------------------------


def value_of(expression: Any, read: Callable[[Slot], float]) -> Any:
    """Evaluate an expression; ``read`` returns the values of its slots."""
    values: dict[Symbol, Any] = {}
    for symbol in in_order(expression, values):
        if symbol.operation == "slot":
            values[symbol] = read(symbol.operands[0])
        else:
            operands = [values[o] if isinstance(o, Symbol) else o for o in symbol.operands]
            with np.errstate(all="ignore"):
                values[symbol] = VALUES[symbol.operation](*operands)
    return values[expression] if isinstance(expression, Symbol) else expression


def in_order(expression: Any, known: Container[Symbol]) -> Iterator[Symbol]:
    """Yield the operations of an expression that are not in ``known``, operands first."""
    todo: list[Any] = [expression]
    while todo:
        each = todo[-1]
        if not isinstance(each, Symbol) or each in known:
            todo.pop()
            continue
        needed = () if each.operation == "slot" else each.operands
        missing = [o for o in needed if isinstance(o, Symbol) and o not in known]
        todo += missing[::-1]
        if not missing:
            yield todo.pop()


VALUES: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: float(np.float64(a) / np.float64(b)),
    "pow": lambda a, b: float(np.power(np.float64(a), np.float64(b))),
    "neg": operator.neg,
    "abs": abs,
    "min": builtins.min,
    "max": builtins.max,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
    "!": operator.not_,
    "?": lambda a, b, c: b if a else c,
    "isfinite": math.isfinite,
    "arctan2": math.atan2,
    **{name: getattr(np, name) for name in (*FUNCTIONS, *INVERSE)},
}
