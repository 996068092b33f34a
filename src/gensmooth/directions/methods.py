"""Directions by the name of a method, and the predicted error of each."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from gensmooth import checks, naming, theory
from gensmooth.directions.base import METHODS, Directions, Method, NoClosedForm, check_directions


def named(name: str, *, dim: int | None = None, num_directions: int | None = None) -> Directions:
    """Return the directions of a method.

    Args:
        name: A name in :data:`METHODS`, or ``module:name`` for a method that your own module
            registers when it is imported.
        dim: d. If you pass it, pass ``num_directions`` too.
        num_directions: L. With both, the settings that depend on d and L are filled in.

    >>> named("bes-shrinkage", dim=100, num_directions=20).factor  # 20 / (20 + 100 - 1)
    0.168...
    >>> named("bess")
    Traceback (most recent call last):
    ValueError: 'bess' does not name directions. Did you mean 'bes'? Known: gs, bes, ...
    """
    directions = _find(name).make()
    if (dim is None) != (num_directions is None):
        raise ValueError("Pass both `dim` and `num_directions`, or neither.")
    if dim is None or num_directions is None:
        return directions
    return directions.resolve(
        checks.count("dim", dim), checks.count("num_directions", num_directions)
    )


def _find(name: object, also: Sequence[str] = ()) -> Method:
    if isinstance(name, str) and name in METHODS:
        return METHODS[name]
    module, colon, short_name = checks.text("method", name).rpartition(":")
    if colon:
        naming.load_module(module)
    if short_name not in METHODS:
        hint = checks.did_you_mean(short_name, [*METHODS, *also])
        known = ", ".join([*METHODS, *also])
        if also:
            raise ValueError(f"There is no method {checks.shown(name)}.{hint} Known: {known}.")
        raise ValueError(
            f"{checks.shown(name)} does not name directions.{hint} Known: {known}. For a method "
            "that is a complete search, such as 'auto' or 'cma-es', use gs.search(name, x0)."
        )
    return METHODS[short_name]


def choose_directions(
    name: str | None, directions: object, default: str = "bes", *, also: Sequence[str] = ()
) -> Directions:
    """Return the directions selected by ``method=`` or ``directions=``.

    Args:
        name: The argument ``method``.
        directions: The argument ``directions``.
        default: The method if both are ``None``.
        also: Other names that the caller accepts, to be listed in the error for an unknown name.
    """
    if directions is None:
        return _find(default if name is None else name, also).make()
    if name is not None:
        raise ValueError("Pass either `method=` or `directions=`, not both.")
    refuse_name(directions)
    return check_directions(directions)


def refuse_name(directions: object) -> None:
    """Raise an error if the argument ``directions`` is a name, which belongs in ``method``."""
    if isinstance(directions, str):
        raise TypeError(
            f"`directions` must be an object such as gs.Bernoulli(), but is {directions!r}: for a "
            f"name, pass method={directions!r}."
        )


def predictions(
    dim: int = 100,
    num_directions: int = 20,
    *,
    num_samples: int = 1,
    noise: float = 0.0,
    samples: Literal["paired", "shared"] = "paired",
) -> list[dict[str, Any]]:
    """Predict, for each method, how far its estimate is from the gradient.

    Args:
        dim: d, the number of parameters.
        num_directions: L, the number of directions per step.
        num_samples: N, the number of samples averaged at each point.
        noise: tr Var[∇f] / ‖∇F‖², the noise of a single sample's gradient.
        samples: How the samples are drawn, ``"paired"`` or ``"shared"``.

    Returns:
        One row per method: its name, title and distribution; whether it is in the paper; the
        variance and kurtosis of its directions; the bias of its estimate relative to ∇F; and
        ``relative_mse``, E‖estimate − ∇F‖² / ‖∇F‖². A number without a closed form is ``None``.

    >>> round(predictions(dim=100, num_directions=20)[1]["relative_mse"], 2)  # BeS: (d − 1) / L
    4.95
    """
    checks.one_of("samples", samples, ("paired", "shared"))
    checks.nonnegative("noise", noise)
    rows: list[dict[str, Any]] = []
    for name, entry in METHODS.items():
        directions = named(name, dim=dim, num_directions=num_directions)
        row: dict[str, Any] = {
            "method": name,
            "title": entry.title,
            "distribution": entry.distribution,
            "in_paper": entry.in_paper,
        }
        row |= dict.fromkeys(("variance", "kurtosis", "bias", "relative_mse"))
        with suppress(NoClosedForm):
            row["kurtosis"] = directions.kurtosis(dim, num_directions)
        with suppress(NoClosedForm):
            moments = directions.moments(dim, num_directions)
            row["variance"] = moments.mean
            row["bias"] = theory.relative_bias(moments)
            row["relative_mse"] = theory.mse(
                moments,
                gradient_norm2=1.0,
                noise_trace=noise,
                num_samples=num_samples,
                samples=samples,
            )
        rows.append(row)
    return rows
