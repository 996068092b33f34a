r"""The noisy benchmark of the paper: SGD on functions with noisy values.

A noisy value is :math:`f(x) + \lambda\,h\,(f(x + n) - f(x))` with fresh n ~ N(0, I) and
h ~ N(0, 1) at every evaluation, as in Nevergrad: the noise grows with the variation of f around x
and does not vanish at the minimum. Nevergrad's functions run its own code with our random numbers,
without rotation or translation; they need ``pip install 'gensmooth[nevergrad]'``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, optimizers
from gensmooth.directions import Directions
from gensmooth.directions.draw import stream_key
from gensmooth.lab.paper import protocol
from gensmooth.lab.paper.protocol import RunResult
from gensmooth.searches import RandomSearch
from gensmooth.streams import Purpose, check_seed

__all__ = [
    "FUNCTIONS",
    "NevergradFunction",
    "NoisyFunction",
    "NoisyObjective",
    "RunResult",
    "cigar",
    "evaluation_noise",
    "hm",
    "noisy_objective",
    "rosenbrock",
    "run",
    "sphere",
    "starting_value",
]

Array = NDArray[np.float64]

# Each function takes points along the last axis, and gives one value per point.


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
    """A function with noisy values, and its oracle."""

    def __call__(self, x: Array, rng: Any) -> Any:
        """Return a noisy value at x; with points and generators stacked, one for each."""
        ...

    def oracle(self, x: Array) -> Any:
        """Return the value without noise."""
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
        if self.name not in FUNCTIONS:
            hint = checks.did_you_mean(self.name, FUNCTIONS)
            raise ValueError(
                f"There is no noisy function {self.name!r}.{hint} Known: {', '.join(FUNCTIONS)}, "
                "and nevergrad:NAME for Nevergrad's own."
            )
        checks.nonnegative("noise_level", self.noise_level)

    def __call__(self, x: Array, rng: np.random.Generator | Sequence[np.random.Generator]) -> Any:
        """See :class:`NoisyObjective`."""
        if isinstance(rng, np.random.Generator):
            side, weight = rng.standard_normal(x.shape), rng.standard_normal()
        else:
            drawn = np.empty((len(x), x.shape[-1] + 1))
            for row, generator in zip(drawn, rng, strict=True):
                generator.standard_normal(out=row)
            side, weight = drawn[:, :-1], drawn[:, -1]
        value = self.oracle(x)
        return value + self.noise_level * weight * (self.oracle(x + side) - value)

    def oracle(self, x: Array) -> Any:
        """See :class:`NoisyObjective`."""
        return FUNCTIONS[self.name](x)


def noisy_objective(name: str, *, dim: int, noise_level: float = 0.1) -> NoisyObjective:
    """Return a noisy function by its name: ours, or ``nevergrad:NAME`` for Nevergrad's own code."""
    _, colon, theirs = name.partition("nevergrad:")
    if colon:
        return NevergradFunction(theirs, dim=dim, noise_level=noise_level)
    return NoisyFunction(name, noise_level)


# --- Nevergrad's own functions ------------------------------------------------------------------

# Nevergrad's Styblinski–Tang functions add their own noise, from NumPy's global generator.
_OWN_NOISE = ("st1", "st10", "st100")


@final
class NevergradFunction:
    """An artificial function of the installed Nevergrad as ``fun(x, rng)``.

    Nevergrad draws its noise from a legacy ``RandomState``. Each call gets one that reads the bits
    of ``rng``, so a value depends only on x and the generator's address.

    Args:
        name: Nevergrad's name of the function, such as ``"rastrigin"``.
        dim: d.
        noise_level: λ.
    """

    def __init__(self, name: str, *, dim: int, noise_level: float = 0.1) -> None:
        self._noisy = _make(name, dim, noise_level)
        self._exact = _make("st0" if name in _OWN_NOISE else name, dim, 0.0)
        self._own_noise = name in _OWN_NOISE

    def __call__(self, x: Array, rng: np.random.Generator | Sequence[np.random.Generator]) -> Any:
        """Return a noisy value at x, or at each of the points of x."""
        if isinstance(rng, np.random.Generator):
            return self._call(x, rng)
        return np.array([self._call(p, g) for p, g in zip(x, rng, strict=True)])

    def oracle(self, x: Array) -> Any:
        """Return the value without noise, at x or at each of the points of x."""
        if x.ndim == 1:
            return self._exact(x)
        return np.array([self._exact(p) for p in x])

    def _call(self, x: Array, rng: np.random.Generator) -> float:
        legacy = np.random.RandomState(rng.bit_generator)
        self._noisy.parametrization.random_state = legacy
        if not self._own_noise:
            return float(self._noisy(x))
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(legacy.randint(2**32, dtype=np.uint32))  # noqa: NPY002
        try:
            return float(self._noisy(x))
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _make(name: str, dim: int, noise_level: float) -> Any:
    try:
        from nevergrad.functions import ArtificialFunction
    except ImportError as error:
        raise ImportError(
            f"The objective nevergrad:{name} needs Nevergrad: pip install 'gensmooth[nevergrad]'"
        ) from error
    known: list[str] = ArtificialFunction.list_sorted_function_names()
    if name not in known:
        hint = checks.did_you_mean(name, known)
        raise ValueError(f"Nevergrad has no function {name!r}.{hint} Known: {', '.join(known)}.")
    before = np.random.get_state()  # noqa: NPY002 (creating one draws from the global generator)
    try:
        return ArtificialFunction(
            name, block_dimension=dim, noise_level=noise_level, translation_factor=0.0
        )
    finally:
        np.random.set_state(before)  # noqa: NPY002


