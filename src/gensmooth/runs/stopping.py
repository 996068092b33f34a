"""The limits of a run, and the reasons to stop."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from gensmooth.describe import number

Reason = Literal[
    "budget",
    "max_steps",
    "max_seconds",
    "target",
    "tolerance",
    "converged",
    "callback",
    "interrupted",
    "terminated",
    "failed",
    "diverged",
]

MESSAGES: Mapping[str, str] = {
    "budget": "The evaluation budget is used up.",
    "max_steps": "The maximum number of steps was reached.",
    "max_seconds": "The time limit was reached.",
    "target": "The objective reached the target.",
    "tolerance": "Ten steps in a row were shorter than the tolerance.",
    "converged": "The search converged",
    "callback": "The callback requested a stop.",
    "interrupted": "Interrupted from the keyboard (Ctrl-C).",
    "terminated": "Ended by the signal SIGTERM.",
    "failed": "Ended by an error",
    "diverged": "The search diverged",
}
STOPPED = ("interrupted", "terminated", "failed")  # the same command continues such a run
PLANNED, NO_VALUE = 0, 3  # 3: the objective failed at the point to return
STATUS: Mapping[str, int] = {  # as in SciPy, 0 is a planned end, and 99 a stop by the callback
    **dict.fromkeys(("budget", "max_steps", "max_seconds"), PLANNED),
    **dict.fromkeys(("target", "tolerance", "converged"), PLANNED),
    "diverged": 1,
    "interrupted": 2,
    "terminated": 2,
    "failed": 4,
    "callback": 99,
}
SUCCESS = tuple(reason for reason, status in STATUS.items() if status == PLANNED)


class End(NamedTuple):
    """How a run ended.

    Attributes:
        reason: The name of the reason.
        why: An explanation, if needed.
        more: Additional data that the program stores with it, as plain JSON.
    """

    reason: str
    why: str = ""
    more: Mapping[str, Any] = {}

    def message(self, words: Mapping[str, str] = MESSAGES) -> str:
        """The reason as a sentence.

        >>> End("target", "950, the threshold of the environment").message()
        'The objective reached the target: 950, the threshold of the environment.'
        """
        sentence = words.get(self.reason, self.reason)
        if not self.why:
            return sentence
        return f"{sentence.removesuffix('.')}: {self.why.removesuffix('.')}."


class Limits(NamedTuple):
    """When a run stops; see :func:`gensmooth.minimize`.

    Attributes:
        budget: The maximum number of evaluations; ``None`` if it is unknown.
        max_steps: The maximum number of steps.
        target: Stop when a value reaches this target.
        tolerance: Stop when ten consecutive steps are shorter than this times 1 + ‖x‖.
    """

    budget: int | None = None
    max_steps: int | None = None
    target: float | None = None
    tolerance: float | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Limits":
        """Read and check limits from JSON."""
        budget, max_steps, target, tolerance = (stored[name] for name in cls._fields)
        if not {type(budget), type(max_steps)} <= {int, type(None)}:
            raise TypeError("`budget` or `max_steps` is not a whole number")
        return cls(
            budget,
            max_steps,
            None if target is None else number(target),
            None if tolerance is None else number(tolerance),
        )


def reached(value: float, target: float, maximize: bool) -> bool:
    """Whether a value is at least as good as a target."""
    return value >= target if maximize else value <= target
