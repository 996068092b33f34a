r"""Linear regression, the paper's testing ground for the theory (eq. ``linregmodel``).

Every data point has its own parameters,

.. math:: y = \gamma^\top x + \epsilon,\; \epsilon \sim N(0, \sigma^2),\; x \sim N(0, Q),\;
          \gamma \sim U([0,2]^d),\; \sigma^2 \sim U(0,2),\; Q = V diag(\gamma) V^\top,\;
          V \sim U(SO(d)),

and the objective is the expected loss :math:`(y - \theta^\top x)^2/2`. Points are drawn exactly
in O(d): x has the law of :math:`\|\sqrt\gamma\circ z\|\,u` with u uniform on the sphere.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, estimators
from gensmooth.directions import Directions, NoClosedForm
from gensmooth.problems import protocol
from gensmooth.problems.protocol import RunResult
from gensmooth.problems.regression_mse import (
    Prediction,
    lemma,
    lemma_mse,
    predicted_mse,
    prediction,
)
from gensmooth.problems.regression_task import Data, Offline, Online, Regression, draw_data
from gensmooth.problems.regression_theory import (
    HessianSquares,
    gradient,
    hessian_squares,
    minimizer,
    noise_trace,
    objective,
)
from gensmooth.streams import Purpose, check_seed

__all__ = [
    "Data",
    "HessianSquares",
    "Prediction",
    "RunResult",
    "draw_data",
    "gradient",
    "hessian_squares",
    "lemma",
    "lemma_mse",
    "minimizer",
    "noise_trace",
    "objective",
    "point_loss",
    "predicted_mse",
    "prediction",
    "run",
]

Array = NDArray[np.float64]
Estimator = Literal["forward", "antithetic"]


def point_loss(theta: Array, rng: np.random.Generator) -> float:
    """(y − θᵀx)²/2 for one data point drawn from ``rng``: an objective fun(x, rng)."""
    gamma = rng.uniform(0.0, 2.0, theta.size)
    u = rng.standard_normal(theta.size)
    length2 = gamma @ rng.standard_normal(theta.size) ** 2
    x = np.sqrt(length2 / (u @ u)) * u
    noise = np.sqrt(rng.uniform(0.0, 2.0)) * rng.standard_normal()
    return float(0.5 * ((gamma - theta.reshape(-1)) @ x + noise) ** 2)


def run(
    directions: Directions,
    *,
    spacing: float,
    learning_rate: float,
    seed: int,
    num_directions: int,
    num_samples: int,
    dim: int = 100,
    rounds: int = 100,
    iterations: int = 10,
    test_size: int = 1000,
    dataset_size: int | None = None,
    estimator: Estimator = "forward",
) -> RunResult:
    """One run of the paper's protocol: SGD on N new points an iteration, a test each round.

    The start, the data of an iteration and the test set depend on the seed alone, not on the
    directions, and all points of an iteration share its data (``samples="shared"``).

    Args:
        directions: The method.
        spacing: c.
        learning_rate: η.
        seed: The seed of everything random.
        num_directions: L.
        num_samples: N, data points an iteration.
        dim: d.
        rounds: How many rounds.
        iterations: Iterations a round.
        test_size: Points of the test set.
        dataset_size: ``None`` draws new points every iteration (online, as in the paper); a
            number draws a data set of that size once, and each iteration takes N distinct points
            of it (offline).
        estimator: ``"forward"`` as in the paper, or ``"antithetic"``.

    Returns:
        Series: ``mse``, the squared error of the estimate against the exact gradient (offline:
        that of the data set's mean loss), mean over the round's iterations; ``test_loss`` after
        the round; ``gradient_norm2``, the mean of ‖∇F‖². Online also ``noise_trace``, the mean
        of tr Var[∇f], and, for directions with closed forms, ``predicted_mse`` (exact) and
        ``lemma_mse`` (the paper's) at the same iterates. The final score is the test loss.
    """
    counts = {
        "num_directions": num_directions,
        "num_samples": num_samples,
        "dim": dim,
        "rounds": rounds,
        "iterations": iterations,
        "test_size": test_size,
    }
    protocol.check_protocol(directions, spacing=spacing, learning_rate=learning_rate, counts=counts)
    seed = check_seed(seed)
    if estimator not in _ESTIMATORS:
        raise ValueError(f"`estimator` must be one of {tuple(_ESTIMATORS)}, not {estimator!r}.")
    size = {"num_directions": num_directions, "num_samples": num_samples, "dim": dim}
    if dataset_size is None:
        source = Online(num_samples, dim=dim, seed=seed)
        predictions = _predictions(directions, spacing=spacing, estimator=estimator, **size)
    else:
        _check_dataset(dataset_size, num_samples)
        source = Offline(num_samples, dim=dim, seed=seed, dataset_size=dataset_size)
        predictions = {}
    task = Regression(
        source,
        theta=protocol.start(seed, dim),
        test=draw_data(test_size, dim=dim, seed=seed, purpose=Purpose.TEST),
        spacing=spacing,
        learning_rate=learning_rate,
        antithetic=estimator == "antithetic",
        online=dataset_size is None,
        predictions=predictions,
    )
    return protocol.perform(
        task,
        directions,
        seed=seed,
        num_directions=num_directions,
        rounds=rounds,
        iterations=iterations,
        evaluations=_ESTIMATORS[estimator].evaluations(
            num_directions, num_samples=num_samples, samples="shared"
        ),
        score="test_loss",
    )


_ESTIMATORS: dict[Estimator, estimators.Estimator] = {
    "forward": estimators.ForwardDifference(),
    "antithetic": estimators.Antithetic(),
}


def _predictions(
    directions: Directions,
    *,
    dim: int,
    num_directions: int,
    num_samples: int,
    spacing: float,
    estimator: Estimator,
) -> dict[str, Prediction]:
    """The lines that go with the measured MSE; none for directions without closed forms."""
    try:
        return {
            "predicted_mse": prediction(
                directions,
                dim=dim,
                num_directions=num_directions,
                num_samples=num_samples,
                spacing=spacing,
                estimator=estimator,
            ),
            "lemma_mse": lemma(
                directions, dim=dim, num_directions=num_directions, num_samples=num_samples
            ),
        }
    except NoClosedForm:
        return {}


def _check_dataset(dataset_size: int, num_samples: int) -> None:
    checks.count("dataset_size", dataset_size)
    if dataset_size < num_samples:
        raise ValueError(
            f"`dataset_size` must be at least `num_samples`, {num_samples}, for mini-batches "
            f"without replacement, but is {dataset_size}."
        )
