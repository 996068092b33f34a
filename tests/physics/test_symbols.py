"""Functions run on symbols: what comes out is what they compute, whichever way they take."""

import ctypes
import math
import shutil
import subprocess
from math import hypot, sqrt
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.extending import register_jitable
from numpy import clip, linalg

from gensmooth.physics.c_source import Writer
from gensmooth.physics.symbolic_numpy import rebuilt
from gensmooth.physics.symbols import (
    MAX_PATHS,
    VALUES,
    Slot,
    Symbol,
    TraceError,
    explore,
    same,
    slot,
    slots,
    symbols,
    value_of,
)

SIZE = 4
LIMITS = (-0.5, 0.5)
helpers: Any = ModuleType("helpers")  # of a user's
exec("import math\ndef smooth(x): return math.tanh(x) if x > 0 else math.sin(x)", vars(helpers))


def traced(function: Any, outputs: int = 1) -> list[Any]:
    """The expressions of a function of an array of four numbers."""
    new = rebuilt(function, {})

    def run() -> dict[Slot, Any]:
        found = new(symbols("x", (SIZE,)))
        found = (found,) if outputs == 1 else found
        return {Slot("out", i, False): value for i, value in enumerate(found)}

    return list(explore(run).values())


def at(expression: Any, x: Any) -> Any:
    return value_of(expression, lambda key: float(x[key.entry]))


# --- laws, each in a form that somebody might write ---------------------------------------------


def arithmetic(x):
    return (x[0] + 2.0) * -x[1] / (x[2] - 0.25) - 3 + (+x[3]) ** 3 + 2.0 ** x[0] + x[1] ** 0.0


def chained(x):
    return 1.0 if -0.5 < x[0] <= x[1] < 2.0 else -1.0


def words(x):
    healthy = (x[0] > 0.0 and abs(x[1]) < 0.7) or not x[2] >= 0.1
    return 2.0 if healthy else x[3]


def nested(x):
    if x[0] > 0.0:
        if x[1] > 0.0:
            return x[2]
        if x[2] > 0.0:
            return x[1] * 2.0
    elif x[3] != x[3]:
        return 5.0
    return x[3] - x[0]


def extremes(x):
    low, high = LIMITS
    return min(max(x[0], low), high) + max(x[1], x[2], 0.1) + min(x[0], x[3]) + max((x[1], x[3]))


def of_numpy(x):
    v = np.clip(x, -0.4, 0.6) + np.minimum(x, 0.3) * np.maximum(0.2, x)
    w = np.where(x > 0.1, np.sin(x), np.exp(x)) + np.abs(x) + np.sign(x) + np.square(x)
    return np.sum(v) + np.dot(w, v) + np.linalg.norm(x) + np.mean(w) + np.arctan2(x[0], x[1])


def of_math(x):
    a = math.sqrt(abs(x[0])) + math.atan2(x[1], 0.5) + math.tanh(x[2]) + math.hypot(x[0], x[3])
    return a + math.floor(3.0 * x[1]) + math.log(1.5 + x[0] ** 2) + math.fabs(x[2]) * math.pi


def by_name(x):
    return sqrt(x[0] * x[0]) + hypot(x[1], x[2]) + clip(x[3], -0.1, 0.1) + linalg.norm(x)


def elsewhere(x):
    return helpers.smooth(x[0]) + helpers.smooth(x[1])


def loops(x):
    total, seen = 0.0, np.zeros(len(x))
    for i in range(len(x)):
        seen[i] = x[i] * i
        for j in range(i):
            total += seen[j] * x[i]
    return total + np.concatenate((x, seen))[5] + sum(x[1:3])


def wrapped(x):
    return (7.0 * x[0] + math.pi) % (2.0 * math.pi) - math.pi + (5.0 * x[1]) // 0.75


def truth(x):
    above = (x > 0.0) & (x < 0.8) | ~(x > -0.8)
    return 1.0 * np.any(above) + 2.0 * np.all(x < 0.9) + (x[0] == x[1]) + np.logical_or(x[2] > 0, 1)


def largest(x):
    return 1.0 * np.argmax(x) + np.max(x) - x.min()


def finite(x):
    return 0.0 if np.isfinite(x[0]) and not np.isnan(x[1]) and math.isfinite(x[2]) else 1.0


def kept(x):
    y = 1.0
    if x[0] > 0.0:
        y = y + x[1]
    if x[0] > 0.0:  # has been decided
        y = y * 2.0
    return y + float(x[3])


@register_jitable
def inner(x, scale=2.0, *, shift=0.5):
    return x * scale + shift


