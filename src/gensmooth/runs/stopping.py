"""Why a run stops: its limits, and the reasons by name."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from gensmooth.describe import number

Reason = Literal[
    "budget",
    "max_steps",
    "iterations",
    "target",
    "tolerance",
    "callback",
    "interrupted",
    "diverged",
]

MESSAGES: Mapping[str, str] = {
    "budget": "The next step does not fit the budget of evaluations.",
    "max_steps": "The largest number of steps was made.",
    "iterations": "All iterations were made.",
    "target": "The objective reached the target.",
    "tolerance": "Ten steps in a row were shorter than the tolerance.",
    "callback": "The callback asked to stop.",
    "interrupted": "Interrupted from the keyboard.",
    "diverged": "The search diverged",
}
SUCCESS = ("budget", "max_steps", "iterations", "target", "tolerance")


class End(NamedTuple):
    """How a run ended.

    Attributes:
        reason: The reason by name.
        why: Words on it, if it needs any.
        more: What else its program wants to remember of it, as plain JSON.
    """

    reason: str
    why: str = ""
    more: Mapping[str, Any] = {}

    def message(self, words: Mapping[str, str] = MESSAGES) -> str:
        """The reason in words.

        >>> End("target", "950, for which there is a name").message()
        'The objective reached the target: 950, for which there is a name.'
        """
        said = words.get(self.reason, self.reason)
        return f"{said.removesuffix('.')}: {self.why}." if self.why else said


class Limits(NamedTuple):
    """When a run stops; see :func:`gensmooth.minimize`.

    Attributes:
        budget: Evaluations to spend at most.
        max_steps: Steps to make at most.
        target: Stop when a value reaches this.
        tolerance: Stop when ten steps in a row are shorter than this times 1 + ‖x‖.
    """

    budget: int | None = None
    max_steps: int | None = None
    target: float | None = None
    tolerance: float | None = None

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Limits":
        """Limits from JSON, checked."""
        budget, max_steps, target, tolerance = (found[name] for name in cls._fields)
        if type(budget) is not int or type(max_steps) not in (int, type(None)):
            raise TypeError("`budget` or `max_steps` is not a whole number")
        return cls(
            budget,
            max_steps,
            None if target is None else number(target),
            None if tolerance is None else number(tolerance),
        )


def reached(value: float, target: float, maximize: bool) -> bool:
    """Whether a value is as good as a target, or better."""
    return value >= target if maximize else value <= target
