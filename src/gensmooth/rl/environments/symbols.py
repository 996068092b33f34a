"""An environment's plain functions, run once on symbols: what they compute, as code for a GPU.

An environment says what it observes and pays in Python functions that Numba compiles for the CPU.
For a GPU the same functions are *traced*: they run on arrays of :class:`Symbol`, which write down
every operation. A comparison that Python must decide (``if``, ``and``, ``min``) splits the trace:
the function runs again for the other answer, until every way through it is known. Then each
result is one expression that chooses between the ways, and all are written out as C.

The functions need not know: they are rebuilt on globals in which NumPy, :mod:`math`, ``min`` and
``max`` understand symbols, and in which calling MuJoCo means that the world moves on.
"""

import builtins
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple, final
from weakref import WeakValueDictionary

import numpy as np

MOST_WAYS = 512  # through a function

_FUNCTIONS = ("sqrt", "sin", "cos", "tan", "exp", "log", "tanh", "floor", "ceil")
_INVERSE = {"arctan": "atan", "arcsin": "asin", "arccos": "acos", "arctan2": "atan2"}
_C_NAMES = {name: f"wp::{name}" for name in _FUNCTIONS} | {
    name: f"wp::{short}" for name, short in _INVERSE.items()
}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class TraceError(ValueError):
    """A function does something that cannot be written down as expressions."""


class Place(NamedTuple):
    """A number that is there when the code runs.

    Attributes:
        array: The name of the array that it is in.
        index: Where, counted through the whole array.
        moved: Whether it is read after the physics has moved.
    """

    array: str
    index: int
    moved: bool


@final
class Symbol:
    """A number that is not known yet: a place, or an operation on other numbers.

    Two that are written the same way are the same object.

    Args:
        operation: ``"place"``, an operator, or the name of a function.
        operands: A :class:`Place`, or symbols and numbers.
    """

    __slots__ = ("__weakref__", "operands", "operation")
    __array_priority__ = 1000.0

    operation: str
    operands: tuple[Any, ...]

    def __new__(cls, operation: str, *operands: Any) -> "Symbol":
        key = (operation, *((type(o), id(o) if isinstance(o, Symbol) else o) for o in operands))
        found = _known_symbols.get(key)
        if found is None:
            found = object.__new__(cls)
            found.operation, found.operands = operation, operands
            _known_symbols[key] = found
        return found

    def __repr__(self) -> str:
        if self.operation == "place":
            place = self.operands[0]
            return f"{place.array}[{place.index}]"
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

    def __getattr__(self, name: str) -> Callable[[], "Symbol"]:
        # NumPy calls x.sin() for np.sin of an array of objects.
        if name in _C_NAMES:
            return lambda: Symbol(name, self)
        raise AttributeError(name)


_known_symbols: WeakValueDictionary[Any, Symbol] = WeakValueDictionary()


