"""The directions of one step, with three operations: block, perturb, combine.

:class:`Draw` is the interface that searches and workers use. :class:`KernelDraw` generates
directions from a kernel law, :class:`QuantileDraw` from any quantile function. Neither holds L × d
numbers unless a caller requests the block (or the law itself stores one, as for orthogonal rows).

Families of directions are built from :func:`normals`, :func:`signs`, :func:`dense` and
:func:`quantiles`, which return a draw at an :class:`Address`. :mod:`.composed` has draws that are
made from other draws.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels, streams
from gensmooth.directions.vectors import BlockBuffer, Vectors
from gensmooth.streams import TILE, Purpose

Array = NDArray[Any]

_STORED_SIZES = (2**12, 2**21)  # entries: between these, normals are stored, in at most 16 MB
_WORTH_THREADS = 10_000_000  # entries below which starting threads costs more than it saves
_CHUNK = 65_536  # entries per direction that QuantileDraw holds at once; a multiple of TILE


class Address(NamedTuple):
    """The address of the random numbers of some directions, and their shape.

    Attributes:
        seed: The seed of the run.
        step: The number of the step.
        num_directions: L.
        dim: d.
        dtype: float32 or float64.
    """

    seed: int
    step: int
    num_directions: int
    dim: int
    dtype: np.dtype[Any]

    def key(self, purpose: Purpose = Purpose.DIRECTION) -> Array:
        """Return the kernels' key to the random numbers of this step."""
        return stream_key(self.seed, purpose, self.step)

    def generator(
        self, purpose: Purpose = Purpose.DIRECTION, *, index: int = 0
    ) -> np.random.Generator:
        """Return a NumPy generator that depends only on seed, step, purpose and index."""
        return streams.generator(self.seed, purpose, step=self.step, index=index)


_NO_KEY = np.zeros(4, np.uint64)  # for directions that use no random stream


class Draw(Protocol):
    """L directions of length d, drawn for one step.

    Attributes:
        dim: d.
        num_directions: L.
        dtype: float32 or float64.
        factor: The factor of the estimate: 1, unless shrinkage scales the estimate instead of the
            directions.
    """

    dim: int
    num_directions: int
    dtype: np.dtype[Any]
    factor: float

    def block(self) -> Array:
        """Return all directions, shape (L, d)."""
        ...

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """Write ``x + spacings[r] · ε_{directions[r]}`` to row r of ``out``, shape (rows, d)."""
        ...

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """Return ``Σ_l weights[l] ε_l`` and the squared lengths ``‖ε_l‖²``."""
        ...

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """Return ``g = Σ_l g_l``, ``‖g‖²`` and ``Σ_l ‖g_l‖²``; ``g_l = unit · delta[l] · ε_l``."""
        ...

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "Draw":
        """Return the same draw with directions of another length, a factor, or other threads."""
        ...


