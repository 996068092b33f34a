"""Time and memory of a BeS gradient estimate, compared with one by NumPy's Gaussians."""

import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np

import gensmooth as gs
from benchmarks.record import Row
from benchmarks.timing import Effort, Spread, interleave, ratio

L, SPACING = 20, 0.1
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def sphere(x: np.ndarray) -> float:
    """x · x."""
    return float(x @ x)


def ours(x: np.ndarray, seed: int) -> np.ndarray:
    """The estimate with one call of the library."""
    result = gs.gradient(sphere, x, method="bes", num_directions=L, spacing=SPACING, seed=seed)
    return result.gradient


def numpy_gaussian(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same forward difference in NumPy, with no more than three buffers."""
    direction, point, total = np.empty_like(x), np.empty_like(x), np.zeros_like(x)
    center = sphere(x)
    for _ in range(L):
        rng.standard_normal(out=direction, dtype=np.float32)
        np.multiply(direction, SPACING, out=point)
        point += x
        direction *= (sphere(point) - center) / (SPACING * L)
        total += direction
    return total


def estimate(effort: Effort) -> list[Row]:
    """Time at d = 1e6; peak memory beyond the caller's x at d = 1e6 and 1e7."""
    dim = 1_000_000
    x = np.random.default_rng(0).standard_normal(dim, np.float32)
    rng, seeds = np.random.default_rng(0), count()
    times = interleave(
        {"ours": lambda: ours(x, next(seeds)), "NumPy": lambda: numpy_gaussian(x, rng)}, effort
    )
    what = "BeS estimate on the sphere function"
    rows = [
        Row(f"{what}, d = {dim:,}", ratio(times, "ours", "NumPy"), "× NumPy with Gaussians", 0.1)
    ]
    for dim in (1_000_000, 10_000_000):
        name = f"{what}, d = {dim:,}: peak extra memory"
        vectors = _in_a_process(dim)
        if vectors is None:
            rows.append(Row(name, None, bar=4, note="only Linux can tell"))
        else:
            rows.append(Row(name, Spread(vectors, vectors, vectors), "vectors of length d", 4))
    return rows


def _in_a_process(dim: int) -> float | None:
    if not _CLEAR.exists():
        return None
    command = [sys.executable, "-m", "benchmarks.estimate", str(dim)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_vectors(dim: int) -> float:
    """The increase of peak resident memory by one estimate, in vectors."""
    ours(np.ones(1000, np.float32), 0)  # load compiled code and libraries, which do not count
    x = np.ones(dim, np.float32)
    _CLEAR.write_text("5")  # reset the recorded peak (man 5 proc)
    before = _kilobytes("VmRSS")
    gradient = ours(x, 0)
    extra = 1024 * (_kilobytes("VmHWM") - before)
    assert gradient.shape == x.shape
    return extra / x.nbytes


def _kilobytes(field: str) -> int:
    line = next(s for s in _STATUS.read_text().splitlines() if s.startswith(field))
    return int(line.split()[1])


if __name__ == "__main__":
    print(peak_vectors(int(sys.argv[1])))
