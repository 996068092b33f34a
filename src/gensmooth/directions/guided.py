r"""Guided ES (Maheswaranathan et al., ICML 2019), as the paper sets it.

:math:`\epsilon \sim N(0, \Sigma)`, :math:`\Sigma = \frac{\alpha}{d} I + \frac{1-\alpha}{k} U U^T`,
U an orthonormal basis of the last k estimates; α = 1 until there are k of them. tr Σ = 1, and the
estimate is not rescaled, so it is about ∇F/d in size: Guided ES's learning rates are its own.
Where the k estimates are linearly dependent, U has as many columns as they have dimensions, their
rank, and the rank stands in k's place, so that tr Σ stays 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels, theory
from gensmooth.directions.base import Arrays, Directions, NoClosedForm, State, register
from gensmooth.directions.draw import Address, KernelDraw, normals
from gensmooth.streams import Purpose

_CUTOFF = 1e-8  # squared sine of the angle below which an estimate adds no dimension to U


class _Log:
    """Estimates in the order they came, append-only, so that old states stay true.

    States share a log and look at different rows of it. A state that is not the newest (someone
    went back to it) cannot append here without changing the other's future: it copies first.
    """

    __slots__ = ("filled", "rows")

    def __init__(self, capacity: int, dim: int, dtype: np.dtype[Any]) -> None:
        self.rows = np.empty((capacity, dim), dtype)
        self.filled = 0


class GuidedState(NamedTuple):
    """The last k estimates and their inner products."""

    log: _Log
    start: int
    gram: NDArray[np.float64]  # G Gᵀ, kept up to date row by row, in float64

    @property
    def history(self) -> NDArray[Any]:
        """The estimates, oldest first, shape (at most k, d)."""
        return self.log.rows[self.start : self.start + len(self.gram)]


@final
@dataclass(frozen=True)
class Guided(Directions):
    """Gaussian directions that lean towards the span of recent estimates.

    Args:
        alpha: Share of the variance that is spread over all of the space.
        history: k, how many estimates span the guiding subspace; by default 50, or 10 when d < 50.

    >>> Guided().resolve(dim=20, num_directions=5)
    Guided(alpha=0.5, history=10)
    """

    alpha: float = 0.5
    history: int | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self,
            alpha=checks.share("alpha", self.alpha, one=True),
            history=checks.optional(checks.count, "history", self.history),
        )

    def resolve(self, dim: int, num_directions: int) -> "Guided":  # noqa: ARG002
        """Fill in k."""
        if self.history is not None:
            return self
        return replace(self, history=50 if dim >= 50 else 10)

    def init(self, dim: int, dtype: np.dtype[Any]) -> GuidedState:
        """No estimates yet."""
        return GuidedState(_Log(self._capacity(dim, 0), dim, dtype), 0, np.empty((0, 0)))

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        assert isinstance(state, GuidedState)
        k = len(state.gram)
        if k < self._length(at.dim):
            return normals(at, math.sqrt(1 / at.dim))
        # ε = √(α/d) z + √((1−α)/k) U z',  z' ~ N(0, I_k),  U z' = Gᵀ (coefficients of z')
        coefficients = at._replace(dim=k, dtype=np.dtype(np.float64))
        mix = normals(coefficients, purpose=Purpose.GUIDE).block()
        rank = kernels.on_bases().guiding_coefficients(state.gram, mix, _CUTOFF)
        share = 1 - self.alpha if rank else 0.0
        isotropic = normals(at, math.sqrt((1 - share) / at.dim)).law
        mix = (math.sqrt(share / max(rank, 1)) * mix).astype(at.dtype)
        return KernelDraw(kernels.on_laws().GuidedLaw(*isotropic, state.history, mix), at.dim)

    def update(self, state: State, gradient: NDArray[Any]) -> GuidedState:
        """Append an estimate and one row of inner products; forget the oldest."""
        assert isinstance(state, GuidedState)
        k = self._length(len(gradient))
        log, start, gram = state
        if len(gram) == k:
            start, gram = start + 1, gram[1:, 1:]
        end = start + len(gram)
        if end < log.filled or end == len(log.rows):
            kept = log.rows[start:end]
            capacity = self._capacity(len(gradient), len(gram))
            log, start, end = _Log(capacity, len(gradient), gradient.dtype), 0, len(gram)
            log.rows[:end] = kept
        log.rows[end] = gradient
        log.filled = end + 1
        grown = np.empty((len(gram) + 1, len(gram) + 1))
        grown[:-1, :-1] = gram
        kernels.on_sums().dots(log.rows[start : end + 1], gradient, grown[-1])
        grown[:, -1] = grown[-1]
        return GuidedState(log, start, grown)

    def latest_gradient(self, before: State, after: State) -> NDArray[Any] | None:
        """The newest estimate, if all others of ``after`` are those of ``before``."""
        if not (isinstance(before, GuidedState) and isinstance(after, GuidedState)):
            return None
        history = after.history
        forgotten = int(len(before.gram) == self._length(history.shape[1]))
        if len(after.gram) != len(before.gram) + 1 - forgotten:
            return None
        same_log = after.log is before.log and after.start == before.start + forgotten
        if not same_log and not np.array_equal(before.history[forgotten:], history[:-1]):
            return None
        return history[-1]

    def pack(self, state: State) -> Arrays:
        """The estimates and their inner products."""
        assert isinstance(state, GuidedState)
        return {"history": state.history, "gram": state.gram}

    def unpack(
        self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> GuidedState:
        """See :meth:`Directions.unpack`."""
        if set(arrays) != {"history", "gram"}:
            raise ValueError(f"Guided ES has a history and a gram, but there is {sorted(arrays)}")
        history, gram = arrays["history"], arrays["gram"]
        k = len(gram)
        if gram.shape != (k, k) or gram.dtype != np.float64 or k > self._length(dim):
            raise ValueError(f"the gram of Guided ES has shape {gram.shape}, dtype {gram.dtype}")
        if history.shape != (k, dim) or history.dtype != dtype:
            raise ValueError(
                f"the history of Guided ES has shape {history.shape}, dtype {history.dtype}"
            )
        if not (np.isfinite(history).all() and np.isfinite(gram).all()):
            raise ValueError("the history of Guided ES is not finite")
        log = _Log(self._capacity(dim, k), dim, dtype)
        log.rows[:k] = history
        log.filled = k
        return GuidedState(log, 0, gram)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:  # noqa: ARG002
        """Refuses."""
        raise NoClosedForm(
            "Guided ES has no closed-form error: it depends on how well the past estimates "
            "point along the gradient. It cannot be shrunk; tune its learning rate instead."
        )

    def variance(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """1/d: the trace of the covariance is 1."""
        return 1 / dim

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """Refuses."""
        raise NoClosedForm("Guided ES's entries are Gaussian, but not all of one variance.")

    def _length(self, dim: int) -> int:
        length = self.resolve(dim, 1).history
        assert length is not None
        return length

    def _capacity(self, dim: int, filled: int) -> int:
        """Rows of a log that begins with so many: a long history takes memory as it grows."""
        length = self._length(dim)
        return min(length + max(1, length // 2), 2 * filled + 128)


register(
    "guided-es",
    Guided,
    title="Guided ES",
    distribution="N(0, αI/d + (1−α)UUᵀ/k)",
    in_paper=True,
    place=5,
)