@final
class KernelDraw:
    """Directions that kernels generate tile by tile, from a law of :mod:`gensmooth.kernels`."""

    __slots__ = (
        *("_buffer", "_kernels", "_law_arguments", "_tiles", "_vectors"),
        *("dim", "dtype", "factor", "law", "num_directions", "threads"),
    )

    def __init__(
        self,
        law: Any,
        dim: int,
        *,
        factor: float = 1.0,
        threads: int = 1,
        buffer: BlockBuffer | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        self.law = law
        self._buffer = buffer
        self._vectors = vectors  # the law holds their addresses, so the draw keeps them alive
        self.dim = dim
        self.num_directions = len(law.scale)
        self.dtype: np.dtype[Any] = law.scale.dtype
        self.factor = factor
        self.threads = threads
        self._tiles = -(-dim // TILE)
        self._kernels, self._law_arguments = kernels.of(law)

    @property
    def has_signs(self) -> bool:
        """Whether its directions are signs, which have their own kernels."""
        return len(self._law_arguments) > 1

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.empty((self.num_directions, self.dim), self.dtype)
        self.over_tiles(self._kernels.fill, out)
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        if self.threads == 1:  # directly: at small d, every Python call counts
            self._kernels.perturb(
                *self._law_arguments, 0, self._tiles, x, directions, spacings, out
            )
        else:
            self.over_tiles(self._kernels.perturb, x, directions, spacings, out, size=out.size)
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out, squares = self._sums()
        self.over_tiles(self._kernels.combine, weights, out, squares)
        return out, squares.sum(axis=0)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        if self.threads == 1:
            out = np.empty(self.dim, self.dtype)
            return out, *self._kernels.estimate(*self._law_arguments, delta, unit, out)
        out, squares = self._sums()
        weights = unit * delta
        self.over_tiles(self._kernels.combine, weights, out, squares)
        return out, *self._kernels.totals(*self._law_arguments, weights, out, squares)

    @property
    def slow_to_generate(self) -> bool:
        """Whether its directions are normals, which are slower to generate than to read."""
        return type(self.law) is kernels.on_laws().NormalLaw

    def in_memory(self) -> "KernelDraw":
        """Return the same directions, stored in memory if that is faster for a search's step.

        A step uses every direction twice. They are stored if the draw has a ``buffer`` for them, or
        if they are normals of a size at which storing them pays off.
        """
        if self._buffer is not None:
            block = self._buffer.take((self.num_directions, self.dim), self.dtype)
        elif (
            _STORED_SIZES[0] <= self.num_directions * self.dim <= _STORED_SIZES[1]
            and self.slow_to_generate
        ):
            block = np.empty((self.num_directions, self.dim), self.dtype)
        else:
            return self
        self.over_tiles(self._kernels.fill, block)
        return dense(block).rescaled(factor=self.factor, threads=self.threads)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "KernelDraw":
        """See :meth:`Draw.rescaled`."""
        return KernelDraw(
            self.law if length == 1.0 else self.law.scaled(self.dtype.type(length)),
            self.dim,
            factor=self.factor * factor,
            threads=self.threads if threads is None else threads,
            buffer=self._buffer,
            vectors=self._vectors,
        )

    def changed(self, **fields: Array) -> "KernelDraw":
        """Return the same draw with some fields of its law replaced."""
        law = self.law._replace(**fields)
        return KernelDraw(
            law,
            self.dim,
            factor=self.factor,
            threads=self.threads,
            buffer=self._buffer,
            vectors=self._vectors,
        )

    def moments(self, weights: NDArray[np.float64]) -> tuple[Array, Array]:
        """Return ``Σ_l weights[l] ε_l`` and ``Σ_l weights[l] ε_l²`` by entry; not for signs."""
        out, squares = np.empty(self.dim, self.dtype), np.empty(self.dim, self.dtype)
        self.over_tiles(kernels.on_moments().moments, weights, out, squares)
        return out, squares

    def over_tiles(
        self, kernel: Callable[..., None], *arguments: Any, size: int | None = None
    ) -> None:
        """Call a kernel on all tiles, split among threads at tile boundaries if that saves time.

        Args:
            kernel: A function ``kernel(law, first tile, last tile, *arguments)``.
            arguments: Its other arguments.
            size: The number of entries it generates; by default, those of all directions.
        """
        size = self.dim * self.num_directions if size is None else size
        if self.threads == 1 or size < _WORTH_THREADS:
            kernel(*self._law_arguments, 0, self._tiles, *arguments)
            return
        cuts = [self._tiles * i // self.threads for i in range(self.threads + 1)]
        with ThreadPoolExecutor(self.threads) as pool:
            pieces = [
                pool.submit(kernel, *self._law_arguments, first, last, *arguments)
                for first, last in pairwise(cuts)
            ]
        for piece in pieces:
            piece.result()

    def _sums(self) -> tuple[Array, Array]:
        """Allocate arrays for a combination and its squared lengths."""
        tiles = (self._tiles, self.num_directions)
        return np.empty(self.dim, self.dtype), np.empty(tiles)


@final
class QuantileDraw:
    """Directions with i.i.d. entries ``scale · quantile(u)``, where u is uniform on (0, 1)."""

    __slots__ = ("_at", "_key", "_quantile", "_scale", "dim", "dtype", "factor", "num_directions")

    def __init__(
        self, quantile: Callable[[Array], Array], at: Address, *, scale: float, factor: float = 1.0
    ) -> None:
        self._at = at
        self._key = at.key()
        self._quantile = quantile
        self._scale = scale
        self.dim = at.dim
        self.dtype = at.dtype
        self.factor = factor
        self.num_directions = at.num_directions

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return self._entries(0, self.num_directions, 0, self.dim)

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        c, numbers = spacings.astype(self.dtype), directions.tolist()
        first, last = min(numbers), max(numbers)  # the directions of one call are adjacent
        for start in range(0, self.dim, _CHUNK):
            stop = min(start + _CHUNK, self.dim)
            entries = self._entries(first, last + 1 - first, start, stop)
            for r, number in enumerate(numbers):
                out[r, start:stop] = x[start:stop] + c[r] * entries[number - first]
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out = np.empty(self.dim, self.dtype)
        squares = np.zeros(self.num_directions)
        for start in range(0, self.dim, _CHUNK):
            stop = min(start + _CHUNK, self.dim)
            chunk = self._entries(0, self.num_directions, start, stop)
            out[start:stop], part = dense(chunk).combine(weights)
            squares += part
        return out, squares

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        weights = unit * delta
        out, squares = self.combine(weights)
        return out, *kernels.on_sums().totals(weights, out, squares[None])

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "QuantileDraw":
        """See :meth:`Draw.rescaled`; quantile functions run in one thread."""
        scale, factor = self._scale * length, self.factor * factor
        return QuantileDraw(self._quantile, self._at, scale=scale, factor=factor)

    def _entries(self, first: int, rows: int, start: int, stop: int) -> Array:
        """Return entries ``start`` to ``stop − 1`` of some rows; _CHUNK divides ``start``."""
        uniforms = np.empty((rows, stop - start))
        kernels.on_laws().uniforms(self._key, first, start // TILE, uniforms)
        return (self._scale * self._quantile(uniforms)).astype(self.dtype)


def signs(at: Address, scale: float = 1.0, *, purpose: Purpose = Purpose.DIRECTION) -> KernelDraw:
    """Return directions of independent fair signs times ``scale``."""
    n = at.num_directions
    law = kernels.on_signs().SignLaw(
        at.key(purpose), _constant(n, scale, at.dtype), _indices(n), _zeros(n)
    )
    return KernelDraw(law, at.dim)


def normals(at: Address, scale: float = 1.0, *, purpose: Purpose = Purpose.DIRECTION) -> KernelDraw:
    """Return directions of independent normals times ``scale``."""
    n = at.num_directions
    law = kernels.on_laws().NormalLaw(at.key(purpose), _constant(n, scale, at.dtype), _indices(n))
    return KernelDraw(law, at.dim)


def dense(block: Array) -> KernelDraw:
    """Return directions stored as the rows of a float32 or float64 array of shape (L, d)."""
    block = np.ascontiguousarray(block)
    if block.ndim != 2 or block.dtype.char not in "fd":  # `dtype.name` would take microseconds
        raise TypeError(
            "`block` must be an array of shape (L, d) in float32 or float64, but has shape "
            f"{block.shape} and dtype {block.dtype}."
        )
    law = kernels.on_laws().DenseLaw(_NO_KEY, _constant(len(block), 1.0, block.dtype), block)
    return KernelDraw(law, block.shape[1])


def quantiles(at: Address, quantile: Callable[[Array], Array], scale: float = 1.0) -> QuantileDraw:
    """Return directions of independent entries ``scale · quantile(u)``, u uniform on (0, 1)."""
    return QuantileDraw(quantile, at, scale=scale)


def stream_key(seed: int, purpose: Purpose, step: int) -> Array:
    """Return the kernels' key to a random stream."""
    key = _key_at_step_0(seed, purpose).copy()
    if step < 1 << 32:  # only the low word, because this runs in every step
        key[2] = step
    else:
        _, _, key[2], key[3] = streams.key_and_counter(seed, purpose, step)
    return key


@lru_cache(maxsize=64)
def _key_at_step_0(seed: int, purpose: Purpose) -> Array:
    return np.array(streams.key_and_counter(seed, purpose, 0), np.uint64)


@lru_cache(maxsize=256)
def _constant(n: int, value: float, dtype: np.dtype[Any]) -> Array:
    return np.full(n, value, dtype)


@cache
def _indices(n: int) -> Array:
    return np.arange(n, dtype=np.uint64)


@cache
def _zeros(n: int) -> Array:
    return np.zeros(n, np.int64)
