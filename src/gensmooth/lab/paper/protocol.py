"""The protocol of the paper's studies: rounds of SGD iterations, with a test after each round.

It is a second engine beside :class:`gensmooth.RandomSearch`: linear regression and the noisy
benchmark make a block of iterations in one compiled call (:func:`perform`), so that a study of
thousands of runs takes minutes. A test checks that it takes the same steps, up to rounding.
:func:`perform_search` is the same protocol on ``RandomSearch`` itself, for any function.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.directions import Address, Directions, check_directions
from gensmooth.searches import RandomSearch
from gensmooth.streams import Purpose

FLOAT: np.dtype[Any] = np.dtype(np.float64)
Array = NDArray[np.float64]
Series = dict[str, Array]

_ROOM = 131_072  # numbers that fit into the second-level cache


class RunResult(NamedTuple):
    """The measurements of a run, one entry for each completed round.

    Attributes:
        rounds: The rounds' numbers, 1, 2, …
        evaluations: Evaluations of the objective until the end of each round.
        series: The measurements by name, all finite.
        diverged: Whether the run ended early because the parameters, an estimate or a value was
            not finite or too large. The round in which this happened is not recorded.
        final: The score of the run: the last test value, +∞ for a run that diverged.
    """

    rounds: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    series: Series
    diverged: bool
    final: float


class Problem(Protocol):
    """The interface of a problem: it holds θ and the latest estimate, and makes steps."""

    theta: Array
    gradient: Array

    def advance(self, blocks: Array, factor: float, step: int) -> bool:
        """Make iterations, from number ``step`` on; False if one of them diverged.

        Each estimates the gradient along one block of directions, times ``factor``, and steps.
        """
        ...

    def measure(self) -> dict[str, float]:
        """Return the measurements to record at the end of a round."""
        ...


def perform(
    problem: Problem,
    directions: Directions,
    *,
    seed: int,
    num_directions: int,
    rounds: int,
    iterations: int,
    evaluations: int,
    score: str,
) -> RunResult:
    """Run the protocol.

    Args:
        problem: The problem.
        directions: The method.
        seed: The seed of the directions (and, in the problem, of everything else).
        num_directions: L.
        rounds: How many rounds.
        iterations: Iterations per round.
        evaluations: Evaluations per iteration.
        score: Which of the measured series is the test value.
    """
    dim = len(problem.theta)
    family = directions.resolve(dim, num_directions)
    state = family.init(dim, FLOAT)

    together = 1
    if family.same_law_each_step:
        together = max(1, min(iterations, _ROOM // (num_directions * dim)))
    room = np.empty((together, num_directions, dim))
    records: list[dict[str, float]] = []
    diverged = False
    for first in range(0, rounds * iterations, iterations):
        for step in range(first, first + iterations, together):
            blocks = room[: first + iterations - step]
            draw = family.draw(state, Address(seed, step, num_directions, dim, FLOAT))
            if together > 1:
                _fill(blocks, draw, step)
            else:
                blocks[0] = draw.block()
            diverged = not problem.advance(blocks, draw.factor, step)
            if diverged:
                break
            state = family.update(state, problem.gradient)
        measured = {} if diverged else problem.measure()
        diverged = diverged or not all(math.isfinite(value) for value in measured.values())
        if diverged:
            break
        records.append(measured)
    return _result(records, diverged, iterations * evaluations, score)


def perform_search(
    search: RandomSearch,
    fun: Callable[[Array, np.random.Generator], float],
    measure: Callable[[Array], dict[str, float]],
    *,
    theta: Array,
    seed: int,
    rounds: int,
    iterations: int,
    score: str,
) -> RunResult:
    """Run the same protocol on any function fun(x, rng), one call per value.

    Args:
        search: The search.
        fun: The noisy function.
        measure: Returns the measurements at the parameters at the end of a round.
        theta: The start.
        seed: The seed of the directions and of the function's noise.
        rounds: How many rounds.
        iterations: Iterations per round.
        score: Which of the measured series is the test value.
    """
    state = search.init(theta, seed=seed)
    records: list[dict[str, float]] = []
    diverged = False
    for _ in range(rounds):
        for _ in range(iterations):
            batch = search.ask(state)
            values = np.array([fun(x, batch.rng(i)) for i, x in enumerate(batch.points())])
            diverged = not np.isfinite(values).all()
            if diverged:
                break
            state, info = search.tell(state, batch, values)
            diverged = info.diverged is not None
            if diverged:
                break
        measured = {} if diverged else measure(state.x)
        diverged = diverged or not all(math.isfinite(value) for value in measured.values())
        if diverged:
            break
        records.append(measured)
    return _result(records, diverged, iterations * len(search.plan), score)


def _result(
    records: list[dict[str, float]], diverged: bool, evaluations: int, score: str
) -> RunResult:
    count = np.arange(1, len(records) + 1)
    names = records[0] if records else ()
    series = {name: np.array([record[name] for record in records]) for name in names}
    final = math.inf if diverged else float(series[score][-1])
    return RunResult(count, count * evaluations, series, diverged, final)


def largest_length2(spacing: float, dim: int) -> float:
    """‖θ‖² above which θ + cε = θ: a run that gets there has diverged.

    The same rule ends a :class:`gensmooth.RandomSearch`.
    """
    return dim * (2.0 * spacing / float(np.finfo(np.float64).eps)) ** 2


def start(seed: int, dim: int) -> Array:
    """θ₀ ~ N(0, I), the same for every method."""
    return streams.generator(seed, Purpose.START).standard_normal(dim)


def check_protocol(
    directions: Directions, *, spacing: float, learning_rate: float, counts: dict[str, int]
) -> None:
    """Raise an error for invalid arguments."""
    check_directions(directions)
    checks.positive("spacing", spacing)
    checks.positive("learning_rate", learning_rate)
    for name, count in counts.items():
        checks.count(name, count)


def _fill(blocks: Array, draw: Any, step: int) -> None:
    """Put the directions of ``step`` and the steps after it, of one law, into ``blocks``."""
    from gensmooth.lab.paper import sampling

    cast(Any, sampling).fill_blocks(draw.law, step, blocks)
