"""Compile the C of a step with the machine's C++ compiler, to check a model without Warp.

Only :mod:`gensmooth.physics.compare` uses this, and it moves one world after the other. Training
compiles the same C with Warp (:mod:`gensmooth.physics.drivers`).
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth.physics.fused.lanes import opening
from gensmooth.physics.fused.source import FusedSource

# What the C of a step expects from Warp: mathematical functions, and arrays with a field `data`.
_TEXT = """\
#include <cmath>
#define CUDA_CALLABLE
namespace wp {{
    using std::sqrt; using std::sin; using std::cos; using std::tan; using std::exp;
    using std::log; using std::tanh; using std::floor; using std::ceil; using std::atan;
    using std::asin; using std::acos; using std::abs; using std::isfinite; using std::pow;
    using std::atan2;
}}
struct Array {{ double* data; }};
struct Worlds {{ int worlds; Array {arrays}; }};
static void step_of(Worlds s, int world) {{
{opening}
{step}
}}
static void forward_of(Worlds s, int world) {{
{opening}
{forward}
}}
extern "C" void forward(Worlds* s) {{ for (int k = 0; k < s->worlds; ++k) forward_of(*s, k); }}
extern "C" void step(Worlds* s) {{ for (int k = 0; k < s->worlds; ++k) step_of(*s, k); }}
"""


def find_compiler() -> str | None:
    """Return the path of a C++ compiler; ``None`` if there is none."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


class HostPhysics:
    """A step of several worlds, compiled for this machine.

    Args:
        compiler: The path of a C++ compiler.
        source: The step as C.
        arrays: The numbers of the worlds by name, each of length entries × worlds, float64.
        worlds: How many worlds there are.

    Raises:
        RuntimeError: If the compiler fails.
    """

    def __init__(
        self,
        compiler: str,
        source: FusedSource,
        arrays: Mapping[str, NDArray[np.float64]],
        worlds: int,
    ) -> None:
        names = ", ".join(arrays)
        text = _TEXT.format(
            arrays=names, opening=opening(1), step=source.step, forward=source.forward or ";"
        )
        self._library = _compile(compiler, text)
        fields = [("worlds", ctypes.c_int), *((name, ctypes.c_void_p) for name in arrays)]
        kind = type("Worlds", (ctypes.Structure,), {"_fields_": fields})
        self._keep = arrays  # the library stores their addresses
        self._worlds: Any = kind(worlds, *(each.ctypes.data for each in arrays.values()))

    def forward(self) -> None:
        """Compute the derived arrays of worlds that have not moved yet."""
        self._library.forward(ctypes.byref(self._worlds))

    def step(self) -> None:
        """Move all worlds by a step."""
        self._library.step(ctypes.byref(self._worlds))


def _compile(compiler: str, text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "step.cpp", Path(folder) / "step.so"
        source.write_text(text, encoding="utf-8")
        command = [compiler, "-w", "-O0", "-shared", "-fPIC", "-o", str(library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} failed to compile the step: {done.stderr[:2000]}")
        return ctypes.CDLL(str(library))
