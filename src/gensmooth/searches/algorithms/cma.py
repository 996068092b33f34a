r"""CMA-ES: the package ``cmaes`` behind the interface of every search here.

The evolution strategy is Hansen's ("The CMA evolution strategy: a tutorial", 2016), as the package
``cmaes`` (Nomura & Shibata, 2024) has it, with its defaults. This file only carries its state: what
it adapts (mean, step size, covariance, paths, generation) lies in plain arrays, its random numbers
come from the stream of seed and step, and each step is made by an object of the package that lives
no longer than the step. So runs repeat, resume and are spread over workers like any other.

The package has no public way to set that state, so some of its private attributes are used; they
are those of the versions in :data:`VERSIONS`, and other versions are refused. Its matrices are
multiplied and decomposed by NumPy's BLAS and LAPACK: results are the same for any workers and
across a resume, but may differ in the last bits between machines or numbers of BLAS threads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.batch import Batch
from gensmooth.directions.draw import Draw, dense
from gensmooth.parameters import as_bounds
from gensmooth.searches.algorithms.population import (
    Displacements,
    Moved,
    Population,
    drawn_of,
    is_drawn,
    make_population,
)
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]

LARGEST = 2000  # parameters: a step decomposes a matrix of d × d numbers
VERSIONS = ((0, 13), (0, 14))  # from the first, below the second
_PRIVATE = ("_mean", "_sigma", "_C", "_p_sigma", "_pc", "_g", "_B", "_D", "_rng", "_bounds")
_TINY = 1e-150  # a step size below this says nothing any more


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
        D: The roots of its eigenvalues.
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

    Args:
        num_directions: λ, points per step; by default 4 + ⌊3 ln d⌋. At least 4.
        spacing: The first σ, in units of ``x_scale``.
        x_scale: This and the rest as in
            :class:`~gensmooth.searches.algorithms.population.Population`.
        samples: Likewise.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise. The package draws a point again, up to 100 times, until it lies inside.
        on_failure: Likewise; what is dropped counts as worse than any other.
        min_fraction: Likewise.
        threads: Likewise.

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
        """Up to 2000; the package must be there, too."""
        if dim > LARGEST:
            raise ValueError(
                f"method='cma-es' decomposes a matrix of d × d numbers and takes up to "
                f"{LARGEST:,} parameters, but there are {dim:,}: 'snes' keeps one deviation for "
                "each, and so does 'auto'."
            )
        package()

    def begin(self, x: Array, units: Array, seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """N(x0, spacing² I), in units."""
        own = np.array(units, np.float64)
        mean, d = x.astype(np.float64) / own, x.size
        none = np.zeros(d)
        first = Covariance(
            own, mean, float(self.spacing), np.eye(d), none, none, 0, np.eye(d), np.ones(d)
        )
        return self._drawn(first, x, x, seed, 0), first

    def draw(self, state: SearchState) -> Draw:
        """What the package drew at the end of the step before."""
        return dense(drawn_of(state))

    @np.errstate(over="ignore", invalid="ignore")
    def follow(
        self,
        state: SearchState,
        batch: Batch,
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> Moved:
        """Tell the package, and let it draw the next points."""
        now = state.kept
        assert isinstance(now, Covariance), "the state is of another search"
        rows = np.arange(0, len(batch), self.num_samples)
        points = batch.block(0, len(batch)).reshape(len(batch), -1)[rows].astype(np.float64)
        worst = values if kept is None else np.where(kept, values, np.inf)
        optimizer = self._package(now, state.x)
        optimizer.tell(
            [(point / now.units, float(v)) for point, v in zip(points, worst, strict=True)]
        )
        finite = bool(
            np.isfinite(optimizer._mean).all()
            and np.isfinite(optimizer._C).all()
            and math.isfinite(optimizer._sigma)
        )
        if not finite:
            return Moved(state.x.reshape(-1), state.sent, now, 0.0, finite=False)
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
        drawn = self._drawn(after, x, state.x, state.seed, state.step + 1)
        moved = (mean - now.mean) / now.sigma
        return Moved(
            x,
            drawn,
            after,
            math.sqrt(float(np.square(moved).sum())),
            bool(np.isfinite(drawn.block).all()),
        )

    def fits(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """λ finite rows."""
        return is_drawn(sent, self.number(dim), dim, dtype)

    def _drawn(self, now: Covariance, x: Array, like: Array, seed: int, step: int) -> Displacements:
        """The next points, less x; their random numbers are those of seed and step alone."""
        optimizer = self._package(now, like)
        bits = streams.generator(seed, Purpose.DIRECTION, step=step).bit_generator
        optimizer._rng = np.random.RandomState(bits)
        points = np.array([optimizer.ask() for _ in range(self.number(x.size))])
        return Displacements((points * now.units - x.reshape(-1)).astype(x.dtype))

    def _package(self, now: Covariance, like: Array) -> Any:
        """An object of the package in this state."""
        made = package().CMA(
            mean=now.mean.copy(),
            sigma=now.sigma,
            cov=now.C.copy(),
            population_size=self.number(like.size),
            seed=0,  # replaced before anything is drawn
        )
        made._p_sigma, made._pc, made._g = now.p_sigma.copy(), now.p_c.copy(), now.generation
        made._B, made._D = now.B.copy(), now.D.copy()
        if self.bounds is not None:
            limits = as_bounds(self.bounds, like)
            made._bounds = np.stack(
                [np.reshape(limit, -1).astype(np.float64) / now.units for limit in limits], axis=1
            )
        return made


def package() -> Any:
    """The package ``cmaes``, in a version whose state this file knows.

    Raises:
        ImportError: When it is not installed, or in another version.
    """
    try:
        found: Any = import_module("cmaes")
    except ImportError as error:
        raise ImportError(
            "method='cma-es' needs the package cmaes: pip install 'gensmooth[cma]'. Without it, "
            "'xnes' adapts a full covariance too."
        ) from error
    version = str(getattr(found, "__version__", "0"))
    numbers = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    known = all(name in _attributes(found.CMA) for name in _PRIVATE)
    if not (VERSIONS[0] <= numbers < VERSIONS[1] and known):
        low, high = (".".join(map(str, each)) for each in VERSIONS)
        raise ImportError(
            f"method='cma-es' knows the state of cmaes from {low} to below {high}, but {version} "
            "is installed: pip install 'gensmooth[cma]'."
        )
    return found


@cache
def _attributes(made: Callable[..., Any]) -> frozenset[str]:
    """The attributes that an object of the package has."""
    return frozenset(dir(made(mean=np.zeros(2), sigma=1.0, seed=0)))


def make(x: Array, wanted: Wanted) -> Population:
    """The search."""
    why = "it makes its own steps; `spacing` is its first deviation."
    wanted.refuse("optimizer", "learning_rate", why=why)
    return make_population(CMAES, x, wanted)


ALGORITHMS["cma-es"] = Algorithm(make, "CMA-ES", "N(m, σ²C), by rank", "Hansen (2016), `cmaes`")
