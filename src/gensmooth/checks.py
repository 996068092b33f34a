"""Argument checks whose errors name the argument, what it must be, and what it is.

Each check returns a plain Python value: a NumPy number becomes an ``int`` or a ``float`` of the
same value, so that a run computes with exactly the numbers in its configuration.
"""

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_LIMIT = 2**63  # files and kernels store counts in 64 bits


def is_whole(value: object) -> TypeGuard[Integral]:
    """Whether a value is a whole number; ``True`` and NumPy's durations are not."""
    return not isinstance(value, bool) and isinstance(value, Integral) and not _is_duration(value)


def _is_duration(value: object) -> bool:
    return type(value).__name__ == "timedelta64"  # NumPy registers it as an integer


def count(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an ``int`` if it is a whole number of at least ``least``.

    NumPy integers are accepted; ``True`` and ``2.0`` are not.
    """
    if not is_whole(value) or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}, but is {shown(value)}."
        )
    whole = int(value)
    if whole >= _LIMIT:
        raise ValueError(f"`{name}` must be below 2**63, but is {shown(value)}.")
    return whole


def number(name: str, value: object) -> float:
    """Return ``value`` as an ``int`` or ``float`` if it is a real number, inf and NaN included.

    ``True`` is rejected, and so is an integer too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or _is_duration(value):
        raise ValueError(f"`{name}` must be a number, but is {shown(value)}.")
    try:
        as_float = float(value)
    except OverflowError:
        raise ValueError(f"`{name}` must fit in a float, but is {shown(value)}.") from None
    return int(value) if isinstance(value, Integral) else as_float


def finite(name: str, value: object) -> float:
    """Return ``value`` if it is a finite number."""
    checked = number(name, value)
    if not math.isfinite(checked):
        raise ValueError(f"`{name}` must be finite, but is {checked}.")
    return checked


def positive(name: str, value: object, *, infinite: bool = False) -> float:
    """Return ``value`` if it is a number above zero, and finite unless it may be infinite."""
    if not (checked := number(name, value)) > 0:
        raise ValueError(f"`{name}` must be positive, but is {checked}.")
    return checked if infinite else finite(name, checked)


def nonnegative(name: str, value: object) -> float:
    """Return ``value`` if it is a finite number of at least zero."""
    if not (checked := number(name, value)) >= 0:
        raise ValueError(f"`{name}` must not be negative, but is {checked}.")
    return finite(name, checked)


def moderate(name: str, value: object, least: float = 0.0) -> float:
    """Return ``value`` if its powers up to the fourth do not overflow a float.

    With ``least=1e-75``, they do not underflow to 0 either, so the caller may divide by them.
    """
    checked = finite(name, value)
    if not least <= abs(checked) <= 1e75:
        raise ValueError(
            f"`{name}` must be between {least:g} and 1e75 in absolute value, but is {checked:g}."
        )
    return checked


def share(name: str, value: object, *, zero: bool = False, one: bool = False) -> float:
    """Return ``value`` if it is between 0 and 1; ``zero`` and ``one`` include the end points."""
    checked = number(name, value)
    if not (0 < checked < 1 or (zero and checked == 0) or (one and checked == 1)):
        interval = f"in {'[' if zero else '('}0, 1{']' if one else ')'}"
        if not (zero or one):
            interval = "between 0 and 1"
        raise ValueError(f"`{name}` must be {interval}, but is {checked}.")
    return checked


def at_least(name: str, value: object, floor: float, why: str) -> float:
    """Return ``value`` if it is a finite number of at least ``floor``, up to rounding."""
    if not (checked := number(name, value)) >= floor - 1e-9 * abs(floor):
        raise ValueError(f"`{name}` must be at least {floor:.6g} ({why}), but is {checked}.")
    return finite(name, checked)


def kurtosis(value: object) -> float:
    """Return ``value`` if it is a possible kurtosis, the fourth standardised moment."""
    return at_least("kurtosis", value, 1.0, "the smallest kurtosis of any distribution")


def flag(name: str, value: object) -> bool:
    """Return ``value`` as a ``bool`` if it is a Python or NumPy boolean."""
    if isinstance(value, bool):
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "ndim", 1) == 0:
        return bool(value)
    raise ValueError(f"`{name}` must be True or False, but is {shown(value)}.")


