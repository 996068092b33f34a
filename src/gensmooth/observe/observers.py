"""The one interface for whatever follows a run: tables, log lines, experiment trackers."""

import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, final, runtime_checkable

from gensmooth import checks
from gensmooth.search import StepInfo

_WINDOW = 30.0  # seconds that the rate is taken over
_SPACING = 0.2  # seconds between the moments that are remembered for it
_log = logging.getLogger("gensmooth")


class Start(NamedTuple):
    """What is known when a run begins, or goes on.

    Attributes:
        run: A random name of the run, the same when it is resumed.
        config: The contents of its ``config.json``.
        step: Steps made before.
        evaluations: Evaluations made before.
        budget: Evaluations to make at most, and
        max_steps: steps to make at most, counted from the run's beginning.
        words: What a step, its evaluations and its value are called here, if not so.
    """

    run: str
    config: Mapping[str, Any]
    step: int
    evaluations: int = 0
    budget: int = 0
    max_steps: int | None = None
    words: Mapping[str, str] = {}


class Seen(NamedTuple):
    """What a program tells of a step.

    Attributes:
        info: The step.
        workers: Workers alive.
        more: Further numbers, by name.
    """

    info: StepInfo
    workers: int
    more: Mapping[str, float] = {}


class Progress(NamedTuple):
    """What is known after a step.

    Attributes:
        info: The step.
        faults: Events so far, by kind.
        workers: Workers alive.
        seconds: Since the run began or was resumed.
        rate: Evaluations per second, over the last half minute.
        remaining: Seconds until the budget is spent or the steps are made, at that rate.
        more: Further numbers of this step, by name.
    """

    info: StepInfo
    faults: Mapping[str, int]
    workers: int
    seconds: float
    rate: float
    remaining: float
    more: Mapping[str, float] = {}


@runtime_checkable
class Tracker(Protocol):
    """Something that follows a run. Write your own with these three methods."""

    def start(self, start: Start) -> None:
        """The run begins or goes on. An error here ends it before it has cost anything."""
        ...

    def step(self, progress: Progress) -> None:
        """A step was made. A tracker that raises here is left out from then on; the run goes on."""
        ...

    def end(self, summary: Mapping[str, Any]) -> None:
        """The run is over; ``status``, ``fun``, ``best_fun``, ``nfev``, ``nit`` of the result."""
        ...


@final
class Observers:
    """All that follow a run. What they raise during it is logged once and does not stop it.

    Args:
        trackers: Trackers.
        progress: Whether a person sees it, too; see :func:`~gensmooth.observe.display`.
    """

    def __init__(self, trackers: Sequence[Any] = (), *, progress: bool | None = False) -> None:
        checks.optional(checks.flag, "progress", progress)
        alone: Any = trackers
        try:
            trackers = [alone] if callable(getattr(alone, "step", None)) else list(trackers)
        except Exception:  # an object of the user's may raise anything
            raise TypeError(
                f"`trackers` must be a list of trackers, or one, but is {checks.shown(trackers)}."
            ) from None
        terminal = getattr(sys.stderr, "isatty", bool)()  # a daemon may have no such stream
        if progress or (progress is None and terminal):
            from gensmooth.observe.table import display

            trackers = [*trackers, *display(progress)]
        for tracker in trackers:
            if not isinstance(tracker, Tracker):
                raise TypeError(
                    "`trackers` must be objects with start, step and end, such as "
                    f"gs.observe.TensorBoard('logs'), but one is {checks.shown(tracker)}."
                )
        self._given: list[Tracker] = list(trackers)
        self._trackers: list[Tracker] = []  # those that have started

    def __bool__(self) -> bool:
        return bool(self._given)

    def start(self, start: Start, faults: Mapping[str, int]) -> None:
        """See :class:`Tracker`; ``faults`` are those of the steps made before."""
        self._start = start
        self._faults = Counter(faults)
        self._began = time.monotonic()
        self._meter = Meter(self._began, start.evaluations)
        for tracker in self._given:
            tracker.start(start)
            self._trackers.append(tracker)

    def step(self, seen: Seen, faults: Mapping[str, int]) -> None:
        """See :class:`Tracker`; ``faults`` are those of this step."""
        self._faults.update(faults)
        now = time.monotonic()
        rate = self._meter.rate(now, seen.info.evaluations)
        progress = Progress(
            info=seen.info,
            faults=dict(self._faults),
            workers=seen.workers,
            seconds=now - self._began,
            rate=rate,
            remaining=self._remaining(seen.info) / rate if rate else float("inf"),
            more=seen.more,
        )
        for tracker in list(self._trackers):
            self._try(tracker, "step", progress)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`Tracker`."""
        for tracker in list(self._trackers):
            self._try(tracker, "end", summary)

    def _try(self, tracker: Tracker, what: str, argument: Any) -> None:
        try:
            getattr(tracker, what)(argument)
        except Exception as error:
            self._trackers.remove(tracker)
            _log.warning(
                "%s no longer follows the run: it raised %s: %s",
                type(tracker).__name__,
                type(error).__name__,
                error,
            )

    def _remaining(self, info: StepInfo) -> float:
        """Evaluations still to make."""
        left = self._start.budget - info.evaluations
        if self._start.max_steps is not None:
            per_step = info.evaluations / (info.step + 1)
            left = min(left, (self._start.max_steps - info.step - 1) * per_step)
        return max(left, 0)


@final
class Meter:
    """Evaluations per second over the last half minute.

    Args:
        now: When the run begins or goes on, in seconds of any clock.
        evaluations: Evaluations made before.
    """

    def __init__(self, now: float, evaluations: int) -> None:
        self._began = now
        self._before = evaluations
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, evaluations: int) -> float:
        """The rate after a step that ended ``now``."""
        seen = self._seen
        if not seen:  # the first step starts workers and compiles: no measure of the others
            seen.append((now, evaluations))
            return (evaluations - self._before) / max(now - self._began, 1e-9)
        if now - seen[-1][0] >= _SPACING or len(seen) == 1:
            seen.append((now, evaluations))
            while len(seen) > 2 and now - seen[0][0] > _WINDOW:
                seen.popleft()
        then, before = seen[0]
        return (evaluations - before) / max(now - then, 1e-9)


def scalars(progress: Progress) -> dict[str, float]:
    """The numbers of a step by name, as trackers plot them; those that exist."""
    info = progress.info
    found: dict[str, float | None] = {
        "value": info.value,
        "best_value": info.best_value,
        "gradient_norm": info.gradient_norm,
        "standard_error": info.standard_error,
        "signal_to_noise": info.signal_to_noise,
        "step_size": info.step_size,
        "dropped": info.dropped,
        "evaluations": info.evaluations,
        "evaluations_per_second": progress.rate,
        "workers": progress.workers,
        **{f"faults/{kind}": count for kind, count in progress.faults.items()},
        **progress.more,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as flat names and short values, for trackers that want those.

    >>> flat_settings({"seed": 1, "search": {"spacing": 0.1}, "x0": {"values": [0.0] * 99}})
    {'seed': 1, 'search.spacing': 0.1}
    """
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            inner = flat_settings(cast(dict[str, Any], value))
            flat |= {f"{name}.{key}": item for key, item in inner.items()}
        elif not isinstance(value, list):
            flat[name] = value
    return flat
