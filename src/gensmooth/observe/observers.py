"""The interface for monitoring a run: tables, log lines, experiment trackers."""

import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, final, runtime_checkable

from gensmooth import checks
from gensmooth.searches import StepInfo

_WINDOW = 30.0  # seconds over which the rate is measured
_SPACING = 0.2  # seconds between the samples stored for it
_log = logging.getLogger("gensmooth")


class Start(NamedTuple):
    """Data about a run when it begins or is resumed.

    Attributes:
        run: The run's random name, which stays the same when it is resumed.
        config: The contents of its ``config.json``.
        step: The number of steps completed before.
        evaluations: The number of evaluations completed before.
        budget: The maximum number of evaluations, counted from the run's beginning; ``None`` if
            they are not limited.
        max_steps: The maximum number of steps, counted from the run's beginning.
        words: Other terms for the names that displays show, such as ``{"step": "iteration"}``.
        message: Whether the run starts or resumes, and from where, as a sentence.
    """

    run: str
    config: Mapping[str, Any]
    step: int
    evaluations: int = 0
    budget: int | None = None
    max_steps: int | None = None
    words: Mapping[str, str] = {}
    message: str = ""


class StepData(NamedTuple):
    """What a program reports about a step.

    Attributes:
        info: The step's info.
        workers: The number of workers.
        more: Additional numbers by name.
    """

    info: StepInfo
    workers: int
    more: Mapping[str, float] = {}


class Progress(NamedTuple):
    """The progress of a run after a step.

    Attributes:
        info: The step's info.
        faults: The number of faults so far, by kind.
        workers: The number of workers.
        seconds: Seconds since the run began or was resumed.
        rate: Evaluations per second over the last half minute.
        remaining: Seconds until the budget or the steps are used up, at that rate; ∞ after the
            first step, which starts workers and compiles and therefore predicts nothing.
        more: Additional numbers for this step, by name.
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
    """An object that monitors a run. A custom tracker implements these three methods."""

    def start(self, start: Start) -> None:
        """Called before the first step of a new or resumed run. An exception here ends the run."""
        ...

    def step(self, progress: Progress) -> None:
        """Called after each step. If it raises, the run continues without this tracker."""
        ...

    def end(self, summary: Mapping[str, Any]) -> None:
        """Called at the end, with ``reason``, ``fun``, ``best_fun``, ``nfev``, ``nit`` and more."""
        ...


@final
class Observers:
    """All trackers of a run. A tracker that raises during the run is logged and removed.

    Attributes:
        has_display: Whether one of them shows the progress on the terminal.

    Args:
        trackers: The trackers; a single one may be passed without a list.
        progress: Whether to show the progress; see :func:`~gensmooth.observe.display`.
    """

    def __init__(self, trackers: Sequence[Any] = (), *, progress: bool | None = False) -> None:
        checks.optional(checks.flag, "progress", progress)
        single: Any = trackers
        try:
            trackers = [single] if callable(getattr(single, "step", None)) else list(trackers)
        except Exception:  # a user's object may raise any exception
            raise TypeError(
                "`trackers` must be a tracker or a list of trackers, but is "
                f"{checks.shown(trackers)}."
            ) from None
        terminal = getattr(sys.stderr, "isatty", bool)()  # a daemon may have no standard error
        self.has_display = bool(progress or (progress is None and terminal))
        if self.has_display:
            from gensmooth.observe.table import display

            trackers = [*trackers, *display(progress)]
        for tracker in trackers:
            if not isinstance(tracker, Tracker):
                raise TypeError(
                    "`trackers` must be objects with the methods start, step and end, such as "
                    f"gs.observe.TensorBoard('logs'), but one is {checks.shown(tracker)}."
                )
        self._all: list[Tracker] = list(trackers)
        self._active: list[Tracker] = []  # started, and not removed after an exception

    def __bool__(self) -> bool:
        return bool(self._all)

    def start(self, start: Start, faults: Mapping[str, int]) -> None:
        """See :class:`Tracker`; ``faults`` are those of earlier steps."""
        self._start = start
        self._faults = Counter(faults)
        self._began = time.monotonic()
        self._meter = Meter(self._began, start.evaluations)
        for tracker in self._all:
            tracker.start(start)
            self._active.append(tracker)

    def step(self, data: StepData, faults: Mapping[str, int]) -> None:
        """See :class:`Tracker`; ``faults`` are those of this step."""
        self._faults.update(faults)
        now = time.monotonic()
        rate = self._meter.rate(now, data.info.evaluations)
        progress = Progress(
            info=data.info,
            faults=dict(self._faults),
            workers=data.workers,
            seconds=now - self._began,
            rate=rate,
            remaining=self._remaining(data.info) / rate
            if rate and self._meter.is_reliable
            else float("inf"),
            more=data.more,
        )
        for tracker in list(self._active):
            self._try(tracker, "step", progress)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`Tracker`."""
        for tracker in list(self._active):
            self._try(tracker, "end", summary)

    def _try(self, tracker: Tracker, what: str, argument: Any) -> None:
        try:
            getattr(tracker, what)(argument)
        except Exception as error:
            self._active.remove(tracker)
            _log.warning(
                "The tracker %s raised %s and is not called again in this run: %s",
                type(tracker).__name__,
                type(error).__name__,
                error,
            )

    def _remaining(self, info: StepInfo) -> float:
        """The number of remaining evaluations."""
        budget, steps = self._start.budget, self._start.max_steps
        left = float("inf") if budget is None else budget - info.evaluations
        if steps is not None:
            per_step = info.evaluations / (info.step + 1)
            left = min(left, (steps - info.step - 1) * per_step)
        return max(left, 0.0)


@final
class Meter:
    """Measures evaluations per second over the last half minute, with the seconds of any clock."""

    def __init__(self, now: float, evaluations: int) -> None:
        self._began = now
        self._before = evaluations
        self._samples: deque[tuple[float, int]] = deque()

    @property
    def is_reliable(self) -> bool:
        """Whether the rate can predict the remaining time: from the second step on."""
        return len(self._samples) > 1

    def rate(self, now: float, evaluations: int) -> float:
        """The rate after a step that ended at ``now``."""
        samples = self._samples
        if not samples:  # not representative: the first step starts workers and compiles
            samples.append((now, evaluations))
            return (evaluations - self._before) / max(now - self._began, 1e-9)
        if now - samples[-1][0] >= _SPACING or len(samples) == 1:
            samples.append((now, evaluations))
            while len(samples) > 2 and now - samples[0][0] > _WINDOW:
                samples.popleft()
        then, before = samples[0]
        return (evaluations - before) / max(now - then, 1e-9)


def scalars(progress: Progress) -> dict[str, float]:
    """The numbers of a step by name, for trackers to plot; missing ones are omitted."""
    info = progress.info
    numbers: dict[str, float | None] = {
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
    return {name: float(value) for name, value in numbers.items() if value is not None}


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a configuration to dotted names and scalar values; lists are omitted.

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
