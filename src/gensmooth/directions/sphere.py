"""Directions uniform on the sphere of radius √d (Polyak; Flaxman, Kalai and McMahan)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from gensmooth import kernels, theory
from gensmooth.directions.base import Directions, State, register, rotated_kurtosis
from gensmooth.directions.draw import Address, KernelDraw, normals
from gensmooth.directions.shrinkage import shrunk
from gensmooth.streams import TILE


@final
@dataclass(frozen=True)
class Sphere(Directions):
    """Gaussian rows scaled to length √d; their error is that of fair coins.

    >>> from gensmooth.directions.bernoulli import Bernoulli
    >>> Sphere().moments(dim=100, num_directions=20) == Bernoulli().moments(100, 20)
    True
    """

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        rows = normals(at)
        squares = np.empty((-(-at.dim // TILE), at.num_directions))  # of each tile
        rows.over_tiles(kernels.on_laws().squared_lengths, at.dim, squares)
        lengths = np.sqrt(squares.sum(axis=0))
        return rows.changed(scale=(math.sqrt(at.dim) / lengths).astype(at.dtype))

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.sphere(dim, num_directions)

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Return 3d / (d + 2)."""
        return rotated_kurtosis(self.moments(dim, num_directions))

    def quadratic_spacing_mse(
        self, dim: int, num_directions: int, *, spacing: float, hessian: theory.HessianSquares
    ) -> float:
        """See :meth:`Directions.quadratic_spacing_mse`."""
        squares = {"trace2": hessian.trace2, "frobenius2": hessian.frobenius2}
        return theory.quadratic_spacing_mse_sphere(dim, num_directions, spacing=spacing, **squares)


register("sphere", Sphere, title="Sphere", distribution="sphere of radius √d", place=6)
register(
    "sphere-shrinkage",
    lambda: shrunk(Sphere()),
    title="Sphere-shrinkage",
    distribution="sphere, shrunk",
    place=9,
)
