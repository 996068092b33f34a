r"""Guided ES (Maheswaranathan et al., ICML 2019), with the paper's settings.

:math:`\epsilon \sim N(0, \Sigma)`, :math:`\Sigma = \frac{\alpha}{d} I + \frac{1-\alpha}{k} U U^T`,
where U is an orthonormal basis of the last k estimates; α = 1 until there are k of them. tr Σ = 1,
and the estimate is not rescaled, so its size is about ∇F/d and Guided ES needs its own learning
rates. If the k estimates are linearly dependent, U has as many columns as their rank, and the rank
replaces k, so that tr Σ stays 1.
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
from gensmooth.directions.vectors import BlockBuffer, Vectors
from gensmooth.streams import Purpose

_CUTOFF = 1e-8  # the squared sine of the angle below which an estimate adds no dimension to U


class GuidedState(NamedTuple):
    """The last k estimates and their inner products."""

    estimates: Vectors  # G, oldest first
    gram: NDArray[np.float64]  # G Gᵀ, updated one row at a time
    blank: NDArray[Any]  # shape (0, d): the history before the first estimate
    buffer: BlockBuffer  # memory for the directions

    @property
    def history(self) -> NDArray[Any]:
        """The estimates as one block, oldest first, shape (at most k, d)."""
        return self.estimates.block(self.blank.shape[1], self.blank.dtype)


@final
@dataclass(frozen=True)
class Guided(Directions):
    """Gaussian directions with extra variance in the span of recent estimates.

    Args:
        alpha: The share of the variance that is spread over the whole space.
        history: k, the number of estimates that span the guiding subspace; by default 50, or 10 if
            d < 50.

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

    def resolve(self, dim: int, num_directions: int) -> "Guided":
        """Fill in k."""
        if self.history is not None:
            return self
        return replace(self, history=50 if dim >= 50 else 10)

    def init(self, dim: int, dtype: np.dtype[Any]) -> GuidedState:
        """Return a state without estimates."""
        return GuidedState(Vectors(), np.empty((0, 0)), np.empty((0, dim), dtype), BlockBuffer())

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`."""
        state = checks.state_part(state, GuidedState)
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
        law = kernels.on_laws().GuidedLaw(*isotropic, state.estimates.addresses, mix)
        # Every direction reads the whole history. Generate them once, unless they are too many.
        buffer = state.buffer if at.num_directions <= 2 * k else None
        return KernelDraw(law, at.dim, buffer=buffer, vectors=state.estimates)

    def update(self, state: State, gradient: NDArray[Any]) -> GuidedState:
        """Append an estimate and its inner products; drop the oldest if there are k."""
        state = checks.state_part(state, GuidedState)
        forget = int(len(state.gram) == self._length(len(gradient)))
        estimates = state.estimates.with_newest(gradient, forget=forget)
        n = len(estimates)
        gram = np.empty((n, n))
        gram[:-1, :-1] = state.gram[forget:, forget:]
        kernels.on_sums().dots(estimates.addresses, estimates.arrays[-1], gram[-1])
        gram[:, -1] = gram[-1]
        return state._replace(estimates=estimates, gram=gram)

    def latest_gradient(self, before: State, after: State) -> NDArray[Any] | None:
        """Return the newest estimate if all others in ``after`` are also in ``before``."""
        if not (isinstance(before, GuidedState) and isinstance(after, GuidedState)):
            return None
        if not len(after.gram):
            return None
        *others, newest = after.estimates.arrays
        forget = int(len(before.gram) == self._length(len(newest)))
        kept = before.estimates.arrays[forget:]
        if len(kept) != len(others):
            return None
        pairs = zip(kept, others, strict=True)
        return newest if all(a is b or np.array_equal(a, b) for a, b in pairs) else None

    def pack(self, state: State) -> Arrays:
        """Return the estimates and their inner products."""
        state = checks.state_part(state, GuidedState)
        return {"history": state.history, "gram": state.gram}

    def unpack(
        self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> GuidedState:
        """See :meth:`Directions.unpack`."""
        if set(arrays) != {"history", "gram"}:
            raise ValueError(f"Guided ES needs 'history' and 'gram', but got {sorted(arrays)}")
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
        estimates = Vectors(tuple(np.array(row) for row in history))
        return self.init(dim, dtype)._replace(estimates=estimates, gram=gram)

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """Raise :class:`NoClosedForm`."""
        raise NoClosedForm(
            "Guided ES has no closed-form error: it depends on how well the past estimates "
            "point along the gradient. It cannot be shrunk; tune its learning rate instead."
        )

    def variance(self, dim: int, num_directions: int) -> float:
        """Return 1/d, because the trace of the covariance is 1."""
        return 1 / dim

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Raise :class:`NoClosedForm`."""
        raise NoClosedForm("The entries of Guided ES are Gaussian, but with different variances.")

    def _length(self, dim: int) -> int:
        length = self.resolve(dim, 1).history
        assert length is not None
        return length


register(
    "guided-es",
    Guided,
    title="Guided ES",
    distribution="N(0, αI/d + (1−α)UUᵀ/k)",
    in_paper=True,
    place=5,
)
