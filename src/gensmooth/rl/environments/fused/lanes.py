"""One text for one world, or for several in the lanes of a processor's registers.

A GPU computes each world in a thread of its own. A core of a processor has registers of four or
eight numbers and computes on all of them as fast as on one, so there a thread takes as many worlds,
side by side, through the same instructions. The text of a step is the same for both:

- ``real`` is a number of each world, ``truth`` whether something is so in each;
- ``math::`` has the functions, and ``lanes::any(t)`` is whether something is so in any world;
- ``busy``: which worlds have an episode;
- where worlds would take different ways, all go the way of any, and what is not meant for a world
  is not chosen there: ``x = t ? other : x``.

Lanes know nothing of each other, so a world has the same bits in any of them, or alone (but for the
sign of a zero to which nothing was added).
"""

import re

from gensmooth.rl.environments.symbols import FUNCTIONS, INVERSE
from gensmooth.rl.environments.written import Names

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

# The functions of C's library, one lane after the other.
_ONE = "    static inline real {name}(real x) {{ {each} x[k] = wp::{name}(x[k]); return x; }}"
_TWO = (
    "    static inline real {name}(real x, real y) {{ {each} x[k] = wp::{name}(x[k], y[k]); "
    "return x; }}"
)


def opening(lanes: int) -> str:
    """What comes before a text, for so many worlds from ``world`` on."""
    if lanes == 1:
        return _ALONE
    each = f"for (int k = 0; k < {lanes}; ++k)"
    ones = [name for name in (*FUNCTIONS, *INVERSE.values()) if name != "sqrt"]
    functions = [_ONE.format(name=name, each=each) for name in ones]
    functions += [_TWO.format(name=name, each=each) for name in ("pow", "atan2")]
    return _SIDE_BY_SIDE.format(lanes=lanes, functions="\n".join(functions))


def load(array: str, entry: int) -> str:
    """The C of a number of these worlds."""
    return f"lanes::load(s.{array}.data + {entry} * s.worlds + world)"


def store(array: str, entry: int, value: str) -> str:
    """The C that sets a number of those of these worlds that are busy."""
    return f"lanes::store(s.{array}.data + {entry} * s.worlds + world, busy, {value});"


def numbers(text: str) -> int:
    """How many numbers of a world the arrays of a text have room for."""
    declared = [line for line in text.splitlines() if line.startswith(("real ", "truth "))]
    return sum(int(size) for line in declared for size in re.findall(r"\[(\d+)\]", line))
