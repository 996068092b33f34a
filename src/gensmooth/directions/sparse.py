r"""Sparse and block-coordinate directions, which perturb a random subset of the coordinates.

A direction is :math:`\sqrt{d/k}\,z` on a random subset of k coordinates and zero elsewhere, where z
consists of k independent coins or normals, so that :math:`E\,\epsilon\epsilon^T = I`. If each
direction has its own subset, these are sparse perturbations as used for large models. If all
directions of a step share one subset, it is a step of random block-coordinate descent. A point
costs a copy of x and k random numbers.
"""

import itertools
import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels, theory
from gensmooth.directions.base import Directions, State, register
from gensmooth.directions.draw import Address, KernelDraw, normals, signs
from gensmooth.directions.shrinkage import shrunk
from gensmooth.streams import Purpose

Array = NDArray[Any]
Entries = Literal["bernoulli", "gaussian"]
Subset = Literal["direction", "step"]
KURTOSIS: dict[str, float] = {"bernoulli": 1.0, "gaussian": 3.0}


@final
@dataclass(frozen=True)
class Sparse(Directions):
    """Coins or normals times √(d/k) on k random coordinates, and zero elsewhere.

    Args:
        size: k, the number of perturbed coordinates.
        share: k/d, used if ``size`` is not set.
        entries: ``"bernoulli"`` (coins ±1) or ``"gaussian"``.
        subset: ``"direction"`` draws a subset for each direction; ``"step"`` draws one for all
            directions of a step, which is random block-coordinate descent.

    >>> Sparse(share=0.05).resolve(dim=100, num_directions=20).size
    5
    >>> Sparse(5).kurtosis(dim=100, num_directions=20)  # d/k times the kurtosis of a coin
    20.0
    """

    size: int | None = None
    share: float = 0.1
    _: KW_ONLY
    entries: Entries = "bernoulli"
    subset: Subset = "direction"

    def __post_init__(self) -> None:
        checks.settle(
            self,
            size=checks.optional(checks.count, "size", self.size),
            share=checks.share("share", self.share, one=True),
        )
        checks.one_of("entries", self.entries, get_args(Entries))
        checks.one_of("subset", self.subset, get_args(Subset))

    def resolve(self, dim: int, num_directions: int) -> "Sparse":
        """Fill in k."""
        return replace(self, size=self._size(dim))

    def draw(self, state: State, at: Address) -> "SparseDraw":
        """See :meth:`Directions.draw`."""
        k = self._size(at.dim)
        make = signs if self.entries == "bernoulli" else normals
        inner = make(at._replace(dim=k), math.sqrt(at.dim / k))
        return SparseDraw(inner, at.key(Purpose.ROWS), at.dim, shared=self.subset == "step")

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        family = theory.sparse if self.subset == "direction" else theory.block_coordinate
        kurtosis = KURTOSIS[self.entries]
        return family(dim, num_directions, size=self._size(dim), kurtosis=kurtosis)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return 1, the average over all coordinates; it is d/k on the perturbed ones."""
        return 1.0

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return d/k times the kurtosis of the perturbed entries."""
        return KURTOSIS[self.entries] * dim / self._size(dim)

    def _size(self, dim: int) -> int:
        if self.size is None:
            return max(1, round(self.share * dim))
        if self.size > dim and dim > 1:  # a single parameter is always perturbed
            raise ValueError(
                f"`size` must be at most the number of parameters, {dim}, but is {self.size}."
            )
        return min(self.size, dim)


@final
class SparseDraw:
    """Directions of a draw in k dimensions, placed on k random coordinates of d."""

    __slots__ = ("_inner", "_key", "_last", "_shared", "dim", "dtype", "factor", "num_directions")

    def __init__(self, inner: KernelDraw, key: Array, dim: int, *, shared: bool) -> None:
        self._inner = inner
        self._key = key
        self._shared = shared
        self._last: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))
        self.dim = dim
        self.dtype = inner.dtype
        self.factor = inner.factor
        self.num_directions = inner.num_directions

    def coordinates(self, direction: int) -> NDArray[np.int64]:
        """Return the coordinates that a direction perturbs, in increasing order."""
        index = 0 if self._shared else direction
        cached, chosen = self._last  # consecutive points often share a direction
        if cached != index:
            chosen = kernels.on_subsets().choose(self._key, index, self._inner.dim, self.dim)
            self._last = (index, chosen)
        return chosen

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.zeros((self.num_directions, self.dim), self.dtype)
        inner = self._inner.block()
        for rows, at in self._runs(np.arange(self.num_directions)):
            kernels.on_subsets().scatter(inner[rows], at, out[rows])
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        out[:] = x
        for rows, at in self._runs(directions):
            moved = np.empty((rows.stop - rows.start, len(at)), self.dtype)
            self._inner.perturb(x[at], directions[rows], spacings[rows], moved)
            kernels.on_subsets().scatter(moved, at, out[rows])
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        total, squares = self._inner.combine(weights)
        out = np.zeros(self.dim, self.dtype)
        if self._shared:
            out[self.coordinates(0)] = total
            return out, squares
        row, origin = np.empty((1, self._inner.dim), self.dtype), np.zeros_like(total)
        for index in range(self.num_directions):
            self._inner.perturb(origin, np.array([index]), np.ones(1), row)
            at = self.coordinates(index)
            kernels.on_subsets().accumulate(row[0], weights[index], at, out)
        return out, squares

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        weights = unit * delta
        out, squares = self.combine(weights)
        return out, *kernels.on_sums().totals(weights, out, squares[None])

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "SparseDraw":
        """See :meth:`Draw.rescaled`."""
        inner = self._inner.rescaled(length=length, factor=factor, threads=threads)
        return SparseDraw(inner, self._key, self.dim, shared=self._shared)

    def _runs(self, directions: Array) -> list[tuple[slice, NDArray[np.int64]]]:
        """Return runs of consecutive rows with the same coordinates, and these coordinates."""
        if self._shared:
            return [(slice(0, len(directions)), self.coordinates(0))]
        starts = [0, *(np.flatnonzero(np.diff(directions)) + 1).tolist(), len(directions)]
        return [
            (slice(a, b), self.coordinates(int(directions[a])))
            for a, b in itertools.pairwise(starts)
        ]


def _register(
    name: str, title: str, law: str, entries: Entries, subset: Subset, place: int
) -> None:
    def make() -> Sparse:
        return Sparse(entries=entries, subset=subset)

    register(name, make, title=title, distribution=law, place=place)
    register(
        f"{name}-shrinkage",
        lambda: shrunk(make()),
        title=f"{title}-shrinkage",
        distribution=f"{law}, shrunk",
        place=place + 4,
    )


_register("sparse-gs", "Sparse GS", "N(0, d/k) on k of d", "gaussian", "direction", 12)
_register("sparse-bes", "Sparse BeS", "±√(d/k) on k of d", "bernoulli", "direction", 13)
_register("block-gs", "Block GS", "N(0, d/k) on a block", "gaussian", "step", 14)
_register("block-bes", "Block BeS", "±√(d/k) on a block", "bernoulli", "step", 15)
