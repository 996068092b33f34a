"""Advice about a finished run: problems that did not end it, and what to do about them."""

import logging
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gensmooth.parameters import as_bounds
from gensmooth.searches import Search, SearchState, StepInfo

Array = NDArray[Any]

_SIGNIFICANT = 2.0  # standard errors; a smaller difference may be noise


def advice(
    search: Search,
    x0: Array,
    state: SearchState,
    steps: Sequence[StepInfo],
    *,
    value: float,
    error: float | None,
    noise: float | None,
    budget: int | None,
) -> list[str]:
    """Return warnings for the user about a finished run, each with what to do.

    ``value`` is the objective at the end, ``error`` its standard error if it is a mean, and
    ``noise`` the standard deviation of one value if it was measured.
    """
    warnings = _on_bounds(search, x0)
    if budget is not None and budget < 2 * x0.size and len(steps) < 10:
        warnings.append(
            f"A budget of {budget} evaluations is small for {x0.size} parameters: allow at least "
            f"{20 * x0.size}."
        )
    elif (
        budget is not None
        and search.has_only_begun(state)
        and state.evaluations + search.next_evaluations(state) > budget  # not `max_steps`
    ):
        warnings.append(
            f"A budget of {budget} evaluations is too small for a step: all of it was spent on "
            f"finding out whether values are noisy. Allow at least {20 * x0.size}."
        )
    if not steps:
        return warnings
    if not any(math.isfinite(number) for s in steps for number in (s.value, s.best_value)):
        warnings.append(
            f"None of the {state.evaluations} evaluations gave a finite value: see `faults`, and "
            "check the objective at x0."
        )
    elif search.saw_one_value(state, steps):
        warnings.append(
            f"All values were the same ({steps[0].best_value:g}): the objective does not change "
            f"near x0. Look farther with a larger `{search.reach}`, or check that it depends on x."
        )
    elif math.isfinite(value):
        warnings += _on_progress(search, steps, value, error, noise)
    return warnings


def _on_bounds(search: Search, x0: Array) -> list[str]:
    if search.bounds is None:
        return []
    warnings: list[str] = []
    limits = as_bounds(search.bounds, x0)
    outside = int(((x0 < limits.lower) | (x0 > limits.upper)).sum())
    if outside:
        warnings.append(
            f"x0 lies outside the bounds in {outside} of {x0.size} parameters, and was moved onto "
            "them."
        )
    reach = search.widest_reach(x0.size)
    width = float(np.subtract(limits.upper, limits.lower, dtype=np.float64).min())
    if reach is not None and reach > width:
        warnings.append(
            f"The spacing, {reach:g} in each parameter, is larger than the distance between the "
            f"bounds ({width:g}): every evaluation lies on a limit. Lower `spacing`, or leave it "
            "to the pilot."
        )
    return warnings


def _on_progress(
    search: Search,
    steps: Sequence[StepInfo],
    value: float,
    error: float | None,
    noise: float | None,
) -> list[str]:
    start = steps[0].value
    if not math.isfinite(start):
        return []
    gain = (value - start) if search.maximize else (start - value)
    start_error = 0.0 if noise is None else noise / math.sqrt(2)  # the pilot evaluates x0 twice
    gain_error = math.hypot(start_error, noise or 0.0 if error is None else error)
    if gain < -_SIGNIFICANT * gain_error and gain < -1e-12 * abs(start):
        return [
            f"The end ({value:g}) is worse than the start ({start:g}): use `best_x`, and "
            f"{search.if_worse}"
        ]
    if noise and gain < _SIGNIFICANT * gain_error:
        return [
            f"The gain ({gain:.3g}) is within the noise of a value ({noise:.3g}): the start may "
            "have been as good. To find out, allow more evaluations, or increase "
            "`num_samples`."
        ]
    return []


@contextmanager
def silenced() -> Generator[None]:
    """Suppress the advice that runs log in this context; the caller judges their results itself."""
    logger = logging.getLogger("gensmooth")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
