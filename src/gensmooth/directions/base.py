"""What every family of directions offers to the rest of the program."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth import theory
from gensmooth.directions.draw import Draw

State = tuple[Any, ...]


def check_directions(given: object) -> "Directions":
    """Refuse what is not directions, with a hint at what is."""
    if not isinstance(given, Directions):
        raise TypeError(f"`directions` must be directions, such as gs.Gaussian(), not {given!r}.")
    return given


class NoClosedForm(ValueError):  # noqa: N818 (it is a statement, raised as one)
    """The family's mean squared error has no closed form, so it cannot be shrunk optimally."""


class Directions(ABC):
    """A way to choose the directions of a step: the whole of what a method of the paper is.

    A family is an immutable description. What must be remembered from step to step (Guided ES's
    past estimates) is an explicit state; most families have none.
    """

    @abstractmethod
    def draw(
        self,
        state: State,
        *,
        seed: int,
        step: int,
        num_directions: int,
        dim: int,
        dtype: np.dtype[Any],
    ) -> Draw:
        """The directions of one step: a pure function of its arguments."""

    @abstractmethod
    def moments(self, dim: int, num_directions: int) -> theory.Moments:
        """The moments that bias, error and shrinkage follow from; see :mod:`gensmooth.theory`.

        Raises:
            NoClosedForm: When the family has none.
        """

    def kurtosis(self, dim: int, num_directions: int) -> float:
        """The kurtosis of an entry, the plain fourth standardised moment (3 for a Gaussian).

        For directions of a uniformly random orientation E ε_j⁴ = 3 E‖ε‖⁴ / (d (d + 2)).
        """
        m = self.moments(dim, num_directions)
        return 3 * m.own / ((dim + 2) * m.mean**2)

    def resolve(self, dim: int, num_directions: int) -> "Directions":  # noqa: ARG002
        """The family with everything that depends on d and L filled in."""
        return self

    def init(self, dim: int, dtype: np.dtype[Any]) -> State:  # noqa: ARG002
        """The state before the first step."""
        return ()

    def update(self, state: State, gradient: NDArray[Any]) -> State:  # noqa: ARG002
        """The state after a step whose estimate was ``gradient``."""
        return state

    def news(self, before: State, after: State) -> NDArray[Any] | None:  # noqa: ARG002
        """The estimate whose :meth:`update` leads from one state to the other, if one does.

        Workers that hold ``before`` are sent this instead of all of ``after``.
        """
        return None

    def pack(self, state: State) -> dict[str, NDArray[Any]]:
        """The state as named arrays, for a checkpoint. A family with a state has its own."""
        if state:
            raise TypeError(
                f"{type(self).__name__} has a state but cannot be checkpointed: give it `pack` and "
                "`unpack`."
            )
        return {}

    def unpack(self, arrays: Mapping[str, NDArray[Any]], dim: int, dtype: np.dtype[Any]) -> State:
        """The state that :meth:`pack` was given.

        Raises:
            ValueError: When the arrays are not such a state.
        """
        if arrays:
            raise ValueError(f"{type(self).__name__} has no state, but there is {sorted(arrays)}")
        return self.init(dim, dtype)
