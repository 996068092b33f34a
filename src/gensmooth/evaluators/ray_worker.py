"""What a Ray actor is: a worker's view of a session, told by method calls."""

import os
import pickle
import sys
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from gensmooth.evaluators.travel import Array, Site, Step


@final
class RayWorker:
    """Made into an actor by :class:`gensmooth.evaluators.Ray`; calls come in order."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._turn: int | None = None
        self._warm = False

    def open(self, bag: bytes, paths: list[str]) -> None:
        """Take a search and an objective, which may live where the driver found its modules."""
        sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path or ".")]
        self._turn = None
        self._site = Site(*pickle.loads(bag))

    def step(
        self,
        turn: int,
        step: Step,
        x: Array,
        estimate: Array | None,
        whole: Mapping[str, Array] | None,
    ) -> None:
        """Begin a step."""
        assert self._site is not None
        self._turn = None
        if step.context is not None:
            step = step._replace(context=np.array(step.context))
        # Copies: arrays in Ray's store are read-only, for which Numba would compile anew.
        found = None if estimate is None else np.array(estimate)
        state = None if whole is None else {name: np.array(a) for name, a in whole.items()}
        self._site.step(step, np.array(x), estimate=found, directions=state)
        if not self._warm:  # or loading the kernels would count as the objective's time
            self._site.warm_up()
            self._warm = True
        self._turn = turn

    def evaluate(self, turn: int, start: int, stop: int) -> tuple[Any, ...]:
        """The values of evaluations ``start … stop``."""
        assert self._site is not None
        if turn != self._turn:  # the step did not begin: say so, rather than evaluate the last one
            raise RuntimeError("the step could not begin")
        return tuple(self._site.evaluate(start, stop))
