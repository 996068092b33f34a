"""Directions made from those of other draws: with scaled entries, mixed, or one after the other."""

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels
from gensmooth.directions.draw import Draw, KernelDraw, dense

Array = NDArray[Any]


class ComposedDraw(ABC):
    """A :class:`Draw` whose sums over directions are computed from its block."""

    __slots__ = ("dim", "dtype", "factor", "num_directions")

    def __init__(self, base: Draw, num_directions: int) -> None:
        self.dim, self.dtype, self.factor = base.dim, base.dtype, base.factor
        self.num_directions = num_directions

    @abstractmethod
    def block(self) -> Array:
        """See :meth:`Draw.block`."""

    def combine(self, weights: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """See :meth:`Draw.combine`."""
        return dense(self.block()).combine(weights)

    def estimate(self, delta: NDArray[np.float64], unit: float) -> tuple[Array, float, float]:
        """See :meth:`Draw.estimate`."""
        return dense(self.block()).estimate(delta, unit)


@final
class ScaledDraw(ComposedDraw):
    """The directions of a base draw with entry j multiplied by ``scale[j]``: a diagonal metric.

    Attributes:
        base: The base draw.
        scale: One number per parameter.
    """

    __slots__ = ("base", "scale")

    def __init__(self, base: Draw, scale: Array) -> None:
        super().__init__(base, base.num_directions)
        self.base = base
        self.scale = scale.astype(base.dtype, copy=False)

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

    def in_memory(self) -> "ScaledDraw":
        """See :meth:`KernelDraw.in_memory`."""
        base = self.base.in_memory() if isinstance(self.base, KernelDraw) else self.base
        return self if base is self.base else ScaledDraw(base, self.scale)

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "ScaledDraw":
        """See :meth:`Draw.rescaled`."""
        base = self.base.rescaled(length=length, factor=factor, threads=threads)
        return ScaledDraw(base, self.scale)


@final
class MixedDraw(ComposedDraw):
    """The directions F z for the directions z of a base draw: a full metric, for few parameters.

    Attributes:
        base: The base draw.
        mix: F, a lower triangular matrix of shape (d, d).
    """

    __slots__ = ("base", "mix")

    def __init__(self, base: Draw, mix: Array) -> None:
        super().__init__(base, base.num_directions)
        self.base = base
        self.mix = mix.astype(base.dtype, copy=False)

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return self._mixed(self.base.block())

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        self.base.perturb(np.zeros_like(x), directions, spacings, out)
        out[...] = self._mixed(out)
        out += x
        return out

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "MixedDraw":
        """See :meth:`Draw.rescaled`."""
        base = self.base.rescaled(length=length, factor=factor, threads=threads)
        return MixedDraw(base, self.mix)

    def _mixed(self, rows: Array) -> Array:
        """Return F z for every row z, summed in the same order for any number of rows."""
        return (rows[:, None, :] * self.mix).sum(axis=-1)


@final
class JoinedDraw(ComposedDraw):
    """The directions of two draws, one after the other.

    Attributes:
        first: One draw.
        second: The other.
    """

    __slots__ = ("first", "second")

    def __init__(self, first: Draw, second: Draw) -> None:
        super().__init__(first, first.num_directions + second.num_directions)
        self.first, self.second = first, second

    def block(self) -> Array:
        """See :meth:`Draw.block`."""
        return np.concatenate([self.first.block(), self.second.block()])

    def perturb(self, x: Array, directions: Array, spacings: Array, out: Array) -> Array:
        """See :meth:`Draw.perturb`."""
        if not (directions >= self.first.num_directions).any():
            return self.first.perturb(x, directions, spacings, out)
        for row, (direction, spacing) in enumerate(zip(directions, spacings, strict=True)):
            draw, index = (self.first, direction)
            if direction >= self.first.num_directions:
                draw, index = self.second, direction - self.first.num_directions
            draw.perturb(x, np.array([index]), np.array([spacing]), out[row : row + 1])
        return out

    def rescaled(
        self, *, length: float = 1.0, factor: float = 1.0, threads: int | None = None
    ) -> "JoinedDraw":
        """See :meth:`Draw.rescaled`."""
        return JoinedDraw(
            self.first.rescaled(length=length, factor=factor, threads=threads),
            self.second.rescaled(length=length, factor=factor, threads=threads),
        )
