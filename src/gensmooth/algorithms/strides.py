r"""Strides: gradient ascent whose step is set by looking along it, for very many points at once.

On a GPU a step of thousands of episodes takes as long as one of dozens. Beyond some number more
pairs no longer improve the direction; what helps is to know how far to go. So a step spends most
of its λ points on pairs around x, and the others on the line of the last step, from where it began,
:math:`x_- = x - m`:

.. math:: x_- + \kappa m, \qquad \kappa \in \{0, \tfrac12, 1, 2\},

the same number of points at each. The κ with the largest mean wins: the search goes on from there,
and steps grow or shrink by a factor that depends on κ alone. With r the centred ranks of the pairs'
values, which do not depend on the objective's units,

.. math:: g = \sum_l (r_l^+ - r_l^-)\, \varepsilon_l, \qquad
    m' = s\,\sqrt d\; u \circ \frac{g}{\lVert g \rVert}, \qquad x' = x_- + \kappa m + m',

with coins ε at spacing c, units u, and the stride s: how far a step goes, in spacings of one
parameter.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.algorithms.population import Moved, Population, make_population
from gensmooth.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.batch import Batch
from gensmooth.directions.draw import Address, Draw, dense, signs
from gensmooth.search import SearchState

Array = NDArray[Any]

POINTS = 1984  # λ; a GPU evaluates 2048 at once, and those that are left are for tests
_PLACES = (0.0, 0.5, 1.0, 2.0)  # κ
_FACTORS = (0.5, 0.8, 1.0, 2.5)  # of the stride, for the κ that wins: without any signal it stays
_LOOKS = 16  # one point in this many at each κ
_LARGEST = 30.0  # the stride, in units of the first


class Line(NamedTuple):
    """The last step.

    Attributes:
        move: m; zero before the first step.
    """

    move: Array


class Stride(NamedTuple):
    """What the next step needs besides.

    Attributes:
        length: s, over the spacing.
        units: Of the parameters.
    """

    length: float
    units: Array


@final
@dataclass(frozen=True, kw_only=True)
class Strides(Population):
    """Gradient ascent with strides that are looked for.

    Args:
        num_directions: λ, points per step.
        spacing: c, in units of ``x_scale``; the first stride is as long.
        x_scale: As in :class:`~gensmooth.algorithms.population.Population`, as all that follows.
        samples: Likewise.
        num_samples: Likewise.
        maximize: Likewise.
        bounds: Likewise.
        on_failure: Likewise; a pair of which a value is dropped is left out.
        min_fraction: Likewise.
        threads: Likewise.

    >>> search = Strides(num_directions=256, x_scale=1.0)
    >>> state = search.init([5.0, 5.0], seed=0)
    >>> for _ in range(60):
    ...     batch = search.ask(state)
    ...     values = [((x - [1, 2]) ** 2).sum() for x in batch.points()]
    ...     state, _ = search.tell(state, batch, values)
    >>> state.x.round(1)
    array([1., 2.])
    """

    method: ClassVar[str] = "strides"
    least: ClassVar[int] = 16

    def check_dim(self, dim: int) -> None:
        """Points lie in memory: policies are small."""

    def begin(
        self,
        x: Array,
        units: Array,
        seed: int,  # noqa: ARG002
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """No step yet."""
        return Line(np.zeros_like(x)), Stride(1.0, np.array(units, np.float64))

    def draw(self, state: SearchState) -> Draw:
        """The pairs, then what lies along the last step."""
        coins, looks = self._coins(state), self._looks(state)
        assert isinstance(state.directions, Line)
        rows = np.empty((self.number(state.x.size), state.x.size), state.x.dtype)
        both = 2 * len(coins)
        rows[0:both:2] = coins
        rows[1:both:2] = -coins
        for row in range(both, len(rows)):
            place = _PLACES[min((row - both) // max(looks, 1), len(_PLACES) - 1)]
            rows[row] = (place - 1.0) * state.directions.move
        return dense(rows)

    def follow(
        self,
        state: SearchState,
        batch: Batch,  # noqa: ARG002
        values: NDArray[np.float64],
        kept: NDArray[np.bool_] | None,
    ) -> Moved:
        """See the equations above."""
        assert isinstance(state.directions, Line) and isinstance(state.optimizer, Stride)
        coins, looks = self._coins(state), self._looks(state)
        both = 2 * len(coins)
        values = values if kept is None else np.where(kept, values, np.nan)
        place, factor = 1.0, 1.0
        if looks:
            place, factor = _winner(values[both:], looks)
        plus, minus = values[0:both:2], values[1:both:2]
        whole = np.isfinite(plus) & np.isfinite(minus)
        ranks = _centred(np.concatenate((plus[whole], minus[whole])))
        half = len(ranks) // 2
        weights = np.zeros(len(coins))
        weights[whole] = ranks[half:] - ranks[:half]  # a small value is a good one
        found = (weights[:, None] * coins).sum(axis=0)
        move, units = state.directions.move, state.optimizer.units
        size = math.sqrt(float(np.square(found / (self.spacing * units)).sum()))
        stride = min(state.optimizer.length * factor, _LARGEST)
        x = state.x.reshape(-1) + (place - 1.0) * move
        change = np.zeros_like(x)
        if size > 0:
            change = (stride * math.sqrt(x.size) / size * found).astype(x.dtype)
        after = x + change
        finite = bool(np.isfinite(after).all())
        return Moved(after, Line(change), Stride(stride, units), size, finite)

    def fits(self, directions: tuple[Any, ...], dim: int, dtype: np.dtype[Any]) -> bool:
        """One finite number for each parameter."""
        move = Line(*directions).move
        return move.shape == (dim,) and move.dtype == dtype and bool(np.isfinite(move).all())

    def number(self, dim: int) -> int:  # noqa: ARG002
        """λ."""
        return POINTS if self.num_directions is None else self.num_directions

    def _looks(self, state: SearchState) -> int:
        """How many points there are at each κ."""
        return 0 if state.step == 0 else max(1, self.number(state.x.size) // _LOOKS)

    def _coins(self, state: SearchState) -> Array:
        """c ε, a row for each pair."""
        x = state.x
        pairs = (self.number(x.size) - len(_PLACES) * self._looks(state)) // 2
        drawn = signs(Address(state.seed, state.step, pairs, x.size, x.dtype)).block()
        assert isinstance(state.optimizer, Stride)
        return drawn * (self.spacing * state.optimizer.units).astype(x.dtype)


def _winner(values: NDArray[np.float64], looks: int) -> tuple[float, float]:
    """The κ with the best mean, and what the stride is multiplied by."""
    means: list[float] = []
    for index in range(len(_PLACES)):
        some = values[index * looks : (index + 1) * looks]
        some = some[np.isfinite(some)]
        means.append(float(some.mean()) if len(some) else math.inf)
    best = int(np.argmin(means)) if min(means) < math.inf else 0
    if means[best] == means[2]:
        best = 2  # nothing is better than where it is
    return _PLACES[best], _FACTORS[best]


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks between −½ and ½, the smallest value first; equal values share theirs."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values))
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    sums = np.bincount(place, ranks)
    return (sums / counts)[place] / max(len(values) - 1, 1) - 0.5


def make(x: Array, wanted: Wanted) -> Population:
    """Strides, for training."""
    wanted.refuse("optimizer", why="it looks for the length of its steps itself.")
    return make_population(Strides, x, wanted)


ALGORITHMS["strides"] = Algorithm(
    make,
    "Strides",
    "coins, and the line of the last step",
    "this package",
    train_only="it is for policies, thousands of which run side by side.",
)
