"""Plain errors for bad numbers: which argument, what it must be, what it is."""

import math
from collections.abc import Sequence


def count(name: str, value: int) -> int:
    """Returns `value` as an `int` if it is a whole number of at least 1 (a NumPy integer is)."""
    if not math.isfinite(value) or value != int(value) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, but is {value}.")
    return int(value)


def finite(name: str, value: float) -> float:
    """Returns `value` if it is neither infinite nor NaN."""
    if not math.isfinite(value):
        raise ValueError(f"`{name}` must be finite, but is {value}.")
    return value


def positive(name: str, value: float) -> float:
    """Returns `value` if it is finite and above zero."""
    if not value > 0:
        raise ValueError(f"`{name}` must be positive, but is {value}.")
    return finite(name, value)


def nonnegative(name: str, value: float) -> float:
    """Returns `value` if it is finite and not below zero."""
    if not value >= 0:
        raise ValueError(f"`{name}` must not be negative, but is {value}.")
    return finite(name, value)


def at_least(name: str, value: float, floor: float, why: str) -> float:
    """Returns `value` if it is finite and not below `floor`, up to rounding."""
    if not value >= floor - 1e-9 * abs(floor):
        raise ValueError(f"`{name}` must be at least {floor:.6g} ({why}), but is {value}.")
    return finite(name, value)


def kurtosis(value: float) -> float:
    """Returns `value` if some distribution has it as its fourth standardised moment."""
    return at_least("kurtosis", value, 1.0, "no distribution has less")


def one_of(name: str, value: str, options: Sequence[str]) -> None:
    """Raises if `value` is not among `options`, and lists them."""
    if value not in options:
        known = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {known}, but is {value!r}.")


def given(name: str, value: float | None, why: str) -> float:
    """Returns `value` unless it is `None`, in which case `why` says what needs it."""
    if value is None:
        raise ValueError(f"`{name}` must be given: {why}.")
    return value
