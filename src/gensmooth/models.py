"""Directions for the named parameters of a model; each parameter has its own random stream.

The directions come from the families of :mod:`gensmooth.directions` with independent entries,
shrunk or not, and from the low-rank family, applied to each weight matrix. They are selected by
name or as objects. :class:`SparseTiles` is for models with too many parameters to select single
entries.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np

from gensmooth import checks, streams
from gensmooth.directions import Directions, named
from gensmooth.directions.draw import Address, KernelDraw
from gensmooth.directions.methods import refuse_name
from gensmooth.streams import Purpose

Entries = Literal["coin", "normal"]
NAMES = ("bes", "gs", "bes-shrinkage", "gs-shrinkage", "low-rank", "sparse")

_PROBE = 64  # the entries drawn to find out which law a family uses


@final
@dataclass(frozen=True)
class SparseTiles:
    """Each step perturbs a random subset of the entries, the same for all of its directions.

    The subset consists of tiles of 2048 consecutive entries of a parameter (a smaller parameter is
    one tile). Each tile is selected with probability ``density``. Entries that are not selected are
    neither perturbed nor updated.

    Args:
        density: The expected fraction of tiles that a step perturbs.
        entries: The distribution of the perturbed entries: ``"coin"`` (±1) or ``"normal"``.
    """

    density: float = 0.1
    entries: Entries = "coin"

    def __post_init__(self) -> None:
        checks.one_of("entries", self.entries, get_args(Entries))
        checks.settle(self, density=checks.share("density", self.density))


class Law(NamedTuple):
    """How directions are generated: everything that a log needs to reproduce them.

    Attributes:
        entries: ``"coin"`` or ``"normal"``.
        scale: Their standard deviation.
        factor: What the estimate is multiplied by: 1, unless the estimate is shrunk.
        rank: The rank of a matrix's direction; 0 means full rank.
        density: The expected fraction of tiles that a step perturbs.
    """

    entries: Entries
    scale: float = 1.0
    factor: float = 1.0
    rank: int = 0
    density: float = 1.0


class Stream(NamedTuple):
    """The random stream of one parameter.

    Attributes:
        seed: The seed of the parameter; see :func:`gensmooth.streams.named_seed`.
        law: How its directions are generated.
    """

    seed: int
    law: Law

    def key(self, step: int, purpose: Purpose = Purpose.DIRECTION) -> tuple[int, int, int, int]:
        """Return the words of Philox's key and counter that do not depend on index and position."""
        return streams.key_and_counter(self.seed, purpose, step)


def choose_model_directions(method: object, directions: object) -> object:
    """Return the name or object that ``method=`` or ``directions=`` selects, by default ``"bes"``.

    >>> choose_model_directions(None, None)
    'bes'
    >>> choose_model_directions(None, "gs")
    Traceback (most recent call last):
    TypeError: `directions` must be an object such as gs.Bernoulli(), but is 'gs': for a name, ...
    """
    if directions is None:
        return checks.one_of("method", "bes" if method is None else method, NAMES)
    if method is not None:
        raise ValueError("Pass either `method` or `directions`, not both.")
    refuse_name(directions)
    return directions


def choose_law(directions: object, dim: int, num_directions: int) -> Law:
    """Return the law of directions, selected by name or passed as an object.

    Args:
        directions: One of :data:`NAMES`, :class:`SparseTiles`, ``gs.LowRank(rank=4)``, or a family
            of :mod:`gensmooth.directions` with independent entries, shrunk or not.
        dim: d, the total number of entries that are perturbed.
        num_directions: L.

    >>> choose_law("bes", 100, 8)
    Law(entries='coin', scale=1.0, factor=1.0, rank=0, density=1.0)
    """
    if isinstance(directions, str):
        checks.one_of("method", directions, NAMES)
        directions = SparseTiles() if directions == "sparse" else named(directions)
    if isinstance(directions, SparseTiles):
        return Law(directions.entries, density=directions.density)
    if not isinstance(directions, Directions):
        raise TypeError(
            "`directions` must be an object such as gs.Bernoulli() or gs.LowRank(rank=4), but is "
            f"{checks.shown(directions)}."
        )
    if (factors := directions.factors) is not None:
        return Law(factors.entries, rank=factors.rank)
    return _law_of_family(directions, dim, num_directions)


def describe_directions(directions: object) -> str:
    """Describe directions briefly, for messages and headers."""
    if isinstance(directions, SparseTiles):
        values = ", ".join(f"{name}={value!r}" for name, value in asdict(directions).items())
        return f"{type(directions).__name__}({values})"
    return directions if isinstance(directions, str) else repr(directions)


def _law_of_family(directions: Directions, dim: int, num_directions: int) -> Law:
    """Return the law of a family whose entries are independent coins or normals."""
    family = directions.resolve(dim, num_directions)
    unsupported = ValueError(
        "`directions` of a model must have independent entries (fair coins or normals), or be "
        f"low-rank or sparse, but is {describe_directions(directions)}. Names for `method`: "
        f"{', '.join(NAMES)}."
    )
    if not family.same_law_each_step:
        raise unsupported
    single = np.dtype(np.float32)
    probe = max(_PROBE, num_directions)
    draw = family.draw(
        family.init(probe, single), Address(0, 0, num_directions, probe, np.dtype(np.float64))
    )
    kinds: dict[str, Entries] = {"SignLaw": "coin", "NormalLaw": "normal"}
    law: Any = draw.law if isinstance(draw, KernelDraw) else None
    entries = kinds.get(type(law).__name__)
    if entries is None or not (law.scale == law.scale[0]).all():
        raise unsupported
    if entries == "coin" and law.row.any():
        raise unsupported
    scale = float(law.scale[0])
    if not (scale > 0 and math.isfinite(scale)):
        raise unsupported
    return Law(entries, scale=scale, factor=float(draw.factor))
