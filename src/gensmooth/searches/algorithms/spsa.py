r"""SPSA, simultaneous perturbation: BeS with one direction and Spall's gain sequences.

Spall, "Multivariate stochastic approximation using a simultaneous perturbation gradient
approximation" (1992), and "Implementation of the simultaneous perturbation algorithm for stochastic
optimization" (1998):

    Δ_k: d fair signs;  c_k = c/(k + 1)^0.101;  a_k = a/(A + k + 1)^0.602
    two measurements:  g = [F(x + c_k Δ_k) − F(x − c_k Δ_k)]/(2 c_k) · Δ_k
    one (1997):        g = F(x + c_k Δ_k)/c_k · Δ_k
    x ← x − a_k g

(dividing by a sign is the same as multiplying by it). This is Bernoulli smoothing with one
direction, antithetic or one-point differences, and two gain sequences. With ``num_directions``
above 1, estimates are averaged, as Spall suggests for noisy values. In our terms, c is ``spacing``
and a is the learning rate.

A is a tenth of the steps that the budget allows, as Spall advises. His a and c depend on the
problem. Our default for c is 0.1, the library's usual spacing; if the noise is large, c should be
its standard deviation. For a we use his rule that a parameter should change by a chosen amount in
the first steps (:func:`~gensmooth.optimizers.spall`). The amount is 0.1, or 1/√d above 100
parameters, where longer steps along a single direction diverge. With one measurement, the estimate
is mostly F(x)/c times a random sign, so the steps are mostly a random walk. On a sphere, steps of
more than 4c/d per parameter then increase F on average, so the amount is c/d.
"""

import math
from functools import partial
from typing import Any

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.directions import Bernoulli
from gensmooth.estimators import Antithetic, Estimator, OnePoint, as_estimator
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import RandomSearch

SPACING = 0.1  # c
SPACING_POWER, STEP_POWER = 0.101, 0.602  # γ, α
STABILITY = 0.1  # Spall's stability constant A, relative to the number of steps
CHANGE = 0.1  # change of a parameter in the first steps


def make(x: NDArray[Any], wanted: Wanted, *, measurements: int) -> RandomSearch:
    """Create SPSA with one or two measurements per direction."""
    number, spacing = wanted.number(1), wanted.spacing
    if not callable(spacing):
        c = wanted.constant_spacing(SPACING)
        spacing = optimizers.inverse_decay(c, power=SPACING_POWER)  # c / (k + 1)^γ
    c = float(spacing(0))
    estimator: Estimator = Antithetic() if measurements == 2 else OnePoint()
    estimator = estimator if wanted.estimator is None else as_estimator(wanted.estimator)
    optimizer = wanted.optimizer
    if optimizer is None:
        per_step = estimator.evaluations(
            number, num_samples=wanted.num_samples, samples=wanted.samples
        )
        A = STABILITY * (wanted.steps(per_step) or 0)
        if wanted.learning_rate is None:
            most = c / x.size if measurements == 1 else 1 / math.sqrt(x.size)
            change = min(CHANGE, most)
            optimizer = optimizers.spall(change, stability=A, power=STEP_POWER)
        else:  # a / (A + k + 1)^α
            first = wanted.rate(0.0) / (A + 1) ** STEP_POWER
            gain = optimizers.inverse_decay(first, steps=A + 1, power=STEP_POWER)
            optimizer = optimizers.sgd(gain)
    return RandomSearch(
        directions=Bernoulli(),
        num_directions=number,
        spacing=spacing,
        estimator=estimator,
        optimizer=optimizer,
        **wanted.shared,
    )


ALGORITHMS["spsa"] = Algorithm(
    partial(make, measurements=2),
    "SPSA",
    "±1, one pair",
    "Spall (1992, 1998)",
    directions="bes",
    num_directions=1,
)
ALGORITHMS["spsa-1"] = Algorithm(
    partial(make, measurements=1), "SPSA, one measurement", "±1, one point", "Spall (1997)"
)
