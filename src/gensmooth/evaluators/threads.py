"""Evaluation in threads, for objectives that release the GIL (NumPy, C code, waiting for I/O)."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import final

from gensmooth import checks
from gensmooth.batch import Batch
from gensmooth.evaluators.base import Evaluated
from gensmooth.evaluators.faults import BatchResults, FaultPolicy, Queue
from gensmooth.evaluators.objective import Objective
from gensmooth.searches import Search, SearchState


@final
@dataclass(frozen=True)
class Threads:
    """Evaluates in threads of this process, without copying or pickling.

    A thread cannot be stopped from outside. Time-outs are therefore not available, and after Ctrl-C
    or an error the run waits for the evaluations in progress.

    Args:
        num_workers: The number of threads.
        retries: How often a failed evaluation is retried, with the same seeds.
    """

    num_workers: int
    retries: int = 0

    def __post_init__(self) -> None:
        checks.settle(
            self,
            num_workers=checks.count("num_workers", self.num_workers),
            retries=checks.count("retries", self.retries, 0),
        )

    @contextmanager
    def session(self, search: Search, objective: Objective) -> Generator["ThreadsSession"]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        with ThreadPoolExecutor(self.num_workers, "gensmooth") as pool:
            yield ThreadsSession(
                pool, self.num_workers, objective, FaultPolicy(search.on_failure, self.retries)
            )


@final
class ThreadsSession:
    """See :class:`Threads`."""

    def __init__(
        self, pool: ThreadPoolExecutor, workers: int, objective: Objective, policy: FaultPolicy
    ) -> None:
        self.workers = workers
        self._pool = pool
        self._objective = objective
        self._policy = policy

    def evaluate(self, state: SearchState, batch: Batch) -> Evaluated:
        """See :class:`~gensmooth.evaluators.Session`."""
        results = BatchResults(self._policy, self._objective, batch)
        queue = Queue(results.todo)
        lock = Lock()

        def drain() -> None:
            while True:
                with lock:
                    units = queue.take(-(-queue.left // (4 * self.workers)))
                if units is None:
                    return
                try:
                    start, stop = results.span(units)
                    values, failures = self._objective.values(
                        batch, start, stop, go_on=self._policy.go_on, record=results.record
                    )
                    with lock:
                        queue.put(results.add(units, values, failures))
                except BaseException:
                    with lock:
                        queue.clear()  # the other threads finish their current evaluations
                    raise

        threads = [self._pool.submit(drain) for _ in range(min(self.workers, results.missing))]
        try:
            for thread in threads:
                thread.result()
        finally:
            with lock:
                queue.clear()
        return results.evaluated()
