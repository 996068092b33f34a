"""Ray actors: many machines, or this one."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, final

from gensmooth.evaluators.dispatch import CrewSession, at_work
from gensmooth.evaluators.faults import check_retries, check_timeout
from gensmooth.evaluators.objective import Objective
from gensmooth.evaluators.ray_pool import RayMember, RayPool
from gensmooth.search import RandomSearch


@final
class Ray:
    """Evaluates in Ray actors, on a cluster or on this machine.

    Each actor is sent the objective once and x once a step (a machine fetches it once for all of
    its actors), and makes its own points. An actor that is lost, alone or with its machine, is
    replaced as soon as the cluster has room; one that hangs is killed and replaced.

    Can be used as a context, to keep actors for many runs: see :class:`Processes`.

    Args:
        address: Of an existing cluster, such as ``"auto"`` or ``"ray://head:10001"``. By default
            the cluster that this program is connected to or that ``RAY_ADDRESS`` names; else one
            is started on this machine, and stopped afterwards.
        num_workers: How many actors; by default one for each CPU of the cluster.
        timeout: Seconds that one evaluation (one block, for a vectorised objective) may take.
        retries: How often a failed evaluation is tried again, with the same seeds.
        actor_options: Ray's options for each actor, such as ``{"num_gpus": 0.5}``; by default one
            CPU each.
        start_timeout: Seconds to wait for a first actor.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_workers: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
        actor_options: Mapping[str, Any] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"`num_workers` must be at least 1, but is {num_workers}.")
        check_timeout(timeout)
        check_retries(retries)
        self.address = address
        self.num_workers = num_workers
        self.timeout = timeout
        self.retries = retries
        self.actor_options = {"num_cpus": 1, **(actor_options or {})}
        self.start_timeout = start_timeout
        self._pool: RayPool | None = None

    def __repr__(self) -> str:
        return (
            f"Ray({self.address!r}, num_workers={self.num_workers}, timeout={self.timeout}, "
            f"retries={self.retries})"
        )

    def __enter__(self) -> "Ray":
        if self._pool is not None:
            raise RuntimeError("These actors are already in use as a context.")
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

    def session(
        self, search: RandomSearch, objective: Objective
    ) -> AbstractContextManager[CrewSession[RayMember]]:
        """See :class:`~gensmooth.evaluators.Evaluator`."""
        return at_work(
            self._pool,
            self._new_pool,
            search,
            objective,
            timeout=self.timeout,
            retries=self.retries,
        )

    def _new_pool(self) -> RayPool:
        return RayPool(
            self.address,
            num_workers=self.num_workers,
            actor_options=self.actor_options,
            start_timeout=self.start_timeout,
            one_by_one=self.timeout is not None,
        )
