r"""Low-rank directions for matrices, :math:`E = A B^T/\sqrt r`, as in EGGROLL.

(Sarkar et al., "Evolution strategies at the hyperscale", 2025.) A is m × r and B is n × r, with
independent normals or coins as entries, so a direction needs (m + n) r random numbers instead of m
n. Its entries are uncorrelated with variance 1, but not independent. The matrix E is never stored:
points and estimates are computed row by row.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, cast, final, get_args

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels, theory
from gensmooth.directions.base import Directions, Factors, NoClosedForm, Shape, State, register
from gensmooth.directions.draw import Address, normals, signs

Array = NDArray[Any]
Entries = Literal["bernoulli", "gaussian"]
_KURTOSIS = {"bernoulli": 1.0, "gaussian": 3.0}


@final
@dataclass(frozen=True)
class LowRank(Directions):
    """A Bᵀ/√r for each matrix of the parameters.

    Args:
        rank: r, the number of columns of A and B.
        shape: The shape (m, n) of the parameters; or, if x concatenates several arrays, a list with
            (m, n) for each matrix and (n,) for each vector, whose entries are independent. By
            default, the shape of x, which must then be a matrix.
        entries: The entries of A, B and vectors: ``"gaussian"`` or ``"bernoulli"`` (coins ±1).

    >>> LowRank(2, shape=(30, 20)).kurtosis(dim=600, num_directions=8)  # (3² + 3 (r − 1)) / r
    6.0
    """

    rank: int = 1
    shape: Shape | tuple[Shape, ...] | None = None
    _: KW_ONLY
    entries: Entries = "gaussian"

    def __post_init__(self) -> None:
        checks.settle(
            self,
            rank=checks.count("rank", self.rank),
            shape=None if self.shape is None else _checked_shape(self.shape),
        )
        checks.one_of("entries", self.entries, get_args(Entries))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the parts."""
        if self.shape is None:
            raise ValueError(
                "LowRank needs the shape of the matrix: start from x0 of shape (m, n), or pass "
                "gs.LowRank(shape=(m, n))."
            )
        return _shapes_of(self.shape)

    @property
    def factors(self) -> Factors:
        """See :attr:`Directions.factors`."""
        if self.shape is not None:
            raise ValueError("`shape` of LowRank must not be set for a model: omit it.")
        return Factors("coin" if self.entries == "bernoulli" else "normal", self.rank)

    def shaped(self, shape: Shape | tuple[Shape, ...]) -> "LowRank":
        """Use the shape of x, or of the arrays in it, unless ``shape`` is set.

        Raises:
            ValueError: If x is not a matrix, or its number of entries does not match ``shape``.
        """
        if self.shape is not None:
            expected, size = (
                sum(map(math.prod, self.shapes)),
                sum(map(math.prod, _shapes_of(shape))),
            )
            if expected != size:
                raise ValueError(
                    f"`shape` of LowRank has {expected} entries, but x has {size}, shape {shape}."
                )
            return self
        if all(len(part) != 2 for part in _shapes_of(shape)):
            raise ValueError(
                f"Low-rank directions need a matrix, but x has shape {shape}: start from x0 of "
                "shape (m, n), or pass the shape of the matrix in x, gs.LowRank(shape=(m, n))."
            )
        return replace(self, shape=shape)

    def draw(self, state: State, at: Address) -> "LowRankDraw":
        """See :meth:`Directions.draw`."""
        self.shaped((at.dim,))
        parts: list[tuple[int, int, int, int, int]] = []
        first = start = 0
        for shape in self.shapes:
            matrix = len(shape) == 2
            rows, columns = (shape[0] if matrix else 1), shape[-1]
            rank = self.rank if matrix else 0
            parts.append((rows, columns, rank, first, start))
            first += (rows + columns) * rank if rank else columns
            start += rows * columns
        make = signs if self.entries == "bernoulli" else normals
        factors = make(at._replace(dim=first)).block()
        for rows, _, rank, begin, _ in parts:
            factors[:, begin : begin + rows * rank] /= math.sqrt(max(rank, 1))  # A / √r
        return LowRankDraw(factors, np.array(parts, np.int64), at.dim)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`; defined for matrices of one shape, or for vectors.

        Raises:
            NoClosedForm: If the shape is not known, or if the parts have different moments, so that
                the error depends on which part the gradient is in.
        """
        if self.shape is None:
            raise NoClosedForm(
                "The error of low-rank directions depends on the shape of the matrix: pass it, "
                "gs.LowRank(shape=(m, n))."
            )
        dim = sum(map(math.prod, self.shapes))
        kurtosis = _KURTOSIS[self.entries]
        fourth = {  # s of each part, see theory.Moments
            theory.low_rank(*shape, num_directions, rank=self.rank, kurtosis=kurtosis).fourth
            + (dim - math.prod(shape))
            if len(shape) == 2
            else dim + kurtosis - 1.0
            for shape in self.shapes
        }
        if max(fourth) - min(fourth) > 1e-9 * max(fourth):
            raise NoClosedForm(
                "Low-rank directions for parts of different shapes have no closed-form error: it "
                "depends on which part the gradient is in."
            )
        s, L = max(fourth), num_directions
        return theory.Moments(1.0, 1.0 + (s - 1.0) / L, s, dim, L)

    def variance(self, dim: int, num_directions: int) -> float:
        """Return 1."""
        return 1.0

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return (κ² + 3(r − 1)) / r, where κ is the kurtosis of an entry of A and B."""
        if self.shape is not None and any(len(shape) != 2 for shape in self.shapes):
            raise NoClosedForm("The entries of matrices and vectors have different kurtosis.")
        return (_KURTOSIS[self.entries] ** 2 + 3 * (self.rank - 1)) / self.rank


@final
class LowRankDraw:
    """Directions as products of factors; see :mod:`gensmooth.kernels.factors`."""

    __slots__ = ("_factors", "_parts", "dim", "dtype", "factor", "num_directions")

    def __init__(
        self, factors: Array, parts: NDArray[np.int64], dim: int, *, factor: float = 1.0
    ) -> None:
        self._factors = factors
        self._parts = parts  # rows, columns, rank, start of its factors, start of its entries
        self.dim = dim
        self.dtype = factors.dtype
        self.factor = factor
        self.num_directions = len(factors)

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.empty((self.num_directions, self.dim), self.dtype)
        kernels.on_factors().fill(self._factors, self._parts, out)
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        kernels.on_factors().perturb(self._factors, self._parts, x, directions, spacings, out)
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out, squares = np.empty(self.dim, self.dtype), np.empty(self.num_directions)
        kernels.on_factors().combine(self._factors, self._parts, weights, out, squares)
        return out, squares

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        weights = unit * delta
        out, squares = self.combine(weights)
        return out, *kernels.on_sums().totals(weights, out, squares[None])

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "LowRankDraw":
        """See :meth:`Draw.rescaled`; rows are computed in one thread."""
        factors = self._factors
        if length != 1.0:
            factors = factors.copy()
            for rows, columns, rank, first, _ in self._parts.tolist():
                scaled = rows * rank if rank else columns  # A, or the entries of a vector
                factors[:, first : first + scaled] *= self.dtype.type(length)
        return LowRankDraw(factors, self._parts, self.dim, factor=self.factor * factor)


def _shapes_of(shape: Shape | tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Return the shapes of the parts."""
    several = bool(shape) and isinstance(shape[0], tuple)
    return cast(tuple[Shape, ...], shape if several else (shape,))


def _checked_shape(shape: object) -> Shape | tuple[Shape, ...]:
    """Return a shape, or a tuple of shapes, with Python integers."""
    parts = _parts_of(shape)
    if not parts:
        raise TypeError(
            f"`shape` must be (m, n) or a list of shapes, but is {checks.shown(shape)}."
        )
    if any(_parts_of(part) is not None for part in parts):
        return tuple(_one_shape(part) for part in parts)
    return _one_shape(shape)


def _one_shape(shape: object) -> Shape:
    sizes = _parts_of(shape)
    if sizes is None or len(sizes) not in (1, 2):
        raise ValueError(
            "`shape` must contain (m, n) for a matrix or (n,) for a vector, but has "
            f"{checks.shown(shape)}: write an array with more axes as (m, product of the others)."
        )
    return tuple(checks.count("shape", size) for size in sizes)


def _parts_of(value: object) -> list[object] | None:
    """Return the members of a list or tuple; ``None`` for anything else."""
    return list(cast(Sequence[object], value)) if isinstance(value, list | tuple) else None


register("low-rank", LowRank, title="Low rank", distribution="ABᵀ, rank 1, normals", place=20)
register(
    "low-rank-bes",
    lambda: LowRank(entries="bernoulli"),
    title="Low-rank BeS",
    distribution="ABᵀ, rank 1, coins",
    place=21,
)
