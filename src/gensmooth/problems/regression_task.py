"""Linear regression as a task of the protocol: where its data come from, and its iteration."""

from functools import cache
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth.directions.draw import stream_key
from gensmooth.problems import protocol
from gensmooth.problems.regression_mse import Prediction
from gensmooth.problems.regression_theory import minimizer, noise_trace_of
from gensmooth.streams import Purpose

Array = NDArray[np.float64]


class Data(NamedTuple):
    """Data points: ``x`` of shape (n, d) and ``y`` of shape (n,)."""

    x: Array
    y: Array


def draw_data(
    num_points: int, *, dim: int, seed: int, step: int = 0, purpose: Purpose = Purpose.DATA
) -> Data:
    """The first data points at an address; more points begin with the same ones.

    Args:
        num_points: How many.
        dim: d.
        seed: The run's seed.
        step: The iteration that they are for.
        purpose: ``Purpose.DATA``, or ``Purpose.TEST`` for a test set.
    """
    data = Data(np.empty((num_points, dim)), np.empty(num_points))
    _kernels().sample(stream_key(seed, purpose, step), *data)
    return data


class Source(Protocol):
    """Where the data of an iteration come from."""

    def advance(self, blocks: Array, factor: float, step: int, settings: Any, state: Any) -> bool:
        """Make iterations; False if one of them diverged."""
        ...


@final
class Online:
    """New points from the model at every iteration; measured against ∇F(θ) = θ − μ·1."""

    def __init__(self, num_samples: int, *, dim: int, seed: int) -> None:
        self._key = stream_key(seed, Purpose.DATA, 0)
        self._data = Data(np.empty((num_samples, dim)), np.empty(num_samples))
        self._minimizer = minimizer(dim)

    def advance(self, blocks: Array, factor: float, step: int, settings: Any, state: Any) -> bool:
        """See :meth:`Source.advance`."""
        return _kernels().online(
            blocks,
            factor,
            settings,
            self._key,
            step,
            self._minimizer,
            self._data,
            state,
        )


@final
class Offline:
    """N distinct points of a fixed data set at every iteration.

    The objective is the mean loss over the data set, and so is the gradient that estimates are
    measured against: (1/n) Σ xᵢ(xᵢᵀθ − yᵢ) = Hθ − b.
    """

    def __init__(self, num_samples: int, *, dim: int, seed: int, dataset_size: int) -> None:
        self._key = stream_key(seed, Purpose.SAMPLE, 0)
        x, y = draw_data(dataset_size, dim=dim, seed=seed)
        self._dataset = (x, y, np.arange(dataset_size))
        hessian = np.ascontiguousarray(x.T @ x) / dataset_size
        self._quadratic = (hessian, x.T @ y / dataset_size)
        self._data = Data(np.empty((num_samples, dim)), np.empty(num_samples))

    def advance(self, blocks: Array, factor: float, step: int, settings: Any, state: Any) -> bool:
        """See :meth:`Source.advance`."""
        return _kernels().offline(
            blocks,
            factor,
            settings,
            self._key,
            step,
            self._dataset,
            self._quadratic,
            self._data,
            state,
        )


@final
class Regression:
    """θ, the latest estimate, and the sums of what a round measures."""

    def __init__(
        self,
        source: Source,
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
        self._source = source
        self._test = test
        self._online = online
        self._predictions = predictions
        self._totals = np.zeros(4)
        self._steps = 0
        self._settings = _kernels().Settings(
            spacing, learning_rate, antithetic, protocol.largest_length2(spacing, dim)
        )
        self._state = _kernels().State(theta, self.gradient, np.empty(dim), self._totals)

    def advance(self, blocks: Array, factor: float, step: int) -> bool:
        """See :meth:`gensmooth.problems.protocol.Task.advance`."""
        self._steps += len(blocks)
        return self._source.advance(blocks, factor, step, self._settings, self._state)

    def measure(self) -> dict[str, float]:
        """The means over the round's iterations, and the test loss."""
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


@cache
def _kernels() -> Any:
    """The compiled kernels, imported when first used."""
    from gensmooth.problems import regression_kernels

    return regression_kernels
