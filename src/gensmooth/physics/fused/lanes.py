"""The same C for one world, or for several worlds in the lanes of a CPU's vector registers.

A GPU computes each world in its own thread. A CPU core has registers of four or eight numbers and
computes on all of them as fast as on one, so a CPU thread takes that many worlds side by side
through the same instructions. The C of a step is the same for both:

- ``real`` is a number for each world, ``truth`` a boolean for each world;
- ``math::`` has the functions, and ``lanes::any(t)`` is true if ``t`` is true in any world;
- ``busy`` is true for worlds that have an episode;
- where worlds branch differently, all of them run every branch that one of them takes. A world
  keeps its old values in branches that it does not take: ``x = t ? other : x``.

Lanes are independent, so a world has the same bits in any lane, or alone (except for the sign of a
zero to which nothing was added).
"""

import re

from gensmooth.physics.c_source import Names
from gensmooth.physics.symbols import FUNCTIONS, INVERSE

NAMES = Names(number="real", truth="truth", functions="math")

_ALONE = """\
typedef double real;
typedef bool truth;
namespace math = wp;
struct lanes {
    static CUDA_CALLABLE inline bool any(bool x) { return x; }
    static CUDA_CALLABLE inline double load(const double* at) { return *at; }
    static CUDA_CALLABLE inline void store(double* at, bool, double x) { *at = x; }
    static CUDA_CALLABLE inline double number(const int* at) { return (double)*at; }
    static CUDA_CALLABLE inline double gather(const double* at, const int* where) {
        return at[*where];
    }
};
const truth busy = true;"""

_SIDE_BY_SIDE = """\
typedef double real __attribute__((ext_vector_type({lanes})));
typedef double unaligned __attribute__((ext_vector_type({lanes}), aligned(8)));
typedef decltype(real(0.0) < real(0.0)) truth;
struct math {{
    static inline real abs(real x) {{ return __builtin_elementwise_abs(x); }}
    static inline real sqrt(real x) {{ return __builtin_elementwise_sqrt(x); }}
    static inline truth isfinite(real x) {{ return x - x == 0.0; }}
{functions}
}};
struct lanes {{
    static inline bool any(truth x) {{ return __builtin_reduce_or(x) != 0; }}
    static inline real load(const double* at) {{ return *(const unaligned*)at; }}
    static inline void store(double* at, truth chosen, real x) {{
        *(unaligned*)at = chosen ? x : load(at);
    }}
    static inline real number(const int* at) {{
        real x;
        for (int k = 0; k < {lanes}; ++k) x[k] = at[k];
        return x;
    }}
    static inline real gather(const double* at, const int* where) {{
        real x;
        for (int k = 0; k < {lanes}; ++k) x[k] = at[where[k]];
        return x;
    }}
}};
truth busy = false;
for (int k = 0; k < {lanes}; ++k) busy[k] = s.trial.data[world + k] < 0 ? 0 : -1;
if (!lanes::any(busy)) return;"""

# Functions of the C library, called for one lane after the other.
_ONE = "    static inline real {name}(real x) {{ {each} x[k] = wp::{name}(x[k]); return x; }}"
_TWO = (
    "    static inline real {name}(real x, real y) {{ {each} x[k] = wp::{name}(x[k], y[k]); "
    "return x; }}"
)


def opening(lanes: int) -> str:
    """Return the declarations that a step needs, for ``lanes`` worlds from ``world`` on."""
    if lanes == 1:
        return _ALONE
    each = f"for (int k = 0; k < {lanes}; ++k)"
    ones = [name for name in (*FUNCTIONS, *INVERSE.values()) if name != "sqrt"]
    functions = [_ONE.format(name=name, each=each) for name in ones]
    functions += [_TWO.format(name=name, each=each) for name in ("pow", "atan2")]
    return _SIDE_BY_SIDE.format(lanes=lanes, functions="\n".join(functions))


def load(array: str, entry: int) -> str:
    """Return C that reads an entry of an array, for all lanes."""
    return f"lanes::load(s.{array}.data + {entry} * s.worlds + world)"


def store(array: str, entry: int, value: str) -> str:
    """Return C that sets an entry of an array, in the lanes that are busy."""
    return f"lanes::store(s.{array}.data + {entry} * s.worlds + world, busy, {value});"


def count_local_numbers(text: str) -> int:
    """Count the numbers that the local arrays of a step hold for one world."""
    declared = [line for line in text.splitlines() if line.startswith(("real ", "truth "))]
    return sum(int(size) for line in declared for size in re.findall(r"\[(\d+)\]", line))
