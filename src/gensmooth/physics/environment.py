"""An environment on MuJoCo: a model, and functions for its start, observation and step.

The three functions are written once, in Python, and used in two ways: Numba compiles them for the
CPU, and :mod:`gensmooth.physics.tracing` turns them into C for a GPU.

* ``begin(state, start)`` moves the simulation, which has just been reset, to the row ``start``.
* ``observe(state, out)`` fills in an observation.
* ``step(state, action) -> (reward, bonus, ended, success)`` runs one step. ``bonus`` is the part of
  the reward that is survival bonus; ``ended`` and ``success`` are booleans.

They are module-level functions with the decorator :func:`numba.extending.register_jitable`, so that
their names can be part of the key of Numba's disk cache. ``state`` is a NamedTuple that the
environment defines. The functions call MuJoCo through its field ``physics``
(:class:`gensmooth.physics.mujoco_calls.Physics`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # this module imports Numba
    from gensmooth.physics.mujoco_calls import Physics

Array = NDArray[np.float64]
Function = Callable[..., Any]


@final
@dataclass(frozen=True)
class CompiledEnvironment:
    """The definition of an environment on MuJoCo.

    Attributes:
        name: Its full name, such as ``"Hopper-v4"``.
        observation_size: Entries of an observation.
        action_size: Entries of an action.
        horizon: The largest number of steps of an episode.
        model: Makes its ``MjModel``.
        state: ``state(model, data, physics)`` makes the NamedTuple that the three functions
            receive. It holds views of the arrays of ``data`` and is made once for each thread.
        start: ``start(model, rng)`` draws a row that describes the start of an episode.
        begin: ``begin(state, start)``, compiled.
        observe: ``observe(state, out)``, compiled.
        step: ``step(state, action)``, compiled.
        survival_bonus: The part of the reward for each step survived; 0 if there is no such part.
        goal: Whether episodes can succeed.
        task_entries: How many entries at the end of a start describe the task, such as a hidden
            goal; 0 if every episode has the same task.
    """

    name: str
    observation_size: int
    action_size: int
    horizon: int
    model: Callable[[], Any]
    state: "Callable[[Any, Any, Physics], Any]"
    start: Callable[[Any, np.random.Generator], Array]
    begin: Function
    observe: Function
    step: Function
    survival_bonus: float = 0.0
    goal: bool = False
    task_entries: int = 0

    def starts(self, model: Any, rngs: Sequence[np.random.Generator], size: int) -> Array:
        """Draw a start of ``size`` numbers from each generator, shape (B, size)."""
        starts = np.empty((len(rngs), size))
        for row, rng in zip(starts, rngs, strict=True):
            row[:] = self.start(model, rng)
        return starts
