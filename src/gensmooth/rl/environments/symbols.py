# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Numbers that are not known yet: every operation on a symbol is written down.

An environment says what it observes and pays in Python functions that Numba compiles for the CPU.
For a GPU the same functions are *traced*: they run on arrays of :class:`Symbol`. A comparison that
Python must decide (``if``, ``and``, ``not``) splits the trace: the function runs again for the
other answer, until every way through it is known (:func:`explore`). Then each result is one
expression that chooses between the ways.

:mod:`gensmooth.rl.environments.rebuilt` makes functions that understand symbols, and
:mod:`gensmooth.rl.environments.written` writes expressions as C.
"""

import builtins
import math
import operator
import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, final
from weakref import WeakValueDictionary

import numpy as np

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

MOST_WAYS = 512  # through a function
_MOST_QUESTIONS = 256  # on one of them

# NumPy's functions of one number that have a form of the same name, and those with another name.
FUNCTIONS = ("sqrt", "sin", "cos", "tan", "exp", "log", "tanh", "floor", "ceil")
INVERSE = {"arctan": "atan", "arcsin": "asin", "arccos": "acos"}


# Symbols are shared by the whole process, and so is the question that Python is just deciding.
_tracing = threading.RLock()


def _forget_tracing() -> None:
    """In a fork nobody traces: who did is a thread of the parent's."""
    global _tracing
    _tracing = threading.RLock()
    _deciding.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_tracing)