def _binary(operation: str, left: Any, right: Any) -> Any:
    """An operation on two numbers, or on a number and each entry of an array."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return NotImplemented
    for each in (left, right):
        if not isinstance(each, Symbol | int | float | np.number | np.bool_):
            return NotImplemented
    return Symbol(operation, left, right)


def place(array: str, index: int, *, moved: bool = False) -> Symbol:
    """The symbol of a number in an array."""
    return Symbol("place", Place(array, index, moved))


def symbols(array: str, shape: tuple[int, ...], *, moved: bool = False) -> np.ndarray:
    """An array of the symbols of an array."""
    filled = np.empty(shape, object)
    flat = filled.reshape(-1)
    for index in range(flat.size):
        flat[index] = place(array, index, moved=moved)
    return filled


def same(left: Any, right: Any) -> bool:
    """Whether two expressions are written the same way."""
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return left is right
    return type(left) is type(right) and left == right


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
        if len(self.asked) > len(self.answers):
            self.answers.append(True)
        return self.answers[len(self.asked) - 1]


_deciding: list[_Decisions] = []


def explore(run: Callable[[], dict[Place, Any]]) -> dict[Place, Any]:
    """What ``run`` computes, by where it goes, whichever way it takes.

    What only some ways set keeps its value on the others.

    Raises:
        TraceError: When there are too many ways.
    """
    ways = 0

    def follow(answers: Sequence[bool]) -> dict[Place, Any]:
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
        finally:
            _deciding.pop()
        for depth in reversed(range(len(answers), len(decisions.asked))):
            other = follow([*decisions.answers[:depth], False])
            found = _either(decisions.asked[depth], found, other)
        return found

    return follow(())


def _either(condition: Symbol, yes: dict[Place, Any], no: dict[Place, Any]) -> dict[Place, Any]:
    found: dict[Place, Any] = {}
    for key in yes | no:
        usual = Symbol("place", key)
        a, b = yes.get(key, usual), no.get(key, usual)
        found[key] = a if same(a, b) else Symbol("?", condition, a, b)
    return found


def places(expressions: Iterable[Any]) -> dict[Place, None]:
    """The places that expressions read, each once, in the order in which they are met."""
    found: dict[Place, None] = {}
    seen: set[Symbol] = set()
    todo = list(expressions)[::-1]
    while todo:
        each = todo.pop()
        if not isinstance(each, Symbol) or each in seen:
            continue
        seen.add(each)
        if each.operation == "place":
            found[each.operands[0]] = None
        else:
            todo += each.operands[::-1]
    return found


# --- functions on other globals -----------------------------------------------------------------


def _choose_smaller(*values: Any) -> Any:
    return _reduce("min", builtins.min, values)


def _choose_larger(*values: Any) -> Any:
    return _reduce("max", builtins.max, values)


def _reduce(name: str, usual: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    if len(values) == 1:
        values = tuple(values[0])
    if not any(isinstance(value, Symbol) for value in values):
        return usual(*values)
    found = values[0]
    for value in values[1:]:
        found = Symbol(name, found, value)
    return found


def _each(function: Callable[..., Any], *arrays: Any) -> Any:
    """A function of numbers, for each entry of arrays."""
    if not any(isinstance(a, np.ndarray | list | tuple) for a in arrays):
        return function(*arrays)
    apply = np.frompyfunc(function, len(arrays), 1)
    return apply(*arrays)


def _known(value: Any) -> bool:
    return not isinstance(value, Symbol)


def _unary(name: str) -> Callable[[Any], Any]:
    usual = getattr(np, name)

    def one(value: Any) -> Any:
        return usual(value) if _known(value) else Symbol(name, value)

    return lambda value: _each(one, value)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    def one(asked: Any, a: Any, b: Any) -> Any:
        return (a if asked else b) if _known(asked) else Symbol("?", asked, a, b)

    return _each(one, condition, yes, no)


def _sign(value: Any) -> Any:
    return _where(value > 0, 1.0, _where(value < 0, -1.0, 0.0))


def _norm(vector: Any) -> Any:
    total: Any = 0.0
    for value in np.asarray(vector, object).reshape(-1):
        total = total + value * value
    return Symbol("sqrt", total) if isinstance(total, Symbol) else math.sqrt(total)


def _all(values: Any) -> Any:
    return _reduce("&&", lambda *v: builtins.all(v), (True, *np.asarray(values, object).flat))


def _any(values: Any) -> Any:
    return _reduce("||", lambda *v: builtins.any(v), (False, *np.asarray(values, object).flat))


def _two(name: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: _each(lambda x, y: _reduce(name, getattr(builtins, name), (x, y)), a, b)


def _objects(maker: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that makes an array, of objects now, so that symbols can go in."""

    def make(*arguments: Any, **_: Any) -> Any:
        return np.asarray(maker(*arguments)).astype(object)

    return make


def _array(values: Any, *_: Any, **__: Any) -> Any:
    return np.array(values, object)


_isfinite = _unary("isfinite")


class _Numpy(ModuleType):
    """NumPy for symbols: what is not here is NumPy's own, which works on arrays of objects."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _numpy() -> Any:
    shim: Any = _Numpy("numpy")
    for name in (*_FUNCTIONS, "arctan", "arcsin", "arccos"):
        setattr(shim, name, _unary(name))
    for name in ("zeros", "ones", "empty", "full"):
        setattr(shim, name, _objects(getattr(np, name)))
    for name in ("array", "asarray", "ascontiguousarray"):
        setattr(shim, name, _array)
    shim.arctan2 = lambda y, x: _each(
        lambda a, b: math.atan2(a, b) if _known(a) and _known(b) else Symbol("arctan2", a, b), y, x
    )
    shim.hypot = lambda x, y: shim.sqrt(x * x + y * y)
    shim.minimum = shim.fmin = _two("min")
    shim.maximum = shim.fmax = _two("max")
    shim.clip = lambda x, low, high: shim.minimum(shim.maximum(x, low), high)
    shim.isfinite = _isfinite
    shim.isnan = lambda x: _each(lambda v: v != v, x)
    shim.where = _where
    shim.sign = _sign
    shim.all, shim.any = _all, _any
    shim.logical_and = lambda a, b: _each(lambda x, y: x & y, a, b)
    shim.logical_or = lambda a, b: _each(lambda x, y: x | y, a, b)
    shim.logical_not = lambda a: _each(lambda x: (not x) if _known(x) else ~x, a)
    shim.float64 = shim.float32 = lambda x: x
    linalg: Any = _Numpy("numpy.linalg")
    linalg.norm = _norm
    shim.linalg = linalg
    return shim


def _math(shim: Any) -> Any:
    found: Any = ModuleType("math")
    for name in dir(math):
        setattr(found, name, getattr(math, name))
    for name in (*_FUNCTIONS, "isfinite", "isnan", "hypot"):
        setattr(found, name, getattr(shim, name))
    for long, short in _INVERSE.items():
        setattr(found, short, getattr(shim, long))
    found.fabs = abs
    return found


_SHIM = _numpy()
_MATH = _math(_SHIM)
_BUILTINS = {
    "min": _choose_smaller,
    "max": _choose_larger,
    "float": lambda x: x if isinstance(x, Symbol) else float(x),
    "all": _all,
    "any": _any,
}


def rebuilt(function: Any, replacing: Mapping[Any, Any]) -> Any:
    """A function, and all that it calls, on globals that understand symbols.

    Args:
        function: A plain function, or one that Numba compiles.
        replacing: What stands for a global instead, by the global itself.
    """
    return _Rebuilder(replacing)(function)


class _Rebuilder:
    def __init__(self, replacing: Mapping[Any, Any]) -> None:
        self._replacing = {id(old): new for old, new in replacing.items()}
        self._keep = list(replacing)  # ids stay theirs
        self._made: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        if id(value) in self._replacing:
            return self._replacing[id(value)]
        if value is np:
            return _SHIM
        if value is math:
            return _MATH
        value = getattr(value, "py_func", value)
        if not isinstance(value, FunctionType):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        scope: dict[str, Any] = {"__builtins__": {**vars(builtins), **_BUILTINS}}
        cells = tuple(CellType() for _ in value.__closure__ or ())
        new = FunctionType(value.__code__, scope, value.__name__, value.__defaults__, cells)
        new.__kwdefaults__ = value.__kwdefaults__
        self._made[id(value)] = new
        for cell, old in zip(cells, value.__closure__ or (), strict=True):
            cell.cell_contents = self(old.cell_contents)
        for name, known in value.__globals__.items():
            if name in _names(value.__code__):
                scope[name] = self(known)
        return new


def _names(code: Any) -> set[str]:
    """The names that a function's code, and the code inside of it, may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            found |= _names(constant)
    return found


