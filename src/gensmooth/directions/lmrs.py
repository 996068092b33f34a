r"""LMRS, learned manifold random search (Sener & Koltun, ICLR 2020), in its linear form.

The paper assumes that the objective depends on x only through a few numbers, f(x) = g(r(x)). It
learns r online from all evaluations, and searches along its tangent space. Here r is linear,
r(x) = Ux with k orthonormal rows, and is learned by follow-the-leader on the squared error,

.. math:: U_t = \arg\min_U \sum_{s<t} \gamma^{t-s}\,\|\bar g_s - U^TU\bar g_s\|^2,
          \qquad \bar g = \hat g/\|\hat g\| ,

whose solution is the principal subspace of the estimates so far. It is updated with each estimate
(an incremental singular value decomposition, truncated at rank k). The directions are
:math:`\epsilon \sim N(0, U^TU + \rho\,(I - U^TU))`. Within the subspace, the mean of the estimate
is the gradient; outside, it is ρ times the gradient, with correspondingly less noise. Learning
requires ρ > 0.

In the paper, r is a neural network trained during the search, whose tangent space changes with x.
This package does not include it: if the relevant directions of an objective change with x, this
linear form can only follow by forgetting.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, kernels, theory
from gensmooth.directions.base import Arrays, Directions, NoClosedForm, State, register
from gensmooth.directions.draw import Address, KernelDraw, normals
from gensmooth.directions.vectors import BlockBuffer, Vectors
from gensmooth.streams import Purpose


class LearnedState(NamedTuple):
    """The principal subspace of the estimates so far."""

    basis: Vectors  # the rows of U, orthonormal, at most k
    weights: NDArray[np.float64]  # decayed squared size along each row, largest first
    blank: NDArray[Any]  # shape (0, d)
    buffer: BlockBuffer


@final
@dataclass(frozen=True)
class Learned(Directions):
    """Directions in a subspace learned from past estimates: LMRS with a linear map.

    Args:
        dims: k, the number of dimensions on which the objective is assumed to depend; by default
            10, or d if that is smaller.
        explore: ρ, the variance of the directions outside the subspace; inside, it is 1.
        memory: The number of steps after which the weight of an estimate has decayed to 1/e.

    >>> Learned().resolve(dim=4, num_directions=5).dims
    4
    """

    dims: int | None = None
    explore: float = 0.1
    _: KW_ONLY
    memory: float = 100.0

    def __post_init__(self) -> None:
        checks.settle(
            self,
            dims=checks.optional(checks.count, "dims", self.dims),
            explore=checks.share("explore", self.explore, one=True),
            memory=checks.positive("memory", self.memory),
        )

    def resolve(self, dim: int, num_directions: int) -> "Learned":
        """Fill in k."""
        return replace(self, dims=self._dims(dim))

    def init(self, dim: int, dtype: np.dtype[Any]) -> LearnedState:
        """Return an empty subspace."""
        return LearnedState(Vectors(), np.empty(0), np.empty((0, dim), dtype), BlockBuffer())

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`; plain normals until the subspace has k dimensions."""
        state = checks.state_part(state, LearnedState)
        k = len(state.basis)
        if k < self._dims(at.dim):
            return normals(at)
        # ε = √ρ z + √(1−ρ) Uᵀ z',  z' ~ N(0, I_k)
        inside = at._replace(dim=k)
        mix = normals(inside, math.sqrt(1 - self.explore), purpose=Purpose.GUIDE).block()
        isotropic = normals(at, math.sqrt(self.explore)).law
        law = kernels.on_laws().GuidedLaw(*isotropic, state.basis.addresses, mix)
        buffer = state.buffer if at.num_directions <= 2 * k else None
        return KernelDraw(law, at.dim, buffer=buffer, vectors=state.basis)

    def update(self, state: State, gradient: NDArray[Any]) -> LearnedState:
        """Add an estimate, and keep the k principal directions of all estimates so far.

        The old subspace and the new estimate give the rows √(γw_i) u_i and ḡ. The eigenvectors of
        their (k+1) × (k+1) inner products are the coefficients of the new principal directions.
        """
        state = checks.state_part(state, LearnedState)
        sums, subspaces = kernels.on_sums(), kernels.on_subspaces()
        length2 = float(sums.dot(gradient, gradient))
        if not length2 > 0 or not math.isfinite(length2):
            return state
        rows = state.basis.with_newest(gradient)
        n = len(rows)
        inner = np.empty(n)
        sums.dots(rows.addresses, rows.arrays[-1], inner)
        decay = math.exp(-1 / self.memory)
        scale = np.append(np.sqrt(decay * state.weights), 1 / math.sqrt(length2))
        gram = np.diag(scale**2)  # the old rows are orthonormal
        gram[-1] = gram[:, -1] = scale * scale[-1] * inner
        values, vectors = subspaces.eigen(gram)
        kept = int(np.count_nonzero(values[: self._dims(len(gradient))] > 1e-10))
        coefficients = vectors[:kept] * scale / np.sqrt(values[:kept])[:, None]
        block = np.empty((kept, len(gradient)), gradient.dtype)
        subspaces.recombine(coefficients, rows.addresses, block)
        # Orthonormalise the rows again, so that rounding errors do not accumulate.
        if not kernels.on_bases().gram_schmidt(block, 1.0):
            raise FloatingPointError("the learned subspace of LMRS has lost a dimension")
        return state._replace(basis=Vectors(tuple(block)), weights=values[:kept].copy())

    def pack(self, state: State) -> Arrays:
        """Return the subspace and its weights."""
        state = checks.state_part(state, LearnedState)
        basis = state.basis.block(state.blank.shape[1], state.blank.dtype)
        return {"basis": basis, "weights": state.weights}

    def unpack(
        self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> LearnedState:
        """See :meth:`Directions.unpack`."""
        if set(arrays) != {"basis", "weights"}:
            raise ValueError(f"LMRS needs 'basis' and 'weights', but got {sorted(arrays)}")
        basis, weights = arrays["basis"], arrays["weights"]
        k = len(weights)
        if weights.shape != (k,) or weights.dtype != np.float64 or k > self._dims(dim):
            raise ValueError(f"the weights of LMRS have shape {weights.shape}")
        if basis.shape != (k, dim) or basis.dtype != dtype:
            raise ValueError(f"the basis of LMRS has shape {basis.shape}, dtype {basis.dtype}")
        if not (np.isfinite(basis).all() and np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError(
                "the basis of LMRS must be finite and its weights positive, but they are not"
            )
        rows = Vectors(tuple(np.array(row) for row in basis))
        return self.init(dim, dtype)._replace(basis=rows, weights=np.array(weights))

    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """Raise :class:`NoClosedForm`."""
        raise NoClosedForm(
            "LMRS has no closed-form error: it depends on how much of the gradient lies in the "
            "learned subspace. It cannot be shrunk; it already shrinks outside the subspace."
        )

    def variance(self, dim: int, num_directions: int) -> float:
        """Return (k + ρ(d − k))/d, the variance once there is a subspace."""
        k = self._dims(dim)
        return (k + self.explore * (dim - k)) / dim

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """Raise :class:`NoClosedForm`."""
        raise NoClosedForm("The entries of LMRS are Gaussian, but with different variances.")

    def _dims(self, dim: int) -> int:
        return min(10 if self.dims is None else self.dims, dim)


register("lmrs", Learned, title="LMRS, linear", distribution="N(0, UᵀU + ρ(I−UᵀU))", place=22)
