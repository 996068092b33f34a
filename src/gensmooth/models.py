"""Directions for the named parameters of a model: made at each parameter's own address.

Families with independent entries are those of :mod:`gensmooth.directions`, by name or as objects,
shrunk or not, and low-rank ones, whose matrices are the parameters. :class:`SparseTiles` is made
for parameters that are too many to choose among one by one.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np

from gensmooth import checks, streams
from gensmooth.directions import Directions
from gensmooth.directions.draw import Address, KernelDraw
from gensmooth.methods import method
from gensmooth.streams import Purpose

Entries = Literal["coin", "normal"]
NAMES = ("bes", "gs", "bes-shrinkage", "gs-shrinkage", "low-rank", "sparse")

_PROBE = 64  # entries: enough to see by which law a family makes its directions


@final
@dataclass(frozen=True)
class SparseTiles:
    """Each step moves a random subset of the entries, the same for all its directions.

    The subset is made of tiles of 2048 consecutive entries of a parameter (a smaller parameter is
    one tile), each of which is chosen with probability ``density``. What is not chosen is neither
    perturbed nor updated.

    Args:
        density: The share of tiles that a step moves.
        entries: Of the directions on these, ``"coin"`` or ``"normal"``.
    """

    density: float = 0.1
    entries: Entries = "coin"

    def __post_init__(self) -> None:
        checks.one_of("entries", self.entries, get_args(Entries))
        checks.settle(self, density=checks.share("density", self.density))


class Law(NamedTuple):
    """How directions are made, written down: what a log needs to make them again.

    Attributes:
        entries: ``"coin"`` or ``"normal"``.
        scale: Their standard deviation.
        factor: What the estimate is multiplied by (shrinkage of the estimate).
        rank: Of matrices; 0 is full.
        density: The share of tiles that a step moves.
    """

    entries: Entries
    scale: float = 1.0
    factor: float = 1.0
    rank: int = 0
    density: float = 1.0


class Stream(NamedTuple):
    """Where the random numbers of one parameter are, and how they are used.

    Attributes:
        seed: Of the parameter, see :func:`gensmooth.streams.named_seed`.
        law: How its directions are made.
    """

    seed: int
    law: Law

    def key(self, step: int, purpose: Purpose = Purpose.DIRECTION) -> tuple[int, int, int, int]:
        """The words that Philox needs beside index and position."""
        return streams.key_and_counter(self.seed, purpose, step)


def choose_law(directions: object, dim: int, num_directions: int) -> Law:
    """The law of directions given by a name or as an object.

    Args:
        directions: One of :data:`NAMES`, :class:`SparseTiles`, ``gs.LowRank(rank=4)``, or a family
            of :mod:`gensmooth.directions` with independent entries, shrunk or not.
        dim: d, the number of all entries that are moved.
        num_directions: L.

    >>> choose_law("bes", 100, 8)
    Law(entries='coin', scale=1.0, factor=1.0, rank=0, density=1.0)
    """
    if isinstance(directions, str):
        checks.one_of("directions", directions, NAMES)
        directions = SparseTiles() if directions == "sparse" else method(directions)
    if isinstance(directions, SparseTiles):
        return Law(directions.entries, density=directions.density)
    if not isinstance(directions, Directions):
        known = ", ".join(map(repr, NAMES))
        raise TypeError(
            f"`directions` must be one of {known}, or directions such as gs.Bernoulli() or "
            f"gs.LowRank(rank=4), but is {checks.shown(directions)}."
        )
    if (factors := directions.factors) is not None:
        return Law(factors.entries, rank=factors.rank)
    return _independent(directions, dim, num_directions)


def describe_directions(directions: object) -> str:
    """Directions in a few words, for messages and headers."""
    if isinstance(directions, SparseTiles):
        own = ", ".join(f"{name}={value!r}" for name, value in asdict(directions).items())
        return f"{type(directions).__name__}({own})"
    return directions if isinstance(directions, str) else repr(directions)


def _independent(directions: Directions, dim: int, num_directions: int) -> Law:
    """The law of a family whose entries are independent coins or normals."""
    family = directions.resolve(dim, num_directions)
    refusal = ValueError(
        "Models are moved along directions with independent entries, fair coins or normals (or "
        f"low-rank, or sparse ones), but `directions` is {describe_directions(directions)}. "
        f"Known names: {', '.join(NAMES)}."
    )
    if not family.same_law_each_step:
        raise refusal
    single = np.dtype(np.float32)
    probe = max(_PROBE, num_directions)
    draw = family.draw(
        family.init(probe, single), Address(0, 0, num_directions, probe, np.dtype(np.float64))
    )
    kinds: dict[str, Entries] = {"SignLaw": "coin", "NormalLaw": "normal"}
    law: Any = draw.law if isinstance(draw, KernelDraw) else None
    entries = kinds.get(type(law).__name__)
    if entries is None or not (law.scale == law.scale[0]).all():
        raise refusal
    if entries == "coin" and law.row.any():
        raise refusal
    scale = float(law.scale[0])
    if not (scale > 0 and math.isfinite(scale)):
        raise refusal
    return Law(entries, scale=scale, factor=float(draw.factor))
