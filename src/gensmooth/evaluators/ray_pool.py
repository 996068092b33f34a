"""A pool of Ray actors. Ray is imported when used, and untyped: everything of it is ``Any``."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, final

from gensmooth.evaluators.crew import Crew, Event, Gone, Member, Ready, Refused, Told
from gensmooth.evaluators.ray_worker import RayWorker
from gensmooth.evaluators.travel import Array, Report, Step

_FEW = 16


@dataclass(eq=False)
class RayMember(Member):
    """An actor."""

    actor: Any = field(kw_only=True)
    answers: list[Any] = field(default_factory=list[Any])  # what it will say: references
    opening: bool = False
    step: Any = None  # how its last step began: a reference, kept for its error
    start: int = 0  # what it is at, and since when
    since: float = 0.0


@final
class RayPool(Crew[RayMember]):
    """Ray actors, and the connection to Ray."""

    grain = 2e-3

    def __init__(
        self,
        address: str | None,
        *,
        num_workers: int | None,
        actor_options: Mapping[str, Any],
        start_timeout: float,
        one_by_one: bool,
    ) -> None:
        self._ray = _imported()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _connect(self._ray, address, num_workers)
        self.members: list[RayMember] = []
        self.size = num_workers or max(1, int(self._cpus()))
        self.start_timeout = start_timeout
        self.one_by_one = one_by_one
        self._class: Any = self._ray.remote(RayWorker).options(**actor_options)
        self._paths = [path for path in sys.path if isinstance(path, str)]  # pyright: ignore
        self._bag: Any = None
        self._turn = 0
        self._x: Any = None
        self._estimate: Any = None
        self._whole: Any = None

    def open(self, bag: bytes) -> None:
        """Begin a session."""
        if self._bag is not None:
            raise RuntimeError("These actors are already at work for another run.")
        for member in [m for m in self.members if m.answers and not m.opening]:
            self.dismiss(member)
        self._bag = self._ray.put(bag)
        for member in self.members:
            self._send_bag(member)
        self.hire()

    def shut(self) -> None:
        """End a session; actors stay."""
        for member in [m for m in self.members if m.answers and not m.opening]:
            self.dismiss(member)
        self._bag = self._x = self._estimate = self._whole = None

    def close(self) -> None:
        """End all actors, and Ray if it was started for us."""
        try:
            for member in list(self.members):
                self.dismiss(member)
        finally:
            if self._ours:
                self._ray.shutdown()

    def hire(self) -> None:
        """See :meth:`Crew.hire`."""
        while len(self.members) < self.size:
            member = RayMember(actor=self._class.remote())
            self.members.append(member)
            self._send_bag(member)

    def _send_bag(self, member: RayMember) -> None:
        member.ready = False
        member.opening = True
        member.answers = [member.actor.open.remote(self._bag, self._paths)]

    def publish(self, x: Array, estimate: Array | None) -> None:
        """See :meth:`Crew.publish`."""
        self._turn += 1
        self._x = self._ray.put(x)
        self._estimate = None if estimate is None else self._ray.put(estimate)
        self._whole = None

    def tell(self, member: RayMember, step: Step, news: Array | dict[str, Array] | None) -> bool:
        """See :meth:`Crew.tell`."""
        estimate = whole = None
        if isinstance(news, dict):
            if self._whole is None:
                self._whole = self._ray.put(news)
            whole = self._whole
        elif news is not None:
            estimate = self._estimate
        member.step = member.actor.step.remote(self._turn, step, self._x, estimate, whole)
        if self.one_by_one:  # its time is to begin when it has all it needs
            member.answers.append(member.step)
        return self.one_by_one

    def assign(self, member: RayMember, start: int, stop: int) -> None:
        """See :meth:`Crew.assign`."""
        member.start, member.since = start, time.monotonic()
        member.answers.append(member.actor.evaluate.remote(self._turn, start, stop))

    def listen(self, timeout: float) -> list[tuple[RayMember, Event]]:
        """See :meth:`Crew.listen`."""
        waiting = {m.answers[0]: m for m in self.members if m.answers}
        if not waiting:
            time.sleep(min(timeout, 0.01))
            return []
        found, rest = self._ray.wait(list(waiting), num_returns=1, timeout=timeout)
        if found and len(rest) > _FEW:  # with few, asking again costs more than it finds
            found += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [(waiting[answer], self._event(waiting[answer])) for answer in found]

    def _event(self, member: RayMember) -> Event:
        try:
            value = self._ray.get(member.answers.pop(0))
        except self._ray.exceptions.RayTaskError as error:
            if member.opening:
                return Refused(str(error))
            cause = self._first_cause(member, error)
            return self._gone(member, f"failed ({_in_short(cause)})")
        except self._ray.exceptions.RayError as error:
            return self._gone(member, f"was lost ({_in_short(error)})")
        if member.opening:
            member.opening = False
            return Ready()
        if member.telling:
            return Told()
        return Report(*value)

    def _first_cause(self, member: RayMember, error: Exception) -> Exception:
        """Why its step did not begin, if it did not."""
        try:
            self._ray.get(member.step, timeout=0)
        except Exception as cause:
            return cause
        return error

    def _gone(self, member: RayMember, why: str) -> Gone:
        self.dismiss(member)
        return Gone(why, received=True)

    def current(self, member: RayMember) -> tuple[int, float] | None:
        """See :meth:`Crew.current`."""
        return member.start, member.since

    def dismiss(self, member: RayMember) -> None:
        """See :meth:`Crew.dismiss`."""
        if member in self.members:
            self.members.remove(member)
            self._ray.kill(member.actor, no_restart=True)

    def hint(self) -> str:
        """See :meth:`Crew.hint`."""
        return (
            f" The cluster has {self._cpus():g} CPUs, and each of {self.size} workers asks for "
            "what `actor_options` says, by default one."
        )

    def _cpus(self) -> float:
        return float(self._ray.cluster_resources().get("CPU", 0))


def _in_short(error: Any) -> str:
    """The first sentence: Ray's errors are a page long."""
    error = getattr(error, "cause", None) or error
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.split('. ')[0].rstrip('.')[:200]}"


def _imported() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise ImportError(
            "gs.evaluators.Ray needs Ray, which is not installed: pip install 'gensmooth[ray]'"
        ) from None


def _connect(ray: Any, address: str | None, num_workers: int | None) -> None:
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address, log_to_driver=True, logging_level="ERROR")
        return
    ray.init(
        address="local",
        num_cpus=num_workers,
        include_dashboard=False,
        logging_level="ERROR",
    )
