"""Plain errors for bad arguments: which argument, what it must be, what it is."""

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real


def count(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an ``int`` if it is a whole number of at least ``least``.

    NumPy's integers are whole numbers; ``True`` and ``2.0`` are not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}, but is {_shown(value)}."
        )
    return int(value)


def number(name: str, value: object) -> float:
    """Return ``value`` if it is a real number (``True`` is not); it may be infinite or NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"`{name}` must be a number, but is {_shown(value)}.")
    return value  # pyright: ignore[reportReturnType] (Real is what float is registered as)


def finite(name: str, value: float) -> float:
    """Return ``value`` if it is neither infinite nor NaN."""
    if not math.isfinite(value):
        raise ValueError(f"`{name}` must be finite, but is {value}.")
    return value


def positive(name: str, value: float) -> float:
    """Return ``value`` if it is finite and above zero."""
    if not value > 0:
        raise ValueError(f"`{name}` must be positive, but is {value}.")
    return finite(name, value)


def nonnegative(name: str, value: float) -> float:
    """Return ``value`` if it is finite and not below zero."""
    if not value >= 0:
        raise ValueError(f"`{name}` must not be negative, but is {value}.")
    return finite(name, value)


def at_least(name: str, value: float, floor: float, why: str) -> float:
    """Return ``value`` if it is finite and not below ``floor``, up to rounding."""
    if not value >= floor - 1e-9 * abs(floor):
        raise ValueError(f"`{name}` must be at least {floor:.6g} ({why}), but is {value}.")
    return finite(name, value)


def kurtosis(value: float) -> float:
    """Return ``value`` if some distribution has it as its fourth standardised moment."""
    return at_least("kurtosis", value, 1.0, "no distribution has less")


def one_of(name: str, value: object, options: Sequence[str]) -> None:
    """Raise if ``value`` is not among ``options``, and list them."""
    if value not in options:
        known = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {known}, but is {value!r}.")


def given(name: str, value: float | None, why: str) -> float:
    """Return ``value`` unless it is ``None``, in which case ``why`` says what needs it."""
    if value is None:
        raise ValueError(f"`{name}` must be given: {why}.")
    return value


def did_you_mean(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str:
    """A hint at names that are spelt like ``name``, to go into a message; empty if none is.

    >>> did_you_mean("bess", ["gs", "bes"])
    " Did you mean 'bes'?"
    >>> did_you_mean("newton", ["gs", "bes"])
    ''
    """
    near = get_close_matches(str(name), list(known), n=most, cutoff=cutoff)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _shown(value: object) -> str:
    """A value in a message; NumPy's numbers as the number alone."""
    return str(value) if isinstance(value, Real) else repr(value)
