"""The one table of direction families that the shared tests run over, and how to draw from it."""

from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

import gensmooth as gs
from gensmooth.directions import Directions, Draw

FAMILIES: dict[str, Directions] = {
    "gaussian": gs.Gaussian(),
    "bernoulli": gs.Bernoulli(),
    "bernoulli, m = 0.7": gs.Bernoulli(m=0.7),
    "bernoulli, p = 0.2": gs.Bernoulli(p=0.2),
    "laplace": gs.IID(scipy.stats.laplace()),
    "uniform, not standardised": gs.IID(scipy.stats.uniform(-1, 2), standardize=False),
    "sphere": gs.Sphere(),
    "orthogonal": gs.Orthogonal(),
    "orthogonal, residual": gs.Orthogonal("residual"),
    "orthogonal bernoulli": gs.OrthogonalBernoulli(),
    "guided, filling": gs.Guided(history=7),
    "guided": gs.Guided(alpha=0.3, history=3),
    "shrunk gaussian": gs.shrunk(gs.Gaussian()),
    "shrunk bernoulli, estimate": gs.shrunk(gs.Bernoulli(), scale="estimate"),
    "shrunk laplace": gs.shrunk(gs.IID(scipy.stats.laplace())),
    "shrunk orthogonal": gs.shrunk(gs.Orthogonal()),
    "shrunk orthogonal bernoulli": gs.shrunk(gs.OrthogonalBernoulli()),
}
CLOSED = [name for name in FAMILIES if not name.startswith("guided")]
DTYPES = [np.float32, np.float64]

# (L, d): one entry, around the edge of a tile of 2048, several tiles, more directions than d.
SIZES = [(1, 1), (3, 1), (4, 7), (9, 4), (3, 2047), (2, 2048), (3, 2049), (2, 9001)]


def state_of(directions: Directions, dim: int, dtype: Any) -> tuple[Any, ...]:
    """A state as after four steps, so that Guided leans on estimates."""
    state = directions.init(dim, np.dtype(dtype))
    rng = np.random.default_rng(dim)
    for _ in range(4):
        state = directions.update(state, rng.standard_normal(dim).astype(dtype))
    return state


def draw_of(
    name: str, num_directions: int, dim: int, dtype: Any = np.float64, *, seed=5, step=3, state=None
) -> Draw:
    directions = FAMILIES[name]
    return directions.draw(
        state_of(directions, dim, dtype) if state is None else state,
        seed=seed,
        step=step,
        num_directions=num_directions,
        dim=dim,
        dtype=np.dtype(dtype),
    )


def block_of(*args: Any, **kwargs: Any) -> NDArray[Any]:
    return draw_of(*args, **kwargs).block()
