"""Processes on this machine: started once, told little, replaced when they die."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import final

from gensmooth.evaluators.dispatch import CrewSession, at_work
from gensmooth.evaluators.faults import check_retries, check_timeout
from gensmooth.evaluators.objective import Objective
from gensmooth.evaluators.process_pool import ProcessMember, ProcessPool, Traffic
from gensmooth.search import RandomSearch


@final
class Processes:
    """Evaluates in processes of this machine.

    Workers are fresh interpreters (safe with threads, no ``if __name__ == "__main__"`` needed).
    They are sent the objective once, read x from memory that is shared, and make their own points.
    A worker that dies is replaced; one that hangs is stopped, with all that it has started.

    Used as it is, workers live as long as a run. Used as a context, they stay for many runs::

        with Processes(4) as pool:
            for seed in range(10):
                gs.minimize(fun, x0, workers=pool, seed=seed)

    Args:
        num_workers: How many.
        timeout: Seconds that one evaluation (one block, for a vectorised objective) may take.
        retries: How often a failed evaluation is tried again, with the same seeds.
        environment: Environment variables for the workers, such as ``{"OMP_NUM_THREADS": "1"}``.
        start_timeout: Seconds to wait for a first worker.
    """

    def __init__(
        self,
        num_workers: int,
        *,
        timeout: float | None = None,
        retries: int = 0,
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"`num_workers` must be at least 1, but is {num_workers}.")
        check_timeout(timeout)
        check_retries(retries)
        if os.name != "posix":
            raise OSError(
                "gs.evaluators.Processes needs Linux or macOS. Here, use gs.evaluators.Threads, or "
                "workers=executor.map of a concurrent.futures.ProcessPoolExecutor."
            )
        self.num_workers = num_workers
        self.timeout = timeout
        self.retries = retries
        self.environment = dict(environment or {})
        self.start_timeout = start_timeout
        self._pool: ProcessPool | None = None

    def __repr__(self) -> str:
        return f"Processes({self.num_workers}, timeout={self.timeout}, retries={self.retries})"

    def __enter__(self) -> "Processes":
        if self._pool is not None:
            raise RuntimeError("These processes are already in use as a context.")
        self._pool = self._new_pool()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    @property
    def traffic(self) -> Traffic:
        """Bytes to and from the workers, while used as a context."""
        if self._pool is None:
            raise RuntimeError("Traffic is counted while the processes are used as a context.")
        return self._pool.traffic

    @property
    def pids(self) -> list[int]:
        """The workers' process ids, while used as a context."""
        return [] if self._pool is None else [m.process.pid for m in self._pool.members]

    def session(
        self, search: RandomSearch, objective: Objective
    ) -> AbstractContextManager[CrewSession[ProcessMember]]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        return at_work(
            self._pool,
            self._new_pool,
            search,
            objective,
            timeout=self.timeout,
            retries=self.retries,
        )

    def _new_pool(self) -> ProcessPool:
        return ProcessPool(self.num_workers, self.environment, self.start_timeout)