# --- as numbers, and as C -----------------------------------------------------------------------


def value_of(expression: Any, read: Callable[[Place], float]) -> Any:
    """What an expression is when each place has the value that ``read`` says."""
    if not isinstance(expression, Symbol):
        return expression
    operation, operands = expression.operation, expression.operands
    if operation == "place":
        return read(operands[0])
    values = [value_of(each, read) for each in operands]
    return _VALUES[operation](*values)


def _quotient(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


_VALUES: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
    "abs": abs,
    "min": builtins.min,
    "max": builtins.max,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
    "!": lambda a: not a,
    "?": lambda a, b, c: b if a else c,
    "isfinite": math.isfinite,
    "arctan2": math.atan2,
    **{name: getattr(np, name) for name in (*_FUNCTIONS, "arctan", "arcsin", "arccos")},
}


@final
@dataclass
class Writer:
    """Writes expressions as C, each operation once.

    Attributes:
        read: The C of a place.
        lines: What has been written.
    """

    read: Callable[[Place], str]
    lines: list[str] = field(default_factory=list[str])
    _known: dict[Symbol, str] = field(default_factory=dict[Symbol, str])

    def write(self, expression: Any) -> str:
        """Write an expression; returns the name, or the number, that stands for it."""
        if not isinstance(expression, Symbol):
            return _number(expression)
        if expression not in self._known:
            operation, operands = expression.operation, expression.operands
            if operation == "place":
                kind, text = "float", self.read(operands[0])
            else:
                truth = operation in (*_COMPARISONS, "&&", "||", "!", "isfinite")
                kind, text = "bool" if truth else "float", _c(operation, *map(self.write, operands))
            name = f"v{len(self._known)}"
            self.add(f"{kind} {name} = {text};")
            self._known[expression] = name
        return self._known[expression]

    def add(self, line: str) -> None:
        """Write a line."""
        self.lines.append(line)


def _c(operation: str, *given: str) -> str:
    match operation:
        case "neg":
            return f"-{given[0]}"
        case "!":
            return f"!{given[0]}"
        case "abs":
            return f"wp::abs({given[0]})"
        case "isfinite":
            return f"wp::isfinite({given[0]})"
        case "pow":
            return f"wp::pow({given[0]}, {given[1]})"
        case "min":  # as Python's: the first, unless the second is smaller
            return f"({given[1]} < {given[0]}) ? {given[1]} : {given[0]}"
        case "max":
            return f"({given[1]} > {given[0]}) ? {given[1]} : {given[0]}"
        case "?":
            return f"{given[0]} ? {given[1]} : {given[2]}"
    if operation in _C_NAMES:
        return f"{_C_NAMES[operation]}({', '.join(given)})"
    return f"{given[0]} {operation} {given[1]}"


def _number(value: Any) -> str:
    """A number as C writes a float."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    number = float(np.float32(value))
    if math.isnan(number):
        return "((1e38f * 10.0f) - (1e38f * 10.0f))"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}1e38f * 10.0f)"
    return f"({number!r}f)" if number < 0 else f"{number!r}f"
