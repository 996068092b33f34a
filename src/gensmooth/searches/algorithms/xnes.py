r"""xNES: the exponential natural evolution strategy, a normal distribution with a full covariance.

Wierstra et al. (2014), algorithm 5; Glasmachers et al. (2010):

    s_k ~ N(0, I);  z_k = μ + σ B s_k
    ∇δ = Σ_k u_k s_k;  ∇M = Σ_k u_k (s_k s_kᵀ − I)
    ∇σ = tr(∇M)/d;  ∇B = ∇M − ∇σ I
    μ ← μ + η_δ σ B ∇δ;  σ ← σ exp(η_σ/2 · ∇σ);  B ← B exp(η_B/2 · ∇B)

with λ = 4 + ⌊3 ln d⌋, η_δ = 1 and η_σ = η_B = (9 + 3 ln d)/(5 d √d) from table 1. (Algorithm 5
prints Bᵀ in its first line and B in its last but one, which agree only if B is symmetric. This is
the form of the paper of 2010.)

Apart from a multiple of the identity, ∇M has rank λ, so its exponential needs no d × d
eigenvectors. With the s_k as the columns of S and W = diag(η_B u_k / 2),

    exp(S W Sᵀ) = I + S φ(W SᵀS) W Sᵀ,  φ(K) = Σ_{m ≥ 1} K^{m−1}/m!,

where K is λ × λ. A step costs λ d² operations instead of d³.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels
from gensmooth.batch import Batch
from gensmooth.directions.draw import Address, Draw, dense, normals
from gensmooth.searches.algorithms.nes import weigh
from gensmooth.searches.algorithms.population import (
    Displacements,
    DistributionStep,
    Population,
    are_displacements,
    displacements_of,
    make_population,
)
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import SearchState

Array = NDArray[Any]

LARGEST = 2000  # parameters: the matrix takes 32 MB, and a step half a second
_TERMS = 18  # terms of φ's series; at a norm of at most ½, the next one is below rounding errors


class Transform(NamedTuple):
    """The covariance σ² B Bᵀ of the distribution N(μ, σ² B Bᵀ), with det B = 1."""

    sigma: float
    B: Array


@final
@dataclass(frozen=True, kw_only=True)
class XNES(Population):
    """The exponential natural evolution strategy, for up to 2000 parameters.

    The other arguments are those of :class:`~gensmooth.searches.algorithms.population.Population`.
    Points outside the bounds are projected, but the distribution is updated with the points before
    projection. Dropped values are not ranked.

    Args:
        population: λ, points per step; by default 4 + ⌊3 ln d⌋.
        spacing: The first standard deviation, in units of ``x_scale``.
        mean_rate: η_δ.
        scale_rate: η_σ; by default (9 + 3 ln d)/(5 d √d).
        shape_rate: η_B; the same default.

    >>> search = XNES()
    >>> state = search.init([5.0, 5.0], seed=0)
    >>> for _ in range(150):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, _ = search.tell(state, batch, values)
    >>> state.x.round(2)
    array([1., 2.])
    """

    method: ClassVar[str] = "xnes"

    mean_rate: float = 1.0
    scale_rate: float | None = None
    shape_rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(
            self,
            mean_rate=float(checks.positive("mean_rate", self.mean_rate)),
            scale_rate=checks.optional(checks.nonnegative, "scale_rate", self.scale_rate),
            shape_rate=checks.optional(checks.nonnegative, "shape_rate", self.shape_rate),
        )

    def check_dim(self, dim: int) -> None:
        """Accept up to 2000 parameters."""
        if dim > LARGEST:
            raise ValueError(
                f"method='xnes' stores a d × d matrix and accepts up to {LARGEST:,} parameters, "
                f"but there are {dim:,}: use 'snes', which stores one deviation per parameter."
            )

    def begin(self, x: Array, units: Array, seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return σ B, a diagonal matrix with the spacing in the unit of each parameter."""
        first = self.spacing * units
        sigma = math.exp(float(np.log(first).mean()))
        shape = Transform(sigma, np.diag(first / sigma))
        s = self._normals(x.size, seed, 0)
        return self._displacements(shape, s, x.dtype), shape

    def draw(self, state: SearchState) -> Draw:
        """Return σ B s, drawn at the end of the last step."""
        return dense(displacements_of(state))

    @np.errstate(over="ignore", invalid="ignore")
    def update(
        self,
        state: SearchState,
        batch: Batch,  # noqa: ARG002
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> DistributionStep:
        """See the equations above."""
        sigma, B = checks.state_part(state.kept, Transform)
        d = state.x.size
        usual = (9 + 3 * math.log(d)) / (5 * d * math.sqrt(d))
        scale_rate = usual if self.scale_rate is None else self.scale_rate
        shape_rate = usual if self.shape_rate is None else self.shape_rate

        u = weigh(values, kept)
        s = self._normals(d, state.seed, state.step)
        gram = _product(s, s)
        to_mean = (u[:, None] * s).sum(axis=0)  # ∇δ
        to_scale = float((u * (np.diagonal(gram) - d)).sum()) / d  # ∇σ
        images = _product(s, B)  # B s_k, one row each
        x = state.x.reshape(-1) + self.mean_rate * sigma * (u[:, None] * images).sum(axis=0)

        w = 0.5 * shape_rate * u
        left = w[:, None] * _product(phi(w[:, None] * gram).T.copy(), images.T.copy())
        after = np.empty_like(B)
        rest = math.exp(-0.5 * shape_rate * (float(u.sum()) + to_scale))
        kernels.on_moments().add_products(B, rest, left, s, after)
        grown = sigma * math.exp(min(0.5 * scale_rate * to_scale, 700.0))
        shape = Transform(max(grown, 1e-150), after)
        drawn = self._displacements(
            shape, self._normals(d, state.seed, state.step + 1), state.x.dtype
        )
        finite = bool(np.isfinite(drawn.block).all() and np.isfinite(after).all())
        return DistributionStep(
            x.astype(state.x.dtype),
            drawn,
            shape,
            math.sqrt(float(np.square(to_mean).sum())),
            finite and math.isfinite(grown),
        )

    def is_valid(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Return whether these are λ finite rows."""
        return are_displacements(sent, self.number(dim), dim, dtype)

    def _normals(self, dim: int, seed: int, step: int) -> Array:
        return normals(Address(seed, step, self.number(dim), dim, np.dtype(np.float64))).block()

    def _displacements(self, shape: Transform, s: Array, dtype: np.dtype[Any]) -> Displacements:
        return Displacements((shape.sigma * _product(s, shape.B)).astype(dtype))


def phi(K: Array) -> Array:
    r"""Return :math:`\varphi(K) = \sum_{m \ge 1} K^{m-1}/m!`, for :math:`e^K = I + K\varphi(K)`.

    The Taylor series is evaluated at :math:`k = K/2^j`, and
    :math:`\varphi(2k) = \frac12\varphi(k)(e^k + I)` is applied j times.
    """
    size = float(np.abs(K).sum(axis=1).max())
    if not math.isfinite(size):
        return np.full_like(K, np.nan)
    halvings = max(0, math.ceil(math.log2(2 * size))) if size > 0 else 0
    k, one = K / 2.0**halvings, np.eye(len(K))
    total = one / math.factorial(_TERMS)
    for m in range(_TERMS - 1, 0, -1):  # Horner's scheme
        total = one / math.factorial(m) + _times(k, total)
    for _ in range(halvings):
        exponential = one + _times(k, total)
        total, k = 0.5 * _times(total, exponential + one), 2 * k
    return total


def _product(rows: Array, matrix: Array) -> Array:
    """Return ``rows @ matrix.T``, summed in a fixed order."""
    out = np.empty((len(rows), len(matrix)))
    kernels.on_moments().times_transposed(rows, matrix, out)
    return out


def _times(a: Array, b: Array) -> Array:
    return _product(a, b.T.copy())


def make(x: Array, wanted: Wanted) -> Population:
    """Create xNES; ``learning_rate`` is η_δ."""
    wanted.refuse("optimizer", why="it makes its own steps; `learning_rate` is that of its mean.")
    return make_population(partial(XNES, mean_rate=wanted.rate(1.0)), x, wanted)


ALGORITHMS["xnes"] = Algorithm(make, "xNES", "N(μ, σ²BBᵀ), by rank", "Glasmachers et al. (2010)")
