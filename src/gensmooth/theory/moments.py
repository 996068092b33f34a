r"""The three moments of the directions that determine the error of a gradient estimate.

As the spacing goes to zero, a finite-difference estimate with directions
:math:`\epsilon_1, \dots, \epsilon_L` is :math:`A g`, where :math:`g` is the gradient and

.. math:: A = \frac1L \sum_l \epsilon_l \epsilon_l^\top .

For every family in this package, the moments of :math:`A` are multiples of the identity. The bias,
the MSE, the optimal shrinkage and the effect of noise depend only on those multiples, so every
formula of `gensmooth.theory` takes a `Moments`. Different directions are uncorrelated,
:math:`E[\epsilon_l\epsilon_m^\top] = 0`, which the one-point estimator requires.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gensmooth import checks


class Moments(NamedTuple):
    r"""Summary of a family of directions; see `gensmooth.theory.families` for the builders.

    Attributes:
        mean: :math:`a` in :math:`E[A] = a I`.
        second: :math:`b` in :math:`E[A^2] = b I`, so that :math:`E\|A g\|^2 = b\|g\|^2`.
        fourth: The fourth moment of single directions, :math:`s` in
            :math:`\frac1L \sum_l E[\epsilon_l\|\epsilon_l\|^2\epsilon_l^\top] = s I`.
        dim: :math:`d`.
        num_directions: :math:`L`.

    Example:
        >>> Moments(mean=1.0, second=6.05, fourth=102.0, dim=100, num_directions=20)
        Moments(mean=1.0, second=6.05, fourth=102.0, dim=100, num_directions=20)
    """

    mean: float
    second: float
    fourth: float
    dim: int
    num_directions: int

    @property
    def average_norm2(self) -> float:
        r"""The mean squared norm of their mean, :math:`E\|\frac1L\sum_l\epsilon_l\|^2 = d a/L`."""
        return self.dim * self.mean / self.num_directions

    def scaled(self, factor: float) -> "Moments":
        r"""Return the moments of :math:`\sqrt v\,\epsilon_l`, with :math:`v` = `factor`.

        Args:
            factor: :math:`v \ge 0`, the factor of the variance (not of the length).

        Example:
            >>> Moments(1.0, 6.0, 100.0, dim=100, num_directions=20).scaled(0.5)
            Moments(mean=0.5, second=1.5, fourth=25.0, dim=100, num_directions=20)
        """
        v = checks.moderate("factor", checks.nonnegative("factor", factor))
        return self._replace(
            mean=v * self.mean, second=v**2 * self.second, fourth=v**2 * self.fourth
        )


def combine(groups: Iterable[Moments]) -> Moments:
    r"""Return the moments of the union of independent, sign-symmetric groups of directions.

    With group sizes :math:`n_g`, :math:`L = \sum_g n_g` and :math:`A = \sum_g (n_g/L) A_g`,

    .. math:: b = \sum_g \Bigl(\frac{n_g}{L}\Bigr)^2 b_g
              + \sum_{g \ne h} \frac{n_g n_h}{L^2} a_g a_h .

    Args:
        groups: The moments of each group, all of the same dimension.

    Raises:
        TypeError: If `groups` contains anything other than `Moments`.
        ValueError: If there is no group, or if the dimensions differ.

    Example:
        Two independent directions of length √3 in three dimensions:

        >>> one = Moments(1.0, 3.0, 3.0, dim=3, num_directions=1)
        >>> combine([one, one]).second
        2.0
    """
    try:
        members: list[object] = list(groups)
    except Exception:  # a user's object may raise anything
        raise TypeError(
            f"`groups` must be a list of Moments, but is {checks.shown(groups)}."
        ) from None
    parts = [part for part in members if isinstance(part, Moments)]
    if len(parts) < len(members):
        raise TypeError(f"`groups` must be a list of Moments, but is {checks.shown(groups)}.")
    if not parts:
        raise ValueError(
            f"`groups` must contain at least one group, but is {checks.shown(groups)}."
        )
    dims = sorted({part.dim for part in parts})
    if len(dims) > 1:
        raise ValueError(f"`groups` must all have the same dimension, but have {dims}.")
    L = sum(part.num_directions for part in parts)
    weighted = [(part.num_directions / L, part) for part in parts]
    mean = sum(w * part.mean for w, part in weighted)
    # Σ_{g≠h} w_g w_h a_g a_h = (Σ w_g a_g)² − Σ (w_g a_g)²
    return Moments(
        mean=mean,
        second=mean**2 + sum(w**2 * (part.second - part.mean**2) for w, part in weighted),
        fourth=sum(w * part.fourth for w, part in weighted),
        dim=dims[0],
        num_directions=L,
    )


def relative_bias(moments: Moments) -> float:
    r"""The bias of the estimate relative to the gradient, :math:`a - 1` (Lemma `thm:fdempmse`).

    The bias is :math:`E[\hat g] - g = (a - 1) g`; :math:`a = \sigma^2` for i.i.d. entries.
    Assumes: spacing → 0 under the Lemma's regularity condition. Holds for every sample mode.

    Example:
        >>> relative_bias(Moments(0.25, 0.25, 2.0, dim=100, num_directions=20))
        -0.75
    """
    return moments.mean - 1.0


def relative_mse(moments: Moments) -> float:
    r"""The noise-free MSE relative to :math:`\|\nabla F\|^2`, :math:`1 - 2a + b` (eq. `msepart1`).

    It is :math:`E\|Ag - g\|^2/\|g\|^2`, and for i.i.d. entries
    :math:`(\sigma^2-1)^2 + \sigma^4(d+k-2)/L`.
    Assumes: spacing → 0 under the Lemma's regularity condition. Holds for every sample mode.

    Example:
        >>> relative_mse(Moments(1.0, 6.05, 102.0, dim=100, num_directions=20))
        5.05
    """
    # squared bias plus variance, (1−a)² + (b−a²), so that rounding cannot make it negative
    return (1.0 - moments.mean) ** 2 + (moments.second - moments.mean**2)


def optimal_scale(moments: Moments) -> float:
    r"""The shrinkage factor :math:`v^* = a/b` that minimises `relative_mse`.

    Scaling the directions by :math:`\sqrt v`, or the estimate by :math:`v`, turns `relative_mse`
    into :math:`1 - 2va + v^2b`, whose minimum :math:`1 - a^2/b` is at :math:`v = a/b`. For
    Gaussian entries this is Theorem `thm:gsshrinkage`, for fair Bernoulli entries Theorem
    `thm:bsshrinkage`. The assumptions are those of `relative_mse`; gradient noise is ignored
    (`optimal_scale_whole` includes it).

    Raises:
        ValueError: If `moments.second` is not positive.

    Example:
        GS-shrinkage at d = 99, L = 20 has σ² = L / (L + d + 1) = 1/6:

        >>> optimal_scale(Moments(1.0, 6.0, 101.0, dim=99, num_directions=20)) * 6
        1.0
    """
    return moments.mean / checks.positive("moments.second", moments.second)
