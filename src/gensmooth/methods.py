"""The table of methods by name, in which each family registers itself."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from gensmooth import checks, naming, theory
from gensmooth.directions import METHODS, Directions, Method, NoClosedForm, check_directions

__all__ = ["METHODS", "Method", "choose_directions", "method", "predictions"]


def method(name: str, *, dim: int | None = None, num_directions: int | None = None) -> Directions:
    """Return the directions of a method.

    Args:
        name: One of :data:`METHODS`, or ``module:name`` for a method that your own module registers
            when it is imported.
        dim: d. If you pass it, pass ``num_directions`` too.
        num_directions: L. With both, the settings that depend on d and L are filled in.

    >>> method("bes-shrinkage", dim=100, num_directions=20).factor  # 20 / (20 + 100 - 1)
    0.168...
    >>> method("bess")
    Traceback (most recent call last):
    ValueError: There is no method 'bess'. Did you mean 'bes'? Known: gs, bes, ...
    """
    directions = _find(name).make()
    if (dim is None) != (num_directions is None):
        raise ValueError("Give both `dim` and `num_directions`, or neither.")
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
        hint = checks.did_you_mean(short_name, ["auto", *METHODS, *also])
        known = ", ".join([*METHODS, *also])
        raise ValueError(f"There is no method {checks.shown(name)}.{hint} Known: {known}.")
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
        raise ValueError("Give either `method=` or `directions=`, not both.")
    return check_directions(directions)


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
        directions = method(name, dim=dim, num_directions=num_directions)
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
