r"""Two bounds: a lower bound on the error of any estimator, and the convergence of biased SGD."""

import math

from gensmooth import checks


def information_limit(dim: int, num_directions: int) -> float:
    r"""The smallest relative MSE of any estimator that uses L directional derivatives.

    .. math:: \max\Bigl(0, 1 - \frac Ld\Bigr)

    Assumes an isotropic prior for the gradient and exact derivatives :math:`\epsilon_l^\top g`,
    l = 1, …, L; each direction may depend on the derivatives along the earlier ones. The part of g
    outside their span is as likely as its negative, so the projection onto the span is the best
    estimate, and it misses d − L of d dimensions. Exactly orthogonal directions with
    `optimal_scale` attain this limit.

    Args:
        dim: d.
        num_directions: L.

    Example:
        >>> information_limit(100, 25)
        0.75
        >>> information_limit(10, 25)
        0.0
    """
    d, L = checks.count("dim", dim), checks.count("num_directions", num_directions)
    return max(0.0, 1.0 - L / d)


def convergence_learning_rate(*, smoothness: float, steps: int) -> float:
    r"""The learning rate of Theorem `thm:convergencemse`, :math:`\eta = 1/(\mu\sqrt T)`.

    Args:
        smoothness: μ > 0, the Lipschitz constant of the gradient.
        steps: T.

    Example:
        >>> convergence_learning_rate(smoothness=2.0, steps=100)
        0.05
    """
    return 1.0 / (
        checks.positive("smoothness", smoothness) * math.sqrt(checks.count("steps", steps))
    )


def convergence_bound(
    mse: float, bias: float, *, smoothness: float, bound: float, steps: int
) -> float | None:
    r"""Bound the mean squared gradient along biased SGD (Theorem `thm:convergencemse`).

    .. math:: \frac1T \sum_t E\|\nabla F(\theta^t)\|^2
              \le \frac{M + 4\Delta\mu}{(1 - 2B)\sqrt T} \quad\text{for } B < \tfrac12 .

    Assumes that F is differentiable and μ-smooth with :math:`|F| \le \Delta`; that at every step
    the MSE of the estimate is at most M and its bias at most B times the norm of the gradient; and
    that the learning rate is `convergence_learning_rate`. The proof uses Δ only through
    :math:`F(\theta^0) - \inf F \le 2\Delta`: if you know that gap, pass half of it.

    Args:
        mse: M.
        bias: B. Its sign is ignored, so you can pass `relative_bias` directly.
        smoothness: μ > 0.
        bound: Δ ≥ 0.
        steps: T.

    Returns:
        The bound, or `None` ("not applicable") if B ≥ ½. Shrinkage has B = 1 − v*, so for i.i.d.
        entries the theorem applies to it only if L > d + k − 2.

    Example:
        >>> convergence_bound(2.0, 0.25, smoothness=1.0, bound=1.0, steps=144)
        1.0
        >>> convergence_bound(2.0, -0.5, smoothness=1.0, bound=1.0, steps=144) is None
        True
    """
    M, B = checks.nonnegative("mse", mse), abs(checks.finite("bias", bias))
    mu, delta = checks.positive("smoothness", smoothness), checks.nonnegative("bound", bound)
    T = checks.count("steps", steps)
    if B >= 0.5:
        return None
    return (M + 4.0 * delta * mu) / ((1.0 - 2.0 * B) * math.sqrt(T))
