r"""SNES: the separable natural evolution strategy, one deviation for each parameter.

Wierstra et al. (2014), algorithm 6:

    s_k ~ N(0, I);  z_k = μ + σ s_k
    ∇μ = Σ_k u_k s_k;  ∇σ = Σ_k u_k (s_k² − 1)
    μ ← μ + η_μ σ ∇μ;  σ ← σ exp(η_σ/2 · ∇σ)

for each entry, where u_k is the utility of the value at z_k. The defaults λ = 4 + ⌊3 ln d⌋, η_μ = 1
and η_σ = (3 + ln d)/(5 √d) are from table 1. A step costs λ d operations, so SNES suits any
dimension.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels
from gensmooth.batch import Batch
from gensmooth.directions.composed import ScaledDraw
from gensmooth.directions.draw import Address, Draw, KernelDraw, normals
from gensmooth.searches.algorithms.nes import weigh
from gensmooth.searches.algorithms.population import DistributionStep, Population, make_population
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import SearchState

Array = NDArray[Any]


class Deviations(NamedTuple):
    """σ, one standard deviation per parameter."""

    sigma: Array


@final
@dataclass(frozen=True, kw_only=True)
class SNES(Population):
    """The separable natural evolution strategy.

    The other arguments are those of :class:`~gensmooth.searches.algorithms.population.Population`.
    Points outside the bounds are projected, but the distribution is updated with the points before
    projection. Dropped values are not ranked.

    Args:
        population: λ, points per step; by default 4 + ⌊3 ln d⌋.
        spacing: The first σ, in units of ``x_scale``.
        mean_rate: η_μ.
        scale_rate: η_σ; by default (3 + ln d)/(5 √d).

    >>> search = SNES()
    >>> state = search.init([5.0, 5.0], seed=0)
    >>> for _ in range(150):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, _ = search.tell(state, batch, values)
    >>> state.x.round(2)
    array([1., 2.])
    """

    method: ClassVar[str] = "snes"

    mean_rate: float = 1.0
    scale_rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(
            self,
            mean_rate=float(checks.positive("mean_rate", self.mean_rate)),
            scale_rate=checks.optional(checks.nonnegative, "scale_rate", self.scale_rate),
        )

    def check_dim(self, dim: int) -> None:
        """Accept any dimension."""

    def begin(
        self,
        x: Array,
        units: Array,
        seed: int,  # noqa: ARG002
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return σ: the spacing, in the unit of each parameter."""
        return Deviations((self.spacing * units).astype(x.dtype)), ()

    def draw(self, state: SearchState) -> Draw:
        """Return σ s."""
        return ScaledDraw(self._normals(state), _sigma(state))

    def update(
        self,
        state: SearchState,
        batch: Batch,
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> DistributionStep:
        """See the equations above."""
        u = weigh(values, kept)
        draw = batch.draw.base if isinstance(batch.draw, ScaledDraw) else self._normals(state)
        assert isinstance(draw, KernelDraw)
        first, second = draw.moments(u)  # Σ u s, Σ u s²
        center, sigma = state.x.reshape(-1), _sigma(state)
        x, scale = np.empty_like(center), np.empty_like(sigma)
        kind = center.dtype.type
        rate = self.scale_rate
        if rate is None:
            rate = (3 + math.log(x.size)) / (5 * math.sqrt(x.size))
        length2, size2, gradient2, low, high = kernels.on_moments().rescale(
            center, sigma, first, second,
            kind(self.mean_rate), kind(0.5 * rate), kind(sum(u.tolist())), x, scale,
        )  # fmt: skip
        finite = math.isfinite(length2) and low > 0 and math.isfinite(high)
        if low == 0:  # a deviation has underflowed: the search has converged
            finite, scale = math.isfinite(length2), np.maximum(scale, np.finfo(scale.dtype).tiny)
        return DistributionStep(
            x, Deviations(scale), (), math.sqrt(gradient2), bool(finite), (length2, size2)
        )

    def is_valid(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Return whether there is one positive, finite deviation per parameter."""
        sigma = Deviations(*sent).sigma
        fits = sigma.shape == (dim,) and sigma.dtype == dtype
        return fits and bool(np.isfinite(sigma).all() and (sigma > 0).all())

    def _normals(self, state: SearchState) -> KernelDraw:
        x = state.x
        return normals(Address(state.seed, state.step, self.number(x.size), x.size, x.dtype))


def _sigma(state: SearchState) -> Array:
    return checks.state_part(state.sent, Deviations).sigma


def make(x: Array, wanted: Wanted) -> Population:
    """Create SNES; ``learning_rate`` is η_μ."""
    wanted.refuse("optimizer", why="it makes its own steps; `learning_rate` is that of its mean.")
    return make_population(partial(SNES, mean_rate=wanted.rate(1.0)), x, wanted)


ALGORITHMS["snes"] = Algorithm(make, "SNES", "N(μ, σ²), by rank", "Wierstra et al. (2014)")
