r"""Islands: several searches side by side, of which the better ones spread, for a GPU.

On a GPU an iteration of thousands of episodes takes as long as one of dozens. One search has no
use for all of them: beyond some number more pairs do not improve its direction, and an exact
gradient leads into the nearest local optimum. So the λ points of a step are shared out to several
searches, *islands*, each at its own place :math:`x_i`, with its own spacing :math:`c_i` and stride
:math:`s_i`. On an island, with coins ε and the centred ranks r of the values of its pairs,

.. math:: g = \sum_l (r_l^+ - r_l^-)\,\varepsilon_l, \qquad
    x_i \leftarrow x_i + s_i c_i \sqrt d\; u \circ \frac{g}{\lVert g \rVert},

u being the units of the parameters: nothing depends on those of the objective. Some points of each
island are at :math:`x_i` itself; their mean is its score. Every few steps the worst islands, if
their scores are worse by more than their error, become copies of the best, with a spacing and a
stride that are a little larger or smaller: what works spreads, also through changes of what works
(population-based training; Jaderberg et al., 2017). The search's x is the place with the best
score.

With thousands of parameters islands are few and large, since g is about :math:`\sqrt{n/d}` of the
gradient's direction for n pairs, and only strides change. An island whose spacing is smaller looks
better at once, because its steps are shorter, and learns from what is nearer: all spacings would
shrink until nobody sees far enough (docs/gpu.md).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.directions.draw import Address, Draw, KernelDraw, ScaledDraw, dense, signs
from gensmooth.searches.algorithms.population import Moved, Population, make_population
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]

_FEWEST, _MOST = 4, 64  # islands
_SHARE = 126  # points of an island, where their number is not given: see docs/gpu.md
_LARGEST = 200_000_000  # numbers that the points of a step may be, all of them in memory
_SPACINGS = (0.5, 1.0, 1.0, 2.0)  # over the search's, at first: one island after the other
_STRIDES = (0.7, 2.0)
LARGE = 2000  # parameters, beyond which what follows is instead
_LARGE_SHARE = 1 / 3  # points of an island, of the parameters
_LARGE_SPACINGS = (0.25,)
_LARGE_STRIDES = (0.25, 0.5)
_LOOKS = 20  # one point in this many is at the island's own place
_EVERY = 3  # steps between exchanges
_REPLACED = 4  # at an exchange, one island in this many
_ERRORS = 2.0  # so many standard errors must a copy be better
_CHANGE = 0.4  # e-folds by which a copy's spacing and stride differ, up or down
_MEMORY = 0.5  # of scores


class Places(NamedTuple):
    """Where the islands are, and how they search.

    Attributes:
        x: A row of parameters for each.
        spacings: Of each, in units.
        strides: Of each.
        units: Of the parameters.
    """

    x: Array
    spacings: NDArray[np.float64]
    strides: NDArray[np.float64]
    units: NDArray[np.float64]


class IslandScores(NamedTuple):
    """How good the islands are.

    Attributes:
        scores: The decaying mean of the values at their places, the smaller the better.
        variances: The squared standard error of each score.
    """

    scores: NDArray[np.float64]
    variances: NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True)
class Islands(Population):
    """Several searches, of which the better ones spread.

    Args:
        num_directions: λ, points per step, over all islands; by default 8 + 2⌊3 ln d⌋ for each
            of four islands, and at least 16.
        spacing: c in the middle, in units of ``x_scale``; islands begin with half to twice as much,
            beyond 2000 parameters with a quarter.
        x_scale: This and the rest as in
            :class:`~gensmooth.searches.algorithms.population.Population`.
        samples: Likewise.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: Likewise; a pair of which a value is dropped is left out.
        min_fraction: Likewise.
        threads: Likewise.
        islands: How many; by default one for 126 points (beyond 2000 parameters for a third as many
            as these are), and 4 to 64.

    >>> search = Islands(num_directions=256, x_scale=1.0)
    >>> state = search.init([5.0, 5.0], seed=0)
    >>> for _ in range(40):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, _ = search.tell(state, batch, values)
    >>> bool(abs(state.x - [1, 2]).max() < 0.3)
    True
    """

    method: ClassVar[str] = "islands"
    least: ClassVar[int] = 8

    islands: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(self, islands=checks.optional(checks.count, "islands", self.islands))
        least = 4 * self.count(1)
        if self.num_directions is not None and self.num_directions < least:
            raise ValueError(
                f"`num_directions` is {self.num_directions}, but {self.count(1)} islands need 4 "
                f"points each: at least {least}."
            )

    def check_dim(self, dim: int) -> None:
        """Points lie in memory, so there is a limit."""
        if dim * self.number(dim) > _LARGEST:
            raise ValueError(
                f"method='islands' keeps its {self.number(dim)} points in memory, which is too "
                f"much with {dim:,} parameters: 'snes' and 'auto' are for any number of them."
            )

    def begin(
        self,
        x: Array,
        units: Array,
        seed: int,  # noqa: ARG002
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """All islands at one place, each with a spacing and a stride of its own."""
        n = self.count(x.size)
        spacings, first = _SPACINGS, _STRIDES
        if x.size > LARGE:
            spacings, first = _LARGE_SPACINGS, _LARGE_STRIDES
        factors = [spacings[(i // len(first)) % len(spacings)] for i in range(n)]
        strides = [first[i % len(first)] for i in range(n)]
        places = Places(
            np.tile(x, (n, 1)),
            self.spacing * np.array(factors),
            np.array(strides),
            np.array(units, np.float64),
        )
        unknown = np.full(n, np.nan)
        return places, IslandScores(unknown, unknown.copy())

    def draw(self, state: SearchState) -> Draw:
        """From x to the points of all islands: those at the place itself, then pairs."""
        places = _places(state)
        x = state.x.reshape(-1)
        rows = np.empty((self.number(x.size), x.size), x.dtype)
        for island, (first, looks, pairs) in enumerate(self._shares(x.size)):
            here = places.x[island] - x
            begin = first + looks
            rows[first:begin] = here
            coins: Draw = self._coins(state, island, pairs)
            unit = float(places.units[0])
            if not np.all(places.units == unit):
                coins, unit = ScaledDraw(coins, places.units), 1.0
            both_ways = np.tile((1.0, -1.0), pairs) * (places.spacings[island] * unit)
            each_twice = np.repeat(np.arange(pairs), 2)
            coins.perturb(here, each_twice, both_ways, rows[begin : begin + 2 * pairs])
        return dense(rows)

    def follow(
        self,
        state: SearchState,
        batch: Batch,  # noqa: ARG002
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> Moved:
        """See the equations above."""
        places, standing = _places(state), _standing(state)
        values = values if kept is None else np.where(kept, values, np.nan)
        x, n = np.array(places.x), len(places.x)
        means, variances, sizes = np.full(n, np.inf), np.zeros(n), np.zeros(n)
        for island, (first, looks, pairs) in enumerate(self._shares(x.shape[1])):
            begin = first + looks
            means[island], variances[island] = _mean(values[first:begin])
            both = values[begin : begin + 2 * pairs]
            coins = self._coins(state, island, pairs)
            found, _ = coins.combine(_weigh(both[0::2], both[1::2]))
            sizes[island] = math.sqrt(float(np.square(found).sum()))
            if sizes[island] > 0:
                length = places.strides[island] * places.spacings[island] * math.sqrt(found.size)
                x[island] += (length / sizes[island] * places.units * found).astype(x.dtype)
        known = np.isfinite(standing.scores) & np.isfinite(means)
        kept_share = np.where(known, _MEMORY, 0.0)
        old = np.where(known, standing.scores, 0.0)
        scores = kept_share * old + (1 - kept_share) * means
        errors = kept_share**2 * np.where(known, standing.variances, 0.0)
        errors += (1 - kept_share) ** 2 * variances
        best = int(np.argmin(means))
        after = places.x[best].copy()
        moved = Places(x, places.spacings.copy(), places.strides.copy(), places.units)
        if (state.step + 1) % _EVERY == 0:
            self._exchange(state, moved, scores, errors)
        finite = bool(np.isfinite(moved.x).all())
        told = IslandScores(scores, errors)
        return Moved(after, moved, told, float(sizes[best]), finite)

    def fits(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """One place, spacing and stride for each island, and units, all of them finite."""
        places = Places(*sent)
        n = self.count(dim)
        right = places.x.shape == (n, dim) and places.x.dtype == dtype
        right = right and places.spacings.shape == places.strides.shape == (n,)
        right = right and places.units.shape == (dim,)
        return right and all(bool(np.isfinite(each).all()) for each in places)

    def number(self, dim: int) -> int:
        """λ."""
        if self.num_directions is not None:
            return self.num_directions
        return (self.islands or _FEWEST) * max(16, 2 * (4 + int(3 * math.log(dim))))

    def count(self, dim: int) -> int:
        """How many islands there are."""
        if self.islands is not None:
            return self.islands
        share = _SHARE if dim <= LARGE else int(_LARGE_SHARE * dim)
        return max(_FEWEST, min(self.number(dim) // share, _MOST))

    def _exchange(
        self,
        state: SearchState,
        places: Places,
        scores: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> None:
        """Let the worst islands become copies of the best."""
        order = np.argsort(scores, kind="stable")
        rng = streams.generator(state.seed, Purpose.START, step=state.step)
        for good, bad in zip(
            order, order[::-1][: max(1, len(places.x) // _REPLACED)], strict=False
        ):
            ahead = scores[bad] - scores[good]
            changes = rng.choice((-_CHANGE, _CHANGE), 2)
            if not ahead > _ERRORS * math.sqrt(errors[good] + errors[bad]):
                continue
            places.x[bad] = places.x[good]
            factor = math.exp(changes[0]) if places.x.shape[1] <= LARGE else 1.0
            places.spacings[bad] = places.spacings[good] * factor
            places.strides[bad] = places.strides[good] * math.exp(changes[1])
            scores[bad], errors[bad] = scores[good], errors[good]

    def _shares(self, dim: int) -> list[tuple[int, int, int]]:
        """The points of each island: the first of them, how many are at its place, and pairs."""
        found: list[tuple[int, int, int]] = []
        total, first, islands = self.number(dim), 0, self.count(dim)
        for island in range(islands):
            number = total // islands + (island < total % islands)
            looks = max(2, number // _LOOKS)
            looks += (number - looks) % 2
            found.append((first, looks, (number - looks) // 2))
            first += number
        return found

    def _coins(self, state: SearchState, island: int, pairs: int) -> KernelDraw:
        """ε, one for each pair."""
        x = state.x
        first = self._shares(x.size)[island][0]
        drawn = signs(Address(state.seed, state.step, first + pairs, x.size, x.dtype))
        own = {name: getattr(drawn.law, name)[first:] for name in ("scale", "stream", "row")}
        return drawn.changed(**own)


def _places(state: SearchState) -> Places:
    assert isinstance(state.sent, Places), "the state is of another search"
    return state.sent


def _standing(state: SearchState) -> IslandScores:
    assert isinstance(state.kept, IslandScores), "the state is of another search"
    return state.kept


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of what is finite, and its squared standard error; infinite if too little is."""
    some = values[np.isfinite(values)]
    if len(some) < 2:
        return math.inf, 0.0
    return float(some.mean()), float(some.var(ddof=1)) / len(some)


def _weigh(plus: NDArray[np.float64], minus: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the plus side of each pair is better, by centred ranks; 0 for a broken pair."""
    weights = np.zeros(len(plus))
    whole = np.isfinite(plus) & np.isfinite(minus)
    values = np.concatenate((plus[whole], minus[whole]))
    if not len(values):
        return weights
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts + 1) / 2)[place] / max(len(values) - 1, 1)
    half = len(values) // 2
    weights[whole] = ranks[half:] - ranks[:half]  # a small value is a good one
    return weights


def make(x: Array, wanted: Wanted) -> Population:
    """Islands."""
    wanted.refuse("optimizer", "learning_rate", why="each of its islands has a step of its own.")
    return make_population(Islands, x, wanted)


ALGORITHMS["islands"] = Algorithm(
    make,
    "Islands",
    "±1, on several islands",
    "Jaderberg et al. (2017)",
    train_only="its steps do not shrink, so it finds no minimum to many digits.",
)
