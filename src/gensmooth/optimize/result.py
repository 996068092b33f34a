"""What a run found, and the reasons a run ends for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gensmooth.checkpoint import Record
from gensmooth.search import SearchState

Array = NDArray[Any]
Reason = Literal[
    "budget", "max_steps", "target", "tolerance", "callback", "interrupted", "diverged"
]

MESSAGES: dict[Reason, str] = {
    "budget": "The next step does not fit the budget of evaluations.",
    "max_steps": "The largest number of steps was made.",
    "target": "The objective reached the target.",
    "tolerance": "Ten steps in a row were shorter than the tolerance.",
    "callback": "The callback asked to stop.",
    "interrupted": "Interrupted from the keyboard.",
    "diverged": "The search diverged",
}
SUCCESS: tuple[Reason, ...] = ("budget", "max_steps", "target", "tolerance")


class History(NamedTuple):
    """One entry a step.

    Attributes:
        evaluations: Evaluations so far.
        value: The objective as each step saw it.
        gradient_norm: ‖estimate‖.
        standard_error: NaN where there is none.
        step_size: ‖change of x‖.
        faults: Events of each kind, such as ``{"timeout": 1}``; mostly empty.
    """

    evaluations: NDArray[np.int64]
    value: NDArray[np.float64]
    gradient_norm: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    step_size: NDArray[np.float64]
    faults: Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Result:
    """What a run found; SciPy's names where SciPy has one.

    Attributes:
        x: The last iterate: the recommended point when values are noisy, because the best of
            many noisy values is mostly luck.
        fun: The objective there, evaluated once more at the end (N samples if sampled).
        best_x: The point of the best single value seen: the recommended point of an
            objective without noise.
        best_fun: That value; under noise it is too good to be true.
        nfev: Evaluations made.
        nit: Steps made.
        success: Whether the run ended as planned (budget, steps, target or tolerance).
        status: The reason it ended.
        message: The reason in words.
        dropped: Directions left out because a value was not finite.
        faults: What went wrong on the way, by kind (``exception``, ``non-finite``, ``timeout``,
            ``died``), whether it was retried, dropped or the end.
        seed: The seed, drawn for you if you gave none: with it the run repeats exactly.
        history: One entry a step.
        state: The state after the last step: :meth:`RandomSearch.ask` goes on from it.
    """

    x: Array
    fun: float
    best_x: Array
    best_fun: float
    nfev: int
    nit: int
    success: bool
    status: Reason
    message: str
    dropped: int
    faults: Mapping[str, int]
    seed: int
    history: History = field(repr=False)
    state: SearchState = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        """``res["x"]``, as SciPy's result allows."""
        return getattr(self, name)


def history(records: Sequence[Record]) -> History:
    """The history of some steps."""
    infos = [record.info for record in records]
    return History(
        np.array([info.evaluations for info in infos], np.int64),
        np.array([info.value for info in infos], np.float64),
        np.array([info.gradient_norm for info in infos], np.float64),
        np.array([info.standard_error for info in infos], np.float64),
        np.array([info.step_size for info in infos], np.float64),
        tuple(record.faults for record in records),
    )
