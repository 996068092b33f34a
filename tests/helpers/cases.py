"""The one table of direction families that the shared tests run over, and how to draw from it."""

from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

import gensmooth as gs
from gensmooth import theory
from gensmooth.directions import Address, Directions, Draw

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
    "sparse": gs.Sparse(share=0.4),
    "sparse, gaussian": gs.Sparse(share=0.4, entries="gaussian"),
    "block": gs.Sparse(share=0.4, subset="step"),
    "block, gaussian": gs.Sparse(share=0.4, entries="gaussian", subset="step"),
    "shrunk gaussian": gs.shrunk(gs.Gaussian()),
    "shrunk bernoulli, estimate": gs.shrunk(gs.Bernoulli(), scale="estimate"),
    "shrunk laplace": gs.shrunk(gs.IID(scipy.stats.laplace())),
    "shrunk block": gs.shrunk(gs.Sparse(share=0.4, subset="step")),
    "shrunk orthogonal": gs.shrunk(gs.Orthogonal()),
    "shrunk orthogonal bernoulli": gs.shrunk(gs.OrthogonalBernoulli()),
}


def has_closed_form(directions: Directions) -> bool:
    try:
        directions.moments(5, 3)
    except gs.NoClosedForm:
        return False
    return True


CLOSED = [name for name, directions in FAMILIES.items() if has_closed_form(directions)]
DTYPES = [np.float32, np.float64]

# (L, d): one entry, around the edge of a tile of 2048, several tiles, more directions than d.
SIZES = [(1, 1), (3, 1), (4, 7), (9, 4), (3, 2047), (2, 2048), (3, 2049), (2, 9001)]


# A wrong formula for a family: what a slip in kurtosis, scale or length would claim.
TWINS = {
    "gaussian": lambda d, L: theory.iid(d, L, kurtosis=1),
    "bernoulli": lambda d, L: theory.iid(d, L, kurtosis=3),
    "bernoulli, m = 0.7": lambda d, L: theory.iid(d, L, kurtosis=1),  # m forgotten
    "bernoulli, p = 0.2": lambda d, L: theory.iid(d, L, kurtosis=1),
    "laplace": lambda d, L: theory.iid(d, L, kurtosis=3),  # SciPy's excess taken for kurtosis
    "uniform, not standardised": lambda d, L: theory.iid(d, L, kurtosis=1.8),
    "sphere": lambda d, L: theory.iid(d, L, kurtosis=3),
    "orthogonal": lambda d, L: theory.sphere(d, L),
    "orthogonal, residual": lambda d, L: theory.orthogonal(d, L),
    "orthogonal bernoulli": lambda d, L: theory.sphere(d, L),
    "sparse": lambda d, L: theory.block_coordinate(d, L, size=2),
    "sparse, gaussian": lambda d, L: theory.iid(d, L, kurtosis=3),  # as if all moved
    "block": lambda d, L: theory.sparse(d, L, size=2),
    "block, gaussian": lambda d, L: theory.iid(d, L, kurtosis=3),  # as if all moved
    "shrunk block": lambda d, L: theory.block_coordinate(d, L, size=2).scaled(L / (L + d - 1)),
    "shrunk gaussian": lambda d, L: theory.iid(d, L, variance=L / (L + d - 1), kurtosis=3),
    "shrunk bernoulli, estimate": lambda d, L: theory.iid(d, L, kurtosis=1),  # not shrunk
    "shrunk laplace": lambda d, L: theory.iid(d, L, variance=L / (L + d + 1), kurtosis=6),
    "shrunk orthogonal": lambda d, L: theory.orthogonal(d, L).scaled(L / (L + d - 1)),
    "shrunk orthogonal bernoulli": lambda d, L: theory.orthogonal(d, L).scaled(L / d),
}


def twin_of(name: str, dim: int, num_directions: int) -> theory.Moments:
    """The family's own wrong formula; where it has none, its kurtosis is off by 2."""
    if name in TWINS:
        return TWINS[name](dim, num_directions)
    right = FAMILIES[name].moments(dim, num_directions)
    slip = 2 * right.mean**2
    return right._replace(second=right.second + slip / num_directions, fourth=right.fourth + slip)


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
        Address(
            seed=seed, step=step, num_directions=num_directions, dim=dim, dtype=np.dtype(dtype)
        ),
    )


def block_of(*args: Any, **kwargs: Any) -> NDArray[Any]:
    return draw_of(*args, **kwargs).block()
