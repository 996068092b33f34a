"""The methods by their names: the one table, filled by the families themselves."""

from gensmooth import checks, naming
from gensmooth.directions import METHODS, Directions, Method, check_directions

__all__ = ["METHODS", "Method", "choose_directions", "method"]


def method(name: str, *, dim: int | None = None, num_directions: int | None = None) -> Directions:
    """The directions of a method by its name.

    Args:
        name: One of :data:`METHODS`; or ``module:name``, a method that a module of your own
            registers when it is imported.
        dim: d, and
        num_directions: L: give both to have everything that depends on them filled in.

    >>> method("bes-shrinkage", dim=100, num_directions=20).factor  # 20 / (20 + 100 - 1)
    0.168...
    >>> method("bess")
    Traceback (most recent call last):
    ValueError: There is no method 'bess'. Did you mean 'bes'? Known: gs, bes, ...
    """
    module, colon, own = str(name).rpartition(":")
    if colon:
        naming.load_module(module)
    if own not in METHODS:
        hint = checks.did_you_mean(own, METHODS)
        raise ValueError(f"There is no method {name!r}.{hint} Known: {', '.join(METHODS)}.")
    directions = METHODS[own].make()
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