@njit
def compiled(x):
    return inner(x[0]) * inner(x[1], 3.0) + inner(x[2], shift=x[3])


def closure(gains):
    def law(x):
        total = 0.0
        for gain, value in zip(gains, x):  # noqa: B905
            total += gain * inner(value)
        return total

    return law


LAWS = [
    *(arithmetic, chained, words, nested, extremes, of_numpy, of_math, by_name, loops, wrapped),
    *(elsewhere, truth, largest, finite, kept, compiled, closure((1.0, -2.0, 0.25, 3.0))),
]
NUMBERS = st.floats(-1.0, 1.0, width=32)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_is_traced_is_what_is_computed(law: Any):
    (found,) = traced(law)
    plain = getattr(law, "py_func", law)

    @given(st.lists(NUMBERS, min_size=SIZE, max_size=SIZE))
    def compare(x: list[float]) -> None:
        wanted = plain(np.array(x))
        np.testing.assert_allclose(at(found, x), wanted, rtol=1e-12, atol=1e-12)

    compare()


def test_a_wrong_law_is_noticed():
    """The comparison above fails for one that differs in a single constant, or on one way."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, SIZE))
    (found,) = traced(extremes)
    assert any(at(found, row) != extremes(row) + 1e-9 for row in x)
    (found,) = traced(nested)

    def wrong(x: Any) -> Any:
        return nested(x) if not (x[0] > 0.0 and x[1] <= 0.0 < x[2]) else x[1]

    assert sum(at(found, row) != wrong(row) for row in x) > 10


@pytest.mark.parametrize("law", [extremes, finite, chained, nested], ids=lambda law: law.__name__)
def test_nan_decides_as_in_python(law: Any):
    (found,) = traced(law)
    for lost in range(SIZE):
        x = np.array([0.3, -0.2, 0.4, 0.1])
        x[lost] = np.nan
        np.testing.assert_array_equal(at(found, x), law(x))


@pytest.mark.parametrize("name", ["minimum", "maximum", "fmin", "fmax"])
def test_numpys_extremes_treat_nan_as_numpy_does(name: str):
    function = getattr(np, name)
    (found,) = traced(lambda x: function(x[0], x[1]))
    for pair in ((np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan), (1.0, 2.0), (2.0, 1.0)):
        np.testing.assert_array_equal(at(found, pair), function(*pair))


def test_several_results_each_choose_their_way():
    def law(x):
        if x[0] > 0.0:
            return x[1], 1.0, True
        return x[2], 1.0, False

    found = traced(law, outputs=3)
    for x in ((1.0, 2.0, 3.0, 0.0), (-1.0, 2.0, 3.0, 0.0)):
        assert tuple(at(each, x) for each in found) == law(x)
    assert found[1] == 1.0  # the same on all ways, so there is nothing to choose


def test_what_only_some_ways_set_keeps_its_value_on_the_others():
    x = symbols("x", (1,))

    def run() -> dict[Slot, Any]:
        return {Slot("memory", 0, False): 3.0} if x[0] > 0.0 else {}

    (found,) = explore(run).values()

    def read(value: float) -> Any:
        return lambda key: value if key.array == "x" else 7.0

    assert value_of(found, read(1.0)) == 3.0
    assert value_of(found, read(-1.0)) == 7.0


# --- how they are written down ------------------------------------------------------------------


def test_the_same_expression_is_the_same_object():
    a, b = slot("x", 0), slot("x", 1)
    assert a + b is slot("x", 0) + slot("x", 1)
    assert a + b is not b + a
    assert a * 1 is not a * 1.0
    assert a * 0.0 is not a * -0.0
    assert a + math.nan is a + float("nan")
    assert same(math.nan, float("nan"))
    assert not same(1, True)
    assert repr(a + 1) == "+(x[0], 1)"


def test_places_are_met_once_in_order():
    x = symbols("x", (3,))
    found = slots([x[1] * x[0] + x[1], 3.0, x[2]])
    assert [key.entry for key in found] == [1, 0, 2]


def test_long_and_shared_expressions_cost_no_more_than_their_operations():
    """A sum of 5000 terms, and a thousand squares of squares: neither recursion nor repetition."""
    total: Any = 0.0
    for _ in range(5000):
        total = total + slot("x", 0)
    assert at(total, [0.5]) == 2500.0
    deep: Any = slot("x", 0)
    for _ in range(1000):
        deep = deep * deep
    assert at(deep, [1.0]) == 1.0
    writer = Writer(lambda key: f"x[{key.entry}]")
    writer.write(deep)
    assert len(writer.lines) == 1001


# --- what cannot be written down ----------------------------------------------------------------


def turned_to_int(x):
    return int(x[0])


def as_an_index(x):
    return x[x[0]]


def into_floats(x):
    FIXED[0] = x[0]
    return FIXED[0]


def without_a_form(x):
    return np.interp(x[0], np.array([0.0, 1.0]), np.array([0.0, 2.0]))


def without_end(x):
    y = x[0]
    while y > 0.0:
        y = y - 0.1
    return y


def many_ways(x):
    total = 0.0
    for i in range(SIZE):
        for j in range(3):
            if x[i] > 0.1 * j:
                total += x[i]
    return total


FIXED = np.zeros(1)


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (turned_to_int, "known only when the robot moves"),
        (as_an_index, "known only when the robot moves"),
        (into_floats, "made beforehand"),
        (without_a_form, "known only when the robot moves .TypeError"),
        (without_end, "the length of a loop must not depend"),
        (many_ways, f"more than {MAX_PATHS} paths .* np.where"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_traced_is_said_plainly(law: Any, words: str):
    with pytest.raises(TraceError, match=words):
        traced(law)


def test_the_line_that_cannot_be_traced_is_named():
    line = turned_to_int.__code__.co_firstlineno + 1
    with pytest.raises(TraceError, match=f"^in test_symbols.py, line {line}, a number that is"):
        traced(turned_to_int)


def test_a_decision_outside_of_a_trace_is_an_error():
    with pytest.raises(IndexError):
        bool(slot("x", 0) > 0)


# --- as C ---------------------------------------------------------------------------------------

SHIM = """
#include <cmath>
namespace wp {
using std::sqrt; using std::sin; using std::cos; using std::tan; using std::exp; using std::log;
using std::tanh; using std::floor; using std::ceil; using std::atan; using std::asin;
using std::acos; using std::atan2; using std::abs; using std::pow; using std::isfinite;
}
"""
COMPILER = shutil.which("c++") or shutil.which("g++")


def as_c(law: Any) -> str:
    (found,) = traced(law)
    text = Writer(lambda key: f"x[{key.entry}]")
    name = text.write(found)
    body = "\n".join((*text.lines, f"return (double)({name});"))
    return f'extern "C" double law_{law.__name__}(const double* x) {{\n{body}\n}}\n'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All laws, compiled once."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler here")
    folder = tmp_path_factory.mktemp("c")
    source, made = folder / "laws.cpp", folder / "laws.so"
    source.write_text(SHIM + "".join(map(as_c, LAWS)))
    line = [COMPILER, "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-o", made, source, "-lm"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_c_text_computes_the_same(law: Any, library: Any):
    (found,) = traced(law)
    function = getattr(library, f"law_{law.__name__}")
    function.restype = ctypes.c_double
    rng = np.random.default_rng(3)
    xs = rng.uniform(-1, 1, (100, SIZE))
    got = [function(np.ascontiguousarray(x).ctypes.data_as(ctypes.c_void_p)) for x in xs]
    np.testing.assert_allclose(got, [at(found, x) for x in xs], rtol=1e-13, atol=1e-13)


def test_a_wrong_text_is_seen_by_that_comparison():
    """One that computes in float32 is far beyond the tolerance."""
    (found,) = traced(arithmetic)
    x = np.array([0.3, -0.2, 0.4, 0.1])
    assert abs(at(found, x.astype(np.float32).astype(float)) - at(found, x)) > 1e-9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1.0"),
        (-0.5, "(-0.5)"),
        (True, "true"),
        (np.bool_(False), "false"),
        (np.float64(0.1), "0.1"),
        (1e300, "1e+300"),
        (-math.inf, "(-1e300 * 1e10)"),
        (math.nan, "((1e300 * 1e10) - (1e300 * 1e10))"),
    ],
)
def test_numbers_are_written_as_doubles(value: Any, text: str):
    assert Writer(lambda _: "").write(value) == text


def test_every_operation_has_a_value_and_a_text():
    x, y = slot("x", 0), slot("x", 1)
    for operation in VALUES:
        given = {"?": (x > 0, x, y), "!": (x > 0,)}.get(operation)
        if given is None:
            given = (x, y)
            try:
                value_of(Symbol(operation, *given), lambda _: 0.5)
            except TypeError:
                given = (x,)
        expression = Symbol(operation, *given)
        assert np.isfinite(float(value_of(expression, lambda _: 0.5)))
        assert Writer(lambda _: "x").write(expression)
