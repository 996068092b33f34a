r"""CMA-ES: the package ``cmaes`` as a search.

The algorithm is Hansen's ("The CMA evolution strategy: a tutorial", 2016), implemented by the
package ``cmaes`` (Nomura & Shibata, 2024), with its defaults. This file manages its state. What
CMA-ES adapts (mean, step size, covariance, paths, generation) is stored in plain arrays, its random
numbers come from the stream of seed and step, and each step creates a new object of the package. So
runs are reproducible, can be resumed, and can use workers like any other.

The package has no public interface for setting its state, so this file uses private attributes. It
accepts only the versions in :data:`VERSIONS`, which have them. The package multiplies and
decomposes matrices with BLAS and LAPACK. Results therefore do not depend on workers or on resuming,
but their last bits may differ between machines and numbers of BLAS threads. :class:`_Normals` makes
sure that only the last bits do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.directions.draw import Draw, dense
from gensmooth.parameters import as_bounds
from gensmooth.searches.algorithms.population import (
    Displacements,
    DistributionStep,
    Population,
    are_displacements,
    displacements_of,
    make_population,
)
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]

LARGEST = 2000  # parameters, because a step decomposes a d × d matrix
VERSIONS = ((0, 13), (0, 14))  # the first that is accepted, and the first that is not
_PRIVATE = ("_mean", "_sigma", "_C", "_p_sigma", "_pc", "_g", "_B", "_D", "_rng", "_bounds")
_TINY = 1e-150  # smallest step size: its square does not underflow
_FARTHEST = 1e32  # the package accepts no larger |mean|


class Covariance(NamedTuple):
    """What CMA-ES adapts, in units of the parameters; letters as in Hansen's tutorial.

    Attributes:
        units: One unit per parameter.
        mean: m, in units.
        sigma: σ.
        C: The covariance matrix.
        p_sigma: The path of the step size.
        p_c: The path of the covariance.
        generation: g.
        B: The eigenvectors of C.
        D: The square roots of its eigenvalues.
    """

    units: Array
    mean: Array
    sigma: float
    C: Array
    p_sigma: Array
    p_c: Array
    generation: int
    B: Array
    D: Array


@final
@dataclass(frozen=True, kw_only=True)
class CMAES(Population):
    """CMA-ES, for up to 2000 parameters; needs ``pip install 'gensmooth[cma]'``.

    The other arguments are those of :class:`~gensmooth.searches.algorithms.population.Population`.
    The package redraws a point outside the bounds, up to 100 times. Dropped values rank last.

    Args:
        population: λ, points per step; by default 4 + ⌊3 ln d⌋. At least 4.
        spacing: The first σ, in units of ``x_scale``.

    >>> search = CMAES()
    >>> state = search.init([5.0, 5.0], seed=0)
    >>> for _ in range(150):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, _ = search.tell(state, batch, values)
    >>> state.x.round(2)
    array([1., 2.])
    """

    method: ClassVar[str] = "cma-es"
    least: ClassVar[int] = 4

    def check_dim(self, dim: int) -> None:
        """Accept up to 2000 parameters, if the package is installed."""
        if dim > LARGEST:
            raise ValueError(
                f"method='cma-es' decomposes a d × d matrix and accepts up to {LARGEST:,} "
                f"parameters, but there are {dim:,}: use 'snes' or 'auto'."
            )
        package()

    def begin(self, x: Array, units: Array, seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return N(x0, spacing² I), in units."""
        copied = np.array(units, np.float64)
        mean, d = x.astype(np.float64) / copied, x.size
        if not np.abs(mean).max() < _FARTHEST:
            raise ValueError(
                f"method='cma-es' needs |x0 / x_scale| < {_FARTHEST:g}, but it is "
                f"{np.abs(mean).max():g}: pass a larger `x_scale`, or scale x0."
            )
        zero = np.zeros(d)
        first = Covariance(
            copied, mean, float(self.spacing), np.eye(d), zero, zero, 0, np.eye(d), np.ones(d)
        )
        return self._displacements(first, x, x, seed, 0), first

    def draw(self, state: SearchState) -> Draw:
        """Return the points that the package drew at the end of the last step."""
        return dense(displacements_of(state))

    @np.errstate(over="ignore", invalid="ignore")
    def update(
        self,
        state: SearchState,
        batch: Batch,
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> DistributionStep:
        """Pass the values to the package, and let it draw the next points."""
        now = checks.state_part(state.kept, Covariance)
        rows = np.arange(0, len(batch), self.num_samples)
        points = batch.block(0, len(batch)).reshape(len(batch), -1)[rows].astype(np.float64)
        worst = values if kept is None else np.where(kept, values, np.inf)
        optimizer, points = self._package(now, state.x), points / now.units
        finite = bool((np.abs(points) < _FARTHEST).all())
        if finite:
            optimizer.tell([(point, float(v)) for point, v in zip(points, worst, strict=True)])
            finite = bool(
                np.isfinite(optimizer._mean).all()
                and np.isfinite(optimizer._C).all()
                and math.isfinite(optimizer._sigma)
            )
        if not finite:
            return DistributionStep(state.x.reshape(-1), state.sent, now, 0.0, finite=False)
        B, D = optimizer._eigen_decomposition()
        mean = np.asarray(optimizer._mean)
        after = Covariance(
            now.units,
            mean,
            max(float(optimizer._sigma), _TINY),
            np.ascontiguousarray(optimizer._C),
            np.asarray(optimizer._p_sigma),
            np.asarray(optimizer._pc),
            int(optimizer._g),
            np.ascontiguousarray(B),
            np.maximum(D, _TINY),
        )
        x = (mean * now.units).astype(state.x.dtype)
        drawn = self._displacements(after, x, state.x, state.seed, state.step + 1)
        moved = (mean - now.mean) / now.sigma
        return DistributionStep(
            x,
            drawn,
            after,
            math.sqrt(float(np.square(moved).sum())),
            bool(np.isfinite(drawn.block).all()),
        )

    def is_valid(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Return whether these are λ finite rows."""
        return are_displacements(sent, self.number(dim), dim, dtype)

    def _displacements(
        self, now: Covariance, x: Array, like: Array, seed: int, step: int
    ) -> Displacements:
        """Return the next points minus x; their random numbers depend only on seed and step."""
        optimizer = self._package(now, like)
        bits = streams.generator(seed, Purpose.DIRECTION, step=step).bit_generator
        optimizer._rng = _Normals(np.random.RandomState(bits), now.B)
        points = np.array([optimizer.ask() for _ in range(self.number(x.size))])
        return Displacements((points * now.units - x.reshape(-1)).astype(x.dtype))

    def _package(self, now: Covariance, like: Array) -> Any:
        """Create an object of the package in this state."""
        optimizer = package().CMA(
            mean=now.mean.copy(),
            sigma=now.sigma,
            cov=now.C.copy(),
            population_size=self.number(like.size),
            seed=0,  # replaced before anything is drawn
        )
        optimizer._p_sigma, optimizer._pc = now.p_sigma.copy(), now.p_c.copy()
        optimizer._B, optimizer._D, optimizer._g = now.B.copy(), now.D.copy(), now.generation
        if self.bounds is not None:
            limits = as_bounds(self.bounds, like)
            optimizer._bounds = np.stack(
                [np.reshape(limit, -1).astype(np.float64) / now.units for limit in limits], axis=1
            )
        return optimizer


class _Normals(NamedTuple):
    """The package's generator: it returns :math:`B^T z` for normal z, which has the same law.

    The package draws points :math:`m + σ B D z`. The eigenvectors B are not unique: LAPACK chooses
    their signs, and a basis of each eigenspace, differently on different processors. With
    :math:`B^T z` in place of z, a point is :math:`m + σ C^{1/2} z`, which depends on C alone.
    """

    source: np.random.RandomState
    B: Array

    def randn(self, size: int) -> Array:
        """Return :math:`B^T z`, summed in a fixed order."""
        return (self.B * self.source.randn(size)[:, None]).sum(axis=0)


def package() -> Any:
    """Import the package ``cmaes`` in a supported version.

    Raises:
        ImportError: If it is not installed, or if its version is not supported.
    """
    try:
        cmaes: Any = import_module("cmaes")
    except ImportError as error:
        raise ImportError(
            "method='cma-es' needs the package cmaes: pip install 'gensmooth[cma]'. Without it, "
            "'xnes' also adapts a full covariance."
        ) from error
    version = str(getattr(cmaes, "__version__", "0"))
    numbers = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    complete = all(name in _attributes(cmaes.CMA) for name in _PRIVATE)
    if not (VERSIONS[0] <= numbers < VERSIONS[1] and complete):
        low, high = (".".join(map(str, each)) for each in VERSIONS)
        raise ImportError(
            f"method='cma-es' needs cmaes>={low},<{high}, but {version} is installed: "
            "pip install 'gensmooth[cma]'."
        )
    return cmaes


@cache
def _attributes(optimizer: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the attributes of the package's objects."""
    return frozenset(dir(optimizer(mean=np.zeros(2), sigma=1.0, seed=0)))


def make(x: Array, wanted: Wanted) -> Population:
    """Create CMA-ES."""
    why = "it makes its own steps; `spacing` is its first deviation."
    wanted.refuse("optimizer", "learning_rate", why=why)
    return make_population(CMAES, x, wanted)


ALGORITHMS["cma-es"] = Algorithm(make, "CMA-ES", "N(m, σ²C), by rank", "Hansen (2016), `cmaes`")
