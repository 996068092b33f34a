"""The directions of one step, however they are made: block, perturb, combine.

:class:`Draw` is the interface that search and workers see; :class:`KernelDraw` answers from a
kernel law, :class:`QuantileDraw` from any quantile function. Neither ever holds L × d numbers
unless a caller asks for the block (or the law itself is one, as orthogonal rows are).

:func:`normals`, :func:`signs`, :func:`dense` and :func:`quantiles` make a draw at an
:class:`Address`: what a family of directions is built from.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels, streams
from gensmooth.directions.vectors import Room, Vectors
from gensmooth.streams import TILE, Purpose

Array = NDArray[Any]

_HELD = (2**12, 2**21)  # entries of normals that are kept for the estimate: 16 MB at most
_WORTH_THREADS = 10_000_000  # entries; below, starting threads costs more than they save
_CHUNK = 65_536  # entries of each direction that QuantileDraw holds at once; a multiple of the tile


class Address(NamedTuple):
    """Which directions are wanted: where their random numbers are, and their shape.

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
        """The key by which kernels read the random numbers of this step."""
        return stream_key(self.seed, purpose, self.step)

    def generator(
        self, purpose: Purpose = Purpose.DIRECTION, *, index: int = 0
    ) -> np.random.Generator:
        """A NumPy generator that depends on seed and step alone (and on purpose and index)."""
        return streams.generator(self.seed, purpose, step=self.step, index=index)


_NO_KEY = np.zeros(4, np.uint64)  # of what no stream makes


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

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "Draw":
        """The same draw with longer or shorter directions, a factor, or other threads."""
        ...


