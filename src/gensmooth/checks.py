"""Plain errors for bad arguments: which argument, what it must be, what it is.

What comes back is Python's own: a NumPy number becomes an ``int`` or a ``float`` of the same value,
so that a run counts with the numbers that its configuration has.
"""

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_LARGEST = 2**63  # counts are below: files and kernels have 64 bits for them


def count(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an ``int`` if it is a whole number of at least ``least``.

    NumPy's integers are whole numbers; ``True`` and ``2.0`` are not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}, but is {shown(value)}."
        )
    whole = int(value)
    if whole >= _LARGEST:
        raise ValueError(f"`{name}` must be below 2**63, but is {shown(value)}.")
    return whole


def number(name: str, value: object) -> float:
    """Return ``value`` as an ``int`` or ``float`` if it is a real number; inf and NaN are.

    ``True`` is not, and neither is an integer that no float can hold.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"`{name}` must be a number, but is {shown(value)}.")
    try:
        as_float = float(value)
    except OverflowError:
        raise ValueError(f"`{name}` must fit a float, but is {shown(value)}.") from None
    return int(value) if isinstance(value, Integral) else as_float


def finite(name: str, value: object) -> float:
    """Return ``value`` if it is a number, neither infinite nor NaN."""
    found = number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"`{name}` must be finite, but is {found}.")
    return found


def positive(name: str, value: object) -> float:
    """Return ``value`` if it is a finite number above zero."""
    if not (found := number(name, value)) > 0:
        raise ValueError(f"`{name}` must be positive, but is {found}.")
    return finite(name, found)


def nonnegative(name: str, value: object) -> float:
    """Return ``value`` if it is a finite number not below zero."""
    if not (found := number(name, value)) >= 0:
        raise ValueError(f"`{name}` must not be negative, but is {found}.")
    return finite(name, found)


def moderate(name: str, value: object, least: float = 0.0) -> float:
    """Return ``value`` if its powers up to the fourth fit a float.

    Where they are divided by, ``least`` is 1e-75, so that they are not zero either.
    """
    found = finite(name, value)
    if not least <= abs(found) <= 1e75:
        raise ValueError(f"`{name}` must be between {least:g} and 1e75 in size, but is {found:g}.")
    return found


def share(name: str, value: object, *, zero: bool = False, one: bool = False) -> float:
    """Return ``value`` if it is a number between 0 and 1; ``zero`` and ``one`` let these in."""
    found = number(name, value)
    if not (0 < found < 1 or (zero and found == 0) or (one and found == 1)):
        where = f"in {'[' if zero else '('}0, 1{']' if one else ')'}"
        if not (zero or one):
            where = "between 0 and 1"
        raise ValueError(f"`{name}` must be {where}, but is {found}.")
    return found


def at_least(name: str, value: object, floor: float, why: str) -> float:
    """Return ``value`` if it is a finite number not below ``floor``, up to rounding."""
    if not (found := number(name, value)) >= floor - 1e-9 * abs(floor):
        raise ValueError(f"`{name}` must be at least {floor:.6g} ({why}), but is {found}.")
    return finite(name, found)


def kurtosis(value: object) -> float:
    """Return ``value`` if some distribution has it as its fourth standardised moment."""
    return at_least("kurtosis", value, 1.0, "no distribution has less")


def flag(name: str, value: object) -> bool:
    """Return ``value`` as a ``bool`` if it is True or False, Python's or NumPy's."""
    if isinstance(value, bool):
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "ndim", 1) == 0:
        return bool(value)
    raise ValueError(f"`{name}` must be True or False, but is {shown(value)}.")


def one_of(name: str, value: T, options: Sequence[str]) -> T:
    """Return ``value`` if it is among ``options``; if not, list them."""
    if not isinstance(value, str) or value not in options:
        known = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {known}, but is {shown(value)}.")
    return value


def optional(check: Callable[..., T], name: str, value: object, **how: Any) -> T | None:
    """``check(name, value)``, except that ``None`` is itself."""
    return None if value is None else check(name, value, **how)


def function(name: str, value: T) -> T:
    """Return ``value`` if it can be called."""
    if not callable(value):
        raise TypeError(f"`{name}` must be a function, but is {shown(value)}.")
    return value


def text(name: str, value: object) -> str:
    """Return ``value`` if it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{name}` must be a name, but is {shown(value)}.")
    return value


def mapping(name: str, value: object) -> dict[str, Any]:
    """Return ``value`` as a ``dict`` if it maps names to something."""
    if not isinstance(value, Mapping):
        raise TypeError(f"`{name}` must be a mapping, but is {shown(value)}.")
    return {text(name, key): each for key, each in cast(Mapping[object, Any], value).items()}


def path(name: str, value: object) -> Path:
    """Return ``value`` as a path; an empty one, which would be the working folder, is refused."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be a path, but is {shown(value)}.")
    given = cast("str | os.PathLike[Any]", value)
    found: object = os.fspath(given)
    if not isinstance(found, str) or not found or "\0" in found:
        raise ValueError(f"`{name}` must be a path, but is {shown(given)}.")
    return Path(found)


def reals(name: str, values: object) -> Any:
    """Return ``values`` as a NumPy array of real numbers, whatever their type.

    Strings, dates and complex numbers are refused, where NumPy would make numbers of them.
    """
    import numpy as np  # the theory, which asks for no arrays, does without

    try:
        array = np.asarray(values)
        kind = array.dtype.kind
        words = kind == "O" and any(isinstance(each, str | bytes | complex) for each in array.flat)
        if values is None or kind in "cmMSUT" or words:
            raise TypeError
        return array if kind in "biuf" else array.astype(np.float64)
    except Exception as error:  # an object of the user's may raise anything
        raise TypeError(f"`{name}` must be numbers, but is {shown(values)}.") from error


def python(value: Any) -> Any:
    """NumPy's number as Python's of the same value; anything else as it is."""
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        return value
    kinds: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float}
    return kinds.get(value.dtype.kind, lambda same: same)(value)


def settle(made: object, **values: object) -> None:
    """Put checked values into a frozen dataclass: the last line of its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(made, name, value)


def given(name: str, value: float | None, why: str) -> float:
    """Return ``value`` unless it is ``None``, in which case ``why`` says what needs it."""
    if value is None:
        raise ValueError(f"`{name}` must be given: {why}.")
    return value


def did_you_mean(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str:
    """A hint at names that are spelt like ``name``, to go into a message; empty if none is.

    >>> did_you_mean("bess", ["gs", "bes"])
    " Did you mean 'bes'?"
    >>> did_you_mean("newton", ["gs", "bes"]), did_you_mean("BES", ["gs", "bes"])
    ('', " Did you mean 'bes'?")
    """
    folded = {each.casefold(): each for each in known}
    found = get_close_matches(str(name).casefold(), list(folded), n=most, cutoff=cutoff)
    near = [folded[each] for each in found]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def shown(value: object) -> str:
    """A value in a message: NumPy's numbers as the number alone, nothing at length."""
    try:
        text = str(value) if isinstance(value, Real) else repr(value)
    except Exception:  # such as an integer of too many digits, or an object of the user's
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- arguments that there are not ----------------------------------------------------------------

_NO_DERIVATIVES = "no derivatives are used, so leave it out"
_BUDGET = "use `budget`, the evaluations to spend at most"
_STEPS = "use `max_steps`, the steps to make at most, or `budget`, the evaluations"
_SPACING = "use `spacing`, or `x_scale` for method='auto'"

# What SciPy, Nevergrad, pycma, ARS and Optax call it.
FOREIGN: Mapping[str, str] = {
    "tol": "use `tolerance`, which ends a run whose steps are that short",
    **dict.fromkeys(("xtol", "ftol", "gtol", "xatol", "fatol"), "use `tolerance` or `target`"),
    **dict.fromkeys(("maxiter", "max_iter", "niter", "n_iter"), _STEPS),
    "iterations": "use `max_steps`",
    **dict.fromkeys(("maxfun", "maxfev", "max_nfev", "maxfevals", "n_trials"), _BUDGET),
    "options": "give each option by itself, such as `budget` or `tolerance`",
    **dict.fromkeys(("jac", "hess", "hessp", "grad"), _NO_DERIVATIVES),
    "constraints": "only `bounds` are known: add a penalty to the objective for the rest",
    **dict.fromkeys(("disp", "verbose", "verbosity"), "use `progress`"),
    **dict.fromkeys(("func", "f", "objective"), "use `fun`, the first argument"),
    **dict.fromkeys(("x_init", "init", "initial"), "use `x0`, the second argument"),
    **dict.fromkeys(("random_state", "rng", "random_seed"), "use `seed`"),
    **dict.fromkeys(("n_jobs", "num_workers", "processes", "n_workers"), "use `workers`"),
    **dict.fromkeys(("popsize", "population", "population_size"), "use `num_directions`"),
    **dict.fromkeys(("sigma", "sigma0", "delta_std", "stepsize"), _SPACING),
    **dict.fromkeys(("lr", "learning_rate"), "use `optimizer`, as in optimizer=gs.sgd(0.01)"),
    **dict.fromkeys(("resume", "folder", "out"), "use `checkpoint`, a folder for the run"),
}  # fmt: skip


def explains_unknown(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function answer an argument that it does not know with its own word for it.

    >>> @explains_unknown
    ... def minimize(fun, x0, *, tolerance=None, budget=100): ...
    >>> minimize(abs, 1.0, tol=0.1)
    Traceback (most recent call last):
    TypeError: minimize() has no argument `tol`: use `tolerance`, which ends a run whose steps ...
    """
    known = inspect.signature(function).parameters
    by_place = [name for name, each in known.items() if each.kind is each.POSITIONAL_OR_KEYWORD]

    @wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                hint = FOREIGN.get(name, "")
                ours = set(re.findall(r"`(\w+)`", hint))
                if not hint or (ours and not ours & set(known)):
                    near = did_you_mean(name, known)
                    hint = near.strip() or f"it has {', '.join(known)}"
                end = "" if hint.endswith("?") else "."
                raise TypeError(f"{function.__name__}() has no argument `{name}`: {hint}{end}")
        if len(args) > len(by_place):
            raise TypeError(
                f"{function.__name__}() takes {' and '.join(map(repr, by_place))} by their place, "
                f"and everything else by its name, but got {len(args)} arguments by their place."
            )
        return function(*args, **kwargs)

    return explained
