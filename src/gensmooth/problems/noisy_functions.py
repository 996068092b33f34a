r"""The functions of the noisy benchmark, and the noise that Nevergrad gives them.

A noisy value is :math:`f(x) + \lambda\,h\,(f(x + n) - f(x))` with fresh n ~ N(0, I) and
h ~ N(0, 1) at every evaluation: the noise grows with f's own variation around x and does not
vanish at the minimum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


# Each function takes points along the last axis, and gives one value a point.


def sphere(x: Array) -> Any:
    r""":math:`\sum x_j^2`."""
    return (x**2).sum(axis=-1)


def rosenbrock(x: Array) -> Any:
    r""":math:`\sum_{j<d} 100(x_j^2 - x_{j+1})^2 + (x_j - 1)^2`, smallest at all ones."""
    bend = x[..., :-1] ** 2 - x[..., 1:]
    return 100.0 * sphere(bend) + sphere(x[..., :-1] - 1.0)


def cigar(x: Array) -> Any:
    r""":math:`x_1^2 + 10^6\sum_{j>1} x_j^2`."""
    return x[..., 0] ** 2 + 1e6 * sphere(x[..., 1:])


def hm(x: Array) -> Any:
    r""":math:`\sum x_j^2(1.1 + \cos(1/x_j))`, and its limit 0 for an entry that is 0."""
    away = np.where(np.abs(x) > 1e-150, x, 1e-150)
    return (x**2 * (1.1 + np.cos(1.0 / away))).sum(axis=-1)


FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "sphere": sphere,
    "rosenbrock": rosenbrock,
    "cigar": cigar,
    "hm": hm,
}


class NoisyObjective(Protocol):
    """A function that answers with noise, and its oracle."""

    def __call__(self, x: Array, rng: Any) -> Any:
        """A noisy value at x; with points and generators stacked, one for each."""
        ...

    def oracle(self, x: Array) -> Any:
        """The value without noise."""
        ...


@final
@dataclass(frozen=True)
class NoisyFunction:
    """One of :data:`FUNCTIONS` with Nevergrad's noise, for ``fun(x, rng)``.

    Args:
        name: Which function.
        noise_level: λ.

    >>> f = NoisyFunction("sphere", noise_level=0.0)
    >>> float(f(np.array([1.0, 2.0]), np.random.default_rng(0)))
    5.0
    """

    name: str
    noise_level: float = 0.1

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_noise(self.noise_level)

    def __call__(self, x: Array, rng: np.random.Generator | Sequence[np.random.Generator]) -> Any:
        """See :class:`NoisyObjective`."""
        if not isinstance(rng, np.random.Generator):
            return np.array([self(p, g) for p, g in zip(x, rng, strict=True)])
        side, weight = rng.standard_normal(x.shape), rng.standard_normal()
        value = self.oracle(x)
        return value + self.noise_level * weight * (self.oracle(x + side) - value)

    def oracle(self, x: Array) -> Any:
        """See :class:`NoisyObjective`."""
        return FUNCTIONS[self.name](x)


def noisy_objective(name: str, *, dim: int, noise_level: float = 0.1) -> NoisyObjective:
    """A noisy function by its name: ours, or ``nevergrad:NAME`` for Nevergrad's own code."""
    _, colon, theirs = name.partition("nevergrad:")
    if colon:
        from gensmooth.problems.nevergrad import NevergradFunction

        return NevergradFunction(theirs, dim=dim, noise_level=noise_level)
    return NoisyFunction(name, noise_level)


def _check_name(name: str) -> None:
    if name not in FUNCTIONS:
        near = get_close_matches(str(name), FUNCTIONS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"There is no noisy function {name!r}.{hint} Known: {', '.join(FUNCTIONS)}, and "
            "nevergrad:NAME for Nevergrad's own."
        )


def check_noise(noise_level: float) -> None:
    """Refuse a level that is not a number from zero up."""
    if not (noise_level >= 0 and math.isfinite(noise_level)):
        raise ValueError(f"`noise_level` must be zero or positive, but is {noise_level}.")