def one_of(name: str, value: T, options: Sequence[str]) -> T:
    """Return ``value`` if it is one of ``options``; the error lists them."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {listed}, but is {shown(value)}.")
    return value


def optional(check: Callable[..., T], name: str, value: object, **options: Any) -> T | None:
    """Return ``check(name, value, **options)``, or ``None`` if ``value`` is ``None``."""
    return None if value is None else check(name, value, **options)


def function(name: str, value: T) -> T:
    """Return ``value`` if it is callable."""
    if not callable(value):
        raise TypeError(f"`{name}` must be a function, but is {shown(value)}.")
    return value


def callback(name: str, value: T) -> T:
    """Return ``value`` if it can be called as ``callback(intermediate_result)``.

    >>> callback("callback", lambda info, state: None)
    Traceback (most recent call last):
    TypeError: `callback` is called with one argument, the result so far, but takes (info, state).
    """
    if not callable(value):
        raise TypeError(f"`{name}` must be a function, but is {shown(value)}.")
    with suppress(ValueError):  # a built-in function without a signature
        signature = inspect.signature(value)
        try:
            signature.bind(None)
        except TypeError:
            raise TypeError(
                f"`{name}` is called with one argument, the result so far, but takes {signature}."
            ) from None
    return value


def text(name: str, value: object) -> str:
    """Return ``value`` if it is a non-empty string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{name}` must be a non-empty string, but is {shown(value)}.")
    return value


def mapping(name: str, value: object) -> dict[str, Any]:
    """Return ``value`` as a ``dict`` if it is a mapping whose keys are non-empty strings."""
    if not isinstance(value, Mapping):
        raise TypeError(f"`{name}` must be a mapping, but is {shown(value)}.")
    return {text(name, key): item for key, item in cast(Mapping[object, Any], value).items()}


def path(name: str, value: object) -> Path:
    """Return ``value`` as a path; an empty path, which means the working folder, is rejected."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be a path, but is {shown(value)}.")
    pathlike = cast("str | os.PathLike[Any]", value)
    plain: object = os.fspath(pathlike)
    if not isinstance(plain, str) or not plain or "\0" in plain:
        raise ValueError(f"`{name}` must be a path, but is {shown(pathlike)}.")
    return Path(plain)


def reals(name: str, values: object) -> Any:
    """Return ``values`` as a NumPy array of booleans, integers or floats.

    Strings, dates and complex numbers are rejected, although NumPy could convert some of them.
    """
    import numpy as np  # here, so that `theory` can be imported without NumPy

    try:
        array = np.asarray(values)
        kind = array.dtype.kind
        not_real = kind == "O" and any(isinstance(v, str | bytes | complex) for v in array.flat)
        if values is None or kind in "cmMSUT" or not_real:
            raise TypeError
        return array if kind in "biuf" else array.astype(np.float64)
    except Exception as error:  # a user's object may raise anything
        raise TypeError(f"`{name}` must be numbers, but is {shown(values)}.") from error


def python(value: Any) -> Any:
    """Convert a NumPy number or boolean to a Python one; return anything else unchanged."""
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        return value
    kinds: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float}
    return kinds.get(value.dtype.kind, lambda unchanged: unchanged)(value)


def settle(instance: object, /, **values: object) -> None:
    """Store checked values in a frozen dataclass; call this at the end of its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


OTHER_SEARCH = (
    "The state belongs to another search: pass one that `init` or `tell` of this search returned."
)


def state_part(part: object, kind: type[T]) -> T:
    """Return a part of a search's state; raise an error unless it has the type of this search."""
    if not isinstance(part, kind):
        raise ValueError(OTHER_SEARCH)
    return part


def required(name: str, value: float | None, why: str) -> float:
    """Return ``value`` unless it is ``None``; the error then gives ``why`` as the reason."""
    if value is None:
        raise ValueError(f"`{name}` is required: {why}.")
    return value


def did_you_mean(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str:
    """Return a hint for an error message with the names closest to ``name``, or an empty string.

    >>> did_you_mean("bess", ["gs", "bes"])
    " Did you mean 'bes'?"
    >>> did_you_mean("newton", ["gs", "bes"]), did_you_mean("BES", ["gs", "bes"])
    ('', " Did you mean 'bes'?")
    """
    folded = {option.casefold(): option for option in known}
    matches = get_close_matches(str(name).casefold(), list(folded), n=most, cutoff=cutoff)
    names = [folded[match] for match in matches]
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def shown(value: object) -> str:
    """Format a value for a message: a NumPy number as a plain number, and at most 80 characters."""
    try:
        text = str(value) if isinstance(value, Real) else repr(value)
    except Exception:  # an integer with too many digits, or a user's object
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- unknown arguments ---------------------------------------------------------------------------

_NO_DERIVATIVES = "derivatives are not used, so omit it"
_BUDGET = "use `budget`, the maximum number of evaluations"
_STEPS = "use `max_steps` to limit the steps, or `budget` to limit the evaluations"
_SPACING = "use `spacing`, or `x_scale` for method='auto'"

# Argument names from SciPy, Nevergrad, pycma, ARS and Optax, with what to use here instead.
FOREIGN: Mapping[str, str] = {
    "tol": "use `tolerance`, which ends a run when its steps get this short",
    **dict.fromkeys(("xtol", "ftol", "gtol", "xatol", "fatol"), "use `tolerance` or `target`"),
    **dict.fromkeys(("maxiter", "max_iter", "niter", "n_iter"), _STEPS),
    "iterations": _STEPS,
    "budget": "use `max_steps` or `max_seconds`",  # of a training
    "max_steps": "use `budget`, the evaluations of each run",  # of a comparison
    **dict.fromkeys(("maxfun", "maxfev", "max_nfev", "maxfevals", "maxevals"), _BUDGET),
    **dict.fromkeys(("max_evaluations", "max_evals", "num_evaluations", "n_trials"), _BUDGET),
    **dict.fromkeys(("max_time", "maxtime", "time_limit"), "use `max_seconds`"),
    "options": "pass each option as its own argument, such as `budget` or `tolerance`",
    **dict.fromkeys(("jac", "hess", "hessp", "grad"), _NO_DERIVATIVES),
    "constraints": "only `bounds` are supported: for others, add a penalty to the objective",
    **dict.fromkeys(("disp", "verbose", "verbosity"), "use `progress`"),
    **dict.fromkeys(("func", "f", "objective"), "use `fun`, the first argument"),
    **dict.fromkeys(("x_init", "init", "initial"), "use `x0`, the second argument"),
    **dict.fromkeys(("random_state", "rng", "random_seed"), "use `seed`"),
    **dict.fromkeys(("n_jobs", "num_workers", "processes", "n_workers"), "use `workers`"),
    **dict.fromkeys(("popsize", "population_size"), "use `population` or `num_directions`"),
    "population": "use `num_directions`",
    **dict.fromkeys(("sigma", "sigma0", "delta_std", "stepsize"), _SPACING),
    **dict.fromkeys(("lr", "eta", "step_size"), "use `learning_rate`"),
    "learning_rate": "use `lr`",  # in torch
    **dict.fromkeys(("checkpoint", "out", "resume"), "use `folder`, the folder of the run"),
    "paired_resets": "use `resets`, such as resets='paired'",
}  # fmt: skip


def explains_unknown(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function suggest the right argument when it is called with an unknown one.

    >>> @explains_unknown
    ... def minimize(fun, x0, *, tolerance=None, budget=100): ...
    >>> minimize(abs, 1.0, tol=0.1)
    Traceback (most recent call last):
    TypeError: minimize() has no argument `tol`: use `tolerance`, which ends a run when its ...
    """
    parameters = inspect.signature(function).parameters
    known = [name for name in parameters if name != "self"]
    names = set(known)
    by_position = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    positional = [name for name in by_position if name != "self"]
    label = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        if not kwargs.keys() <= names:
            name = next(name for name in kwargs if name not in names)
            hint = _hint(name, known)
            end = "" if hint.endswith("?") else "."
            raise TypeError(f"{label}() has no argument `{name}`: {hint}{end}")
        if len(args) > len(by_position):
            passed = len(args) - len(by_position) + len(positional)
            raise TypeError(
                f"{label}() takes only {' and '.join(map(repr, positional))} by position, but got "
                f"{passed} positional arguments: pass the others by name."
            )
        return function(*args, **kwargs)

    return explained


def _hint(name: str, known: Sequence[str]) -> str:
    """Say what to use instead of an unknown argument of a function with the arguments ``known``."""
    hint = FOREIGN.get(name, "")
    suggested = set(re.findall(r"`(\w+)`", hint))
    if hint and (not suggested or suggested & set(known)):
        return hint
    similar = "" if hint else did_you_mean(name, known)
    return similar.strip() or f"its arguments are {', '.join(known)}"
