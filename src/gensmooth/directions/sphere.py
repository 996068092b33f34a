"""Directions uniform on the sphere of radius √d (Polyak; Flaxman, Kalai and McMahan)."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from gensmooth import theory
from gensmooth.directions.base import Directions, State
from gensmooth.directions.draw import KernelDraw, normals, stream_key
from gensmooth.streams import Purpose


@final
@dataclass(frozen=True)
class Sphere(Directions):
    """Gaussian rows scaled to length √d: the error of fair coins without their lattice.

    >>> from gensmooth.directions.iid import Bernoulli
    >>> Sphere().moments(dim=100, num_directions=20) == Bernoulli().moments(100, 20)
    True
    """

    def draw(
        self,
        state: State,  # noqa: ARG002
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        key = stream_key(seed, Purpose.DIRECTION, step)
        rows = normals(key, num_directions, dim, dtype)
        scale = (math.sqrt(dim) / np.sqrt(rows.squared_lengths())).astype(dtype)
        return KernelDraw(rows.law._replace(scale=scale), dim)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """See :meth:`Directions.moments`."""
        return theory.sphere(dim, num_directions)
