"""An environment on MuJoCo: a model, and the functions that say what it observes and pays.

The three functions are written once, in Python, and used in two ways: Numba compiles them for the
CPU, and :mod:`gensmooth.physics.tracing` turns them into C for a GPU.

* ``begin(state, start)``: put the simulation, just reset, where the row ``start`` says;
* ``observe(state, out)``: fill in an observation;
* ``step(state, action) -> (reward, bonus, ended, success)``: one step. ``bonus`` is the part of
  the reward that is survival bonus; ``ended`` and ``success`` are true or false.

They are module-level functions under :func:`numba.extending.register_jitable`, so that they have a
name in the key of Numba's disk cache. ``state`` is a NamedTuple that the environment defines. Its
field ``physics`` (:class:`gensmooth.physics.mujoco_calls.Physics`) is how the functions call
MuJoCo.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # it imports Numba
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
        horizon: Steps after which an episode ends in any case.
        model: Makes its ``MjModel``.
        state: ``state(model, data, physics)``: the NamedTuple that the three functions receive.
            It holds views of the arrays of ``data``, and is made once for each thread.
        start: ``start(model, rng)``: draws a row that says where an episode starts.
        begin: ``begin(state, start)``, compiled.
        observe: ``observe(state, out)``, compiled.
        step: ``step(state, action)``, compiled.
        survival_bonus: What each step survived adds to the reward; 0 if there is no such term.
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
        """A start of ``size`` numbers from each generator, shape (B, size)."""
        starts = np.empty((len(rngs), size))
        for row, rng in zip(starts, rngs, strict=True):
            row[:] = self.start(model, rng)
        return starts
