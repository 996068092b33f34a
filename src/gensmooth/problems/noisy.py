"""The noisy benchmark of the paper: SGD on functions that answer with noise."""

from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.directions import Directions
from gensmooth.directions.draw import stream_key
from gensmooth.problems import protocol
from gensmooth.problems.noisy_functions import (
    FUNCTIONS,
    NoisyFunction,
    NoisyObjective,
    check_noise,
    cigar,
    hm,
    noisy_objective,
    rosenbrock,
    sphere,
)
from gensmooth.problems.protocol import RunResult
from gensmooth.search import RandomSearch
from gensmooth.streams import Purpose, check_seed

__all__ = [
    "FUNCTIONS",
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


def evaluation_noise(index: int, *, seed: int, step: int, dim: int) -> Array:
    """The d + 1 normals behind evaluation ``index`` of an iteration of :func:`run`: n, then h."""
    out = np.empty(dim + 1)
    _kernels().noise(stream_key(seed, Purpose.SAMPLE, step), index, out)
    return out


def starting_value(objective: str, *, dim: int, seed: int) -> float:
    """The objective without noise at the θ₀ of a run."""
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
    """One run of the paper's protocol: SGD on noisy values, the oracle's value each round.

    θ₀ ~ N(0, I). Every evaluation draws its own noise (``samples="independent"``): each of the L
    directions has N noisy values at θ + cε_l and N of its own at θ.

    Args:
        objective: One of :data:`FUNCTIONS`, or ``nevergrad:NAME`` for any artificial function of
            the installed Nevergrad, called through its own code: the same law, much slower.
        directions: The method.
        spacing: c.
        learning_rate: η.
        seed: The seed of everything random.
        num_directions: L.
        dim: d.
        num_samples: N.
        rounds: How many rounds.
        iterations: Iterations a round.
        noise_level: λ.

    Returns:
        Series: ``objective``, its value without noise after each round, which is the score too.
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
    check_noise(noise_level)
    theta = protocol.start(seed, dim)
    if objective not in FUNCTIONS:
        fun = noisy_objective(objective, dim=dim, noise_level=noise_level)
        search = RandomSearch(
            directions,
            num_directions,
            spacing,
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
        self._settings = _kernels().Settings(
            kind,
            noise_level,
            num_samples,
            spacing,
            learning_rate,
            protocol.largest_length2(spacing, dim),
        )
        self._state = _kernels().State(theta, self.gradient)

    def advance(self, blocks: Array, factor: float, step: int) -> bool:
        """See :meth:`gensmooth.problems.protocol.Task.advance`."""
        return _kernels().advance(blocks, factor, self._settings, self._key, step, self._state)

    def measure(self) -> dict[str, float]:
        """The value without noise."""
        value = np.empty(1)
        _kernels().values(self._settings.kind, self.theta.reshape(1, -1), value)
        return {"objective": float(value[0])}


@cache
def _kernels() -> Any:
    """The compiled kernels, imported when first used."""
    from gensmooth.problems import noisy_kernels

    return noisy_kernels
