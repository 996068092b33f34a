"""The evaluations of one step, whose points are generated on demand."""

import sys
import zlib
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import streams
from gensmooth.directions import Draw
from gensmooth.directions.composed import ScaledDraw
from gensmooth.directions.draw import KernelDraw
from gensmooth.estimators import Plan, Samples
from gensmooth.parameters import Bounds
from gensmooth.streams import Purpose
from gensmooth.trees import Tree

Array = NDArray[Any]

_CHECKSUMMED = 4096  # entries of x in a checksum
_CHUNK_SIZE = 262_144  # the numbers generated at a time: as many as fit in a cache


@final
class Batch:
    """The evaluations of one step. Its points can be generated in any order and in any process.

    :meth:`RandomSearch.tell` expects ``len(batch)`` values in the order of :meth:`points`. If the
    parameters are a structure (:class:`gensmooth.Tree`), so are the points.
    """

    __slots__ = (
        "_bounds",
        "_plan",
        "_spacing",
        "_spacings",
        "_x",
        "context",
        "draw",
        "planned_by_search",
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
        planned_by_search: bool = True,
        tree: Tree | None = None,
    ) -> None:
        self._x = x
        self._plan = plan
        self._spacing = spacing
        self._spacings = spacings  # spacing · side of each evaluation, computed once for all steps
        self._bounds = bounds
        self.step = step
        self.seed = seed
        self.draw = draw
        self.samples: Samples | None = samples
        self.purpose = purpose  # of the random numbers that the objective receives
        self.context = context  # numbers passed to the objective with each point
        self.planned_by_search = planned_by_search  # if not, workers receive the plan
        self.tree = tree  # the structure of the points, if any

    def __len__(self) -> int:
        return len(self._spacings)

    def is_at(self, x: Array) -> bool:
        """Whether the batch was generated at these parameters."""
        return self._x is x or np.array_equal(self._x, x)

    def point(self, index: int) -> Any:
        """Return the point of one evaluation, a new array in the shape of x."""
        row = self._rows(index, index + 1)[0, ...]
        return row if self.tree is None else self.tree.build(row)

    def points(self) -> Iterator[Any]:
        """Iterate over the points in evaluation order; with N samples, each appears N times.

        You may keep or change the points: a buffer is reused only when nothing refers to it.
        """
        costly = False
        if isinstance(self.draw, KernelDraw | ScaledDraw):
            self.draw = self.draw.in_memory()
            costly = isinstance(self.draw, KernelDraw) and self.draw.slow_to_generate
        if self.tree is not None:
            return map(self.tree.build, self.flat().points())
        number, dim = len(self._spacings), self._x.size
        if number * dim <= _CHUNK_SIZE:
            return iter(self._rows(0, number)) if self._x.ndim else self._stream(number)
        # If a direction is costly, generate it once for both points of a pair.
        pair = costly and number > 1 and self._spacings[0] == -self._spacings[1] != 0
        least = 2 if pair else 1
        return self._stream(max(least, _CHUNK_SIZE // dim))

    def _stream(self, rows: int) -> Iterator[Array]:
        """Generate points a few rows at a time, alternating between two buffers.

        While the caller's loop variable still refers to the last point, the other buffer is free.
        """
        buffers: list[Array] = []
        for start in range(0, len(self), rows):
            stop = min(start + rows, len(self))
            # two references: the list and `getrefcount`'s argument; any other is a caller's view
            free = [i for i in range(len(buffers)) if sys.getrefcount(buffers[i]) == 2]
            if free and len(buffers[free[0]]) == stop - start:
                buffers.append(buffers.pop(free[0]))
            else:
                buffers = [*buffers[-1:], np.empty((stop - start, self._x.size), self._x.dtype)]
            self._rows(start, stop, buffers[-1])
            for row in range(stop - start):
                yield buffers[-1][row].reshape(self._x.shape)

    def block(self, start: int, stop: int) -> Any:
        """Return the points of evaluations ``start`` to ``stop − 1``, one per row."""
        rows = self._rows(start, stop)
        return rows if self.tree is None else self.tree.build(rows)

    @property
    def dim(self) -> int:
        """The number of parameters, d."""
        return self.draw.dim

    @property
    def spacing(self) -> float:
        """The spacing c of its points."""
        return self._spacing

    @property
    def plan(self) -> Plan:
        """The direction, side and sample of each evaluation."""
        return self._plan

    def planned(self, plan: Plan, purpose: Purpose = Purpose.SAMPLE) -> "Batch":
        """Return a batch with other evaluations around the same x, along the same directions.

        With another ``purpose``, their random numbers differ from those of the search.
        """
        return self._copy_with(plan, purpose, self.context, self.tree)

    def with_context(self, context: NDArray[np.float64]) -> "Batch":
        """Return the same evaluations with a ``context`` that is passed to the objective.

        The context holds numbers that are the same for all evaluations of a step. They are sent to
        each worker once per step.
        """
        return self._copy_with(self._plan, self.purpose, context, self.tree)

    def flat(self) -> "Batch":
        """Return the same evaluations with flat points, even if the parameters are a structure."""
        if self.tree is None:
            return self
        return self._copy_with(self._plan, self.purpose, self.context, None)

    def _copy_with(
        self, plan: Plan, purpose: Purpose, context: NDArray[np.float64] | None, tree: Tree | None
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
            self.planned_by_search and plan is self._plan,
            tree,
        )

    def shaped(self, vector: Array) -> Any:
        """Return a vector of length d in the shape or structure of x."""
        return vector.reshape(self._x.shape) if self.tree is None else self.tree.build(vector)

    def rng(self, index: int) -> np.random.Generator:
        """Return the random generator of one evaluation, its sample ξ."""
        if self.samples is None:
            raise ValueError("This batch has no samples: create the search with `samples=`.")
        sample = int(self._plan.sample[index])
        return streams.generator(self.seed, self.purpose, step=self.step, index=sample)

    def rngs(self) -> Iterator[np.random.Generator]:
        """Iterate over the random generators of the evaluations, in order."""
        for index in range(len(self)):
            yield self.rng(index)

    def checksum(self) -> int:
        """Return a checksum of the evaluations, by which a journal recognises the batch.

        It covers the seed, the plan, the spacing, the context and x; of a long x, it covers only
        evenly spaced entries.
        """
        flat = self._x.reshape(-1)
        parts = [*self._plan.arrays, self._spacings, flat[:: max(1, flat.size // _CHECKSUMMED)]]
        if self.context is not None:
            parts.append(self.context)
        checksum = zlib.crc32(f"{self.seed} {self.step} {int(self.purpose)}".encode())
        for part in parts:
            checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
        return checksum

    def describe(self, index: int) -> str:
        """Describe an evaluation for error messages."""
        side = {1: "+", -1: "−", 0: "the centre of "}[int(self._plan.side[index])]
        return (
            f"evaluation {index} of {len(self)} in step {self.step} "
            f"({side}direction {self._plan.direction[index]})"
        )

    def _rows(self, start: int, stop: int, out: Array | None = None) -> Array:
        x, direction, spacings = self._x, self._plan.direction, self._spacings
        if start != 0 or stop != len(spacings):
            if not 0 <= start <= stop <= len(spacings):
                raise IndexError(
                    f"Evaluations {start} to {stop} are outside a batch of {len(self)}."
                )
            direction, spacings = direction[start:stop], spacings[start:stop]
        flat = x if x.ndim == 1 else x.reshape(-1)
        if out is None:
            out = np.empty((stop - start, x.size), x.dtype)
        self.draw.perturb(flat, direction, spacings, out)
        points = out if x.ndim == 1 else out.reshape(len(out), *x.shape)
        if self._bounds is not None:
            np.clip(points, self._bounds.lower, self._bounds.upper, out=points)
        return points
