r"""The paper's four methods in one screen of plain NumPy, for reading.

Gao and Sener, *Generalizing Gaussian Smoothing for Random Search* (ICML 2022); labels such as
``eq:fdempirical`` are the paper's. Nothing else in the package uses this file. With the same random
numbers, :class:`gensmooth.RandomSearch` makes bit-identical steps
(``tests/searches/test_pure.py``).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> theta = search(
...     lambda theta: float(((theta - 1) ** 2).sum()), np.zeros(5), method="bes-shrinkage",
...     z=lambda t: rng.choice([-1.0, 1.0], (4, 5)), c=0.1, eta=0.5, steps=100, antithetic=True,
... )
>>> theta.round(3)
array([1., 1., 1., 1., 1.])
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def directions(method: str, z: Array) -> Array:
    r"""Return the directions ε_1, …, ε_L of a step, as rows (``tab:algorithms``).

    Args:
        method: ``"gs"``, ``"bes"``, ``"gs-shrinkage"`` or ``"bes-shrinkage"``.
        z: L × d independent numbers: standard normal for GS, fair signs ±1 for BeS. A sign is
            :math:`(B_p - p)/m` at p = m = ½.
    """
    L, d = z.shape
    if not method.endswith("-shrinkage"):
        return z  # ε_lj ~ N(0, 1), or ±1
    k = {"gs": 3, "bes": 1}[method.removesuffix("-shrinkage")]  # kurtosis of an entry
    v = 1 / (1 + (d + k - 2) / L)  # = L / (L + d + k − 2): thm:gsshrinkage, thm:bsshrinkage
    return np.sqrt(v) * z  # ε_lj ~ N(0, v), or ±√v = ±1/(2m*) with m* = √((L + d − 1) / 4L)


def gradient(
    f: Callable[[Array], float], theta: Array, eps: Array, *, c: float, antithetic: bool
) -> Array:
    r"""Return the estimate :math:`\frac1{cL}\sum_l\delta_l\epsilon_l` of ∇F(θ).

    Args:
        f: The objective, or its mean over the N samples of a step.
        theta: θ.
        eps: The directions.
        c: The spacing.
        antithetic: Whether to use central differences (``eq:atempirical``) instead of forward
            differences (``eq:fdempirical``).
    """
    if antithetic:
        delta = [(f(theta + c * e) - f(theta - c * e)) / 2 for e in eps]
    else:
        center = f(theta)
        delta = [f(theta + c * e) - center for e in eps]
    total = np.zeros_like(theta)
    for delta_l, e in zip(delta, eps, strict=True):
        total = total + (1 / c / len(eps) * delta_l) * e
    return total


def search(
    f: Callable[[Array], float],
    theta: Array,
    *,
    method: str,
    z: Callable[[int], Array],
    c: float,
    eta: float,
    steps: int,
    antithetic: bool = False,
) -> Array:
    """Run gradient descent on the estimates and return the last θ.

    Args:
        f: The objective.
        theta: The start.
        method: One of the four methods; see :func:`directions`.
        z: Maps a step t to its random numbers; see :func:`directions`.
        c: The spacing.
        eta: η, the learning rate.
        steps: The number of steps.
        antithetic: See :func:`gradient`.
    """
    for t in range(steps):
        eps = directions(method, z(t))
        theta = theta - eta * gradient(f, theta, eps, c=c, antithetic=antithetic)
    return theta
