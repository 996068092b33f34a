r"""ARS, augmented random search: Gaussian × best pairs × gradient descent.

Mania, Guy & Recht, "Simple random search provides a competitive approach to reinforcement
learning" (2018), algorithm 2, for a minimum:

    δ_1, …, δ_N ~ N(0, I);  values at x ± ν δ_k
    sort the directions by min{F(x + ν δ_k), F(x − ν δ_k)}, keep the best b
    x ← x − α/(b σ_R) Σ_{k ≤ b} [F(x + ν δ_k) − F(x − ν δ_k)] δ_k

where σ_R is the standard deviation of the 2b values in the sum. V1 keeps all directions (b = N),
V1-t the best. V2 and V2-t are the same with standardised observations, which exist only when
training a policy. In our terms, N is ``num_directions``, ν is ``spacing``, α is ``learning_rate``
and b is the argument of ``gs.BestPairs(b)``. The sum is 2ν times the estimate of
:class:`~gensmooth.estimators.BestPairs`, so the optimiser is ``sgd(2αν)``.

N = 8, α = 0.02 and ν = 0.03 are the defaults of the authors' program. It has no default for b < N;
ours is N / 2, the authors' choice for Hopper (8 and 4).
"""

from functools import partial
from typing import Any

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.directions import Gaussian
from gensmooth.estimators import BestPairs
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import RandomSearch

DIRECTIONS = 8  # N
STEP = 0.02  # α
DEVIATION = 0.03  # ν
_SOURCE = "Mania, Guy & Recht (2018)"
_NO_OBSERVATIONS = (
    "V2 standardises observations, which a function does not have. Use 'ars-v1' or 'ars-v1-t', or "
    "train a policy with gs.rl.train(...)."
)


def make(x: NDArray[Any], wanted: Wanted, *, top: bool) -> RandomSearch:  # noqa: ARG001
    """Create ARS; ``top`` keeps the best half of the directions, unless an estimator is passed."""
    wanted.refuse_noise()
    number = wanted.number(DIRECTIONS)
    spacing = wanted.constant_spacing(DEVIATION)
    estimator, optimizer = wanted.estimator, wanted.optimizer
    if estimator is None:
        estimator = BestPairs((number + 1) // 2 if top else None)
    if optimizer is None:
        optimizer = optimizers.sgd(2 * wanted.rate(STEP) * spacing)
    return RandomSearch(
        directions=Gaussian(),
        num_directions=number,
        spacing=spacing,
        estimator=estimator,
        optimizer=optimizer,
        **wanted.shared,
    )


_ALL = partial(make, top=False)
_BEST = partial(make, top=True)
_OF_ALL, _OF_BEST = "N(0, 1), pairs", "N(0, 1), best pairs"

ALGORITHMS.update(
    {
        "ars": Algorithm(  # V1-t for functions, V2-t for policies
            _BEST, "ARS", _OF_BEST, _SOURCE, standardize=True
        ),
        "ars-v1": Algorithm(_ALL, "ARS V1", _OF_ALL, _SOURCE, standardize=False),
        "ars-v1-t": Algorithm(_BEST, "ARS V1-t", _OF_BEST, _SOURCE, standardize=False),
        "ars-v2": Algorithm(
            _ALL, "ARS V2", _OF_ALL, _SOURCE, train_only=_NO_OBSERVATIONS, standardize=True
        ),
        "ars-v2-t": Algorithm(
            _BEST, "ARS V2-t", _OF_BEST, _SOURCE, train_only=_NO_OBSERVATIONS, standardize=True
        ),
    }
)
