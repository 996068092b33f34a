r"""ARS, augmented random search: Gaussian × best pairs × gradient descent.

Mania, Guy & Recht, "Simple random search provides a competitive approach to reinforcement
learning" (2018), algorithm 2, for a minimum:

    δ_1, …, δ_N ~ N(0, I);  values at x ± ν δ_k
    sort the directions by min{F(x + ν δ_k), F(x − ν δ_k)}, keep the best b
    x ← x − α/(b σ_R) Σ_{k ≤ b} [F(x + ν δ_k) − F(x − ν δ_k)] δ_k

with σ_R the standard deviation of the 2b values in the sum. V1 keeps all (b = N), V1-t the best; V2
and V2-t do the same with standardised observations, which only a training has. Our names: N is
``num_directions``, ν ``spacing``, α ``learning_rate``, b that of ``gs.BestPairs(b)``. The
sum is :class:`~gensmooth.estimators.BestPairs`' estimate times 2ν: the step is ``sgd(2αν)``.

The numbers are the defaults of the authors' program, N = 8, α = 0.02, ν = 0.03. It has no default
for b < N: half, as the authors have for Hopper (8 and 4).
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
    "V2 standardises observations, of which a function has none. 'ars-v1' and 'ars-v1-t' are the "
    "same without; gs.rl.train(...) trains a policy by it."
)


def make(x: NDArray[Any], wanted: Wanted, *, top: bool) -> RandomSearch:  # noqa: ARG001
    """ARS; ``top``: with the best half of the directions, unless an estimator says otherwise."""
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
        "ars": Algorithm(  # V1-t of functions, V2-t of policies
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
