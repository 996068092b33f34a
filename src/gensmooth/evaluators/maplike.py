"""Evaluation through any map function: ``concurrent.futures``, ``multiprocessing.Pool``, Dask, MPI.

A map cannot send data to its workers once per step, so each work item carries its point: d numbers
per evaluation. The evaluators with their own worker processes send a few bytes.
"""

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated, WorkerError
from gensmooth.evaluators.faults import BatchResults, FaultPolicy, Units
from gensmooth.evaluators.objective import Objective, check_flat
from gensmooth.evaluators.session import pickled
from gensmooth.evaluators.worker import Answer
from gensmooth.searches import Search, SearchState
from gensmooth.streams import Purpose


@final
@dataclass(frozen=True)
class MapLike:
    """Evaluates with your map: ``workers(function, items)`` returns the results in order.

    Time-outs are not available, because the map manages its own workers. All points of a step are
    created in this process and held in memory at the same time.

    Args:
        workers: The map function, such as ``executor.map`` or ``pool.map``.
        retries: How often a failed evaluation is retried, with the same seeds.
    """

    workers: Callable[..., Iterable[Any]]
    retries: int = 0

    def __post_init__(self) -> None:
        checks.function("workers", self.workers)
        checks.settle(self, retries=checks.count("retries", self.retries, 0))

    def session(
        self, search: Search, objective: Objective
    ) -> AbstractContextManager["MapLikeSession"]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        policy = FaultPolicy(search.on_failure, self.retries)
        return nullcontext(MapLikeSession(self.workers, objective, policy))


@final
class MapLikeSession:
    """See :class:`MapLike`."""

    workers = 1  # the actual number is unknown

    def __init__(
        self, map_: Callable[..., Iterable[Any]], objective: Objective, policy: FaultPolicy
    ) -> None:
        self._map = map_
        self._objective = objective
        self._call = _Call(objective)
        self._policy = policy

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """See :class:`~gensmooth.evaluators.Session`."""
        results = BatchResults(self._policy, self._objective, batch)
        todo: list[Units] = [(unit, unit + 1) for units in results.todo for unit in range(*units)]
        while todo:
            items = [_item(batch, *results.span(units)) for units in todo]
            again: list[Units] = []
            for units, answer in zip(todo, self._answers(items, batch), strict=True):
                again += results.add(units, *answer)
            todo = again
        return results.evaluated()

    def _answers(self, items: "list[_Item]", batch: Batch) -> Iterator[Answer]:
        """The answers in order, each as soon as the map returns it."""
        count, problem = 0, ""
        for returned in self._returned(items, batch):
            count += 1
            if count > len(items) or not isinstance(returned, Answer):
                problem = "more than that" if count > len(items) else f"a {type(returned).__name__}"
                break
            yield returned
        if problem or count < len(items):
            raise WorkerError(
                "`workers(function, items)` must return one result of `function` per item, in "
                f"order, but for {len(items)} items it returned {problem or f'only {count}'}.",
                step=batch.step,
            )

    def _returned(self, items: "list[_Item]", batch: Batch) -> Iterator[Any]:
        try:
            yield from self._map(self._call, items)
        except WorkerError:
            raise
        except Exception as error:
            raise WorkerError(
                f"The map passed as `workers` raised {type(error).__name__} in step {batch.step}: "
                f"{error}",
                step=batch.step,
            ) from error


class _Item(NamedTuple):
    """The points of one call of the objective, and the addresses of their random samples."""

    points: NDArray[Any]
    start: int
    step: int
    seed: int
    samples: NDArray[np.int64] | None
    purpose: Purpose
    context: NDArray[np.float64] | None

    @property
    def dim(self) -> int:
        return self.points[0].size

    def point(self, index: int) -> NDArray[Any]:
        return self.points[index - self.start]

    def block(self, start: int, stop: int) -> NDArray[Any]:
        return self.points[start - self.start : stop - self.start]

    def rng(self, index: int) -> np.random.Generator:
        assert self.samples is not None
        sample = int(self.samples[index - self.start])
        return streams.generator(self.seed, self.purpose, step=self.step, index=sample)


def _item(batch: Batch, start: int, stop: int) -> _Item:
    check_flat(batch)
    samples = None if batch.samples is None else batch.plan.sample[start:stop]
    return _Item(
        batch.block(start, stop),
        start,
        batch.step,
        batch.seed,
        samples,
        batch.purpose,
        batch.context,
    )


@final
class _Call:
    """Calls the objective on a work item; pickled by cloudpickle, unpickled once per process."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __call__(self, item: _Item) -> Answer:
        began = time.perf_counter()
        stop = item.start + len(item.points)
        values, failures = self._objective.values(item, item.start, stop)
        picklable = [failure.picklable() for failure in failures]
        return Answer(values, picklable, time.perf_counter() - began)

    def __reduce__(self) -> tuple[Any, ...]:
        return _call, (pickled(self._objective, "The objective"),)


@lru_cache(maxsize=8)
def _call(blob: bytes) -> _Call:
    return _Call(pickle.loads(blob))