# --- the protocol -------------------------------------------------------------------------------


def evaluation_noise(index: int, *, seed: int, step: int, dim: int) -> Array:
    """The d + 1 normals of evaluation ``index`` of an iteration of :func:`run`: n, then h."""
    out = np.empty(dim + 1)
    _kernels().noise(stream_key(seed, Purpose.SAMPLE, step), index, out)
    return out


def starting_value(objective: str, *, dim: int, seed: int) -> float:
    """Return the objective without noise at the θ₀ of a run."""
    start = protocol.start(check_seed(seed), dim)
    return float(noisy_objective(objective, dim=dim).oracle(start))


def run(
    objective: str,
    directions: Directions,
    *,
    spacing: float,
    learning_rate: float,
    seed: int,
    num_directions: int,
    dim: int,
    num_samples: int = 1,
    rounds: int = 100,
    iterations: int = 10,
    noise_level: float = 0.1,
) -> RunResult:
    """Run the paper's protocol once: SGD on noisy values, with the oracle's value each round.

    θ₀ ~ N(0, I). Every evaluation draws its own noise (``samples="independent"``): each of the L
    directions has N noisy values at θ + cε_l and another N at θ.

    Args:
        objective: One of :data:`FUNCTIONS`, or ``nevergrad:NAME`` for any artificial function of
            the installed Nevergrad, called through its own code: the same distribution, but much
            slower.
        directions: The method.
        spacing: c.
        learning_rate: η.
        seed: The seed of everything random.
        num_directions: L.
        dim: d.
        num_samples: N.
        rounds: How many rounds.
        iterations: Iterations per round.
        noise_level: λ.

    Returns:
        One series, ``objective``: the value without noise after each round. It ends with the score.
    """
    counts = {
        "num_directions": num_directions,
        "num_samples": num_samples,
        "dim": dim,
        "rounds": rounds,
        "iterations": iterations,
    }
    protocol.check_protocol(directions, spacing=spacing, learning_rate=learning_rate, counts=counts)
    seed = check_seed(seed)
    checks.nonnegative("noise_level", noise_level)
    theta = protocol.start(seed, dim)
    if objective not in FUNCTIONS:
        fun = noisy_objective(objective, dim=dim, noise_level=noise_level)
        search = RandomSearch(
            directions,
            num_directions=num_directions,
            spacing=spacing,
            optimizer=optimizers.sgd(learning_rate),
            samples="independent",
            num_samples=num_samples,
        )
        return protocol.perform_search(
            search,
            fun,
            lambda x: {"objective": float(fun.oracle(x))},
            theta=theta,
            seed=seed,
            rounds=rounds,
            iterations=iterations,
            score="objective",
        )
    task = _Noisy(
        theta,
        kind=list(FUNCTIONS).index(objective),
        noise_level=noise_level,
        num_samples=num_samples,
        spacing=spacing,
        learning_rate=learning_rate,
        seed=seed,
    )
    return protocol.perform(
        task,
        directions,
        seed=seed,
        num_directions=num_directions,
        rounds=rounds,
        iterations=iterations,
        evaluations=2 * num_directions * num_samples,
        score="objective",
    )


@final
class _Noisy:
    """θ, the latest estimate, and the compiled iteration."""

    def __init__(
        self,
        theta: Array,
        *,
        kind: int,
        noise_level: float,
        num_samples: int,
        spacing: float,
        learning_rate: float,
        seed: int,
    ) -> None:
        dim = len(theta)
        self.theta = theta
        self.gradient = np.empty(dim)
        self._key = stream_key(seed, Purpose.SAMPLE, 0)
        self._settings = _kernels().NoisySettings(
            kind,
            noise_level,
            num_samples,
            spacing,
            learning_rate,
            protocol.largest_length2(spacing, dim),
        )
        self._state = _kernels().NoisyState(theta, self.gradient)

    def advance(self, blocks: Array, factor: float, step: int) -> bool:
        """See :meth:`gensmooth.lab.paper.protocol.Problem.advance`."""
        return _kernels().advance(blocks, factor, self._settings, self._key, step, self._state)

    def measure(self) -> dict[str, float]:
        """Return the value without noise."""
        value = np.empty(1)
        _kernels().values(self._settings.kind, self.theta.reshape(1, -1), value)
        return {"objective": float(value[0])}


@cache
def _kernels() -> Any:
    from gensmooth.lab.paper.dfo import kernels

    return kernels
