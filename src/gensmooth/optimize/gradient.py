"""``gradient``: one estimate of the gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gensmooth import checks
from gensmooth.directions import Directions, choose_directions
from gensmooth.estimators import Estimator, Samples
from gensmooth.evaluators import Objective, as_evaluator
from gensmooth.optimize.program import check_finite
from gensmooth.parameters import is_tree, with_arguments
from gensmooth.searches import FailurePolicy, GradientEstimate, RandomSearch
from gensmooth.trees import Tree


@checks.explains_unknown
def gradient(
    fun: Callable[..., Any],
    x: Any,
    *,
    args: Any = (),
    method: str | None = None,
    directions: Directions | None = None,
    num_directions: int = 20,
    spacing: float = 0.1,
    estimator: Estimator | str = "forward",
    samples: Samples | None = None,
    num_samples: int = 1,
    vectorized: bool | int = False,
    bounds: Any = None,
    on_failure: FailurePolicy = "raise",
    workers: Any = 1,
    threads: int = 1,
    seed: int | None = None,
) -> GradientEstimate:
    """Estimate the gradient of a black box at a point. The arguments are those of :func:`minimize`.

    If ``x`` is a structure of arrays, the estimate has the same structure.

    >>> import gensmooth as gs
    >>> import numpy as np
    >>> est = gs.gradient(lambda x: x @ x, np.ones(3), method="orthogonal", num_directions=3,
    ...                   estimator="antithetic", seed=0)
    >>> est.gradient.round(6), est.evaluations
    (array([2., 2., 2.]), 6)
    """
    tree = None
    if is_tree(x):
        x, tree = Tree.of(x)
        bounds = None if bounds is None else tree.bounds(bounds)
    family = choose_directions(method, directions)
    search = RandomSearch(
        directions=family if tree is None else family.shaped(tree.shapes),
        num_directions=num_directions,
        spacing=spacing,
        estimator=estimator,
        samples=samples,
        num_samples=num_samples,
        bounds=bounds,
        on_failure=on_failure,
        threads=threads,
    )
    of_array = with_arguments(checks.function("fun", fun), args)
    of_array = of_array if tree is None else tree.objective(of_array)
    objective = Objective(of_array, samples is not None, vectorized)
    state = search.init(x, seed=seed)
    batch = search.ask(state)
    with as_evaluator(workers).session(search, objective) as session:
        values = session.evaluate(state, batch).values
    if on_failure == "raise":
        check_finite(batch, values)
    estimate = search.estimate(batch, values)
    if not np.isfinite(estimate.gradient).all():
        raise ValueError(
            f"The estimate is not finite: differences of values, divided by the `spacing` of "
            f"{batch.spacing:g}, overflow."
        )
    gradient = estimate.gradient.reshape(state.x.shape)
    return estimate._replace(gradient=gradient if tree is None else tree.build(gradient))