@final
class KernelDraw:
    """Directions that kernels make tile by tile, from a law of :mod:`gensmooth.kernels`."""

    __slots__ = (
        *("_kernels", "_passed", "_reads", "_room", "_tiles"),
        *("dim", "dtype", "factor", "law", "num_directions", "threads"),
    )

    def __init__(
        self,
        law: Any,
        dim: int,
        *,
        factor: float = 1.0,
        threads: int = 1,
        room: Room | None = None,
        reads: Vectors | None = None,
    ) -> None:
        self.law = law
        self._room = room
        self._reads = reads  # what the law has the addresses of: alive as long as the draw
        self.dim = dim
        self.num_directions = len(law.scale)
        self.dtype: np.dtype[Any] = law.scale.dtype
        self.factor = factor
        self.threads = threads
        self._tiles = -(-dim // TILE)
        self._kernels, self._passed = kernels.of(law)

    @property
    def has_signs(self) -> bool:
        """Whether its directions are signs, which have kernels of their own."""
        return len(self._passed) > 1

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        out = np.empty((self.num_directions, self.dim), self.dtype)
        self.over_tiles(self._kernels.fill, out)
        return out

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        if self.threads == 1:  # straight: at small d each Python call on the way shows
            self._kernels.perturb(*self._passed, 0, self._tiles, x, directions, spacings, out)
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
            return out, *self._kernels.estimate(*self._passed, delta, unit, out)
        out, squares = self._sums()
        weights = unit * delta
        self.over_tiles(self._kernels.combine, weights, out, squares)
        return out, *self._kernels.totals(*self._passed, weights, out, squares)

    @property
    def dear(self) -> bool:
        """Whether its directions are normals, which cost more to make than to read."""
        return type(self.law) is kernels.on_laws().NormalLaw

    def held(self) -> "KernelDraw":
        """The same directions in memory, for whoever is about to use all of them twice.

        A draw that was given room for them keeps them, and one of normals that are not too many,
        nor so few that it does not matter.
        """
        if self._room is not None:
            block = self._room.take((self.num_directions, self.dim), self.dtype)
        elif _HELD[0] <= self.num_directions * self.dim <= _HELD[1] and self.dear:
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
            room=self._room,
            reads=self._reads,
        )

    def changed(self, **fields: Array) -> "KernelDraw":
        """The same draw with other values for some fields of its law."""
        law = self.law._replace(**fields)
        return KernelDraw(
            law,
            self.dim,
            factor=self.factor,
            threads=self.threads,
            room=self._room,
            reads=self._reads,
        )

    def moments(self, weights: NDArray[np.float64]) -> tuple[Array, Array]:
        """``Σ_l weights[l] ε_l`` and ``Σ_l weights[l] ε_l²``, entry by entry; not of signs."""
        out, squares = np.empty(self.dim, self.dtype), np.empty(self.dim, self.dtype)
        self.over_tiles(kernels.on_moments().moments, weights, out, squares)
        return out, squares

    def over_tiles(
        self, kernel: Callable[..., None], *arguments: Any, size: int | None = None
    ) -> None:
        """Call a kernel over all tiles, split between threads at tile boundaries if it is worth it.

        Args:
            kernel: ``kernel(law, first tile, last tile, *arguments)``.
            arguments: What else it takes.
            size: Entries that it makes; by default those of all directions.
        """
        size = self.dim * self.num_directions if size is None else size
        if self.threads == 1 or size < _WORTH_THREADS:
            kernel(*self._passed, 0, self._tiles, *arguments)
            return
        cuts = [self._tiles * i // self.threads for i in range(self.threads + 1)]
        with ThreadPoolExecutor(self.threads) as pool:
            pieces = [
                pool.submit(kernel, *self._passed, first, last, *arguments)
                for first, last in pairwise(cuts)
            ]
        for piece in pieces:
            piece.result()

    def _sums(self) -> tuple[Array, Array]:
        """Room for a combination and for the squared lengths that come with it."""
        tiles = (self._tiles, self.num_directions)
        return np.empty(self.dim, self.dtype), np.empty(tiles)


@final
class QuantileDraw:
    """Directions with i.i.d. entries ``scale · quantile(u)``, u uniform on (0, 1)."""

    __slots__ = ("_at", "_key", "_quantile", "_scale", "dim", "dtype", "factor", "num_directions")

    def __init__(
        self,
        quantile: Callable[[Array], Array],
        at: Address,
        *,
        scale: float,
        factor: float = 1.0,
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
            out[start:stop], part = dense(chunk).combine(weights)
            squares += part
        return out, squares

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        weights = unit * delta
        out, squares = self.combine(weights)
        return out, *kernels.on_sums().totals(weights, out, squares[None])

    def rescaled(
        self,
        *,
        length: float = 1.0,
        factor: float = 1.0,
        threads: int | None = None,  # noqa: ARG002 (quantile functions run in one thread)
    ) -> "QuantileDraw":
        """See :meth:`Draw.rescaled`."""
        scale, factor = self._scale * length, self.factor * factor
        return QuantileDraw(self._quantile, self._at, scale=scale, factor=factor)

    def _entries(self, first: int, rows: int, start: int, stop: int) -> Array:
        """Entries ``start … stop`` of some directions; ``start`` is a multiple of the chunk."""
        uniforms = np.empty((rows, stop - start))
        kernels.on_laws().uniforms(self._key, first, start // TILE, uniforms)
        return (self._scale * self._quantile(uniforms)).astype(self.dtype)


@final
class ScaledDraw:
    """The directions of another draw, each entry j multiplied by ``scale[j]``: a diagonal metric.

    Attributes:
        base: The other draw.
        scale: One number per parameter.
    """

    __slots__ = ("base", "dim", "dtype", "factor", "num_directions", "scale")

    def __init__(self, base: Draw, scale: Array) -> None:
        self.base = base
        self.scale = scale.astype(base.dtype, copy=False)
        self.dim = base.dim
        self.dtype = base.dtype
        self.factor = base.factor
        self.num_directions = base.num_directions

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return self.base.block() * self.scale

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        base = self.base
        if isinstance(base, KernelDraw) and not base.has_signs:
            stretch = kernels.on_moments().stretch
            base.over_tiles(stretch, x, self.scale, directions, spacings, out, size=out.size)
            return out
        base.perturb(np.zeros_like(x), directions, spacings, out)
        out *= self.scale
        out += x
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        return dense(self.block()).combine(weights)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        return dense(self.block()).estimate(delta, unit)

    def held(self) -> "ScaledDraw":
        """See :meth:`KernelDraw.held`."""
        base = self.base.held() if isinstance(self.base, KernelDraw) else self.base
        return self if base is self.base else ScaledDraw(base, self.scale)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "ScaledDraw":
        """See :meth:`Draw.rescaled`."""
        base = self.base.rescaled(length=length, factor=factor, threads=threads)
        return ScaledDraw(base, self.scale)


class MixedDraw:
    """The directions z of another draw, each as F z: a full metric, for few parameters.

    Attributes:
        base: The other draw.
        mix: F, of shape (d, d) and lower triangular.
    """

    __slots__ = ("base", "dim", "dtype", "factor", "mix", "num_directions")

    def __init__(self, base: Draw, mix: Array) -> None:
        self.base = base
        self.mix = mix.astype(base.dtype, copy=False)
        self.dim = base.dim
        self.dtype = base.dtype
        self.factor = base.factor
        self.num_directions = base.num_directions

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return self._mixed(self.base.block())

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        self.base.perturb(np.zeros_like(x), directions, spacings, out)
        out[...] = self._mixed(out)
        out += x
        return out

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        return dense(self.block()).combine(weights)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        return dense(self.block()).estimate(delta, unit)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "MixedDraw":
        """See :meth:`Draw.rescaled`."""
        base = self.base.rescaled(length=length, factor=factor, threads=threads)
        return MixedDraw(base, self.mix)

    def _mixed(self, rows: Array) -> Array:
        """Every row z as F z; sums in one order, however many rows there are."""
        mixed = np.zeros_like(rows)
        for column in range(self.dim):
            mixed[:, column:] += rows[:, column, None] * self.mix[column:, column]
        return mixed


def signs(at: Address, scale: float = 1.0, *, purpose: Purpose = Purpose.DIRECTION) -> KernelDraw:
    """Independent rows of fair signs times ``scale``."""
    n = at.num_directions
    law = kernels.on_signs().SignLaw(
        at.key(purpose), _constant(n, scale, at.dtype), _counting(n), _zeros(n)
    )
    return KernelDraw(law, at.dim)


def normals(at: Address, scale: float = 1.0, *, purpose: Purpose = Purpose.DIRECTION) -> KernelDraw:
    """Independent rows of normals times ``scale``."""
    n = at.num_directions
    law = kernels.on_laws().NormalLaw(at.key(purpose), _constant(n, scale, at.dtype), _counting(n))
    return KernelDraw(law, at.dim)


def dense(block: Array) -> KernelDraw:
    """Directions that lie in memory: the rows of a float32 or float64 array of shape (L, d)."""
    block = np.ascontiguousarray(block)
    if block.ndim != 2 or block.dtype.char not in "fd":  # the name takes microseconds to make
        raise TypeError(
            "`block` must be an array of shape (L, d) in float32 or float64, but has shape "
            f"{block.shape} and dtype {block.dtype}."
        )
    law = kernels.on_laws().DenseLaw(_NO_KEY, _constant(len(block), 1.0, block.dtype), block)
    return KernelDraw(law, block.shape[1])


def quantiles(at: Address, quantile: Callable[[Array], Array], scale: float = 1.0) -> QuantileDraw:
    """Independent entries ``scale · quantile(u)``, u uniform on (0, 1)."""
    return QuantileDraw(quantile, at, scale=scale)


def stream_key(seed: int, purpose: Purpose, step: int) -> Array:
    """The key by which kernels read a stream."""
    key = _first_key(seed, purpose).copy()
    if step < 1 << 32:  # the low word alone: this is called in every step
        key[2] = step
    else:
        _, _, key[2], key[3] = streams.key_and_counter(seed, purpose, step)
    return key


@lru_cache(maxsize=64)
def _first_key(seed: int, purpose: Purpose) -> Array:
    return np.array(streams.key_and_counter(seed, purpose, 0), np.uint64)


@lru_cache(maxsize=256)
def _constant(n: int, value: float, dtype: np.dtype[Any]) -> Array:
    return np.full(n, value, dtype)


@cache
def _counting(n: int) -> Array:
    return np.arange(n, dtype=np.uint64)


@cache
def _zeros(n: int) -> Array:
    return np.zeros(n, np.int64)
