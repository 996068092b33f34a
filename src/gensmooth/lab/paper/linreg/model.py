r"""Linear regression, on which the paper tests its theory (eq. ``linregmodel``).

Every data point has its own parameters,

.. math:: y = \gamma^\top x + \epsilon,\; \epsilon \sim N(0, \sigma^2),\; x \sim N(0, Q),\;
          \gamma \sim U([0,2]^d),\; \sigma^2 \sim U(0,2),\; Q = V diag(\gamma) V^\top,\;
          V \sim U(SO(d)),

and the objective is the expected loss :math:`(y - \theta^\top x)^2/2`. Points are drawn exactly
in O(d): x is distributed as :math:`\|\sqrt\gamma\circ z\|\,u` with u uniform on the sphere.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks, estimators
from gensmooth.directions import Directions, NoClosedForm
from gensmooth.directions.draw import stream_key
from gensmooth.directions.vectors import Vectors
from gensmooth.lab.paper import protocol
from gensmooth.lab.paper.linreg.mse import (
    HessianSquares,
    Prediction,
    gradient,
    hessian_squares,
    lemma,
    lemma_mse,
    minimizer,
    noise_trace,
    noise_trace_of,
    objective,
    predicted_mse,
    prediction,
)
from gensmooth.lab.paper.protocol import RunResult
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


class Data(NamedTuple):
    """Data points: ``x`` of shape (n, d) and ``y`` of shape (n,)."""

    x: Array
    y: Array


def draw_data(
    num_points: int, *, dim: int, seed: int, step: int = 0, purpose: Purpose = Purpose.DATA
) -> Data:
    """Return the first data points at an address; more points begin with the same ones.

    Args:
        num_points: How many.
        dim: d.
        seed: The run's seed.
        step: The iteration that uses them.
        purpose: ``Purpose.DATA``, or ``Purpose.TEST`` for a test set.
    """
    data = Data(np.empty((num_points, dim)), np.empty(num_points))
    _kernels().sample(stream_key(seed, purpose, step), *data)
    return data


# Makes iterations on (blocks, factor, step, settings, state); False if one of them diverged.
_Iterate = Callable[[Array, float, int, Any, Any], bool]


def _online(num_samples: int, *, dim: int, seed: int) -> _Iterate:
    """New points from the model at every iteration; measured against ∇F(θ) = θ − μ·1."""
    key = stream_key(seed, Purpose.DATA, 0)
    data = Data(np.empty((num_samples, dim)), np.empty(num_samples))
    kernel, best = _kernels().online, minimizer(dim)
    return lambda blocks, factor, step, settings, state: kernel(
        blocks, factor, settings, key, step, best, data, state
    )


def _offline(num_samples: int, *, dim: int, seed: int, dataset_size: int) -> _Iterate:
    """N distinct points of a fixed data set at every iteration.

    The objective is the mean loss over the data set, and estimates are measured against its
    gradient, (1/n) Σ xᵢ(xᵢᵀθ − yᵢ) = Hθ − b.
    """
    key = stream_key(seed, Purpose.SAMPLE, 0)
    x, y = draw_data(dataset_size, dim=dim, seed=seed)
    dataset = (x, y, np.arange(dataset_size))
    hessian = Vectors(tuple(np.ascontiguousarray(x.T @ x) / dataset_size))
    moment = x.T @ y / dataset_size
    data = Data(np.empty((num_samples, dim)), np.empty(num_samples))

    def iterate(blocks: Array, factor: float, step: int, settings: Any, state: Any) -> bool:
        quadratic = (hessian.addresses, moment)  # `hessian` keeps the rows at these addresses alive
        return _kernels().offline(
            blocks, factor, settings, key, step, dataset, quadratic, data, state
        )

    return iterate


@final
class _Regression:
    """θ, the latest estimate, and the sums of a round's measurements."""

    def __init__(
        self,
        iterate: _Iterate,
        *,
        theta: Array,
        test: Data,
        spacing: float,
        learning_rate: float,
        antithetic: bool,
        online: bool,
        predictions: dict[str, Prediction],
    ) -> None:
        dim = len(theta)
        self.theta = theta
        self.gradient = np.empty(dim)
        self._iterate = iterate
        self._test = test
        self._online = online
        self._predictions = predictions
        self._totals = np.zeros(4)
        self._steps = 0
        self._settings = _kernels().RegressionSettings(
            spacing, learning_rate, antithetic, protocol.largest_length2(spacing, dim)
        )
        self._state = _kernels().RegressionState(theta, self.gradient, np.empty(dim), self._totals)

    def advance(self, blocks: Array, factor: float, step: int) -> bool:
        """See :meth:`gensmooth.lab.paper.protocol.Problem.advance`."""
        self._steps += len(blocks)
        return self._iterate(blocks, factor, step, self._settings, self._state)

    def measure(self) -> dict[str, float]:
        """Return the means over the round's iterations, and the test loss."""
        error2, gradient2, total, length2 = (self._totals / self._steps).tolist()
        self._totals[:] = 0.0
        self._steps = 0
        loss = float(_kernels().loss(*self._test, self.theta))
        measured = {"mse": error2, "test_loss": loss, "gradient_norm2": gradient2}
        if self._online:
            noise = noise_trace_of(len(self.theta), total, length2)
            measured["noise_trace"] = noise
            for name, predicted in self._predictions.items():
                measured[name] = predicted.at(gradient2, noise)
        return measured


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
    """Run the paper's protocol once: SGD on N new points per iteration, a test after each round.

    The start, the data of an iteration and the test set depend on the seed alone, not on the
    directions, and all points of an iteration share its data (``samples="shared"``).

    Args:
        directions: The method.
        spacing: c.
        learning_rate: η.
        seed: The seed of everything random.
        num_directions: L.
        num_samples: N, data points per iteration.
        dim: d.
        rounds: How many rounds.
        iterations: Iterations per round.
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
        iterate = _online(num_samples, dim=dim, seed=seed)
        predictions = _predictions(directions, spacing=spacing, estimator=estimator, **size)
    else:
        checks.count("dataset_size", dataset_size)
        if dataset_size < num_samples:
            raise ValueError(
                f"`dataset_size` must be at least `num_samples`, {num_samples}, for mini-batches "
                f"without replacement, but is {dataset_size}."
            )
        iterate = _offline(num_samples, dim=dim, seed=seed, dataset_size=dataset_size)
        predictions = {}
    task = _Regression(
        iterate,
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
    """Predictions of the measured MSE; none for directions without closed forms."""
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


@cache
def _kernels() -> Any:
    from gensmooth.lab.paper.linreg import kernels

    return kernels
