"""Linear regression as a task of the protocol: where its data come from, and its iteration."""

from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import kernels
from gensmooth.directions.draw import KernelDraw, stream_key
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
    """The data of each iteration, and the gradient that they are noisy versions of."""

    def batch(self, step: int) -> Data:
        """The N points of an iteration; valid until the next call."""
        ...

    def exact(self, theta: Array, out: Array) -> None:
        """Put the gradient of the expected loss into ``out``."""
        ...


@final
class Online:
    """New points from the model at every iteration."""

    def __init__(self, num_samples: int, *, dim: int, seed: int) -> None:
        self._seed = seed
        self._data = Data(np.empty((num_samples, dim)), np.empty(num_samples))
        self._minimizer = minimizer(dim)
        self._sample = _kernels().sample

    def batch(self, step: int) -> Data:
        """See :meth:`Source.batch`."""
        self._sample(stream_key(self._seed, Purpose.DATA, step), *self._data)
        return self._data

    def exact(self, theta: Array, out: Array) -> None:
        """∇F(θ) = θ − μ·1."""
        np.subtract(theta, self._minimizer, out=out)


@final
class Offline:
    """N distinct points of a fixed data set at every iteration."""

    def __init__(self, num_samples: int, *, dim: int, seed: int, dataset_size: int) -> None:
        self._seed = seed
        self._all = draw_data(dataset_size, dim=dim, seed=seed)
        self._order = np.arange(dataset_size)
        self._chosen = np.empty(num_samples, np.int64)
        x, y = self._all
        self._hessian = np.ascontiguousarray(x.T @ x) / dataset_size
        self._moment = x.T @ y / dataset_size

    def batch(self, step: int) -> Data:
        """See :meth:`Source.batch`."""
        from gensmooth.problems import sampling

        key = stream_key(self._seed, Purpose.SAMPLE, step)
        sampling.subset(key, 0, self._order, self._chosen)
        return Data(self._all.x[self._chosen], self._all.y[self._chosen])

    def exact(self, theta: Array, out: Array) -> None:
        """The gradient of the mean loss over the data set, (1/n) Σ xᵢ(xᵢᵀθ − yᵢ)."""
        kernels.on_directions().dots(self._hessian, theta, out)
        out -= self._moment


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
        num_directions: int,
        antithetic: bool,
        online: bool,
        predictions: dict[str, Prediction],
    ) -> None:
        self.theta = theta
        self.gradient = np.empty_like(theta)
        self._source = source
        self._test = test
        self._spacing = spacing
        self._rate = learning_rate
        self._antithetic = antithetic
        self._online = online
        self._predictions = predictions
        self._exact = np.empty_like(theta)
        self._block = np.empty((num_directions, len(theta)))
        self._totals = np.zeros(4)
        self._steps = 0
        self._kernels = _kernels()

    def step(self, draw: KernelDraw, step: int) -> bool:
        """See :meth:`gensmooth.problems.protocol.Task.step`."""
        x, y = self._source.batch(step)
        self._kernels.estimate(
            draw.law,
            draw.factor,
            x,
            y,
            self.theta,
            self._spacing,
            self._antithetic,
            self._block,
            self.gradient,
        )
        self._source.exact(self.theta, self._exact)
        after2 = self._kernels.descend(
            self.theta, self.gradient, self._exact, self._rate, self._totals
        )
        self._steps += 1
        return not protocol.out_of_range(after2, len(self.theta), self._spacing)

    def measure(self) -> dict[str, float]:
        """The means over the round's iterations, and the test loss."""
        error2, gradient2, total, length2 = (self._totals / self._steps).tolist()
        self._totals[:] = 0.0
        self._steps = 0
        loss = float(self._kernels.loss(*self._test, self.theta))
        measured = {"mse": error2, "test_loss": loss, "gradient_norm2": gradient2}
        if self._online:
            noise = noise_trace_of(len(self.theta), total, length2)
            measured["noise_trace"] = noise
            for name, predicted in self._predictions.items():
                measured[name] = predicted.at(gradient2, noise)
        return measured


def _kernels() -> Any:
    """The compiled kernels, imported when first used."""
    from gensmooth.problems import regression_kernels

    return regression_kernels
