"""The evaluations of one step, as points that are made when they are wanted."""

import sys
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.directions import Draw
from gensmooth.directions.draw import KernelDraw, ScaledDraw
from gensmooth.estimators import Plan, Samples
from gensmooth.parameters import Bounds
from gensmooth.streams import Purpose
from gensmooth.trees import Tree

Array = NDArray[Any]

_CHUNK = 262_144  # numbers; points are made together up to this many, which a cache still holds


@final
class Batch:
    """The evaluations of one step; make the points as you go, in any order, anywhere.

    ``len(batch)`` values are expected by :meth:`RandomSearch.tell`, in the order of
    :meth:`points`. Of parameters that came as a structure (:class:`gensmooth.Tree`), so do points.
    """

    __slots__ = (
        "_bounds",
        "_plan",
        "_spacing",
        "_spacings",
        "_x",
        "context",
        "draw",
        "own",
        "purpose",
        "samples",
        "seed",
        "step",
        "tree",
    )

    def __init__(
        self,
        x: Array,
        step: int,
        seed: int,
        draw: Draw,
        plan: Plan,
        spacing: float,
        spacings: NDArray[np.float64],
        samples: Samples | None,
        bounds: Bounds | None,
        purpose: Purpose = Purpose.SAMPLE,
        context: NDArray[np.float64] | None = None,
        own: bool = True,
        tree: Tree | None = None,
    ) -> None:
        self._x = x
        self._plan = plan
        self._spacing = spacing
        self._spacings = spacings  # of each evaluation: spacing · side, made once for all steps
        self._bounds = bounds
        self.step = step
        self.seed = seed
        self.draw = draw
        self.samples: Samples | None = samples
        self.purpose = purpose  # of the evaluations' noise
        self.context = context  # numbers that the objective is handed beside each point
        self.own = own  # whether its plan is the one that the search lays out by itself
        self.tree = tree  # of the parameters; points are built in it

    def __len__(self) -> int:
        return len(self._spacings)

    def is_at(self, x: Array) -> bool:
        """Whether the batch was asked at these parameters."""
        return self._x is x or np.array_equal(self._x, x)

    def point(self, index: int) -> Any:
        """The point of one evaluation, a new array in the shape of x."""
        found = self._rows(index, index + 1)[0, ...]
        return found if self.tree is None else self.tree.build(found)

    def points(self) -> Iterator[Any]:
        """The point of each evaluation, in order. With N samples a point comes N times.

        Points may be kept or changed: memory is used again only when nobody holds it any more.
        """
        twice = False
        if isinstance(self.draw, KernelDraw | ScaledDraw):
            self.draw = self.draw.held()
            twice = isinstance(self.draw, KernelDraw) and self.draw.dear
        if self.tree is not None:
            return map(self.tree.build, self.flat().points())
        number, dim = len(self._spacings), self._x.size
        if number * dim <= _CHUNK:
            return iter(self._rows(0, number)) if self._x.ndim else self._stream(number)
        # A pair's direction is made once for both of its points, if that is worth the memory.
        pair = twice and number > 1 and self._spacings[0] == -self._spacings[1] != 0
        least = 2 if pair else 1
        return self._stream(max(least, _CHUNK // dim))

    def _stream(self, rows: int) -> Iterator[Array]:
        """Points made a few rows at a time, in turn in two buffers.

        While a caller's loop variable still holds the last point, the buffer before it is free.
        """
        buffers: list[Array] = []
        for start in range(0, len(self), rows):
            stop = min(start + rows, len(self))
            # references: the list, `sys.getrefcount`'s argument; a third is somebody's view
            free = [i for i in range(len(buffers)) if sys.getrefcount(buffers[i]) == 2]
            if free and len(buffers[free[0]]) == stop - start:
                buffers.append(buffers.pop(free[0]))
            else:
                buffers = [*buffers[-1:], np.empty((stop - start, self._x.size), self._x.dtype)]
            self._rows(start, stop, buffers[-1])
            for row in range(stop - start):
                yield buffers[-1][row].reshape(self._x.shape)

    def block(self, start: int, stop: int) -> Any:
        """The points of evaluations ``start … stop``, stacked along a first axis."""
        found = self._rows(start, stop)
        return found if self.tree is None else self.tree.build(found)

    @property
    def dim(self) -> int:
        """The number of parameters, d."""
        return self.draw.dim

    @property
    def spacing(self) -> float:
        """How far apart its points are, c."""
        return self._spacing

    @property
    def plan(self) -> Plan:
        """Which points the evaluations are at."""
        return self._plan

    def planned(self, plan: Plan, purpose: Purpose = Purpose.SAMPLE) -> "Batch":
        """Other evaluations around the same x, along the same directions.

        Args:
            plan: Which evaluations.
            purpose: What their noise is for: that of tests is never that of a search's samples.
        """
        return self._changed(plan, purpose, self.context, self.tree)

    def given(self, context: NDArray[np.float64]) -> "Batch":
        """The same evaluations by an objective that is also handed ``context``.

        For an objective that depends on more than the point: numbers that are the same for all
        evaluations of a step. They are sent to each worker once per step.
        """
        return self._changed(self._plan, self.purpose, context, self.tree)

    def flat(self) -> "Batch":
        """The same evaluations, at points that are one array each, in the order of the arrays."""
        if self.tree is None:
            return self
        return self._changed(self._plan, self.purpose, self.context, None)

    def _changed(
        self,
        plan: Plan,
        purpose: Purpose,
        context: NDArray[np.float64] | None,
        tree: Tree | None,
    ) -> "Batch":
        return Batch(
            self._x,
            self.step,
            self.seed,
            self.draw,
            plan,
            self._spacing,
            np.multiply(self._spacing, plan.side, dtype=np.float64),
            self.samples,
            self._bounds,
            purpose,
            context,
            self.own and plan is self._plan,
            tree,
        )

    def shaped(self, vector: Array) -> Any:
        """A vector of length d in the shape of x, or in its structure."""
        return vector.reshape(self._x.shape) if self.tree is None else self.tree.build(vector)

    def has_center(self) -> bool:
        """Whether some evaluations are at x itself."""
        return bool((self._plan.side == 0).any())

    def rng(self, index: int) -> np.random.Generator:
        """The generator of one evaluation's noise: its sample ξ."""
        if self.samples is None:
            raise ValueError("There are no samples: the search was made without `samples=`.")
        sample = int(self._plan.sample[index])
        return streams.generator(self.seed, self.purpose, step=self.step, index=sample)

    def rngs(self) -> Iterator[np.random.Generator]:
        """The generator of each evaluation, in order."""
        for index in range(len(self)):
            yield self.rng(index)

    def describe(self, index: int) -> str:
        """Words for an evaluation, for error messages."""
        side = {1: "+", -1: "−", 0: "the centre of "}[int(self._plan.side[index])]
        return (
            f"evaluation {index} of {len(self)} in step {self.step} "
            f"({side}direction {self._plan.direction[index]})"
        )

    def _rows(self, start: int, stop: int, out: Array | None = None) -> Array:
        x, direction, spacings = self._x, self._plan.direction, self._spacings
        if start != 0 or stop != len(spacings):
            if not 0 <= start <= stop <= len(spacings):
                raise IndexError(f"Evaluations {start} to {stop} of a batch that has {len(self)}.")
            direction, spacings = direction[start:stop], spacings[start:stop]
        flat = x if x.ndim == 1 else x.reshape(-1)
        if out is None:
            out = np.empty((stop - start, x.size), x.dtype)
        self.draw.perturb(flat, direction, spacings, out)
        points = out if x.ndim == 1 else out.reshape(len(out), *x.shape)
        if self._bounds is not None:
            np.clip(points, self._bounds.lower, self._bounds.upper, out=points)
        return points
