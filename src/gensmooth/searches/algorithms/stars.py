r"""STARS: Gaussian directions × forward differences × constant steps, from noise and smoothness.

Chen and Wild, "Randomized derivative-free optimization of noisy convex functions" (2015), for
values with additive noise of standard deviation σ and a gradient with Lipschitz constant L₁:

    u_k ~ N(0, I);  μ = (8 σ² n / (L₁² (n + 6)³))^(1/4);  h = 1/(4 L₁ (n + 4))
    x ← x − h · [f(x + μ u_k) − f(x)]/μ · u_k

In our terms, σ is ``noise`` and h is the learning rate. L₁ follows from h as 1/(4 h (n + 4));
:func:`gensmooth.theory.stars_step` computes h from L₁. With ``num_directions`` above 1, estimates
are averaged. For multiplicative noise, see the directions :class:`~gensmooth.directions.Stars`.
"""

from typing import Any

from numpy.typing import NDArray

from gensmooth import optimizers
from gensmooth.directions import Stars
from gensmooth.estimators import ForwardDifference
from gensmooth.searches.algorithms.table import ALGORITHMS, Algorithm, Wanted
from gensmooth.searches.random_search import RandomSearch


def make(x: NDArray[Any], wanted: Wanted) -> RandomSearch:
    """Create STARS for additive noise."""
    wanted.refuse(
        "spacing",
        "x_scale",
        why="its spacing follows from `noise` and the step; gs.Stars takes both.",
    )
    noise = wanted.noise
    if isinstance(noise, bool) or not isinstance(noise, int | float) or noise <= 0:
        raise ValueError(
            "method='stars' needs `noise`, the standard deviation of a value, as a positive "
            f"number, but it is {noise!r}; and its step, `learning_rate`. Without noise use 'gs'; "
            "'auto' measures the noise."
        )
    if wanted.learning_rate is None:
        raise ValueError(
            "method='stars' needs its step as `learning_rate`: 1/(4 L (n + 4)), where L is "
            "the Lipschitz constant of the gradient, gs.theory.stars_step(n, smoothness=L)."
        )
    rate = wanted.rate(0.0)
    return RandomSearch(
        directions=Stars(smoothness=1 / (4 * rate * (x.size + 4)), noise=float(noise)),
        num_directions=wanted.number(1),
        spacing=1.0,
        estimator=ForwardDifference() if wanted.estimator is None else wanted.estimator,
        optimizer=optimizers.sgd(rate),
        **wanted.shared,
    )


ALGORITHMS["stars"] = Algorithm(
    make,
    "STARS",
    "N(0, 1), L = 1, spacing by noise",
    "Chen & Wild (2015)",
    directions="gs",
    num_directions=1,
)
