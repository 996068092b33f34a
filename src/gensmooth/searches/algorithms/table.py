"""The table of algorithms by name; each algorithm's file adds its own rows."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from gensmooth import naming
from gensmooth.directions import METHODS, predictions
from gensmooth.searches.protocol import Search
from gensmooth.searches.wanted import Wanted

Array = NDArray[Any]


class Algorithm(NamedTuple):
    """A named search.

    Attributes:
        make: Creates the search from the start and the user's choices.
        title: Its usual name.
        about: What it does, in a few words.
        source: Who published it.
        directions: The method whose predicted error is also that of this algorithm's estimate;
            ``None`` if the algorithm does not estimate the gradient.
        num_directions: L of that estimate.
        train_only: Why :func:`gensmooth.minimize` cannot use it; empty if it can.
        standardize: Whether training standardises observations; ``None`` if that is up to the user.
    """

    make: Callable[[Array, Wanted], Search]
    title: str
    about: str
    source: str
    directions: str | None = None
    num_directions: int | None = None
    train_only: str = ""
    standardize: bool | None = None


ALGORITHMS: dict[str, Algorithm] = {}
_RESERVED: set[str] = set()
# Arguments of `minimize` that a custom search sets itself, as fields of its own.
_OWN_SETTINGS = (
    *("num_directions", "population", "spacing", "estimator", "optimizer", "learning_rate"),
    *("x_scale", "noise"),
)


def register(
    name: str,
    make: type[Search] | Callable[[Array, Wanted], Search],
    *,
    title: str | None = None,
    about: str = "",
    source: str = "",
) -> None:
    """Name a custom search, so that ``method=name`` finds it.

    Use ``method="name"`` once your module is imported; ``"my_module:name"`` imports it, also in a
    shell.

    Args:
        name: The name that users type.
        make: The class of the search; or a function that creates one from the start and the user's
            choices (:class:`~gensmooth.searches.wanted.Wanted`).
        title: Its usual name; by default ``name``.
        about: What it does, in a few words.
        source: Who published it.

    Raises:
        ValueError: If ``name`` is empty, contains a colon, or is one of this package's methods.
    """
    if not name or ":" in name:
        raise ValueError(f"`name` must be a non-empty string without a colon, but is {name!r}.")
    if name in _RESERVED or name in METHODS or name == "auto":
        raise ValueError(f"There is already a method {name!r}: choose another name.")
    maker = partial(_make_custom, make) if isinstance(make, type) else make
    ALGORITHMS[name] = Algorithm(maker, name if title is None else title, about, source)


def _make_custom(kind: type[Search], x: Array, wanted: Wanted) -> Search:  # noqa: ARG001
    wanted.refuse(*_OWN_SETTINGS, why="it is a custom search with its own settings.")
    return kind(**wanted.arguments_for(kind))


def find(name: object) -> Algorithm | None:
    """Return the algorithm with this name, or ``None`` if there is none.

    ``module:name`` imports the module first.
    """
    if not isinstance(name, str):
        return None
    module, colon, entry = name.rpartition(":")
    if colon and entry not in METHODS:
        naming.load_module(module)
    return ALGORITHMS.get(entry)


def reserve(*entries: str) -> None:
    """Reserve the names of this package's algorithms."""
    _RESERVED.update(entries)


def is_custom(name: object) -> bool:
    """Return whether a search with this name or ``module:name`` was registered by a user."""
    return find(name) is not None and str(name).rpartition(":")[2] not in _RESERVED


def names(*, training: bool = False) -> list[str]:
    """Return the names of the algorithms for minimising, or for training."""
    return [name for name, entry in ALGORITHMS.items() if training or not entry.train_only]


def rows(
    dim: int = 100,
    num_directions: int = 20,  # noqa: ARG001 (algorithms have their own)
    *,
    num_samples: int = 1,
    noise: float = 0.0,
    samples: Literal["paired", "shared"] = "paired",
) -> list[dict[str, Any]]:
    """Return one row per algorithm, with the columns of :func:`gensmooth.directions.predictions`.

    The arguments are the same too. An algorithm that estimates the gradient has the predicted error
    of its directions; the others have none.

    >>> [row["relative_mse"] for row in rows(dim=100) if row["method"] == "spsa"]  # d − 1
    [99.0]
    """
    table: list[dict[str, Any]] = []
    for name, entry in ALGORITHMS.items():
        row: dict[str, Any] = {
            "method": name,
            "title": entry.title,
            "distribution": entry.about,
            "in_paper": False,
            "source": entry.source,
        }
        row |= dict.fromkeys(("variance", "kurtosis", "bias", "relative_mse"))
        if entry.directions is not None and entry.num_directions is not None:
            predicted = predictions(
                dim, entry.num_directions, num_samples=num_samples, noise=noise, samples=samples
            )
            base = next(each for each in predicted if each["method"] == entry.directions)
            row |= {key: base[key] for key in ("variance", "kurtosis", "bias", "relative_mse")}
        table.append(row)
    return table


def make(x: Array, wanted: Wanted, *, training: bool = False) -> Search:
    """Create the search of an algorithm for the start ``x``."""
    entry = find(wanted.method)
    assert entry is not None
    if entry.train_only and not training:
        raise ValueError(f"method={wanted.method!r} is only for training: {entry.train_only}")
    if wanted.directions is not None:
        raise ValueError(f"method={wanted.method!r} has its own directions: omit `directions`.")
    return entry.make(x, wanted)
