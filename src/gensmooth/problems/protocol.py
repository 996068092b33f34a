"""The protocol of the paper's studies: rounds of SGD iterations, each round closed by a test."""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.directions import Directions, Draw, check_directions
from gensmooth.directions.draw import KernelDraw, dense
from gensmooth.streams import Purpose

FLOAT: np.dtype[Any] = np.dtype(np.float64)
Array = NDArray[np.float64]
Series = dict[str, Array]


class RunResult(NamedTuple):
    """What a run recorded; one entry for each round that was completed.

    Attributes:
        rounds: The rounds' numbers, 1, 2, …
        evaluations: Evaluations of the objective until the end of each round.
        series: What was measured, by name. Always finite.
        diverged: Whether the run ended early because the parameters, an estimate or a value left
            what can be computed with. The round it happened in is not recorded.
        final: What a study compares runs by: the last test value, +∞ for a run that diverged.
    """

    rounds: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    series: Series
    diverged: bool
    final: float


class Task(Protocol):
    """A problem as the protocol sees it: it holds θ and the latest estimate, and steps."""

    theta: Array
    gradient: Array

    def step(self, draw: KernelDraw, step: int) -> bool:
        """Estimate the gradient along the drawn directions and step; False if that diverged."""
        ...

    def measure(self) -> dict[str, float]:
        """What to record of the round that ends here."""
        ...


def perform(
    task: Task,
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
        task: The problem.
        directions: The method.
        seed: The seed of the directions (and, in the task, of everything else).
        num_directions: L.
        rounds: How many rounds.
        iterations: Iterations a round.
        evaluations: Evaluations an iteration.
        score: Which of the measured series is the test value.
    """
    dim = len(task.theta)
    family = directions.resolve(dim, num_directions)
    state = family.init(dim, FLOAT)
    records: list[dict[str, float]] = []
    diverged = False
    for number in range(rounds):
        for step in range(number * iterations, (number + 1) * iterations):
            draw = family.draw(
                state, seed=seed, step=step, num_directions=num_directions, dim=dim, dtype=FLOAT
            )
            if not task.step(_compiled(draw), step):
                diverged = True
                break
            state = family.update(state, task.gradient)
        measured = {} if diverged else task.measure()
        if diverged or not all(math.isfinite(value) for value in measured.values()):
            diverged = True
            break
        records.append(measured)
    count = np.arange(1, len(records) + 1)
    names = records[0] if records else ()
    series = {name: np.array([record[name] for record in records]) for name in names}
    final = math.inf if diverged else float(series[score][-1])
    return RunResult(count, count * (iterations * evaluations), series, diverged, final)


def out_of_range(length2: float, dim: int, spacing: float) -> bool:
    """Whether θ of squared length ``length2`` is not finite, or so far out that θ + cε = θ.

    The same rule ends a :class:`gensmooth.RandomSearch`.
    """
    if not math.isfinite(length2):
        return True
    return spacing < 0.5 * float(np.finfo(np.float64).eps) * math.sqrt(length2 / dim)


def start(seed: int, dim: int) -> Array:
    """θ₀ ~ N(0, I), the same for every method."""
    return streams.generator(seed, Purpose.START).standard_normal(dim)


def check_protocol(
    directions: Directions,
    *,
    spacing: float,
    learning_rate: float,
    counts: dict[str, int],
) -> None:
    """Refuse arguments that no run could use, in plain words."""
    check_directions(directions)
    for name, value in (("spacing", spacing), ("learning_rate", learning_rate)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"`{name}` must be positive, but is {value}.")
    for name, count in counts.items():
        check_count(name, count)


def check_count(name: str, value: object) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, but is {value!r}.")


def _compiled(draw: Draw) -> KernelDraw:
    """The draw with a law that kernels understand; others are laid out in memory."""
    if isinstance(draw, KernelDraw):
        return draw
    return dense(draw.block(), draw.dim).rescaled(factor=draw.factor)
