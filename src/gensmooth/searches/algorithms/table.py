"""The table of algorithms by name, and what is asked of one.

Each algorithm fills its own rows, in its own file.
"""

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
        make: Makes the search that is wanted at a start.
        title: What people call it.
        about: What it does, in a few words.
        source: Who published it.
        directions: The name of its directions among the methods, where their error is the error of
            its estimate; ``None`` where the estimate is not one of the gradient.
        num_directions: L of that estimate.
        train_only: Why :func:`gensmooth.minimize` cannot have it, or empty.
        standardize: Whether observations are standardised in training; ``None`` leaves it open.
    """

    make: Callable[[Array, Wanted], Search]
    title: str
    about: str
    source: str
    directions: str | None = None
    num_directions: int | None = None
    train_only: str = ""
    standardize: bool | None = None


ALGORITHMS: dict[str, Algorithm] = {}  # each file adds its own
_OURS: set[str] = set()
_PARTS = (
    "num_directions",
    "population",
    "spacing",
    "estimator",
    "optimizer",
    "learning_rate",
    "x_scale",
    "noise",
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

    After ``import my_module`` that is ``method="name"``; in a shell, ``my_module:name``.

    Args:
        name: What users type.
        make: The class of the search; or a function that makes one from the start and from what
            the user asks (:class:`~gensmooth.searches.wanted.Wanted`).
        title: What people call it; by default the name.
        about: What it does, in a few words.
        source: Who published it.

    Raises:
        ValueError: If the name is taken by a method of this package.
    """
    if not name or ":" in name:
        raise ValueError(f"`name` must be a word without a colon, but is {name!r}.")
    if name in _OURS or name in METHODS or name == "auto":
        raise ValueError(f"There is a method {name!r} already: choose another name.")
    maker = partial(_make_custom, make) if isinstance(make, type) else make
    ALGORITHMS[name] = Algorithm(maker, name if title is None else title, about, source)


def _make_custom(kind: type[Search], x: Array, wanted: Wanted) -> Search:  # noqa: ARG001
    wanted.refuse(*_PARTS, why="it is a search of its own.")
    return kind(**wanted.arguments_for(kind))


def find(name: object) -> Algorithm | None:
    """The algorithm of this name, or of ``module:name``; ``None`` if it is a method or unknown."""
    if not isinstance(name, str):
        return None
    module, colon, own = name.rpartition(":")
    if colon and own not in METHODS:
        naming.load_module(module)
    return ALGORITHMS.get(own)


def ours(*entries: str) -> None:
    """Reserve the names of this package's algorithms."""
    _OURS.update(entries)


def names(*, training: bool = False) -> list[str]:
    """The names of the algorithms that there are in minimising, or in training."""
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

    The arguments are the same too. An algorithm that estimates the gradient has the error of its
    directions; algorithms that move by ranks have none.

    >>> [row["relative_mse"] for row in rows(dim=100) if row["method"] == "spsa"]  # d − 1
    [99.0]
    """
    found: list[dict[str, Any]] = []
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
            same = next(each for each in predicted if each["method"] == entry.directions)
            row |= {key: same[key] for key in ("variance", "kurtosis", "bias", "relative_mse")}
        found.append(row)
    return found


def make(x: Array, wanted: Wanted, *, training: bool = False) -> Search:
    """The search that is wanted at ``x``."""
    entry = find(wanted.method)
    assert entry is not None
    if entry.train_only and not training:
        raise ValueError(f"method={wanted.method!r} is not for functions: {entry.train_only}")
    if wanted.directions is not None:
        raise ValueError(
            f"method={wanted.method!r} has its own directions: leave `directions` out."
        )
    return entry.make(x, wanted)
