r"""Islands: several searches in parallel, of which the better ones spread, for a GPU.

On a GPU, thousands of episodes take as long as dozens. A single search cannot use that many: beyond
some number, more pairs do not improve its direction, and an exact gradient leads to the nearest
local optimum. So the λ points of a step are divided among several searches, the *islands*. Each
island has its own position :math:`x_i`, spacing :math:`c_i` and stride :math:`s_i`. With random
signs ε and the centred ranks r of the values of its pairs, it makes the step

.. math:: g = \sum_l (r_l^+ - r_l^-)\,\varepsilon_l, \qquad
    x_i \leftarrow x_i + s_i c_i \sqrt d\; u \circ \frac{g}{\lVert g \rVert},

where u are the units of the parameters. The units of the objective do not matter. Some points of
each island are at :math:`x_i` itself; the mean of their values is its score. Every few steps, the
worst islands become copies of the best, if their scores are worse by more than the error. A copy
gets a slightly larger or smaller spacing and stride, so that good settings spread, even if they
change during the run (population-based training; Jaderberg et al., 2017). The search's x is the
position with the best score.

With thousands of parameters, islands are few and large, because the cosine between g and the
gradient is only about :math:`\sqrt{n/d}` for n pairs, and copies change only the stride. The reason
is that an island with a smaller spacing soon has a better score, because its steps are shorter. If
copies could change spacings, all of them would shrink until progress stops
(docs/training-results.md).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, streams
from gensmooth.batch import Batch
from gensmooth.directions.composed import ScaledDraw
from gensmooth.directions.draw import Address, Draw, KernelDraw, dense, signs
from gensmooth.searches.algorithms.population import DistributionStep, Population, make_population
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.protocol import SearchState
from gensmooth.streams import Purpose

Array = NDArray[Any]

# All values were chosen by experiment on robots; docs/training-results.md has the comparisons.
_MIN_ISLANDS, _MAX_ISLANDS = 4, 64  # islands
_SHARE = 126  # points per island, if the number of islands is not specified
_LARGEST = 200_000_000  # numbers in the points of a step, which are all in memory
_SPACINGS = (0.5, 1.0, 1.0, 2.0)  # first spacings of the islands in turn, relative to the search's
_STRIDES = (0.7, 2.0)  # first strides of the islands in turn
LARGE = 2000  # parameters; beyond, the following values replace those above
_LARGE_SHARE = 1 / 3  # points per island, relative to the number of parameters
_LARGE_SPACINGS = (0.25,)
_LARGE_STRIDES = (0.25, 0.5)
_CENTRE_ONE_IN = 20  # one point in this many is at the island's position
_EVERY = 3  # steps between exchanges
_REPLACED = 4  # an exchange may replace one island in this many
_ERRORS = 2.0  # standard errors by which an island must be worse to be replaced
_CHANGE = 0.4  # change of log spacing and log stride in a copy, up or down
_MEMORY = 0.5  # weight of the old score


class Places(NamedTuple):
    """The positions and settings of the islands.

    Attributes:
        x: The position of each island, one per row.
        spacings: The spacing of each island, in units.
        strides: The stride of each island.
        units: The unit of each parameter.
    """

    x: Array
    spacings: NDArray[np.float64]
    strides: NDArray[np.float64]
    units: NDArray[np.float64]


class IslandScores(NamedTuple):
    """The scores of the islands.

    Attributes:
        scores: The decaying mean of the values at each island's position; smaller is better.
        variances: The squared standard error of each score.
    """

    scores: NDArray[np.float64]
    variances: NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True)
class Islands(Population):
    """Several searches in parallel, of which the better ones spread.

    The other arguments are those of :class:`~gensmooth.searches.algorithms.population.Population`.
    Dropping a value leaves out its pair.

    Args:
        population: λ, points per step of all islands together; by default 8 + 2⌊3 ln d⌋ for
            each of four islands, and at least 16 each.
        spacing: The reference for c, in units of ``x_scale``. Islands start with half to twice as
            much, beyond 2000 parameters with a quarter.
        islands: The number of islands; by default one per 126 points (beyond 2000 parameters, one
            per d/3 points), but at least 4 and at most 64.

    >>> search = Islands(population=256, x_scale=1.0)
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
        if self.population is not None and self.population < least:
            raise ValueError(
                f"`population` must be at least {least}, 4 points for each of {self.count(1)} "
                f"islands, but is {self.population}."
            )

    def check_dim(self, dim: int) -> None:
        """Limit the size of the points of a step, which are all in memory."""
        if dim * self.number(dim) > _LARGEST:
            raise ValueError(
                f"method='islands' keeps all {self.number(dim)} points of a step in memory, which "
                f"is too much with {dim:,} parameters: use 'snes' or 'auto'."
            )

    def begin(
        self,
        x: Array,
        units: Array,
        seed: int,  # noqa: ARG002
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return all islands at x, each with its own spacing and stride."""
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
        """Return the points of all islands relative to x: centres first, then pairs, for each."""
        places = _places(state)
        x = state.x.reshape(-1)
        rows = np.empty((self.number(x.size), x.size), x.dtype)
        for island, (first, centres, pairs) in enumerate(self._shares(x.size)):
            position = places.x[island] - x
            begin = first + centres
            rows[first:begin] = position
            directions: Draw = self._signs(state, island, pairs)
            unit = float(places.units[0])
            if not np.all(places.units == unit):
                directions, unit = ScaledDraw(directions, places.units), 1.0
            both_sides = np.tile((1.0, -1.0), pairs) * (places.spacings[island] * unit)
            each_twice = np.repeat(np.arange(pairs), 2)
            directions.perturb(position, each_twice, both_sides, rows[begin : begin + 2 * pairs])
        return dense(rows)

    def update(
        self,
        state: SearchState,
        batch: Batch,  # noqa: ARG002
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> DistributionStep:
        """See the equations above."""
        places, before = _places(state), checks.state_part(state.kept, IslandScores)
        values = values if kept is None else np.where(kept, values, np.nan)
        x, n = np.array(places.x), len(places.x)
        means, variances, sizes = np.full(n, np.inf), np.zeros(n), np.zeros(n)
        for island, (first, centres, pairs) in enumerate(self._shares(x.shape[1])):
            begin = first + centres
            means[island], variances[island] = _mean(values[first:begin])
            of_pairs = values[begin : begin + 2 * pairs]
            directions = self._signs(state, island, pairs)
            step, _ = directions.combine(_rank_differences(of_pairs[0::2], of_pairs[1::2]))
            sizes[island] = math.sqrt(float(np.square(step).sum()))
            if sizes[island] > 0:
                length = places.strides[island] * places.spacings[island] * math.sqrt(step.size)
                x[island] += (length / sizes[island] * places.units * step).astype(x.dtype)
        known = np.isfinite(before.scores) & np.isfinite(means)
        old = np.where(known, _MEMORY, 0.0)  # the weight of the old score
        scores = old * np.where(known, before.scores, 0.0) + (1 - old) * means
        errors = old**2 * np.where(known, before.variances, 0.0)
        errors += (1 - old) ** 2 * variances
        best = int(np.argmin(means))
        after = places.x[best].copy()
        moved = Places(x, places.spacings.copy(), places.strides.copy(), places.units)
        if (state.step + 1) % _EVERY == 0:
            self._exchange(state, moved, scores, errors)
        finite = bool(np.isfinite(moved.x).all())
        return DistributionStep(
            after, moved, IslandScores(scores, errors), float(sizes[best]), finite
        )

    def is_valid(self, sent: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """Return whether there is one position, spacing and stride per island, all finite."""
        places = Places(*sent)
        n = self.count(dim)
        fits = places.x.shape == (n, dim) and places.x.dtype == dtype
        fits = fits and places.spacings.shape == places.strides.shape == (n,)
        fits = fits and places.units.shape == (dim,)
        return fits and all(bool(np.isfinite(array).all()) for array in places)

    def number(self, dim: int) -> int:
        """Return λ, the number of points per step of all islands together."""
        if self.population is not None:
            return self.population
        return (self.islands or _MIN_ISLANDS) * max(16, 2 * (4 + int(3 * math.log(dim))))

    def count(self, dim: int) -> int:
        """Return the number of islands."""
        if self.islands is not None:
            return self.islands
        share = _SHARE if dim <= LARGE else int(_LARGE_SHARE * dim)
        return max(_MIN_ISLANDS, min(self.number(dim) // share, _MAX_ISLANDS))

    def _exchange(
        self,
        state: SearchState,
        places: Places,
        scores: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> None:
        """Replace the worst islands by copies of the best."""
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
        """Return for each island the index of its first point, its centres, and its pairs."""
        shares: list[tuple[int, int, int]] = []
        total, first, islands = self.number(dim), 0, self.count(dim)
        for island in range(islands):
            number = total // islands + (island < total % islands)
            centres = max(2, number // _CENTRE_ONE_IN)
            centres += (number - centres) % 2
            shares.append((first, centres, (number - centres) // 2))
            first += number
        return shares

    def _signs(self, state: SearchState, island: int, pairs: int) -> KernelDraw:
        """Return ε, one for each pair of an island."""
        x = state.x
        first = self._shares(x.size)[island][0]
        drawn = signs(Address(state.seed, state.step, first + pairs, x.size, x.dtype))
        of_island = {name: getattr(drawn.law, name)[first:] for name in ("scale", "stream", "row")}
        return drawn.changed(**of_island)


def _places(state: SearchState) -> Places:
    return checks.state_part(state.sent, Places)


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean of the finite values and its variance; ∞ and 0 if there are fewer than 2."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return math.inf, 0.0
    return float(finite.mean()), float(finite.var(ddof=1)) / len(finite)


def _rank_differences(plus: NDArray[np.float64], minus: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each pair how much better the plus side ranks; 0 if a value is not finite.

    Ranks are scaled to the range from 0 to 1.
    """
    weights = np.zeros(len(plus))
    complete = np.isfinite(plus) & np.isfinite(minus)
    values = np.concatenate((plus[complete], minus[complete]))
    if not len(values):
        return weights
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts + 1) / 2)[place] / max(len(values) - 1, 1)
    half = len(values) // 2
    weights[complete] = ranks[half:] - ranks[:half]  # smaller values are better
    return weights


def make(x: Array, wanted: Wanted) -> Population:
    """Create islands."""
    wanted.refuse("optimizer", "learning_rate", why="each island has its own step.")
    return make_population(Islands, x, wanted)


ALGORITHMS["islands"] = Algorithm(
    make,
    "Islands",
    "±1, on several islands",
    "Jaderberg et al. (2017)",
    train_only="its steps do not shrink, so it does not find a minimum to many digits.",
)
