"""``gradient``: one estimate, without a step."""

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from gensmooth.directions import Directions
from gensmooth.estimators import Estimator, ForwardDifference, Samples
from gensmooth.evaluators import Objective, as_evaluator
from gensmooth.methods import choose_directions
from gensmooth.optimize.finite import check_finite
from gensmooth.search import FailurePolicy, GradientEstimate, RandomSearch


def gradient(
    fun: Callable[..., Any],
    x: ArrayLike,
    *,
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int = 20,
    spacing: float = 0.1,
    estimator: Estimator | None = None,
    samples: Samples | None = None,
    num_samples: int = 1,
    vectorized: bool | int = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    workers: Any = 1,
    threads: int = 1,
    seed: int | None = None,
) -> GradientEstimate:
    """Estimate the gradient of a black box at a point. Arguments as in :func:`minimize`.

    >>> import gensmooth as gs
    >>> import numpy as np
    >>> est = gs.gradient(lambda x: x @ x, np.ones(3), method="orthogonal", num_directions=3,
    ...                   estimator=gs.Antithetic(), seed=0)
    >>> est.gradient.round(6), est.evaluations
    (array([2., 2., 2.]), 6)
    """
    search = RandomSearch(
        directions=choose_directions(method, directions),
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimator if estimator is not None else ForwardDifference(),
        samples=samples,
        num_samples=num_samples,
        bounds=bounds,
        on_failure=on_failure,
        threads=threads,
    )
    state = search.init(x, seed=seed)
    batch = search.ask(state)
    objective = Objective(fun, samples is not None, vectorized)
    with as_evaluator(workers).session(search, objective) as session:
        values = session.evaluate(state, batch).values
    if on_failure == "raise":
        check_finite(batch, values)
    found = search.estimate(batch, values)
    return found._replace(gradient=found.gradient.reshape(state.x.shape))
