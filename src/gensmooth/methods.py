"""The one table that turns names of methods into directions."""

from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from gensmooth import theory
from gensmooth.directions import (
    Bernoulli,
    Directions,
    Gaussian,
    Guided,
    NoClosedForm,
    Orthogonal,
    OrthogonalBernoulli,
    Sphere,
    check_directions,
    shrunk,
)


class Method(NamedTuple):
    """A named choice of directions.

    Attributes:
        make: Makes the directions.
        title: What people call it.
        distribution: How the directions are distributed, in a few words.
        in_paper: Whether it is one of the six methods of Gao & Sener (ICML 2022).
    """

    make: Callable[[], Directions]
    title: str
    distribution: str
    in_paper: bool = False


METHODS: dict[str, Method] = {
    "gs": Method(Gaussian, "GS", "N(0, 1)", True),
    "bes": Method(Bernoulli, "BeS", "±1, fair coin", True),
    "gs-shrinkage": Method(lambda: shrunk(Gaussian()), "GS-shrinkage", "N(0, v*)", True),
    "bes-shrinkage": Method(lambda: shrunk(Bernoulli()), "BeS-shrinkage", "±√v*, fair coin", True),
    "orthogonal-es": Method(
        lambda: Orthogonal("residual"), "Orthogonal ES", "Gram–Schmidt of N(0, I)", True
    ),
    "guided-es": Method(Guided, "Guided ES", "N(0, αI/d + (1−α)UUᵀ/k)", True),
    "sphere": Method(Sphere, "Sphere", "sphere of radius √d"),
    "orthogonal": Method(Orthogonal, "Orthogonal", "orthogonal, length √d"),
    "orthogonal-bes": Method(OrthogonalBernoulli, "Orthogonal BeS", "Hadamard × random signs"),
    "sphere-shrinkage": Method(lambda: shrunk(Sphere()), "Sphere-shrinkage", "sphere, shrunk"),
    "orthogonal-shrinkage": Method(
        lambda: shrunk(Orthogonal()), "Orthogonal-shrinkage", "orthogonal, shrunk"
    ),
    "orthogonal-bes-shrinkage": Method(
        lambda: shrunk(OrthogonalBernoulli()),
        "Orthogonal-BeS-shrinkage",
        "Hadamard × signs, shrunk",
    ),
}


def method(name: str, *, dim: int | None = None, num_directions: int | None = None) -> Directions:
    """The directions of a method by its name.

    Args:
        name: One of :data:`METHODS`.
        dim: d, and
        num_directions: L: give both to have everything that depends on them filled in.

    >>> method("bes-shrinkage", dim=100, num_directions=20).factor  # 20 / (20 + 100 - 1)
    0.168...
    >>> method("bess")
    Traceback (most recent call last):
    ValueError: There is no method 'bess'. Did you mean 'bes'? Known: gs, bes, ...
    """
    if name not in METHODS:
        near = get_close_matches(str(name), METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no method {name!r}.{hint} Known: {', '.join(METHODS)}.")
    directions = METHODS[name].make()
    if (dim is None) != (num_directions is None):
        raise ValueError("Give both `dim` and `num_directions`, or neither.")
    if dim is None or num_directions is None:
        return directions
    return directions.resolve(dim, num_directions)


def choose_directions(name: str | None, directions: object, default: str = "bes") -> Directions:
    """Directions from ``method=`` or ``directions=``, of which one may be given."""
    if directions is None:
        return method(default if name is None else name)
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
    """What theory predicts for each method: how far its estimate is from the gradient.

    Args:
        dim: d, the number of parameters.
        num_directions: L, directions per step.
        num_samples: N, samples averaged at each point.
        noise: tr Var[∇f] / ‖∇F‖², the noise of a single sample's gradient.
        samples: How samples are drawn, ``"paired"`` or ``"shared"``.

    Returns:
        One row per method: its name, title and distribution; the variance and kurtosis of its
        directions; the bias of its estimate relative to ∇F, and ``relative_mse``,
        E‖estimate − ∇F‖² / ‖∇F‖². Numbers are ``None`` where there is no closed form.

    >>> round(predictions(dim=100, num_directions=20)[1]["relative_mse"], 2)  # BeS: (d − 1) / L
    4.95
    """
    if samples not in ("paired", "shared"):
        raise ValueError(f"`samples` must be 'paired' or 'shared', but is {samples!r}.")
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