def one_at_a_time(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Let no two threads work with symbols at a time."""

    @wraps(function)
    def alone(*args: _Given.args, **options: _Given.kwargs) -> _Found:
        with _tracing:
            return function(*args, **options)

    return alone


class TraceError(ValueError):
    """A function does something that cannot be written down as expressions."""


class Slot(NamedTuple):
    """A number that is there when the code runs.

    Attributes:
        array: The name of the array that it is in.
        entry: Where, counted through the whole array.
        moved: Whether it is read after the physics has moved.
    """

    array: str
    entry: int
    moved: bool


@final
class Symbol:
    """A number that is not known yet: a slot, or an operation on other numbers.

    Two that are written the same way are the same object.

    Args:
        operation: ``"slot"``, an operator, or the name of a function.
        operands: A :class:`Slot`, or symbols and numbers.
    """

    __slots__ = ("__weakref__", "operands", "operation")

    operation: str
    operands: tuple[Any, ...]

    def __new__(cls, operation: str, *operands: Any) -> "Symbol":
        """The one symbol that is written so."""
        key = (operation, *map(_key, operands))
        found = _known_symbols.get(key)
        if found is None:
            found = object.__new__(cls)
            found.operation, found.operands = operation, operands
            _known_symbols[key] = found
        return found

    def __repr__(self) -> str:
        if self.operation == "slot":
            found = self.operands[0]
            return f"{found.array}[{found.entry}]"
        return f"{self.operation}({', '.join(map(repr, self.operands))})"

    def __add__(self, other: Any) -> Any:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("/", other, self)

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

    def __lt__(self, other: Any) -> Any:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Any:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(">=", self, other)

    def __eq__(self, other: object) -> Any:
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Any:
        return _binary("!=", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Any:
        return _binary("&&", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _binary("||", self, other)

    __ror__ = __or__

    def __invert__(self) -> "Symbol":
        return Symbol("!", self)

    def __bool__(self) -> bool:
        return _deciding[-1].decide(self)

    def __float__(self) -> float:
        raise TraceError(
            "a number that is known only when the robot moves was used where Python or NumPy "
            "needs one now (float(), int(), a NumPy function without a form for symbols, an array "
            "of floats that was made beforehand)"
        )

    __int__ = __index__ = __float__  # type: ignore[assignment]

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Any:
        return _apply(function, method, given, options)


_known_symbols: WeakValueDictionary[Any, Symbol] = WeakValueDictionary()


def _key(operand: Any) -> tuple[Any, ...]:
    """What tells operands apart: 0.0 and −0.0, 1 and 1.0 and True, but not NaN and NaN."""
    if isinstance(operand, Symbol):
        return Symbol, id(operand)
    return type(operand), operand.hex() if isinstance(operand, float) else operand


def _binary(operation: str, left: Any, right: Any) -> Any:
    """An operation on two numbers, or on a number and each entry of an array."""
    for each in (left, right):
        if not isinstance(each, Symbol | int | float | np.number | np.bool_):
            return NotImplemented
    return Symbol(operation, left, right)


def _floored(left: Any, right: Any) -> Any:
    ratio = _binary("/", left, right)
    return ratio if ratio is NotImplemented else Symbol("floor", ratio)


def _remainder(left: Any, right: Any) -> Any:
    """The rest ``left − right ⌊left / right⌋``, which has the sign of ``right``, as Python's."""
    whole = _floored(left, right)
    return whole if whole is NotImplemented else left - right * whole


def slot(array: str, index: int, *, moved: bool = False) -> Symbol:
    """The symbol of a number in an array."""
    return Symbol("slot", Slot(array, index, moved))


def same(left: Any, right: Any) -> bool:
    """Whether two expressions are written the same way."""
    return _key(left) == _key(right)


# --- functions of numbers that may be symbols ---------------------------------------------------


def known(value: Any) -> bool:
    """Whether a number is a number already."""
    return not isinstance(value, Symbol)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """``yes`` if the condition holds, else ``no``."""
    return (yes if condition else no) if known(condition) else Symbol("?", condition, yes, no)


def fold(operation: str, values: Iterable[Any]) -> Any:
    """``min`` or ``max`` of numbers as Python's, or ``&&`` or ``||`` of truths."""
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
    """``minimum`` and ``maximum``, which are NaN where one is, and ``fmin`` and ``fmax``."""
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


def _hypot(x: Any, y: Any) -> Any:
    return ENTRYWISE["sqrt"](x * x + y * y)


def _clip(value: Any, low: Any, high: Any) -> Any:
    return ENTRYWISE["minimum"](ENTRYWISE["maximum"](value, low), high)


# What NumPy's functions of these names do with an entry. Its own would ask an array of objects for
# the truth of every comparison.
ENTRYWISE: dict[str, Callable[..., Any]] = {
    **{name: _one(name) for name in (*FUNCTIONS, *INVERSE, "isfinite")},
    **{name: _extreme(name) for name in ("minimum", "maximum", "fmin", "fmax")},
    "arctan2": _arctan2,
    "hypot": _hypot,
    "clip": _clip,
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
    """An array of objects, some of them symbols: NumPy's functions give expressions of them."""

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Any:
        return _apply(function, method, given, options)


def _apply(function: Any, method: str, given: Sequence[Any], options: dict[str, Any]) -> Any:
    """A function of NumPy's for each entry."""
    form = ENTRYWISE.get(function.__name__)
    if form is not None:
        function = np.frompyfunc(form, function.nin, 1)
        options.pop("dtype", None)
    if options.get("out"):
        options["out"] = tuple(map(_plain, options["out"]))
    found = getattr(function, method)(*map(_plain, given), **options)
    return as_symbols(found) if isinstance(found, np.ndarray) else found


def _plain(value: Any) -> Any:
    """What NumPy treats as an ordinary array of objects."""
    if isinstance(value, Symbol):
        held = np.empty((), object)
        held[()] = value
        return held
    return value.view(np.ndarray) if isinstance(value, Symbols) else value


def as_symbols(values: Any) -> Symbols:
    """An array in which symbols can be."""
    return np.asarray(values, object).view(Symbols)


def symbols(array: str, shape: tuple[int, ...], *, first: int = 0, moved: bool = False) -> Symbols:
    """An array of the symbols of an array, from its entry ``first`` on."""
    filled = np.empty(shape, object)
    flat = filled.reshape(-1)
    for index in range(flat.size):
        flat[index] = slot(array, first + index, moved=moved)
    return filled.view(Symbols)


# --- every way through a function ---------------------------------------------------------------


class _Decisions:
    """The answers for one run: those given so far, then "yes" to what is asked anew."""

    def __init__(self, answers: Sequence[bool]) -> None:
        self.answers = list(answers)
        self.asked: list[Symbol] = []

    def decide(self, condition: Symbol) -> bool:
        for before, answer in zip(self.asked, self.answers, strict=False):
            if same(before, condition):  # what was decided stays so
                return answer
        self.asked.append(condition)
        if len(self.asked) > _MOST_QUESTIONS:
            raise TraceError(
                f"more than {_MOST_QUESTIONS} decisions follow one another: a loop must not last "
                "until a number that is known only when the robot moves says so"
            )
        if len(self.asked) > len(self.answers):
            self.answers.append(True)
        return self.answers[len(self.asked) - 1]


_deciding: list[_Decisions] = []


def explore(run: Callable[[], dict[Slot, Any]]) -> dict[Slot, Any]:
    """What ``run`` computes, by where it goes, whichever way it takes.

    What only some ways set keeps its value on the others.

    Raises:
        TraceError: When there are too many ways.
    """
    ways = 0

    def follow(answers: Sequence[bool]) -> dict[Slot, Any]:
        nonlocal ways
        ways += 1
        if ways > MOST_WAYS:
            raise TraceError(
                f"there are more than {MOST_WAYS} ways through its `if`s: np.where, np.minimum, "
                "np.maximum and np.clip choose without any"
            )
        decisions = _Decisions(answers)
        _deciding.append(decisions)
        try:
            found = run()
        except TraceError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, NotImplementedError) as error:
            raise TraceError(
                "something in it has no form for numbers that are known only when the robot moves "
                f"({type(error).__name__}: {error})"
            ) from error
        finally:
            _deciding.pop()
        for depth in reversed(range(len(answers), len(decisions.asked))):
            other = follow([*decisions.answers[:depth], False])
            found = _either(decisions.asked[depth], found, other)
        return found

    return follow(())


def _either(condition: Symbol, yes: dict[Slot, Any], no: dict[Slot, Any]) -> dict[Slot, Any]:
    found: dict[Slot, Any] = {}
    for key in yes | no:
        usual = Symbol("slot", key)
        a, b = yes.get(key, usual), no.get(key, usual)
        found[key] = a if same(a, b) else Symbol("?", condition, a, b)
    return found


def slots(expressions: Iterable[Any]) -> dict[Slot, None]:
    """The slots that expressions read, each once, in the order in which they are met."""
    found: dict[Slot, None] = {}
    seen: set[Symbol] = set()
    todo = list(expressions)[::-1]
    while todo:
        each = todo.pop()
        if not isinstance(each, Symbol) or each in seen:
            continue
        seen.add(each)
        if each.operation == "slot":
            found[each.operands[0]] = None
        else:
            todo += each.operands[::-1]
    return found


# --- as numbers -------------------------------------------------------------------------------


def value_of(expression: Any, read: Callable[[Slot], float]) -> Any:
    """What an expression is when each slot has the value that ``read`` says."""
    values: dict[Symbol, Any] = {}
    for each in in_order(expression, values):
        if each.operation == "slot":
            values[each] = read(each.operands[0])
        else:
            operands = [values[o] if isinstance(o, Symbol) else o for o in each.operands]
            with np.errstate(all="ignore"):
                values[each] = VALUES[each.operation](*operands)
    return values[expression] if isinstance(expression, Symbol) else expression


def in_order(expression: Any, known: Container[Symbol]) -> Iterator[Symbol]:
    """The operations of an expression that are not known yet, what they need before them."""
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


def _power(a: float, b: float) -> float:
    return float(np.power(np.float64(a), np.float64(b)))


def _quotient(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


VALUES: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "pow": _power,
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
