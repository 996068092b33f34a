"""The directions of one step, however they are made: block, perturb, combine.

:class:`Draw` is the interface that search and workers see; :class:`KernelDraw` answers from a
kernel law, :class:`QuantileDraw` from any quantile function. Neither ever holds L × d numbers
unless a caller asks for the block (or the law itself is one, as orthogonal rows are).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels, streams
from gensmooth.streams import TILE, Purpose

Array = NDArray[Any]

_WORTH_THREADS = 10_000_000  # entries; below, starting threads costs more than they save
_CHUNK = 65_536  # entries of each direction that QuantileDraw holds at once; a multiple of the tile


class Draw(Protocol):
    """L directions of length d, drawn for one step.

    Attributes:
        dim: d.
        num_directions: L.
        dtype: float32 or float64.
        factor: What the mean over directions is multiplied by (1, unless shrinkage scales the
            estimate instead of the directions).
    """

    dim: int
    num_directions: int
    dtype: np.dtype[Any]
    factor: float

    def block(self) -> Array:
        """All directions, shape (L, d)."""
        ...

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """Put ``x + spacings[r] · ε_{directions[r]}`` into row r of ``out``, shape (rows, d)."""
        ...

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """``Σ_l weights[l] ε_l`` and the squared lengths ``‖ε_l‖²``."""
        ...

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """``g = Σ_l g_l``, ``g_l = unit · delta[l] · ε_l``, with ``‖g‖²`` and ``Σ_l ‖g_l‖²``."""
        ...

    def rescaled(self, *, length: float = 1.0, factor: float = 1.0, threads: int = 1) -> "Draw":
        """The same draw with longer or shorter directions, a factor, or more threads."""
        ...


@final
class SignDraw:
    """Directions of packed signs, :mod:`gensmooth.kernels.signs`."""

    __slots__ = ("_tiles", "dim", "dtype", "factor", "law", "num_directions", "threads")

    def __init__(self, law: Any, dim: int, *, factor: float = 1.0, threads: int = 1) -> None:
        self.law = law
        self.dim = dim
        self.num_directions = len(law.scale)
        self.dtype: np.dtype[Any] = law.scale.dtype
        self.factor = factor
        self.threads = threads
        self._tiles = -(-dim // TILE)

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.empty((self.num_directions, self.dim), self.dtype)
        self._over_tiles(out.size, kernels.on_signs().fill, out)
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        kernel = kernels.on_signs().perturb
        if self.threads == 1:  # straight: at small d each Python call on the way shows
            kernel(*self.law, 0, self._tiles, x, directions, spacings, out)
        else:
            self._over_tiles(out.size, kernel, x, directions, spacings, out)
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out = np.empty(self.dim, self.dtype)
        size = self.dim * self.num_directions
        self._over_tiles(size, kernels.on_signs().combine, weights, out)
        return out, self.dim * self.law.scale.astype(np.float64) ** 2

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        signs = kernels.on_signs()
        out = np.empty(self.dim, self.dtype)
        if self.threads == 1:
            return out, *signs.estimate(*self.law, delta, unit, out)
        weights = unit * delta
        self._over_tiles(self.dim * self.num_directions, signs.combine, weights, out)
        return out, *signs.totals(self.law.scale, weights, out)

    def rescaled(self, *, length: float = 1.0, factor: float = 1.0, threads: int = 1) -> "SignDraw":
        """See :meth:`Draw.rescaled`."""
        key, scale, stream, row = self.law
        law = type(self.law)(key, scale * self.dtype.type(length), stream, row)
        return SignDraw(law, self.dim, factor=self.factor * factor, threads=threads)

    def _over_tiles(self, size: int, kernel: Callable[..., None], *arguments: Any) -> None:
        threads = self.threads if size >= _WORTH_THREADS else 1
        over_tiles(kernel, self.law, self._tiles, arguments, threads)


@final
class KernelDraw:
    """Directions whose law is one of :mod:`gensmooth.kernels.laws`: normals, dense, guided."""

    __slots__ = ("_tiles", "dim", "dtype", "factor", "law", "num_directions", "threads")

    def __init__(self, law: Any, dim: int, *, factor: float = 1.0, threads: int = 1) -> None:
        self.law = law
        self.dim = dim
        self.num_directions = len(law.scale)
        self.dtype: np.dtype[Any] = law.scale.dtype
        self.factor = factor
        self.threads = threads
        self._tiles = -(-dim // TILE)

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.empty((self.num_directions, self.dim), self.dtype)
        self._over_tiles(out.size, kernels.on_laws().fill, out)
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        kernel = kernels.on_laws().perturb
        self._over_tiles(out.size, kernel, x, directions, spacings, out)
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out, squares = self._sums()
        size = self.dim * self.num_directions
        self._over_tiles(size, kernels.on_laws().combine, weights, out, squares)
        return out, squares.sum(axis=0)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        laws = kernels.on_laws()
        out, squares = self._sums()
        if self.threads == 1:
            return out, *laws.estimate(self.law, delta, unit, out, squares)
        weights = unit * delta
        self._over_tiles(self.dim * self.num_directions, laws.combine, weights, out, squares)
        return out, *laws.totals(weights, out, squares)

    def squared_lengths(self) -> NDArray[np.float64]:
        """``‖ε_l‖²`` for each direction."""
        squares = np.empty((self._tiles, self.num_directions))
        size = self.dim * self.num_directions
        self._over_tiles(size, kernels.on_laws().squared_lengths, self.dim, squares)
        return squares.sum(axis=0)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int = 1
    ) -> "KernelDraw":
        """See :meth:`Draw.rescaled`."""
        law = self.law
        if length != 1.0:
            size = self.dtype.type(length)
            key, scale, *rest = law
            law = type(law)(key, scale * size, *rest)
            if hasattr(law, "mix"):
                law = law._replace(mix=law.mix * size)
        return KernelDraw(law, self.dim, factor=self.factor * factor, threads=threads)

    def _sums(self) -> tuple[Array, Array]:
        """Room for a combination and for the squared lengths that come with it."""
        tiles = (self._tiles, self.num_directions)
        return np.empty(self.dim, self.dtype), np.empty(tiles)

    def _over_tiles(self, size: int, kernel: Callable[..., None], *arguments: Any) -> None:
        threads = self.threads if size >= _WORTH_THREADS else 1
        over_tiles(kernel, (self.law,), self._tiles, arguments, threads)


def over_tiles(
    kernel: Callable[..., None],
    law: tuple[Any, ...],
    tiles: int,
    arguments: tuple[Any, ...],
    threads: int,
) -> None:
    """Call a kernel over all tiles, split between threads at tile boundaries."""
    if threads == 1:
        kernel(*law, 0, tiles, *arguments)
        return
    cuts = [tiles * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        pieces = [
            pool.submit(kernel, *law, first, last, *arguments) for first, last in pairwise(cuts)
        ]
    for piece in pieces:
        piece.result()


@final
class QuantileDraw:
    """Directions with i.i.d. entries ``scale · quantile(u)``, u uniform on (0, 1)."""

    __slots__ = ("dim", "dtype", "factor", "key", "num_directions", "quantile", "scale")

    def __init__(
        self,
        quantile: Callable[[Array], Array],
        key: Array,
        *,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
        scale: float,
        factor: float = 1.0,
    ) -> None:
        self.quantile = quantile
        self.key = key
        self.num_directions = num_directions
        self.dim = dim
        self.dtype = dtype
        self.scale = scale
        self.factor = factor

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return self._entries(0, self.num_directions, 0, self.dim)

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        c = spacings.astype(self.dtype)
        for start in range(0, self.dim, _CHUNK):
            stop = min(start + _CHUNK, self.dim)
            for r, direction in enumerate(directions.tolist()):
                entries = self._entries(direction, 1, start, stop)[0]
                out[r, start:stop] = x[start:stop] + c[r] * entries
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        out = np.empty(self.dim, self.dtype)
        squares = np.zeros(self.num_directions)
        for start in range(0, self.dim, _CHUNK):
            stop = min(start + _CHUNK, self.dim)
            chunk = self._entries(0, self.num_directions, start, stop)
            out[start:stop], part = dense(chunk, stop - start).combine(weights)
            squares += part
        return out, squares

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        weights = unit * delta
        out, squares = self.combine(weights)
        return out, *kernels.on_laws().totals(weights, out, squares[None])

    def rescaled(
        self,
        *,
        length: float = 1.0,
        factor: float = 1.0,
        threads: int = 1,  # noqa: ARG002 (quantile functions run in one thread)
    ) -> "QuantileDraw":
        """See :meth:`Draw.rescaled`."""
        return QuantileDraw(
            self.quantile,
            self.key,
            num_directions=self.num_directions,
            dim=self.dim,
            dtype=self.dtype,
            scale=self.scale * length,
            factor=self.factor * factor,
        )

    def _entries(self, first: int, rows: int, start: int, stop: int) -> Array:
        """Entries ``start … stop`` of some directions; ``start`` is a multiple of the chunk."""
        uniforms = np.empty((rows, stop - start))
        kernels.on_laws().uniforms(self.key, first, start // TILE, uniforms)
        return (self.scale * self.quantile(uniforms)).astype(self.dtype)


def stream_key(seed: int, purpose: Purpose, step: int) -> Array:
    """The key that kernels read their stream with."""
    key = _first_key(seed, purpose).copy()
    _, _, key[2], key[3] = streams.key_and_counter(seed, purpose, step)
    return key


@lru_cache(maxsize=64)
def _first_key(seed: int, purpose: Purpose) -> Array:
    return np.array(streams.key_and_counter(seed, purpose, 0), np.uint64)


def signs(
    key: Array, num_directions: int, dim: int, dtype: np.dtype[Any], scale: float = 1.0
) -> SignDraw:
    """Independent rows of fair signs times ``scale``."""
    law = kernels.on_signs().SignLaw(
        key,
        _constant(num_directions, scale, dtype),
        _counting(num_directions),
        _zeros(num_directions),
    )
    return SignDraw(law, dim)


def normals(
    key: Array, num_directions: int, dim: int, dtype: np.dtype[Any], scale: float = 1.0
) -> KernelDraw:
    """Independent rows of normals times ``scale``."""
    law = kernels.on_laws().NormalLaw(
        key, _constant(num_directions, scale, dtype), _counting(num_directions)
    )
    return KernelDraw(law, dim)


def dense(block: Array, dim: int) -> KernelDraw:
    """Directions that lie in memory."""
    law = kernels.on_laws().DenseLaw(
        np.zeros(4, np.uint64), _constant(len(block), 1.0, block.dtype), block
    )
    return KernelDraw(law, dim)


@lru_cache(maxsize=256)
def _constant(n: int, value: float, dtype: np.dtype[Any]) -> Array:
    return np.full(n, value, dtype)


@cache
def _counting(n: int) -> Array:
    return np.arange(n, dtype=np.uint64)


@cache
def _zeros(n: int) -> Array:
    return np.zeros(n, np.int64)
