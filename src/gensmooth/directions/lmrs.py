r"""LMRS, learned manifold random search (Sener & Koltun, ICLR 2020), in its linear form.

The paper supposes that the objective depends on x through few numbers, f(x) = g(r(x)), learns r
online from all that was evaluated, and searches along its tangent space. Here r is linear,
r(x) = Ux with k orthonormal rows: follow-the-leader on the squared error of the estimates,

.. math:: U_t = \arg\min_U \sum_{s<t} \gamma^{t-s}\,\|\bar g_s - U^TU\bar g_s\|^2,
          \qquad \bar g = \hat g/\|\hat g\| ,

whose answer is the principal subspace of the estimates so far. It is kept up to date one estimate
at a time (an incremental singular value decomposition cut at rank k). Directions are
:math:`\epsilon \sim N(0, U^TU + \rho\,(I - U^TU))`: within the subspace the estimate has the
gradient as its mean, outside it ρ times that, with so much less noise. ρ > 0 is what keeps learning
possible.

The paper's r is a neural network trained as the search goes, whose tangent space changes with x.
That is not part of this package: an objective whose few directions turn from place to place is not
what this form can follow, other than by forgetting.
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
from gensmooth.directions.vectors import Room, Vectors
from gensmooth.streams import Purpose


class LearnedState(NamedTuple):
    """The principal subspace of the estimates so far."""

    basis: Vectors  # the rows of U, orthonormal, at most k
    weights: NDArray[np.float64]  # how much of the (decayed) estimates each has, largest first
    blank: NDArray[Any]  # shape (0, d)
    room: Room


@final
@dataclass(frozen=True)
class Learned(Directions):
    """Directions in a subspace learned from past estimates: LMRS with a linear map.

    Args:
        dims: k, the number of dimensions that the objective is thought to depend on; by default 10,
            or d where that is less.
        explore: ρ, the variance of the directions outside the subspace, where it is 1 inside.
        memory: After so many steps an estimate counts 1/e of a new one.

    >>> Learned().resolve(dim=4, num_directions=5).dims
    4
    """

    dims: int | None = None
    explore: float = 0.1
    memory: float = 100.0

    def __post_init__(self) -> None:
        checks.settle(
            self,
            dims=checks.optional(checks.count, "dims", self.dims),
            explore=checks.share("explore", self.explore, one=True),
            memory=checks.positive("memory", self.memory),
        )

    def resolve(self, dim: int, num_directions: int) -> "Learned":  # noqa: ARG002
        """Fill in k."""
        return replace(self, dims=self._dims(dim))

    def init(self, dim: int, dtype: np.dtype[Any]) -> LearnedState:
        """Nothing learned yet."""
        return LearnedState(Vectors(), np.empty(0), np.empty((0, dim), dtype), Room())

    def draw(self, state: State, at: Address) -> KernelDraw:
        """See :meth:`Directions.draw`; plain normals until there are k estimates."""
        assert isinstance(state, LearnedState)
        k = len(state.basis)
        if k < self._dims(at.dim):
            return normals(at)
        # ε = √ρ z + √(1−ρ) Uᵀ z',  z' ~ N(0, I_k)
        inside = at._replace(dim=k)
        mix = normals(inside, math.sqrt(1 - self.explore), purpose=Purpose.GUIDE).block()
        isotropic = normals(at, math.sqrt(self.explore)).law
        law = kernels.on_laws().GuidedLaw(*isotropic, state.basis.addresses, mix)
        room = state.room if at.num_directions <= 2 * k else None
        return KernelDraw(law, at.dim, room=room, reads=state.basis)

    def update(self, state: State, gradient: NDArray[Any]) -> LearnedState:
        """Take an estimate in: the best k dimensions of the old k and the new one.

        With rows √(γw_i) u_i and ḡ, the eigenvectors of their (k+1) × (k+1) inner products say
        which combinations of the rows are the new principal directions.
        """
        assert isinstance(state, LearnedState)
        sums, subspaces = kernels.on_sums(), kernels.on_subspaces()
        length2 = float(sums.dot(gradient, gradient))
        if not length2 > 0 or not math.isfinite(length2):
            return state
        rows = state.basis.with_newest(gradient)
        n = len(rows)
        inner = np.empty(n)
        sums.dots(rows.addresses, rows.arrays[-1], inner)
        scale = np.append(np.sqrt(self._decay * state.weights), 1 / math.sqrt(length2))
        gram = np.diag(scale**2)  # the old rows are orthonormal
        gram[-1] = gram[:, -1] = scale * scale[-1] * inner
        values, vectors = subspaces.eigen(gram)
        kept = int(np.count_nonzero(values[: self._dims(len(gradient))] > 1e-10))
        coefficients = vectors[:kept] * scale / np.sqrt(values[:kept])[:, None]
        block = np.empty((kept, len(gradient)), gradient.dtype)
        subspaces.recombine(coefficients, rows.addresses, block)
        self._straighten(block)
        return state._replace(basis=Vectors(tuple(block)), weights=values[:kept].copy())

    def pack(self, state: State) -> Arrays:
        """The subspace and its weights."""
        assert isinstance(state, LearnedState)
        basis = state.basis.block(state.blank.shape[1], state.blank.dtype)
        return {"basis": basis, "weights": state.weights}

    def unpack(
        self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]
    ) -> LearnedState:
        """See :meth:`Directions.unpack`."""
        if set(arrays) != {"basis", "weights"}:
            raise ValueError(f"LMRS has a basis and weights, but there is {sorted(arrays)}")
        basis, weights = arrays["basis"], arrays["weights"]
        k = len(weights)
        if weights.shape != (k,) or weights.dtype != np.float64 or k > self._dims(dim):
            raise ValueError(f"the weights of LMRS have shape {weights.shape}")
        if basis.shape != (k, dim) or basis.dtype != dtype:
            raise ValueError(f"the basis of LMRS has shape {basis.shape}, dtype {basis.dtype}")
        if not (np.isfinite(basis).all() and np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("the basis of LMRS is not finite, or has weights that are not above 0")
        rows = Vectors(tuple(np.array(row) for row in basis))
        return self.init(dim, dtype)._replace(basis=rows, weights=np.array(weights))

    def moments(self, dim: int, num_directions: int) -> theory.Moments:  # noqa: ARG002
        """Refuses."""
        raise NoClosedForm(
            "LMRS has no closed-form error: it depends on how much of the gradient lies in the "
            "learned subspace. It cannot be shrunk; outside the subspace it is already."
        )

    def variance(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """(k + ρ(d − k))/d, once there is a subspace."""
        k = self._dims(dim)
        return (k + self.explore * (dim - k)) / dim

    def kurtosis(self, dim: int, num_directions: int) -> float:  # noqa: ARG002
        """Refuses."""
        raise NoClosedForm("LMRS's entries are Gaussian, but not all of one variance.")

    @property
    def _decay(self) -> float:
        return math.exp(-1 / self.memory)

    @staticmethod
    def _straighten(block: NDArray[Any]) -> None:
        """Make rows that are orthonormal but for rounding so again: rounding would add up."""
        if not kernels.on_bases().gram_schmidt(block, 1.0):
            raise FloatingPointError("the learned subspace of LMRS has lost a dimension")

    def _dims(self, dim: int) -> int:
        return min(10 if self.dims is None else self.dims, dim)


register("lmrs", Learned, title="LMRS, linear", distribution="N(0, UᵀU + ρ(I−UᵀU))", place=22)
