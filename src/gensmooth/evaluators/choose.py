"""What ``workers=`` means: SciPy's convention, plus our evaluators."""

import os
from collections.abc import Callable, Iterable
from operator import index as as_index
from typing import Any, SupportsIndex, cast

from gensmooth.evaluators.base import Evaluator
from gensmooth.evaluators.serial import Serial

Workers = int | Callable[..., Iterable[Any]] | Evaluator


def as_evaluator(workers: Any = 1, *, timeout: float | None = None, retries: int = 0) -> Evaluator:
    """The evaluator that ``workers=`` asks for.

    Args:
        workers: 1 evaluates here, one after the other; n in n processes; −1 in one process a
            core; a map-like callable, such as ``executor.map``, is called with a function and
            work items; an evaluator is taken as it is.
        timeout: Seconds that one evaluation may take, where there is a process to stop.
        retries: How often a failed evaluation is tried again, with the same seeds.

    >>> as_evaluator(1)
    Serial(retries=0)
    >>> as_evaluator(1, timeout=5)
    Traceback (most recent call last):
    ValueError: `timeout` needs a process to stop, ...
    """
    if hasattr(workers, "session"):
        if timeout is not None or retries:
            raise ValueError(
                f"`workers` is an evaluator: give `timeout` and `retries` to it, as in "
                f"{type(workers).__name__}(..., timeout=…, retries=…)."
            )
        return cast(Evaluator, workers)
    if callable(workers):
        _refuse_timeout(timeout, "a map-like callable has its own workers")
        from gensmooth.evaluators.maplike import MapLike

        return MapLike(cast(Callable[..., Iterable[Any]], workers), retries=retries)
    if isinstance(workers, bool) or not isinstance(workers, SupportsIndex):
        raise TypeError(
            "`workers` must be a number, a map-like callable such as executor.map, or an evaluator "
            f"such as gs.evaluators.Processes(4), but is {workers!r}."
        )
    number = as_index(workers)
    if number == 1:
        _refuse_timeout(timeout, "workers=1 evaluates in this one")
        return Serial(retries=retries)
    if number < 1 and number != -1:
        raise ValueError(f"`workers` must be at least 1, or -1 for all cores, but is {number}.")
    from gensmooth.evaluators.processes import Processes

    return Processes(number if number > 0 else cores(), timeout=timeout, retries=retries)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _refuse_timeout(timeout: float | None, why: str) -> None:
    if timeout is not None:
        raise ValueError(
            f"`timeout` needs a process to stop, and {why}. To stop an evaluation that hangs, use "
            f"workers=gs.evaluators.Processes(1, timeout={timeout:g}), or more workers."
        )
